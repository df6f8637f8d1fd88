//! `contract`: a recipe is applied to a model.

use std::collections::{BTreeMap, BTreeSet};

use tenon_graph_dialect::operators::SetDimensionSize;
use tenon_graph_dialect::{DimExpr, OperatorKind, TensorType};
use tenon_ir::{Attribute, IrError, Module};
use tenon_pass_manager::{Pass, PassContext, PassError, Refusal, nearest};
use tenon_recipe::{Combine, DimEntry, InputClause, Recipe};

use crate::clauses;
use crate::ranges::{self, Range};
use crate::space::MAX_POINTS;
use crate::substitute::substitute;
use crate::{Axis, Entry, Port, ShapeSpace, toml_key};

/// Where a module notes dimensions of inputs that the recipe made numbers before the model was imported.
const FIXED: &str = "graph.fixed_dimensions";

/// Names the dimensions of inputs as the recipe does, refuses contradictions between recipe and model, and writes the promise into the
/// module.
pub struct Contract {
    /// The recipe.
    pub recipe: Recipe,
}

impl Pass for Contract {
    fn name(&self) -> &'static str {
        "contract"
    }

    fn is_required(&self) -> bool {
        true
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        let recipe = &self.recipe;
        let renames = {
            let entry = Entry::of(module)?;
            renames(recipe, &entry.inputs)?
        };
        // All at once: a name of the recipe may be one that the model uses for another dimension.
        substitute(module, &|name| renames.get(name).cloned(), &|_| None)?;
        context.count("dimensions named", renames.len() as u64);
        let mut free = free_symbols(&Entry::of(module)?.inputs);
        free.extend(take_fixed(module).into_iter().filter(|name| recipe.dims.contains_key(name)));
        let counts = bounds_of_counts(module)?;
        free.extend(counts.keys().cloned());
        covered(recipe, &free, &counts, &ranges::of(module))?;
        padded_with(recipe, &Entry::of(module)?.inputs)?;

        let dims = free.into_iter().map(|name| {
            let clause = recipe.dims.get(&name).cloned().unwrap_or_default();
            Axis { name, sizes: clause.allowed, padded: clause.pad }
        });
        let space = ShapeSpace::new(dims.collect());
        let space = if recipe.combine == Combine::Zip { space.zipped() } else { space };
        let most = recipe.max_graphs.min(MAX_POINTS);
        if space.count().is_none_or(|count| count > most) {
            return Err(Refusal::new(
                "E0225",
                format!("the recipe's shape space has more than {most} points"),
                "allow fewer sizes of its dimensions: each point is compiled (`semantic.max_graphs`)",
            )
            .into());
        }
        ranges::check_space(module, &space)?;
        clauses::write(recipe, module)?;
        space.write(module)?;
        Ok(())
    }
}

/// What each symbol of the model becomes, by the inputs' clauses.
fn renames(recipe: &Recipe, inputs: &[Port]) -> Result<BTreeMap<String, DimExpr>, PassError> {
    let mut renames: BTreeMap<String, DimExpr> = BTreeMap::new();
    let mut checks = Vec::new();
    for (name, clause) in &recipe.inputs {
        let Some(port) = inputs.iter().find(|port| port.name == *name) else {
            let names: Vec<_> = inputs.iter().map(|port| port.name.as_str()).collect();
            let help = match nearest(name, names.iter().copied()) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("inputs of the model are {}", names.join(", ")),
            };
            return Err(Refusal::new(
                "E0220",
                format!("the model has no input `{name}`, which the recipe names"),
                format!("{help} (`semantic.inputs.{name}`)"),
            )
            .into());
        };
        let Some(dims) = declared(name, clause, &port.ty)? else { continue };
        for (index, (entry, dim)) in dims.iter().zip(&port.ty.dims).enumerate() {
            let wanted = match entry {
                DimEntry::Fixed(size) => DimExpr::constant(i64::try_from(*size).unwrap_or(i64::MAX)),
                DimEntry::Named(symbol) => DimExpr::symbol(symbol),
            };
            match dim.extent.as_symbol() {
                Some(symbol) => match renames.get(symbol) {
                    Some(earlier) if *earlier != wanted => {
                        return Err(contradiction(
                            name,
                            index,
                            &format!("is {wanted}"),
                            &format!("is {earlier} by another input"),
                        ));
                    }
                    _ => {
                        renames.insert(symbol.to_owned(), wanted);
                    }
                },
                None => checks.push((name, index, entry, wanted, dim.extent.clone())),
            }
        }
    }
    for (name, index, entry, wanted, extent) in checks {
        let renamed = extent.substitute(&|symbol| renames.get(symbol).cloned());
        let size = renamed.as_ref().and_then(DimExpr::as_constant).and_then(|size| u64::try_from(size).ok());
        let agrees = match (entry, size) {
            // A name on a dimension that the model fixes is allowed if the fixed value is all that it may be.
            (DimEntry::Named(symbol), Some(size)) => {
                recipe.dims.get(symbol).is_some_and(|clause| clause.allowed == [size])
            }
            _ => renamed.as_ref() == Some(&wanted),
        };
        if !agrees {
            return Err(contradiction(name, index, &format!("is {wanted}"), &format!("is {extent} in the model")));
        }
    }
    Ok(renames)
}

