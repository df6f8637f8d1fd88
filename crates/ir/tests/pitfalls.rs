//! What crashes MLIR when it is called directly, shown harmless from outside.
#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use tenon_ir::llvm::{LlvmModule, NvptxTarget};
use tenon_ir::{Builder, IrError, Module, Op, PrintOptions, Session};

fn code<T>(result: Result<T, IrError>) -> &'static str {
    result.err().unwrap().code()
}

const CHAIN: &str = "func.func @main(%x: i32) -> i32 {
    %a = arith.addi %x, %x : i32
    %b = arith.muli %a, %x : i32
    return %b : i32
}";

fn find<'m>(module: &'m Module<'_>, name: &str) -> Op<'m> {
    module.op().walk().into_iter().find(|op| op.is(name)).unwrap()
}

#[test]
fn empty_strings_are_strings() {
    let session = Session::new();
    let context = session.context();
    assert_eq!(context.string("").as_string().unwrap(), "");
    assert_eq!(context.symbol("").as_symbol().unwrap(), "");
    assert_eq!(context.name_location("", context.unknown_location()).names(), [""]);
    assert_eq!(context.array(&[]).as_array().unwrap(), []);
    assert_eq!(context.i64_array(&[]).as_i64_array().unwrap(), [0i64; 0]);
    assert_eq!(context.dictionary(&[]).as_dictionary().unwrap(), []);
    assert_eq!(code(session.parse_type("")), "E0401");
    assert_eq!(code(session.parse_attribute("")), "E0401");
    let module = session.parse_module("", "empty").unwrap();
    assert_eq!(module.body().ops(), []);
    let at = Builder::at_end(module.body()).unwrap();
    assert_eq!(code(at.op("").build()), "E0404");
    assert_eq!(code(at.op("arith.constant").attribute("", context.unit()).build()), "E0402");
    assert_eq!(code(module.op().set_attribute("", context.unit())), "E0402");
    assert!(module.op().attribute("").is_none() && !module.op().remove_attribute(""));
}

#[test]
fn hostile_text_is_refused_before_it_is_parsed() {
    let session = Session::new();
    assert_eq!(code(session.parse_module("module {\0}", "nul")), "E0402");
    assert_eq!(code(session.parse_type("tensor<4xf32\0>")), "E0402");
    assert_eq!(code(session.parse_attribute("\"a\0\"")), "E0402");
    for (open, close) in [("[", "]"), ("tuple<", ">"), ("module {", "}"), ("(", ")"), ("dense<[", "]>")] {
        let deep = format!("{}{}", open.repeat(100_000), close.repeat(100_000));
        assert_eq!(code(session.parse_module(&deep, "deep")), "E0402");
        assert_eq!(code(session.parse_attribute(&deep)), "E0402");
    }
    let minus = format!("affine_map<(d0) -> ({}d0)>", "-".repeat(100_000));
    assert_eq!(code(session.parse_attribute(&minus)), "E0402");
    let terms: String = (0..50_000).map(|index| format!("s{index} + ")).collect();
    assert_eq!(code(session.parse_attribute(&format!("affine_map // \n <() -> ({terms}0)>"))), "E0402");
    let mut aliases = "#a0 = [1, 1]\n".to_owned();
    (0..60).for_each(|level| aliases.push_str(&format!("#a{} = [#a{level}, #a{level}]\n", level + 1)));
    assert_eq!(code(session.parse_module(&aliases, "aliases")), "E0402");
}

#[test]
fn the_deepest_text_that_is_taken_parses_and_prints() {
    let session = Session::new();
    let deep = format!("{}{}", "[".repeat(250), "]".repeat(250));
    assert_eq!(session.parse_attribute(&deep).unwrap().to_string(), deep);
    let tuples = format!("{}i32{}", "tuple<".repeat(250), ">".repeat(250));
    assert_eq!(session.parse_type(&tuples).unwrap().to_string(), tuples);
    let modules = format!("{}{}", "module {".repeat(250), "}".repeat(250));
    let module = session.parse_module(&modules, "modules").unwrap();
    let text = module.print(PrintOptions::default());
    assert_eq!(session.parse_module(&text, "again").unwrap().print(PrintOptions::default()), text);
    let names: Vec<String> = (0..1000).map(|index| format!("s{index}")).collect();
    let sum = format!("affine_map<()[{}] -> ({})>", names.join(", "), names.join(" + "));
    assert_eq!(session.parse_attribute(&sum).unwrap().to_string(), sum);
}

