//! Evaluation of operations on small integer tensors whose elements are expressions over symbolic dimensions.
//!
//! This is how shape arithmetic is followed through a model: `Shape`, `Gather`, `Concat` and the like leave nothing behind but an expression
//! for each element. Only results that hold for every value of the symbols (which are not negative) are given; a comparison that depends on
//! them is not decided here.

use std::cmp::Ordering;

use crate::counter::Counters;
use tenon_graph_dialect::operators::{Function, GatherKind, ReduceKind};
use tenon_graph_dialect::{DimExpr, Operator, TensorType};
use tenon_tensor::{DType, Tensor};

/// Most elements of a tensor that is followed.
pub(crate) const MAX_ELEMENTS: usize = 1024;

/// Longest text of an expression that is followed.
pub(crate) const MAX_TEXT: usize = 1024;

/// Elements in row-major order, with their shape and type.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<DimExpr>,
}

impl Known {
    /// A small constant whose elements are integers.
    pub(crate) fn of_tensor(tensor: &Tensor) -> Option<Known> {
        if tensor.element_count() > MAX_ELEMENTS {
            return None;
        }
        let whole =
            |value: f64| (value.fract() == 0.0 && value.abs() <= exact_limit(tensor.dtype())).then_some(value as i64);
        let element = |index| match tensor.dtype().is_float() {
            true => tensor.get_f64(index).and_then(whole),
            false => tensor.get_i64(index),
        };
        let values =
            (0..tensor.element_count()).map(|index| element(index).map(DimExpr::constant)).collect::<Option<_>>()?;
        Some(Known { dtype: tensor.dtype(), shape: tensor.shape().to_vec(), values })
    }

    /// The tensor, if every element is a number.
    pub(crate) fn to_tensor(&self) -> Option<Tensor> {
        let values = self.values.iter().map(DimExpr::as_constant).collect::<Option<Vec<_>>>()?;
        if self.dtype.is_float() {
            let values: Vec<f64> = values.into_iter().map(|value| value as f64).collect();
            return Tensor::from_f64s(self.dtype, self.shape.clone(), &values).ok();
        }
        Tensor::from_bits(self.dtype, self.shape.clone(), values.into_iter().map(|value| value as u64)).ok()
    }
}

/// Largest magnitude up to which a type holds every integer.
fn exact_limit(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => (1u64 << 53) as f64,
        DType::F32 => (1u64 << 24) as f64,
        DType::F16 => 2048.0,
        _ => 256.0,
    }
}

/// Whether a number is one of the type's, exactly. An expression over dimensions is taken to be; one over counters is where all its values are.
fn fits(dtype: DType, value: &DimExpr, counters: &Counters) -> bool {
    match value.as_constant() {
        Some(value) => holds(dtype, value),
        None if counters.occur_in(value) => {
            counters.bounds(value).is_some_and(|(low, high)| holds(dtype, low) && holds(dtype, high))
        }
        None => dtype.bits() >= 32 && dtype != DType::Complex64,
    }
}

fn holds(dtype: DType, value: i64) -> bool {
    if dtype.is_float() {
        return value.unsigned_abs() as f64 <= exact_limit(dtype);
    }
    let bits = dtype.bits();
    match dtype {
        DType::Bool => value == 0 || value == 1,
        _ if bits > 64 || !dtype.is_integer() => false,
        _ if dtype.is_signed() => bits == 64 || (-(1i64 << (bits - 1))..1i64 << (bits - 1)).contains(&value),
        _ => value >= 0 && (bits == 64 || value < 1i64 << bits),
    }
}

/// The sign of an expression where it is the same for all values of the symbols; symbols are not negative.
pub fn sign(value: &DimExpr) -> Option<Ordering> {
    if let Some(value) = value.as_constant() {
        return Some(value.cmp(&0));
    }
    // Without a minus every coefficient is positive and every atom at least 0.
    let not_negative = |value: &DimExpr| !value.to_string().contains('-');
    let one = DimExpr::constant(1);
    if value.sub(&one).is_some_and(|below| not_negative(&below)) {
        return Some(Ordering::Greater);
    }
    let negated = value.mul(&DimExpr::constant(-1))?;
    negated.sub(&one).is_some_and(|below| not_negative(&below)).then_some(Ordering::Less)
}

fn is_not_negative(value: &DimExpr) -> bool {
    value.as_constant().map_or_else(|| !value.to_string().contains('-'), |value| value >= 0)
}

