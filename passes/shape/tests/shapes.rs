//! Contract and buckets on small models.
#![allow(clippy::unwrap_used)]

use tenon_ir::{Module, PrintOptions, Session};
use tenon_pass_manager::{Options, Pass, PassError, Property, Runner};
use tenon_recipe::{DimClause, Recipe};
use tenon_shape_passes::{Bucket, Contract, Entry, ShapeSpace};

const ENCODER: &str = include_str!("../../../testdata/passes/contract.mlir");

fn run(pass: &dyn Pass, module: &mut Module<'_>) -> Result<(), PassError> {
    Runner::new(Options::default(), &[]).unwrap().run_pass(pass, module)
}

fn recipe(text: &str) -> Recipe {
    Recipe::parse(&format!("recipe = 1\n{text}")).unwrap()
}

fn contract(source: &str, text: &str) -> PassError {
    let session = Session::new();
    let mut module = session.parse_module(source, "test").unwrap();
    run(&Contract { recipe: recipe(text) }, &mut module).unwrap_err()
}

fn golden(name: &str, module: &Module<'_>) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/passes");
    insta::with_settings!({snapshot_path => folder, prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(name, module.print(PrintOptions::default()));
    });
}

const DIMS: &str = "[semantic.dims]\nbatch = { allowed = [1, 2] }\nseq = { allowed = [8] }\n\
                    [semantic.inputs.ids]\ndims = ['batch', 'seq']\ndtype = 'i64'";

#[test]
fn a_recipe_names_dimensions_and_buckets_fix_them() {
    let session = Session::new();
    let mut module = session.parse_module(ENCODER, "test").unwrap();
    run(&Contract { recipe: recipe(DIMS) }, &mut module).unwrap();
    golden("contract", &module);
    let entry = Entry::of(&module).unwrap();
    assert_eq!(
        entry.inputs.iter().map(|port| format!("{} {}", port.name, port.ty)).collect::<Vec<_>>(),
        ["ids i64[batch, seq]"]
    );
    assert_eq!(entry.outputs[0].name, "hidden");
    let points = ShapeSpace::read(&module).unwrap().points();
    assert_eq!(
        points,
        [[("batch".to_owned(), 1), ("seq".to_owned(), 8)], [("batch".to_owned(), 2), ("seq".to_owned(), 8)]]
    );
    let mut second = module.duplicate();
    run(&Bucket { point: points[1].clone() }, &mut second).unwrap();
    golden("bucket", &second);
    assert_eq!(Property::StaticShapes.missing(&second), None);
    // The module that the copy was made of still has its symbols.
    assert!(Property::StaticShapes.missing(&module).is_some());
}

#[test]
fn a_padded_dimension_keeps_its_name_and_gets_a_capacity() {
    let session = Session::new();
    let mut module = session.parse_module(ENCODER, "test").unwrap();
    let text = "[semantic.dims]\nbatch = { allowed = [1, 2] }\nseq = { allowed = [8, 16], between = 'pad' }\n\
                [semantic.inputs.ids]\ndims = ['batch', 'seq']";
    run(&Contract { recipe: recipe(text) }, &mut module).unwrap();
    let space = ShapeSpace::read(&module).unwrap();
    assert!(space.is_padded("seq") && !space.is_padded("batch"));
    run(&Bucket { point: vec![("batch".into(), 2), ("seq".into(), 16)] }, &mut module).unwrap();
    let entry = Entry::of(&module).unwrap();
    assert_eq!(entry.inputs[0].ty.to_string(), "i64[2, seq≤16]");
    assert_eq!(entry.outputs[0].ty.to_string(), "f32[2, seq-1≤15, 6]");
    assert_eq!(Property::StaticShapes.missing(&module), None);
    golden("bucket_padded", &module);
}

