//! Plans with hand-written PTX on the simulator: values, counters, memory, and every refusal by its code.

use std::sync::Arc;

use tenon_runtime::device::{Allocation, KernelArgument, KernelLaunch, ModuleHandle, Stream};
use tenon_runtime::plan::{
    Argument, Buffer, Copy, Expr, Launch, MemoryKind, Memset, Operation, Place, Step, TensorSlot,
};
use tenon_runtime::*;
use tenon_tensor::{DType, Tensor};

/// `add`: z[i] = x[i] + w[i % 8]; `relu`: y[i] = max(x[i], 0); one block of 32 threads each. `beyond`: reads x[i + 32].
/// `twos`: writes the byte 2 to y[i].
const PTX: &str = "
.version 7.8
.target sm_80
.address_size 64
.visible .entry add(.param .u64 px, .param .u64 pw, .param .u64 pz) {
    .reg .b32 %r<4>; .reg .b64 %rd<9>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [px];
    ld.param.u64 %rd2, [pw];
    ld.param.u64 %rd3, [pz];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 7;
    mul.wide.u32 %rd4, %r1, 4;
    mul.wide.u32 %rd5, %r2, 4;
    add.s64 %rd6, %rd1, %rd4;
    add.s64 %rd7, %rd2, %rd5;
    add.s64 %rd8, %rd3, %rd4;
    ld.global.f32 %f1, [%rd6];
    ld.global.f32 %f2, [%rd7];
    add.rn.f32 %f3, %f1, %f2;
    st.global.f32 [%rd8], %f3;
    ret;
}
.visible .entry relu(.param .u64 px, .param .u64 py) {
    .reg .b32 %r<2>; .reg .b64 %rd<6>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [px];
    ld.param.u64 %rd2, [py];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    mov.f32 %f2, 0f00000000;
    max.f32 %f3, %f1, %f2;
    st.global.f32 [%rd5], %f3;
    ret;
}
.visible .entry beyond(.param .u64 px, .param .u64 py) {
    .reg .b32 %r<2>; .reg .b64 %rd<6>; .reg .f32 %f<2>;
    ld.param.u64 %rd1, [px];
    ld.param.u64 %rd2, [py];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4+128];
    st.global.f32 [%rd5], %f1;
    ret;
}
.visible .entry twos(.param .u64 py, .param .u64 n) {
    .reg .b32 %r<3>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [py];
    mov.u32 %r1, %tid.x;
    cvt.u64.u32 %rd2, %r1;
    add.s64 %rd3, %rd1, %rd2;
    mov.u32 %r2, 2;
    st.global.u8 [%rd3], %r2;
    ret;
}
";

fn launch(entry: &str, arguments: Vec<Argument>) -> Step {
    let launch = Launch {
        entry: entry.to_owned(),
        grid: [Expr::Number(1), Expr::Number(1), Expr::Number(1)],
        block: [32, 1, 1],
        dynamic_shared_bytes: 0,
        cluster: None,
        arguments,
    };
    Step { stream: 0, source_nodes: vec![format!("/{entry}")], operation: Operation::Launch(launch) }
}

fn matrix(name: &str) -> TensorSlot {
    TensorSlot::new(name, DType::F32, &[4, 8])
}

fn buffer(offset: u64, first: u32, last: u32) -> Buffer {
    Buffer {
        name: "sum".into(),
        dtype: DType::F32,
        shape: vec![4, 8],
        offset,
        bytes: 128,
        alignment: 128,
        first,
        last,
        memory: MemoryKind::Device,
        zeroed: false,
    }
}

/// y = relu(x + w), with x + w in the arena.
fn plan() -> LaunchPlan {
    let mut plan = LaunchPlan::new("main");
    plan.arena_bytes = 128;
    plan.inputs.push(matrix("x"));
    plan.parameters.push(TensorSlot::new("w", DType::F32, &[8]));
    plan.outputs.push(matrix("y"));
    plan.buffers.push(buffer(0, 0, 1));
    plan.steps.push(launch("add", vec![Argument::Input(0), Argument::Parameter(0), Argument::Buffer(0)]));
    plan.steps.push(launch("relu", vec![Argument::Buffer(0), Argument::Output(0)]));
    plan
}

