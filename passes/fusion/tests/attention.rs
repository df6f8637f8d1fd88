//! Attention by meaning: which spellings become one kernel, and that they mean the same before and after.
#![allow(clippy::unwrap_used)]

use tenon_fusion_passes::FuseAttention;
use tenon_graph_dialect::TensorType;
use tenon_ir::{Module, PrintOptions, Session};
use tenon_pass_manager::{Options, Runner};
use tenon_recipe::{AttentionImplementation, NumericClass, Recipe};
use tenon_reference::{Mode, run_function};
use tenon_tensor::{DType, Tensor};

/// Functions of the text in which attention becomes a kernel; it stays as it is in the others.
const FUSED: [&str; 6] = ["encoder", "decoder", "joined", "operator", "two_terms", "two_choices"];

fn text() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/passes/fuse-attention.mlir");
    std::fs::read_to_string(path).unwrap()
}

fn run(module: &mut Module<'_>, recipe: Recipe) {
    Runner::new(Options::default(), &[]).unwrap().run_pass(&FuseAttention { recipe }, module).unwrap();
    assert!(tenon_pass_manager::check(module).is_empty(), "{:?}", tenon_pass_manager::check(module));
}

/// Names of functions that hold a kernel of attention.
fn fused(module: &Module<'_>) -> Vec<String> {
    let functions = module.body().ops().into_iter().filter(|op| op.is("func.func"));
    let has_kernel = |op: &tenon_ir::Op<'_>| {
        op.walk().iter().any(|inner| inner.is("graph.kernel") && inner.string("family").as_deref() == Some("attention"))
    };
    functions.filter(has_kernel).filter_map(|op| op.string("sym_name")).collect()
}

fn random(ty: &TensorType, seed: u64) -> Tensor {
    let shape: Vec<usize> = ty.known_shape().unwrap().into_iter().map(|size| size as usize).collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let values: Vec<f64> = (0..shape.iter().product())
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
            if ty.dtype == DType::Bool { f64::from(unit < 0.6) } else { 4.0 * unit - 2.0 }
        })
        .collect();
    Tensor::from_f64s(ty.dtype, shape, &values).unwrap()
}

#[test]
fn spellings_become_one_kernel_and_keep_their_values() {
    let session = Session::new();
    let text = text();
    let before = session.parse_module(&text, "before").unwrap();
    assert!(tenon_pass_manager::check(&before).is_empty(), "{:?}", tenon_pass_manager::check(&before));
    let mut after = session.parse_module(&text, "after").unwrap();
    run(&mut after, Recipe::default());
    assert_eq!(fused(&after), FUSED);
    for function in before.body().ops().into_iter().filter(|op| op.is("func.func")) {
        let name = function.string("sym_name").unwrap();
        let arguments = function.region_block(0).unwrap().arguments();
        let inputs: Vec<_> = arguments
            .iter()
            .enumerate()
            .map(|(index, value)| random(&TensorType::read(value.ty()).unwrap(), index as u64 + 1))
            .collect();
        // Roundings of f16 that the kernel leaves out are not in f64.
        for (mode, tolerance) in [(Mode::F64, 1e-6), (Mode::Typed, 2e-3)] {
            let of = |module: &Module<'_>| run_function(module, &name, &inputs, &|_| None, mode).unwrap();
            for (one, other) in of(&before).iter().zip(&of(&after)) {
                for element in 0..one.element_count() {
                    let (a, b) = (one.get_f64(element).unwrap(), other.get_f64(element).unwrap());
                    assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{name}, element {element}: {a} and {b}");
                }
            }
        }
    }
}

