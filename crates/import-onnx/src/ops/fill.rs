//! Tensors that follow from a shape: ConstantOfShape, Expand, Tile, Range, EyeLike, Trilu.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Iota};
use tenon_tensor::DType;

use super::cast::type_attribute;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};
use crate::import::sign;

/// One value everywhere; f32 zero where none is given.
pub(super) fn constant_of_shape(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let shape = op.known_dims(0, "the shape of the result")?;
    let value = match op.node.tensor("value")? {
        Some(value) if value.element_count() == 1 => op.importer.builder.constant(value.clone()),
        Some(value) => {
            return Err(op.node.attribute_error("value", "one element", format!("has {}", value.element_count())));
        }
        None => op.scalar(0.0, DType::F32)?,
    };
    let scalar = op.as_scalar(value)?;
    Ok(vec![op.broadcast(scalar, shape)?])
}

/// Two-sided broadcast to a shape.
pub(super) fn expand(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let x = op.input(0)?;
    let mut shape = op.known_dims(1, "the shape of the result")?;
    while shape.len() < op.rank(x) {
        shape.insert(0, DimExpr::constant(1));
    }
    Ok(vec![op.broadcast(x, shape)?])
}

/// Repetition along every dimension.
pub(super) fn tile(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let x = op.input(0)?;
    let repeats = op.known_dims(1, "the size of the result")?;
    if repeats.len() != op.rank(x) {
        return Err(op.invalid(format!("{} repeats for {} dimensions", repeats.len(), op.rank(x))));
    }
    if repeats.iter().any(|repeat| repeat.as_constant().is_some_and(|repeat| repeat < 0)) {
        return Err(op.invalid("a number of repeats is negative"));
    }
    let sizes = op.extents(x);
    // Only dimensions that repeat get one of their own for it, as ranks are bounded.
    let (mut apart, mut spread, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for (size, repeat) in sizes.iter().zip(&repeats) {
        if repeat.as_constant() != Some(1) {
            apart.push(DimExpr::constant(1));
            spread.push(repeat.clone());
        }
        apart.push(size.clone());
        spread.push(size.clone());
        whole.push(size.mul(repeat).ok_or_else(|| op.unsupported("a dimension this large"))?);
    }
    let x = op.reshape(x, apart)?;
    let x = op.broadcast(x, spread)?;
    Ok(vec![op.reshape(x, whole)?])
}

/// start, start + delta, … before the limit.
pub(super) fn range(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=3)?;
    let operands = op.inputs()?;
    let dtype = op.dtype(operands[0]);
    if operands.iter().any(|operand| op.rank(*operand) > 1 || op.dtype(*operand) != dtype) {
        return Err(op.invalid("start, limit and delta must be scalars of one type"));
    }
    if op.since >= 27 {
        op.node.int_or("stash_type", 1)?;
    }
    let is_known = |operand: &Handle| op.importer.builder.tensor(*operand).is_some();
    let are_known = if dtype.is_float() {
        operands.iter().all(is_known)
    } else {
        operands.iter().all(|operand| op.importer.builder.dims(*operand).is_some())
    };
    // With the values of inputs at hand, those that decide become constants, and the range needs no bound.
    if !are_known && !op.importer.has_given_values {
        let count = computed_count(op, &operands)?;
        let places = op.counted_within_recipe("range", count)?;
        return along(op, places, &operands).map(|values| vec![values]);
    }
    let what = "the size of the result";
    let count = if dtype.is_float() {
        let mut numbers = [0.0; 3];
        for (index, number) in numbers.iter_mut().enumerate() {
            *number = op.known_tensor(index, what)?.get_f64(0).ok_or_else(|| op.invalid("an input is empty"))?;
        }
        let [start, limit, delta] = numbers;
        let count = ((limit - start) / delta).ceil().max(0.0);
        if count.is_nan() || count > (1u64 << 40) as f64 {
            return Err(op.invalid(format!("a range from {start} to {limit} by {delta} has no end")));
        }
        DimExpr::constant(count as i64)
    } else {
        let mut numbers = Vec::new();
        for index in 0..3 {
            let list = op.known_dims(index, what)?;
            numbers.push(list.first().cloned().ok_or_else(|| op.invalid("an input is empty"))?);
        }
        let delta = numbers[2].as_constant();
        let delta =
            delta.filter(|delta| *delta != 0).ok_or_else(|| op.unsupported(format!("a step of {}", numbers[2])))?;
        let span = if delta > 0 { numbers[1].sub(&numbers[0]) } else { numbers[0].sub(&numbers[1]) };
        let too_large = || op.unsupported("a range this large");
        let span = span.ok_or_else(too_large)?;
        let step = delta.checked_abs().ok_or_else(too_large)?;
        let count =
            span.add(&DimExpr::constant(step - 1)).and_then(|span| span.floor_div(step)).ok_or_else(too_large)?;
        match sign(&count) {
            Some(std::cmp::Ordering::Less) => DimExpr::constant(0),
            // A range that could be empty or not by the symbols.
            None if count.to_string().contains('-') => count.maximum(&DimExpr::constant(0)).ok_or_else(too_large)?,
            _ => count,
        }
    };
    let places = op.emit(Iota { dtype: DType::I64, shape: vec![count], axis: 0 }, &[])?;
    along(op, places, &operands).map(|values| vec![values])
}

