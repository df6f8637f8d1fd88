//! Recipes as people write them, and what is said about wrong ones.
#![allow(clippy::unwrap_used)]

use tenon_recipe::{Combine, DimEntry, Format, NumericClass, PadValue, Recipe, RecipeError};

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
    let (code, _, _, help) = fault("recipe = 1\n[semantic.numerics]\nrewrites = 'exakt'");
    assert_eq!((code.as_str(), help.as_str()), ("E0205", "did you mean \"exact\"?"));
}

/// Only a word that is nearly written is proposed, and never one that is refused.
#[test]
fn words_are_proposed_by_their_distance() {
    for (text, help) in [
        ("[semantic.numerics]\nrewrites = 'reasociates'", "did you mean \"reassociates\"?"),
        ("[semantic.numerics]\nrewrites = 'fast'", "write one of \"exact\", \"reassociates\", \"approximates\""),
        ("[semantic]\ncombine = 'sum'", "write one of \"product\", \"zip\""),
        ("[semantic]\ncombine = 'zap'", "did you mean \"zip\"?"),
        ("[semantic.dims.n]\nallowed = [1]\nbetween = 'cut'", "write one of \"reject\", \"pad\""),
        ("[compile.layout]\nconv = 'nhwcc'", "write one of \"auto\", \"nchw\""),
        ("[hardware]\nover_budget = 'x'", "write one of \"error\", \"offload\", \"stream\""),
    ] {
        let (code, _, message, found) = fault(&format!("recipe = 1\n{text}"));
        assert_eq!((code.as_str(), found.as_str()), ("E0205", help), "{text}: {message}");
    }
    assert!(fault("recipe = 1\nabcdef = 1").3.starts_with("keys here are"));
}

/// What cannot be seen names nothing, and messages stay short whatever stands in the file.
#[test]
fn names_can_be_seen_and_messages_are_short() {
    for text in [
        "name = \"a\\u0007\"",
        "name = \"a\\nb\"",
        "[semantic.dims.\"a\\u001b[31m\"]\nallowed = [1]",
        "[semantic.inputs.\"x\\u0000\"]\ndtype = 'f32'",
        "[semantic.inputs.x]\ndims = [\"a\\tb\"]",
        "[hardware]\ntargets = [\"t4\\r\"]",
        "[compile.fusion]\nrequire = [[\"conv\\u007f\"]]",
        "[compile.fusion]\ndisable = [\"a\\u0085\"]",
    ] {
        let (code, _, message, _) = fault(&format!("recipe = 1\n{text}"));
        assert_eq!(code, "E0205", "{text}");
        assert!(!message.chars().any(char::is_control), "{message:?}");
    }
    let long = "x".repeat(200_000);
    for text in [format!("{long} = 1"), format!("name = 1\n[semantic.numerics]\nrewrites = '{long}'")] {
        for error in refused(&format!("recipe = 1\n{text}")) {
            assert!(error.to_string().chars().count() < 400, "{}", error.to_string().len());
        }
    }
}

