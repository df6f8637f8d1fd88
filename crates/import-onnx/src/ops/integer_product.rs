//! Products of quantised integers: MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv. Sums are exact, in i32.
//!
//! Factors stay 8-bit integers where that is exact, so that matrix instructions take them: a constant less its zero point is an 8-bit constant
//! where it fits, and what other zero points contribute is taken from the sums, with `a` and `b` the factors and `p` and `q` their zero points:
//! `Σ (a - p)(b - q) = Σ a b - q Σ a - p Σ (b - q)`. i32 wraps alike on both sides.

use tenon_graph_dialect::operators::{Convolution, Function, Quantize, ReduceKind};
use tenon_tensor::{DType, Tensor};

use super::convolution::kernel_of;
use super::matmul::product;
use super::padding::Geometry;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// A factor: 8-bit integers, less a zero point.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    pub(super) value: Handle,
    /// In i32, in a shape that broadcasts to the value's; none where it is known to be 0.
    pub(super) zero: Option<Handle>,
}

impl Factor {
    /// Input `index` with its zero point, input `zero`. A zero point that is a list goes along `axis`.
    pub(super) fn read(
        op: &mut OpImport<'_, '_, '_>,
        index: usize,
        zero: usize,
        axis: usize,
    ) -> Result<Self, ImportError> {
        let (value, zero) = (op.input(index)?, op.optional(zero)?);
        Factor::of(op, value, zero, axis)
    }

    /// The same of a value.
    pub(super) fn of(
        op: &mut OpImport<'_, '_, '_>,
        value: Handle,
        zero: Option<Handle>,
        axis: usize,
    ) -> Result<Self, ImportError> {
        if op.dtype(value).bits() != 8 || !op.dtype(value).is_integer() {
            return Err(op.invalid(format!("factors must be of 8-bit integers, not {}", op.dtype(value))));
        }
        let Some(zero) = zero else { return Ok(Factor { value, zero: None }) };
        let known = op.importer.builder.tensor(zero).cloned();
        if known.as_ref().is_some_and(is_zero) {
            return Ok(Factor { value, zero: None });
        }
        if let (Some(tensor), Some(zero)) = (op.importer.builder.tensor(value), &known)
            && let Some(centred) = centred(tensor, zero, axis)
        {
            return Ok(Factor { value: op.importer.builder.constant(centred), zero: None });
        }
        let zero = op.cast(zero, DType::I32)?;
        let rank = op.rank(value);
        let zero = match op.rank(zero) {
            1 if op.dim(zero, 0).is_one() => op.as_scalar(zero)?,
            1 if axis < rank => op.along_axis(zero, axis, rank)?,
            _ => zero,
        };
        Ok(Factor { value, zero: Some(zero) })
    }

    /// The value less the zero point, in i32.
    fn centred(self, op: &mut OpImport<'_, '_, '_>) -> Result<Handle, ImportError> {
        let wide = op.cast(self.value, DType::I32)?;
        match self.zero {
            Some(zero) => op.apply(Function::Subtract, &[wide, zero]),
            None => Ok(wide),
        }
    }
}

fn is_zero(tensor: &Tensor) -> bool {
    tensor.iter_f64().is_ok_and(|mut values| values.all(|value| value == 0.0))
}

/// A constant less its zero point (one number, or a list along `axis`) as 8-bit integers, where all values fit.
fn centred(value: &Tensor, zero: &Tensor, axis: usize) -> Option<Tensor> {
    let zeros = zero.to_f64_vec().ok()?;
    let shape = value.shape();
    let inner: usize = match (zeros.len(), zero.rank()) {
        (1, _) => 1,
        (count, 1) if shape.get(axis) == Some(&count) => shape[axis + 1..].iter().product(),
        _ => return None,
    };
    let inner = inner.max(1);
    let values = value.iter_f64().ok()?.enumerate().map(|(index, value)| value - zeros[index / inner % zeros.len()]);
    let values: Vec<f64> = values.collect();
    let fits = |least: f64, most: f64| values.iter().all(|value| (least..=most).contains(value));
    let dtype = if fits(-128.0, 127.0) {
        DType::I8
    } else if fits(0.0, 255.0) {
        DType::U8
    } else {
        return None;
    };
    Tensor::from_f64s(dtype, shape.to_vec(), &values).ok()
}

