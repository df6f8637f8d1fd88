//! Sums, means, extrema, products, and the index of an extremum.

use tenon_graph_dialect::operators::{ArgReduce, Function, Reduce, ReduceKind};
use tenon_hw_dialect::{FloatPredicate, HwError, IntegerPredicate, Scalar, Tile, TileBuilder};
use tenon_ir::{IrError, Value};
use tenon_tensor::DType;

use super::{Chunk, Rows};
use crate::LoweringError;
use crate::schedule::control::{for_range, keep};
use crate::schedule::evaluate::{map, splat};
use crate::schedule::scalar::quotient::quotient_by_number;
use crate::schedule::scalar::{self, Number, compute_type, register_type};

/// Associative scalar code with its neutral element.
#[derive(Clone, Copy)]
pub(in crate::schedule) struct Combiner {
    pub(in crate::schedule) function: Function,
    pub(in crate::schedule) neutral: Number,
    /// Element type with its signedness.
    pub(in crate::schedule) dtype: DType,
}

impl Combiner {
    pub(in crate::schedule) fn apply<'m>(
        self,
        code: Scalar<'m>,
        a: Value<'m>,
        b: Value<'m>,
    ) -> Result<Value<'m>, LoweringError> {
        scalar::apply(code, self.function, self.dtype, &[a, b])
    }
}

/// The least or greatest number of a type.
pub(in crate::schedule) fn extreme(dtype: DType, greatest: bool) -> Number {
    if dtype.is_float() {
        return Number::Float(if greatest { f64::INFINITY } else { f64::NEG_INFINITY });
    }
    let bits = dtype.bits();
    Number::Integer(match (dtype.is_signed(), greatest) {
        (true, true) => i64::MAX >> (64 - bits),
        (true, false) => i64::MIN >> (64 - bits),
        (false, true) => -1,
        (false, false) => 0,
    })
}

fn combiner(kind: ReduceKind, dtype: DType) -> Combiner {
    // Arithmetic is in the compute type, which for f16 and bf16 is f32.
    let wide = if dtype.is_float() { compute_type(dtype) } else { dtype };
    let zero = if dtype.is_float() { Number::Float(0.0) } else { Number::Integer(0) };
    let one = if dtype.is_float() { Number::Float(1.0) } else { Number::Integer(1) };
    let (function, neutral) = match kind {
        ReduceKind::Sum | ReduceKind::Mean => (Function::Add, zero),
        ReduceKind::Product => (Function::Multiply, one),
        ReduceKind::Max => (if dtype == DType::Bool { Function::Or } else { Function::Max }, extreme(dtype, false)),
        ReduceKind::Min => (if dtype == DType::Bool { Function::And } else { Function::Min }, extreme(dtype, true)),
        ReduceKind::Any => (Function::Or, Number::Integer(0)),
        ReduceKind::All => (Function::And, Number::Integer(-1)),
    };
    Combiner { function, neutral, dtype: wide }
}