#[test]
fn unknown_names_are_refused() {
    let session = Session::new();
    let error = session.parse_module("\"nosuch.op\"() : () -> ()", "unknown").err().unwrap();
    assert_eq!(error.code(), "E0401");
    assert!(error.to_string().contains("unregistered dialect"), "{error}");
    assert_eq!(code(session.parse_type("!nosuch.type")), "E0401");
    assert_eq!(code(session.parse_attribute("#nosuch.attribute")), "E0401");
    let module = session.parse_module("", "empty").unwrap();
    let at = Builder::at_end(module.body()).unwrap();
    for name in ["nosuch.op", "arith.nosuch", "nodot", "a\0b", "."] {
        assert!(!session.context().is_registered(name));
        assert_eq!(code(at.op(name).build()), "E0404");
    }
}

#[test]
fn errors_carry_what_mlir_said_and_where() {
    let session = Session::new();
    let error = session.parse_module("func.func @f() -> i32 {\n  return\n}", "f").err().unwrap();
    let text = error.to_string();
    assert!(text.contains("return") && text.contains("2:3"), "{text}");
    // The next error does not repeat it.
    let error = session.parse_module("func.func @g(", "g").err().unwrap();
    assert!(!error.to_string().contains("2:3"), "{error}");
    assert!(session.take_diagnostics().is_empty());
}

#[test]
fn erasing_is_refused_while_something_is_used() {
    let session = Session::new();
    let module = session.parse_module(CHAIN, "chain").unwrap();
    let (add, multiply) = (find(&module, "arith.addi"), find(&module, "arith.muli"));
    assert_eq!(code(add.erase()), "E0404");
    assert!(multiply.replace_all_uses(&[module.body().ops()[0].region_block(0).unwrap().argument(0).unwrap()]));
    multiply.erase().unwrap();
    add.erase().unwrap();
    add.erase().unwrap();
    module.verify().unwrap();
    assert!(!module.to_string().contains("arith"));
}

#[test]
fn views_of_erased_operations_are_stale_not_dangling() {
    let session = Session::new();
    let module = session.parse_module(CHAIN, "chain").unwrap();
    let function = module.body().ops()[0];
    let (add, multiply) = (find(&module, "arith.addi"), find(&module, "arith.muli"));
    let (sum, argument) = (add.result(0).unwrap(), function.region_block(0).unwrap().argument(0).unwrap());
    function.erase().unwrap();
    assert_eq!(module.body().ops(), []);
    assert_eq!((add.name().as_str(), add.operand_count(), add.operand(0)), ("arith.addi", 0, None));
    assert!(function.parent().is_none() && function.next().is_none() && function.block().is_none());
    assert!(!sum.has_users() && argument.users().is_empty());
    for op in [function, add, multiply] {
        assert!(op.to_string().contains(&op.name()));
        assert!(!op.print(PrintOptions { locations: true, generic: true }).is_empty());
    }
    // Nothing erased comes back into the module.
    let at = Builder::at_end(module.body()).unwrap();
    assert_eq!(code(at.op("arith.addi").operands(&[sum, sum]).results(&[sum.ty()]).build()), "E0404");
    let constant = at.op("arith.constant").results(&[sum.ty()]).attribute("value", session.context().i32(1));
    let constant = constant.build().unwrap();
    let one = constant.result(0).unwrap();
    assert!(!one.replace_all_uses(sum) && !constant.replace_all_uses(&[sum]));
    assert!(!add.move_before(constant) && !constant.move_before(add) && !constant.move_before(multiply));
    assert!(Builder::before(function).is_none() && Builder::after(function).is_none());
    let two = at.op("arith.addi").operands(&[one, one]).results(&[one.ty()]).build().unwrap();
    assert!(!two.set_operand(0, sum) && !two.set_operand(7, one));
    module.verify().unwrap();
}

