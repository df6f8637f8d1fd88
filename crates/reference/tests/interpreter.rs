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