/// The dimensions of a clause that fits an input's rank and element type.
fn declared<'r>(name: &str, clause: &'r InputClause, ty: &TensorType) -> Result<Option<&'r [DimEntry]>, PassError> {
    let wrong = |message: String| {
        let refusal = Refusal::new("E0221", message, format!("correct `[semantic.inputs.{name}]`: the input is {ty}"));
        Err(PassError::from(refusal))
    };
    if let Some(dtype) = clause.dtype
        && dtype != ty.dtype
    {
        return wrong(format!("input `{name}` is {} in the model and {dtype} in the recipe", ty.dtype));
    }
    let Some(dims) = &clause.dims else { return Ok(None) };
    if dims.len() != ty.rank() {
        return wrong(format!(
            "input `{name}` has {} dimensions in the model and {} in the recipe",
            ty.rank(),
            dims.len()
        ));
    }
    Ok(Some(dims))
}

fn contradiction(input: &str, index: usize, recipe: &str, other: &str) -> PassError {
    let message = format!("dimension {index} of input `{input}` {recipe} in the recipe, but {other}");
    Refusal::new("E0222", message, format!("give one dimension one name or size in `semantic.inputs.{input}.dims`"))
        .into()
}

/// Refuses a value to pad with that promises nothing, or that the input's type does not have.
fn padded_with(recipe: &Recipe, inputs: &[Port]) -> Result<(), PassError> {
    for port in inputs {
        let Some(pad) = recipe.inputs.get(&port.name).and_then(|clause| clause.pad) else { continue };
        let name = &port.name;
        let mut symbols = port.ty.dims.iter().flat_map(|dim| dim.extent.symbols());
        if !symbols.any(|symbol| recipe.dims.get(&symbol).is_some_and(|clause| clause.pad)) {
            let message = format!("`semantic.inputs.{name}.pad` is given, but no dimension of the input pads");
            let help = "remove it, or let a dimension of the input have `between = \"pad\"`";
            return Err(Refusal::new("E0227", message, help).into());
        }
        if !pad.fits(port.ty.dtype) {
            let message = format!("`semantic.inputs.{name}.pad` is no value of the input's type {}", port.ty.dtype);
            return Err(Refusal::new("E0227", message, format!("write a value of type {}", port.ty.dtype)).into());
        }
    }
    Ok(())
}

/// Symbols that the inputs are left with.
fn free_symbols(inputs: &[Port]) -> BTreeSet<String> {
    inputs.iter().flat_map(|port| &port.ty.dims).flat_map(|dim| dim.extent.symbols()).collect()
}

/// Notes dimensions of inputs that the recipe has made numbers before the model was imported, by their names.
///
/// # Errors
/// A size above what an attribute holds.
pub fn write_fixed(module: &Module<'_>, fixed: &BTreeMap<String, u64>) -> Result<(), IrError> {
    let context = module.context();
    let size = |size: &u64| context.i64(i64::try_from(*size).unwrap_or(i64::MAX));
    let entries: Vec<_> = fixed.iter().map(|(name, value)| (name.as_str(), size(value))).collect();
    module.op().set_attribute(FIXED, context.dictionary(&entries))
}

/// The names of these dimensions, which the module forgets: from here on the shape space has them.
fn take_fixed(module: &Module<'_>) -> Vec<String> {
    let fixed = module.op().attribute(FIXED).and_then(Attribute::as_dictionary).unwrap_or_default();
    let names = fixed.iter().map(|(name, _)| name.clone()).collect();
    module.op().remove_attribute(FIXED);
    names
}

