//! Programs from graph to values on the simulator, against the reference interpreter, and every refusal by its code.

use std::sync::Arc;

use proptest::prelude::*;
use tenon_ir::llvm::NvptxTarget;
use tenon_ir::{PrintOptions, Session};
use tenon_reference::{Mode, run_function};
use tenon_runtime::plan::{Argument, Operation, Place};
use tenon_runtime::{Device, DeviceParameters, Executable, Instance, LaunchPlan, Placement, SimulatorDevice};
use tenon_tensor::{DType, Tensor};

use super::*;
use crate::codegen::compile_kernels;
use crate::expand::{KernelInfo, TargetInfo, expand_kernel};

/// `%name = graph.kernel … : a + b` over tensors of one type.
fn add(result: &str, kernel: &str, a: &str, b: &str, ty: &str) -> String {
    format!(
        "%{result} = graph.kernel map \"{kernel}\"(%{a}, %{b}) : ({ty}, {ty}) -> {ty} {{
           ^bb0(%p: {ty}, %q: {ty}):
             %r = graph.elementwise add(%p, %q) : ({ty}, {ty}) -> {ty}
             graph.yield %r : {ty}
         }} loc(\"{kernel}\")\n"
    )
}

const T: &str = "tensor<4x6xf32>";

/// A module with `@main(%x, %y)` over `ty`.
fn main_function(body: &str, results: &str) -> String {
    format!(
        "module {{
           graph.parameter @w : {T}
           func.func @main(%x: {T} {{graph.name = \"x\"}}, %y: {T} {{graph.name = \"y\"}}) -> {results} {{
             {body}
           }}
         }}"
    )
}

fn values(seed: f32) -> Tensor {
    Tensor::from_f32(vec![4, 6], &(0..24).map(|i| (i as f32 - 10.0) * seed).collect::<Vec<_>>()).unwrap()
}

fn ampere() -> &'static Target {
    Target::find("sm_80").unwrap()
}

pub(super) fn compile(lowered: &Lowered<'_>) -> (Vec<KernelInfo>, Vec<String>) {
    let target = TargetInfo::of(ampere().architecture, ampere().gpu.sms);
    let session = lowered.module.session();
    let (mut infos, mut texts) = (Vec::new(), Vec::new());
    for kernel in lowered.module.body().ops().into_iter().filter(|op| op.is("hw.kernel")) {
        let expanded = session.new_module(session.context().unknown_location()).unwrap();
        infos.push(expand_kernel(kernel, &expanded, &target).unwrap());
        texts.push(expanded.print(PrintOptions { locations: true, generic: false }));
    }
    let nvptx = NvptxTarget { processor: "sm_80".to_owned(), ptx_version: 78 };
    (infos, compile_kernels(&texts, &nvptx, 1).unwrap().into_iter().map(|(_, ptx)| ptx).collect())
}

struct Ran {
    text: String,
    plan: LaunchPlan,
    sharing: Sharing,
    memory: MemoryUse,
    outputs: Vec<(String, Tensor)>,
}

