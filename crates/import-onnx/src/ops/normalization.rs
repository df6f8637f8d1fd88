//! Normalisations.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Normalize, NormalizeKind, ReduceKind, Window, WindowKind};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, product};

/// The type that statistics and their use are computed in.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// BatchNormalization: (x - mean) / √(variance + ε) · scale + bias, in at least f32, in this order. In
/// training mode mean and variance are those of the batch, and the running ones are outputs.
pub(super) fn batch(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(5..=5)?;
    let x = op.input(0)?;
    let dtype = op.dtype(x);
    let rank = op.rank_at_least(x, 1)?;
    let epsilon = op.node.float_or("epsilon", 1e-5)?;
    let momentum = op.node.float_or("momentum", 0.9)?;
    if op.since < 9 && !op.node.flag_or("spatial", true)? {
        return Err(op.unsupported("`spatial` = 0"));
    }
    let training = op.since >= 14 && op.node.flag_or("training_mode", false)?;
    let wide = wide(dtype);
    let mut parameters = [x; 4];
    for (index, slot) in parameters.iter_mut().enumerate() {
        let parameter = op.input(index + 1)?;
        let parameter = op.cast(parameter, wide)?;
        *slot = match rank {
            1 => parameter,
            _ => op.along_axis(parameter, 1, rank)?,
        };
    }
    let [scale, bias, mut mean, mut variance] = parameters;
    let mut running = Vec::new();
    if training {
        let batch = batch_statistics(op, x, wide)?;
        for (given, (index, found)) in [mean, variance].into_iter().zip(batch.into_iter().enumerate()) {
            running.push(blend(op, given, found, f64::from(momentum), index + 3)?);
        }
        [mean, variance] = batch;
    }
    let epsilon = op.scalar(f64::from(epsilon), wide)?;
    let sum = op.apply(Function::Add, &[variance, epsilon])?;
    let deviation = op.apply(Function::Sqrt, &[sum])?;
    let x = op.cast(x, wide)?;
    let centred = op.apply(Function::Subtract, &[x, mean])?;
    let normal = op.apply(Function::Divide, &[centred, deviation])?;
    let scaled = op.apply(Function::Multiply, &[normal, scale])?;
    let result = op.apply(Function::Add, &[scaled, bias])?;
    let mut outputs = vec![op.cast(result, dtype)?];
    outputs.extend(running);
    Ok(outputs)
}

/// Mean and variance of each channel over all other dimensions, `[1, C, 1…]`.
fn batch_statistics(op: &mut OpImport<'_, '_, '_>, x: Handle, wide: DType) -> Result<[Handle; 2], ImportError> {
    let axes: Vec<usize> = (0..op.rank_at_least(x, 2)?).filter(|axis| *axis != 1).collect();
    let x = op.cast(x, wide)?;
    let mean = op.reduce(ReduceKind::Mean, x, &axes, true)?;
    let centred = op.apply(Function::Subtract, &[x, mean])?;
    let squares = op.apply(Function::Multiply, &[centred, centred])?;
    Ok([mean, op.reduce(ReduceKind::Mean, squares, &axes, true)?])
}

/// A running statistic after a batch: given · momentum + found · (1 - momentum), in the type and shape of input `index`.
fn blend(
    op: &mut OpImport<'_, '_, '_>,
    given: Handle,
    found: Handle,
    momentum: f64,
    index: usize,
) -> Result<Handle, ImportError> {
    let wide = op.dtype(given);
    let (keep, take) = (op.scalar(momentum, wide)?, op.scalar(1.0 - momentum, wide)?);
    let kept = op.apply(Function::Multiply, &[given, keep])?;
    let taken = op.apply(Function::Multiply, &[found, take])?;
    let sum = op.apply(Function::Add, &[kept, taken])?;
    let input = op.input(index)?;
    let (dtype, shape) = (op.dtype(input), op.extents(input));
    let sum = op.reshape(sum, shape)?;
    op.cast(sum, dtype)
}

