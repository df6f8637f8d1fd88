//! Normalisations.

use tenon_graph_builder::Handle;
use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Normalize, NormalizeKind, ReduceKind};
use tenon_tensor::DType;

use super::promotion::wide;
use crate::error::OpError;
use crate::import::op::{OpImport, Out, Results};

/// The machine epsilon that RMS norm takes where none is given.
fn machine_epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f64::from(f32::EPSILON),
    }
}

/// Scale and bias, of which torch may have only the second.
fn with_affine(
    op: &mut OpImport<'_, '_, '_>,
    normalize: Normalize,
    x: Handle,
    weight: Option<Handle>,
    bias: Option<Handle>,
) -> Result<Handle, OpError> {
    match (weight, bias) {
        (None, Some(bias)) => {
            let normal = op.emit_one(normalize, &[x])?;
            Ok(op.apply(Function::Add, &[normal, bias])?)
        }
        _ => {
            let operands: Vec<Handle> = [x].into_iter().chain(weight).chain(bias).collect();
            Ok(op.emit_one(normalize, &operands)?)
        }
    }
}

/// layer_norm and rms_norm over the last dimensions; `native_layer_norm` gives mean and inverse deviation too.
pub(super) fn last_dimensions(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("input")?;
    let count = op.dims("normalized_shape")?.len();
    let rank = op.rank(x);
    if count == 0 || count > rank {
        return Err(op.invalid(format!("normalisation over {count} dimensions of {}", op.ty(x))));
    }
    let axes: Vec<usize> = (rank - count..rank).collect();
    let is_rms = op.name.contains("rms");
    let epsilon = match op.is_none("eps") {
        true => machine_epsilon(op.element(x)),
        false => op.float("eps")?,
    };
    let weight = op.optional_tensor("weight")?;
    let bias = if is_rms { None } else { op.optional_tensor("bias")? };
    let kind = if is_rms { NormalizeKind::Rms } else { NormalizeKind::Layer };
    let normalize = Normalize { kind, axes: axes.iter().map(|axis| *axis as i64).collect(), epsilon };
    let mut outs = vec![Out::New(with_affine(op, normalize, x, weight, bias)?)];
    if op.name == "native_layer_norm" {
        outs.extend(statistics(op, x, &axes, epsilon)?);
    }
    Ok(outs)
}

/// Mean and inverse deviation, axes kept.
fn statistics(op: &mut OpImport<'_, '_, '_>, x: Handle, axes: &[usize], epsilon: f64) -> Result<[Out; 2], OpError> {
    let compute = wide(op.element(x));
    let x = op.cast(x, compute)?;
    let mean = op.reduce(ReduceKind::Mean, x, axes, true)?;
    let centred = op.apply(Function::Subtract, &[x, mean])?;
    let squares = op.apply(Function::Multiply, &[centred, centred])?;
    let variance = op.reduce(ReduceKind::Mean, squares, axes, true)?;
    let epsilon = op.scalar(epsilon, compute)?;
    let sum = op.apply(Function::Add, &[variance, epsilon])?;
    let inverse = op.apply(Function::Rsqrt, &[sum])?;
    Ok([Out::New(mean), Out::New(inverse)])
}

/// A list as `[C, 1, …]`, beside a tensor of rank `rank` whose channels are dimension 1.
fn by_channel(op: &mut OpImport<'_, '_, '_>, list: Handle, rank: usize) -> Result<Handle, OpError> {
    let mut shape = op.extents(list);
    shape.resize(rank.max(2) - 1, 1.into());
    Ok(op.reshape(list, shape)?)
}

