//! Tests of the pass: golden text, values, determinism, what recipes exclude.
#![allow(clippy::unwrap_used)]

mod kernel_cost;

use tenon_ir::{Module, PrintOptions, Session};
use tenon_pass_manager::{Options, Report, Runner};
use tenon_recipe::NumericClass;
use tenon_reference::{Mode, run_function};
use tenon_rewrite_passes::{CostModel, Rewrite, Scope, evaluate_derived};
use tenon_target::Target;
use tenon_tensor::{DType, Tensor};

fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/passes")
}

fn rewritten<'s>(
    session: &'s Session,
    text: &str,
    class: NumericClass,
    disable: &[&str],
    limit: Option<u64>,
) -> (Module<'s>, Report) {
    let mut module = session.parse_module(text, "graph").unwrap();
    assert!(tenon_pass_manager::check(&module).is_empty(), "{:?}", tenon_pass_manager::check(&module));
    let pass = Rewrite {
        scope: Scope::All,
        class,
        disable: disable.iter().map(|name| (*name).to_owned()).collect(),
        cost: CostModel::of(Target::default_target()),
        others: Vec::new(),
    };
    let mut runner = Runner::new(Options { stop_after_rewrite: limit, ..Options::default() }, &[]).unwrap();
    runner.run_pass(&pass, &mut module).unwrap();
    (module, runner.report())
}

fn text(name: &str) -> String {
    std::fs::read_to_string(folder().join(format!("{name}.mlir"))).unwrap()
}

/// Numbers that repeat for a name.
fn random(name: &str, shape: &[usize]) -> Tensor {
    let mut state = name
        .bytes()
        .fold(0x9e37_79b9_7f4a_7c15u64, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
        | 1;
    let values: Vec<f64> = (0..shape.iter().product())
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            0.25 + (state >> 11) as f64 / (1u64 << 53) as f64
        })
        .collect();
    Tensor::from_f64s(DType::F32, shape.to_vec(), &values).unwrap()
}

/// What `@main` gives on random inputs and weights.
fn run(module: &Module<'_>) -> Vec<Tensor> {
    let shape = |ty: tenon_ir::Type<'_>| -> Vec<usize> {
        ty.tensor_shape().unwrap().into_iter().map(|size| size.unwrap() as usize).collect()
    };
    let weights: Vec<(String, Tensor)> = module
        .body()
        .ops()
        .into_iter()
        .filter(|op| op.is("graph.parameter"))
        .map(|op| {
            let name = op.string("sym_name").unwrap();
            let shape = shape(op.attribute("type").unwrap().as_type().unwrap());
            (name.clone(), random(&name, &shape))
        })
        .collect();
    let weight = |name: &str| weights.iter().find(|(own, _)| own == name).map(|(_, tensor)| tensor.clone());
    let main = module.body().ops().into_iter().find(|op| op.is("func.func")).unwrap();
    let arguments = main.region_block(0).unwrap().arguments();
    let inputs: Vec<_> = arguments
        .iter()
        .enumerate()
        .map(|(index, value)| random(&format!("input{index}"), &shape(value.ty())))
        .collect();
    for (name, tensor) in evaluate_derived(module, &weight).unwrap() {
        assert!(tensor.element_count() > 0, "{name}");
    }
    run_function(module, "main", &inputs, &weight, Mode::Typed).unwrap()
}

fn distance(a: &[Tensor], b: &[Tensor]) -> f64 {
    let pairs = a.iter().zip(b).flat_map(|(a, b)| {
        (0..a.element_count()).map(|index| (a.get_f64(index).unwrap() - b.get_f64(index).unwrap()).abs())
    });
    pairs.fold(0.0, f64::max)
}

