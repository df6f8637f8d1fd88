//! What a model says of its symbols: the range of each (`graph.ranges`), and relations that hold between them (`graph.checks`).

use tenon_graph_dialect::DimExpr;
use tenon_ir::{Attribute, Module};
use tenon_pass_manager::{PassError, Refusal};

use crate::substitute::{Capacity, Lookup};

/// Replaces symbols in ranges and relations; refuses a number that a range or relation excludes. What is decided is left out.
///
/// # Errors
/// A size outside its range, or a relation that does not hold.
pub(crate) fn substitute(module: &Module<'_>, lookup: Lookup<'_>, capacity: Capacity<'_>) -> Result<(), PassError> {
    ranges(module, lookup, capacity)?;
    checks(module, lookup)
}

fn ranges(module: &Module<'_>, lookup: Lookup<'_>, capacity: Capacity<'_>) -> Result<(), PassError> {
    let Some(ranges) = module.op().attribute("graph.ranges").and_then(Attribute::as_dictionary) else { return Ok(()) };
    let context = module.context();
    let mut kept = Vec::new();
    for (name, range) in &ranges {
        let bounds = range.as_i64_array().unwrap_or_default();
        let becomes = lookup(name);
        let size = becomes.as_ref().map_or_else(|| capacity(name), DimExpr::as_constant);
        if let Some(size) = size
            && (bounds.first().is_some_and(|min| size < *min) || bounds.get(1).is_some_and(|max| size > *max))
        {
            let range = match bounds.as_slice() {
                [min, max] => format!("{min} to {max}"),
                [min] => format!("at least {min}"),
                _ => "none".to_owned(),
            };
            return Err(Refusal::new(
                "E0184",
                format!("`{name}` is {size} in the recipe; the model was exported for {range}"),
                format!(
                    "allow sizes inside the range (`semantic.dims.{name}`), or export the model again with a wider one"
                ),
            )
            .into());
        }
        match becomes {
            None => kept.push((name.clone(), *range)),
            Some(other) => kept.extend(other.as_symbol().map(|symbol| (symbol.to_owned(), *range))),
        }
    }
    let entries: Vec<(&str, Attribute<'_>)> = kept.iter().map(|(name, range)| (name.as_str(), *range)).collect();
    match entries.is_empty() {
        true => {
            module.op().remove_attribute("graph.ranges");
        }
        false => module.op().set_attribute("graph.ranges", context.dictionary(&entries))?,
    }
    Ok(())
}

/// `left RELATION right` with sizes in place of symbols; `None` where the text is no such relation.
fn relation(text: &str, lookup: Lookup<'_>) -> Option<(DimExpr, &'static str, DimExpr)> {
    let found = ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|relation| text.contains(relation))?;
    let (left, right) = text.split_once(found)?;
    let side = |text: &str| DimExpr::parse(text)?.substitute(lookup);
    Some((side(left)?, found, side(right)?))
}

fn checks(module: &Module<'_>, lookup: Lookup<'_>) -> Result<(), PassError> {
    let Some(checks) = module.op().attribute("graph.checks").and_then(Attribute::as_array) else { return Ok(()) };
    let context = module.context();
    let mut kept = Vec::new();
    for text in checks.iter().filter_map(|check| check.as_string()) {
        let Some((left, relation, right)) = relation(&text, lookup) else {
            kept.push(context.string(&text));
            continue;
        };
        let order = match (left == right, left.as_constant().zip(right.as_constant())) {
            (true, _) => std::cmp::Ordering::Equal,
            (false, Some((left, right))) => left.cmp(&right),
            (false, None) => {
                kept.push(context.string(&format!("{left} {relation} {right}")));
                continue;
            }
        };
        let holds = match relation {
            "==" => order.is_eq(),
            "!=" => order.is_ne(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            _ => order.is_ge(),
        };
        if !holds {
            let message = format!("the model asserts `{text}`, which these sizes break: {left} {relation} {right}");
            return Err(Refusal::new("E0185", message, "allow sizes for which it holds").into());
        }
    }
    match kept.is_empty() {
        true => {
            module.op().remove_attribute("graph.checks");
        }
        false => module.op().set_attribute("graph.checks", context.array(&kept))?,
    }
    Ok(())
}
