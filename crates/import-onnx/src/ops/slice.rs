//! Slice.
//!
//! Bounds clamp to the dimension, over a free dimension too. Two things are left to what a request is held against, since most models have them and
//! expressions that stay plain say more: a bound of 1 or -1 takes a dimension of one element at least, and a bound that is an expression
//! itself lies inside.

use std::cmp::Ordering;

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Gather, GatherKind, Slice};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};
use crate::import::sign;

/// Bounds beyond this are "to the end", as exporters write it.
const FAR: i64 = i32::MAX as i64 - 1;

/// Slice: bounds are attributes before version 10, then inputs.
pub(super) fn slice(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let x = op.input(0)?;
    let rank = op.rank(x);
    let numbers = |list: &[i64]| list.iter().map(|value| DimExpr::constant(*value)).collect::<Vec<_>>();
    let (first, last, axes, strides) = if op.since < 10 {
        op.takes(1..=1)?;
        let list = |name: &str| -> Result<Vec<DimExpr>, ImportError> {
            Ok(numbers(op.node.required(name, op.node.ints(name)?)?))
        };
        (list("starts")?, list("ends")?, op.node.ints("axes")?.map(<[i64]>::to_vec), None)
    } else {
        op.takes(3..=5)?;
        let what = "the size of the result";
        let optional = |index: usize| op.optional(index)?.map(|_| op.known_ints(index, what)).transpose();
        let (axes, steps) = (optional(3)?, optional(4)?);
        let (starts, ends) = (op.input(1)?, op.input(2)?);
        let known = |handle| op.importer.builder.dims(handle);
        match (known(starts), known(ends)) {
            // Bounds that a loop counts change from one iteration to the next.
            (Some(starts), Some(ends))
                if !starts.iter().chain(&ends).any(|bound| op.importer.builder.is_counted(bound)) =>
            {
                (starts, ends, axes, steps)
            }
            _ => return computed(op, x, [starts, ends], axes, steps),
        }
    };
    let axes = axes.unwrap_or_else(|| (0..first.len() as i64).collect());
    let strides = strides.unwrap_or_else(|| vec![1; first.len()]);
    if last.len() != first.len() || axes.len() != first.len() || strides.len() != first.len() {
        return Err(op.invalid("starts, ends, axes and steps differ in number"));
    }
    op.axes(&axes, rank)?;
    let mut sizes = op.extents(x);
    let mut starts = vec![DimExpr::constant(0); rank];
    let mut steps = vec![1; rank];
    for (index, axis) in axes.iter().enumerate() {
        let axis = op.axis(*axis, rank)?;
        let step = strides[index];
        if step == 0 {
            return Err(op.invalid("a step is 0"));
        }
        let size = &sizes[axis];
        let bounds = match (size.as_constant(), first[index].as_constant(), last[index].as_constant()) {
            (Some(size), Some(start), Some(end)) => Some(fixed(size, start, end, step)),
            _ => free(size, &first[index], &last[index], step, op.importer.builder.is_computed(size)),
        };
        let (start, count) = bounds.ok_or_else(|| {
            let what = format!("a slice from {} to {} by {step} of the dimension {size}", first[index], last[index]);
            match size.as_constant() {
                Some(_) => op.unsupported(what),
                None => op.free_dimension(format!("{what}, which is not fixed,")),
            }
        })?;
        starts[axis] = start;
        sizes[axis] = count;
        steps[axis] = step;
    }
    if sizes == op.extents(x) && steps.iter().all(|step| *step == 1) {
        return Ok(vec![x]);
    }
    Ok(vec![op.emit(Slice { starts, sizes, steps }, &[x])?])
}

/// More elements than a dimension that fits in memory has.
const FARTHEST_STEP: i64 = 1 << 40;

