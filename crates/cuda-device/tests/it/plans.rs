//! Plans that the tests run, with their PTX.

use std::sync::Arc;

use tenon_cuda_device::CudaDevice;
use tenon_runtime::plan::{
    Argument, Buffer, Conditional, Copy, EventMark, Expr, Launch, MemoryKind, Memset, Operation, Place, Step,
    TensorSlot,
};
use tenon_runtime::*;
use tenon_tensor::{DType, Tensor};

/// `transpose`: y[c, r] = x[r, c] + w[0], by way of shared memory of the launch; `fill`: y[i] = n; `beyond`: reads far outside of x.
pub const PTX: &str = "
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 scratch[];
.visible .entry transpose(.param .u64 .ptr .global .align 1 px, .param .u64 pw, .param .u64 py, .param .u64 rows, .param .u64 columns) {
    .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<16>; .reg .f32 %f<5>;
    ld.param.u64 %rd1, [px];
    ld.param.u64 %rd15, [pw];
    ld.param.u64 %rd2, [py];
    ld.param.u64 %rd3, [rows];
    ld.param.u64 %rd4, [columns];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.s32 %r3, %r1, 32, %r2;
    cvt.u64.u32 %rd5, %r3;
    mul.lo.s64 %rd6, %rd3, %rd4;
    setp.ge.u64 %p1, %rd5, %rd6;
    @%p1 bra DONE;
    div.u64 %rd7, %rd5, %rd4;
    rem.u64 %rd8, %rd5, %rd4;
    mul.lo.s64 %rd9, %rd8, %rd3;
    add.s64 %rd10, %rd9, %rd7;
    shl.b64 %rd11, %rd5, 2;
    add.s64 %rd12, %rd1, %rd11;
    shl.b64 %rd13, %rd10, 2;
    add.s64 %rd14, %rd2, %rd13;
    ld.global.f32 %f1, [%rd12];
    ld.global.f32 %f2, [%rd15];
    add.rn.f32 %f3, %f1, %f2;
    shl.b32 %r4, %r2, 2;
    mov.u32 %r5, scratch;
    add.s32 %r6, %r5, %r4;
    st.shared.f32 [%r6], %f3;
    ld.shared.f32 %f4, [%r6];
    st.global.f32 [%rd14], %f4;
DONE:
    ret;
}
.visible .entry fill(.param .u64 py, .param .u64 n) {
    .reg .b32 %r<2>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [py];
    ld.param.u64 %rd2, [n];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 8;
    add.s64 %rd4, %rd1, %rd3;
    st.global.u64 [%rd4], %rd2;
    ret;
}
.visible .entry beyond(.param .u64 px, .param .u64 py) {
    .reg .b64 %rd<4>; .reg .f32 %f<2>;
    ld.param.u64 %rd1, [px];
    ld.param.u64 %rd2, [py];
    add.s64 %rd3, %rd1, 0x100000000000;
    ld.global.f32 %f1, [%rd3];
    st.global.f32 [%rd2], %f1;
    ret;
}
";

pub const ROWS: u64 = 9;
pub const COLUMNS: u64 = 13;

pub fn launch(entry: &str, blocks: Expr, threads: u32, shared: u32, arguments: Vec<Argument>) -> Step {
    let grid = [blocks, Expr::Number(1), Expr::Number(1)];
    Step::new(Operation::Launch(Launch {
        entry: entry.to_owned(),
        grid,
        block: [threads, 1, 1],
        dynamic_shared_bytes: shared,
        cluster: None,
        arguments,
    }))
}

fn slot(name: &str, dims: &[(&str, u64)]) -> TensorSlot {
    let capacities: Vec<u64> = dims.iter().map(|(_, capacity)| *capacity).collect();
    let extents = dims.iter().map(|(name, _)| Expr::Text((*name).to_owned())).collect();
    TensorSlot { extents: Some(extents), ..TensorSlot::new(name, DType::F32, &capacities) }
}

