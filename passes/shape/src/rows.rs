//! Which values have rows along a dimension, and whether rows mix.
//!
//! A dimension may be cut where row i of every value follows from row i of the inputs alone. That is shown operator by operator: each value has the
//! dimension on one axis or on none, and an operator takes rows to rows in order. What is not known to do so counts as mixing.

use std::collections::HashMap;

use tenon_graph_dialect::operators::{Gather, GatherKind, RecurrenceOperand};
use tenon_graph_dialect::{DimExpr, Operator, TensorType};
use tenon_ir::{Module, Op, Value};
use tenon_pass_manager::PassError;

use crate::Entry;

/// The axis that values have a dimension on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// Of each input of the entry.
    pub(crate) inputs: Vec<Option<usize>>,
    /// Of each operation of the entry in order, of each of its results.
    pub(crate) results: Vec<Vec<Option<usize>>>,
    /// Of each output of the entry.
    pub(crate) outputs: Vec<Option<usize>>,
}

/// An operation that mixes rows, or is not known not to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{operation}` ({}) is not known to keep rows along `{dim}` apart", nodes.join(", "))]
pub struct Mixed {
    /// Its name.
    pub operation: String,
    /// The dimension.
    pub dim: String,
    /// Nodes of the model that it came from.
    pub nodes: Vec<String>,
}

