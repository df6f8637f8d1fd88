//! Loop with a trip count or condition that is computed while the model runs.
//!
//! A carried value that the body gives back as it is stays a value around the loop. The others keep their type over all iterations. A scan
//! output has as many places as the trip count allows, or, where nothing bounds it, as the recipe says (the dimension `loop_N_most`); where
//! the condition may end the loop before, it is cut to the iterations that ran.

use tenon_flow_dialect::{Loop, Schedule};
use tenon_graph_dialect::operators::Function;
use tenon_graph_dialect::{Dim, DimExpr, TensorType};
use tenon_ir::Value;
use tenon_tensor::DType;

use super::branch::{computed, declared_rank, inside, move_body, truth};
use super::settled::passes_through;
use crate::error::ImportError;
use crate::graph::Graph;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// A trip count above this bounds nothing.
const MAX_COUNT: i64 = 1 << 31;

/// What decides how often a loop runs.
pub(super) struct Control {
    pub(super) count: Option<Handle>,
    pub(super) condition: Option<Handle>,
    /// Name of a value that is not known before the model runs.
    pub(super) value: String,
}

/// What an iteration gives, inside the body.
struct Iteration<'m> {
    /// Whether the loop goes on; `None` where it always does.
    condition: Option<Value<'m>>,
    carried: Vec<Value<'m>>,
    elements: Vec<(Value<'m>, TensorType)>,
    /// How many iterations have run.
    done: Value<'m>,
}

/// A loop of the flow dialect.
pub(super) fn repeat<'m>(
    op: &mut OpImport<'_, '_, 'm>,
    body: &Graph,
    mut control: Control,
    carried: &[Handle],
) -> Outputs {
    if !op.importer.keeps_control_flow {
        return Err(op.undecided(&control.value, "it is not known before the model runs"));
    }
    let location = op.importer.builder.builder().location();
    if let Some(found) = carried.iter().find_map(|value| op.importer.no_tensor(*value)) {
        return Err(op.undecided(&control.value, &format!("a carried value is {found}")));
    }
    if body.inputs.len() != carried.len() + 2 || body.outputs.len() <= carried.len() {
        let message = format!("its body takes {} and gives {} values", body.inputs.len(), body.outputs.len());
        return Err(op.invalid(format!("{message} for {} carried ones", carried.len())));
    }
    // A first condition that holds decides nothing.
    control.condition = control.condition.filter(|condition| !is_true(op, *condition));
    let stays: Vec<bool> = (0..carried.len())
        .map(|index| passes_through(body, &body.inputs[index + 2].name, &body.outputs[index + 1].name))
        .collect();
    let most = control.count.and_then(|count| bound(op, count));
    let mut first = Vec::new();
    for (value, stays) in carried.iter().zip(&stays) {
        if !stays {
            first.push(op.materialise(*value)?);
        }
    }
    let count = match control.count {
        Some(count) => {
            let count = op.cast(count, DType::I64)?;
            let count = op.as_scalar(count)?;
            Some(op.materialise(count)?)
        }
        None => None,
    };
    let condition = match control.condition {
        Some(condition) => truth(op, condition, "the condition")?,
        None => op.literal(DType::Bool, &[], &[1.0])?,
    };
    let condition = op.materialise(condition)?;
    // Element types of the scan outputs are known once the body is imported; then the loop with results takes its operations.
    let types: Vec<_> = first.iter().map(|value| value.ty()).collect();
    let builder = op.importer.builder.builder();
    let scratch = Loop::build(builder, count, Some(condition), &first, &types, None, Schedule::default());
    let scratch = scratch.map_err(|error| op.invalid(error.to_string()))?;
    let done = inside(op, scratch.body, |op, arguments| iteration(op, body, &control, carried, &stays, arguments));
    op.importer.builder.set_location(location);
    let done = done?;

    let mut types = types;
    let mut yielded: Vec<Value<'m>> = done.condition.into_iter().chain(done.carried).collect();
    let mut extent = None;
    let keeps_condition = done.condition.is_some();
    // The condition may end the loop before the trip count does.
    let cut = (keeps_condition || most.is_none()) && !done.elements.is_empty();
    if cut {
        let zero = op.integer(0)?;
        first.push(op.materialise(zero)?);
        types.push(done.done.ty());
        yielded.push(done.done);
    }
    if !done.elements.is_empty() {
        let size = match most {
            Some(most) => most,
            None if op.importer.has_given_values => {
                return Err(
                    op.undecided(&control.value, "nothing bounds the number of iterations, which its outputs hold")
                );
            }
            None => DimExpr::symbol(&format!("{}_most", extent.insert(op.importer.builder.extent_name("loop")))),
        };
        for (element, mut ty) in done.elements {
            ty.dims.insert(0, Dim::of(size.clone()));
            types.push(ty.to_type(op.importer.builder.context()).map_err(|error| op.semantic(error))?);
            yielded.push(element);
        }
    }
    let scanned = types.len() - first.len();
    let builder = op.importer.builder.builder();
    let flow =
        Loop::build(builder, count, keeps_condition.then_some(condition), &first, &types, None, Schedule::default());
    let flow = flow.map_err(|error| op.invalid(error.to_string()))?;
    for (old, new) in scratch.body.arguments().into_iter().zip(flow.body.arguments()) {
        old.replace_all_uses(new);
    }
    // What was yielded may be an argument itself.
    let arguments = scratch.body.arguments();
    for value in &mut yielded {
        if let Some(index) = arguments.iter().position(|argument| argument == value) {
            *value = flow.body.arguments()[index];
        }
    }
    move_body(scratch.body, op.importer.builder.builder().in_block(flow.body), &yielded)?;
    scratch.op.erase()?;

    let mut results = computed(op, flow.op)?;
    let mut elements = results.split_off(results.len() - scanned);
    if cut && let (Some(ran), Some(first)) = (results.pop(), elements.first()) {
        let size = op.extents(*first)[0].clone();
        let name = extent.unwrap_or_else(|| op.importer.builder.extent_name("loop"));
        let places = op.places_of(&name, size, ran)?;
        for element in &mut elements {
            *element = op.rows(*element, places)?;
        }
    }
    let mut changed = results.into_iter();
    let mut outputs = Vec::new();
    for (value, stays) in carried.iter().zip(&stays) {
        let value = if *stays { Some(*value) } else { changed.next() };
        outputs.push(value.ok_or_else(|| op.invalid("a carried value has no result"))?);
    }
    outputs.extend(elements);
    Ok(outputs)
}

