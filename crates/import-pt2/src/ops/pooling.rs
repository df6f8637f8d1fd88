//! Pooling: windows, and windows that follow from the size of the result.

use tenon_graph_builder::Handle;
use tenon_graph_dialect::operators::{Contract, Function, ReduceKind, Window, WindowKind};
use tenon_tensor::DType;

use super::promotion::wide;
use crate::error::OpError;
use crate::import::op::{OpImport, Out, Results, one};

/// The number of spatial dimensions in the operator's name, `avg_pool2d`.
fn spatial(op: &OpImport<'_, '_, '_>) -> Result<usize, OpError> {
    let digit = op.name.chars().zip(op.name.chars().skip(1)).find(|(digit, d)| *d == 'd' && digit.is_ascii_digit());
    digit
        .and_then(|(digit, _)| digit.to_digit(10))
        .map(|digit| digit as usize)
        .ok_or_else(|| op.invalid("the operator names no rank"))
}

/// The operand with a batch, and whether one was added.
fn batched(op: &mut OpImport<'_, '_, '_>, x: Handle, spatial: usize) -> Result<(Handle, bool), OpError> {
    match op.rank(x) {
        rank if rank == spatial + 2 => Ok((x, false)),
        rank if rank == spatial + 1 => {
            let shape = [1.into()].into_iter().chain(op.extents(x)).collect();
            Ok((op.reshape(x, shape)?, true))
        }
        rank => Err(op.invalid(format!("an operand of rank {rank}"))),
    }
}

fn unbatched(op: &mut OpImport<'_, '_, '_>, x: Handle, added: bool) -> Result<Handle, OpError> {
    if !added {
        return Ok(x);
    }
    let shape = op.extents(x)[1..].to_vec();
    Ok(op.reshape(x, shape)?)
}

/// max_pool and avg_pool.
pub(super) fn windows(op: &mut OpImport<'_, '_, '_>) -> Results {
    let spatial = spatial(op)?;
    let x = op.tensor("self")?;
    let (x, added) = batched(op, x, spatial)?;
    let kernel = op.spread("kernel_size", spatial)?;
    let strides = match op.dims("stride")?.is_empty() {
        true => kernel.clone(),
        false => op.spread("stride", spatial)?,
    };
    let padding = op.spread("padding", spatial)?;
    let is_max = op.name.starts_with("max");
    let dilations = if is_max { op.spread("dilation", spatial)? } else { vec![1; spatial] };
    let divisor = if is_max {
        None
    } else {
        op.has("divisor_override").then(|| op.optional_int("divisor_override")).transpose()?.flatten()
    };
    let kind = match (is_max, divisor) {
        (true, _) => WindowKind::Max,
        (false, Some(_)) => WindowKind::Sum,
        (false, None) => WindowKind::Average,
    };
    let window = Window {
        kind,
        kernel,
        strides,
        dilations,
        pad_begin: padding.clone(),
        pad_end: padding,
        ceil: op.flag("ceil_mode")?,
        count_include_pad: !is_max && op.flag("count_include_pad")?,
    };
    let mut result = op.emit_one(window, &[x])?;
    if let Some(divisor) = divisor {
        let divisor = op.scalar(divisor as f64, op.element(result))?;
        result = op.apply(Function::Divide, &[result, divisor])?;
    }
    one(unbatched(op, result, added)?)
}

/// The mean or largest of windows that tile each dimension to the size of the result.
pub(super) fn adaptive(op: &mut OpImport<'_, '_, '_>) -> Results {
    let spatial = spatial(op)?;
    let x = op.tensor("self")?;
    let (x, added) = batched(op, x, spatial)?;
    let sizes = op.dims("output_size")?;
    let is_max = op.name.contains("max");
    if sizes.len() != spatial {
        return Err(op.invalid(format!("{} sizes for {spatial} dimensions", sizes.len())));
    }
    let axes: Vec<usize> = (2..spatial + 2).collect();
    let result = if sizes.iter().all(|size| size.as_constant() == Some(1)) {
        op.reduce(if is_max { ReduceKind::Max } else { ReduceKind::Mean }, x, &axes, true)?
    } else {
        let mut wanted = Vec::new();
        for (axis, size) in axes.iter().zip(&sizes) {
            let size = if *size == op.at(x, *axis).extent {
                op.fixed(x, *axis, "adaptive pooling")?
            } else {
                size.as_constant().unwrap_or(0)
            };
            wanted.push((op.fixed(x, *axis, "adaptive pooling")?, size));
        }
        if wanted.iter().any(|(_, size)| *size < 1) {
            return Err(op.unsupported("adaptive pooling to a size that is not known"));
        }
        if wanted.iter().all(|(from, to)| from % to == 0) {
            let kernel: Vec<i64> = wanted.iter().map(|(from, to)| from / to).collect();
            let window = Window {
                kind: if is_max { WindowKind::Max } else { WindowKind::Average },
                kernel: kernel.clone(),
                strides: kernel,
                dilations: vec![1; spatial],
                pad_begin: vec![0; spatial],
                pad_end: vec![0; spatial],
                ceil: false,
                count_include_pad: false,
            };
            op.emit_one(window, &[x])?
        } else if is_max {
            return Err(op.unsupported("adaptive maximum over windows of different sizes"));
        } else {
            means(op, x, &wanted)?
        }
    };
    Ok(vec![Out::New(unbatched(op, result, added)?)])
}

/// Means of uneven windows, one dimension after another: products with a matrix of shares.
fn means(op: &mut OpImport<'_, '_, '_>, x: Handle, sizes: &[(i64, i64)]) -> Result<Handle, OpError> {
    let dtype = op.element(x);
    let compute = wide(dtype);
    let mut value = op.cast(x, compute)?;
    for (index, (from, to)) in sizes.iter().copied().enumerate() {
        if from.saturating_mul(to) > 1 << 20 {
            return Err(op.unsupported("adaptive pooling of a dimension this large"));
        }
        let mut shares = vec![0.0; (from * to) as usize];
        for place in 0..to {
            let (begin, end) = (place * from / to, ((place + 1) * from + to - 1) / to);
            for cell in begin..end {
                shares[(place * from + cell) as usize] = 1.0 / (end - begin) as f64;
            }
        }
        let shares = op.literal(compute, &[to as usize, from as usize], &shares)?;
        let labels: String = "abcdefgh".chars().take(op.rank(value)).collect();
        let axis = labels.chars().nth(index + 2).unwrap_or('c');
        let result = labels.replace(axis, "z");
        let contract = Contract {
            lhs: labels.clone(),
            rhs: format!("z{axis}"),
            result,
            accumulate: if compute == DType::F64 { DType::F64 } else { DType::F32 },
            dtype: compute,
        };
        value = op.emit_one(contract, &[value, shares])?;
    }
    Ok(op.cast(value, dtype)?)
}
