//! What a recipe says to the stages after `contract`, as attributes of the module: whoever resumes from a dump compiles by these clauses.
//!
//! - `graph.numerics`: the numeric promise;
//! - `graph.clauses`: the other clauses that are not the default, as dictionaries in the shape of a recipe; absent where all are;
//! - `graph.recipe`: the hash of the whole recipe, by which another one is told apart.

use serde_json::{Map, Number, Value, json};
use tenon_ir::{Attribute, Context, Module};
use tenon_pass_manager::{PassError, Refusal};
use tenon_recipe::{NumericClass, Numerics, Recipe, Tolerance};
use tenon_tensor::DType;

const NUMERICS: &str = "graph.numerics";
const CLAUSES: &str = "graph.clauses";
const RECIPE: &str = "graph.recipe";

/// What `contract` wrote of a recipe into a module.
#[derive(Debug, Clone, PartialEq)]
pub struct Attached {
    /// The clauses that stages after `contract` go by; names, dimensions and inputs are those of the default recipe, since the module has them.
    pub recipe: Recipe,
    /// Hash of the recipe that was applied.
    pub hash: String,
}

/// Writes the clauses that later stages go by.
pub(crate) fn write(recipe: &Recipe, module: &Module<'_>) -> Result<(), PassError> {
    let ir = module.context();
    let numerics = recipe.numerics;
    let promise = ir.dictionary(&[
        ("accumulate", ir.type_attribute(ir.element_type(numerics.accumulate))),
        ("rewrites", ir.string(numerics.rewrites.name())),
        ("tolerance_abs", ir.f64(numerics.tolerance.abs)),
        ("tolerance_rel", ir.f64(numerics.tolerance.rel)),
    ]);
    module.op().set_attribute(NUMERICS, promise)?;
    module.op().set_attribute(RECIPE, ir.string(&recipe.hash()))?;
    match recipe.stage_clauses() {
        Value::Object(clauses) if clauses.is_empty() => {}
        clauses => module.op().set_attribute(CLAUSES, attribute(ir, &clauses))?,
    }
    Ok(())
}

/// The clauses that a module of stage `contract` or later holds; none where no recipe was applied to it.
///
/// # Errors
/// An attribute that is no clause of a recipe, or one that this version refuses.
pub fn attached(module: &Module<'_>) -> Result<Option<Attached>, PassError> {
    let top = module.op();
    let (Some(promise), Some(hash)) = (top.attribute(NUMERICS), top.string(RECIPE)) else { return Ok(None) };
    let mut recipe = match top.attribute(CLAUSES) {
        None => Recipe::default(),
        Some(clauses) => {
            let value = value(clauses).ok_or_else(|| malformed(CLAUSES, "it is no dictionary of clauses"))?;
            Recipe::of_clauses(&value).map_err(|errors| {
                let faults: Vec<String> = errors.iter().map(ToString::to_string).collect();
                malformed(CLAUSES, &faults.join("; "))
            })?
        }
    };
    recipe.numerics = numerics(promise).ok_or_else(|| {
        malformed(NUMERICS, "it does not say `accumulate`, `rewrites`, `tolerance_abs` and `tolerance_rel` of a recipe")
    })?;
    Ok(Some(Attached { recipe, hash }))
}

fn malformed(attribute: &str, reason: &str) -> PassError {
    let help = "correct it as a recipe would say it, or resume at stage `import`";
    Refusal::new("E0415", format!("the attribute `{attribute}` of the module holds no clauses: {reason}"), help).into()
}

fn numerics(promise: Attribute<'_>) -> Option<Numerics> {
    let tolerance =
        |name: &str| promise.get(name).and_then(Attribute::as_float).filter(|bound| bound.is_finite() && *bound >= 0.0);
    let accumulate = promise.get("accumulate").and_then(Attribute::as_type).and_then(|ty| ty.dtype())?;
    Some(Numerics {
        rewrites: promise
            .get("rewrites")
            .and_then(Attribute::as_string)
            .and_then(|word| NumericClass::of_name(&word))?,
        accumulate: (accumulate == DType::F32).then_some(accumulate)?,
        tolerance: Tolerance { abs: tolerance("tolerance_abs")?, rel: tolerance("tolerance_rel")? },
    })
}

/// JSON as an attribute; nulls of tables are left out.
fn attribute<'s>(ir: Context<'s>, value: &Value) -> Attribute<'s> {
    match value {
        Value::Null => ir.unit(),
        Value::Bool(value) => ir.bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => ir.i64(number),
            // Only sizes in bytes are as large, and these may be texts.
            (None, Some(number)) => ir.string(&format!("{number}B")),
            (None, None) => ir.f64(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => ir.string(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| attribute(ir, item)).collect();
            ir.array(&items)
        }
        Value::Object(entries) => {
            let entries: Vec<_> = entries.iter().map(|(key, value)| (key.as_str(), attribute(ir, value))).collect();
            ir.dictionary(&entries)
        }
    }
}

