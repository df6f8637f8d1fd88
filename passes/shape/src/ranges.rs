//! What a model says of its symbols: the range of each (`graph.ranges`), and conditions that hold between them (`graph.requirements`).

use tenon_graph_dialect::{DimExpr, Relation, Requirement};
use tenon_ir::{Attribute, Module};
use tenon_pass_manager::{PassError, Refusal};

use crate::ShapeSpace;
use crate::satisfiable::unsatisfiable;
use crate::substitute::{Capacity, Lookup};

/// Least value of a symbol, and the largest where there is one.
pub type Range = (i64, Option<i64>);

/// A size to begin with for a symbol, and a comment on what else it may be: the least that the model was exported for.
pub fn suggestion(ranges: &[(String, Range)], name: &str) -> (i64, String) {
    match ranges.iter().find(|(known, _)| known == name) {
        Some((_, range)) => (range.0.max(1), format!("  # exported for {}", describe(*range))),
        None => (1, String::new()),
    }
}

/// Refuses a shape space with a size, or a combination of sizes, that the model was not exported for.
///
/// # Errors
/// A size outside its range, or a condition that does not hold at a point.
pub(crate) fn check_space(module: &Module<'_>, space: &ShapeSpace) -> Result<(), PassError> {
    let ranges = of(module);
    for axis in space.axes() {
        let Some((_, range)) = ranges.iter().find(|(name, _)| *name == axis.name) else { continue };
        for size in &axis.sizes {
            within(&axis.name, i64::try_from(*size).unwrap_or(i64::MAX), *range)?;
        }
    }
    let requirements = Requirement::read_all(module.op())?;
    if requirements.is_empty() {
        return Ok(());
    }
    for point in space.points() {
        let size = |name: &str| point.iter().find(|(known, _)| known == name && !space.is_padded(name));
        let lookup = |name: &str| size(name).and_then(|(_, size)| i64::try_from(*size).ok()).map(DimExpr::constant);
        requirements.iter().try_for_each(|requirement| replaced(requirement, &lookup).map(drop))?;
    }
    Ok(())
}

fn within(name: &str, size: i64, range: Range) -> Result<(), PassError> {
    if size >= range.0 && range.1.is_none_or(|max| size <= max) {
        return Ok(());
    }
    Err(Refusal::new(
        "E0184",
        format!("`{name}` is {size} in the recipe; the model was exported for {}", describe(range)),
        format!("allow sizes inside the range (`semantic.dims.{name}`), or export the model again with a wider one"),
    )
    .into())
}

/// The ranges of a module's symbols, by name.
pub fn of(module: &Module<'_>) -> Vec<(String, Range)> {
    let ranges = module.op().attribute("graph.ranges").and_then(Attribute::as_dictionary).unwrap_or_default();
    let bounds = |(name, range): &(String, Attribute<'_>)| {
        let bounds = range.as_i64_array().unwrap_or_default();
        (name.clone(), (bounds.first().copied().unwrap_or(0), bounds.get(1).copied()))
    };
    ranges.iter().map(bounds).collect()
}

/// `2 to 128`.
pub(crate) fn describe((min, max): Range) -> String {
    match max {
        Some(max) => format!("{min} to {max}"),
        None => format!("at least {min}"),
    }
}

/// Replaces symbols in ranges and conditions; refuses a number that one of them excludes. What is decided is left out. Gives what ranges ask of
/// symbols that stay.
///
/// # Errors
/// A size outside its range, or a condition that does not hold.
pub(crate) fn substitute(
    module: &Module<'_>,
    lookup: Lookup<'_>,
    capacity: Capacity<'_>,
) -> Result<Vec<Requirement>, PassError> {
    requirements(module, lookup)?;
    ranges(module, lookup, capacity)
}

