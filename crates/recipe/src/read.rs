//! From a text to a recipe.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use indexmap::IndexMap;
use tenon_tensor::DType;

use crate::RecipeErrorKind::{Conflict, Format as WrongFormat, ShapeSpace, Unreadable, Version};
use crate::check::{Checker, bytes};
use crate::document::{self, Node, Table, Value};
use crate::schema::{Kind, ROOT};
use crate::{
    AttentionImplementation, Branches, Collectives, Combine, Compile, ControlFlow, ControlFlowPolicy, ConvLayout,
    CustomOp, DimClause, DimEntry, Expectation, FakeQuant, Feedback, Format, Hardware, InputClause, KernelLock,
    MAX_GRAPHS, NumericClass, Numerics, OverBudget, PadValue, Recipe, RecipeError,
};

type Errors = Vec<RecipeError>;

/// Longest recipe that is read.
const MAX_BYTES: u64 = 1 << 20;

/// A recipe with its text and where each clause stands in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The recipe.
    pub recipe: Recipe,
    /// The text that it was read from.
    pub text: String,
    /// Bytes of each clause's key, by the clause's path: `semantic.dims.batch`.
    pub clauses: BTreeMap<String, Range<usize>>,
}

impl Recipe {
    /// Reads a recipe file, in the format that its ending says, and gives its text too, which spans of errors refer to.
    ///
    /// # Errors
    /// All faults that were found, with the text as far as it could be read.
    pub fn load(path: &Path) -> Result<Loaded, (Errors, String)> {
        let fail = |error: RecipeError| (vec![error], String::new());
        let ending = path.extension().map(|ending| ending.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(format) = Format::of_ending(&ending) else {
            let message = format!("{}: a recipe is a `.toml`, `.yaml` or `.yml` file", path.display());
            let error = RecipeError::new(WrongFormat, None, message);
            return Err(fail(error.help_with("write the recipe as TOML or YAML, with the ending of its format")));
        };
        let unreadable =
            |reason: String| fail(RecipeError::new(Unreadable, None, format!("{}: {reason}", path.display())));
        let size = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
        if size > MAX_BYTES {
            return Err(unreadable(format!("{size} bytes are too many for a recipe")));
        }
        let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
        match read(&text, format) {
            Ok((recipe, clauses)) => Ok(Loaded { recipe, text, clauses }),
            Err(errors) => Err((errors, text)),
        }
    }

    /// Reads a recipe from TOML.
    ///
    /// # Errors
    /// All faults that were found, in order of the text; never none.
    pub fn parse(text: &str) -> Result<Recipe, Errors> {
        Recipe::parse_as(text, Format::Toml)
    }

    /// Reads a recipe from a text of a given format.
    ///
    /// # Errors
    /// All faults that were found, in order of the text; never none.
    pub fn parse_as(text: &str, format: Format) -> Result<Recipe, Errors> {
        read(text, format).map(|(recipe, _)| recipe)
    }
}

impl Recipe {
    /// Reads the canonical form back, as a bundle holds it; none if it is not exactly what [`Recipe::canonical_json`] gives.
    pub fn from_canonical(text: &str) -> Option<Recipe> {
        let root = document::of_json(&serde_json::from_str(text).ok()?)?;
        // What was refused when the recipe was read does not stand in it; the comparison at the end checks everything else.
        let mut checker = Checker { errors: Vec::new() };
        let recipe = Builder { checker: &mut checker }.recipe(root.as_table()?);
        (recipe.canonical_json() == text).then_some(recipe)
    }
}

impl Recipe {
    /// A recipe of clauses in the shape of [`Recipe::stage_clauses`]; what they do not say is the default.
    ///
    /// # Errors
    /// All faults that were found, without places; never none.
    pub fn of_clauses(clauses: &serde_json::Value) -> Result<Recipe, Errors> {
        let wrong = || {
            vec![RecipeError::new(crate::RecipeErrorKind::Value, None, "the clauses are no table, or nest too deeply")]
        };
        let node = document::of_json(clauses).ok_or_else(wrong)?;
        let root = node.as_table().ok_or_else(wrong)?;
        let mut checker = Checker { errors: Vec::new() };
        if let Kind::Table(keys) = &ROOT {
            checker.table(root, keys, "");
        }
        let recipe = Builder { checker: &mut checker }.recipe(root);
        if !checker.errors.is_empty() {
            return Err(checker.errors.into_iter().map(|error| RecipeError { span: None, ..error }).collect());
        }
        Ok(recipe)
    }
}

fn read(text: &str, format: Format) -> Result<(Recipe, BTreeMap<String, Range<usize>>), Errors> {
    let root = document::parse(text, format).map_err(|error| vec![error])?;
    let mut checker = Checker { errors: Vec::new() };
    if let Kind::Table(keys) = &ROOT {
        checker.table(&root, keys, "");
    }
    if root.get("recipe").is_none() {
        let error = RecipeError::new(Version, None, "the recipe does not say its schema version");
        checker.errors.push(error.help_with("begin the file with `recipe = 1`"));
    }
    let recipe = Builder { checker: &mut checker }.recipe(&root);
    let mut errors = checker.errors;
    errors.sort_by_key(|error| error.span.as_ref().map_or(0, |span| span.start));
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut clauses = BTreeMap::new();
    places("", &root, &mut clauses);
    Ok((recipe, clauses))
}

fn places(path: &str, table: &Table, clauses: &mut BTreeMap<String, Range<usize>>) {
    for entry in &table.0 {
        let full = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        if let Some(table) = entry.node.as_table() {
            places(&full, table, clauses);
        }
        clauses.insert(full, entry.key_span.clone());
    }
}

/// Makes a recipe of a tree. What has the wrong type was reported by the checker, and is left out here.
struct Builder<'c> {
    checker: &'c mut Checker,
}

