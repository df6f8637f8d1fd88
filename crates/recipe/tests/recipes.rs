//! Recipes as people write them, and what is said about wrong ones.
#![allow(clippy::unwrap_used)]

use tenon_recipe::{DimEntry, NumericClass, Recipe, RecipeError};

const FULL: &str = r#"
recipe = 1
name = "minilm"

[semantic]
dims.batch = { allowed = [4, 1], beyond = "reject" }
[semantic.dims.seq]
allowed = [32, 0x40]
between = "reject"
[semantic.inputs.input_ids]
dims = ["batch", "seq"]
dtype = "i64"
[semantic.inputs.scale]
dims = [3]
[semantic.numerics]
rewrites = "exact"
accumulate = "f32"
rounding = "nearest"
tolerance = { abs = 1e-5, rel = 0 }
[hardware]
targets = ["a100-sxm4-80gb", "sm_80"]
"#;

fn refused(text: &str) -> Vec<RecipeError> {
    Recipe::parse(text).unwrap_err()
}

/// Code, text of the span, message and help of the only fault.
fn fault(text: &str) -> (String, String, String, String) {
    let errors = refused(text);
    assert_eq!(errors.len(), 1, "{errors:?}");
    let error = &errors[0];
    let span = error.span.clone().map(|span| text[span].to_owned()).unwrap_or_default();
    (error.code().to_owned(), span, error.to_string(), error.help().unwrap_or_default())
}

#[test]
fn a_full_recipe() {
    let recipe = Recipe::parse(FULL).unwrap();
    assert_eq!(recipe.name, "minilm");
    assert_eq!(recipe.dims["batch"].allowed, [1, 4]);
    assert_eq!(recipe.dims["seq"].allowed, [32, 64]);
    let ids = &recipe.inputs["input_ids"];
    assert_eq!(ids.dims.as_deref().unwrap(), [DimEntry::Named("batch".into()), DimEntry::Named("seq".into())]);
    assert_eq!(ids.dtype.unwrap().name(), "i64");
    assert_eq!(recipe.inputs["scale"].dims.as_deref().unwrap(), [DimEntry::Fixed(3)]);
    assert_eq!(recipe.numerics.rewrites, NumericClass::Exact);
    assert_eq!((recipe.numerics.tolerance.abs, recipe.numerics.tolerance.rel), (1e-5, 0.0));
    assert_eq!(recipe.targets, ["a100-sxm4-80gb", "sm_80"]);
}

#[test]
fn the_hash_sees_content_and_not_spelling() {
    let hash = |text: &str| Recipe::parse(text).unwrap().hash();
    let plain = hash("recipe = 1\nname = 'a'\n");
    assert_eq!(
        plain,
        hash(
            "name = \"a\" # a comment\nrecipe = 0x1\n[semantic.numerics]\nrewrites = \"reassociates\"\ntolerance.abs = 0.0001"
        )
    );
    assert_ne!(plain, hash("recipe = 1\nname = 'b'\n"));
    assert_ne!(plain, hash("recipe = 1\nname = 'a'\n[semantic.numerics]\nrewrites = 'exact'"));
    let dims = |list: &str| hash(&format!("recipe = 1\n[semantic.dims.n]\nallowed = {list}"));
    assert_eq!(dims("[1, 2]"), dims("[2, 1]"));
    assert_ne!(dims("[1, 2]"), dims("[1, 3]"));
}

#[test]
fn unknown_keys_are_named_with_the_nearest() {
    let (code, span, message, help) = fault("recipe = 1\n[semantic.numerics]\ntolerence = { abs = 1 }");
    assert_eq!((code.as_str(), span.as_str()), ("E0203", "tolerence"));
    assert_eq!(message, "unknown key `semantic.numerics.tolerence`");
    assert_eq!(help, "did you mean `tolerance`?");
    let (code, _, message, help) = fault("recipe = 1\n[zzzzzzzzzz]\na = 1");
    assert_eq!((code.as_str(), message.as_str()), ("E0203", "unknown key `zzzzzzzzzz`"));
    assert!(help.starts_with("keys here are recipe, name"), "{help}");
    // A wrong key inside a clause that is not enforced is still a wrong key.
    assert_eq!(fault("recipe = 1\n[compile.fusion]\nrequired = []").0, "E0203");
}

