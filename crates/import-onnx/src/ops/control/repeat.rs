//! Loop with a trip count or condition that is computed while the model runs.
//!
//! A carried value that the body gives back as it is stays a value around the loop. One that the body never reads has, where the loop runs at
//! least once, the type that an iteration gives, whatever it is at first. The others keep their type over all iterations. A scan
//! output has as many places as the trip count allows, or, where nothing bounds it, as the recipe says (the dimension `loop_N_most`); where
//! the condition may end the loop before, it is cut to the iterations that ran.
//!
//! Where a body computes sizes, or has no fixed form, it is imported once more with the loop's counters followed ([`super::counters`]).

use tenon_flow_dialect::{Loop, Schedule};
use tenon_graph_dialect::operators::{Function, SetDimensionSize};
use tenon_graph_dialect::{Dim, DimExpr, OperatorKind, TensorType};
use tenon_ir::Value;
use tenon_tensor::DType;

use super::branch::{computed, declared_rank, inside, move_body, truth};
use super::counters::{self, Counter};
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

impl Control {
    /// The trip count, where it is a number.
    pub(super) fn trips(&self, op: &OpImport<'_, '_, '_>) -> Option<i64> {
        let [count] = <[DimExpr; 1]>::try_from(op.importer.builder.dims(self.count?)?).ok()?;
        count.as_constant()
    }

    /// Whether the body runs at least once.
    fn runs_once(&self, op: &OpImport<'_, '_, '_>) -> bool {
        self.condition.is_none() && (self.count.is_none() || self.trips(op).is_some_and(|trips| trips > 0))
    }
}

/// What becomes of a carried value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The body gives it back as it is.
    Stays,
    /// The body runs and does not read it.
    Unread,
    Changes,
}

/// The carried values before the loop.
pub(super) struct Carried<'a> {
    pub(super) values: &'a [Handle],
    kinds: Vec<Kind>,
}

impl Carried<'_> {
    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = usize> + '_ {
        self.kinds.iter().enumerate().filter(move |(_, own)| **own == kind).map(|(index, _)| index)
    }

    /// Places of those that are arguments of the body, in their order.
    pub(super) fn changing(&self) -> impl Iterator<Item = usize> + '_ {
        self.of_kind(Kind::Changes)
    }

    /// What a body takes, of the region's arguments; then the names of the counters.
    pub(super) fn inputs(
        &self,
        op: &mut OpImport<'_, '_, '_>,
        body: &Graph,
        arguments: &[Handle],
        counters: &[Counter],
    ) -> Result<(Vec<Handle>, Vec<String>), ImportError> {
        let mut number = *arguments.first().ok_or_else(|| op.invalid("its body takes no iteration number"))?;
        let mut values = self.values.to_vec();
        for (index, argument) in self.changing().zip(&arguments[1..]) {
            values[index] = *argument;
        }
        let mut names = Vec::with_capacity(counters.len());
        for counter in counters {
            let value = counter.carried.map_or(&mut number, |index| &mut values[index]);
            let (followed, name) = counter.follow(op, *value)?;
            *value = followed;
            names.push(name);
        }
        // Exporters declare the number as a scalar or as a list of one; readers take either.
        let declared = body.inputs.first().and_then(|input| input.tensor().ok()?.dims.as_ref().map(Vec::len));
        let number = op.reshape(number, vec![1.into(); declared.unwrap_or(0).min(1)])?;
        let mut inputs = vec![number, op.literal(DType::Bool, &[], &[1.0])?];
        inputs.extend(values);
        Ok((inputs, names))
    }
}

/// What a loop begins with, as operations.
pub(super) struct Entry<'m> {
    count: Option<Value<'m>>,
    condition: Value<'m>,
    /// First values of those that change.
    first: Vec<Value<'m>>,
}

