//! From the block of a function to an e-graph.

use std::collections::HashMap;

use egg::Id;
use tenon_graph_dialect::operators::SetDimensionSize;
use tenon_graph_dialect::{Operator, OperatorKind, SemanticError, TensorType};
use tenon_ir::{Block, Op, Value};

use crate::graph::{Graph, Origin};
use crate::language::Symbol;

/// A block that was read.
pub(crate) struct Read<'m> {
    pub(crate) graph: Graph,
    /// Operations of the block, in order.
    pub(crate) ops: Vec<Op<'m>>,
    /// Which of them are operators that the e-graph holds.
    pub(crate) is_operator: Vec<bool>,
    /// Class of each value, by its key.
    pub(crate) classes: HashMap<usize, Id>,
    /// Classes of what operations read that stay where they are, in order.
    pub(crate) roots: Vec<Id>,
    /// Class of each operation that stays, by its place.
    pub(crate) fences: HashMap<u32, Id>,
}

/// The operator of an operation that the e-graph may hold: one result, no effect on names of extents.
pub(crate) fn pure(op: Op<'_>) -> Result<Option<Operator>, SemanticError> {
    if op.is(SetDimensionSize::NAME) || op.result_count() != 1 {
        return Ok(None);
    }
    Operator::read(op).transpose()
}

/// Reads a block. `None` where an operation of it has regions that see the block's values, which an e-graph of the block alone does not show, or
/// where a value is not in row-major order.
pub(crate) fn read<'m>(block: Block<'m>) -> Result<Option<Read<'m>>, SemanticError> {
    let ops = block.ops();
    let mut graph = Graph::default();
    let mut classes = HashMap::new();
    let (mut roots, mut fences) = (Vec::new(), HashMap::new());
    let mut is_operator = vec![false; ops.len()];
    for (place, argument) in block.arguments().into_iter().enumerate() {
        let ty = TensorType::read(argument.ty())?;
        classes.insert(argument.key(), graph.input(place as u32, ty));
    }
    for (place, op) in ops.iter().enumerate() {
        if op.region_count() > 0 && !op.is("graph.kernel") {
            return Ok(None);
        }
        let types = op.results().iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()?;
        if types.iter().any(|ty| ty.order.is_some()) {
            return Ok(None);
        }
        let operands: Option<Vec<Id>> = op.operands().iter().map(|value| classes.get(&value.key()).copied()).collect();
        let Some(operands) = operands else { return Ok(None) };
        if op.is("graph.get_parameter") {
            let name = op.attribute("parameter").and_then(|name| name.as_symbol()).unwrap_or_default();
            let (Some(ty), Some(result)) = (types.into_iter().next(), op.result(0)) else { return Ok(None) };
            classes.insert(result.key(), graph.parameter(&name, ty));
            continue;
        }
        if let Some(operator) = pure(*op)? {
            let Some(result) = op.result(0) else { return Ok(None) };
            let origin = Origin { sources: [place as u32].into(), rules: Vec::new() };
            classes.insert(result.key(), graph.add_as(operator, types, &operands, origin));
            is_operator[place] = true;
            continue;
        }
        roots.extend(&operands);
        let fence = graph.leaf(Symbol::Fence(place as u32), types, operands);
        fences.insert(place as u32, fence);
        for (index, result) in op.results().iter().enumerate() {
            classes.insert(result.key(), graph.projection(fence, index as u32));
        }
    }
    graph.rebuild();
    Ok(Some(Read { graph, ops, is_operator, classes, roots, fences }))
}

/// The key of a value.
pub(crate) fn key(value: Value<'_>) -> usize {
    value.key()
}
