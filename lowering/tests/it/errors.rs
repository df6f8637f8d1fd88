//! Tile programs that must be refused: each code once.

use tenon_graph_dialect::operators::Attention;
use tenon_ir::Session;
use tenon_lowering::codegen;
use tenon_lowering::expand::{ExpandError, TargetInfo, expand_kernel};

use crate::graph_kernels::{case, contract, one_multiprocessor, op, t, texts};
use crate::kernels;
use crate::support::{compile_for, nvptx, on, target};
use tenon_layout::{SharedLayout, TileLayout};
use tenon_tensor::DType;

const LAYOUT: &str = "#l = #hw.layout<reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>\n\
    #m = #hw.layout<reg = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>\n";

/// The error of a kernel with this body.
fn refused(body: &str, target: &TargetInfo) -> ExpandError {
    let text = format!(
        "{LAYOUT}module {{ hw.kernel @k target \"sm_80\" warps 1 grid [1] {{ ^bb0(%p: !llvm.ptr<1>, %n: i64):\n{body}\nhw.return }} }}"
    );
    let session = Session::new();
    let module = session.parse_module(&text, "hw").unwrap_or_else(|error| panic!("{error}"));
    let kernel = module.body().ops()[0];
    let into = session.new_module(session.context().unknown_location()).unwrap();
    expand_kernel(kernel, &into, target).unwrap_err()
}

fn check(code: &str, body: &str, says: &str) {
    let error = refused(body, &target());
    assert_eq!(error.code(), code, "{error}");
    assert!(error.to_string().contains(says) && error.to_string().contains("@k"), "{error}");
    assert!(error.help().is_some());
}

#[test]
fn operations_without_an_expansion() {
    check("E0510", "%c = llvm.mlir.constant(1 : i32) : i32", "llvm.mlir.constant");
}

#[test]
fn layouts_that_do_not_fit() {
    check(
        "E0511",
        "%i = hw.iota 0 : <[64] x i32, #l>\n%r = hw.load %p[%i] : !llvm.ptr<1>, <[64] x i32, #l> -> <[64] x f32, #m>",
        "layout of the offsets",
    );
    check(
        "E0511",
        "%i = hw.iota 0 : <[64] x i32, #l>\n\
         %m = hw.map(%i) : (!hw.tile<[64] x i32, #l>) -> !hw.tile<[64] x i32, #m> { ^bb0(%v: i32): hw.yield %v : i32 }",
        "different layouts",
    );
    check(
        "E0511",
        "%i = hw.iota 0 : <[64] x i32, #l>\n%r = hw.load %p[%i] {contiguity = 3 : i64} : !llvm.ptr<1>, <[64] x i32, #l> -> <[64] x f32, #l>",
        "contiguity 3",
    );
    check(
        "E0511",
        "%i = hw.iota 0 : <[64] x i32, <reg = [[1]], lane = [[32], [16], [8], [4], [2]], warp = []>>\n\
         %s = hw.scan 0 (%i) : (!hw.tile<[64] x i32, <reg = [[1]], lane = [[32], [16], [8], [4], [2]], warp = []>>)\
         -> !hw.tile<[64] x i32, <reg = [[1]], lane = [[32], [16], [8], [4], [2]], warp = []>> {\
         ^bb0(%a: i32, %b: i32): hw.yield %b : i32 }",
        "in their order",
    );
}

#[test]
fn instructions_that_the_target_lacks() {
    let mma = |target: &TargetInfo| {
        let body = "%z = arith.constant 0.0 : f16\n%c = arith.constant 0.0 : f32\n\
            %a = hw.splat %z : f16 -> <[16, 16] x f16, <reg = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>>\n\
            %b = hw.splat %z : f16 -> <[16, 8] x f16, <reg = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = []>>\n\
            %s = hw.splat %c : f32 -> <[16, 8] x f32, <reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>>\n\
            %r = hw.mma \"NAME\" %a, %b, %s : <[16, 16] x f16, <reg = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>>, <[16, 8] x f16, <reg = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = []>>, <[16, 8] x f32, <reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>> -> <[16, 8] x f32, <reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>>";
        ["mma.m16n8k16.f32.f16.f16.f32", "mma.m9n9k9", "wgmma.m64n8k16.f32.f16.f16"]
            .map(|name| refused(&body.replace("NAME", name), target))
    };
    let errors = mma(&on("sm_75").0);
    for error in &errors {
        assert_eq!(error.code(), "E0512", "{error}");
    }
    assert!(errors[0].to_string().contains("sm_80"), "{}", errors[0]);
}

/// A product by tensor maps and warpgroups, with one thing changed.
#[test]
fn pipelines_that_do_not_fit() {
    let case = case("contract", &[t(DType::F16, &[64, 64]), t(DType::F16, &[64, 64])], 0.0);
    let [right, _] =
        texts(&one_multiprocessor("sm_90a"), &case, &|at, v| vec![op(at, contract("mk", "nk", "mn", DType::F16), v)]);
    let refused = |text: &str, target: &str| {
        let session = Session::new();
        let module = session.parse_module(text, "hw").unwrap_or_else(|error| panic!("{error}"));
        let kernel = module.body().ops().into_iter().find(|op| op.is("hw.kernel")).unwrap();
        let into = session.new_module(session.context().unknown_location()).unwrap();
        let error = expand_kernel(kernel, &into, &on(target).0).unwrap_err();
        (error.code(), error.to_string())
    };
    let changed = |from: &str, to: &str| {
        assert!(right.contains(from), "{right}");
        refused(&right.replace(from, to), "sm_90a")
    };
    let instruction = "wgmma.m64n64k16.f32.f16.f16";
    let alignment = "hw.alloc align 1024";
    for ((code, message), expected, says) in [
        (refused(&right, "sm_80"), "E0514", "no copies by tensor maps"),
        (changed(instruction, "wgmma.m64n64k16.f32.bf16.bf16"), "E0512", "operands are of f16"),
        (changed(instruction, "wgmma.m64n128k16.f32.f16.f16"), "E0511", "by 1 warpgroups"),
        (changed(instruction, "mma.m16n8k16.f32.f16.f16.f32"), "E0512", "no instruction of a warpgroup"),
        (changed(alignment, "hw.alloc align 256"), "E0511", "multiples of 1024 bytes"),
        (changed(alignment, "hw.alloc align 4096"), "E0514", "an alignment of 4096 bytes"),
        (changed("hw.producer {", "hw.producer {\nhw.barrier"), "E0514", "one thread of the block"),
        (changed("producer_warps = 1", "producer_warps = 29"), "E0514", "more than 32"),
    ] {
        assert!(code == expected && message.contains(says), "{code} {message}, expected {expected} {says}");
    }
}