/// Lowers, compiles and runs a module in an arena and with buffers apart; outputs must be those of the reference, bit for bit.
fn run(source: &str) -> Ran {
    let session = Session::new();
    let module = session.parse_module(source, "test").unwrap();
    let lowered =
        lower_program(&module, &session, ampere()).unwrap_or_else(|error| panic!("{}: {error}", error.code()));
    let (infos, ptx) = compile(&lowered);
    let plan = launch_plan(&lowered.module, &infos).unwrap_or_else(|error| panic!("{error}\n{}", lowered.module));
    let (x, y, w) = (values(0.5), values(-0.25), values(2.0));
    let expected = run_function(&module, "main", &[x.clone(), y.clone()], &|_| Some(w.clone()), Mode::Typed).unwrap();
    let parameters = lowered.constants.iter().cloned().chain([("w".to_owned(), w.clone())]);
    let executable = Arc::new(Executable::new(plan.clone(), ptx, parameters).unwrap());
    let device: Arc<dyn Device> = Arc::new(SimulatorDevice::default());
    let parameters = DeviceParameters::upload(&device, executable.parameters()).unwrap();
    let inputs = [("x".to_owned(), x), ("y".to_owned(), y)];
    let mut outputs = Vec::new();
    for placement in [Placement::Separate, Placement::Arena] {
        let instance = Instance::with_parameters(device.clone(), executable.clone(), parameters.clone(), placement);
        outputs = instance.unwrap().run(&inputs).unwrap().outputs;
        let tensors: Vec<_> = outputs.iter().map(|(_, tensor)| tensor.clone()).collect();
        assert_eq!(tensors, expected, "{placement:?}\n{}", lowered.module);
    }
    let text = lowered.module.print(PrintOptions { locations: true, generic: false });
    Ran { text, plan, sharing: lowered.sharing, memory: lowered.memory, outputs }
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn equal_kernels_are_compiled_once_and_buffers_reused() {
    let mut body = String::new();
    body += &add("a0", "k0", "x", "y", T);
    for index in 1..6 {
        body += &add(&format!("a{index}"), &format!("k{index}"), &format!("a{}", index - 1), "y", T);
    }
    // The same value twice is the same kernel.
    body += &add("a6", "k6", "a5", "a5", T);
    body += &format!("return %a6 : {T}");
    let ran = run(&main_function(&body, T));
    assert_eq!(ran.sharing, Sharing { launches: 7, lowered: 1, kernels: 1 });
    assert_eq!(count(&ran.text, "hw.kernel"), 1);
    assert_eq!(count(&ran.text, "hw.launch @k0"), 7);
    // Six intermediate values of 96 bytes, two alive at a time; the last value is the output.
    assert_eq!(ran.memory, MemoryUse { arena_bytes: 512, lower_bound: 512, sum: 6 * 256 });
    assert_eq!(ran.plan.buffers.len(), 6);
    assert_eq!(ran.plan.launch_count(), 7);
    assert_eq!(ran.plan.steps[3].source_nodes, ["k3"]);
    assert_eq!(ran.plan.buffers[2].name, "k2");
}

#[test]
fn tile_programs_that_agree_are_shared() {
    // 24 elements as 4x6 and as 24: different graphs, one pointwise program.
    let flat = "tensor<24xf32>";
    let body = add("a", "k0", "x", "y", T)
        + &format!("%f = graph.reshape %x {{shape = [24]}} : {T} -> {flat}\n")
        + &add("b", "k1", "f", "f", flat)
        + &format!("return %a, %b : {T}, {flat}");
    let ran = run(&main_function(&body, &format!("({T}, {flat})")));
    assert_eq!((ran.sharing.launches, ran.sharing.lowered), (2, 2));
    assert_eq!((ran.sharing.kernels, count(&ran.text, "hw.kernel")), (1, 1));
    assert_eq!(ran.plan.launch_count(), 2);
}

#[test]
fn kernels_that_differ_in_an_attribute_are_not_shared() {
    let subtract = add("b", "k1", "a", "y", T).replace("elementwise add", "elementwise subtract");
    let body = add("a", "k0", "x", "y", T) + &subtract + &format!("return %b : {T}");
    assert_eq!(run(&main_function(&body, T)).sharing.kernels, 2);
}

#[test]
fn views_take_no_step_and_no_memory() {
    let flat = "tensor<24xf32>";
    let cube = "tensor<2x3x4xf32>";
    let body = add("a", "k0", "x", "y", T)
        + &format!("%f = graph.reshape %a {{shape = [24]}} : {T} -> {flat}\n")
        + &format!("%c = graph.reshape %f {{shape = [2, 3, 4]}} : {flat} -> {cube}\n")
        + &add("d", "k1", "c", "c", cube)
        + &format!("return %d : {cube}");
    let ran = run(&main_function(&body, cube));
    assert_eq!(ran.plan.launch_count(), 2);
    assert_eq!(ran.plan.buffers.len(), 1);
    assert_eq!(ran.outputs[0].1.shape(), [2, 3, 4]);
}

#[test]
fn outputs_that_are_something_else_are_copied() {
    let flat = "tensor<24xf32>";
    let body = add("a", "k0", "x", "y", T)
        + &format!("%w = graph.get_parameter @w : {T}\n")
        + "%c = graph.constant dense<[1, 2, 3]> : tensor<3xi64> -> tensor<3xi64>\n"
        + &format!("%f = graph.reshape %a {{shape = [24]}} : {T} -> {flat}\n")
        + &format!("%g = graph.reshape %x {{shape = [24]}} : {T} -> {flat}\n")
        + &format!(
            "return %f, %a, %a, %x, %g, %w, %c, %c : {flat}, {T}, {T}, {T}, {flat}, {T}, tensor<3xi64>, tensor<3xi64>"
        );
    let results = format!("({flat}, {T}, {T}, {T}, {flat}, {T}, tensor<3xi64>, tensor<3xi64>)");
    let ran = run(&main_function(&body, &results));
    // The first output is the kernel's own; the seven others are copies.
    assert_eq!(ran.plan.launch_count(), 8);
    assert_eq!(ran.plan.steps.iter().filter(|step| matches!(step.operation, Operation::Copy(_))).count(), 7);
    assert_eq!(ran.outputs[0].0, "output0");
    assert_eq!(ran.plan.parameters.len(), 2);
    assert_eq!(ran.memory.arena_bytes, 0);
}

#[test]
fn equal_constants_are_one_parameter() {
    let constant = |name: &str, values: &str| {
        format!("%{name} = graph.constant dense<{values}> : tensor<2xi64> -> tensor<2xi64>\n")
    };
    let i64s = "tensor<2xi64>";
    let body = constant("a", "[1, 2]")
        + &constant("b", "[1, 2]")
        + &constant("c", "[3, 4]")
        + &add("s", "k0", "a", "b", i64s)
        + &add("t", "k1", "s", "c", i64s)
        + &format!("return %t : {i64s}");
    let ran = run(&main_function(&body, i64s));
    let names: Vec<_> = ran.plan.parameters.iter().map(|slot| slot.name.as_str()).collect();
    assert_eq!(names, ["constant_0", "constant_1"]);
    assert_eq!(ran.outputs[0].1.to_i64_vec().unwrap(), [5, 8]);
    // A weight that has the name already keeps it.
    let source = main_function(&body, i64s).replace("@w :", "@constant_0 :");
    let session = Session::new();
    let lowered = lower_program(&session.parse_module(&source, "test").unwrap(), &session, ampere()).unwrap();
    assert_eq!(
        lowered.constants.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["constant_1", "constant_2"]
    );
}

#[test]
fn tensors_without_elements_are_not_computed() {
    let empty = "tensor<0x6xf32>";
    let slice = format!(
        "%e = graph.kernel map \"k0\"(%x) : ({T}) -> {empty} {{
           ^bb0(%p: {T}):
             %r = graph.slice %p {{starts = [0, 0], sizes = [0, 6], steps = array<i64: 1, 1>}} : {T} -> {empty}
             graph.yield %r : {empty}
         }}\n"
    );
    let concat = format!(
        "%c = graph.kernel map \"k1\"(%e, %x) : ({empty}, {T}) -> {T} {{
           ^bb0(%p: {empty}, %q: {T}):
             %r = graph.concat(%p, %q) {{axis = 0 : i64}} : ({empty}, {T}) -> {T}
             graph.yield %r : {T}
         }}\n"
    );
    let ran = run(&main_function(&format!("{slice}{concat}return %c : {T}"), T));
    assert_eq!(ran.plan.launch_count(), 1);
    let ran = run(&main_function(&format!("{slice}return %e, %e : {empty}, {empty}"), &format!("({empty}, {empty})")));
    assert_eq!(ran.plan.launch_count(), 0);
    assert_eq!(ran.outputs[1].1.shape(), [0, 6]);
}