/// y = transpose(x) + w, copied from a buffer in the arena; z = 8 bytes of 3, then 3 numbers 7. `shared` bytes of a block for the transposition.
pub fn plan(shared: u32) -> LaunchPlan {
    let text = |text: &str| Expr::Text(text.to_owned());
    let mut plan = LaunchPlan::new("main");
    plan.extents = vec!["r".into(), "c".into()];
    plan.inputs.push(slot("x", &[("r", ROWS), ("c", COLUMNS)]));
    plan.parameters.push(TensorSlot::new("w", DType::F32, &[1]));
    plan.outputs.push(slot("y", &[("c", COLUMNS), ("r", ROWS)]));
    plan.outputs.push(TensorSlot::new("sevens", DType::I64, &[3]));
    plan.outputs.push(TensorSlot::new("threes", DType::U8, &[8]));
    plan.arena_bytes = 1024;
    let bytes = 4 * ROWS * COLUMNS;
    let (shape, alignment, memory) = (vec![COLUMNS, ROWS], 256, MemoryKind::Device);
    let name = "transposed".to_owned();
    plan.buffers.push(Buffer {
        name,
        dtype: DType::F32,
        shape,
        offset: 256,
        bytes,
        alignment,
        first: 0,
        last: 3,
        memory,
        zeroed: false,
    });
    let sizes = ["r", "c"].map(|name| Argument::Extent(text(name)));
    let places = vec![Argument::Input(0), Argument::Parameter(0), Argument::Buffer(0)];
    plan.steps.push(launch("transpose", text("floordiv(r*c+31,32)"), 32, shared, [places, sizes.to_vec()].concat()));
    plan.steps.push(Step::new(Operation::Event(EventMark { event: 1 })));
    plan.steps.push(Step::new(Operation::Wait(EventMark { event: 1 })));
    let copy = Copy { source: Place::Buffer(0), target: Place::Output(0), bytes: text("4*r*c") };
    plan.steps.push(Step::new(Operation::Copy(copy)));
    let seven = vec![Argument::Output(1), Argument::Extent(Expr::Number(7))];
    plan.steps.push(launch("fill", Expr::Number(1), 3, 0, seven));
    plan.steps.push(Step::new(Operation::Memset(Memset { target: Place::Output(2), byte: 3, bytes: 8.into() })));
    plan
}

/// As [`plan`], but the transposed value goes to pinned host memory on one stream, and back to another buffer on a second, while the first goes on.
pub fn plan_with_streams() -> LaunchPlan {
    let mut plan = plan(128);
    let steps = std::mem::take(&mut plan.steps);
    let [transpose, _, _, copy, fill, memset] = <[Step; 6]>::try_from(steps).unwrap();
    let on = |stream: u32, operation: Operation| Step { stream, ..Step::new(operation) };
    let event = |stream: u32, event: u32| on(stream, Operation::Event(EventMark { event }));
    let wait = |stream: u32, event: u32| on(stream, Operation::Wait(EventMark { event }));
    let bytes = plan.buffers[0].bytes;
    let moved = |stream: u32, source: u32, target: u32| {
        let (source, target) = (Place::Buffer(source), Place::Buffer(target));
        on(stream, Operation::Copy(Copy { source, target, bytes: bytes.into() }))
    };
    plan.steps = vec![
        transpose,
        event(0, 7),
        wait(1, 7),
        moved(1, 0, 1),
        event(1, 8),
        wait(2, 8),
        moved(2, 1, 2),
        event(2, 9),
        fill,
        memset,
        wait(0, 9),
        copy,
    ];
    if let Operation::Copy(copy) = &mut plan.steps[11].operation {
        copy.source = Place::Buffer(2);
    }
    let held = plan.buffers[0].clone();
    plan.buffers[0].last = 9;
    plan.buffers.push(Buffer { memory: MemoryKind::Pinned, offset: 0, first: 3, last: 9, ..held.clone() });
    plan.buffers.push(Buffer { offset: 1024, first: 6, last: 11, ..held });
    plan.arena_bytes = 2048;
    plan.pinned_arena_bytes = 512;
    plan
}

