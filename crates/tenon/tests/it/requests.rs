//! Requests whose sizes, or values, contradict the model: refused by node and condition, where others are computed.

use std::sync::Arc;

use tenon::driver::{Driver, Request, Source};
use tenon_import_onnx::ImportOptions;
use tenon_ir::Session;
use tenon_recipe::Recipe;
use tenon_runtime::{Instance, RuntimeError, SimulatorDevice};
use tenon_tensor::Tensor;

use crate::{tenon, testdata, write, write_npy};

/// Largest size of the padded dimension.
const MOST: usize = 9;

/// A module whose input `x` is [n, 6], padded up to 9, with this operation of a result; `w` is [9, 6].
fn module(operation: &str) -> String {
    let x = r#"tensor<?x6xf32, {dims = ["n", 6]}>"#;
    let operation = operation.replace("$X", x).replace("$W", "tensor<9x6xf32>");
    let result = operation.rsplit("-> ").next().unwrap().trim_end().to_owned();
    format!(
        "module attributes {{graph.model = \"m\"}} {{\n  func.func @main(%x: {x} {{graph.name = \"x\"}}, %w: tensor<9x6xf32> {{graph.name = \"w\"}}) \
         -> ({result} {{graph.name = \"y\"}}) {{\n    %0 = {operation} loc(\"node_3\")\n    return %0 : {result}\n  }}\n}}\n"
    )
}

fn instance(text: &str) -> Instance {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "m.mlir", text);
    let session = Session::new();
    let dims = format!("n = {{ allowed = [{MOST}], between = 'pad' }}");
    let request = Request::of(Recipe::parse(&format!("recipe = 1\nname = 'm'\n[semantic.dims]\n{dims}")).unwrap());
    let mut driver = Driver::new(&session, &request).unwrap();
    let source = Source::model(&session, path.as_ref(), &ImportOptions::default(), None).unwrap();
    let program = driver.programs(&source).unwrap_or_else(|error| panic!("{text}: {error:?}")).pop().unwrap();
    let executable = program.executable(&source.weights).unwrap();
    Instance::new(Arc::new(SimulatorDevice::default()), Arc::new(executable)).unwrap()
}

fn request(n: usize) -> [(String, Tensor); 2] {
    let numbers = |count: usize| (0..count).map(|value| value as f32 - 3.0).collect::<Vec<_>>();
    let tensor = |shape: &[usize]| Tensor::from_f32(shape.to_vec(), &numbers(shape.iter().product())).unwrap();
    [("x".to_owned(), tensor(&[n, 6])), ("w".to_owned(), tensor(&[MOST, 6]))]
}

/// Every size that the model is defined for runs, and every other is refused by name.
#[track_caller]
fn defined_for(operation: &str, is_defined: impl Fn(usize) -> bool, condition: &str) {
    let mut instance = instance(&module(operation));
    for n in 0..=MOST {
        match instance.run(&request(n)) {
            Ok(_) => assert!(is_defined(n), "{operation}: {n} runs"),
            Err(error @ RuntimeError::Requirement { .. }) => {
                assert!(!is_defined(n), "{operation}: {n}: {error}");
                let text = error.to_string();
                assert!(text.contains("node `node_3`") && text.contains(condition), "{text}");
                assert!(text.contains(&format!("n = {n}")), "{text}");
            }
            Err(error) => panic!("{operation}: {n}: {}: {error}", error.code()),
        }
    }
}

#[test]
fn a_reshape_keeps_the_number_of_elements() {
    defined_for("graph.reshape %x {shape = [27, 2]} : $X -> tensor<27x2xf32>", |n| n == 9, "`6*n == 54`");
}

/// A bucket larger than the only size that a reshape is defined for: of an input, and of what a kernel computes, whose memory is larger than the output's.
#[test]
fn a_reshape_to_less_than_the_bucket() {
    let reshape = "graph.reshape %x {shape = [4, 6]} : $X -> tensor<4x6xf32>";
    defined_for(reshape, |n| n == 4, "`6*n == 24`");
    let computed = "graph.elementwise negate(%x) : ($X) -> $X loc(\"node_2\")\n %1 = graph.reshape %0 {shape = [4, 6]} : $X -> tensor<4x6xf32>";
    let text = |operation: &str| module(operation).replace("return %0", "return %1");
    let given = request(4);
    for (text, sign) in [(module(reshape), 1.0), (text(computed), -1.0)] {
        let outputs = instance(&text).run(&given).unwrap().outputs;
        assert_eq!(outputs[0].1.shape(), [4, 6]);
        let expected: Vec<f64> = given[0].1.to_f64_vec().unwrap().iter().map(|value| sign * value).collect();
        assert_eq!(outputs[0].1.to_f64_vec().unwrap(), expected);
    }
}