#[test]
fn a_dump_gives_the_same_plan_with_and_without_locations() {
    let body = add("a", "k0", "x", "y", T) + &add("b", "k1", "a", "x", T) + &format!("return %b : {T}");
    let session = Session::new();
    let lowered =
        lower_program(&session.parse_module(&main_function(&body, T), "t").unwrap(), &session, ampere()).unwrap();
    let infos = [KernelInfo { name: "k0".into(), threads: 128, shared_bytes: 64 }];
    let plan = launch_plan(&lowered.module, &infos).unwrap();
    for locations in [true, false] {
        let text = lowered.module.print(PrintOptions { locations, generic: false });
        let again = session.parse_module(&text, "dump").unwrap();
        assert_eq!(again.print(PrintOptions { locations, generic: false }), text);
        let mut read = launch_plan(&again, &infos).unwrap();
        if !locations {
            read.buffers[0].name = plan.buffers[0].name.clone();
        }
        assert_eq!(read, plan);
    }
    let Operation::Launch(launch) = &plan.steps[1].operation else { panic!("the second step is a launch") };
    assert_eq!((launch.block, launch.dynamic_shared_bytes), ([128, 1, 1], 64));
    assert_eq!(launch.arguments, [Argument::Buffer(0), Argument::Input(0), Argument::Output(0)]);
    assert_eq!(LaunchPlan::from_json(&plan.to_json().unwrap()).unwrap(), plan);
}