/// An attribute as JSON; none for one that [`attribute`] does not write.
fn value(attribute: Attribute<'_>) -> Option<Value> {
    if let Some(entries) = attribute.as_dictionary() {
        let entries: Option<Map<_, _>> = entries.into_iter().map(|(key, entry)| Some((key, value(entry)?))).collect();
        return entries.map(Value::Object);
    }
    if let Some(items) = attribute.as_array() {
        return items.into_iter().map(value).collect::<Option<_>>().map(Value::Array);
    }
    if let Some(text) = attribute.as_string() {
        return Some(json!(text));
    }
    // A truth value is an integer of one bit, too.
    if let Some(value) = attribute.as_bool() {
        return Some(json!(value));
    }
    if let Some(number) = attribute.as_integer() {
        return Some(json!(number));
    }
    attribute.as_float().and_then(Number::from_f64).map(Value::Number)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tenon_ir::Session;

    use super::*;

    const FULL: &str = r#"
recipe = 1
name = "n"
[semantic.dims]
n = { allowed = [1, 2] }
[semantic.numerics]
rewrites = "exact"
tolerance = { abs = 0.1, rel = 3e-9 }
[semantic.control_flow]
unroll = { "loop \"a\"" = 4 }
[compile.fusion]
require = [["conv", "relu"]]
forbid = [["matmul", "add"], ["add", "relu"]]
disable = ["fold-broadcast", "softmax"]
[compile.attention]
implementation = "unfused"
[compile.control_flow]
policy = "host"
inline_if_depth = 0
host_dispatch = "allow"
[hardware]
targets = ["t4"]
activation_budget = "10000000TiB"
over_budget = "stream"
[hardware.expect.t4]
instructions = { softmax = ["shfl.sync"] }
spills = 0
min_occupancy = 1.0
"#;

    #[test]
    fn every_clause_comes_back_from_the_text_of_a_module() {
        let session = Session::new();
        let module = session.new_module(session.context().unknown_location()).unwrap();
        assert_eq!(attached(&module).unwrap(), None);
        let recipe = Recipe::parse(FULL).unwrap();
        write(&recipe, &module).unwrap();
        let text = module.print(tenon_ir::PrintOptions { locations: true, generic: false });
        let parsed = session.parse_module(&text, "dump.mlir").unwrap();
        let found = attached(&parsed).unwrap().unwrap();
        assert_eq!(found.hash, recipe.hash());
        // What the module says itself is left out.
        let default = Recipe::default();
        let expected = Recipe { name: default.name, dims: default.dims, ..recipe };
        assert_eq!(found.recipe, expected);
    }

    #[test]
    fn defaults_are_not_written() {
        let session = Session::new();
        let module = session.new_module(session.context().unknown_location()).unwrap();
        write(&Recipe::default(), &module).unwrap();
        assert!(module.op().attribute(CLAUSES).is_none());
        assert_eq!(attached(&module).unwrap().unwrap().recipe, Recipe::default());
    }

    #[test]
    fn edits_that_are_no_clauses_are_refused() {
        let session = Session::new();
        let promise = r#"graph.numerics = {accumulate = f32, rewrites = "exact", tolerance_abs = 0.1, tolerance_rel = 0.1}, graph.recipe = "0""#;
        let of = |attributes: &str| {
            let module = session.parse_module(&format!("module attributes {{{attributes}}} {{}}"), "m").unwrap();
            attached(&module)
        };
        assert_eq!(of(promise).unwrap().unwrap().recipe.numerics.rewrites, NumericClass::Exact);
        for (attributes, reason) in [
            (promise.replace("exact", "exakt"), "`rewrites`"),
            (promise.replace("accumulate = f32", "accumulate = f64"), "`accumulate`"),
            (promise.replace("tolerance_rel = 0.1", "tolerance_rel = -0.1"), "`tolerance_rel`"),
            (format!("{promise}, graph.clauses = 3"), "no table"),
            (format!("{promise}, graph.clauses = {{compile = @f}}"), "no dictionary"),
            (
                format!("{promise}, graph.clauses = {{compile = {{fusion = {{disabel = []}}}}}}"),
                "unknown key `compile.fusion.disabel`",
            ),
            (format!("{promise}, graph.clauses = {{compile = {{layout = {{conv = \"nhwc\"}}}}}}"), "not supported"),
        ] {
            let error = of(&attributes).unwrap_err();
            assert_eq!(error.code(), "E0415");
            assert!(error.to_string().contains(reason), "{attributes}: {error}");
        }
    }
}