/// A slice whose bounds are known when the program runs: how many elements there are is computed, then they are read by index.
fn computed(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    bounds: [Handle; 2],
    axes: Option<Vec<i64>>,
    steps: Option<Vec<i64>>,
) -> Outputs {
    let rank = op.rank(x);
    if bounds.iter().any(|bound| op.rank(*bound) != 1) {
        return Err(op.invalid("starts and ends must have one dimension"));
    }
    let number = op.fixed_dim(bounds[0], 0, "a slice by bounds")?;
    let axes = axes.unwrap_or_else(|| (0..number).collect());
    let steps = steps.unwrap_or_else(|| vec![1; axes.len()]);
    let fits = op.fixed_dim(bounds[1], 0, "a slice by bounds")? == number && axes.len() as i64 == number;
    if !fits || steps.len() != axes.len() {
        return Err(op.invalid("starts, ends, axes and steps differ in number"));
    }
    op.axes(&axes, rank)?;
    let mut result = x;
    for (index, (axis, step)) in axes.iter().zip(&steps).enumerate() {
        if *step == 0 {
            return Err(op.invalid("a step is 0"));
        }
        // A step beyond every dimension reads one element, however large it is.
        let step = &(*step).clamp(-FARTHEST_STEP, FARTHEST_STEP);
        let axis = op.axis(*axis, rank)?;
        let extent = op.extents(x)[axis].clone();
        let size = op.extent_value(&extent)?;
        let mut places = Vec::with_capacity(2);
        for bound in bounds {
            let bound = op.slice(bound, 0, DimExpr::constant(index as i64), DimExpr::constant(1))?;
            let bound = op.as_scalar(bound)?;
            let bound = op.cast(bound, DType::I64)?;
            places.push(place(op, bound, size, places.is_empty(), *step)?);
        }
        let [start, end] = places[..] else { return Err(op.invalid("a slice needs two bounds")) };
        let span = if *step > 0 { [end, start] } else { [start, end] };
        let span = op.apply(Function::Subtract, &span)?;
        let length = step.unsigned_abs();
        let rounding = op.integer(i64::try_from(length - 1).unwrap_or(i64::MAX))?;
        let span = op.apply(Function::Add, &[span, rounding])?;
        let length = op.integer(i64::try_from(length).unwrap_or(i64::MAX))?;
        let zero = op.integer(0)?;
        let span = op.apply(Function::Max, &[span, zero])?;
        let count = op.apply(Function::Divide, &[span, length])?;
        let (_, ranks) = op.counted("slice", count, extent)?;
        let step = op.integer(*step)?;
        let distance = op.apply(Function::Multiply, &[ranks, step])?;
        let indices = op.apply(Function::Add, &[start, distance])?;
        let take = Gather { kind: GatherKind::Take, axis: axis as i64, batch_dims: 0 };
        result = op.emit(take, &[result, indices])?;
    }
    Ok(vec![result])
}

/// Where a bound lies: counted from the end where negative, then clamped to where a start, or an end, may be.
fn place(
    op: &mut OpImport<'_, '_, '_>,
    bound: Handle,
    size: Handle,
    is_start: bool,
    step: i64,
) -> Result<Handle, ImportError> {
    let (zero, one) = (op.integer(0)?, op.integer(1)?);
    let negative = op.apply(Function::Less, &[bound, zero])?;
    let from_end = op.apply(Function::Add, &[bound, size])?;
    let bound = op.apply(Function::Select, &[negative, from_end, bound])?;
    let low = if step < 0 && !is_start { op.integer(-1)? } else { zero };
    let high = if step < 0 { op.apply(Function::Subtract, &[size, one])? } else { size };
    let bound = op.apply(Function::Max, &[bound, low])?;
    op.apply(Function::Min, &[bound, high])
}

/// Start and number of elements of a dimension of known size.
fn fixed(size: i64, start: i64, end: i64, step: i64) -> (DimExpr, DimExpr) {
    let place = |bound: i64| i128::from(bound) + if bound < 0 { i128::from(size) } else { 0 };
    let (size, step) = (i128::from(size), i128::from(step));
    let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
    // A start before the first element is the first element, backwards as well; only an end reaches past it.
    let (start, end) = (place(start).max(0).clamp(low, high), place(end).clamp(low, high));
    let span = if step > 0 { end - start } else { start - end };
    let step = step.abs();
    let count = if span > 0 { (span + step - 1) / step } else { 0 };
    // An empty slice starts anywhere.
    let start = if count == 0 { 0 } else { start };
    (DimExpr::constant(start as i64), DimExpr::constant(count as i64))
}