/// Symbols that bound what the program counts itself and that nothing in the model defines, those of the lists that
/// `graph.set_dimension_size` cuts, each with what it bounds: `iterations of node `Loop_3``.
///
/// # Errors
/// An operation that does not say what it cuts.
pub fn bounds_of_counts(module: &Module<'_>) -> Result<BTreeMap<String, String>, PassError> {
    let cuts: Vec<_> = module.op().walk().into_iter().filter(|op| op.is(SetDimensionSize::NAME)).collect();
    let mut computed = BTreeSet::new();
    let mut bounds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for op in &cuts {
        computed.insert(SetDimensionSize::read(*op)?.extent.to_string());
        let Some(list) = op.operand(0) else { continue };
        let first = TensorType::read(list.ty())?.dims.into_iter().next();
        for symbol in first.into_iter().flat_map(|dim| dim.extent.symbols()) {
            bounds.entry(symbol).or_default().extend(op.location().names());
        }
    }
    bounds.retain(|name, _| !computed.contains(name));
    let described = |(name, nodes): (String, BTreeSet<String>)| {
        let nodes: Vec<_> = nodes.into_iter().map(|node| format!("`{node}`")).collect();
        // The importer names the bound of a loop so.
        let what = if name.starts_with("loop_") { "iterations" } else { "elements" };
        (
            name,
            if nodes.is_empty() { format!("{what} of a node") } else { format!("{what} of node {}", nodes.join(", ")) },
        )
    };
    Ok(bounds.into_iter().map(described).collect())
}

/// Refuses a free dimension that no clause covers, and a clause that covers none.
fn covered(
    recipe: &Recipe,
    free: &BTreeSet<String>,
    counts: &BTreeMap<String, String>,
    ranges: &[(String, Range)],
) -> Result<(), PassError> {
    // A name that only fixed dimensions carry is covered too.
    let named = recipe.inputs.values().flat_map(|clause| clause.dims.iter().flatten());
    let used: BTreeSet<_> =
        named.filter_map(|entry| if let DimEntry::Named(name) = entry { Some(name) } else { None }).collect();
    let unused: Vec<&String> =
        recipe.dims.keys().filter(|name| !free.contains(*name) && !used.contains(name)).collect();
    let missing: Vec<_> = free.iter().filter(|name| !recipe.dims.contains_key(*name)).collect();
    if let Some(first) = missing.first() {
        let line = |name: &&String| {
            let (size, mut note) = ranges::suggestion(ranges, name);
            if let Some(what) = counts.get(*name) {
                note = format!("  # most {what}");
            }
            format!("{} = {{ allowed = [{size}] }}{note}", toml_key(name))
        };
        let stanza: Vec<_> = missing.iter().map(line).collect();
        let (what, them) = if missing.len() == 1 { ("dimension", "it") } else { ("dimensions", "them") };
        let range = |name: &str| {
            let (_, range) = ranges.iter().find(|(known, range)| known == name && *range != (0, None))?;
            Some(format!(" (exported for {})", ranges::describe(*range)))
        };
        let named: Vec<_> = missing.iter().map(|name| (*name, range(name))).collect();
        let be = match named.iter().all(|(_, range)| range.is_none()) {
            true => "may have any size",
            false if missing.len() == 1 => "has no size yet",
            false => "have no sizes yet",
        };
        let names: Vec<_> =
            named.into_iter().map(|(name, range)| format!("`{name}`{}", range.unwrap_or_default())).collect();
        let bounded = missing.iter().filter_map(|name| Some((name, counts.get(*name)?)));
        let bounded: Vec<_> = bounded
            .map(|(name, what)| format!("; `{name}` is the most {what}, which nothing in the model bounds"))
            .collect();
        return Err(Refusal::new(
            "E0223",
            format!("{what} {} of the model {be}{}", names.join(", "), bounded.concat()),
            format!(
                "{}say in a recipe which sizes {them} may have:\n\n[semantic.dims]\n{}{}",
                misspelt(&unused, &missing),
                stanza.join("\n"),
                if first.contains("_dim") { "\n\n`semantic.inputs` can give a dimension another name" } else { "" },
            ),
        )
        .into());
    }
    if let Some(unused) = unused.first().copied() {
        let help = match nearest(unused, free.iter().map(String::as_str)) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None if free.is_empty() => "remove it: the model has no free dimension".to_owned(),
            None => format!("free dimensions are {}", free.iter().cloned().collect::<Vec<_>>().join(", ")),
        };
        let message =
            format!("no dimension of the model's inputs is called `{unused}`, for which the recipe allows values");
        return Err(Refusal::new("E0224", message, format!("{help} (`semantic.dims.{unused}`)")).into());
    }
    Ok(())
}

/// A clause that covers no dimension was perhaps meant for one that no clause covers.
fn misspelt(unused: &[&String], missing: &[&String]) -> String {
    let meant = |name: &String| Some((name.clone(), nearest(name, missing.iter().map(|dim| dim.as_str()))?.to_owned()));
    match (unused.iter().find_map(|name| meant(name)), unused.first()) {
        (Some((name, dim)), _) => {
            format!("`semantic.dims.{name}` names no dimension of the model: did you mean `{dim}`? If not, ")
        }
        (None, Some(name)) => format!("`semantic.dims.{name}` names no dimension of the model; "),
        (None, None) => String::new(),
    }
}