/// What no size of a padded bucket fulfils is refused with the bucket, before anything is compiled.
#[test]
fn buckets_that_could_serve_no_request_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dims = format!("n = {{ allowed = [{MOST}], between = 'pad' }}");
    let recipe = write(&folder, "r.toml", format!("recipe = 1\nname = 'm'\n[semantic.dims]\n{dims}"));
    let reshape = module("graph.reshape %x {shape = [5, 8]} : $X -> tensor<5x8xf32>");
    let text = tenon(&["recipe", "check", &recipe, &write(&folder, "m.mlir", reshape)]).refused("E0303").to_owned();
    assert!(text.contains("node `node_3`") && text.contains("no size of this bucket fulfils `6*n == 40`"), "{text}");
    let relu = module("graph.elementwise negate(%x) : ($X) -> $X");
    for (guard, refused) in [("n == 12", true), ("n-2*floordiv(n,2) == 3", true), ("n == 3", false)] {
        let attribute = format!("graph.requirements = [{{condition = \"{guard}\", reason = \"it says so\"}}]");
        let text = relu.replace("module attributes {", &format!("module attributes {{{attribute}, "));
        let outcome = tenon(&["recipe", "check", &recipe, &write(&folder, "m.mlir", text)]);
        match refused {
            true => assert!(outcome.refused("E0185").contains("no size of this bucket fulfils"), "{}", outcome.stderr),
            false => drop(outcome.done()),
        }
    }
}

#[test]
fn a_product_sums_over_one_size() {
    let product = "graph.contract \"nk,nm->km\"(%x, %w) accumulate f32 : ($X, $W) -> tensor<6x6xf32>";
    defined_for(product, |n| n == 9, "`n == 9`");
}

/// A padded size that meets a number is refused before there is a program: kernels address operands by one size.
#[test]
fn operands_broadcast_only_where_they_agree() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(&folder, "m.mlir", module("graph.elementwise add(%x, %w) : ($X, $W) -> tensor<9x6xf32>"));
    let dims = format!("n = {{ allowed = [{MOST}], between = 'pad' }}");
    let recipe = write(&folder, "r.toml", format!("recipe = 1\nname = 'm'\n[semantic.dims]\n{dims}"));
    let outcome = tenon(&["lower", &model, "--recipe", &recipe, "--stage", "ptx"]);
    assert!(outcome.refused("E0502").contains("node_3"), "{}", outcome.stderr);
}

#[test]
fn an_extremum_needs_an_element() {
    let place = "graph.arg_reduce max(%x) {axis = 0 : i64} : ($X) -> tensor<6xi64>";
    defined_for(place, |n| n >= 1, "`1 <= n`");
}

#[test]
fn a_slice_lies_inside() {
    let slice = "graph.slice %x {sizes = [3, 6], starts = [2, 0], steps = array<i64: 1, 1>} : $X -> tensor<3x6xf32>";
    defined_for(slice, |n| n >= 5, "`5 <= n`");
}

/// Verification draws sizes that the model is defined for.
#[test]
fn verification_stays_within_what_the_model_is_defined_for() {
    let folder = tempfile::tempdir().unwrap();
    let slice = "graph.slice %x {sizes = [7, 6], starts = [0, 0], steps = array<i64: 1, 1>} : $X -> tensor<7x6xf32>";
    let model = write(&folder, "m.mlir", module(slice));
    let dims = format!("n = {{ allowed = [{MOST}], between = 'pad' }}");
    let recipe = write(&folder, "r.toml", format!("recipe = 1\nname = 'm'\n[semantic.dims]\n{dims}"));
    let outcome = tenon(&["--json", "verify", &model, "--recipe", &recipe, "--padding", "--seeds", "12"]);
    let report: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let sizes: Vec<u64> =
        report["numerics"].as_array().unwrap().iter().map(|check| check["sizes"]["n"].as_u64().unwrap()).collect();
    assert_eq!(sizes.len(), 12);
    assert!(sizes.iter().all(|size| (7..=MOST as u64).contains(size)) && sizes.contains(&7), "{sizes:?}");
}