/// Sums in i32 over all axes but `kept`, whose sizes stay; the others become 1.
fn sums(op: &mut OpImport<'_, '_, '_>, factor: Factor, kept: &[usize]) -> Result<Handle, ImportError> {
    let rank = op.rank(factor.value);
    let axes: Vec<usize> = (0..rank).filter(|axis| !kept.contains(axis)).collect();
    if factor.zero.is_none()
        && let Some(tensor) = op.importer.builder.tensor(factor.value).cloned()
        && let Ok(values) = tensor.iter_f64()
    {
        // A constant's sums are constants.
        let shape = tensor.shape();
        let result: Vec<usize> = (0..rank).map(|axis| if kept.contains(&axis) { shape[axis] } else { 1 }).collect();
        let mut sums = vec![0i32; result.iter().product()];
        for (index, value) in values.enumerate() {
            let (mut rest, mut place, mut stride) = (index, 0, 1);
            for axis in (0..rank).rev() {
                let coordinate = rest % shape[axis];
                rest /= shape[axis];
                if kept.contains(&axis) {
                    place += coordinate * stride;
                    stride *= shape[axis];
                }
            }
            sums[place] = sums[place].wrapping_add(value as i32);
        }
        let sums: Vec<f64> = sums.into_iter().map(f64::from).collect();
        return op.literal(DType::I32, &result, &sums);
    }
    let centred = factor.centred(op)?;
    op.reduce(ReduceKind::Sum, centred, &axes, true)
}

/// `total` less `zero` times `sums`.
fn less(op: &mut OpImport<'_, '_, '_>, total: Handle, zero: Handle, sums: Handle) -> Result<Handle, ImportError> {
    let term = op.apply(Function::Multiply, &[zero, sums])?;
    op.apply(Function::Subtract, &[total, term])
}

/// The matrix product of two factors, in i32.
pub(super) fn matrix_product(op: &mut OpImport<'_, '_, '_>, lhs: Factor, rhs: Factor) -> Result<Handle, ImportError> {
    let (rows, columns) = (op.rank(lhs.value), op.rank(rhs.value));
    if rows < 2 || columns < 2 {
        // The result of a vector lacks the dimension that its zero points go along.
        let (lhs, rhs) = (lhs.centred(op)?, rhs.centred(op)?);
        return product(op, lhs, rhs, DType::I32);
    }
    let mut total = product(op, lhs.value, rhs.value, DType::I32)?;
    if let Some(zero) = rhs.zero {
        let kept: Vec<usize> = (0..rows - 1).collect();
        let sums = sums(op, Factor { zero: None, ..lhs }, &kept)?;
        total = less(op, total, zero, sums)?;
    }
    if let Some(zero) = lhs.zero {
        let kept: Vec<usize> = (0..columns).filter(|axis| *axis != columns - 2).collect();
        let sums = sums(op, rhs, &kept)?;
        total = less(op, total, zero, sums)?;
    }
    Ok(total)
}

/// Scales of two factors multiplied, as a list along `axis` where one is a list.
fn scales(op: &mut OpImport<'_, '_, '_>, lists: [(usize, usize); 2], rank: usize) -> Result<Handle, ImportError> {
    let mut factors = Vec::with_capacity(2);
    for (index, axis) in lists {
        let scale = op.input(index)?;
        factors.push(match op.rank(scale) {
            1 if op.dim(scale, 0).is_one() => op.as_scalar(scale)?,
            1 if axis < rank => op.along_axis(scale, axis, rank)?,
            _ => scale,
        });
    }
    op.apply(Function::Multiply, &factors)
}

/// The sums as floats by `scale`, quantised by the scale and zero point of inputs `at` and `at + 1`.
fn requantize(op: &mut OpImport<'_, '_, '_>, sums: Handle, scale: Handle, at: usize) -> Outputs {
    let floats = op.cast(sums, op.dtype(scale))?;
    let real = op.apply(Function::Multiply, &[floats, scale])?;
    let (scale, zero) = (op.input(at)?, op.input(at + 1)?);
    let (scale, zero) = (op.as_scalar(scale)?, op.as_scalar(zero)?);
    let dtype = op.dtype(zero);
    Ok(vec![op.emit(Quantize { dtype, axis: 0, block_size: 0 }, &[real, scale, zero])?])
}

/// MatMulInteger.
pub(super) fn matmul_integer(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=4)?;
    let (rows, columns) = (op.rank(op.input(0)?), op.rank(op.input(1)?));
    let lhs = Factor::read(op, 0, 2, rows.saturating_sub(2))?;
    let rhs = Factor::read(op, 1, 3, columns.saturating_sub(1))?;
    Ok(vec![matrix_product(op, lhs, rhs)?])
}