#[test]
fn a_module_of_another_session_can_be_lowered() {
    let body = add("a", "k0", "x", "y", T) + &format!("return %a : {T}");
    let (session, other) = (Session::new(), Session::new());
    let module = other.parse_module(&main_function(&body, T), "test").unwrap();
    let lowered = lower_program(&module, &session, ampere()).unwrap();
    assert!(lowered.module.print(PrintOptions { locations: true, generic: false }).contains("loc(\"k0\")"));
}

fn refusal(source: &str) -> (&'static str, String) {
    let session = Session::new();
    let module = session.parse_module(source, "test").unwrap();
    let error = lower_program(&module, &session, ampere()).err().unwrap();
    assert!(error.help().is_some());
    (error.code(), error.to_string())
}

#[test]
fn modules_without_a_program_are_refused() {
    assert_eq!(refusal("module {}").0, "E0550");
    let code = |body: &str| refusal(&main_function(body, T));
    let (code_, message) =
        code(&format!("%a = graph.elementwise add(%x, %y) : ({T}, {T}) -> {T} loc(\"n7\")\nreturn %a : {T}"));
    assert_eq!(code_, "E0550");
    assert!(message.starts_with("node `n7`: `graph.elementwise` cannot stand in `@main`"), "{message}");
    assert_eq!(code(&format!("%a = graph.get_parameter @v : {T}\nreturn %a : {T}")).0, "E0550");
    assert_eq!(refusal("module { func.func private @other() }").0, "E0550");
    assert_eq!(refusal(&main_function(&format!("return %x : {T}"), T).replace("\"y\"", "\"x\"")).0, "E0551");
    let dynamic =
        main_function("return %x : TT", "TT").replace(T, "TT").replace("TT", "tensor<?x6xf32, {dims = [\"n\", 6]}>");
    assert_eq!(refusal(&dynamic.replace("graph.parameter @w : tensor<?x6xf32, {dims = [\"n\", 6]}>", "")).0, "E0552");
    let ordered = "tensor<4x6xf32, {order = [1, 0]}>";
    assert_eq!(refusal(&main_function(&format!("return %x : {T}"), T).replace(T, ordered)).0, "E0552");
    // The kernel's own refusal comes through.
    let unknown = add("a", "k0", "x", "y", T).replace("graph.kernel map", "graph.kernel unheard_of");
    assert_eq!(code(&format!("{unknown}return %a : {T}")).0, "E0501");
    // Five values of 2^62 bytes, all alive.
    let huge = "tensor<1152921504606846976xf32>";
    let kernels: String = (0..5).map(|index| add(&format!("a{index}"), "k", "x", "y", huge)).collect();
    let uses: String = (0..5).map(|index| add(&format!("b{index}"), "k", &format!("a{index}"), "a0", huge)).collect();
    assert_eq!(
        refusal(&main_function(&format!("{kernels}{uses}return %b4 : {huge}"), huge).replace(T, huge)).0,
        "E0553"
    );
}