#[test]
fn contradictions_are_refused() {
    for (text, code, part) in [
        ("[semantic.inputs.idz]\ndims = ['a', 'b']", "E0220", "did you mean `ids`?"),
        ("[semantic.inputs.ids]\ndims = ['a']", "E0221", "the input is i64[N, S]"),
        ("[semantic.inputs.ids]\ndtype = 'f32'", "E0221", "the input is i64[N, S]"),
        ("", "E0223", "N = { allowed = [1] }\nS = { allowed = [1] }"),
        ("[semantic.dims.N]\nallowed = [1]", "E0223", "S = { allowed = [1] }"),
        ("[semantic.dims]\nN.allowed = [1]\nS.allowed = [1]\nseq.allowed = [1]", "E0224", "free dimensions are N, S"),
    ] {
        let error = contract(ENCODER, text);
        assert_eq!(error.code(), code, "{text}");
        assert!(error.help().unwrap().contains(part), "{text}: {:?}", error.help());
    }
    let two = "module { func.func @main(%a: tensor<?xf32, {dims = [\"n\"]}> {graph.name = \"a\"}, %b: tensor<?xf32, {dims = [\"n\"]}> {graph.name = \"b\"}, %c: tensor<3xf32> {graph.name = \"c\"}) { return } }";
    let error = contract(two, "[semantic.inputs]\na.dims = ['x']\nb.dims = ['y']");
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("E0222", "dimension 0 of input `b` is y in the recipe, but is x by another input")
    );
    let error = contract(two, "[semantic.inputs]\nc.dims = [4]");
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("E0222", "dimension 0 of input `c` is 4 in the recipe, but is 3 in the model")
    );
    assert_eq!(contract(two, "[semantic]\ndims.k.allowed = [3, 4]\ninputs.c.dims = ['k']").code(), "E0222");
    let many = (0..11).map(|dim| format!("d{dim}.allowed = [1, 2]\n")).collect::<String>();
    let types = (0..11).map(|dim| format!("\"d{dim}\"")).collect::<Vec<_>>().join(", ");
    let wide =
        format!("module {{ func.func @main(%a: tensor<{}f32, {{dims = [{types}]}}>) {{ return }} }}", "?x".repeat(11));
    // A recipe that is read is refused before; one that is made in code, here.
    assert_eq!(Recipe::parse(&format!("recipe = 1\n[semantic.dims]\n{many}")).unwrap_err()[0].code(), "E0208");
    let mut recipe = Recipe::default();
    for dim in 0..11 {
        recipe.dims.insert(format!("d{dim}"), DimClause { allowed: vec![1, 2], pad: false });
    }
    let session = Session::new();
    let mut module = session.parse_module(&wide, "wide").unwrap();
    assert_eq!(run(&Contract { recipe }, &mut module).unwrap_err().code(), "E0225");
    assert_eq!(contract("module {}", "").code(), "E0412");
}

#[test]
fn a_fixed_dimension_may_have_a_name_and_a_free_one_a_number() {
    let source = "module { func.func @main(%a: tensor<?x3xf32, {dims = [\"n\", 3]}> {graph.name = \"a\"}) -> tensor<?x3xf32, {dims = [\"n\", 3]}> { return %a : tensor<?x3xf32, {dims = [\"n\", 3]}> } }";
    let session = Session::new();
    let mut module = session.parse_module(source, "test").unwrap();
    run(&Contract { recipe: recipe("[semantic]\ndims.k.allowed = [3]\ninputs.a.dims = [5, 'k']") }, &mut module)
        .unwrap();
    assert_eq!(Entry::of(&module).unwrap().outputs[0].ty.known_shape().unwrap(), [5, 3]);
    assert_eq!(ShapeSpace::read(&module).unwrap().points(), [Vec::new()]);
}

#[test]
fn names_may_be_exchanged() {
    let source =
        "module { func.func @main(%a: tensor<?x?xf32, {dims = [\"x\", \"y\"]}> {graph.name = \"a\"}) { return } }";
    let session = Session::new();
    let mut module = session.parse_module(source, "test").unwrap();
    let text = "[semantic]\ndims = { x.allowed = [1], y.allowed = [2] }\ninputs.a.dims = ['y', 'x']";
    run(&Contract { recipe: recipe(text) }, &mut module).unwrap();
    assert_eq!(Entry::of(&module).unwrap().inputs[0].ty.to_string(), "f32[y, x]");
}