#[test]
fn erased_operations_may_use_anything_until_the_module_is_dropped() {
    let session = Session::new();
    let module = session.parse_module(CHAIN, "chain").unwrap();
    let at = Builder::before(find(&module, "func.return")).unwrap();
    module.body().ops()[0].erase().unwrap();
    // Building inside the erased tree on values of the module leaves nothing dangling.
    let ty = session.context().i32_type();
    let constant = Builder::at_end(module.body()).unwrap().op("arith.constant");
    let one = constant.results(&[ty]).attribute("value", session.context().i32(1)).value().unwrap();
    at.op("arith.addi").operands(&[one, one]).results(&[ty]).build().unwrap();
    assert!(one.has_users());
    drop(module);
}

#[test]
fn values_inside_are_seen_when_an_operation_is_erased() {
    let session = Session::new();
    let source = "func.func @inner() -> i32 { %a = arith.constant 1 : i32 return %a : i32 }";
    let module = session.parse_module(source, "inner").unwrap();
    let function = module.body().ops()[0];
    let inner = find(&module, "arith.constant").result(0).unwrap();
    // Not valid IR, but it can be built: an operation outside that uses a value inside.
    let at = Builder::at_end(module.body()).unwrap();
    let outside = at.op("arith.addi").operands(&[inner, inner]).results(&[inner.ty()]).build().unwrap();
    assert_eq!(code(module.verify()), "E0403");
    assert_eq!(code(function.erase()), "E0404");
    outside.erase().unwrap();
    function.erase().unwrap();
    module.verify().unwrap();
}

#[test]
fn moving_into_oneself_is_refused() {
    let session = Session::new();
    let module = session.parse_module(CHAIN, "chain").unwrap();
    let (function, add) = (module.body().ops()[0], find(&module, "arith.addi"));
    assert!(!function.move_before(add) && !add.move_before(add));
    assert!(!module.op().move_before(add) && !add.move_before(module.op()));
    assert!(function.contains(add) && !add.contains(function));
    assert!(find(&module, "arith.muli").move_before(add));
    assert_eq!(code(module.verify()), "E0403");
}

/// Whether something panics with a message.
fn refuses<T>(make: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(make)).is_err()
}

