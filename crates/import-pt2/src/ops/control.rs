//! Control flow: nested graphs become regions of the flow dialect. A branch whose condition is known is put in the node's place.

use tenon_flow_dialect::{If, Loop, Scan, Schedule, check_operation, yield_values};
use tenon_graph_builder::Handle;
use tenon_graph_dialect::TensorType;
use tenon_ir::{Block, Op};
use tenon_tensor::DType;

use crate::error::{OpError, Pt2Error};
use crate::import::aliases::ValueId;
use crate::import::op::{OpImport, Out, Results};
use crate::schema::{Argument, Graph, OptionalTensor, SymBoolArgument};

/// A graph argument.
fn graph<'p>(op: &OpImport<'_, '_, 'p>, index: usize) -> Result<&'p Graph, OpError> {
    match op.positional(index)? {
        Argument::AsGraph(inner) => Ok(&inner.graph),
        _ => Err(op.invalid(format!("argument number {index} must be a graph"))),
    }
}

/// Tensors of a list argument; sizes in it, which nested graphs know by their expressions, are left out.
fn values(op: &OpImport<'_, '_, '_>, index: usize) -> Result<Vec<ValueId>, OpError> {
    if op.node.inputs.len() <= index {
        return Ok(Vec::new());
    }
    match op.positional(index)? {
        Argument::AsTensors(list) => list.iter().map(|tensor| op.importer.lookup(&tensor.name)).collect(),
        Argument::AsTensor(tensor) => Ok(vec![op.importer.lookup(&tensor.name)?]),
        Argument::AsOptionalTensors(list) => list
            .iter()
            .filter_map(|tensor| match tensor {
                OptionalTensor::AsTensor(tensor) => Some(op.importer.lookup(&tensor.name)),
                OptionalTensor::AsNone(_) => None,
            })
            .collect(),
        Argument::AsSymInts(_) | Argument::AsInts(_) => Ok(Vec::new()),
        _ => Err(op.invalid(format!("argument number {index} must be a list of tensors"))),
    }
}

fn read(op: &mut OpImport<'_, '_, '_>, values: &[ValueId]) -> Result<Vec<Handle>, OpError> {
    values.iter().map(|value| op.importer.read(*value)).collect()
}

/// Imports a graph into a region; its inputs are `before` (of the block), then the given values. `end` makes what is yielded.
fn region<'m, 'p>(
    op: &mut OpImport<'_, 'm, 'p>,
    block: Block<'m>,
    graph: &'p Graph,
    skipped: usize,
    captured: &[ValueId],
    end: impl FnOnce(&mut OpImport<'_, 'm, 'p>, Vec<ValueId>) -> Result<Vec<Handle>, OpError>,
) -> Result<(), OpError> {
    // What is captured becomes an operation outside, where every region can use it.
    for value in captured {
        let handle = op.importer.read(*value)?;
        op.importer.builder.materialise(handle)?;
    }
    let arguments = op.importer.builder.enter(block)?;
    op.importer.aliases.depth += 1;
    let inputs: Vec<ValueId> =
        arguments.into_iter().skip(skipped).map(|handle| op.importer.aliases.fresh(handle)).collect();
    let inputs: Vec<ValueId> = inputs.into_iter().chain(captured.iter().copied()).collect();
    let yielded = op.importer.nested(graph, &inputs).and_then(|outputs| end(op, outputs)).and_then(|values| {
        let builder = &mut op.importer.builder;
        let values = values.into_iter().map(|value| builder.materialise(value)).collect::<Result<Vec<_>, _>>()?;
        yield_values(builder.builder(), &values).map_err(Pt2Error::Ir)?;
        Ok(())
    });
    op.importer.aliases.depth -= 1;
    op.importer.builder.leave();
    yielded
}

/// `cond(predicate, true graph, false graph, operands)`.
pub(super) fn cond(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (taken, other) = (graph(op, 1)?, graph(op, 2)?);
    let operands = values(op, 3)?;
    let known = match op.positional(0)? {
        Argument::AsBool(value) => Some(*value),
        Argument::AsSymBool(SymBoolArgument::AsBool(value)) => Some(*value),
        Argument::AsSymBool(SymBoolArgument::AsName(name)) => {
            let relation = op.importer.relation(name)?;
            Some(relation.decide().ok_or_else(|| op.unsupported("a branch that sizes decide"))?)
        }
        Argument::AsTensor(tensor) => {
            let value = op.importer.lookup(&tensor.name)?;
            let handle = op.importer.read(value)?;
            op.importer.builder.tensor(handle).and_then(|tensor| tensor.get_f64(0)).map(|value| value != 0.0)
        }
        _ => return Err(op.invalid("the predicate must be a truth value")),
    };
    if let Some(known) = known {
        let outputs = op.importer.nested(if known { taken } else { other }, &operands)?;
        return Ok(outputs.into_iter().map(Out::Alias).collect());
    }
    let Argument::AsTensor(predicate) = op.positional(0)? else {
        return Err(op.invalid("the predicate must be a tensor"));
    };
    let predicate = op.importer.lookup(&predicate.name)?;
    let predicate = op.importer.read(predicate)?;
    let predicate = op.cast(predicate, DType::Bool)?;
    let predicate = op.reshape(predicate, Vec::new())?;
    let count = op.output_names().len();
    let declared = (0..count).map(|index| op.declared(index)).collect::<Result<Vec<_>, _>>()?;
    let builder = &mut op.importer.builder;
    let context = builder.context();
    let types = declared.iter().map(|ty| ty.to_type(context)).collect::<Result<Vec<_>, _>>()?;
    let condition = builder.materialise(predicate)?;
    for value in &operands {
        let handle = op.importer.read(*value)?;
        op.importer.builder.materialise(handle)?;
    }
    let flow = If::build(op.importer.builder.builder(), condition, &types, Schedule::default())?;
    for (block, graph) in [(flow.then_body, taken), (flow.else_body, other)] {
        region(op, block, graph, 0, &operands, |op, outputs| read(op, &outputs))?;
    }
    results(op, flow.op)
}

/// The results of control flow whose regions are complete.
fn results<'m>(op: &mut OpImport<'_, 'm, '_>, flow: Op<'m>) -> Results {
    check_operation(flow)?;
    flow.results().into_iter().map(|value| Ok(Out::New(op.importer.builder.computed(value)?))).collect()
}