#[test]
fn a_point_at_which_operators_do_not_fit_is_refused_by_node() {
    let source = r#"module attributes {graph.numerics = {}, graph.shape_space = {}} {
      func.func @main(%a: tensor<?xf32, {dims = ["n"]}>, %b: tensor<?xf32, {dims = ["m"]}>) -> tensor<?xf32, {dims = ["n"]}> {
        %0 = graph.elementwise add(%a, %b) : (tensor<?xf32, {dims = ["n"]}>, tensor<?xf32, {dims = ["m"]}>) -> tensor<?xf32, {dims = ["n"]}> loc("Add_7")
        return %0 : tensor<?xf32, {dims = ["n"]}>
      }
    }"#;
    let session = Session::new();
    let module = session.parse_module(source, "test").unwrap();
    let at = |n: u64, m: u64| {
        let mut module = module.duplicate();
        run(&Bucket { point: vec![("n".to_owned(), n), ("m".to_owned(), m)] }, &mut module)
    };
    at(4, 4).unwrap();
    at(4, 1).unwrap();
    let error = at(4, 3).unwrap_err();
    assert_eq!((error.code(), error.nodes()), ("E0303", ["Add_7".to_owned()].as_slice()));
    let mut open = module.duplicate();
    let error = run(&Bucket { point: vec![("n".to_owned(), 4)] }, &mut open).unwrap_err();
    assert_eq!(error.code(), "E0414");
    assert!(error.to_string().contains("f32[m]"), "{error}");
}

#[test]
fn a_shape_space_that_was_edited_wrongly_is_refused() {
    let session = Session::new();
    for space in [
        "",
        "graph.shape_space = 3 : i64",
        "graph.shape_space = {n = array<i64>}",
        "graph.shape_space = {n = array<i64: -1>}",
    ] {
        let module = session.parse_module(&format!("module attributes {{{space}}} {{}}"), "test").unwrap();
        assert_eq!(ShapeSpace::read(&module).unwrap_err().code(), "E0413", "{space}");
    }
}

/// A count that nothing in the model bounds asks the recipe for its bound, and stays a name whose capacity that is.
#[test]
fn a_computed_extent_is_bounded_by_the_recipe() {
    let source = r#"module {
      func.func @main(%n: tensor<i64> {graph.name = "n"}) -> tensor<?xi64, {dims = ["range_0"]}> {
        %0 = graph.iota {axis = 0 : i64, shape = ["range_0_most"]} : tensor<?xi64, {dims = ["range_0_most"]}>
        %1 = graph.set_dimension_size "range_0" = %n of %0 : (tensor<?xi64, {dims = ["range_0_most"]}>, tensor<i64>) -> tensor<?xi64, {dims = ["range_0"]}> loc("Range_0")
        %2 = graph.elementwise add(%1, %1) : (tensor<?xi64, {dims = ["range_0"]}>, tensor<?xi64, {dims = ["range_0"]}>) -> tensor<?xi64, {dims = ["range_0"]}>
        return %2 : tensor<?xi64, {dims = ["range_0"]}>
      }
    }"#;
    let error = contract(source, "");
    assert_eq!(error.code(), "E0223");
    assert!(error.help().unwrap().contains("range_0_most = { allowed = [1] }"), "{:?}", error.help());
    let session = Session::new();
    let mut module = session.parse_module(source, "test").unwrap();
    run(&Contract { recipe: recipe("[semantic.dims]\nrange_0_most.allowed = [100]") }, &mut module).unwrap();
    run(&Bucket { point: vec![("range_0_most".into(), 100)] }, &mut module).unwrap();
    assert_eq!(Entry::of(&module).unwrap().outputs[0].ty.to_string(), "i64[range_0≤100]");
}