fn weights() -> Tensor {
    Tensor::from_f32(vec![8], &[0.5, -1.0, 2.0, -3.0, 0.0, 4.0, -0.25, 1.0]).unwrap()
}

fn x(scale: f32) -> Tensor {
    Tensor::from_f32(vec![4, 8], &(0..32).map(|i| (i as f32 - 16.0) * scale).collect::<Vec<_>>()).unwrap()
}

fn expected(scale: f32) -> Vec<f32> {
    let w = weights().to_f32_vec().unwrap();
    x(scale).to_f32_vec().unwrap().iter().enumerate().map(|(i, x)| (x + w[i % 8]).max(0.0)).collect()
}

fn executable(plan: LaunchPlan) -> Arc<Executable> {
    Arc::new(Executable::new(plan, vec![PTX.to_owned()], [("w".to_owned(), weights())]).unwrap())
}

fn instance(plan: LaunchPlan) -> Result<Instance, RuntimeError> {
    Instance::new(Arc::new(SimulatorDevice::default()), executable(plan))
}

fn run_error(plan: LaunchPlan, inputs: &[(String, Tensor)]) -> RuntimeError {
    instance(plan).unwrap().run(inputs).unwrap_err()
}

#[test]
fn values_are_right_in_an_arena_and_apart_and_under_any_schedule() {
    let executable = executable(plan());
    for placement in [Placement::Arena, Placement::Separate] {
        for seed in [0, 1, 7, 12345] {
            let options = SimulatorOptions { seed, threads: 1, ..SimulatorOptions::default() };
            let device: Arc<dyn Device> = Arc::new(SimulatorDevice::new(options));
            let parameters = DeviceParameters::upload(&device, executable.parameters()).unwrap();
            let mut instance =
                Instance::with_parameters(device, Arc::clone(&executable), parameters, placement).unwrap();
            for scale in [0.25, -3.0, 0.25] {
                let result = instance.run(&[("x".to_owned(), x(scale))]).unwrap();
                assert_eq!(result.outputs.len(), 1);
                assert_eq!(result.outputs[0].0, "y");
                assert_eq!(result.outputs[0].1.shape(), [4, 8]);
                assert_eq!(result.outputs[0].1.to_f32_vec().unwrap(), expected(scale));
            }
        }
    }
}

#[test]
fn a_run_reports_its_steps_and_counters() {
    let result = instance(plan()).unwrap().run(&[("x".to_owned(), x(1.0))]).unwrap();
    assert_eq!(result.launches, 2);
    assert_eq!(result.steps.len(), 2);
    assert_eq!(result.steps[1].entry.as_deref(), Some("relu"));
    assert_eq!(result.steps[1].source_nodes, ["/relu"]);
    // One warp; 128 bytes are four sectors, read and written; `add` reads one more of weights.
    let sectors: Vec<_> = result.steps.iter().map(|step| step.counters.as_ref().unwrap().global_sectors).collect();
    assert_eq!(sectors, [9, 8]);
    assert_eq!(result.steps[1].counters.as_ref().unwrap().lane_instructions, 32 * 11);
}