/// How many elements a range has whose start, limit and delta are known when the program runs, i64: the quotient rounded up, at least 0.
fn computed_count(op: &mut OpImport<'_, '_, '_>, operands: &[Handle]) -> Result<Handle, ImportError> {
    let is_float = op.dtype(operands[0]).is_float();
    let wide = if is_float { DType::F64 } else { DType::I64 };
    let mut numbers = Vec::with_capacity(3);
    for operand in operands {
        let scalar = op.as_scalar(*operand)?;
        numbers.push(op.cast(scalar, wide)?);
    }
    let [start, limit, delta] = numbers[..] else { return Err(op.invalid("three inputs are needed")) };
    let span = op.apply(Function::Subtract, &[limit, start])?;
    let count = if is_float {
        let quotient = op.apply(Function::Divide, &[span, delta])?;
        let quotient = op.apply(Function::Ceil, &[quotient])?;
        op.cast(quotient, DType::I64)?
    } else {
        // Division rounds towards 0: a step less one of its own sign makes it round up.
        let sign = op.apply(Function::Sign, &[delta])?;
        let rest = op.apply(Function::Subtract, &[delta, sign])?;
        let sum = op.apply(Function::Add, &[span, rest])?;
        op.apply(Function::Divide, &[sum, delta])?
    };
    let zero = op.integer(0)?;
    op.apply(Function::Max, &[count, zero])
}

/// start + place · delta, for each place.
fn along(op: &mut OpImport<'_, '_, '_>, places: Handle, operands: &[Handle]) -> Result<Handle, ImportError> {
    let dtype = op.dtype(operands[0]);
    // Narrow floats are computed in f32: their own steps would drift.
    let wide = if dtype.is_float() && dtype.bits() < 32 { DType::F32 } else { dtype };
    let places = op.cast(places, wide)?;
    let (start, delta) = (op.as_scalar(operands[0])?, op.as_scalar(operands[2])?);
    let (start, delta) = (op.cast(start, wide)?, op.cast(delta, wide)?);
    let offsets = op.apply(Function::Multiply, &[places, delta])?;
    let result = op.apply(Function::Add, &[offsets, start])?;
    op.cast(result, dtype)
}

/// The index along `axis` of each place of a matrix with `rows` and `columns`, as a row or column.
fn places(op: &mut OpImport<'_, '_, '_>, rows: &DimExpr, columns: &DimExpr) -> Result<(Handle, Handle), ImportError> {
    let row = op.emit(Iota { dtype: DType::I64, shape: vec![rows.clone(), 1.into()], axis: 0 }, &[])?;
    let column = op.emit(Iota { dtype: DType::I64, shape: vec![1.into(), columns.clone()], axis: 1 }, &[])?;
    Ok((row, column))
}

/// 1 on diagonal `k` of a matrix shaped as the input, else 0.
pub(super) fn eye_like(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let dtype = type_attribute(op, "dtype")?.unwrap_or_else(|| op.dtype(x));
    let offset = op.node.int_or("k", 0)?;
    if op.rank(x) != 2 {
        return Err(op.invalid(format!("the input must be a matrix, not {}", op.ty(x))));
    }
    let shape = op.extents(x);
    let (row, column) = places(op, &shape[0], &shape[1])?;
    let offset = op.integers(&[offset])?;
    let diagonal = op.apply(Function::Add, &[row, offset])?;
    let hit = op.apply(Function::Equal, &[diagonal, column])?;
    Ok(vec![op.cast(hit, dtype)?])
}

/// The upper or lower triangle of matrices, from diagonal `k`; the rest is 0.
pub(super) fn trilu(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=2)?;
    let x = op.input(0)?;
    let rank = op.rank_at_least(x, 2)?;
    let upper = op.node.flag_or("upper", true)?;
    let shape = op.extents(x);
    let (row, column) = places(op, &shape[rank - 2], &shape[rank - 1])?;
    let offset = match op.optional(1)? {
        Some(offset) => op.as_scalar(offset)?,
        None => op.scalar(0.0, DType::I64)?,
    };
    let diagonal = op.apply(Function::Add, &[row, offset])?;
    let function = if upper { Function::GreaterEqual } else { Function::LessEqual };
    let inside = op.apply(function, &[column, diagonal])?;
    let zero = op.scalar(0.0, op.dtype(x))?;
    Ok(vec![op.apply(Function::Select, &[inside, x, zero])?])
}
