//! Costs of kernels, by hand.

use tenon_ir::Session;
use tenon_rewrite_passes::CostModel;

const X: &str = "tensor<1024x512xf32>";
const W: &str = "tensor<512x2048xf32>";
const B: &str = "tensor<2048xf32>";
const Y: &str = "tensor<1024x2048xf32>";

fn kernel() -> String {
    format!(
        "module {{\n  func.func @main(%x: {X}, %w: {W}, %b: {B}) -> {Y} {{\n    \
         %0 = graph.kernel contract \"k\"(%x, %w, %b) : ({X}, {W}, {B}) -> {Y} attributes {{numeric_class = \"exact\", rules = []}} {{\n    \
         ^bb0(%p: {X}, %q: {W}, %r: {B}):\n      \
         %1 = graph.contract \"mk,kn->mn\"(%p, %q) accumulate f32 : ({X}, {W}) -> {Y} loc(\"MatMul_0\")\n      \
         %2 = graph.elementwise add(%1, %r) : ({Y}, {B}) -> {Y} loc(\"Add_1\")\n      \
         graph.yield %2 : {Y}\n    }}\n    return %0 : {Y}\n  }}\n}}\n"
    )
}

#[test]
fn a_product_with_bias_beside_two_kernels() {
    let session = Session::new();
    let module = session.parse_module(&kernel(), "kernel").unwrap();
    let op = module.op().walk().into_iter().find(|op| op.is("graph.kernel")).unwrap();
    let (x, w, b, y) = (4.0 * 1024.0 * 512.0, 4.0 * 512.0 * 2048.0, 4.0 * 2048.0, 4.0 * 1024.0 * 2048.0);
    // A picosecond a byte, a microsecond a launch.
    let memory =
        CostModel { launch: 1e6, byte: 1.0, multiply_add: 0.0, half_multiply_add: 0.0, byte_multiply_add: 0.0 };
    let cost = memory.kernel(op).unwrap();
    assert!((cost.us - (1.0 + (x + w + b + y) / 1e6)).abs() < 1e-9, "{cost:?}");
    let other = cost.alternative.unwrap();
    // The product goes to memory and back, behind another launch.
    assert!((other.us - (2.0 + (x + w + b + 3.0 * y) / 1e6)).abs() < 1e-9, "{other:?}");
    assert_eq!(other.what, "two kernels, the second from `graph.elementwise` of Add_1 on");
    // Where arithmetic takes longer than memory, it counts, and once.
    let arithmetic =
        CostModel { launch: 1e6, byte: 0.0, multiply_add: 1.0, half_multiply_add: 0.0, byte_multiply_add: 0.0 };
    let cost = arithmetic.kernel(op).unwrap();
    assert!((cost.us - (1.0 + 1024.0 * 2048.0 * 512.0 / 1e6)).abs() < 1e-6, "{cost:?}");
    let main = module.body().ops().into_iter().find(|op| op.is("func.func")).unwrap();
    assert_eq!(memory.kernel(main), None);
}