fn is_true(op: &OpImport<'_, '_, '_>, value: Handle) -> bool {
    op.importer.builder.tensor(value).is_some_and(|tensor| tensor.get_i64(0).is_some_and(|on| on != 0))
}

/// The largest number of iterations, where the trip count is known to that degree.
fn bound(op: &OpImport<'_, '_, '_>, count: Handle) -> Option<DimExpr> {
    let [count] = <[DimExpr; 1]>::try_from(op.importer.builder.dims(count)?).ok()?;
    match count.as_constant() {
        Some(number) if number > MAX_COUNT => None,
        Some(number) => Some(number.max(0).into()),
        None => Some(count),
    }
}

/// Imports the body into the region that was entered.
fn iteration<'m>(
    op: &mut OpImport<'_, '_, 'm>,
    body: &Graph,
    control: &Control,
    carried: &[Handle],
    stays: &[bool],
    arguments: &[Handle],
) -> Result<Iteration<'m>, ImportError> {
    let location = op.importer.builder.builder().location();
    let number = *arguments.first().ok_or_else(|| op.invalid("its body takes no iteration number"))?;
    // Exporters declare the number as a scalar or as a list of one; readers take either.
    let declared = body.inputs.first().and_then(|input| input.tensor().ok()?.dims.as_ref().map(Vec::len));
    let shown = op.reshape(number, vec![1.into(); declared.unwrap_or(0).min(1)])?;
    let mut inputs = vec![shown, op.literal(DType::Bool, &[], &[1.0])?];
    let mut changing = arguments[1..].iter().copied();
    for (value, stays) in carried.iter().zip(stays) {
        let value = if *stays { Some(*value) } else { changing.next() };
        inputs.push(value.ok_or_else(|| op.invalid("a carried value has no argument"))?);
    }
    let outputs = op.importer.inner_graph(body, &inputs, &op.node.site)?;
    if let Some(found) = outputs.iter().find_map(|value| op.importer.no_tensor(*value)) {
        return Err(op.undecided(&control.value, &format!("an iteration gives {found}")));
    }
    let goes_on = outputs[0];
    let condition = match is_true(op, goes_on) && control.count.is_some() && control.condition.is_none() {
        true => None,
        false => {
            let condition = truth(op, goes_on, "the body's condition")?;
            Some(op.materialise(condition)?)
        }
    };
    let mut next = Vec::new();
    for (index, stays) in stays.iter().enumerate() {
        if *stays {
            continue;
        }
        let (before, after) = (op.ty(carried[index]).clone(), op.ty(outputs[index + 1]).clone());
        let mut after_handle = outputs[index + 1];
        // As for branches: the rank of a single element is the one that is declared.
        let rank = Some(before.rank());
        let is_declared =
            declared_rank(body.inputs.get(index + 2)) == rank && declared_rank(body.outputs.get(index + 1)) == rank;
        let is_single = op.dim_count(carried[index]) == Some(1) && op.dim_count(after_handle) == Some(1);
        if is_declared && is_single && before.dtype == after.dtype {
            after_handle = op.reshape(after_handle, before.dims.iter().map(|dim| dim.extent.clone()).collect())?;
        } else if before.dtype != after.dtype || before.dims != after.dims {
            let name = &body.inputs[index + 2].name;
            let reason = format!("the carried value `{name}` is {before} at first and {after} after an iteration");
            return Err(op.undecided(&control.value, &reason));
        }
        next.push(op.materialise(after_handle)?);
    }
    let wanted = op.node.outputs.len().saturating_sub(carried.len());
    let mut elements = Vec::new();
    for element in outputs.iter().skip(1 + carried.len()).take(wanted) {
        let ty = op.ty(*element).clone();
        elements.push((op.materialise(*element)?, TensorType::new(ty.dtype, ty.dims)));
    }
    op.importer.builder.set_location(location);
    let one = op.integer(1)?;
    let done = op.apply(Function::Add, &[number, one])?;
    Ok(Iteration { condition, carried: next, elements, done: op.materialise(done)? })
}
