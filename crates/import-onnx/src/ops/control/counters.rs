//! Numbers that a loop counts: the iteration number, and carried integers to which every iteration adds the same.
//!
//! Such a number has a range: the trip count bounds it, and so does a comparison that the loop's condition implies. With the range, sizes
//! that seem to depend on it are known: `x[:, i : i + 1]` has one column.
//!
//! It is an induction. All candidates are taken to lie within [`MOST`]; then what the body adds to each, and what its condition compares, are
//! followed as expressions; from these the ranges follow. A candidate without a range within [`MOST`] is given up, and the others are looked at again.

use std::collections::HashSet;

use tenon_graph_builder::linear;
use tenon_graph_dialect::DimExpr;
use tenon_tensor::{DType, Tensor};

use super::branch::inside;
use super::repeat::{Carried, Control, Entry};
use crate::error::ImportError;
use crate::graph::Graph;
use crate::import::importer::Handle;
use crate::import::node::OpImport;

/// Counters beyond this are not followed; floats of 32 bits hold every integer up to its fourfold.
const MOST: i64 = 1 << 22;

/// A number that a loop counts.
#[derive(Clone, Copy)]
pub(super) struct Counter {
    /// Which carried value it is; `None`: the iteration number.
    pub(super) carried: Option<usize>,
    /// Its greatest value in an iteration. The least is at least 0.
    pub(super) most: i64,
    first: i64,
}

/// What must hold where a loop goes on: `less` is below `more`, or equal to it if `or_equal`. Names of values of its body.
struct Comparison<'g> {
    less: &'g str,
    more: &'g str,
    or_equal: bool,
}

impl Counter {
    /// The value as a symbol, in the body that was entered.
    pub(super) fn follow(&self, op: &mut OpImport<'_, '_, '_>, value: Handle) -> Result<(Handle, String), ImportError> {
        let ty = op.ty(value).clone();
        let shape = ty.known_shape().unwrap_or_default();
        let scalar = op.as_scalar(value)?;
        let scalar = op.cast(scalar, DType::I64)?;
        let name = op.importer.builder.extent_name("counter");
        let counter = op.importer.builder.counter((ty.dtype, &shape), &name, self.most, scalar);
        Ok((counter.map_err(|error| op.semantic(error))?, name))
    }
}

/// The counters of a loop.
pub(super) fn find<'m>(
    op: &mut OpImport<'_, '_, 'm>,
    body: &Graph,
    control: &Control,
    carried: &Carried<'_>,
    entry: &Entry<'m>,
) -> Result<Vec<Counter>, ImportError> {
    let mut counters = vec![Counter { carried: None, most: MOST, first: 0 }];
    for index in carried.changing() {
        let value = carried.values[index];
        let first = op.importer.builder.tensor(value).filter(|_| op.dtype(value).is_integer()).and_then(only_element);
        if let Some(first) = first.filter(|first| (0..=MOST).contains(first)) {
            counters.push(Counter { carried: Some(index), most: MOST, first });
        }
    }
    let mut comparisons = Vec::new();
    if let Some(condition) = body.outputs.first() {
        implied(op, body, &condition.name, &mut HashSet::new(), &mut comparisons);
    }
    let trips = control.trips(op);
    loop {
        if counters.is_empty() {
            return Ok(counters);
        }
        let Some(found) = ranges(op, body, (carried, entry), &counters, &comparisons, trips)? else {
            return Ok(Vec::new());
        };
        if found.iter().all(Option::is_some) {
            return Ok(found.into_iter().flatten().collect());
        }
        let kept = counters.iter().zip(found).filter(|(_, range)| range.is_some());
        counters = kept.map(|(counter, _)| *counter).collect();
    }
}

fn only_element(tensor: &Tensor) -> Option<i64> {
    tensor.get_i64(0).filter(|_| tensor.element_count() == 1)
}