/// `while_loop(condition graph, body graph, carried, further)`.
pub(super) fn while_loop(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (condition, body) = (graph(op, 0)?, graph(op, 1)?);
    let (carried, further) = (values(op, 2)?, values(op, 3)?);
    let all: Vec<ValueId> = carried.iter().chain(&further).copied().collect();
    for value in &all {
        let handle = op.importer.read(*value)?;
        op.importer.builder.materialise(handle)?;
    }
    let truth = |op: &mut OpImport<'_, '_, '_>, outputs: Vec<ValueId>| -> Result<Handle, OpError> {
        let value = outputs.first().copied().ok_or_else(|| op.invalid("the condition gives nothing"))?;
        let handle = op.importer.read(value)?;
        let handle = op.cast(handle, DType::Bool)?;
        Ok(op.reshape(handle, Vec::new())?)
    };
    let location = op.importer.builder.builder().location();
    let outputs = op.importer.nested(condition, &all)?;
    let first = truth(op, outputs)?;
    op.importer.builder.set_location(location);
    let handles = read(op, &carried)?;
    let builder = &mut op.importer.builder;
    let context = builder.context();
    let first = builder.materialise(first)?;
    let operands = handles.iter().map(|handle| builder.materialise(*handle)).collect::<Result<Vec<_>, _>>()?;
    let types = handles.iter().map(|handle| builder.ty(*handle).to_type(context)).collect::<Result<Vec<_>, _>>()?;
    let flow = Loop::build(builder.builder(), None, Some(first), &operands, &types, None, Schedule::default())?;
    region(op, flow.body, body, 1, &further, |op, next| {
        let all: Vec<ValueId> = next.iter().chain(&further).copied().collect();
        let outputs = op.importer.nested(condition, &all)?;
        let go_on = truth(op, outputs)?;
        Ok([go_on].into_iter().chain(read(op, &next)?).collect())
    })?;
    results(op, flow.op)
}

/// `scan(body, first states, scanned, further)` and `map_impl(body, scanned, further)`, along the first dimension.
pub(super) fn scan(op: &mut OpImport<'_, '_, '_>) -> Results {
    let body = graph(op, 0)?;
    let is_map = op.name != "scan";
    let (state, scanned, further) = match is_map {
        true => (Vec::new(), values(op, 1)?, values(op, 2)?),
        false => (values(op, 1)?, values(op, 2)?, values(op, 3)?),
    };
    let states = read(op, &state)?;
    let slices = read(op, &scanned)?;
    let count = op.output_names().len();
    let declared = (0..count).map(|index| op.declared(index)).collect::<Result<Vec<TensorType>, _>>()?;
    for value in &further {
        let handle = op.importer.read(*value)?;
        op.importer.builder.materialise(handle)?;
    }
    let builder = &mut op.importer.builder;
    let context = builder.context();
    let first = states.iter().map(|handle| builder.materialise(*handle)).collect::<Result<Vec<_>, _>>()?;
    let inputs = slices.iter().map(|handle| builder.materialise(*handle)).collect::<Result<Vec<_>, _>>()?;
    let types = declared.iter().map(|ty| ty.to_type(context)).collect::<Result<Vec<_>, _>>()?;
    let outputs = count.saturating_sub(states.len());
    let axes = (vec![0; inputs.len()], vec![0; outputs]);
    let forward = (vec![false; inputs.len()], vec![false; outputs]);
    let flow = Scan::build(
        builder.builder(),
        &first,
        &inputs,
        &types,
        (&axes.0, &forward.0),
        (&axes.1, &forward.1),
        Schedule::default(),
    )?;
    region(op, flow.body, body, 0, &further, |op, outputs| read(op, &outputs))?;
    results(op, flow.op)
}