/// The same where something is an expression. Of a `computed` size nothing is taken for granted: it may be 0.
fn free(size: &DimExpr, start: &DimExpr, end: &DimExpr, step: i64, computed: bool) -> Option<(DimExpr, DimExpr)> {
    let zero = DimExpr::constant(0);
    // A number of elements from the front or from the end, cut at the dimension. Of one known to be there, nothing is cut.
    let cut = |number: i64| match number {
        ..=1 => Some(DimExpr::constant(number)),
        _ => DimExpr::constant(number).minimum(size),
    };
    let from_end = |bound: &DimExpr| match (bound.as_constant(), sign(bound)) {
        (Some(number), _) if number < 0 && !computed => size.sub(&cut(number.checked_neg()?)?),
        (_, Some(Ordering::Less)) => size.add(bound),
        _ => Some(bound.clone()),
    };
    let numbers = start.as_constant().zip(end.as_constant()).filter(|_| size.as_constant().is_none());
    if numbers.is_some_and(|(start, end)| step > 0 && (start < 0) == (end < 0) && start >= end) {
        return Some((zero.clone(), zero));
    }
    // From the front up to some distance from the end, or the other way around: nothing where the two pass each other.
    let pass = numbers.is_some_and(|(start, end)| start != 0 && (start < 0) != (end < 0) && start >= -FAR && end < FAR);
    if step < 0 {
        // Only from the last element down to the first.
        let from_last = start.as_constant().is_some_and(|start| start == -1 || start >= FAR)
            || size.sub(&DimExpr::constant(1)).as_ref() == Some(start);
        let to_first = end.as_constant().is_some_and(|end| end < -FAR);
        if !from_last || !to_first {
            return None;
        }
        let step = step.checked_neg()?;
        let count = size.add(&DimExpr::constant(step - 1))?.floor_div(step)?;
        let last = size.sub(&DimExpr::constant(1))?;
        return Some((if computed { last.maximum(&zero)? } else { last }, count));
    }
    let start = match start.as_constant() {
        Some(start) if start < -FAR => DimExpr::constant(0),
        Some(number) if number >= 0 && size.as_constant().is_none() && !computed => cut(number)?,
        _ => from_end(start)?,
    };
    let end = match (end.as_constant(), size.as_constant()) {
        (Some(end), _) if end >= FAR => size.clone(),
        (Some(number), None) if number >= 0 => end.minimum(size)?,
        (Some(number), Some(size)) => {
            let place = if number < 0 { number.saturating_add(size) } else { number };
            DimExpr::constant(place.clamp(0, size))
        }
        (Some(_), None) => from_end(end)?,
        // An expression over a fixed dimension is taken to lie inside, which is checked once it is a number.
        (None, Some(_)) => from_end(end)?,
        (None, None) if end == size => size.clone(),
        (None, None) => from_end(end)?.minimum(size)?,
    };
    let (start, span) = if computed {
        let start = if start == zero { start } else { start.minimum(size)?.maximum(&zero)? };
        let span = end.maximum(&zero)?.sub(&start)?.maximum(&zero)?;
        (start, span)
    } else {
        let span = end.sub(&start)?;
        let span = if pass { span.maximum(&zero)? } else { span };
        (start, span)
    };
    let count = if step == 1 { span } else { span.add(&DimExpr::constant(step - 1))?.floor_div(step)? };
    match count.as_constant() {
        Some(count) if count <= 0 => Some((DimExpr::constant(0), DimExpr::constant(0))),
        _ => Some((start, count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python's `range(size)[start:end:step]` gives, first element and length; only a start before the first
    /// element is the first element backwards too (Slice-13: with negative steps starts clamp to [0, dim - 1]).
    #[test]
    fn bounds_clamp_as_python_slices() {
        let cases = [
            (5, 1, 4, 1, (1, 3)),
            (5, -3, i64::MAX, 1, (2, 3)),
            (5, 3, 1, 1, (0, 0)),
            (5, i64::MAX, i64::MIN, -1, (4, 5)),
            (5, -1, i64::MIN, -2, (4, 3)),
            (4, i64::MIN, -5, -2, (0, 1)),
            (0, i64::MIN, i64::MIN, -1, (0, 0)),
            (5, 4, 0, -1, (4, 4)),
            (5, 0, 100, 2, (0, 3)),
            (0, 0, 5, 1, (0, 0)),
            (5, i64::MIN, 3, 1, (0, 3)),
        ];
        for (size, start, end, step, (first, count)) in cases {
            let expected = (DimExpr::constant(first), DimExpr::constant(count));
            assert_eq!(fixed(size, start, end, step), expected, "{size}[{start}:{end}:{step}]");
        }
    }

    #[test]
    fn free_dimensions_give_expressions() {
        let n = DimExpr::symbol("n");
        let number = DimExpr::constant;
        let text = |result: Option<(DimExpr, DimExpr)>| result.map(|(start, count)| format!("{start} {count}"));
        assert_eq!(text(free(&n, &number(-1), &number(i64::MAX), 1, false)), Some("n-1 1".to_owned()));
        assert_eq!(text(free(&n, &number(0), &number(-1), 1, false)), Some("0 n-1".to_owned()));
        assert_eq!(text(free(&n, &number(0), &n, 1, false)), Some("0 n".to_owned()));
        assert_eq!(text(free(&n, &number(0), &number(5), 1, false)), Some("0 min(5,n)".to_owned()));
        assert_eq!(text(free(&number(9), &number(0), &n, 1, false)), Some("0 n".to_owned()));
        assert_eq!(text(free(&n, &number(-1), &number(i64::MIN), -1, false)), Some("n-1 n".to_owned()));
        assert_eq!(text(free(&n, &number(-3), &number(i64::MAX), 1, false)), Some("n-min(3,n) min(3,n)".to_owned()));
        assert_eq!(free(&n, &number(4), &number(0), -1, false), None);
        // What is written plainly takes one element at least; no other size needs more.
        let bounds = [-4, -3, -2, -1, 0, 1, 2, 3, 4];
        for (n, start) in (1..7).flat_map(|n| bounds.map(|start| (n, start))) {
            for (end, step) in bounds.into_iter().chain([i64::MAX]).flat_map(|end| [(end, 1), (end, 2)]) {
                let (first, count) = free(&DimExpr::symbol("n"), &number(start), &number(end), step, false).unwrap();
                let value = |expression: &DimExpr| expression.evaluate(&|_| Some(n)).unwrap();
                let (wanted_first, wanted) = fixed(n, start, end, step);
                assert_eq!(number(value(&count)), wanted, "{n}[{start}:{end}:{step}]");
                assert!(wanted == number(0) || number(value(&first)) == wanted_first, "{n}[{start}:{end}:{step}]");
                assert!((0..=n).contains(&value(&first)), "{n}[{start}:{end}:{step}]");
            }
        }
        // Elements of a size that may be 0.
        for n in 0..6 {
            for (start, end, step) in
                [(-3, -1, 1), (0, -1, 1), (-1, i64::MAX, 1), (2, 4, 1), (-4, i64::MAX, 2), (-1, i64::MIN, -1)]
            {
                let (first, count) = free(&DimExpr::symbol("n"), &number(start), &number(end), step, true).unwrap();
                let value = |expression: &DimExpr| expression.evaluate(&|_| Some(n)).unwrap();
                let (wanted_first, wanted) = fixed(n, start, end, step);
                assert_eq!(number(value(&count)), wanted, "{n}[{start}:{end}:{step}]");
                assert!(wanted == number(0) || number(value(&first)) == wanted_first, "{n}[{start}:{end}:{step}]");
            }
        }
    }
}