/// InstanceNormalization: over the spatial dimensions of each channel.
pub(super) fn instance(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=3)?;
    let x = op.input(0)?;
    let rank = op.rank_at_least(x, 3)?;
    let epsilon = f64::from(op.node.float_or("epsilon", 1e-5)?);
    let (scale, bias) = (op.input(1)?, op.input(2)?);
    let scale = op.along_axis(scale, 1, rank)?;
    let bias = op.along_axis(bias, 1, rank)?;
    let axes = (2..rank as i64).collect();
    Ok(vec![op.emit(Normalize { kind: NormalizeKind::Layer, axes, epsilon }, &[x, scale, bias])?])
}

/// GroupNormalization: over the channels of a group and the spatial dimensions; scale and bias by channel.
pub(super) fn group(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=3)?;
    let x = op.input(0)?;
    let rank = op.rank_at_least(x, 2)?;
    let epsilon = f64::from(op.node.float_or("epsilon", 1e-5)?);
    let groups = op.node.required("num_groups", op.node.int("num_groups")?)?;
    stash_type(op)?;
    let channels = op.fixed_dim(x, 1, "groups")?;
    if groups < 1 || channels % groups != 0 {
        return Err(op.node.attribute_error(
            "num_groups",
            "a divisor of the number of channels",
            format!("is {groups}"),
        ));
    }
    let shape = op.extents(x);
    let grouped: Vec<DimExpr> = [shape[0].clone(), groups.into(), (channels / groups).into()]
        .into_iter()
        .chain(shape[2..].iter().cloned())
        .collect();
    let x = op.reshape(x, grouped)?;
    let mut operands = vec![x];
    for index in [1, 2] {
        let parameter = op.input(index)?;
        if op.rank(parameter) != 1 {
            return Err(op.invalid("scale and bias must be lists"));
        }
        let mut by_channel: Vec<DimExpr> = vec![groups.into(), (channels / groups).into()];
        by_channel.resize(rank, 1.into());
        operands.push(op.reshape(parameter, by_channel)?);
    }
    let axes = (2..rank as i64 + 1).collect();
    let result = op.emit(Normalize { kind: NormalizeKind::Layer, axes, epsilon }, &operands)?;
    Ok(vec![op.reshape(result, shape)?])
}

/// Statistics are taken in f32 at least; other wishes are refused.
fn stash_type(op: &OpImport<'_, '_, '_>) -> Result<(), ImportError> {
    match op.node.int_or("stash_type", 1)? {
        1 => Ok(()),
        other => Err(op.node.attribute_error("stash_type", "1 (f32)", format!("is {other}"))),
    }
}

/// LayerNormalization over the dimensions from `axis` on, with mean and inverse deviation if they are wanted.
pub(super) fn layer(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=3)?;
    let x = op.input(0)?;
    let axis = op.axis(op.node.int_or("axis", -1)?, op.rank(x))?;
    let epsilon = f64::from(op.node.float_or("epsilon", 1e-5)?);
    stash_type(op)?;
    let operands: Vec<Handle> = op.inputs()?;
    let axes: Vec<usize> = (axis..op.rank(x)).collect();
    let list = axes.iter().map(|axis| *axis as i64).collect();
    let mut outputs = vec![op.emit(Normalize { kind: NormalizeKind::Layer, axes: list, epsilon }, &operands)?];
    if op.wants(1) || op.wants(2) {
        let x = op.cast(x, DType::F32)?;
        let mean = op.reduce(ReduceKind::Mean, x, &axes, true)?;
        let centred = op.apply(Function::Subtract, &[x, mean])?;
        let squares = op.apply(Function::Multiply, &[centred, centred])?;
        let variance = op.reduce(ReduceKind::Mean, squares, &axes, true)?;
        let epsilon = op.scalar(epsilon, DType::F32)?;
        let sum = op.apply(Function::Add, &[variance, epsilon])?;
        let deviation = op.apply(Function::Sqrt, &[sum])?;
        let inverse = op.apply(Function::Reciprocal, &[deviation])?;
        outputs.extend([mean, inverse]);
    }
    Ok(outputs)
}

/// RMSNormalization over the dimensions from `axis` on.
pub(super) fn rms(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let operands = op.inputs()?;
    let rank = op.rank(operands[0]);
    let axis = op.axis(op.node.int_or("axis", -1)?, rank)?;
    let epsilon = f64::from(op.node.float_or("epsilon", 1e-5)?);
    stash_type(op)?;
    let axes = (axis as i64..rank as i64).collect();
    Ok(vec![op.emit(Normalize { kind: NormalizeKind::Rms, axes, epsilon }, &operands)?])
}