pub fn executable(plan: LaunchPlan, ptx: &str) -> Arc<Executable> {
    let weight = Tensor::from_f32(vec![1], &[0.5]).unwrap();
    Arc::new(Executable::new(plan, vec![ptx.to_owned()], [("w".to_owned(), weight)]).unwrap())
}

pub fn x(rows: usize, columns: usize) -> (String, Tensor) {
    let values: Vec<f32> = (0..rows * columns).map(|index| index as f32 - 8.0).collect();
    ("x".to_owned(), Tensor::from_f32(vec![rows, columns], &values).unwrap())
}

/// Runs [`plan`] with two sizes on a device, and checks the values.
pub fn run_and_check(device: Arc<dyn Device>, shared: u32) -> Result<(), RuntimeError> {
    check_values(Instance::new(device, executable(plan(shared), PTX))?)
}

/// Runs an instance of [`plan`], or of one that computes the same, with two sizes, and checks the values.
pub fn check_values(mut instance: Instance) -> Result<(), RuntimeError> {
    for (rows, columns) in [(ROWS as usize, COLUMNS as usize), (2, 5)] {
        let (name, tensor) = x(rows, columns);
        let values = tensor.to_f32_vec().unwrap();
        let result = instance.run(&[(name, tensor)])?;
        let expected: Vec<f32> =
            (0..rows * columns).map(|index| values[index % rows * columns + index / rows] + 0.5).collect();
        assert_eq!(result.outputs[0].1.shape(), [columns, rows]);
        assert_eq!(result.outputs[0].1.to_f32_vec().unwrap(), expected);
        assert_eq!(result.outputs[1].1.to_i64_vec().unwrap(), [7; 3]);
        assert_eq!(result.outputs[2].1.bytes(), [3; 8]);
    }
    Ok(())
}

pub fn open() -> Arc<CudaDevice> {
    Arc::new(CudaDevice::open(0).unwrap())
}

#[test]
fn the_simulator_agrees_with_what_is_expected() {
    run_and_check(Arc::new(SimulatorDevice::default()), 128).unwrap();
}

/// In the order of the calls, and with copies as late as the events allow; memory as the plan says, so that what a copy may not overwrite is overwritten.
#[test]
fn the_simulator_runs_streams_in_any_order() {
    for (seed, placement) in [(0, Placement::Arena), (3, Placement::Arena), (3, Placement::Separate)] {
        let device: Arc<dyn Device> =
            Arc::new(SimulatorDevice::new(SimulatorOptions { seed, ..SimulatorOptions::default() }));
        let executable = executable(plan_with_streams(), PTX);
        let parameters = DeviceParameters::upload(&device, executable.parameters()).unwrap();
        check_values(Instance::with_parameters(device, executable, parameters, placement).unwrap()).unwrap();
    }
}

#[test]
fn conditionals_are_refused_before_anything_runs() {
    fn run() {
        let mut plan = plan(128);
        let body = vec![plan.steps.remove(0)];
        let choice = Conditional { predicate: Place::Input(0), host: false, then: body, otherwise: Vec::new() };
        plan.steps.insert(0, Step::new(Operation::If(choice)));
        let error = Instance::new(open(), executable(plan, PTX)).err().unwrap();
        assert_eq!(error.code(), "E0722");
        assert!(error.to_string().contains("conditional steps"), "{error}");
    }
    let name = "plans::conditionals_are_refused_before_anything_runs";
    let Some(log) = crate::child::with_driver(name, "", run) else { return };
    assert_eq!((log.count("cuMemAlloc_v2"), log.count("cuModuleLoadDataEx")), (0, 0));
}
