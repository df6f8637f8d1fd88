//! Unique.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{
    ArgReduce, Combine, Concat, Function, Gather, GatherKind, Iota, ReduceKind, Scan, ScanKind, Scatter, ScatterKind,
    SearchSorted, TopK,
};
use tenon_tensor::DType;

use super::selection::flat;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// The elements (slices along an axis) that are not equal to an earlier one, in ascending order or that of their first occurrence; and, i64,
/// where each occurs first, which of them each element is, and how often each occurs. NaN equals NaN and is the largest.
pub(super) fn unique(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let sorted = op.node.flag_or("sorted", true)?;
    let axis = op.node.int("axis")?;
    let dtype = op.dtype(x);
    let number = if dtype == DType::Bool { DType::U8 } else { dtype };
    let x = op.cast(x, number)?;
    let mut outputs = match axis {
        Some(axis) => {
            let axis = op.axis(axis, op.rank(x))?;
            if op.dim(x, axis).known() == Some(0) {
                return nothing(op, x, dtype);
            }
            of_slices(op, x, axis, sorted)?
        }
        None => {
            let list = flat(op, x)?;
            match op.dim(list, 0).known().and_then(|size| i64::try_from(size).ok()) {
                Some(0) => return nothing(op, list, dtype),
                Some(size) => of_list(op, list, size, sorted)?,
                _ => of_slices(op, list, 0, sorted)?,
            }
        }
    };
    outputs[0] = op.cast(outputs[0], dtype)?;
    Ok(outputs)
}

/// Of no elements.
fn nothing(op: &mut OpImport<'_, '_, '_>, x: Handle, dtype: DType) -> Outputs {
    let none = op.emit(Iota { dtype: DType::I64, shape: vec![DimExpr::constant(0)], axis: 0 }, &[])?;
    Ok(vec![op.cast(x, dtype)?, none, none, none])
}

fn take(op: &mut OpImport<'_, '_, '_>, x: Handle, places: Handle, axis: usize) -> Result<Handle, ImportError> {
    op.emit(Gather { kind: GatherKind::Take, axis: axis as i64, batch_dims: 0 }, &[x, places])
}

/// Writes `values` of a list to `places`, a permutation.
fn put(op: &mut OpImport<'_, '_, '_>, places: Handle, values: Handle) -> Result<Handle, ImportError> {
    op.emit(Scatter { kind: ScatterKind::Elements, axis: 0, combine: Combine::Set }, &[values, places, values])
}

fn plus(op: &mut OpImport<'_, '_, '_>, x: Handle, number: f64) -> Result<Handle, ImportError> {
    let number = op.scalar(number, DType::I64)?;
    op.apply(Function::Add, &[x, number])
}

fn count_up(op: &mut OpImport<'_, '_, '_>, like: Handle) -> Result<Handle, ImportError> {
    let shape = vec![op.extents(like)[0].clone()];
    op.emit(Iota { dtype: DType::I64, shape, axis: 0 }, &[])
}

/// Whether elements differ; NaN does not differ from NaN.
fn differ(op: &mut OpImport<'_, '_, '_>, a: Handle, b: Handle) -> Result<Handle, ImportError> {
    let differ = op.apply(Function::NotEqual, &[a, b])?;
    if !op.dtype(a).is_float() {
        return Ok(differ);
    }
    let nans = [op.apply(Function::IsNan, &[a])?, op.apply(Function::IsNan, &[b])?];
    let both = op.apply(Function::And, &nans)?;
    let apart = op.apply(Function::Not, &[both])?;
    op.apply(Function::And, &[differ, apart])
}

/// Whether a is before b: NaN comes last.
fn before(op: &mut OpImport<'_, '_, '_>, a: Handle, b: Handle) -> Result<Handle, ImportError> {
    let less = op.apply(Function::Less, &[a, b])?;
    if !op.dtype(a).is_float() {
        return Ok(less);
    }
    let nans = [op.apply(Function::IsNan, &[a])?, op.apply(Function::IsNan, &[b])?];
    let number = op.apply(Function::Not, &[nans[0]])?;
    let last = op.apply(Function::And, &[number, nans[1]])?;
    op.apply(Function::Or, &[less, last])
}