impl<'m> Entry<'m> {
    /// A loop to import a body into, before what it gives is known.
    pub(super) fn scratch(&self, op: &OpImport<'_, '_, 'm>) -> Result<Loop<'m>, ImportError> {
        let types: Vec<_> = self.first.iter().map(|value| value.ty()).collect();
        let builder = op.importer.builder.builder();
        let scratch =
            Loop::build(builder, self.count, Some(self.condition), &self.first, &types, None, Schedule::default());
        scratch.map_err(|error| op.invalid(error.to_string()))
    }
}

/// What an iteration gives, inside the body.
struct Iteration<'m> {
    /// Whether the loop goes on; `None` where it always does.
    condition: Option<Value<'m>>,
    /// The carried values that change, then those that are unread.
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
    if let Some(found) = carried.iter().find_map(|value| op.importer.no_tensor(*value)) {
        return Err(op.undecided(&control.value, &format!("a carried value is {found}")));
    }
    if body.inputs.len() != carried.len() + 2 || body.outputs.len() <= carried.len() {
        let message = format!("its body takes {} and gives {} values", body.inputs.len(), body.outputs.len());
        return Err(op.invalid(format!("{message} for {} carried ones", carried.len())));
    }
    // A first condition that holds decides nothing.
    control.condition = control.condition.filter(|condition| !is_true(op, *condition));
    let runs_once = control.runs_once(op);
    let kind = |index: usize| match &body.inputs[index + 2].name {
        name if passes_through(body, name, &body.outputs[index + 1].name) => Kind::Stays,
        name if runs_once && !is_read(body, name) => Kind::Unread,
        _ => Kind::Changes,
    };
    let carried = Carried { values: carried, kinds: (0..carried.len()).map(kind).collect() };
    let most = control.count.and_then(|count| bound(op, count));
    let entry = entry(op, &control, &carried)?;
    let (scratch, done) = imported(op, body, &control, &carried, &entry)?;

    let mut first = entry.first;
    for (index, value) in carried.of_kind(Kind::Unread).zip(&done.carried[first.len()..]) {
        first.push(first_of_unread(op, body, &control, (index, carried.values[index]), *value)?);
    }
    let mut types: Vec<_> = first.iter().map(|value| value.ty()).collect();
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
    let condition = keeps_condition.then_some(entry.condition);
    let flow = Loop::build(builder, entry.count, condition, &first, &types, None, Schedule::default());
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
    let mut outputs = carried.values.to_vec();
    for (index, result) in carried.changing().chain(carried.of_kind(Kind::Unread)).zip(results) {
        outputs[index] = result;
    }
    outputs.extend(elements);
    Ok(outputs)
}

fn is_true(op: &OpImport<'_, '_, '_>, value: Handle) -> bool {
    op.importer.builder.tensor(value).is_some_and(|tensor| tensor.get_i64(0).is_some_and(|on| on != 0))
}

/// Whether a body uses an input.
fn is_read(body: &Graph, input: &str) -> bool {
    let mut used = body.nodes.iter().flat_map(|node| node.inputs.iter().flatten().chain(&node.captures));
    used.any(|name| name == input) || body.outputs.iter().any(|output| output.name == input)
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

fn entry<'m>(
    op: &mut OpImport<'_, '_, 'm>,
    control: &Control,
    carried: &Carried<'_>,
) -> Result<Entry<'m>, ImportError> {
    let first = carried.changing().map(|index| op.materialise(carried.values[index])).collect::<Result<_, _>>()?;
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
    Ok(Entry { count, condition, first })
}

/// The body in a loop without results, and what it gives.
fn imported<'m>(
    op: &mut OpImport<'_, '_, 'm>,
    body: &Graph,
    control: &Control,
    carried: &Carried<'_>,
    entry: &Entry<'m>,
) -> Result<(Loop<'m>, Iteration<'m>), ImportError> {
    let plain = attempt(op, body, control, (carried, entry), &[]);
    let computes_sizes = |scratch: &Loop<'m>| scratch.op.walk().iter().any(|op| op.is(SetDimensionSize::NAME));
    if plain.as_ref().is_ok_and(|(scratch, _)| !computes_sizes(scratch)) {
        return plain;
    }
    let counters = counters::find(op, body, control, carried, entry)?;
    if counters.is_empty() {
        return plain;
    }
    match attempt(op, body, control, (carried, entry), &counters) {
        Ok(followed) if !computes_sizes(&followed.0) => {
            if let Ok((scratch, _)) = plain {
                scratch.op.erase()?;
            }
            Ok(followed)
        }
        Ok((scratch, _)) => {
            scratch.op.erase()?;
            plain
        }
        Err(_) => plain,
    }
}

