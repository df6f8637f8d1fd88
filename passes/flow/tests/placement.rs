//! Placement seen from outside: the text that it leaves, the values that stay the same, and what it refuses.
#![allow(clippy::unwrap_used)]

use tenon_flow_passes::{PlaceControlFlow, placements};
use tenon_ir::{Module, PrintOptions, Session};
use tenon_pass_manager::{Options, PassError, Runner};
use tenon_recipe::{ControlFlowPolicy, Recipe};
use tenon_reference::{Mode, run_function};
use tenon_tensor::Tensor;

fn source() -> (std::path::PathBuf, String) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/passes");
    let text = std::fs::read_to_string(folder.join("place-control-flow.mlir")).unwrap();
    (folder, text)
}

fn place(module: &mut Module<'_>, policy: Option<ControlFlowPolicy>) -> Result<(), PassError> {
    let mut recipe = Recipe::default();
    recipe.control_flow.policy = policy;
    recipe.control_flow.host_dispatch = policy == Some(ControlFlowPolicy::Host);
    assert!(tenon_pass_manager::check(module).is_empty(), "{:?}", tenon_pass_manager::check(module));
    Runner::new(Options::default(), &[]).unwrap().run_pass(&PlaceControlFlow { recipe }, module)
}

#[test]
fn loops_get_the_form_of_the_launch_plan_and_cheap_branches_become_selections() {
    let (folder, text) = source();
    let session = Session::new();
    let mut module = session.parse_module(&text, "place").unwrap();
    place(&mut module, None).unwrap();
    let text = module.print(PrintOptions { locations: true, generic: false });
    insta::with_settings!({snapshot_path => folder, prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("place-control-flow", text);
    });
    let placed: Vec<_> =
        placements(&module).into_iter().map(|placed| (placed.nodes.concat(), placed.depth, placed.placement)).collect();
    let row = |node: &str, depth, placement: &str| (node.to_owned(), depth, placement.to_owned());
    assert_eq!(placed, [row("repeat", 0, "graph"), row("chosen", 1, "kernel"), row("heavy", 0, "graph")]);
}

#[test]
fn values_stay_the_same() {
    let session = Session::new();
    let (_, text) = source();
    for (count, x) in [(4, [3.0f32, 2.0, 1.0]), (2, [9.0, 9.0, 9.0]), (0, [1.0, 1.0, 1.0]), (3, [-1.0, 0.0, -2.0])] {
        let inputs = [Tensor::from_i64(Vec::new(), &[count]).unwrap(), Tensor::from_f32(vec![3], &x).unwrap()];
        let run = |module: &Module<'_>| run_function(module, "main", &inputs, &|_| None, Mode::Typed).unwrap();
        let mut module = session.parse_module(&text, "place").unwrap();
        let before = run(&module);
        for policy in [None, Some(ControlFlowPolicy::Graph), Some(ControlFlowPolicy::Host)] {
            let mut placed = module.duplicate();
            place(&mut placed, policy).unwrap();
            assert_eq!(run(&placed), before, "{policy:?} {count} {x:?}");
        }
        let error = place(&mut module, Some(ControlFlowPolicy::Kernel)).unwrap_err();
        // From the end of the text: the branch that can become a selection is one by then, the loop is what stands in the way.
        assert_eq!((error.code(), error.nodes()), ("E0411", ["repeat".to_owned()].as_slice()));
    }
}

/// Slices along the second dimension from the end, sums of them along the second dimension, in the order of the iterations and from the end.
const SCAN: &str = r#"module { func.func @main(%x: tensor<2x3xf32>, %s: tensor<2xf32>) -> (tensor<2xf32>, tensor<2x3xf32>, tensor<3x2xf32>) {
  %last, %sums, %rows = flow.scan state(%s : tensor<2xf32>) over(%x : tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2x3xf32>, tensor<3x2xf32>)
      attributes {input_axes = array<i64: 1>, input_directions = array<i64: 1>, output_axes = array<i64: 1, 0>, output_directions = array<i64: 1, 0>} {
  ^bb0(%sum: tensor<2xf32>, %column: tensor<2xf32>):
    %next = graph.elementwise add(%sum, %column) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    flow.yield %next, %next, %column : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %last, %sums, %rows : tensor<2xf32>, tensor<2x3xf32>, tensor<3x2xf32>
} }"#;