/// Of a list of `size` elements, by sorting it: equal ones become neighbours, those that come first in front.
fn of_list(op: &mut OpImport<'_, '_, '_>, list: Handle, size: i64, sorted: bool) -> Outputs {
    let ordered = op.emit_all(TopK { k: size, axis: 0, smallest: true }, &[list])?;
    let (value, origin) = (ordered[0], ordered[1]);
    let rest = DimExpr::constant(size - 1);
    let previous = op.slice(value, 0, DimExpr::constant(0), rest.clone())?;
    let next = op.slice(value, 0, DimExpr::constant(1), rest)?;
    let begins = differ(op, previous, next)?;
    let first = op.literal(DType::Bool, &[1], &[1.0])?;
    let begins = op.emit(Concat { axis: 0 }, &[first, begins])?;
    // For each place of the ordered list: which run of equals it is in, where that begins, how long it is.
    let begins_as_number = op.cast(begins, DType::I64)?;
    let scan = |kind| Scan { kind, axis: 0, exclusive: false, reverse: false };
    let run = op.emit(scan(ScanKind::Sum), &[begins_as_number])?;
    let place = count_up(op, list)?;
    let zero = op.scalar(0.0, DType::I64)?;
    let beginning = op.apply(Function::Select, &[begins, place, zero])?;
    let beginning = op.emit(scan(ScanKind::Max), &[beginning])?;
    let next_run = plus(op, run, 1.0)?;
    let end = op.emit(SearchSorted, &[run, next_run])?;
    let length = op.apply(Function::Subtract, &[end, beginning])?;
    if sorted {
        let chosen = op.selection("unique", begins)?.places;
        let number = plus(op, run, -1.0)?;
        let inverse = put(op, origin, number)?;
        return Ok(vec![
            take(op, value, chosen, 0)?,
            take(op, origin, chosen, 0)?,
            inverse,
            take(op, length, chosen, 0)?,
        ]);
    }
    let first = take(op, origin, beginning, 0)?;
    let first = put(op, origin, first)?;
    let length = put(op, origin, length)?;
    let is_first = op.apply(Function::Equal, &[first, place])?;
    let selection = op.selection("unique", is_first)?;
    let inverse = take(op, selection.chosen_up_to, first, 0)?;
    Ok(vec![
        take(op, list, selection.places, 0)?,
        selection.places,
        plus(op, inverse, -1.0)?,
        take(op, length, selection.places, 0)?,
    ])
}

/// Of slices along an axis, by comparing each with each: the first difference decides.
fn of_slices(op: &mut OpImport<'_, '_, '_>, x: Handle, axis: usize, sorted: bool) -> Outputs {
    let rank = op.rank(x);
    let permutation: Vec<i64> =
        [axis].into_iter().chain((0..rank).filter(|dim| *dim != axis)).map(|dim| dim as i64).collect();
    let front = op.transpose(x, permutation)?;
    let shape = op.extents(front);
    let columns = crate::import::node::product(&shape[1..]);
    let columns = columns.ok_or_else(|| op.invalid("the size of a slice is too complex an expression"))?;
    if columns.as_constant() == Some(0) {
        return Err(op.unsupported("slices without elements"));
    }
    let one = DimExpr::constant(1);
    let here = op.reshape(front, vec![shape[0].clone(), one.clone(), columns.clone()])?;
    let there = op.reshape(front, vec![one, shape[0].clone(), columns])?;
    let differs = differ(op, here, there)?;
    let is_different = op.reduce(ReduceKind::Any, differs, &[2], false)?;
    let is_equal = op.apply(Function::Not, &[is_different])?;
    // Which slice each is equal to first.
    let equal_as_number = op.cast(is_equal, DType::U8)?;
    let arg = |axis, keep_dims| ArgReduce { axis, keep_dims, minimum: false, last: false };
    let first = op.emit(arg(1, false), &[equal_as_number])?;
    let place = count_up(op, first)?;
    let is_first = op.apply(Function::Equal, &[first, place])?;
    let equal_as_number = op.cast(is_equal, DType::I64)?;
    let count = op.reduce(ReduceKind::Sum, equal_as_number, &[1], false)?;
    let selection = op.selection("unique", is_first)?;
    if !sorted {
        let inverse = take(op, selection.chosen_up_to, first, 0)?;
        return Ok(vec![
            take(op, x, selection.places, axis)?,
            selection.places,
            plus(op, inverse, -1.0)?,
            take(op, count, selection.places, 0)?,
        ]);
    }
    let differs = op.cast(differs, DType::U8)?;
    let column = op.emit(arg(2, true), &[differs])?;
    let is_before = before(op, there, here)?;
    let is_before = op.emit(Gather { kind: GatherKind::Elements, axis: 2, batch_dims: 0 }, &[is_before, column])?;
    let pairs = op.extents(is_different);
    let is_before = op.reshape(is_before, pairs)?;
    // How many different slices come before each.
    let counted = op.apply(Function::And, &[is_before, is_first])?;
    let counted = op.cast(counted, DType::I64)?;
    let number = op.reduce(ReduceKind::Sum, counted, &[1], false)?;
    let chosen_number = take(op, number, selection.places, 0)?;
    let order = put(op, chosen_number, selection.places)?;
    Ok(vec![take(op, x, order, axis)?, order, number, take(op, count, order, 0)?])
}