fn golden(name: &str) {
    let session = Session::new();
    let text = text(name);
    let (module, _) = rewritten(&session, &text, NumericClass::Reassociates, &[], None);
    assert!(tenon_pass_manager::check(&module).is_empty(), "{:?}", tenon_pass_manager::check(&module));
    let printed = module.print(PrintOptions { locations: true, generic: false });
    insta::with_settings!({snapshot_path => folder(), prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(name, printed.clone());
    });
    // The same bytes in another session.
    let other = Session::new();
    assert_eq!(
        rewritten(&other, &text, NumericClass::Reassociates, &[], None)
            .0
            .print(PrintOptions { locations: true, generic: false }),
        printed
    );
    let before = session.parse_module(&text, name).unwrap();
    let expected = run(&before);
    assert!(distance(&expected, &run(&module)) < 1e-4);
    // Under `exact` the bits stay.
    let (exact, _) = rewritten(&session, &text, NumericClass::Exact, &[], None);
    assert_eq!(expected, run(&exact), "{exact}");
    // However early it is stopped.
    for limit in 0..12 {
        let (some, _) = rewritten(&session, &text, NumericClass::Reassociates, &[], Some(limit));
        assert!(distance(&expected, &run(&some)) < 1e-4, "after {limit} rewrites");
    }
}

#[test]
fn projections_of_attention_become_one_product() {
    golden("rewrite-attention");
}

#[test]
fn normalisation_by_given_statistics_goes_into_the_weights() {
    golden("rewrite-batch-norm");
}

/// Operations of a name outside derived parameters.
fn count(module: &Module<'_>, name: &str) -> usize {
    let main = module.body().ops().into_iter().find(|op| op.is("func.func")).unwrap();
    main.walk().into_iter().filter(|op| op.is(name)).count()
}

#[test]
fn classes_and_names_exclude_rules() {
    let session = Session::new();
    let text = text("rewrite-batch-norm");
    let elementwise =
        |class, disable: &[&str]| count(&rewritten(&session, &text, class, disable, None).0, "graph.elementwise");
    let all = elementwise(NumericClass::Reassociates, &[]);
    assert!(all < elementwise(NumericClass::Exact, &[]));
    assert!(all < elementwise(NumericClass::Reassociates, &["scale-into-convolution"]));
}

#[test]
fn operators_name_the_rules_that_made_them() {
    let session = Session::new();
    let (module, report) = rewritten(&session, &text("rewrite-attention"), NumericClass::Exact, &[], None);
    let rules: Vec<String> = module
        .op()
        .walk()
        .into_iter()
        .filter(|op| op.is("graph.contract"))
        .filter_map(|op| op.attribute("rules")?.as_array())
        .flatten()
        .filter_map(|rule| rule.as_string())
        .collect();
    assert!(rules.iter().any(|rule| rule == "merge-contractions"), "{rules:?}");
    assert!(report.remarks.iter().any(|remark| remark.message.contains("merge-contractions")));
}

/// A product of two weights is no work of the program, unless it is much work of the compiler, or makes more bytes than it takes.
#[test]
fn products_of_weights_are_computed_ahead() {
    let session = Session::new();
    let text = |rows: usize, depth: usize| {
        let (a, b) = (format!("tensor<{rows}x{depth}xf32>"), format!("tensor<{depth}x{rows}xf32>"));
        let square = format!("tensor<{rows}x{rows}xf32>");
        let x = format!("tensor<4x{rows}xf32>");
        format!(
            r#"
module {{
  graph.parameter @a : {a}
  graph.parameter @b : {b}
  func.func @main(%x: {x} {{graph.name = "x"}}) -> ({x} {{graph.name = "y"}}) {{
    %0 = graph.get_parameter @a : {a}
    %1 = graph.get_parameter @b : {b}
    %2 = graph.contract "mk,kn->mn"(%0, %1) accumulate f32 : ({a}, {b}) -> {square} loc("weights")
    %3 = graph.contract "mk,kn->mn"(%x, %2) accumulate f32 : ({x}, {square}) -> {x} loc("product")
    return %3 : {x}
  }}
}}
"#
        )
    };
    let products = |rows: usize, depth: usize| {
        let (module, _) = rewritten(&session, &text(rows, depth), NumericClass::Exact, &[], None);
        (count(&module, "graph.contract"), module)
    };
    let (left, module) = products(24, 40);
    assert_eq!(left, 1, "{module}");
    assert_eq!(run(&module), run(&session.parse_module(&text(24, 40), "before").unwrap()));
    // 2^27 products of elements, and a result of 128 times the bytes of the weights.
    assert_eq!((products(512, 512).0, products(1024, 4).0), (2, 2));
}