impl<'m> Rows<'_, '_, 'm> {
    /// The chunk's elements, neutral where there are none.
    pub(super) fn padded(
        &self,
        builder: TileBuilder<'m>,
        chunk: &Chunk<'m>,
        value: &Tile<'m>,
        combiner: Combiner,
    ) -> Result<Tile<'m>, LoweringError> {
        let Some(mask) = &chunk.mask else { return Ok(value.clone()) };
        map(builder, &[mask, value], value.ty.element, |code, values| {
            let neutral = scalar::constant(code, combiner.neutral, combiner.dtype)?;
            Ok(code.select(values[0], values[1], neutral)?)
        })
    }

    /// Combines the columns of a tile.
    pub(super) fn across(
        &self,
        builder: TileBuilder<'m>,
        value: &Tile<'m>,
        combiner: Combiner,
    ) -> Result<Tile<'m>, LoweringError> {
        let mut failure = None;
        let reduced = builder.reduce(1, &[value], |code, accumulated, new| {
            let combined = combiner.apply(code, accumulated[0], new[0]).map_err(|error| keep(error, &mut failure))?;
            Ok(vec![combined])
        });
        match failure {
            Some(error) => Err(error),
            None => reduced?.pop().ok_or_else(|| self.body.error("a reduction without a result")),
        }
    }

    /// Combines `function` of all chunks' elements over whole rows.
    pub(super) fn over_rows(
        &self,
        builder: TileBuilder<'m>,
        combiner: Combiner,
        function: impl Fn(TileBuilder<'m>, &Chunk<'m>) -> Result<Tile<'m>, LoweringError>,
    ) -> Result<Tile<'m>, LoweringError> {
        let one_chunk = |builder: TileBuilder<'m>, start| -> Result<Tile<'m>, LoweringError> {
            let chunk = self.chunk(builder, start)?;
            let value = function(builder, &chunk)?;
            self.padded(builder, &chunk, &value, combiner)
        };
        if self.fits() {
            let value = one_chunk(builder, builder.scalar().i32(0)?)?;
            return self.across(builder, &value, combiner);
        }
        let start = splat(builder, combiner.neutral, combiner.dtype, &self.plan.layout)?;
        let total =
            for_range(builder, self.plan.columns, self.plan.tile_columns, &[start], |inner, position, carried| {
                let value = one_chunk(inner, position)?;
                Ok(vec![map(inner, &[&carried[0], &value], value.ty.element, |code, values| {
                    combiner.apply(code, values[0], values[1])
                })?])
            })?;
        self.across(builder, &total[0], combiner)
    }

    /// A float divided by the number of columns.
    pub(super) fn divided_by_count(
        &self,
        code: Scalar<'m>,
        value: Value<'m>,
        element: DType,
    ) -> Result<Value<'m>, LoweringError> {
        match self.plan.columns.known() {
            Some(number) => Ok(quotient_by_number(code, value, number as f64, element)?),
            None => {
                let count = scalar::cast(code, self.plan.columns.wide_value(code)?, DType::I64, element)?;
                Ok(code.op("arith.divf", &[value, count])?)
            }
        }
    }

    pub(super) fn reduce(&self, builder: TileBuilder<'m>, reduce: &Reduce) -> Result<(), LoweringError> {
        let dtype = self.input().dtype;
        let combiner = combiner(reduce.kind, dtype);
        let total = self.over_rows(builder, combiner, |inner, chunk| self.elements(inner, chunk))?;
        let result = map(builder, &[&total], register_type(dtype), |code, values| {
            let mut value = values[0];
            if reduce.kind == ReduceKind::Mean {
                if !dtype.is_float() {
                    // The count may be beyond the range of the elements. The mean of nothing is 0.
                    let wide = if dtype.is_signed() { DType::I64 } else { DType::U64 };
                    let sum = scalar::cast(code, value, dtype, wide)?;
                    let count =
                        code.op("arith.maxsi", &[self.plan.columns.wide_value(code)?, code.int(1, DType::I64)?])?;
                    let quotient = scalar::apply(code, Function::Divide, wide, &[sum, count])?;
                    return scalar::cast(code, quotient, wide, dtype);
                }
                value = self.divided_by_count(code, value, compute_type(dtype))?;
            }
            scalar::narrow(code, value, dtype)
        })?;
        self.store_rows(builder, result)
    }

    pub(super) fn arg_reduce(&self, builder: TileBuilder<'m>, reduce: &ArgReduce) -> Result<(), LoweringError> {
        let dtype = self.input().dtype;
        let element = compute_type(dtype);
        let worst = extreme(dtype, reduce.minimum);
        // A place without an element loses every tie.
        let nowhere = if reduce.last { -1 } else { i64::from(i32::MAX) };
        let pair = |builder: TileBuilder<'m>, start| -> Result<(Tile<'m>, Tile<'m>), LoweringError> {
            let chunk = self.chunk(builder, start)?;
            let value = self.elements(builder, &chunk)?;
            let Some(mask) = &chunk.mask else { return Ok((value, chunk.column)) };
            let value = map(builder, &[mask, &value], element, |code, values| {
                Ok(code.select(values[0], values[1], scalar::constant(code, worst, dtype_of(dtype))?)?)
            })?;
            let column = map(builder, &[mask, &chunk.column], DType::I32, |code, values| {
                Ok(code.select(values[0], values[1], code.int(nowhere, DType::I32)?)?)
            })?;
            Ok((value, column))
        };
        let better = |code: Scalar<'m>, old: [Value<'m>; 2], new: [Value<'m>; 2]| -> Result<Value<'m>, IrError> {
            let (beyond, equal, new_nan, old_nan) = if dtype.is_float() {
                let predicate =
                    if reduce.minimum { FloatPredicate::OrderedLess } else { FloatPredicate::OrderedGreater };
                (
                    code.compare_float(predicate, new[0], old[0])?,
                    code.compare_float(FloatPredicate::OrderedEqual, new[0], old[0])?,
                    code.compare_float(FloatPredicate::Unordered, new[0], new[0])?,
                    code.compare_float(FloatPredicate::Unordered, old[0], old[0])?,
                )
            } else {
                let predicate = match (dtype.is_signed(), reduce.minimum) {
                    (true, true) => IntegerPredicate::SignedLess,
                    (true, false) => IntegerPredicate::SignedGreater,
                    (false, true) => IntegerPredicate::UnsignedLess,
                    (false, false) => IntegerPredicate::UnsignedGreater,
                };
                let never = code.int(0, DType::Bool)?;
                (
                    code.compare_int(predicate, new[0], old[0])?,
                    code.compare_int(IntegerPredicate::Equal, new[0], old[0])?,
                    never,
                    never,
                )
            };
            let order = if reduce.last { IntegerPredicate::SignedGreater } else { IntegerPredicate::SignedLess };
            let nearer = code.compare_int(order, new[1], old[1])?;
            // NaN beats all numbers; among equals and among NaNs the order of columns decides.
            let both_nan = code.op("arith.andi", &[new_nan, old_nan])?;
            let same = code.op("arith.ori", &[equal, both_nan])?;
            let tie = code.op("arith.andi", &[same, nearer])?;
            let truth = code.int(-1, DType::Bool)?;
            let old_number = code.op("arith.xori", &[old_nan, truth])?;
            let new_wins = code.op("arith.ori", &[beyond, new_nan])?;
            let wins = code.op("arith.andi", &[new_wins, old_number])?;
            code.op("arith.ori", &[wins, tie])
        };
        let choose = |code: Scalar<'m>, old: &[Value<'m>], new: &[Value<'m>]| -> Result<Vec<Value<'m>>, HwError> {
            let take = better(code, [old[0], old[1]], [new[0], new[1]])?;
            Ok(vec![code.select(take, new[0], old[0])?, code.select(take, new[1], old[1])?])
        };
        let (value, column) = if self.fits() {
            pair(builder, builder.scalar().i32(0)?)?
        } else {
            let start = [
                splat(builder, worst, dtype_of(dtype), &self.plan.layout)?,
                splat(builder, Number::Integer(nowhere), DType::I32, &self.plan.layout)?,
            ];
            let total =
                for_range(builder, self.plan.columns, self.plan.tile_columns, &start, |inner, position, carried| {
                    let (value, column) = pair(inner, position)?;
                    let inputs = [&carried[0], &carried[1], &value, &column];
                    Ok(inner.map(&inputs, &self.plan.layout, &[element, DType::I32], |code, values| {
                        choose(code, &values[..2], &values[2..])
                    })?)
                })?;
            (total[0].clone(), total[1].clone())
        };
        let reduced = builder.reduce(1, &[&value, &column], choose)?;
        let result = map(builder, &[&reduced[1]], DType::I64, |code, values| {
            Ok(code.convert("arith.extsi", values[0], DType::I64)?)
        })?;
        self.store_rows(builder, result)
    }
}

fn dtype_of(dtype: DType) -> DType {
    if dtype.is_float() { compute_type(dtype) } else { dtype }
}