/// The only result of an operator on known operands, if it is known too.
pub(crate) fn evaluate(
    operator: &Operator,
    operands: &[Known],
    results: &[TensorType],
    counters: &Counters,
) -> Option<Known> {
    let [result] = results else { return None };
    let shape: Vec<usize> = result.known_shape()?.into_iter().map(usize::try_from).collect::<Result<_, _>>().ok()?;
    let count =
        shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size)).filter(|count| *count <= MAX_ELEMENTS)?;
    let values: Vec<DimExpr> = match operator {
        Operator::Reshape(_) => operands.first()?.values.clone(),
        Operator::Cast(cast) => {
            operands.first()?.values.iter().map(|value| convert(value, cast.dtype, counters)).collect::<Option<_>>()?
        }
        Operator::Elementwise(elementwise) => {
            let places = operands.iter().map(|operand| broadcast_places(&operand.shape, &shape)).collect::<Vec<_>>();
            let at = |operand: usize, index: usize| Some(&operands.get(operand)?.values[places[operand][index]]);
            (0..count)
                .map(|index| {
                    let arguments =
                        (0..operands.len()).map(|operand| at(operand, index)).collect::<Option<Vec<_>>>()?;
                    apply(elementwise.function, &arguments, operands[0].dtype.is_float(), counters)
                })
                .collect::<Option<_>>()?
        }
        Operator::Broadcast(_) => {
            let operand = operands.first()?;
            broadcast_places(&operand.shape, &shape).into_iter().map(|place| operand.values[place].clone()).collect()
        }
        Operator::Transpose(transpose) => {
            let operand = operands.first()?;
            let strides = strides(&operand.shape);
            let strides: Vec<usize> = transpose.permutation.iter().map(|axis| strides[*axis as usize]).collect();
            positions(&shape).map(|at| operand.values[dot(&at, &strides)].clone()).collect()
        }
        Operator::Slice(slice) => {
            let operand = operands.first()?;
            let starts = slice.starts.iter().map(DimExpr::as_constant).collect::<Option<Vec<_>>>()?;
            let strides = strides(&operand.shape);
            let place = |at: Vec<usize>| -> Option<DimExpr> {
                let mut place = 0usize;
                for (axis, index) in at.into_iter().enumerate() {
                    let source =
                        i64::try_from(index).ok()?.checked_mul(slice.steps[axis])?.checked_add(starts[axis])?;
                    place += usize::try_from(source).ok()? * strides[axis];
                }
                operand.values.get(place).cloned()
            };
            positions(&shape).map(place).collect::<Option<_>>()?
        }
        Operator::Concat(concat) => {
            let rank = shape.len();
            let axis = usize::try_from(if concat.axis < 0 { concat.axis + rank as i64 } else { concat.axis }).ok()?;
            let outer: usize = shape.get(..axis)?.iter().product();
            let mut values = Vec::with_capacity(count);
            for index in 0..outer {
                for operand in operands {
                    let chunk: usize = operand.shape[axis..].iter().product();
                    values.extend_from_slice(operand.values.get(index * chunk..(index + 1) * chunk)?);
                }
            }
            values
        }
        Operator::Gather(gather) if gather.kind == GatherKind::Take => {
            let [input, indices] = operands else { return None };
            let axis = if gather.axis < 0 { gather.axis + input.shape.len() as i64 } else { gather.axis };
            let axis = usize::try_from(axis).ok()?;
            let size = *input.shape.get(axis)?;
            let inner: usize = input.shape[axis + 1..].iter().product();
            let outer: usize = input.shape[..axis].iter().product();
            let mut values = Vec::with_capacity(count);
            for block in 0..outer {
                for index in &indices.values {
                    let index = index.as_constant()?;
                    let index = usize::try_from(if index < 0 { index + size as i64 } else { index })
                        .ok()
                        .filter(|i| *i < size)?;
                    let start = (block * size + index) * inner;
                    values.extend_from_slice(input.values.get(start..start + inner)?);
                }
            }
            values
        }
        Operator::Reduce(reduce) => {
            let operand = operands.first()?;
            let rank = operand.shape.len() as i64;
            let axes: Vec<usize> = reduce.axes.iter().map(|a| if *a < 0 { a + rank } else { *a } as usize).collect();
            let kept: Vec<usize> = (0..operand.shape.len()).filter(|axis| !axes.contains(axis)).collect();
            let kept_shape: Vec<usize> = kept.iter().map(|axis| operand.shape[*axis]).collect();
            let kept_strides = strides(&kept_shape);
            let combine = |a: DimExpr, b: &DimExpr| match reduce.kind {
                ReduceKind::Sum => a.add(b),
                ReduceKind::Product => a.mul(b),
                ReduceKind::Max => a.maximum(b),
                ReduceKind::Min => a.minimum(b),
                _ => None,
            };
            let mut values: Vec<Option<DimExpr>> = vec![None; count];
            for (at, value) in positions(&operand.shape).zip(&operand.values) {
                let at: Vec<usize> = kept.iter().map(|axis| at[*axis]).collect();
                let slot = values.get_mut(dot(&at, &kept_strides))?;
                *slot = Some(match slot.take() {
                    None => value.clone(),
                    Some(before) => combine(before, value).filter(is_short)?,
                });
            }
            values.into_iter().collect::<Option<_>>()?
        }
        Operator::Iota(iota) => {
            let axis = usize::try_from(if iota.axis < 0 { iota.axis + shape.len() as i64 } else { iota.axis }).ok()?;
            positions(&shape)
                .map(|at| at.get(axis).map(|index| DimExpr::constant(*index as i64)))
                .collect::<Option<_>>()?
        }
        _ => return None,
    };
    let holds =
        values.len() == count && values.iter().all(|value| fits(result.dtype, value, counters) && is_short(value));
    holds.then_some(Known { dtype: result.dtype, shape, values })
}