impl Builder<'_> {
    fn recipe(&mut self, root: &Table) -> Recipe {
        let mut recipe = Recipe::default();
        if let Some(name) = text(Some(root), "name") {
            recipe.name = name;
        }
        let semantic = root.table("semantic");
        recipe.combine = word(semantic, "combine", Combine::of_name).unwrap_or_default();
        for (name, node) in entries(semantic, "dims") {
            if let Some(clause) = self.dim(name, node, recipe.combine) {
                recipe.dims.insert(name.to_owned(), clause);
            }
        }
        self.shape_space(semantic, &mut recipe);
        for (name, node) in entries(semantic, "inputs") {
            let clause = self.input(name, node, &recipe.dims);
            recipe.inputs.insert(name.to_owned(), clause);
        }
        recipe.numerics = numerics(semantic.and_then(|table| table.table("numerics")));
        let compile = root.table("compile");
        recipe.control_flow = control_flow(semantic, compile);
        recipe.compile = compile_clauses(compile);
        let hardware = root.table("hardware");
        recipe.targets = texts(hardware, "targets");
        recipe.hardware = self.hardware(hardware);
        for (name, node) in entries(Some(root), "custom_ops") {
            let table = node.as_table();
            let op = CustomOp {
                version: text(table, "version"),
                shape: text(table, "shape"),
                library: text(table, "library"),
                sha256: text(table, "sha256"),
            };
            recipe.custom_ops.insert(name.to_owned(), op);
        }
        for (name, node) in entries(Some(root), "feedback") {
            let table = node.as_table();
            let metric = Feedback {
                warn_below: number(table, "warn_below"),
                error_below: number(table, "error_below"),
                warn_above: number(table, "warn_above"),
                error_above: number(table, "error_above"),
                attempts: texts(table, "try"),
            };
            recipe.feedback.insert(name.to_owned(), metric);
        }
        recipe
    }

    fn conflict(&mut self, span: Range<usize>, message: String, help: String) {
        self.checker.errors.push(RecipeError::new(Conflict, Some(span), message).help_with(help));
    }

    fn dim(&mut self, name: &str, node: &Node, combine: Combine) -> Option<DimClause> {
        let path = format!("semantic.dims.{name}");
        let table = node.as_table()?;
        let pad = text(Some(table), "between").as_deref() == Some("pad");
        let has = |key: &str| table.get(key).is_some();
        if has("allowed") && (has("align") || has("max")) {
            let key = if has("align") { "align" } else { "max" };
            let span = table.get(key).map_or(node.span.clone(), |node| node.span.clone());
            let help = "keep `allowed`, or `align` with `max`".to_owned();
            self.conflict(span, format!("`{path}` has both `allowed` and `{key}`"), help);
            return None;
        }
        if let Some(allowed) = table.get("allowed") {
            let mut sizes: Vec<u64> = allowed.as_list()?.iter().map(Node::as_size).collect::<Option<_>>()?;
            if combine == Combine::Product {
                let list = allowed.as_list()?;
                if let Some(index) = (1..sizes.len()).find(|index| sizes[..*index].contains(&sizes[*index])) {
                    self.checker.wrong(
                        &list[index],
                        &format!("{path}.allowed"),
                        "a list of different positive integers",
                    );
                    return None;
                }
                sizes.sort_unstable();
            }
            return Some(DimClause { allowed: sizes, pad });
        }
        match (size(Some(table), "align"), size(Some(table), "max")) {
            (Some(align), Some(max)) if align > 0 && max > 0 => {
                let span = table.get("max").map_or(node.span.clone(), |node| node.span.clone());
                if !max.is_multiple_of(align) {
                    let message = format!("`{path}.max` is {max}, which is no multiple of {align}");
                    let below = max / align * align;
                    let near = if below == 0 { align } else { below };
                    self.conflict(span, message, format!("write a multiple of `align`, as {near}"));
                    return None;
                }
                let count = max / align;
                if count > MAX_GRAPHS as u64 {
                    let message = format!("`{path}` has {count} sizes; at most {MAX_GRAPHS} are compiled");
                    self.checker.errors.push(
                        RecipeError::new(ShapeSpace, Some(span), message)
                            .help_with("write a larger `align` or a smaller `max`"),
                    );
                    return None;
                }
                Some(DimClause { allowed: (1..=count).map(|step| step * align).collect(), pad })
            }
            _ if has("align") != has("max") => {
                let (there, missing) = if has("align") { ("align", "max") } else { ("max", "align") };
                let message = format!("`{path}` has `{there}` without `{missing}`");
                self.conflict(node.span.clone(), message, format!("add `{missing}`, or write `allowed` instead"));
                None
            }
            _ if has("align") => None,
            _ => {
                let message = format!("`{path}` does not say which values it allows");
                let help = format!("write `{path} = {{ allowed = [1, 4] }}`");
                let error = RecipeError::new(crate::RecipeErrorKind::Value, Some(node.span.clone()), message);
                self.checker.errors.push(error.help_with(help));
                None
            }
        }
    }

    /// How sizes combine, and how many graphs they are.
    fn shape_space(&mut self, semantic: Option<&Table>, recipe: &mut Recipe) {
        if let Some(most) = size(semantic, "max_graphs") {
            recipe.max_graphs = usize::try_from(most).unwrap_or(MAX_GRAPHS).min(MAX_GRAPHS);
        }
        let place = |key: &str| semantic.and_then(|table| table.get(key)).map_or(0..0, |node| node.span.clone());
        if recipe.combine == Combine::Zip {
            let row = |index: usize| recipe.dims.values().map(move |clause| clause.allowed.get(index).copied());
            let count = recipe.dims.values().map(|clause| clause.allowed.len()).max().unwrap_or(0);
            if let Some(index) = (1..count).find(|index| (0..*index).any(|other| row(other).eq(row(*index)))) {
                let message = format!("by `semantic.combine = \"zip\"` the sizes at place {} come up twice", index + 1);
                return self.conflict(place("combine"), message, "write each combination once".to_owned());
            }
        }
        let points = match recipe.combine {
            Combine::Product => {
                recipe.dims.values().try_fold(1usize, |count, clause| count.checked_mul(clause.allowed.len()))
            }
            Combine::Zip => {
                let counts: Vec<_> = recipe.dims.iter().map(|(name, clause)| (name, clause.allowed.len())).collect();
                if let [(first, count), rest @ ..] = counts.as_slice()
                    && let Some((other, found)) = rest.iter().find(|(_, found)| found != count)
                {
                    let message = format!(
                        "by `semantic.combine = \"zip\"` every dimension has as many sizes, but `{first}` has {count} and `{other}` {found}"
                    );
                    let help = "give each dimension one size for each graph, or write \"product\"".to_owned();
                    return self.conflict(place("combine"), message, help);
                }
                Some(counts.first().map_or(1, |(_, count)| *count))
            }
        };
        if points.is_none_or(|points| points > recipe.max_graphs) {
            let count = points.map_or("too many".to_owned(), |points| points.to_string());
            let key =
                if semantic.is_some_and(|table| table.get("max_graphs").is_some()) { "max_graphs" } else { "dims" };
            let message =
                format!("the shape space has {count} points, and at most {} graphs are compiled", recipe.max_graphs);
            let help =
                "allow fewer sizes, combine them by \"zip\", let a dimension pad, or raise `semantic.max_graphs`";
            self.checker.errors.push(RecipeError::new(ShapeSpace, Some(place(key)), message).help_with(help));
        }
    }

    fn input(&mut self, name: &str, node: &Node, dims: &IndexMap<String, DimClause>) -> InputClause {
        let table = node.as_table();
        let list = table.and_then(|table| table.get("dims")).and_then(Node::as_list);
        let entry = |node: &Node| match &node.value {
            Value::Text(name) => Some(DimEntry::Named(name.clone())),
            _ => node.as_size().map(DimEntry::Fixed),
        };
        let clause = InputClause {
            dims: list.and_then(|list| list.iter().map(entry).collect()),
            dtype: text(table, "dtype").and_then(|word| word.parse::<DType>().ok()),
            pad: table.and_then(|table| table.get("pad")).and_then(|node| match node.value {
                Value::Integer(Some(value)) => Some(PadValue::Integer(value)),
                Value::Float(value) => Some(PadValue::Float(value)),
                Value::Bool(value) => Some(PadValue::Bool(value)),
                _ => None,
            }),
        };
        if let (Some(pad), Some(node)) = (clause.pad, table.and_then(|table| table.get("pad"))) {
            self.pad(name, pad, node, &clause, dims);
        }
        clause
    }

    /// A value to pad with promises something only of an input that is padded, and must be one of its type.
    fn pad(
        &mut self,
        name: &str,
        pad: PadValue,
        node: &Node,
        clause: &InputClause,
        dims: &IndexMap<String, DimClause>,
    ) {
        let path = format!("semantic.inputs.{name}.pad");
        let named = clause.dims.iter().flatten();
        let is_padded = |entry: &DimEntry| match entry {
            DimEntry::Named(name) => dims.get(name).is_some_and(|clause| clause.pad),
            DimEntry::Fixed(_) => false,
        };
        if clause.dims.is_some() && !named.into_iter().any(is_padded) {
            let message = format!("`{path}` is given, but no dimension of the input pads");
            let help = "remove it, or let a dimension of the input have `between = \"pad\"`".to_owned();
            self.conflict(node.span.clone(), message, help);
        } else if let Some(dtype) = clause.dtype
            && !pad.fits(dtype)
        {
            let message = format!("`{path}` is {}, which is no value of type {dtype}", node.describe());
            self.conflict(node.span.clone(), message, format!("write a value of type {dtype}"));
        }
    }

    fn hardware(&mut self, table: Option<&Table>) -> Hardware {
        let mut hardware = Hardware {
            activation_budget: table.and_then(|table| table.get("activation_budget")).and_then(bytes),
            over_budget: word(table, "over_budget", OverBudget::of_name).unwrap_or_default(),
            pinned_inputs: false,
            collectives: word(table, "collectives", Collectives::of_name).unwrap_or_default(),
            expect: IndexMap::new(),
            kernels: IndexMap::new(),
        };
        if let Some(node) = table.and_then(|table| table.get("pinned_inputs"))
            && node.as_bool() == Some(true)
        {
            let reason = "inputs are copied from ordinary memory";
            self.checker.unsupported(node.span.clone(), "`hardware.pinned_inputs = true`", reason);
        }
        if let Some(node) = table.and_then(|table| table.get("over_budget"))
            && hardware.activation_budget.is_none()
            && hardware.over_budget != OverBudget::Error
        {
            let help = "add `activation_budget`".to_owned();
            self.conflict(node.span.clone(), "`hardware.over_budget` is given without a budget".to_owned(), help);
        }
        for (name, node) in entries(table, "expect") {
            let table = node.as_table();
            let lists = |key: &str| {
                entries(table, key).map(|(family, list)| (family.to_owned(), list_of_texts(list))).collect()
            };
            let expectation = Expectation {
                instructions: lists("instructions"),
                forbidden_instructions: lists("forbidden_instructions"),
                spills: size(table, "spills"),
                min_occupancy: number(table, "min_occupancy"),
            };
            hardware.expect.insert(name.to_owned(), expectation);
        }
        for (name, node) in entries(table, "kernels") {
            let table = node.as_table();
            let lock = KernelLock { version: text(table, "version"), sha256: text(table, "sha256") };
            hardware.kernels.insert(name.to_owned(), lock);
        }
        hardware
    }
}