/// Why a module has no [`Rows`].
#[derive(Debug, Clone, thiserror::Error)]
pub enum RowsError {
    /// Rows mix.
    #[error(transparent)]
    Mixed(#[from] Mixed),
    /// It has no entry.
    #[error(transparent)]
    Entry(#[from] PassError),
}

impl Rows {
    /// The axes of the dimension `dim` in a module whose dimensions still have names.
    ///
    /// # Errors
    /// An operation that mixes rows, or is not known not to; a value that has the dimension more than once or as part of an expression.
    pub fn of(module: &Module<'_>, dim: &str) -> Result<Self, RowsError> {
        let entry = Entry::of(module)?;
        let mut axes: HashMap<usize, Option<usize>> = HashMap::new();
        let mut rows = Rows { inputs: Vec::new(), results: Vec::new(), outputs: Vec::new() };
        for argument in &entry.arguments {
            let axis = axis_of(*argument, dim).ok_or_else(|| mixes(entry.function, dim))?;
            axes.insert(argument.key(), axis);
            rows.inputs.push(axis);
        }
        if rows.inputs.iter().all(Option::is_none) {
            return Err(mixes(entry.function, dim).into());
        }
        let body = entry.function.region_block(0).map(|block| block.ops()).unwrap_or_default();
        for op in body {
            let operands: Vec<_> =
                op.operands().iter().map(|value| axes.get(&value.key()).copied().flatten()).collect();
            if op.is("func.return") {
                rows.outputs = operands;
                continue;
            }
            let results: Option<Vec<_>> = op.results().into_iter().map(|value| axis_of(value, dim)).collect();
            let results = results.filter(|results| keeps(op, dim, &operands, results)).ok_or_else(|| mixes(op, dim))?;
            for (value, axis) in op.results().into_iter().zip(&results) {
                axes.insert(value.key(), *axis);
            }
            rows.results.push(results);
        }
        Ok(rows)
    }
}

fn mixes(op: Op<'_>, dim: &str) -> Mixed {
    Mixed { operation: op.name(), dim: dim.to_owned(), nodes: op.location().names() }
}

/// The axis of a value that is exactly the dimension, and inside `None` where none is; `None` where it stands in the type in another way.
fn axis_of(value: Value<'_>, dim: &str) -> Option<Option<usize>> {
    // What is no tensor has no dimension.
    let Ok(ty) = TensorType::read(value.ty()) else { return Some(None) };
    let has = |expr: &DimExpr| expr.symbols().iter().any(|symbol| symbol == dim);
    let mut axes =
        ty.dims.iter().enumerate().filter(|(_, size)| has(&size.extent)).map(|(axis, size)| (axis, &size.extent));
    match (axes.next(), axes.next()) {
        (None, _) => Some(None),
        (Some((axis, extent)), None) => (extent.as_symbol() == Some(dim)).then_some(Some(axis)),
        _ => None,
    }
}

/// Whether an operation takes row i of its operands to row i of its results, given the axis of each.
fn keeps(op: Op<'_>, dim: &str, operands: &[Option<usize>], results: &[Option<usize>]) -> bool {
    let operator = match Operator::read(op) {
        None => return op.region_count() == 0 && operands.iter().chain(results).all(Option::is_none),
        Some(Err(_)) => return false,
        Some(Ok(operator)) => operator,
    };
    let types: Option<Vec<_>> = op.operands().into_iter().map(|value| TensorType::read(value.ty()).ok()).collect();
    let types_out: Option<Vec<_>> = op.results().into_iter().map(|value| TensorType::read(value.ty()).ok()).collect();
    let (Some(types), Some(types_out)) = (types, types_out) else { return false };
    let has = |expr: &DimExpr| expr.symbols().iter().any(|symbol| symbol == dim);
    // Whether an operand without rows is the same for each row of a result.
    let repeats = |ty: &TensorType, from_end: usize| {
        ty.rank() < from_end || ty.dims[ty.rank() - from_end].extent.as_constant() == Some(1)
    };
    if operands.iter().all(Option::is_none) {
        // Without rows no number of them may come in by an attribute.
        return match (&operator, results) {
            (Operator::Broadcast(_), [Some(axis)]) => repeats(&types[0], types_out[0].rank() - axis),
            (Operator::DimExtent(_), _) => false,
            _ => results.iter().all(Option::is_none),
        };
    }
    let whole = |axis: i64, rank: usize| usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok();
    let first = operands.first().copied().flatten();
    let rank = types.first().map_or(0, TensorType::rank);
    let rest_has_none = operands.iter().skip(1).all(Option::is_none);
    // Every operand that has rows has them at the result's place, counted from the last dimension.
    let aligned = |results: &[Option<usize>]| {
        let (Some(Some(result)), Some(ty)) = (results.first(), types_out.first()) else { return false };
        let from_end = ty.rank() - result;
        operands.iter().zip(&types).all(|(axis, operand)| match axis {
            Some(axis) => operand.rank() - axis == from_end,
            None => repeats(operand, from_end),
        })
    };
    let to = |axis: Option<usize>| axis.is_some() && results.iter().all(|result| *result == axis);
    let same = || rest_has_none && to(first);
    let other_axis = |axis: i64| whole(axis, rank) != first;
    // The axis behind the removal of others.
    let without = |removed: &[usize]| first.map(|first| first - removed.iter().filter(|axis| **axis < first).count());
    match &operator {
        Operator::Elementwise(_) | Operator::Cast(_) | Operator::Bitcast(_) | Operator::Broadcast(_) => {
            aligned(results)
        }
        Operator::Softmax(softmax) => other_axis(softmax.axis) && same(),
        Operator::Scan(scan) => other_axis(scan.axis) && same(),
        Operator::TopK(top_k) => other_axis(top_k.axis) && same(),
        Operator::ArgReduce(reduce) => {
            let Some(axis) = whole(reduce.axis, rank) else { return false };
            let left = if reduce.keep_dims { first } else { without(&[axis]) };
            other_axis(reduce.axis) && rest_has_none && to(left)
        }
        Operator::Reduce(reduce) => {
            let axes: Vec<_> = reduce.axes.iter().filter_map(|axis| whole(*axis, rank)).collect();
            let left = if reduce.keep_dims { first } else { without(&axes) };
            !axes.iter().any(|axis| Some(*axis) == first) && rest_has_none && to(left)
        }
        Operator::Normalize(normalize) => {
            let axes: Vec<_> = normalize.axes.iter().filter_map(|axis| whole(*axis, rank)).collect();
            !axes.iter().any(|axis| Some(*axis) == first) && aligned(results) && to(first)
        }
        Operator::Transpose(transpose) => {
            let axis = first.and_then(|first| transpose.permutation.iter().position(|from| *from == first as i64));
            to(axis)
        }
        Operator::Reshape(_) => {
            // As many elements before the axis as before: then rows are the same elements.
            let before = |ty: &TensorType, axis: usize| {
                ty.dims[..axis].iter().try_fold(1i64, |product, dim| product.checked_mul(dim.extent.as_constant()?))
            };
            let (Some(from), Some(Some(onto))) = (first, results.first()) else { return false };
            before(&types[0], from).is_some_and(|count| before(&types_out[0], *onto) == Some(count))
        }
        Operator::Concat(concat) => {
            let axis = whole(concat.axis, rank);
            axis != first && operands.iter().all(|operand| *operand == first) && to(first)
        }
        Operator::Slice(slice) => first.is_some_and(|axis| {
            let is_whole = slice.starts[axis].as_constant() == Some(0) && slice.sizes[axis].as_symbol() == Some(dim);
            is_whole && slice.steps[axis] == 1 && same()
        }),
        Operator::Pad(pad) => first.is_some_and(|axis| {
            let none = |list: &[DimExpr]| list[axis].as_constant() == Some(0) && !list.iter().any(has);
            none(&pad.low) && none(&pad.high) && same()
        }),
        Operator::Convolution(_) | Operator::Window(_) => first == Some(0) && same(),
        Operator::Resize(resize) => first.is_some_and(|axis| {
            let by_one = resize.scales.as_ref().is_none_or(|scales| scales[axis] == 1.0);
            axis < 2 && by_one && resize.region.is_none() && resize.sizes[axis].as_symbol() == Some(dim) && same()
        }),
        Operator::Gather(gather) => {
            gathers(gather, operands, rank, types.get(1).map_or(0, TensorType::rank)).is_some_and(|axis| to(Some(axis)))
        }
        Operator::Contract(contract) => {
            let label = |labels: &str, axis: Option<usize>| axis.and_then(|axis| labels.chars().nth(axis));
            let (left, right) = (label(&contract.lhs, first), label(&contract.rhs, operands.get(1).copied().flatten()));
            let Some(row) = left.or(right) else { return false };
            // A label that both have is one dimension, so that both have rows or neither.
            let consistent = [(&contract.lhs, left), (&contract.rhs, right)]
                .into_iter()
                .all(|(labels, own)| own == Some(row) || (own.is_none() && !labels.contains(row)));
            consistent && contract.result.chars().position(|label| label == row).is_some_and(|axis| to(Some(axis)))
        }
        Operator::Attention(_) => {
            let all_three = operands.iter().take(3).all(|axis| *axis == Some(0));
            all_three && aligned(results) && to(Some(0))
        }
        Operator::Recurrence(layer) => {
            let of_batch = |which| match which {
                RecurrenceOperand::Hidden | RecurrenceOperand::Memory | RecurrenceOperand::Lengths => Some(0),
                RecurrenceOperand::ResetBias | RecurrenceOperand::Peepholes => None,
            };
            let expected = [Some(1), None].into_iter().chain(layer.optional.iter().map(|which| of_batch(*which)));
            let states = results.iter().skip(1).all(|axis| *axis == Some(0));
            expected.eq(operands.iter().copied()) && results.first() == Some(&Some(1)) && states
        }
        Operator::Quantize(_) | Operator::Dequantize(_) => same(),
        _ => false,
    }
}

/// Where rows are after picking by index.
fn gathers(gather: &Gather, operands: &[Option<usize>], rank: usize, rank_of_indices: usize) -> Option<usize> {
    let [input, indices] = operands else { return None };
    let axis = usize::try_from(if gather.axis < 0 { gather.axis + rank as i64 } else { gather.axis }).ok()?;
    match (gather.kind, input, indices) {
        (GatherKind::Take, None, Some(row)) => Some(axis + row),
        (GatherKind::Take, Some(row), None) if *row < axis => Some(*row),
        (GatherKind::Take, Some(row), None) if *row > axis => Some(row - 1 + rank_of_indices),
        (GatherKind::Elements, Some(row), Some(other)) if row == other && *row != axis => Some(*row),
        (GatherKind::Nd, Some(row), Some(other)) if row == other && (*row as i64) < gather.batch_dims => Some(*row),
        (GatherKind::Nd, None, Some(row)) if row + 1 < rank_of_indices && gather.batch_dims == 0 => Some(*row),
        _ => None,
    }
}