#[test]
fn objects_of_two_sessions_do_not_mix() {
    let (one, two) = (Session::new(), Session::new());
    let module = one.parse_module(CHAIN, "one").unwrap();
    let other = two.parse_module(CHAIN, "two").unwrap();
    let second = one.parse_module(CHAIN, "three").unwrap();
    let (context, foreign) = (one.context(), two.context());
    let block = module.body().ops()[0].region_block(0).unwrap();
    let at = Builder::before(block.terminator().unwrap()).unwrap();
    let ty = context.i32_type();
    let argument = block.argument(0).unwrap();
    let add = find(&module, "arith.addi");
    for theirs in [&other, &second] {
        let value = theirs.body().ops()[0].region_block(0).unwrap().argument(0).unwrap();
        assert_eq!(code(at.op("arith.addi").operands(&[argument, value]).results(&[ty]).build()), "E0404");
        assert!(!add.set_operand(0, value) && !argument.replace_all_uses(value) && !add.replace_all_uses(&[value]));
        assert!(!add.move_before(find(theirs, "arith.addi")));
        let jump = theirs.body().ops()[0].region_block(0).unwrap();
        assert_eq!(code(at.op("cf.br").successors(&[jump]).build()), "E0404");
    }
    assert_eq!(
        code(at.op("arith.addi").operands(&[argument, argument]).results(&[foreign.i32_type()]).build()),
        "E0404"
    );
    assert_eq!(code(at.op("arith.constant").results(&[ty]).attribute("value", foreign.i32(1)).build()), "E0404");
    let elsewhere = at.in_block(other.body()).op("arith.constant").results(&[ty]);
    assert_eq!(code(elsewhere.attribute("value", context.i32(1)).build()), "E0404");
    assert_eq!(at.with_location(foreign.unknown_location()).location(), at.location());
    assert_eq!(code(one.new_module(foreign.unknown_location())), "E0404");
    assert_eq!(code(add.set_attribute("a", foreign.unit())), "E0404");
    assert_eq!(code(block.add_argument(foreign.i32_type(), at.location())), "E0404");
    assert_eq!(code(block.add_argument(ty, foreign.unknown_location())), "E0404");
    let region = module.body().ops()[0].region(0).unwrap();
    assert_eq!(code(region.append_block(&[(foreign.i32_type(), at.location())])), "E0404");
    assert_eq!(code(region.append_block(&[(ty, foreign.unknown_location())])), "E0404");
    assert_eq!(code(context.vector_type(4, foreign.f32_type())), "E0404");
    assert_eq!(code(context.tensor_type(&[Some(4)], foreign.f32_type(), None)), "E0404");
    argument.set_type(foreign.f32_type());
    assert_eq!(argument.ty(), ty);
    // Constructors that cannot fail say so before anything is made.
    assert!(refuses(|| context.array(&[foreign.unit()])));
    assert!(refuses(|| context.dictionary(&[("a", foreign.unit())])));
    assert!(refuses(|| context.function_type(&[foreign.i32_type()], &[])));
    assert!(refuses(|| context.type_attribute(foreign.i32_type())));
    assert!(refuses(|| context.name_location("a", foreign.unknown_location())));
    assert!(refuses(|| context.fused_location(&[foreign.unknown_location()])));
    module.verify().unwrap();
}

#[test]
fn attributes_of_no_meaning_are_refused() {
    let session = Session::new();
    let context = session.context();
    assert!(refuses(|| context.integer(1, context.f32_type())));
    assert!(refuses(|| context.float(1.0, context.i32_type())));
    assert_eq!(context.integer_type(u32::MAX).bit_width(), Some((1 << 24) - 1));
    assert_eq!(code(context.vector_type(0, context.f32_type())), "E0401");
    let twice = [("b", context.i64(1)), ("a", context.unit()), ("b", context.i64(2))];
    assert_eq!(context.dictionary(&twice).to_string(), "{a, b = 1 : i64}");
    // Readers of another kind of attribute give nothing.
    let text = context.string("text");
    assert!(text.as_integer().is_none() && text.as_float().is_none() && text.as_array().is_none());
    assert!(text.as_type().is_none() && text.dense_bytes().is_none() && text.get("a").is_none());
    assert!(text.as_symbol().is_none() && text.as_bool().is_none() && text.as_i64_array().is_none());
    assert!(context.i32_type().element().is_none() && context.i32_type().tensor_shape().is_none());
}

#[test]
fn literals_expand_only_so_far() {
    let session = Session::new();
    let bytes = |source: &str| session.parse_attribute(source).unwrap().dense_bytes();
    assert_eq!(bytes("dense<7> : tensor<3xi8>").unwrap(), [7, 7, 7]);
    assert_eq!(bytes("dense<[true, false]> : tensor<2xi1>").unwrap(), [1, 0]);
    assert_eq!(bytes("dense<1.0> : tensor<0xf32>").unwrap(), [0u8; 0]);
    assert!(bytes("dense<7> : tensor<1099511627776xi8>").is_none());
    assert!(bytes("dense<7> : tensor<4611686018427387904x4611686018427387904xi8>").is_none());
}