fn numerics(table: Option<&Table>) -> Numerics {
    let mut numerics = Numerics::default();
    numerics.rewrites = word(table, "rewrites", NumericClass::of_name).unwrap_or(numerics.rewrites);
    let tolerance = table.and_then(|table| table.table("tolerance"));
    numerics.tolerance.abs = number(tolerance, "abs").unwrap_or(numerics.tolerance.abs);
    numerics.tolerance.rel = number(tolerance, "rel").unwrap_or(numerics.tolerance.rel);
    numerics
}

fn control_flow(semantic: Option<&Table>, compile: Option<&Table>) -> ControlFlow {
    let mut flow = ControlFlow::default();
    let promise = semantic.and_then(|table| table.table("control_flow"));
    flow.branches = word(promise, "branches", Branches::of_name).unwrap_or_default();
    flow.unroll =
        entries(promise, "unroll").filter_map(|(name, node)| Some((name.to_owned(), node.as_size()?))).collect();
    let placement = compile.and_then(|table| table.table("control_flow"));
    flow.policy = word(placement, "policy", ControlFlowPolicy::of_name);
    flow.inline_if_depth = size(placement, "inline_if_depth").unwrap_or(flow.inline_if_depth);
    flow.host_dispatch = text(placement, "host_dispatch").as_deref() == Some("allow");
    flow
}