#[test]
fn copies_fills_and_empty_tensors() {
    let mut plan = plan();
    plan.outputs.push(matrix("copy"));
    plan.outputs.push(TensorSlot::new("ones", DType::U8, &[5]));
    plan.outputs.push(TensorSlot::new("empty", DType::F32, &[0, 3]));
    plan.inputs.push(TensorSlot::new("nothing", DType::I64, &[2, 0]));
    let copy = Copy { source: Place::Input(0), target: Place::Output(1), bytes: 128.into() };
    plan.steps.push(Step::new(Operation::Copy(copy)));
    plan.steps.push(Step::new(Operation::Memset(Memset { target: Place::Output(2), byte: 1, bytes: 5.into() })));
    let nothing = Tensor::zeros(DType::I64, vec![2, 0]).unwrap();
    let inputs = [("nothing".to_owned(), nothing), ("x".to_owned(), x(2.0))];
    let result = instance(plan).unwrap().run(&inputs).unwrap();
    assert_eq!(result.launches, 4);
    assert_eq!(result.outputs[1].1, x(2.0));
    assert_eq!(result.outputs[2].1.bytes(), [1; 5]);
    assert_eq!(result.outputs[3].1.shape(), [0, 3]);
}

#[test]
fn memory_is_given_back_and_weights_are_shared() {
    let simulator = Arc::new(SimulatorDevice::default());
    let device: Arc<dyn Device> = simulator.clone();
    let executable = executable(plan());
    let parameters = DeviceParameters::upload(&device, executable.parameters()).unwrap();
    assert_eq!(simulator.bytes_in_use(), 32);
    let make =
        || Instance::with_parameters(device.clone(), executable.clone(), parameters.clone(), Placement::Arena).unwrap();
    let (mut first, mut second) = (make(), make());
    assert_eq!(simulator.bytes_in_use(), 32 + 2 * 3 * 128);
    for instance in [&mut first, &mut second] {
        assert_eq!(
            instance.run(&[("x".to_owned(), x(1.0))]).unwrap().outputs[0].1.to_f32_vec().unwrap(),
            expected(1.0)
        );
    }
    drop((first, second));
    assert_eq!(simulator.bytes_in_use(), 32);
    drop(parameters);
    assert_eq!(simulator.bytes_in_use(), 0);
}

#[test]
fn wrong_inputs_are_refused_before_anything_runs() {
    let mut instance = instance(plan()).unwrap();
    let mut refusal = |inputs: &[(&str, Tensor)]| {
        let inputs: Vec<_> = inputs.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
        let error = instance.run(&inputs).unwrap_err();
        assert!(error.help().is_some());
        (error.code(), error.to_string())
    };
    assert_eq!(refusal(&[]), ("E0710", "input `x` is missing: expected f32[4, 8]".to_owned()));
    let (code, message) = refusal(&[("x", x(1.0)), ("y", x(1.0))]);
    assert_eq!((code, message.as_str()), ("E0711", "the model has no input `y`; it has `x`"));
    assert_eq!(refusal(&[("x", x(1.0)), ("x", x(1.0))]).0, "E0712");
    let (code, message) = refusal(&[("x", Tensor::zeros(DType::F16, vec![4, 8]).unwrap())]);
    assert_eq!((code, message.as_str()), ("E0713", "input `x` must be f32, found f16"));
    let (code, message) = refusal(&[("x", Tensor::zeros(DType::F32, vec![32]).unwrap())]);
    assert_eq!((code, message.as_str()), ("E0714", "input `x` must have 2 dimensions ([4, 8]), found 1 ([32])"));
    let (code, message) = refusal(&[("x", Tensor::zeros(DType::F32, vec![4, 9]).unwrap())]);
    assert_eq!(code, "E0715");
    assert!(message.starts_with("dimension 1 of input `x` must be 8, found 9"), "{message}");
    assert_eq!(instance.run(&[("x".to_owned(), x(1.0))]).unwrap().outputs[0].1.to_f32_vec().unwrap(), expected(1.0));
}