/// What a model of torch.export asserts: a range that only a run can break, and a bucket outside of it.
#[test]
fn sizes_outside_the_exported_range_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = testdata("pt2/shared/model.pt2");
    let recipe = |size: u64| {
        format!("recipe = 1\nname = \"rows\"\n[semantic.dims]\ns23 = {{ allowed = [{size}], between = \"pad\" }}\n")
    };
    let (fits, large) = (write(&folder, "fits.toml", recipe(9)), write(&folder, "large.toml", recipe(10)));
    tenon(&["recipe", "check", &fits, &model]).done();
    assert!(tenon(&["recipe", "check", &large, &model]).refused("E0184").contains("1 to 9"));
    let outcome = tenon(&["lower", &model, "--stage", "contract"]);
    assert!(outcome.refused("E0223").contains("s23 = { allowed = [1] }  # exported for 1 to 9"), "{}", outcome.stderr);
    let begun = tenon(&["recipe", "init", &model]).done().to_owned();
    assert!(begun.contains("s23 = { allowed = [1], between = \"reject\" }  # exported for 1 to 9"), "{begun}");
    let given = |rows: usize| {
        let ids = write_npy(&folder, "ids.npy", &Tensor::from_i64(vec![rows], &vec![0; rows]).unwrap());
        let x = write_npy(&folder, "x.npy", &Tensor::zeros(tenon_tensor::DType::F32, vec![rows, 6]).unwrap());
        [format!("ids={ids}"), format!("x={x}")]
    };
    let run = |rows: usize| {
        let [ids, x] = given(rows);
        tenon(&["run", &model, "--recipe", &fits, "--input", &ids, "--input", &x])
    };
    run(9).done();
    assert!(run(0).refused("E0724").contains("`s23 >= 1`"), "{}", run(0).stderr);
}

/// An assertion on a value stops the run that breaks it, with its words and its place.
#[test]
fn assertions_on_values_are_held_against_every_run() {
    let text = r#"
module attributes {graph.model = "m", graph.requirements = [{condition = "assertion_0 == 1", reason = "the program asserts it: they sum to one", source = ["check", "net/model.py:7"]}]} {
  func.func @main(%x: tensor<3xi64> {graph.name = "x"}) -> (tensor<3xi64> {graph.name = "y"}) {
    %0 = graph.reduce sum(%x) {axes = array<i64: 0>} : (tensor<3xi64>) -> tensor<i64> loc("sum")
    %1 = graph.constant dense<1> : tensor<1xi64> -> tensor<1xi64> loc("one")
    %2 = graph.set_dimension_size "assertion_0" = %0 of %1 : (tensor<1xi64>, tensor<i64>) -> tensor<?xi64, {dims = ["assertion_0"]}> loc("check")
    %3 = graph.elementwise add(%x, %x) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64> loc("twice")
    return %3 : tensor<3xi64>
  }
}
"#;
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "m.mlir", text);
    let session = Session::new();
    let request = Request::of(Recipe::parse("recipe = 1\nname = 'm'\n").unwrap());
    let mut driver = Driver::new(&session, &request).unwrap();
    let source = Source::model(&session, path.as_ref(), &ImportOptions::default(), None).unwrap();
    let program = driver.programs(&source).unwrap().pop().unwrap();
    let executable = Arc::new(program.executable(&source.weights).unwrap());
    let mut instance = Instance::new(Arc::new(SimulatorDevice::default()), executable).unwrap();
    let mut run = |values: [i64; 3]| instance.run(&[("x".to_owned(), Tensor::from_i64(vec![3], &values).unwrap())]);
    assert_eq!(run([5, -3, -1]).unwrap().outputs[0].1.to_f64_vec().unwrap(), [10.0, -6.0, -2.0]);
    let error = run([0, 0, 0]).unwrap_err();
    assert_eq!(error.code(), "E0724");
    let text = error.to_string();
    assert!(text.contains("net/model.py:7") && text.contains("they sum to one"), "{text}");
    // What has run before does not decide.
    assert!(run([1, 0, 0]).is_ok());
}
