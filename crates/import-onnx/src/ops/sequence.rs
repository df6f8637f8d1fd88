//! Sequences and optionals. Their structure is known while a model is imported: a sequence is a list of values, and an optional is its
//! value or nothing.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::Concat;
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::graph::Graph;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// Most operands of one concatenation; more are concatenated in several.
const MAX_OPERANDS: usize = 32;

/// The tensors one after another along an axis; with `joins` along one that they have, else along a new one.
pub(super) fn stack(
    op: &mut OpImport<'_, '_, '_>,
    values: &[Handle],
    axis: usize,
    joins: bool,
) -> Result<Handle, ImportError> {
    let mut parts = Vec::with_capacity(values.len());
    for value in values {
        if let Some(found) = op.importer.no_tensor(*value) {
            return Err(op.invalid(format!("{found} cannot be an element of a tensor")));
        }
        let mut shape = op.extents(*value);
        if !joins {
            shape.insert(axis, DimExpr::constant(1));
        }
        parts.push(op.reshape(*value, shape)?);
    }
    while parts.len() > 1 {
        let mut joined = Vec::with_capacity(parts.len().div_ceil(MAX_OPERANDS));
        for group in parts.chunks(MAX_OPERANDS) {
            joined.push(match group {
                [only] => *only,
                _ => op.emit(Concat { axis: axis as i64 }, group)?,
            });
        }
        parts = joined;
    }
    parts.first().copied().ok_or_else(|| op.unsupported("a concatenation of nothing"))
}

/// The elements of input `index`, which must be a sequence.
fn elements(op: &OpImport<'_, '_, '_>, index: usize) -> Result<Vec<Handle>, ImportError> {
    let handle = op.any(index)?.ok_or_else(|| op.invalid(format!("input number {index} is missing")))?;
    let list = op.importer.elements(handle).map(<[Handle]>::to_vec);
    list.ok_or_else(|| op.invalid(format!("input number {index} must be a sequence")))
}

/// A position of input `index`, counted from the front; it must be below `end`.
fn position(op: &OpImport<'_, '_, '_>, index: usize, length: usize, end: usize) -> Result<usize, ImportError> {
    let given = op.known_int(index, "a position in a sequence")?;
    let from_front = if given < 0 { given.saturating_add(length as i64) } else { given };
    let found = usize::try_from(from_front).ok().filter(|position| *position < end);
    found.ok_or_else(|| op.invalid(format!("position {given} is outside a sequence of {length} elements")))
}

/// SequenceConstruct.
pub(super) fn construct(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let list = op.inputs()?;
    Ok(vec![op.importer.sequence(list)])
}

/// SequenceEmpty.
pub(super) fn empty(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(0..=0)?;
    super::cast::type_attribute(op, "dtype")?;
    Ok(vec![op.importer.sequence(Vec::new())])
}

/// SequenceAt.
pub(super) fn at(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let list = elements(op, 0)?;
    Ok(vec![list[position(op, 1, list.len(), list.len())?]])
}

/// SequenceInsert: before a position, or at the end.
pub(super) fn insert(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=3)?;
    let mut list = elements(op, 0)?;
    let value = op.input(1)?;
    let place = match op.optional(2)? {
        Some(_) => position(op, 2, list.len(), list.len() + 1)?,
        None => list.len(),
    };
    list.insert(place, value);
    Ok(vec![op.importer.sequence(list)])
}

/// SequenceErase: the element at a position, or the last one.
pub(super) fn erase(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=2)?;
    let mut list = elements(op, 0)?;
    let place = match op.optional(1)? {
        Some(_) => position(op, 1, list.len(), list.len())?,
        None => list.len().checked_sub(1).ok_or_else(|| op.invalid("the sequence has no element to erase"))?,
    };
    list.remove(place);
    Ok(vec![op.importer.sequence(list)])
}

/// SequenceLength.
pub(super) fn length(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let count = elements(op, 0)?.len();
    Ok(vec![op.literal(DType::I64, &[], &[count as f64])?])
}