#[test]
fn executables_that_do_not_fit_are_refused() {
    let make = |plan: LaunchPlan, weights: Vec<(String, Tensor)>| {
        Executable::new(plan, vec![PTX.to_owned()], weights).unwrap_err()
    };
    let error = make(plan(), vec![]);
    assert_eq!((error.code(), error.to_string().as_str()), ("E0706", "weight `w`: expected f32[8], found nothing"));
    let error = make(plan(), vec![("w".to_owned(), x(1.0))]);
    assert_eq!((error.code(), error.to_string().as_str()), ("E0706", "weight `w`: expected f32[8], found f32[4, 8]"));
    let mut wrong = plan();
    wrong.steps[0].stream = 1;
    let error = make(wrong, vec![("w".to_owned(), weights())]);
    assert_eq!(error.code(), "E0704");
    assert!(error.to_string().contains("step 0 on stream 1 may still use it: no event stands between"), "{error}");
    let mut wrong = plan();
    wrong.arena_bytes = 0;
    assert_eq!(make(wrong, vec![("w".to_owned(), weights())]).code(), "E0704");

    let mut wrong = plan();
    wrong.steps.push(launch("gelu", vec![]));
    let error = instance(wrong).err().unwrap();
    assert_eq!(error.code(), "E0707");
    assert!(error.to_string().contains("step 2 launches `gelu`"), "{error}");

    let broken = Executable::new(plan(), vec![PTX.replace("ret;", "retreat;")], [("w".to_owned(), weights())]).unwrap();
    let error = Instance::new(Arc::new(SimulatorDevice::default()), Arc::new(broken)).err().unwrap();
    assert!(error.code().starts_with("E080"), "{} {error}", error.code());
}

#[test]
fn a_step_that_fails_names_itself_and_its_nodes() {
    let mut wrong = plan();
    wrong.steps[1] = launch("beyond", vec![Argument::Buffer(0), Argument::Output(0)]);
    let error = run_error(wrong, &[("x".to_owned(), x(1.0))]);
    assert_eq!(error.code(), "E0810");
    assert!(error.to_string().starts_with("step 1 (beyond, node `/beyond`): out-of-bounds-global"), "{error}");

    let mut wrong = plan();
    wrong.steps[1] = launch("relu", vec![Argument::Buffer(0)]);
    wrong.steps.push(launch("relu", vec![Argument::Input(0), Argument::Output(0)]));
    assert_eq!(run_error(wrong, &[("x".to_owned(), x(1.0))]).code(), "E0804");
}

#[test]
fn reading_what_nothing_wrote_is_caught() {
    let mut wrong = plan();
    wrong.steps.remove(0);
    wrong.buffers[0] = buffer(0, 0, 0);
    assert_eq!(run_error(wrong, &[("x".to_owned(), x(1.0))]).code(), "E0818");
}

#[test]
fn an_output_with_impossible_values_is_refused() {
    let mut wrong = plan();
    wrong.outputs.push(TensorSlot::new("mask", DType::Bool, &[32]));
    wrong.steps.push(launch("twos", vec![Argument::Output(1), Argument::Extent(Expr::Number(32))]));
    let error = run_error(wrong, &[("x".to_owned(), x(1.0))]);
    assert_eq!(error.code(), "E0716");
    assert!(error.to_string().starts_with("output `mask`: "), "{error}");
}

#[test]
fn too_little_memory_is_a_coded_error() {
    let with_memory = |plan: LaunchPlan, memory_bytes: u64| {
        let device = SimulatorDevice::new(SimulatorOptions { memory_bytes, ..SimulatorOptions::default() });
        Instance::new(Arc::new(device), executable(plan)).err()
    };
    let needed = 32 + 3 * 128;
    assert!(with_memory(plan(), needed).is_none());
    let error = with_memory(plan(), needed - 1).unwrap();
    assert_eq!(error.code(), "E0720");
    assert_eq!(error.to_string(), "simulator has no 128 bytes left: 288 of 415 are in use");
    // An input that no machine could hold.
    let mut huge = plan();
    huge.inputs.push(TensorSlot::new("huge", DType::F32, &[1 << 60]));
    assert_eq!(with_memory(huge, u64::MAX).unwrap().code(), "E0720");
}