/// The counters with their ranges, `None` for those that have none; no list where what decides cannot be followed.
fn ranges<'m>(
    op: &mut OpImport<'_, '_, 'm>,
    body: &Graph,
    (carried, entry): (&Carried<'_>, &Entry<'m>),
    counters: &[Counter],
    comparisons: &[Comparison<'_>],
    trips: Option<i64>,
) -> Result<Option<Vec<Option<Counter>>>, ImportError> {
    let next = counters.iter().filter_map(|counter| Some(body.outputs.get(counter.carried? + 1)?.name.as_str()));
    let compared = comparisons.iter().flat_map(|comparison| [comparison.less, comparison.more]);
    let names: Vec<&str> = next.chain(compared).collect();
    let scratch = entry.scratch(op)?;
    let location = op.importer.builder.builder().location();
    let followed = inside(op, scratch.body, |op, arguments| {
        let (inputs, symbols) = carried.inputs(op, body, arguments, counters)?;
        let values = op.importer.part_of_graph(body, &inputs, &names, &op.node.site)?;
        Ok((symbols, values))
    });
    op.importer.builder.set_location(location);
    scratch.op.erase()?;
    let Ok((symbols, values)) = followed else { return Ok(None) };
    let known = |value: &Handle| match op.importer.builder.dims(*value).as_deref() {
        Some([value]) => Some(value.clone()),
        _ => None,
    };
    let known: Vec<Option<DimExpr>> = values.iter().map(known).collect();
    let (next, compared) = known.split_at(counters.iter().filter(|counter| counter.carried.is_some()).count());
    let mut next = next.iter();
    let mut found = Vec::with_capacity(counters.len());
    for (counter, name) in counters.iter().zip(&symbols) {
        let step = match counter.carried {
            None => Some(1),
            Some(_) => next.next().cloned().flatten().and_then(|next| step(&next, name)),
        };
        found.push(step.filter(|step| *step >= 0).and_then(|step| {
            let last = trips.and_then(|trips| step.checked_mul((trips - 1).max(0))?.checked_add(counter.first));
            let compared = compared.chunks_exact(2).zip(comparisons);
            let limits = compared.filter_map(|(sides, comparison)| limit(sides, comparison.or_equal, name));
            let limits = limits.filter_map(|last| Some(last.checked_add(step)?.max(counter.first)));
            let most = limits.chain(last).min()?;
            (most <= MOST).then_some(Counter { most, ..*counter })
        }));
    }
    Ok(Some(found))
}

/// What an iteration adds.
fn step(next: &DimExpr, name: &str) -> Option<i64> {
    next.sub(&DimExpr::symbol(name))?.as_constant()
}

/// The largest value of a counter for which the first side is below the second one.
fn limit(sides: &[Option<DimExpr>], or_equal: bool, name: &str) -> Option<i64> {
    let [Some(less), Some(more)] = sides else { return None };
    // `factor` times the counter plus `rest` is below 0.
    let (factor, rest) = linear(&less.sub(more)?, name)?;
    let rest = rest.as_constant()?.checked_sub(i64::from(or_equal))?;
    (factor > 0).then(|| rest.checked_add(1)?.checked_neg()).flatten().map(|most| most.div_euclid(factor))
}

/// Comparisons that hold where a value of a body is true, or not 0.
fn implied<'g>(
    op: &OpImport<'_, '_, '_>,
    body: &'g Graph,
    name: &str,
    seen: &mut HashSet<String>,
    comparisons: &mut Vec<Comparison<'g>>,
) {
    if !seen.insert(name.to_owned()) {
        return;
    }
    let made = |outputs: &[Option<String>]| outputs.first().and_then(Option::as_deref) == Some(name);
    let Some(node) = body.nodes.iter().find(|node| made(&node.outputs)).filter(|node| node.domain().is_empty()) else {
        return;
    };
    let (Some(first), second) = (node.input(0), node.input(1)) else { return };
    let mut compare = |sides: (&'g str, Option<&'g str>), or_equal: bool| {
        if let (less, Some(more)) = sides {
            comparisons.push(Comparison { less, more, or_equal });
        }
    };
    match (node.op_type(), second) {
        ("Less", more) => compare((first, more), false),
        ("LessOrEqual", more) => compare((first, more), true),
        ("Greater", Some(less)) => compare((less, Some(first)), false),
        ("GreaterOrEqual", Some(less)) => compare((less, Some(first)), true),
        ("And" | "Mul", Some(second)) => {
            implied(op, body, first, seen, comparisons);
            implied(op, body, second, seen, comparisons);
        }
        // What is not 0 afterwards was not 0 before.
        ("Cast" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze", _) => implied(op, body, first, seen, comparisons),
        ("Add", Some(second)) if is_zero(op, body, second) => implied(op, body, first, seen, comparisons),
        ("Add", Some(second)) if is_zero(op, body, first) => implied(op, body, second, seen, comparisons),
        _ => {}
    }
}

/// Whether a value of a body is a constant of zeros.
fn is_zero(op: &OpImport<'_, '_, '_>, body: &Graph, name: &str) -> bool {
    let zeros = |tensor: &Tensor| (0..tensor.element_count()).all(|index| tensor.get_f64(index) == Some(0.0));
    if let Some(tensor) = body.initializers.get(name) {
        return zeros(tensor);
    }
    let makes = |outputs: &[Option<String>]| outputs.iter().flatten().any(|output| output == name);
    match body.nodes.iter().find(|node| makes(&node.outputs)) {
        Some(node) if node.op_type() == "Constant" => node.tensor("value").ok().flatten().is_some_and(zeros),
        Some(_) => false,
        None if body.inputs.iter().any(|input| input.name == name) => false,
        None => op.importer.lookup(name).and_then(|value| op.importer.builder.tensor(value)).is_some_and(zeros),
    }
}