/// Weights of attention in another layout than that in which warpgroups read a left operand.
#[test]
fn left_operands_that_lie_otherwise() {
    let operands = [[64, 64], [16, 64], [16, 64]].map(|[positions, depth]| t(DType::F16, &[1, 1, positions, depth]));
    let attention = Attention { scale: 0.125, softcap: None, causal: None, plain_softmax: false };
    let [right, _] = texts(&one_multiprocessor("sm_90a"), &case("attention", &operands, 0.0), &|at, v| {
        vec![op(at, attention.clone(), v)]
    });
    let product = right.lines().find(|line| line.contains("hw.wgmma \"wgmma.m64n64k16")).unwrap();
    let weights = product.split("f16\" ").nth(1).unwrap().split(',').next().unwrap();
    let ty = product.split(" : ").nth(2).unwrap().split(">,").next().unwrap().to_owned() + ">";
    let other = "<[64, 16] x f16, <reg = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]>>";
    let moved = format!("%moved = hw.convert_layout {weights} : {ty} -> !hw.tile{other}\n");
    let changed = moved + &product.replace(weights, "%moved").replace(&ty, &format!("!hw.tile{other}"));
    let session = Session::new();
    let module =
        session.parse_module(&right.replace(product, &changed), "hw").unwrap_or_else(|error| panic!("{error}"));
    let kernel = module.body().ops().into_iter().find(|op| op.is("hw.kernel")).unwrap();
    let into = session.new_module(session.context().unknown_location()).unwrap();
    let error = expand_kernel(kernel, &into, &on("sm_90a").0).unwrap_err();
    assert!(error.code() == "E0511" && error.to_string().contains("as the warpgroups read it"), "{error}");
}

#[test]
fn elements_that_an_operation_does_not_take() {
    check("E0513", "%i = hw.iota 0 : <[64] x f32, #l>", "i32");
}

#[test]
fn kernels_that_break_their_rules() {
    check("E0514", "%i = hw.program_id 7", "axis");
    check("E0514", "%z = arith.constant 0.0 : f32\n%i = hw.splat %z : f32 -> <[64] x i32, #l>", "f32");
}

#[test]
fn more_shared_memory_than_there_is() {
    let layout = TileLayout::contiguous(&[64, 64], &[1, 0], 4, 1).unwrap();
    let shared = SharedLayout::row_major(&[64, 64], &[1, 0]).unwrap();
    let text = kernels::local(DType::F32, &layout, &shared, &layout);
    let session = Session::new();
    let module = session.parse_module(&text, "hw").unwrap();
    let into = session.new_module(session.context().unknown_location()).unwrap();
    let small = TargetInfo { shared_bytes: 1024, ..target() };
    let error = expand_kernel(module.body().ops()[0], &into, &small).unwrap_err();
    assert_eq!(error.code(), "E0515");
    assert!(error.to_string().contains("32768"), "{error}");
}

#[test]
fn functions_of_other_floats() {
    let text = kernels::elementary("math.erf", 1, DType::F8E5M2);
    let session = Session::new();
    let module = session.parse_module(&text, "hw").unwrap();
    let mut into = session.new_module(session.context().unknown_location()).unwrap();
    expand_kernel(module.body().ops()[0], &into, &target()).unwrap();
    let error = codegen::to_nvvm(&mut into).unwrap_err();
    assert_eq!(error.code(), "E0516");
    assert!(error.to_string().contains("math.erf") && error.help().is_some());
}

#[test]
fn calls_to_nothing() {
    let text = "module { gpu.module @k { llvm.func @__nv_expf(f32) -> f32\n\
        llvm.func @k(%p: !llvm.ptr<1>) attributes {nvvm.kernel} {\n\
        %a = llvm.load %p : !llvm.ptr<1> -> f32\n%b = llvm.call @__nv_expf(%a) : (f32) -> f32\n\
        llvm.store %b, %p : f32, !llvm.ptr<1>\nllvm.return } } }";
    let error = codegen::compile_kernels(&[text.to_owned()], &nvptx(), 1).unwrap_err();
    assert_eq!(error.code(), "E0520");
    assert!(error.to_string().contains("__nv_expf"), "{error}");
}

/// Where there is no asynchronous copy and no matrix load, others do.
#[test]
fn older_targets() {
    let (volta, nvptx) = on("sm_70");
    let compiled = compile_for(&kernels::async_copy(DType::F16, 8), &volta, &nvptx);
    assert!(!compiled.ptx.contains("cp.async") && compiled.ptx.contains("st.shared.v4"), "{}", compiled.ptx);
    crate::support::assemble("older", &compiled.ptx, "sm_70");
}