#[test]
fn scans_become_loops() {
    let session = Session::new();
    let mut module = session.parse_module(SCAN, "scan").unwrap();
    let inputs = [
        Tensor::from_f32(vec![2, 3], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]).unwrap(),
        Tensor::from_f32(vec![2], &[0.5, 0.0]).unwrap(),
    ];
    let run = |module: &Module<'_>| run_function(module, "main", &inputs, &|_| None, Mode::Typed).unwrap();
    let before = run(&module);
    assert_eq!(before[2], Tensor::from_f32(vec![3, 2], &[3.0, 30.0, 2.0, 20.0, 1.0, 10.0]).unwrap());
    place(&mut module, None).unwrap();
    assert_eq!(run(&module), before);
    assert_eq!(placements(&module)[0].operation, "flow.scan");
    assert!(module.op().walk().iter().all(|op| !op.is("flow.scan")));
}

/// Unrolled once, twice and four times: the same values, with the body as often in the text.
#[test]
fn unrolled_loops_give_the_same() {
    let session = Session::new();
    let (_, text) = source();
    let unrolled = |name: &str, times: u64| {
        let mut recipe = Recipe::default();
        recipe.control_flow.unroll.insert(name.to_owned(), times);
        let mut module = session.parse_module(&text, "place").unwrap();
        let result = Runner::new(Options::default(), &[]).unwrap().run_pass(&PlaceControlFlow { recipe }, &mut module);
        result.map(|()| module)
    };
    for (count, x) in [(4, [3.0f32, 2.0, 1.0]), (3, [9.0, 9.0, 9.0]), (0, [1.0, 1.0, 1.0]), (4, [1.0, 0.0, 2.0])] {
        let inputs = [Tensor::from_i64(Vec::new(), &[count]).unwrap(), Tensor::from_f32(vec![3], &x).unwrap()];
        let run = |module: &Module<'_>| run_function(module, "main", &inputs, &|_| None, Mode::Typed).unwrap();
        let expected = run(&session.parse_module(&text, "place").unwrap());
        for times in [1, 2, 4] {
            let module = unrolled("repeat", times).unwrap();
            assert_eq!(run(&module), expected, "{times} times, {count} {x:?}");
            let text = module.print(PrintOptions::default());
            assert_eq!(text.matches("graph.elementwise negate").count() as u64, times, "{text}");
        }
    }
    // Four elements are kept at most, which three rounds of three iterations would exceed unseen.
    let error = unrolled("repeat", 3).err().unwrap();
    assert_eq!((error.code(), error.nodes()), ("E0411", ["repeat".to_owned()].as_slice()), "{error}");
    for name in ["heavy", "nothing"] {
        let error = unrolled(name, 2).err().unwrap();
        assert_eq!(error.code(), "E0234");
        assert!(error.to_string().contains(&format!("`semantic.control_flow.unroll.{name}`")), "{error}");
    }
}

#[test]
fn what_has_no_placement_is_refused_by_node() {
    let session = Session::new();
    let refused = |arguments: &str, body: &str, reason: &str| {
        let text = format!("module {{ func.func @main({arguments}) {{ {body} return }} }}");
        let mut module = session.parse_module(&text, "test").unwrap();
        let error = place(&mut module, None).unwrap_err();
        assert_eq!((error.code(), error.nodes()), ("E0411", ["it".to_owned()].as_slice()), "{error}");
        assert!(error.to_string().contains(reason) && error.help().is_some(), "{error}");
    };
    refused(
        "%c: i1, %a: tensor<4xf32>",
        "%0 = scf.if %c -> (tensor<4xf32>) { scf.yield %a : tensor<4xf32> } else { scf.yield %a : tensor<4xf32> } loc(\"it\")",
        "`scf.if`",
    );
    refused(
        "%c: tensor<i1>, %n: tensor<i64>, %x: tensor<4xf32>",
        "flow.if %c : tensor<i1> { %y = graph.set_dimension_size \"k\" = %n of %x : (tensor<4xf32>, tensor<i64>) -> \
         tensor<4xf32, {dims = [\"k\"]}> loc(\"it\") flow.yield } else { flow.yield }",
        "a size that is computed inside",
    );
}

