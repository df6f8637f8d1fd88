//! Functions of whole modules.
#![allow(clippy::unwrap_used)]

use tenon_ir::Session;
use tenon_reference::{Interpreter, Mode, ReferenceError, run_function};
use tenon_tensor::{DType, Tensor};

fn run(
    source: &str,
    inputs: &[Tensor],
    parameters: &dyn Fn(&str) -> Option<Tensor>,
) -> Result<Vec<Tensor>, ReferenceError> {
    let session = Session::new();
    let module = session.parse_module(source, "test").unwrap();
    run_function(&module, "main", inputs, parameters, Mode::Typed)
}

fn code(source: &str, inputs: &[Tensor]) -> &'static str {
    let error = run(source, inputs, &|_| None).unwrap_err();
    assert!(error.help().is_some());
    error.code()
}

fn f32s(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_f32(shape.to_vec(), values).unwrap()
}

const LINEAR: &str = r#"
graph.parameter @weight : tensor<2x3xf32>
graph.derived_parameter @transposed : tensor<3x2xf32> {
  %w = graph.get_parameter @weight : tensor<2x3xf32>
  %t = graph.transpose %w {permutation = array<i64: 1, 0>} : tensor<2x3xf32> -> tensor<3x2xf32>
  graph.yield %t : tensor<3x2xf32>
}
func.func @main(%x: tensor<1x3xf32>) -> tensor<1x2xf32> {
  %w = graph.get_parameter @transposed : tensor<3x2xf32>
  %y = graph.contract "mk,kn->mn"(%x, %w) accumulate f32 : (tensor<1x3xf32>, tensor<3x2xf32>) -> tensor<1x2xf32>
  %z = graph.kernel map "relu"(%y) : (tensor<1x2xf32>) -> tensor<1x2xf32> {
  ^bb0(%a: tensor<1x2xf32>):
    %zero = graph.constant dense<0.0> : tensor<f32> -> tensor<f32>
    %r = graph.elementwise max(%a, %zero) : (tensor<1x2xf32>, tensor<f32>) -> tensor<1x2xf32> loc("relu")
    graph.yield %r : tensor<1x2xf32>
  }
  return %z : tensor<1x2xf32>
}"#;

fn weight(name: &str) -> Option<Tensor> {
    (name == "weight").then(|| f32s(&[2, 3], &[1.0, 2.0, 3.0, -4.0, -5.0, -6.0]))
}

#[test]
fn a_linear_layer_with_a_derived_weight_and_a_kernel() {
    let results = run(LINEAR, &[f32s(&[1, 3], &[1.0, 1.0, 1.0])], &weight).unwrap();
    assert_eq!(results, [f32s(&[1, 2], &[6.0, 0.0])]);
}

#[test]
fn derived_parameters_are_values_of_their_own() {
    let session = Session::new();
    let module = session.parse_module(LINEAR, "test").unwrap();
    let mut interpreter = Interpreter::new(&module, &weight, Mode::Typed);
    assert_eq!(interpreter.parameter("transposed").unwrap(), f32s(&[3, 2], &[1.0, -4.0, 2.0, -5.0, 3.0, -6.0]));
    assert_eq!(interpreter.parameter("main").unwrap_err().code(), "E0906");
    let missing = |_: &str| None;
    assert_eq!(Interpreter::new(&module, &missing, Mode::Typed).parameter("transposed").unwrap_err().code(), "E0906");
    let other = |_: &str| Some(f32s(&[3, 2], &[0.0; 6]));
    assert_eq!(Interpreter::new(&module, &other, Mode::Typed).parameter("weight").unwrap_err().code(), "E0903");
}

#[test]
fn the_observer_sees_every_value_with_its_operation() {
    let session = Session::new();
    let module = session.parse_module(LINEAR, "test").unwrap();
    let mut seen = Vec::new();
    let mut interpreter = Interpreter::new(&module, &weight, Mode::F64).observe(|op, index, value| {
        seen.push((op.name(), index, value.dtype(), op.location().names()));
    });
    let results = interpreter.run("main", &[Tensor::from_f64(vec![1, 3], &[1e-30, 1.0, 1.0]).unwrap()]).unwrap();
    drop(interpreter);
    assert_eq!(results[0].dtype(), DType::F64);
    assert_eq!(results[0].to_f64_vec().unwrap(), [5.0, 0.0]);
    let names: Vec<_> = seen.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "graph.get_parameter",
            "graph.transpose",
            "graph.get_parameter",
            "graph.contract",
            "graph.constant",
            "graph.elementwise",
            "graph.kernel"
        ]
    );
    assert!(seen.iter().all(|(_, index, dtype, _)| *index == 0 && *dtype == DType::F64));
    assert_eq!(seen[5].3, ["relu"]);
}