#[test]
fn edited_programs_are_refused() {
    let body = add("a", "k0", "x", "y", T) + &add("b", "k1", "a", "x", T) + &format!("return %b : {T}");
    let session = Session::new();
    let lowered =
        lower_program(&session.parse_module(&main_function(&body, T), "t").unwrap(), &session, ampere()).unwrap();
    let text = lowered.module.to_string();
    let infos = [KernelInfo { name: "k0".into(), threads: 128, shared_bytes: 0 }];
    let edited = |from: &str, to: &str| {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "`{from}` is in\n{text}");
        let module = session.parse_module(&changed, "edited").unwrap();
        let error = launch_plan(&module, &infos).unwrap_err();
        assert!(error.help().is_some());
        error.code()
    };
    assert_eq!(edited("hw.launch @k0 ", "hw.launch @k9 "), "E0555");
    assert_eq!(edited(" {output}", ""), "E0554");
    assert_eq!(edited("hw.return\n  }\n}", "hw.barrier\n hw.return }\n}"), "E0554");
    assert_eq!(edited("offset 0 bytes 96 alive 0 to 1 :", "offset -1 bytes 96 alive 0 to 1 :"), "E0554");
    assert_eq!(edited("offset 0 bytes 96 alive 0 to 1 :", "offset 512 bytes 96 alive 0 to 1 :"), "E0704");
    assert_eq!(edited("alive 0 to 1 :", "alive 0 to 0 :"), "E0704");
    assert_eq!(edited(" grid [1, 1, 1](", " grid [0, 1, 1]("), "E0703");
    let two = "module { hw.program @a arena 0 { hw.return } hw.program @b arena 0 { hw.return } }";
    assert_eq!(launch_plan(&session.parse_module(two, "two").unwrap(), &[]).unwrap_err().code(), "E0554");
}

/// A launch describes the tensor maps of its kernel; what an edit broke is refused.
#[test]
fn tensor_maps_are_arguments_of_launches() {
    const H: &str = "tensor<64x64xf16>";
    let source = format!(
        "module {{ func.func @main(%x: {H}, %y: {H}) -> {H} {{
           %c = graph.kernel contract \"k0\"(%x, %y) : ({H}, {H}) -> {H} {{
             ^bb0(%p: {H}, %q: {H}):
               %r = graph.contract \"mk,nk->mn\"(%p, %q) accumulate f32 : ({H}, {H}) -> {H}
               graph.yield %r : {H}
           }} loc(\"product\")
           return %c : {H}
         }} }}"
    );
    let session = Session::new();
    let module = session.parse_module(&source, "test").unwrap();
    // Of one multiprocessor, for which the largest tile is the best.
    let target = Target::find("sm_90a").unwrap();
    let mut gpu = target.gpu.clone();
    gpu.sms = 1;
    let target = Target { gpu: Box::leak(Box::new(gpu)), architecture: target.architecture };
    let lowered = lower_program(&module, &session, &target).unwrap();
    let infos = [KernelInfo { name: "k0".into(), threads: 160, shared_bytes: 0 }];
    let plan = launch_plan(&lowered.module, &infos).unwrap();
    let Operation::Launch(launch) = &plan.steps[0].operation else { panic!("{plan:?}") };
    let map = |index: usize| match &launch.arguments[index] {
        Argument::TensorMap(map) => map.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(launch.arguments.len(), 5);
    assert_eq!((map(3).place, map(4).place), (Place::Input(0), Place::Input(1)));
    assert_eq!((map(3).dtype, map(3).tile, map(3).swizzle), (DType::F16, vec![64, 64], 128));
    assert_eq!((map(3).sizes, map(3).strides), (vec![64.into(), 64.into()], vec![128.into()]));
    assert_eq!(LaunchPlan::from_json(&plan.to_json().unwrap()).unwrap(), plan);
    let text = lowered.module.to_string();
    let edited = |from: &str, to: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "`{from}` is in\n{text}");
        let module = session.parse_module(&changed, "edited").unwrap();
        launch_plan(&module, &infos).unwrap_err().code()
    };
    assert_eq!(edited("buffer = 0 : i64", "buffer = 7 : i64"), "E0554");
    assert_eq!(edited("buffer = 0 : i64", "other = 0 : i64"), "E0554");
    assert_eq!(edited("strides = [128]", "strides = [true]"), "E0554");
    assert_eq!(edited("strides = [128]", "strides = [\"q\"]"), "E0703");
    assert_eq!(edited("strides = [128]", "strides = [256]"), "E0703");
    assert_eq!(edited("swizzle = 128 : i64", "swizzle = 48 : i64"), "E0703");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Random graphs of one kernel and views, run in one arena: a wrong lifetime would spoil a value.
    #[test]
    fn random_graphs_keep_their_values(
        edges in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()), 1..25),
        returned in proptest::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let flat = "tensor<24xf32>";
        let mut body = String::new();
        let mut names = vec!["x".to_owned(), "y".to_owned()];
        for (index, (a, b, view)) in edges.iter().enumerate() {
            let (a, b) = (a.get(&names), b.get(&names));
            let mut left = a.clone();
            if *view {
                left = format!("v{index}");
                body += &format!("%u{index} = graph.reshape %{a} {{shape = [24]}} : {T} -> {flat}\n");
                body += &format!("%{left} = graph.reshape %u{index} {{shape = [4, 6]}} : {flat} -> {T}\n");
            }
            body += &add(&format!("a{index}"), &format!("k{index}"), &left, b, T);
            names.push(format!("a{index}"));
        }
        let outputs: Vec<_> = returned.iter().map(|index| format!("%{}", index.get(&names))).collect();
        let types = vec![T; outputs.len()].join(", ");
        body += &format!("return {} : {types}", outputs.join(", "));
        let ran = run(&main_function(&body, &format!("({types})")));
        prop_assert_eq!(ran.sharing.kernels, 1);
        prop_assert!(ran.memory.lower_bound <= ran.memory.arena_bytes && ran.memory.arena_bytes <= ran.memory.sum);
    }
}