/// A GRU over `steps`, with `units` hidden units; a length that is a name is at most 8.
fn layer(steps: &str, units: u64) -> String {
    let (size, dims) = match steps.parse::<u64>() {
        Ok(steps) => (steps, String::new()),
        Err(_) => (8, format!(", {{dims = [\"{steps}\", 2, {}]}}", 3 * units)),
    };
    let dims_of_result = dims.replace(&format!("{}]", 3 * units), &format!("{units}]"));
    let (x, w) = (format!("tensor<{size}x2x{}xf32{dims}>", 3 * units), format!("tensor<{units}x{}xf32>", 3 * units));
    let (y, h) = (format!("tensor<{size}x2x{units}xf32{dims_of_result}>"), format!("tensor<2x{units}xf32>"));
    format!(
        "module {{ func.func @main(%x: {x}, %w: {w}, %n: tensor<2xi64>) -> ({y}, {h}) {{ %0:2 = graph.recurrence gru(%x, %w, %n) \
         {{activations = [\"sigmoid\", \"tanh\"], optional = [\"lengths\"], reverse}} : ({x}, {w}, tensor<2xi64>) -> ({y}, {h}) loc(\"layer\") \
         return %0#0, %0#1 : {y}, {h} }} }}"
    )
}

#[test]
fn recurrent_layers_are_kernels_or_written_out() {
    let session = Session::new();
    let placed = |steps: &str, units: u64, policy| {
        let mut module = session.parse_module(&layer(steps, units), "layer").unwrap();
        place(&mut module, policy).map(|()| module)
    };
    let is_kernel = |module: &Module<'_>| module.print(PrintOptions::default()).contains("graph.recurrence");
    let graph = Some(ControlFlowPolicy::Graph);
    for (units, policy, expected) in [
        (3, None, true),
        (3, Some(ControlFlowPolicy::Kernel), true),
        (3, graph, false),
        (512, None, false),
        (512, Some(ControlFlowPolicy::Kernel), true),
        (1025, Some(ControlFlowPolicy::Kernel), false),
    ] {
        let module = placed("4", units, policy).unwrap();
        assert_eq!(is_kernel(&module), expected, "{units} {policy:?}");
        let records: Vec<_> =
            placements(&module).into_iter().map(|record| (record.operation, record.placement)).collect();
        let record = ("graph.recurrence".to_owned(), "kernel".to_owned());
        assert_eq!(records, if expected { vec![record] } else { Vec::new() });
    }
    // Written out it rounds as it did.
    let values = |shape: Vec<usize>, factor: f64| {
        let count: usize = shape.iter().product();
        let values: Vec<f64> = (0..count).map(|index| ((index * 7 % 11) as f64 - 5.0) * factor).collect();
        Tensor::from_f64s(tenon_tensor::DType::F32, shape, &values).unwrap()
    };
    let inputs = [values(vec![4, 2, 9], 0.3), values(vec![3, 9], 0.1), Tensor::from_i64(vec![2], &[4, 1]).unwrap()];
    let run = |module: &Module<'_>| run_function(module, "main", &inputs, &|_| None, Mode::Typed).unwrap();
    assert_eq!(run(&placed("4", 3, graph).unwrap()), run(&placed("4", 3, None).unwrap()));
    // A length that is known with the request.
    assert!(is_kernel(&placed("n", 512, None).unwrap()));
    for (units, policy, reason) in
        [(3, graph, "policy` allows no kernel"), (1025, None, "at most 1024 hidden units, not 1025")]
    {
        let error = placed("n", units, policy).err().unwrap();
        assert_eq!((error.code(), error.nodes()), ("E0411", ["layer".to_owned()].as_slice()), "{error}");
        assert!(error.to_string().contains(reason) && error.help().is_some(), "{error}");
    }
}

#[test]
fn a_module_without_control_flow_stays_as_it_is() {
    let session = Session::new();
    let text = "module { func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> } }";
    let mut module = session.parse_module(text, "test").unwrap();
    let before = module.print(PrintOptions::default());
    place(&mut module, Some(ControlFlowPolicy::Kernel)).unwrap();
    assert_eq!(module.print(PrintOptions::default()), before);
    assert_eq!(placements(&module), []);
}