fn compile_clauses(table: Option<&Table>) -> Compile {
    let part = |key: &str| table.and_then(|table| table.table(key));
    let sequences = |key: &str| {
        let list = part("fusion").and_then(|table| table.get(key)).and_then(Node::as_list).unwrap_or_default();
        list.iter().map(list_of_texts).collect()
    };
    Compile {
        require: sequences("require"),
        forbid: sequences("forbid"),
        disable: texts(part("fusion"), "disable"),
        conv_layout: word(part("layout"), "conv", ConvLayout::of_name).unwrap_or_default(),
        fake_quant: word(part("quantization"), "fake_quant", FakeQuant::of_name).unwrap_or_default(),
        attention: word(part("attention"), "implementation", AttentionImplementation::of_name).unwrap_or_default(),
    }
}

fn entries<'t>(table: Option<&'t Table>, key: &str) -> impl Iterator<Item = (&'t str, &'t Node)> {
    let inner = table.and_then(|table| table.table(key));
    inner.into_iter().flat_map(|table| table.0.iter()).map(|entry| (entry.key.as_str(), &entry.node))
}

fn text(table: Option<&Table>, key: &str) -> Option<String> {
    table?.get(key)?.as_text().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn size(table: Option<&Table>, key: &str) -> Option<u64> {
    table?.get(key)?.as_size()
}

fn number(table: Option<&Table>, key: &str) -> Option<f64> {
    table?.get(key)?.as_number().filter(|number| number.is_finite())
}

fn word<T>(table: Option<&Table>, key: &str, of_name: fn(&str) -> Option<T>) -> Option<T> {
    table?.get(key)?.as_text().and_then(of_name)
}

fn texts(table: Option<&Table>, key: &str) -> Vec<String> {
    table.and_then(|table| table.get(key)).map(list_of_texts).unwrap_or_default()
}

fn list_of_texts(node: &Node) -> Vec<String> {
    node.as_list().unwrap_or_default().iter().filter_map(Node::as_text).map(str::to_owned).collect()
}