#[test]
fn what_cannot_run_is_refused_by_code() {
    let identity = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }";
    let x = f32s(&[2], &[1.0, 2.0]);
    assert_eq!(run(identity, std::slice::from_ref(&x), &|_| None).unwrap(), std::slice::from_ref(&x));
    assert_eq!(code(identity, &[]), "E0907");
    assert_eq!(code(identity, &[f32s(&[1], &[1.0])]), "E0903");
    assert_eq!(code(identity, &[Tensor::from_i32(vec![2], &[1, 2]).unwrap()]), "E0903");
    assert_eq!(code("module {}", &[]), "E0907");
    assert_eq!(code("func.func private @main(tensor<2xf32>) -> tensor<2xf32>", std::slice::from_ref(&x)), "E0907");
    let foreign = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = math.exp %x : tensor<2xf32>
        return %y : tensor<2xf32>
    }";
    assert_eq!(code(foreign, std::slice::from_ref(&x)), "E0905");
    let symbolic = r#"func.func @main(%x: tensor<?xf32, {dims = ["n"]}>) { return }"#;
    assert_eq!(code(symbolic, std::slice::from_ref(&x)), "E0901");
    let wrong = "func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> {
        %y = graph.elementwise add(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>
        return %y : tensor<3xf32>
    }";
    assert_eq!(code(wrong, std::slice::from_ref(&x)), "E0903");
    let semantic = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = graph.elementwise add(%x) : (tensor<2xf32>) -> tensor<2xf32> loc(\"sum\")
        return %y : tensor<2xf32>
    }";
    let error = run(semantic, &[x], &|_| None).unwrap_err();
    assert_eq!(error.code(), "E0301");
    assert!(error.to_string().contains("sum"), "{error}");
    let cyclic = "graph.derived_parameter @p : tensor<1xf32> {
        %p = graph.get_parameter @p : tensor<1xf32>
        graph.yield %p : tensor<1xf32>
    }
    func.func @main() -> tensor<1xf32> {
        %p = graph.get_parameter @p : tensor<1xf32>
        return %p : tensor<1xf32>
    }";
    assert_eq!(code(cyclic, &[]), "E0906");
}

#[test]
fn memory_is_bounded_before_it_is_taken() {
    let huge = "func.func @main() {
        %y = graph.iota {shape = [1099511627776], axis = 0 : i64} : tensor<1099511627776xf32>
        return
    }";
    assert_eq!(code(huge, &[]), "E0902");
    let overflowing = "func.func @main() {
        %y = graph.iota {shape = [4611686018427387904, 4611686018427387904], axis = 0 : i64} : tensor<4611686018427387904x4611686018427387904xi8>
        return
    }";
    assert_eq!(code(overflowing, &[]), "E0902");
}

/// A loop that doubles `x` at most `%n` times and while it is below 20, with all values that it had, and a branch inside that uses a value from around.
const LOOP: &str = r#"
func.func @main(%n: tensor<i64>, %x: tensor<i64>) -> (tensor<i64>, tensor<5xi64>, tensor<i64>) {
  %limit = graph.constant dense<20> : tensor<i64> -> tensor<i64>
  %first = graph.elementwise less(%x, %limit) : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %last, %sum, %all = flow.loop count(%n : tensor<i64>) while(%first : tensor<i1>) carry(%x, %n : tensor<i64>, tensor<i64>)
      -> (tensor<i64>, tensor<i64>, tensor<5xi64>) {
  ^bb0(%i: tensor<i64>, %v: tensor<i64>, %s: tensor<i64>):
    %next = graph.elementwise add(%v, %v) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %more = graph.elementwise less(%next, %limit) : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %added = flow.if %more : tensor<i1> -> (tensor<i64>) {
      %a = graph.elementwise add(%s, %i) : (tensor<i64>, tensor<i64>) -> tensor<i64>
      flow.yield %a : tensor<i64>
    } else {
      %b = graph.elementwise add(%s, %limit) : (tensor<i64>, tensor<i64>) -> tensor<i64>
      flow.yield %b : tensor<i64>
    }
    flow.yield %more, %next, %added, %v : tensor<i1>, tensor<i64>, tensor<i64>, tensor<i64>
  }
  return %last, %all, %sum : tensor<i64>, tensor<5xi64>, tensor<i64>
}
"#;

#[test]
fn loops_run_as_often_as_both_conditions_say() {
    let i64s = |shape: &[usize], values: &[i64]| Tensor::from_i64(shape.to_vec(), values).unwrap();
    for (count, x) in [(5i64, 3i64), (2, 3), (0, 3), (5, 30), (5, 2), (5, 1)] {
        let (mut v, mut sum, mut all, mut i) = (x, count, Vec::new(), 0);
        let mut more = x < 20;
        while more && i < count {
            all.push(v);
            v += v;
            more = v < 20;
            sum += if more { i } else { 20 };
            i += 1;
        }
        all.resize(5, 0);
        let found = run(LOOP, &[i64s(&[], &[count]), i64s(&[], &[x])], &|_| None).unwrap();
        assert_eq!(found, [i64s(&[], &[v]), i64s(&[5], &all), i64s(&[], &[sum])], "{count} {x}");
    }
    // More iterations than places.
    let long = LOOP.replace("dense<20>", "dense<2000>");
    assert_eq!(code(&long, &[i64s(&[], &[9]), i64s(&[], &[1])]), "E0907");
}

#[test]
fn scans_go_through_slices_in_both_directions() {
    let source = r#"
func.func @main(%x: tensor<2x3xf32>, %s: tensor<2xf32>) -> (tensor<2xf32>, tensor<2x3xf32>) {
  %last, %sums = flow.scan state(%s : tensor<2xf32>) over(%x : tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2x3xf32>)
      attributes {input_axes = array<i64: 1>, input_directions = array<i64: 1>, output_axes = array<i64: 1>, output_directions = array<i64: 1>} {
  ^bb0(%sum: tensor<2xf32>, %column: tensor<2xf32>):
    %next = graph.elementwise add(%sum, %column) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    flow.yield %next, %next : tensor<2xf32>, tensor<2xf32>
  }
  return %last, %sums : tensor<2xf32>, tensor<2x3xf32>
}"#;
    let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
    let found = run(source, &[x, f32s(&[2], &[0.5, 0.0])], &|_| None).unwrap();
    // Sums from the end, each in the place of its column.
    assert_eq!(found, [f32s(&[2], &[6.5, 60.0]), f32s(&[2, 3], &[6.5, 5.5, 3.5, 60.0, 50.0, 30.0])]);
}