/// Whether an expression is short enough to be followed.
fn is_short(value: &DimExpr) -> bool {
    value.as_constant().is_some() || value.to_string().len() <= MAX_TEXT
}

fn convert(value: &DimExpr, dtype: DType, counters: &Counters) -> Option<DimExpr> {
    if dtype != DType::Bool {
        return Some(value.clone());
    }
    if counters.bounds(value).is_some_and(|(low, high)| low > 0 || high < 0) {
        return Some(DimExpr::constant(1));
    }
    sign(value).map(|sign| DimExpr::constant(i64::from(sign != Ordering::Equal)))
}

fn apply(function: Function, arguments: &[&DimExpr], float: bool, counters: &Counters) -> Option<DimExpr> {
    use Function::*;
    if let [a, b] = arguments
        && let Some(value) = counters.compare(function, a, b)
    {
        return Some(value);
    }
    let truth = |value: bool| Some(DimExpr::constant(i64::from(value)));
    let constant = |index: usize| arguments.get(index)?.as_constant();
    let compare = || sign(&arguments.first()?.sub(arguments.get(1)?)?);
    let (a, b) = (*arguments.first()?, arguments.get(1).copied().unwrap_or(arguments[0]));
    let both_constant = constant(0).zip(constant(1));
    let value = match function {
        Add => a.add(b)?,
        Subtract => a.sub(b)?,
        Multiply => a.mul(b)?,
        Divide => match (both_constant, float) {
            (Some((x, y)), false) => DimExpr::constant(x.checked_div(y)?),
            (Some((x, y)), true) => {
                DimExpr::constant(x.checked_rem(y).filter(|rest| *rest == 0).and_then(|_| x.checked_div(y))?)
            }
            (None, _) if b.as_constant() == Some(0) => return None,
            (None, _) => match a.div_exact(b) {
                // A symbol in the divisor may be 0.
                Some(quotient) if sign(b).is_some_and(|sign| sign != Ordering::Equal) => quotient,
                _ if float || !is_not_negative(a) => return None,
                _ => a.floor_div(constant(1)?)?,
            },
        },
        Modulo => {
            let divisor = constant(1).filter(|divisor| *divisor > 0)?;
            a.sub(&a.floor_div(divisor)?.mul(b)?)?
        }
        Max => a.maximum(b)?,
        Min => a.minimum(b)?,
        Negate => a.mul(&DimExpr::constant(-1))?,
        Abs if is_not_negative(a) => a.clone(),
        Abs => DimExpr::constant(constant(0)?.checked_abs()?),
        Sign => DimExpr::constant(match sign(a)? {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }),
        Floor | Ceil | Round | Trunc => a.clone(),
        Equal => return truth(if a == b { true } else { compare()? == Ordering::Equal }),
        NotEqual => return truth(if a == b { false } else { compare()? != Ordering::Equal }),
        Less => return truth(if a == b { false } else { compare()? == Ordering::Less }),
        LessEqual => return truth(if a == b { true } else { compare()? != Ordering::Greater }),
        Greater => return truth(if a == b { false } else { compare()? == Ordering::Greater }),
        GreaterEqual => return truth(if a == b { true } else { compare()? != Ordering::Less }),
        Select => (*arguments.get(if constant(0)? != 0 { 1 } else { 2 })?).clone(),
        And => return truth(both_constant.map(|(x, y)| x != 0 && y != 0)?),
        Or => return truth(both_constant.map(|(x, y)| x != 0 || y != 0)?),
        Xor => return truth(both_constant.map(|(x, y)| (x != 0) != (y != 0))?),
        Not => return truth(constant(0)? == 0),
        _ => return None,
    };
    Some(value)
}

fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; shape.len()];
    for axis in (0..shape.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1].saturating_mul(shape[axis + 1]);
    }
    strides
}

fn dot(at: &[usize], strides: &[usize]) -> usize {
    at.iter().zip(strides).map(|(index, stride)| index * stride).sum()
}

/// All positions of a shape in row-major order.
fn positions(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    let count: usize = shape.iter().product();
    (0..count).map(move |mut index| {
        let mut at = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            at[axis] = index % shape[axis];
            index /= shape[axis];
        }
        at
    })
}

/// For each place of `to`, the place of `from` that is broadcast to it.
fn broadcast_places(from: &[usize], to: &[usize]) -> Vec<usize> {
    let strides = strides(from);
    let skip = to.len().saturating_sub(from.len());
    positions(to)
        .map(|at| {
            let index = |axis: usize| if from[axis] == 1 { 0 } else { at[skip + axis] };
            (0..from.len()).map(|axis| index(axis) * strides[axis]).sum()
        })
        .collect()
}