/// Batch normalisation of inference: (x - mean) / √(variance + ε) · weight + bias, in at least f32.
pub(super) fn batch(op: &mut OpImport<'_, '_, '_>) -> Results {
    if op.has("training") && op.flag("training")? || op.has("train") && op.flag("train")? {
        return Err(op.unsupported("batch normalisation in training (call `model.eval()` before exporting)"));
    }
    let x = op.tensor("input")?;
    let dtype = op.element(x);
    let rank = op.rank(x);
    if rank < 2 {
        return Err(op.invalid("a batch of channels is needed"));
    }
    let compute = wide(dtype);
    let parameter = |op: &mut OpImport<'_, '_, '_>, name: &str| -> Result<Option<Handle>, OpError> {
        let Some(list) = op.optional_tensor(name)? else { return Ok(None) };
        let list = op.cast(list, compute)?;
        by_channel(op, list, rank).map(Some)
    };
    let missing = || OpError::Option("batch normalisation without running statistics".to_owned());
    let mean = parameter(op, "running_mean")?.ok_or_else(missing)?;
    let variance = parameter(op, "running_var")?.ok_or_else(missing)?;
    let (weight, bias) = (parameter(op, "weight")?, parameter(op, "bias")?);
    let epsilon = op.float("eps")?;
    let epsilon = op.scalar(epsilon, compute)?;
    let sum = op.apply(Function::Add, &[variance, epsilon])?;
    let deviation = op.apply(Function::Sqrt, &[sum])?;
    let wide_x = op.cast(x, compute)?;
    let centred = op.apply(Function::Subtract, &[wide_x, mean])?;
    let mut result = op.apply(Function::Divide, &[centred, deviation])?;
    if let Some(weight) = weight {
        result = op.apply(Function::Multiply, &[result, weight])?;
    }
    if let Some(bias) = bias {
        result = op.apply(Function::Add, &[result, bias])?;
    }
    let result = op.cast(result, dtype)?;
    let mut outs = vec![Out::New(result)];
    if op.output_names().len() > 1 {
        // Statistics of the batch are empty in inference.
        let empty = op.literal(compute, &[0], &[])?;
        outs.extend([Out::New(empty), Out::New(empty)]);
    }
    Ok(outs)
}

/// Over the channels of a group and all places; weight and bias by channel.
pub(super) fn group(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("input")?;
    let rank = op.rank(x);
    if rank < 2 {
        return Err(op.invalid("a batch of channels is needed"));
    }
    let groups = op.int(if op.has("num_groups") { "num_groups" } else { "group" })?;
    let channels = op.fixed(x, 1, "groups")?;
    if groups < 1 || channels % groups != 0 {
        return Err(op.invalid(format!("{groups} groups of {channels} channels")));
    }
    let epsilon = op.float("eps")?;
    grouped(op, x, groups, channels, epsilon)
}

fn grouped(op: &mut OpImport<'_, '_, '_>, x: Handle, groups: i64, channels: i64, epsilon: f64) -> Results {
    let shape = op.extents(x);
    let rank = shape.len();
    let parts: Vec<DimExpr> = [shape[0].clone(), groups.into(), (channels / groups).into()]
        .into_iter()
        .chain(shape[2..].iter().cloned())
        .collect();
    let x = op.reshape(x, parts)?;
    let parameter = |op: &mut OpImport<'_, '_, '_>, name: &str| -> Result<Option<Handle>, OpError> {
        let Some(list) = op.optional_tensor(name)? else { return Ok(None) };
        let mut by_channel: Vec<DimExpr> = vec![groups.into(), (channels / groups).into()];
        by_channel.resize(rank, 1.into());
        Ok(Some(op.reshape(list, by_channel)?))
    };
    let (weight, bias) = (parameter(op, "weight")?, parameter(op, "bias")?);
    let axes: Vec<usize> = (2..rank + 1).collect();
    let normalize =
        Normalize { kind: NormalizeKind::Layer, axes: axes.iter().map(|axis| *axis as i64).collect(), epsilon };
    let result = with_affine(op, normalize, x, weight, bias)?;
    let mut outs = vec![Out::New(op.reshape(result, shape.clone())?)];
    if op.name == "native_group_norm" {
        for out in statistics(op, x, &axes, epsilon)? {
            if let Out::New(handle) = out {
                outs.push(Out::New(op.reshape(handle, vec![shape[0].clone(), groups.into()])?));
            }
        }
    }
    Ok(outs)
}

/// Over the places of each channel.
pub(super) fn instance(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("input")?;
    if !op.flag("use_input_stats")? {
        return Err(op.unsupported("instance normalisation with running statistics"));
    }
    let channels = op.fixed(x, 1, "instance normalisation")?;
    let epsilon = op.float("eps")?;
    grouped(op, x, channels, channels, epsilon)
}