#[test]
fn the_device_checks_what_it_is_given() {
    let device: Arc<dyn Device> = Arc::new(SimulatorDevice::default());
    let stream = Stream::default();
    let memory = Allocation::new(&device, 16).unwrap();
    let pointer = memory.pointer();
    device.upload(pointer.offset(8), &[1; 8], stream).unwrap();
    assert_eq!(device.upload(pointer.offset(9), &[1; 8], stream).unwrap_err().code(), "E0721");
    assert_eq!(device.download(pointer, &mut [0; 17], stream).unwrap_err().code(), "E0721");
    assert_eq!(device.memset(pointer, 0, 17, stream).unwrap_err().code(), "E0721");
    assert_eq!(device.copy(pointer, pointer.offset(4), 8, stream).unwrap_err().code(), "E0721");
    assert_eq!(device.free(pointer.offset(1)).unwrap_err().code(), "E0721");
    assert_eq!(device.unload_module(ModuleHandle(9)).unwrap_err().code(), "E0721");
    let module = device.load_module(PTX).unwrap();
    assert_eq!(device.kernel(module, "gelu").unwrap(), None);
    let kernel = device.kernel(module, "relu").unwrap().unwrap();
    let arguments = [KernelArgument::Pointer(pointer), KernelArgument::Pointer(pointer)];
    let mut launch = KernelLaunch {
        kernel,
        grid: [1; 3],
        block: [2, 1, 1],
        dynamic_shared_bytes: 0,
        cluster: None,
        arguments: &arguments,
    };
    device.memset(pointer, 0xbf, 16, stream).unwrap();
    assert!(device.launch(&launch, stream).unwrap().is_some());
    launch.cluster = Some([2, 1, 1]);
    assert_eq!(device.launch(&launch, stream).unwrap_err().code(), "E0722");
    device.unload_module(module).unwrap();
    launch.cluster = None;
    assert_eq!(device.launch(&launch, stream).unwrap_err().code(), "E0721");
    let mut bytes = [0; 16];
    device.download(pointer, &mut bytes, stream).unwrap();
    // The two floats were negative; the rest was not touched.
    assert_eq!(bytes[..8], [0; 8]);
    assert_eq!(bytes[8..], [0xbf; 8]);
}

/// By a seed, copies of other streams are done when something waits for them, so that a missing event shows in the values.
#[test]
fn copies_of_other_streams_are_as_late_as_events_allow() {
    let copied = |seed: u64, with_event: bool| {
        let device: Arc<dyn Device> =
            Arc::new(SimulatorDevice::new(SimulatorOptions { seed, ..SimulatorOptions::default() }));
        let (source, target) = (Allocation::new(&device, 4).unwrap(), Allocation::new(&device, 4).unwrap());
        let (first, second, third) = (Stream::default(), Stream(1), Stream(2));
        device.memset(source.pointer(), 1, 4, first).unwrap();
        device.record_event(1, first).unwrap();
        device.wait_event(1, second).unwrap();
        device.copy(source.pointer(), target.pointer(), 4, second).unwrap();
        device.record_event(2, second).unwrap();
        if with_event {
            // By way of a third stream.
            device.wait_event(2, third).unwrap();
            device.record_event(3, third).unwrap();
            device.wait_event(3, first).unwrap();
        }
        device.memset(source.pointer(), 2, 4, first).unwrap();
        device.synchronize().unwrap();
        let mut bytes = [0; 4];
        device.download(target.pointer(), &mut bytes, first).unwrap();
        bytes[0]
    };
    assert_eq!((copied(0, true), copied(9, true), copied(0, false), copied(9, false)), (1, 1, 1, 2));
    let device = SimulatorDevice::new(SimulatorOptions { seed: 9, ..SimulatorOptions::default() });
    assert_eq!(device.wait_event(5, Stream(1)).unwrap_err().code(), "E0721");
    assert_eq!(device.memset(device.allocate(4).unwrap(), 0, 5, Stream(1)).unwrap_err().code(), "E0721");
}
