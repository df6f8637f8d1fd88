//! Pooling: MaxPool, AveragePool, LpPool and the global ones.

use tenon_graph_dialect::operators::{Function, ReduceKind, Window, WindowKind};
use tenon_tensor::DType;

use super::padding::{AutoPad, Geometry};
use super::unpool::indices_of_largest;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

fn window(
    op: &mut OpImport<'_, '_, '_>,
    kind: WindowKind,
    x: Handle,
    dilated: bool,
    ceil: bool,
) -> Result<Handle, ImportError> {
    let mut geometry = Geometry::read(op, x, None, dilated)?;
    let count_include_pad =
        kind == WindowKind::Average && op.since >= 7 && op.node.flag_or("count_include_pad", false)?;
    geometry.resolve(op, &op.ty(x).dims[2..])?;
    // Where rounding the number of windows up gives the same as padding at the end by what is missing, it says so for every size.
    let at_end = |index: &usize| {
        geometry.auto_pad == AutoPad::SameUpper && geometry.reach(*index) == 2 && geometry.strides[*index] == 2
    };
    let rounds_up =
        !geometry.free.is_empty() && geometry.free.iter().all(|(index, _, _)| at_end(index)) && !count_include_pad;
    let mut x = x;
    if !rounds_up {
        let outside = match kind {
            WindowKind::Max => lowest(op.dtype(x)),
            WindowKind::Average if !geometry.free.is_empty() && !count_include_pad => {
                return Err(op.unsupported("an average that leaves out the padding of a free dimension"));
            }
            _ => 0.0,
        };
        x = geometry.pad_free(op, x, outside)?;
    }
    let window = Window {
        kind,
        kernel: geometry.kernel,
        strides: geometry.strides,
        dilations: geometry.dilations,
        pad_begin: geometry.begin,
        pad_end: geometry.end,
        ceil: rounds_up || ceil && matches!(geometry.auto_pad, AutoPad::Explicit | AutoPad::Valid),
        count_include_pad,
    };
    op.emit(window, &[x])
}

/// What never is the largest.
fn lowest(dtype: DType) -> f64 {
    match dtype {
        _ if dtype.is_float() => f64::NEG_INFINITY,
        _ if dtype.is_signed() => -(2f64.powi(dtype.bits() as i32 - 1)),
        _ => 0.0,
    }
}

/// MaxPool, with the indices of the largest elements if they are wanted.
pub(super) fn max_pool(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let ceil = op.since >= 10 && op.node.flag_or("ceil_mode", false)?;
    if op.since >= 8 {
        // The order of indices, wanted or not.
        op.node.flag_or("storage_order", false)?;
    }
    let dilated = op.since >= 10;
    let largest = window(op, WindowKind::Max, x, dilated, ceil)?;
    match op.wants(1) {
        true => Ok(vec![largest, indices_of_largest(op, x, largest, dilated)?]),
        false => Ok(vec![largest]),
    }
}

/// AveragePool.
pub(super) fn average_pool(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let ceil = op.since >= 10 && op.node.flag_or("ceil_mode", false)?;
    let dilated = op.since >= 19;
    Ok(vec![window(op, WindowKind::Average, x, dilated, ceil)?])
}

/// LpPool: the p-th root of the sum of p-th powers of magnitudes.
pub(super) fn lp_pool(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let p = op.node.int_or("p", 2)?;
    let ceil = op.since >= 18 && op.node.flag_or("ceil_mode", false)?;
    let dilated = op.since >= 18;
    if p == 2 {
        return Ok(vec![window(op, WindowKind::L2, x, dilated, ceil)?]);
    }
    let powers = power(op, x, p)?;
    let sum = window(op, WindowKind::Sum, powers, dilated, ceil)?;
    Ok(vec![root(op, sum, p)?])
}

/// |x|ᵖ
fn power(op: &mut OpImport<'_, '_, '_>, x: Handle, p: i64) -> Result<Handle, ImportError> {
    if p < 1 {
        return Err(op.node.attribute_error("p", "at least 1", format!("is {p}")));
    }
    let size = op.apply(Function::Abs, &[x])?;
    if p == 1 {
        return Ok(size);
    }
    let exponent = op.scalar(p as f64, op.dtype(x))?;
    op.apply(Function::Power, &[size, exponent])
}

/// The p-th root.
fn root(op: &mut OpImport<'_, '_, '_>, sum: Handle, p: i64) -> Result<Handle, ImportError> {
    match p {
        1 => Ok(sum),
        2 => op.apply(Function::Sqrt, &[sum]),
        _ => {
            let exponent = op.scalar(1.0 / p as f64, op.dtype(sum))?;
            op.apply(Function::Power, &[sum, exponent])
        }
    }
}

/// GlobalAveragePool, GlobalMaxPool, GlobalLpPool: over all dimensions but the first two.
pub(super) fn global(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let axes: Vec<usize> = (2..op.rank_at_least(x, 2)?).collect();
    let result = match op.node.op_type() {
        "GlobalMaxPool" => op.reduce(ReduceKind::Max, x, &axes, true)?,
        "GlobalLpPool" => {
            let p = op.node.int_or("p", 2)?;
            let powers = power(op, x, p)?;
            let sum = op.reduce(ReduceKind::Sum, powers, &axes, true)?;
            root(op, sum, p)?
        }
        _ => op.reduce(ReduceKind::Mean, x, &axes, true)?,
    };
    Ok(vec![result])
}