#[test]
fn clauses_that_are_not_enforced_are_refused_by_name() {
    // Every line of the table that is not enforced, by a value that its kind takes.
    for (path, reason) in tenon_recipe::refused_clauses() {
        let written = path.replace("NAME", "n");
        let (clause, value) = written.split_once(" = ").unwrap_or((&written, ""));
        let values: &[&str] = match value {
            "" => &["'all'", "1", "0.5", "['a']", "[['a']]", "'kernel'", "'forbid'", "{ a = 1 }", "{ a = ['x'] }"],
            word => &[word],
        };
        let mut found = false;
        for value in values {
            let errors = Recipe::parse(&format!("recipe = 1\n{clause} = {value}\n")).unwrap_err();
            found |= errors.iter().any(|error| error.code() == "E0204" && error.to_string().contains(reason));
        }
        assert!(found, "{path}");
    }
    for (text, word) in [
        ("[semantic.numerics]\naccumulate = 'f64'", "f64"),
        ("[semantic.numerics]\nrounding = 'stochastic'", "stochastic"),
        ("[hardware]\npinned_inputs = true", "true"),
    ] {
        let (code, span, message, _) = fault(&format!("recipe = 1\n{text}"));
        assert_eq!((code.as_str(), span.trim_matches('\'')), ("E0204", word));
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
    assert_eq!(load("tenon-no-such-recipe.yaml"), "E0200");
    assert_eq!(load("tenon-recipe.json"), "E0201");
    // Two faults are both reported, in order.
    let codes: Vec<_> = refused("nam = 'a'\nrecipe = 3").iter().map(RecipeError::code).collect();
    assert_eq!(codes, ["E0203", "E0206"]);
}

#[test]
fn sizes_combine_and_are_limited() {
    let dims = |semantic: &str, dims: &str| format!("recipe = 1\n[semantic]\n{semantic}\n[semantic.dims]\n{dims}\n");
    let aligned = Recipe::parse(&dims("", "n = { align = 8, max = 32, between = 'pad' }")).unwrap();
    assert_eq!(aligned.dims["n"].allowed, [8, 16, 24, 32]);
    assert_eq!(
        aligned.hash(),
        Recipe::parse(&dims("", "n = { allowed = [32, 8, 24, 16], between = 'pad' }")).unwrap().hash()
    );
    let zipped =
        Recipe::parse(&dims("combine = 'zip'", "n = { allowed = [4, 1, 1] }\nm = { allowed = [8, 8, 2] }")).unwrap();
    assert_eq!((zipped.combine, zipped.dims["n"].allowed.as_slice()), (Combine::Zip, [4, 1, 1].as_slice()));
    for (semantic, list, code, span) in [
        ("", "n = { align = 8, max = 30 }", "E0207", "30"),
        ("", "n = { align = 8 }", "E0207", "{ align = 8 }"),
        ("", "n = { max = 8 }", "E0207", "{ max = 8 }"),
        ("", "n = { allowed = [8], align = 8 }", "E0207", "8"),
        ("", "n = { align = 1, max = 1000000 }", "E0208", "1000000"),
        ("combine = 'zip'", "n = { allowed = [1, 2] }\nm = { allowed = [1] }", "E0207", "'zip'"),
        ("combine = 'zip'", "n = { allowed = [1, 1] }\nm = { allowed = [1, 1] }", "E0207", "'zip'"),
        ("max_graphs = 3", "n = { allowed = [1, 2] }\nm = { allowed = [1, 2] }", "E0208", "3"),
    ] {
        let (found, place, message, _) = fault(&dims(semantic, list));
        assert_eq!((found.as_str(), place.as_str()), (code, span), "{message}");
    }
    Recipe::parse(&dims("max_graphs = 2\ncombine = 'zip'", "n = { allowed = [1, 2] }\nm = { allowed = [1, 2] }"))
        .unwrap();
}

#[test]
fn a_value_to_pad_with_is_one_of_its_input() {
    let text = |input: &str| {
        format!(
            "recipe = 1\n[semantic.dims]\nn = {{ allowed = [4], between = 'pad' }}\nm = {{ allowed = [4] }}\n[semantic.inputs.x]\n{input}\n"
        )
    };
    let good = Recipe::parse(&text("dims = ['n']\ndtype = 'ui8'\npad = 255")).unwrap();
    assert_eq!(good.inputs["x"].pad, Some(PadValue::Integer(255)));
    for input in [
        "pad = -0.5",
        // The largest finite value of each type, and what rounds to it.
        "dims = ['n']\ndtype = 'f32'\npad = 3.4028235e38",
        "dims = ['n']\ndtype = 'f16'\npad = 65504",
        "dims = ['n']\ndtype = 'f8E4M3FN'\npad = 448.0",
        "dims = ['n']\ndtype = 'f4E2M1FN'\npad = -6.0",
    ] {
        Recipe::parse(&text(input)).unwrap();
    }
    for (input, span) in [
        ("dims = ['m', 3]\npad = 0", "0"),
        ("dims = ['n']\ndtype = 'ui8'\npad = 256", "256"),
        ("dims = ['n']\ndtype = 'i8'\npad = -129", "-129"),
        ("dims = ['n']\ndtype = 'i64'\npad = 0.5", "0.5"),
        ("dims = ['n']\ndtype = 'f32'\npad = true", "true"),
        ("dims = ['n']\ndtype = 'f32'\npad = 1e39", "1e39"),
        ("dims = ['n']\ndtype = 'f32'\npad = -1e39", "-1e39"),
        ("dims = ['n']\ndtype = 'f16'\npad = 65520", "65520"),
        ("dims = ['n']\ndtype = 'bf16'\npad = 3.4e38", "3.4e38"),
        ("dims = ['n']\ndtype = 'f8E4M3FN'\npad = 480.0", "480.0"),
        ("dims = ['n']\ndtype = 'f4E2M1FN'\npad = 6.5", "6.5"),
    ] {
        let (code, found, message, _) = fault(&text(input));
        assert_eq!((code.as_str(), found.as_str()), ("E0207", span), "{message}");
    }
}

const AS_YAML: &str = r#"
# The same as FULL, in another language and order.
name: minilm
recipe: 1
hardware: { targets: [a100-sxm4-80gb, "sm_80"] }
semantic:
  dims:
    batch: { allowed: [4, 1], beyond: reject }
    seq:
      allowed:
        - 32
        - 0x40
  inputs:
    input_ids:
      dims: [batch, seq]
      dtype: i64
    scale: { dims: [3] }
  numerics:
    rewrites: exact
    tolerance:
      abs: 1e-5
      rel: 0
"#;

#[test]
fn yaml_says_the_same() {
    let yaml = Recipe::parse_as(AS_YAML, Format::Yaml).unwrap();
    let toml = Recipe::parse(FULL).unwrap();
    assert_eq!(yaml.canonical_json(), toml.canonical_json());
    assert_eq!(yaml.hash(), toml.hash());
    assert_eq!(toml.differences(&yaml), []);
}

#[test]
fn the_canonical_form_is_read_back() {
    let pad = "recipe = 1\n[semantic.dims]\nn = { align = 4, max = 8, between = 'pad' }\n[semantic.inputs.x]\ndims = ['n', 3]\npad = -1\n[hardware]\ntargets = ['t4']\n";
    let zip = "recipe = 1\n[semantic]\ncombine = 'zip'\nmax_graphs = 2\n[semantic.dims]\nn = { allowed = [4, 1] }\n";
    for text in [FULL, pad, zip, "recipe = 1\ncompile.fusion.disable = ['a']\n"] {
        let recipe = Recipe::parse(text).unwrap();
        let back = Recipe::from_canonical(&recipe.canonical_json()).unwrap();
        assert_eq!(back.hash(), recipe.hash());
        assert_eq!((&back.dims, &back.targets, back.combine), (&recipe.dims, &recipe.targets, recipe.combine));
    }
    assert!(Recipe::from_canonical("{}").is_none() && Recipe::from_canonical("").is_none());
    assert!(Recipe::from_canonical(&Recipe::default().canonical_json().replace("1024", "9999")).is_none());
}

#[test]
fn faults_of_yaml_have_their_places() {
    for (text, code, span) in [
        ("recipe: 1\nnä: 1\nnam: x\n", "E0203", "nä"),
        ("recipe: 1\nsemantic:\n  numerics: {rewrites: schnell}\n", "E0205", "schnell"),
        ("recipe: 1\nname: ''\n", "E0205", "''"),
        ("recipe: 1\nname: 3\n", "E0205", "3"),
        ("# größer\nrecipe: 1\nsemantic: {dims: {n: {allowed: [0]}}}\n", "E0205", "0"),
        ("recipe: 2\n", "E0206", "2"),
        ("recipe: 1\nname: a\nname: b\n", "E0202", "name"),
        ("recipe: 1\nname: &a x\n", "E0202", "x"),
        ("recipe: 1\nname: !!str x\n", "E0202", "x"),
        ("- 1\n", "E0202", "- 1"),
    ] {
        let errors = Recipe::parse_as(text, Format::Yaml).unwrap_err();
        let found = &text[errors[0].span.clone().unwrap()];
        assert_eq!(errors[0].code(), code, "{text}: {errors:?}");
        assert!(found.starts_with(span) || found.contains(span) && code == "E0202", "{text}: {found:?}");
    }
    for text in ["recipe: [", "recipe: 1\n---\nrecipe: 1\n", "recipe: *a\n", "{[1]: 2}", "a: b: c\n"] {
        assert_eq!(Recipe::parse_as(text, Format::Yaml).unwrap_err()[0].code(), "E0202", "{text}");
    }
    assert_eq!(Recipe::parse_as("", Format::Yaml).unwrap_err()[0].code(), "E0206");
    let deep = format!("a: {}1{}", "[".repeat(200), "]".repeat(200));
    assert_eq!(Recipe::parse_as(&deep, Format::Yaml).unwrap_err()[0].code(), "E0202");
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
    assert_eq!(Recipe::parse_as(bomb, Format::Yaml).unwrap_err()[0].code(), "E0202");
}

#[test]
fn differences_name_clauses() {
    let other = Recipe::parse(&FULL.replace("\"exact\"", "\"approximates\"").replace("[4, 1]", "[4]")).unwrap();
    let found: Vec<_> = Recipe::parse(FULL).unwrap().differences(&other);
    let rows: Vec<_> = found.iter().map(|d| (d.clause.as_str(), d.before.as_str(), d.after.as_str())).collect();
    assert_eq!(
        rows,
        [
            ("semantic.dims.batch.allowed", "[1,4]", "[4]"),
            ("semantic.numerics.rewrites", "\"exact\"", "\"approximates\""),
        ]
    );
}

#[test]
fn the_schema_knows_every_key() {
    let schema = Recipe::json_schema();
    let dim = &schema["properties"]["semantic"]["properties"]["dims"]["additionalProperties"];
    assert_eq!(dim["properties"]["between"]["enum"], serde_json::json!(["reject", "pad"]));
    assert_eq!(dim["additionalProperties"], false);
    assert_eq!(schema["properties"]["recipe"]["const"], 1);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(512))]

    /// No text makes reading panic, and every fault lies in the text.
    #[test]
    fn any_text_is_read_or_refused(start in 0usize..600, length in 0usize..40, insert in "[\\[\\]{}:,'\"&*!#\\- \\n\\t0-9a-zäß.=~|>%@]{0,12}", yaml in proptest::bool::ANY) {
        let base = if yaml { AS_YAML } else { FULL };
        let place = |wanted: usize| (0..=wanted.min(base.len())).rev().find(|place| base.is_char_boundary(*place)).unwrap();
        let (from, to) = (place(start), place(start + length));
        let text = format!("{}{insert}{}", &base[..from], &base[to..]);
        let format = if yaml { Format::Yaml } else { Format::Toml };
        if let Err(errors) = Recipe::parse_as(&text, format) {
            assert!(!errors.is_empty());
            for span in errors.into_iter().filter_map(|error| error.span) {
                assert!(text.get(span.clone()).is_some(), "{span:?} of {text:?}");
            }
        }
    }
}