#[test]
fn bool_and_narrow_outputs_keep_their_types() {
    let mask = "tensor<4x6xi1>";
    let body = format!(
        "%m = graph.kernel map \"k0\"(%x, %y) : ({T}, {T}) -> {mask} {{
           ^bb0(%p: {T}, %q: {T}):
             %r = graph.elementwise less(%p, %q) : ({T}, {T}) -> {mask}
             graph.yield %r : {mask}
         }}
         return %m : {mask}"
    );
    let ran = run(&main_function(&body, mask));
    assert_eq!(ran.outputs[0].1.dtype(), DType::Bool);
}

/// A loop that carries `a` and `b`, the sums that its body computes in this order, while the elements of the next `a` sum to less than 100.
fn repeated(body: &str) -> String {
    let small = |result: &str, kernel: &str, of: &str| {
        format!(
            "%{result} = graph.kernel reduce \"{kernel}\"(%{of}) : ({T}) -> tensor<i1> {{
               ^bb0(%p: {T}):
                 %limit = graph.constant dense<100.0> : tensor<f32> -> tensor<f32>
                 %s = graph.reduce sum(%p) {{axes = array<i64: 0, 1>}} : ({T}) -> tensor<f32>
                 %r = graph.elementwise less(%s, %limit) : (tensor<f32>, tensor<f32>) -> tensor<i1>
                 graph.yield %r : tensor<i1>
             }}\n"
        )
    };
    let (first, next) = (small("c0", "first", "x"), small("c1", "next", "m"));
    main_function(
        &format!(
            "{first} %l:2 = flow.loop while(%c0 : tensor<i1>) carry(%x, %y : {T}, {T}) -> ({T}, {T}) {{
               ^bb0(%i: tensor<i64>, %a: {T}, %b: {T}):
                 {body} {next}
                 flow.yield %c1, %m, %n : tensor<i1>, {T}, {T}
             }}
             return %l#0, %l#1 : {T}, {T}"
        ),
        &format!("({T}, {T})"),
    )
}

/// What a body yields is computed where the loop carries it, unless the body still reads the value that lies there.
#[test]
fn carried_values_are_overwritten_when_nothing_reads_them_any_more() {
    let (sum, fresh) = (add("m", "sum", "a", "b", T), add("n", "fresh", "x", "x", T));
    // The first values are copied into the loop; inside, the sum is copied, since it reads what it would overwrite.
    let safe = run(&repeated(&format!("{sum}{fresh}")));
    assert_eq!(count(&safe.text, "hw.copy"), 3 + 1, "{}", safe.text);
    let read_later = run(&repeated(&format!("{fresh}{sum}")));
    assert_eq!(count(&read_later.text, "hw.copy"), 3 + 2, "{}", read_later.text);
    assert!(safe.outputs[0].1.iter_f64().unwrap().sum::<f64>() >= 100.0);
}