/// A branch, a loop and a scan whose values have a free dimension.
const FLOW: &str = r#"module {
  func.func @main(%x: tensor<?x3xf32, {dims = ["n", 3]}> {graph.name = "x"}, %c: tensor<i1> {graph.name = "c"}, %k: tensor<i64> {graph.name = "k"})
      -> (tensor<?x3xf32, {dims = ["n", 3]}>, tensor<?x3xf32, {dims = ["n", 3]}>, tensor<2x?x3xf32, {dims = [2, "n", 3]}>, tensor<3x?xf32, {dims = [3, "n"]}>) {
    %a = flow.if %c : tensor<i1> -> (tensor<?x3xf32, {dims = ["n", 3]}>) {
      %0 = graph.elementwise add(%x, %x) : (tensor<?x3xf32, {dims = ["n", 3]}>, tensor<?x3xf32, {dims = ["n", 3]}>) -> tensor<?x3xf32, {dims = ["n", 3]}>
      flow.yield %0 : tensor<?x3xf32, {dims = ["n", 3]}>
    } else {
      flow.yield %x : tensor<?x3xf32, {dims = ["n", 3]}>
    }
    %l, %all = flow.loop count(%k : tensor<i64>) carry(%a : tensor<?x3xf32, {dims = ["n", 3]}>)
        -> (tensor<?x3xf32, {dims = ["n", 3]}>, tensor<2x?x3xf32, {dims = [2, "n", 3]}>) {
    ^bb0(%i: tensor<i64>, %v: tensor<?x3xf32, {dims = ["n", 3]}>):
      %0 = graph.elementwise add(%v, %a) : (tensor<?x3xf32, {dims = ["n", 3]}>, tensor<?x3xf32, {dims = ["n", 3]}>) -> tensor<?x3xf32, {dims = ["n", 3]}>
      flow.yield %0, %v : tensor<?x3xf32, {dims = ["n", 3]}>, tensor<?x3xf32, {dims = ["n", 3]}>
    }
    %s = flow.scan over(%l : tensor<?x3xf32, {dims = ["n", 3]}>) -> (tensor<3x?xf32, {dims = [3, "n"]}>)
        attributes {input_axes = array<i64: 1>, input_directions = array<i64: 0>, output_axes = array<i64: 0>, output_directions = array<i64: 0>} {
    ^bb0(%column: tensor<?xf32, {dims = ["n"]}>):
      %0 = graph.elementwise negate(%column) : (tensor<?xf32, {dims = ["n"]}>) -> tensor<?xf32, {dims = ["n"]}>
      flow.yield %0 : tensor<?xf32, {dims = ["n"]}>
    }
    return %a, %l, %all, %s : tensor<?x3xf32, {dims = ["n", 3]}>, tensor<?x3xf32, {dims = ["n", 3]}>, tensor<2x?x3xf32, {dims = [2, "n", 3]}>, tensor<3x?xf32, {dims = [3, "n"]}>
  }
}"#;

#[test]
fn sizes_go_through_branches_and_loops() {
    let session = Session::new();
    for (between, size) in [("reject", "5"), ("pad", "n≤5")] {
        let mut module = session.parse_module(FLOW, "test").unwrap();
        let text = format!("[semantic.dims]\nn = {{ allowed = [5], between = '{between}' }}");
        run(&Contract { recipe: recipe(&text) }, &mut module).unwrap();
        run(&Bucket { point: vec![("n".into(), 5)] }, &mut module).unwrap();
        assert_eq!(Property::StaticShapes.missing(&module), None);
        assert!(tenon_pass_manager::check(&module).is_empty(), "{:?}", tenon_pass_manager::check(&module));
        let outputs = Entry::of(&module).unwrap().outputs;
        let types: Vec<String> = outputs.iter().map(|port| port.ty.to_string()).collect();
        let expected = ["f32[N, 3]", "f32[N, 3]", "f32[2, N, 3]", "f32[3, N]"].map(|ty| ty.replace('N', size));
        assert_eq!(types, expected);
    }
}