/// LRN: x / (bias + alpha/size · Σ x² over `size` channels around each)^beta.
pub(super) fn local_response(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    op.rank_at_least(x, 2)?;
    let dtype = op.dtype(x);
    let size = op.node.required("size", op.node.int("size")?)?;
    if !(1..=1 << 20).contains(&size) {
        return Err(op.node.attribute_error("size", "a number of channels", format!("is {size}")));
    }
    let alpha = op.node.float_or("alpha", 1e-4)?;
    let beta = op.node.float_or("beta", 0.75)?;
    let bias = op.node.float_or("bias", 1.0)?;
    let squares = op.apply(Function::Multiply, &[x, x])?;
    // Channels as a spatial dimension.
    let shape = op.extents(x);
    let inner = product(&shape[2..]).ok_or_else(|| op.unsupported("a number of elements this large"))?;
    let image = op.reshape(squares, vec![shape[0].clone(), 1.into(), shape[1].clone(), inner])?;
    let window = Window {
        kind: WindowKind::Sum,
        kernel: vec![size, 1],
        strides: vec![1, 1],
        dilations: vec![1, 1],
        pad_begin: vec![(size - 1) / 2, 0],
        pad_end: vec![size - 1 - (size - 1) / 2, 0],
        ceil: false,
        count_include_pad: false,
    };
    let sums = op.emit(window, &[image])?;
    let sums = op.reshape(sums, shape)?;
    let factor = op.scalar(f64::from(alpha) / size as f64, dtype)?;
    let scaled = op.apply(Function::Multiply, &[sums, factor])?;
    let bias = op.scalar(f64::from(bias), dtype)?;
    let base = op.apply(Function::Add, &[scaled, bias])?;
    let beta = op.scalar(f64::from(beta), dtype)?;
    let divisor = op.apply(Function::Power, &[base, beta])?;
    Ok(vec![op.apply(Function::Divide, &[x, divisor])?])
}

/// LpNormalization: x by its norm along an axis; 0 where the norm is 0.
pub(super) fn lp(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let dtype = op.dtype(x);
    let axis = op.axis(op.node.int_or("axis", -1)?, op.rank(x))?;
    let norm = match op.node.int_or("p", 2)? {
        1 => {
            let sizes = op.apply(Function::Abs, &[x])?;
            op.reduce(ReduceKind::Sum, sizes, &[axis], true)?
        }
        2 => {
            let squares = op.apply(Function::Multiply, &[x, x])?;
            let sum = op.reduce(ReduceKind::Sum, squares, &[axis], true)?;
            op.apply(Function::Sqrt, &[sum])?
        }
        other => return Err(op.node.attribute_error("p", "1 or 2", format!("is {other}"))),
    };
    let zero = op.scalar(0.0, dtype)?;
    let none = op.apply(Function::Equal, &[norm, zero])?;
    let quotient = op.apply(Function::Divide, &[x, norm])?;
    Ok(vec![op.apply(Function::Select, &[none, zero, quotient])?])
}

/// MeanVarianceNormalization: (x - mean) / (√(mean(x²) - mean²) + 1e-9).
pub(super) fn mean_variance(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let dtype = op.dtype(x);
    let axes = op.node.ints("axes")?.unwrap_or(&[0, 2, 3]);
    let axes = op.axes(axes, op.rank(x))?;
    let mean = op.reduce(ReduceKind::Mean, x, &axes, true)?;
    let squares = op.apply(Function::Multiply, &[x, x])?;
    let mean_square = op.reduce(ReduceKind::Mean, squares, &axes, true)?;
    let square_mean = op.apply(Function::Multiply, &[mean, mean])?;
    let variance = op.apply(Function::Subtract, &[mean_square, square_mean])?;
    let deviation = op.apply(Function::Sqrt, &[variance])?;
    let epsilon = op.scalar(1e-9, dtype)?;
    let divisor = op.apply(Function::Add, &[deviation, epsilon])?;
    let centred = op.apply(Function::Subtract, &[x, mean])?;
    Ok(vec![op.apply(Function::Divide, &[centred, divisor])?])
}