/// Refuses what no extents up to their capacities fulfil: a bucket that could serve no request.
///
/// # Errors
/// E0185 of a condition that the model asserts, E0303 of one that an operator needs.
pub(crate) fn check_satisfiable(
    module: &Module<'_>,
    needed: &[Requirement],
    capacity: Capacity<'_>,
) -> Result<(), PassError> {
    let asserted = Requirement::read_all(module.op())?;
    let all: Vec<Requirement> = asserted.iter().chain(needed).cloned().collect();
    let Some((found, alone)) = unsatisfiable(&all, capacity) else { return Ok(()) };
    let (condition, reason) = (&found.condition, &found.reason);
    let together = if alone { "" } else { " together with what else must hold of it" };
    let refusal = match asserted.contains(found) {
        true => Refusal::new(
            "E0185",
            format!("the model asserts `{condition}`, which no size of this bucket fulfils{together} ({reason})"),
            "allow sizes for which it holds",
        ),
        false => Refusal::new(
            "E0303",
            format!("{reason}: no size of this bucket fulfils `{condition}`{together}"),
            "allow sizes for which it holds (`semantic.dims`), or correct the model",
        ),
    };
    Err(Refusal { nodes: found.source.clone(), ..refusal }.into())
}

fn ranges(module: &Module<'_>, lookup: Lookup<'_>, capacity: Capacity<'_>) -> Result<Vec<Requirement>, PassError> {
    let context = module.context();
    let mut kept = Vec::new();
    let mut asked = Vec::new();
    for (name, range @ (min, _)) in of(module) {
        let becomes = lookup(&name);
        let size = becomes.as_ref().map_or_else(|| capacity(&name), DimExpr::as_constant);
        if let Some(size) = size {
            within(&name, size, range)?;
        }
        // Of one that stays, the largest size is known, and inside.
        if becomes.is_none() && size.is_some() && min > 0 {
            let reason = format!("the model was exported for {}", describe(range));
            asked.push(Requirement::new(DimExpr::symbol(&name), Relation::AtLeast, DimExpr::constant(min), reason));
        }
        match becomes {
            None => kept.push((name, range)),
            Some(other) => kept.extend(other.as_symbol().map(|symbol| (symbol.to_owned(), range))),
        }
    }
    let bounds = |(min, max): Range| context.i64_array(&[min].into_iter().chain(max).collect::<Vec<_>>());
    let entries: Vec<(&str, Attribute<'_>)> =
        kept.iter().map(|(name, range)| (name.as_str(), bounds(*range))).collect();
    match entries.is_empty() {
        true => {
            module.op().remove_attribute("graph.ranges");
        }
        false => module.op().set_attribute("graph.ranges", context.dictionary(&entries))?,
    }
    Ok(asked)
}

fn requirements(module: &Module<'_>, lookup: Lookup<'_>) -> Result<(), PassError> {
    let mut kept = Vec::new();
    for requirement in Requirement::read_all(module.op())? {
        kept.extend(replaced(&requirement, lookup)?);
    }
    Ok(Requirement::write_all(module.op(), &kept)?)
}

/// A requirement with sizes in place of symbols; `None` where it always holds.
fn replaced(requirement: &Requirement, lookup: Lookup<'_>) -> Result<Option<Requirement>, PassError> {
    let Requirement { condition: before, reason, source } = requirement;
    let Some(condition) = before.substitute(lookup) else {
        let message = format!("`{before}`, which the model asserts, becomes too large to handle");
        return Err(Refusal::new("E0185", message, "allow smaller sizes").into());
    };
    match condition.decide() {
        Some(true) => Ok(None),
        None => Ok(Some(Requirement { condition, ..requirement.clone() })),
        Some(false) => {
            let nodes = if source.is_empty() { String::new() } else { format!("node `{}`: ", source.join("`, `")) };
            let message =
                format!("{nodes}the model asserts `{before}`, which these sizes break: {condition} ({reason})");
            Err(Refusal::new("E0185", message, "allow sizes for which it holds").into())
        }
    }
}