#[test]
fn sizes_outside_what_the_model_says_are_refused() {
    let with = |attribute: &str| FLOW.replace("module {", &format!("module attributes {{{attribute}}} {{"));
    for (attribute, allowed, code) in [
        ("graph.ranges = {n = array<i64: 2, 8>}", 9, "E0184"),
        ("graph.ranges = {n = array<i64: 2>}", 1, "E0184"),
        ("graph.requirements = [{condition = \"n < 8\", reason = \"it says so\"}]", 8, "E0185"),
        ("graph.requirements = [{condition = \"2*n == 12\", reason = \"it says so\"}]", 5, "E0185"),
    ] {
        for (size, fits) in [(allowed, false), (6, true)] {
            let session = Session::new();
            let mut module = session.parse_module(&with(attribute), "test").unwrap();
            let text = format!("[semantic.dims]\nn = {{ allowed = [{size}] }}");
            let result = run(&Contract { recipe: recipe(&text) }, &mut module)
                .and_then(|()| run(&Bucket { point: vec![("n".into(), size)] }, &mut module));
            assert_eq!(result.as_ref().map_err(PassError::code), if fits { Ok(&()) } else { Err(code) }, "{attribute}");
            assert!(fits || result.unwrap_err().help().is_some());
            // What is wrong is seen before any bucket is made.
            let mut module = session.parse_module(&with(attribute), "test").unwrap();
            assert_eq!(run(&Contract { recipe: recipe(&text) }, &mut module).is_ok(), fits, "{attribute}");
        }
    }
}

#[test]
fn a_stanza_begins_with_what_the_model_was_exported_for() {
    let text = FLOW.replace("module {", "module attributes {graph.ranges = {n = array<i64: 2, 8>}} {");
    let session = Session::new();
    let mut module = session.parse_module(&text, "test").unwrap();
    let error = run(&Contract { recipe: recipe("") }, &mut module).unwrap_err();
    assert_eq!(error.code(), "E0223");
    assert_eq!(error.to_string(), "dimension `n` (exported for 2 to 8) of the model has no size yet");
    let help = error.help().unwrap();
    assert!(help.contains("n = { allowed = [2] }  # exported for 2 to 8"), "{help}");
}

/// Operators that are defined for some sizes of a padded dimension only, with what must hold.
#[test]
fn what_padded_sizes_must_fulfil_is_recorded() {
    let n = r#"tensor<?x6xf32, {dims = ["n", 6]}>"#;
    let cases = [
        ("graph.reshape %x {shape = [5, 6]} : $N -> tensor<5x6xf32>", vec!["6*n == 30"]),
        (
            "graph.contract \"nk,nm->km\"(%x, %w) accumulate f32 : ($N, tensor<4x3xf32>) -> tensor<6x3xf32>",
            vec!["n == 4"],
        ),
        (
            "graph.slice %x {sizes = [3, 6], starts = [1, 0], steps = array<i64: 1, 1>} : $N -> tensor<3x6xf32>",
            vec!["4 <= n"],
        ),
        ("graph.reshape %x {shape = [\"2*n\", 3]} : $N -> tensor<?x3xf32, {dims = [\"2*n\", 3]}>", vec![]),
    ];
    for (operation, expected) in cases {
        let operation = operation.replace("$N", n);
        let result = operation.rsplit(" -> ").next().unwrap();
        let text = format!(
            "module {{ func.func @main(%x: {n}, %w: tensor<4x3xf32>) -> {result} {{ %0 = {operation} loc(\"a\")\n return %0 : {result} }} }}"
        );
        let session = Session::new();
        let mut module = session.parse_module(&text, "test").unwrap_or_else(|error| panic!("{operation}: {error}"));
        let pads = "[semantic.dims]\nn = { allowed = [9], between = 'pad' }";
        run(&Contract { recipe: recipe(pads) }, &mut module).unwrap();
        run(&Bucket { point: vec![("n".into(), 9)] }, &mut module).unwrap();
        let found = tenon_graph_dialect::Requirement::read_all(module.op()).unwrap();
        let conditions: Vec<_> = found.iter().map(|requirement| requirement.condition.to_string()).collect();
        assert_eq!(conditions, expected, "{operation}");
        assert!(found.iter().all(|requirement| requirement.source == ["a"]), "{found:?}");
    }
}