/// A softmax that is written out has NaN where it sees no key, and so has the kernel: by numbers that are added, and by a choice of -∞.
#[test]
fn a_row_of_nothing_visible_stays_nan() {
    let session = Session::new();
    let text = text();
    let before = session.parse_module(&text, "before").unwrap();
    let mut after = session.parse_module(&text, "after").unwrap();
    run(&mut after, Recipe::default());
    for (name, hidden) in [("encoder", f64::NEG_INFINITY), ("decoder", 0.0)] {
        let function =
            before.body().ops().into_iter().find(|op| op.string("sym_name").as_deref() == Some(name)).unwrap();
        let types = function.region_block(0).unwrap().arguments().into_iter();
        let mut inputs: Vec<_> = types
            .enumerate()
            .map(|(index, value)| random(&TensorType::read(value.ty()).unwrap(), index as u64 + 1))
            .collect();
        let mask = inputs.pop().unwrap();
        // The first row of the mask: of batch 0, or of query 0.
        let row = *mask.shape().last().unwrap();
        let shown = if hidden == 0.0 { 1.0 } else { 0.0 };
        let values: Vec<f64> =
            (0..mask.element_count()).map(|index| if index < row { hidden } else { shown }).collect();
        inputs.push(Tensor::from_f64s(mask.dtype(), mask.shape().to_vec(), &values).unwrap());
        let of = |module: &Module<'_>| run_function(module, name, &inputs, &|_| None, Mode::F64).unwrap().remove(0);
        let (one, other) = (of(&before), of(&after));
        let mut count = 0;
        for element in 0..one.element_count() {
            let (a, b) = (one.get_f64(element).unwrap(), other.get_f64(element).unwrap());
            count += usize::from(a.is_nan());
            assert!(a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-6, "{name}, element {element}: {a} and {b}");
        }
        assert!(count > 0 && count < one.element_count(), "{name}: {count}");
    }
}

#[test]
fn recipes_that_do_not_reassociate_leave_it() {
    let session = Session::new();
    let mut exact = Recipe::default();
    exact.numerics.rewrites = NumericClass::Exact;
    let mut unfused = Recipe::default();
    unfused.compile.attention = AttentionImplementation::Unfused;
    for recipe in [exact, unfused] {
        let mut module = session.parse_module(&text(), "attention").unwrap();
        run(&mut module, recipe);
        assert_eq!(fused(&module), Vec::<String>::new());
    }
}

/// What `flash` does not take is refused, naming the node that stands in the way and why; where no implementation is named, a remark says it.
#[test]
fn an_implementation_that_is_named_has_no_fallback() {
    let session = Session::new();
    let mut recipe = Recipe::default();
    recipe.compile.attention = AttentionImplementation::Flash;
    let all = text();
    let refused = [
        ("weights_are_read", "Softmax", "read elsewhere"),
        ("hides_little", "Where", "-10000"),
        ("over_queries", "Softmax", "dimension 2"),
        ("double", "Attention", "f64"),
        ("deep", "Attention", "512"),
        ("deep_products", "Sum", "64 for f32"),
        ("masked_weights", "Keep", "between softmax and product"),
    ];
    let taken = FUSED.iter().chain(&["classes"]).map(|name| (*name, "", ""));
    let cases: Vec<_> = refused.into_iter().chain(taken).collect();
    assert_eq!(cases.len(), all.matches("func.func").count());
    for (name, node, reason) in cases {
        let start = all.find(&format!("func.func @{name}(")).unwrap();
        let end = start + all[start..].find("\n}").unwrap() + 2;
        let run_of = |recipe: &Recipe| {
            let mut module = session.parse_module(&all[start..end], name).unwrap();
            let mut runner = Runner::new(Options::default(), &[]).unwrap();
            let result = runner.run_pass(&FuseAttention { recipe: recipe.clone() }, &mut module);
            result.map(|_| runner.report().remarks)
        };
        let remarks = run_of(&Recipe::default()).unwrap();
        let remark = remarks.iter().find(|remark| remark.kind == "no kernel of attention");
        match run_of(&recipe) {
            Ok(_) => assert!(node.is_empty() && remark.is_none(), "{name}: {remark:?}"),
            Err(error) => {
                assert_eq!(error.code(), "E0229", "{name}: {error}");
                let text = error.to_string();
                assert!(!node.is_empty() && text.contains(node) && text.contains(reason), "{name}: {text}");
                let remark = remark.unwrap();
                assert!(remark.nodes == [node] && remark.message.contains(reason), "{name}: {remark:?}");
            }
        }
    }
}

#[test]
fn golden() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/passes");
    let session = Session::new();
    let mut module = session.parse_module(&text(), "fuse-attention").unwrap();
    run(&mut module, Recipe::default());
    let text = module.print(PrintOptions { locations: true, generic: false });
    insta::with_settings!({snapshot_path => folder, prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("fuse-attention", text);
    });
}