#[test]
fn a_failing_pipeline_says_why() {
    let session = Session::new();
    let mut module = session.parse_module(CHAIN, "chain").unwrap();
    for (pipeline, word) in [
        ("builtin.module(nosuch)", "nosuch"),
        ("builtin.module(", "builtin.module"),
        ("", "empty"),
        ("a\0b", "NUL"),
        ("func.func(cse)", "func.func"),
    ] {
        let error = module.run_pipeline(pipeline).unwrap_err();
        assert_eq!(error.code(), "E0405");
        assert!(error.to_string().contains(word) && !error.to_string().contains("no reason"), "{error}");
    }
    module.run_pipeline("builtin.module(func.func(canonicalize,cse))").unwrap();
    // A pass on broken IR would crash: it is verified first.
    find(&module, "func.return").erase().unwrap();
    assert_eq!(code(module.run_pipeline("builtin.module(canonicalize)")), "E0403");
}

#[test]
fn a_null_translation_is_an_error() {
    let session = Session::new();
    let module = session.parse_module(CHAIN, "chain").unwrap();
    let error = LlvmModule::translate(&module, module.op()).err().unwrap();
    assert_eq!(error.code(), "E0406");
    assert!(!error.to_string().contains("no reason"), "{error}");
    assert!(LlvmModule::translate(&module, find(&module, "arith.addi")).is_err());
    find(&module, "func.return").erase().unwrap();
    assert_eq!(code(LlvmModule::translate(&module, module.op())), "E0403");
    assert_eq!(code(LlvmModule::parse("define void @f( {")), "E0406");
    assert_eq!(code(LlvmModule::parse("\0")), "E0406");
    let mut good = LlvmModule::parse("define void @f() { ret void }").unwrap();
    for processor in ["", "sm_\0", "x86-64", "sm_80 -evil"] {
        let target = NvptxTarget { processor: processor.to_owned(), ptx_version: 80 };
        assert_eq!(code(good.optimize(&target)), "E0406");
        assert_eq!(code(good.emit_ptx(&target)), "E0406");
    }
    let target = NvptxTarget { processor: "sm_80".to_owned(), ptx_version: 78 };
    good.optimize(&target).unwrap();
    assert!(good.emit_ptx(&target).unwrap().contains(".target sm_80"));
}

#[test]
fn operand_segments_are_set_and_checked() {
    let session = Session::new();
    let module = session.parse_module("func.func @f(%c: i1, %x: i32) {\n  return\n}", "segments").unwrap();
    let region = module.body().ops()[0].region(0).unwrap();
    let entry = region.first_block().unwrap();
    let [c, x] = [0, 1].map(|index| entry.argument(index).unwrap());
    let at = Builder::at_end(entry).unwrap();
    let [yes, no] = [x, c].map(|value| region.append_block(&[(value.ty(), at.location())]).unwrap());
    for target in [yes, no] {
        at.in_block(target).op("func.return").build().unwrap();
    }
    entry.terminator().unwrap().erase().unwrap();
    let branch = |sizes: &[i32]| {
        at.op("cf.cond_br").operands(&[c, x, c]).successors(&[yes, no]).segments(sizes).build().unwrap()
    };
    for wrong in [&[1, 1][..], &[1, 2, 1], &[1, 0, 0], &[-1, 2, 2], &[]] {
        let op = branch(wrong);
        assert_eq!(code(module.verify()), "E0403");
        assert!(op.to_string().contains("cf.cond_br"));
        op.erase().unwrap();
    }
    let op = branch(&[1, 1, 1]);
    module.verify().unwrap();
    assert_eq!(op.attribute("operandSegmentSizes").unwrap().as_i32_array().unwrap(), [1, 1, 1]);
}

#[test]
fn broken_operations_still_print() {
    let session = Session::new();
    let module = session.parse_module("", "broken").unwrap();
    let at = Builder::at_end(module.body()).unwrap();
    for name in ["arith.addi", "func.func", "scf.for", "scf.if", "memref.load", "cf.cond_br", "gpu.launch", "llvm.load"]
    {
        let op = at.op(name).build().unwrap();
        assert!(op.to_string().contains(name), "{name}");
        op.erase().unwrap();
    }
}