/// ConcatFromSequence.
pub(super) fn concat(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let list = elements(op, 0)?;
    let axis = op.node.required("axis", op.node.int("axis")?)?;
    let is_new = op.node.flag_or("new_axis", false)?;
    let rank = list.first().map_or(0, |element| op.rank(*element));
    let axis = op.axis(axis, rank + usize::from(is_new))?;
    Ok(vec![stack(op, &list, axis, !is_new)?])
}

/// SplitToSequence: parts of given sizes, of one size (the last may be smaller), or of one element each, then without the dimension
/// unless `keepdims`.
pub(super) fn split(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=2)?;
    let x = op.input(0)?;
    let axis = op.axis(op.node.int_or("axis", 0)?, op.rank(x))?;
    let keeps = op.node.flag_or("keepdims", true)?;
    let size = op.fixed_dim(x, axis, "a split")?;
    let what = "the number of parts";
    let sizes: Vec<i64> = match op.optional(1)? {
        None => vec![1; size as usize],
        Some(split) if op.rank(split) == 0 => {
            let part = op.known_int(1, what)?;
            if part < 1 {
                return Err(op.invalid(format!("parts of {part} elements")));
            }
            let whole = vec![part; (size / part) as usize];
            whole.into_iter().chain(Some(size % part).filter(|rest| *rest > 0)).collect()
        }
        Some(_) => op.known_ints(1, what)?,
    };
    let total = sizes.iter().try_fold(0i64, |sum, part| sum.checked_add(*part).filter(|_| *part >= 0));
    if total != Some(size) {
        return Err(op.invalid(format!("parts of {sizes:?} elements of a dimension of {size}")));
    }
    let without = !keeps && op.optional(1)?.is_none();
    let mut parts = Vec::with_capacity(sizes.len());
    let mut start = 0;
    for part in sizes {
        parts.push(match without {
            true => op.element(x, axis, start)?,
            false => op.slice(x, axis, start.into(), part.into())?,
        });
        start += part;
    }
    Ok(vec![op.importer.sequence(parts)])
}

/// SequenceMap: the body applied to each element of the first input, to the elements of other sequences at the same place, and to the
/// tensors among the inputs as they are.
pub(super) fn map(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let body: &Graph = op.node.required("body", op.node.graph("body")?)?;
    let count = elements(op, 0)?.len();
    let mut columns = Vec::new();
    for index in 0..op.node.inputs.len() {
        let value = op.any(index)?.ok_or_else(|| op.invalid(format!("input number {index} is missing")))?;
        let column = op.importer.elements(value).map_or_else(|| vec![value; count], <[Handle]>::to_vec);
        if column.len() != count {
            return Err(op.invalid(format!("sequences of {count} and of {} elements", column.len())));
        }
        columns.push(column);
    }
    let mut outputs = vec![Vec::with_capacity(count); body.outputs.len()];
    for place in 0..count {
        let values: Vec<Handle> = columns.iter().map(|column| column[place]).collect();
        let results = op.importer.inner_graph(body, &values, &op.node.site)?;
        outputs.iter_mut().zip(results).for_each(|(list, result)| list.push(result));
    }
    Ok(outputs.into_iter().map(|list| op.importer.sequence(list)).collect())
}

/// Optional: the value, or nothing of a type.
pub(super) fn optional(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(0..=1)?;
    let declared = op.node.value_type("type")?.is_some();
    match op.any(0)? {
        Some(value) => Ok(vec![value]),
        None if declared => Ok(vec![op.importer.nothing()]),
        None => Err(op.invalid("an optional without a value must have a `type`")),
    }
}

/// OptionalGetElement: the value, which must be there.
pub(super) fn get_element(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    match op.any(0)? {
        Some(value) if !op.importer.is_nothing(value) => Ok(vec![value]),
        _ => Err(op.invalid("the optional holds nothing")),
    }
}

/// OptionalHasElement.
pub(super) fn has_element(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(0..=1)?;
    let there = op.any(0)?.is_some_and(|value| !op.importer.is_nothing(value));
    Ok(vec![op.literal(DType::Bool, &[], &[f64::from(u8::from(there))])?])
}

/// Identity, of anything.
pub(super) fn identity(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let value = op.any(0)?;
    Ok(vec![value.ok_or_else(|| op.invalid("input number 0 is missing"))?])
}