/// QLinearMatMul. Source: ONNX QLinearMatMul: rows of A and columns of B may have scales of their own.
pub(super) fn qlinear_matmul(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(8..=8)?;
    let (rows, columns) = (op.rank(op.input(0)?), op.rank(op.input(3)?));
    let lhs = Factor::read(op, 0, 2, rows.saturating_sub(2))?;
    let rhs = Factor::read(op, 3, 5, columns.saturating_sub(1))?;
    let sums = matrix_product(op, lhs, rhs)?;
    let rank = op.rank(sums);
    let scale = scales(op, [(1, rank.saturating_sub(2)), (4, rank.saturating_sub(1))], rank)?;
    requantize(op, sums, scale, 6)
}

/// The convolution of an input with a weight, in i32.
fn convolve(op: &mut OpImport<'_, '_, '_>, x: Factor, weight: Factor) -> Result<Handle, ImportError> {
    let mut geometry = Geometry::read(op, x.value, Some(kernel_of(op, weight.value)?), true)?;
    geometry.resolve(op, &op.ty(x.value).dims[2..])?;
    // Windows over the input would have to be summed for the zero point of a weight; a zero point of the input that is no scalar differs
    // from place to place.
    let is_scalar = x.zero.is_none_or(|zero| op.rank(zero) == 0);
    let keeps_bytes = weight.zero.is_none() && is_scalar;
    let (mut input, filter, zero) =
        if keeps_bytes { (x.value, weight.value, x.zero) } else { (x.centred(op)?, weight.centred(op)?, None) };
    match zero {
        Some(zero) => {
            // What lies outside is the zero point.
            let zero = op.cast(zero, op.dtype(input))?;
            input = geometry.pad_all(op, input, zero)?;
        }
        None => input = geometry.pad_free(op, input, 0.0)?,
    }
    let convolution = Convolution {
        accumulate: DType::I32,
        dtype: DType::I32,
        output_padding: vec![0; geometry.kernel.len()],
        strides: geometry.strides,
        dilations: geometry.dilations,
        pad_begin: geometry.begin,
        pad_end: geometry.end,
        groups: op.node.int_or("group", 1)?,
        transposed: false,
    };
    let total = op.emit(convolution, &[input, filter])?;
    let Some(zero) = zero else { return Ok(total) };
    let sums = sums(op, weight, &[0])?;
    let (channels, rank) = (op.extents(sums)[..1].to_vec(), op.rank(total));
    let sums = op.reshape(sums, channels)?;
    let sums = op.along_axis(sums, 1, rank)?;
    less(op, total, zero, sums)
}

/// ConvInteger.
pub(super) fn conv_integer(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=4)?;
    let x = Factor::read(op, 0, 2, 1)?;
    let weight = Factor::read(op, 1, 3, 0)?;
    Ok(vec![convolve(op, x, weight)?])
}

/// QLinearConv. The bias is in units of the product of the scales.
pub(super) fn qlinear_conv(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(8..=9)?;
    let x = Factor::read(op, 0, 2, 1)?;
    let weight = Factor::read(op, 3, 5, 0)?;
    let mut sums = convolve(op, x, weight)?;
    let rank = op.rank(sums);
    if let Some(bias) = op.optional(8)? {
        let bias = op.along_axis(bias, 1, rank)?;
        sums = op.apply(Function::Add, &[sums, bias])?;
    }
    let scale = scales(op, [(1, 1), (4, 1)], rank)?;
    requantize(op, sums, scale, 6)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn constants_lose_their_zero_points_where_bytes_hold_them() {
        let bytes = |values: &[f64]| Tensor::from_f64s(DType::U8, vec![2, 2], values).unwrap();
        let zero = |values: &[f64]| Tensor::from_f64s(DType::U8, vec![values.len()], values).unwrap();
        let of = |value: &[f64], zeros: &[f64], axis| centred(&bytes(value), &zero(zeros), axis);
        let signed = of(&[0.0, 255.0, 128.0, 3.0], &[128.0], 0).unwrap();
        assert_eq!((signed.dtype(), signed.to_f64_vec().unwrap()), (DType::I8, vec![-128.0, 127.0, 0.0, -125.0]));
        // 255 - 100 is too large for i8, and 0 - 100 for u8.
        assert!(of(&[0.0, 255.0, 1.0, 2.0], &[100.0], 0).is_none());
        assert_eq!(of(&[5.0, 255.0, 9.0, 200.0], &[5.0], 0).unwrap().dtype(), DType::U8);
        // Rows, then columns, with zero points of their own.
        let expected = |values: &[f64]| Some(values.to_vec());
        let list = |axis| of(&[10.0, 20.0, 30.0, 40.0], &[1.0, 2.0], axis).map(|tensor| tensor.to_f64_vec().unwrap());
        assert_eq!(list(0), expected(&[9.0, 19.0, 28.0, 38.0]));
        assert_eq!(list(1), expected(&[9.0, 18.0, 29.0, 38.0]));
        assert_eq!(list(2), None);
    }
}