fn attempt<'m>(
    op: &mut OpImport<'_, '_, 'm>,
    body: &Graph,
    control: &Control,
    (carried, entry): (&Carried<'_>, &Entry<'m>),
    counters: &[Counter],
) -> Result<(Loop<'m>, Iteration<'m>), ImportError> {
    let location = op.importer.builder.builder().location();
    let scratch = entry.scratch(op)?;
    let done = inside(op, scratch.body, |op, arguments| iteration(op, body, control, (carried, arguments), counters));
    op.importer.builder.set_location(location);
    match done {
        Ok(done) => Ok((scratch, done)),
        Err(error) => {
            scratch.op.erase()?;
            Err(error)
        }
    }
}

/// Imports the body into the region that was entered.
fn iteration<'m>(
    op: &mut OpImport<'_, '_, 'm>,
    body: &Graph,
    control: &Control,
    (carried, arguments): (&Carried<'_>, &[Handle]),
    counters: &[Counter],
) -> Result<Iteration<'m>, ImportError> {
    let location = op.importer.builder.builder().location();
    let (inputs, _) = carried.inputs(op, body, arguments, counters)?;
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
    for index in carried.changing() {
        let (before, after) = (op.ty(carried.values[index]).clone(), op.ty(outputs[index + 1]).clone());
        let mut after_handle = outputs[index + 1];
        // As for branches: the rank of a single element is the one that is declared.
        let rank = Some(before.rank());
        let is_declared =
            declared_rank(body.inputs.get(index + 2)) == rank && declared_rank(body.outputs.get(index + 1)) == rank;
        let is_single = op.dim_count(carried.values[index]) == Some(1) && op.dim_count(after_handle) == Some(1);
        if is_declared && is_single && before.dtype == after.dtype {
            after_handle = op.reshape(after_handle, before.dims.iter().map(|dim| dim.extent.clone()).collect())?;
        } else if before.dtype != after.dtype || before.dims != after.dims {
            let name = &body.inputs[index + 2].name;
            let reason = format!("the carried value `{name}` is {before} at first and {after} after an iteration");
            return Err(op.undecided(&control.value, &reason));
        }
        next.push(op.materialise(after_handle)?);
    }
    for index in carried.of_kind(Kind::Unread) {
        next.push(op.materialise(outputs[index + 1])?);
    }
    let wanted = op.node.outputs.len().saturating_sub(carried.values.len());
    let mut elements = Vec::new();
    for element in outputs.iter().skip(1 + carried.values.len()).take(wanted) {
        let ty = op.ty(*element).clone();
        elements.push((op.materialise(*element)?, TensorType::new(ty.dtype, ty.dims)));
    }
    op.importer.builder.set_location(location);
    let one = op.integer(1)?;
    let done = op.apply(Function::Add, &[arguments[0], one])?;
    Ok(Iteration { condition, carried: next, elements, done: op.materialise(done)? })
}

/// What stands for a value that no iteration reads before the first one gives it: the value itself, or zeros of the type that it then has.
fn first_of_unread<'m>(
    op: &mut OpImport<'_, '_, 'm>,
    body: &Graph,
    control: &Control,
    (index, value): (usize, Handle),
    next: Value<'m>,
) -> Result<Value<'m>, ImportError> {
    let before = op.ty(value).clone();
    let after = TensorType::read(next.ty()).map_err(|error| op.semantic(error))?;
    if before.dtype == after.dtype && before.dims == after.dims {
        return op.materialise(value);
    }
    let sizes: Vec<DimExpr> = after.dims.iter().map(|dim| dim.extent.clone()).collect();
    if before.dtype != after.dtype || sizes.iter().any(|size| op.importer.builder.is_computed(size)) {
        let name = &body.inputs[index + 2].name;
        let reason = format!("the carried value `{name}` is {before} at first and {after} after an iteration");
        return Err(op.undecided(&control.value, &reason));
    }
    let zero = op.scalar(0.0, after.dtype)?;
    let zeros = op.broadcast(zero, sizes)?;
    op.materialise(zeros)
}