/// A branch computes its results where they are wanted; what is no kernel's own is copied there.
#[test]
fn branches_compute_their_results_in_place() {
    let choice = |then: &str, yielded: &str| {
        let condition = "%c = graph.constant dense<true> : tensor<i1> -> tensor<i1>\n";
        let body = format!(
            "{condition} %r = flow.if %c : tensor<i1> -> ({T}) {{ {then} flow.yield %{yielded} : {T} }} else {{ flow.yield %y : {T} }}
             return %r : {T}"
        );
        count(&run(&main_function(&body, T)).text, "hw.copy")
    };
    assert_eq!(choice(&add("m", "sum", "x", "y", T), "m"), 1);
    assert_eq!(choice("", "x"), 2);
}

/// `%result = graph.concat` beside kernels, of values of type [`T`].
fn concat(result: &str, parts: &[&str], ty: &str, axis: i64, whole: &str) -> String {
    let (names, types) = (parts.join(", %"), vec![ty; parts.len()].join(", "));
    format!("%{result} = graph.concat(%{names}) {{axis = {axis} : i64}} : ({types}) -> {whole} loc(\"{result}\")\n")
}

/// Kernels write the parts of a concatenation where they lie: it takes no step, one buffer, and kernels that differ by their place alone are one.
#[test]
fn parts_of_a_concatenation_are_written_where_they_lie() {
    for (axis, whole) in [(0, "tensor<12x6xf32>"), (1, "tensor<4x18xf32>"), (-1, "tensor<4x18xf32>")] {
        let body = ["a", "b", "c"].map(|name| add(name, &format!("k_{name}"), "x", "y", T)).concat()
            + &concat("whole", &["a", "b", "c"], T, axis, whole)
            + &add("sum", "k_sum", "whole", "whole", whole)
            + &format!("return %sum : {whole}");
        let ran = run(&main_function(&body, whole));
        assert_eq!((ran.plan.launch_count(), ran.plan.steps.len(), ran.plan.buffers.len()), (4, 4, 1), "{}", ran.text);
        // The first part begins at 0, which costs no addition; the others differ by an argument; the sum reads.
        assert_eq!((ran.sharing.launches, ran.sharing.kernels), (4, 3), "{}", ran.text);
        let Operation::Launch(launch) = &ran.plan.steps[1].operation else { panic!("{:?}", ran.plan.steps[1]) };
        assert!(matches!(launch.arguments.last(), Some(Argument::Extent(_))), "{launch:?}");
    }
}

/// Concatenations of concatenations, with a reshape between, as an output.
#[test]
fn parts_of_parts_lie_in_one_buffer() {
    let (pair, cube) = ("tensor<8x6xf32>", "tensor<2x4x6xf32>");
    let whole = "tensor<2x8x6xf32>";
    let body = ["a", "b", "c", "d"].map(|name| add(name, &format!("k_{name}"), "x", "y", T)).concat()
        + &concat("p", &["a", "b"], T, 0, pair)
        + &concat("q", &["c", "d"], T, 0, pair)
        + &format!("%r = graph.reshape %p {{shape = [2, 4, 6]}} : {pair} -> {cube}\n")
        + &format!("%s = graph.reshape %q {{shape = [2, 4, 6]}} : {pair} -> {cube}\n")
        + &concat("whole", &["r", "s"], cube, 1, whole)
        + &format!("return %whole : {whole}");
    let ran = run(&main_function(&body, whole));
    assert_eq!((ran.plan.launch_count(), ran.plan.steps.len(), ran.plan.buffers.len()), (4, 4, 0), "{}", ran.text);
}

/// A value that something else reads too, or that no kernel gives, cannot lie in a concatenation.
#[test]
fn concatenations_of_other_values_are_refused() {
    let whole = "tensor<8x6xf32>";
    for body in [
        add("a", "k0", "x", "y", T) + &concat("c", &["a", "x"], T, 0, whole) + &format!("return %c : {whole}"),
        add("a", "k0", "x", "y", T) + &concat("c", &["a", "a"], T, 0, whole) + &format!("return %c : {whole}"),
        add("a", "k0", "x", "y", T)
            + &add("b", "k1", "x", "a", T)
            + &concat("c", &["a", "b"], T, 0, whole)
            + &format!("return %c : {whole}"),
    ] {
        let session = Session::new();
        let module = session.parse_module(&main_function(&body, whole), "test").unwrap();
        let error = lower_program(&module, &session, ampere()).map(|_| ()).unwrap_err();
        assert_eq!(error.code(), "E0550");
        assert!(error.to_string().contains("that nothing else reads"), "{error}");
    }
}