#[test]
fn clauses_that_are_not_enforced_are_refused_by_name() {
    for (clause, name) in [
        ("[semantic]\ncombine = 'zip'", "semantic.combine"),
        ("[semantic]\nmax_graphs = 3", "semantic.max_graphs"),
        ("[semantic.dims.n]\nallowed = [1]\nalign = 8", "semantic.dims.n.align"),
        ("[semantic.inputs.x]\npad = 0", "semantic.inputs.x.pad"),
        ("[semantic.control_flow]\nbranches = 'all'", "semantic.control_flow.branches"),
        ("[semantic.control_flow]\nunroll = { loop = 4 }", "semantic.control_flow.unroll"),
        ("[compile.fusion]\nrequire = []", "compile.fusion.require"),
        ("[compile.layout]\nconv = 'nhwc'", "compile.layout.conv"),
        ("[compile.quantization]\nfake_quant = 'keep'", "compile.quantization.fake_quant"),
        ("[compile.attention]\nimplementation = 'flash'", "compile.attention.implementation"),
        ("[compile.control_flow]\npolicy = 'host'", "compile.control_flow.policy"),
        ("[hardware]\nactivation_budget = '1MiB'", "hardware.activation_budget"),
        ("[hardware.expect.sm_80]\nspills = 0", "hardware.expect.sm_80.spills"),
        ("[hardware.expect.sm_80]\ninstructions = { a = [] }", "hardware.expect.sm_80.instructions"),
        ("[hardware.kernels.k]\nversion = '1'", "hardware.kernels.k.version"),
        ("[custom_ops.o]\nshape = ''", "custom_ops.o.shape"),
        ("[feedback]\nsm_active = { error_below = 0.5 }", "feedback.sm_active.error_below"),
    ] {
        let (code, _, message, _) = fault(&format!("recipe = 1\n{clause}\n"));
        assert_eq!(code, "E0204", "{clause}");
        assert_eq!(message, format!("clause `{name}` is not supported in this version"));
    }
    for (text, word) in [
        ("[semantic.numerics]\naccumulate = 'f64'", "f64"),
        ("[semantic.numerics]\nrounding = 'stochastic'", "stochastic"),
    ] {
        let (code, span, message, _) = fault(&format!("recipe = 1\n{text}"));
        assert_eq!((code.as_str(), span), ("E0204", format!("'{word}'")));
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn padding_is_part_of_the_contract() {
    let read = |text: &str| Recipe::parse(&format!("recipe = 1\n[semantic.dims.n]\nallowed = [4, 8]\n{text}")).unwrap();
    assert!(
        read("between = 'pad'").dims["n"].pad && !read("between = 'reject'").dims["n"].pad && !read("").dims["n"].pad
    );
    assert_eq!(read("between = 'reject'").hash(), read("").hash());
    assert_ne!(read("between = 'pad'").hash(), read("").hash());
}

#[test]
fn values_are_checked() {
    for (text, span) in [
        ("[semantic.dims.n]\nallowed = []", "[]"),
        ("[semantic.dims.n]\nallowed = [0]", "0"),
        ("[semantic.dims.n]\nallowed = [2, 2]", "2"),
        ("[semantic.dims.n]\nallowed = [99999999999999999999]", "99999999999999999999"),
        ("[semantic.dims.n]\nallowed = 3", "3"),
        ("[semantic.dims]\nn = 3", "3"),
        ("[semantic.dims.n]\nallowed = [1]\nbeyond = 'pad'", "'pad'"),
        ("[semantic.inputs.x]\ndims = [1.5]", "1.5"),
        ("[semantic.inputs.x]\ndtype = 'float'", "'float'"),
        ("[semantic.numerics]\nrewrites = 'fast'", "'fast'"),
        ("[semantic.numerics]\ntolerance.abs = -1", "-1"),
        ("[semantic.numerics]\ntolerance.rel = nan", "nan"),
        ("[hardware]\ntargets = ['a', 'a']", "'a'"),
        ("name = 3", "3"),
    ] {
        let (code, found, message, _) = fault(&format!("recipe = 1\n{text}"));
        assert_eq!((code.as_str(), found.as_str()), ("E0205", span), "{text}: {message}");
    }
    assert_eq!(fault("recipe = 1\n[semantic.dims.n]\nbeyond = 'reject'").0, "E0205");
}

#[test]
fn files_and_versions() {
    assert_eq!(fault("name = 'a'").0, "E0206");
    assert_eq!(fault("recipe = 2").0, "E0206");
    assert_eq!(fault("recipe = [").0, "E0202");
    let folder = std::env::temp_dir();
    let load = |name: &str| Recipe::load(&folder.join(name)).unwrap_err().0[0].code();
    assert_eq!(load("tenon-no-such-recipe.toml"), "E0200");
    assert_eq!(load("tenon-recipe.yaml"), "E0201");
    assert_eq!(load("tenon-recipe.json"), "E0201");
    // Two faults are both reported, in order.
    let codes: Vec<_> = refused("nam = 'a'\nrecipe = 3").iter().map(RecipeError::code).collect();
    assert_eq!(codes, ["E0203", "E0206"]);
}
