//! Conditional steps: predicates on the device choose what runs and how often.

use std::sync::Arc;

use tenon_runtime::plan::{
    Argument, Buffer, Conditional, Copy, Expr, Launch, Loop, MemoryKind, Memset, Operation, Place, Step, TensorSlot,
};
use tenon_runtime::*;
use tenon_tensor::{DType, Tensor};

/// `count`: n -= 1, p = n > 0.
const PTX: &str = "
.version 7.8
.target sm_80
.address_size 64
.visible .entry count(.param .u64 pn, .param .u64 pp) {
    .reg .b64 %rd<5>; .reg .b32 %r<2>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [pn];
    ld.param.u64 %rd2, [pp];
    ld.global.u64 %rd3, [%rd1];
    add.s64 %rd4, %rd3, -1;
    st.global.u64 [%rd1], %rd4;
    setp.gt.s64 %p1, %rd4, 0;
    selp.b32 %r1, 1, 0, %p1;
    st.global.u8 [%rd2], %r1;
    ret;
}
";

fn buffer(name: &str, dtype: DType, offset: u64) -> Buffer {
    let (shape, bytes, alignment, memory) = (vec![1], dtype.size() as u64, 8, MemoryKind::Device);
    Buffer { name: name.to_owned(), dtype, shape, offset, bytes, alignment, first: 0, last: 4, memory, zeroed: false }
}

fn copy(source: Place, target: Place, bytes: u64) -> Step {
    Step::new(Operation::Copy(Copy { source, target, bytes: bytes.into() }))
}

fn memset(target: Place, byte: u8) -> Step {
    Step::new(Operation::Memset(Memset { target, byte, bytes: 1.into() }))
}

/// Counts `n` down while `p` holds, `p` at first as given; `even` says whether the count ended at 0.
fn plan(limit: Option<u64>) -> LaunchPlan {
    let count = Launch {
        entry: "count".to_owned(),
        grid: [Expr::Number(1), Expr::Number(1), Expr::Number(1)],
        block: [1, 1, 1],
        dynamic_shared_bytes: 0,
        cluster: None,
        arguments: vec![Argument::Buffer(0), Argument::Buffer(1)],
    };
    let mut plan = LaunchPlan::new("main");
    plan.arena_bytes = 16;
    plan.inputs = vec![TensorSlot::new("n", DType::I64, &[1]), TensorSlot::new("p", DType::Bool, &[1])];
    plan.outputs = vec![TensorSlot::new("left", DType::I64, &[1]), TensorSlot::new("ran", DType::U8, &[1])];
    plan.buffers = vec![buffer("n", DType::I64, 0), buffer("p", DType::Bool, 8)];
    let body = vec![Step::new(Operation::Launch(count))];
    let repeat = Step {
        source_nodes: vec!["Loop.0".to_owned()],
        ..Step::new(Operation::While(Loop { predicate: Place::Buffer(1), host: false, body, limit }))
    };
    let choice = Conditional {
        predicate: Place::Input(1),
        host: false,
        then: vec![memset(Place::Output(1), 1)],
        otherwise: vec![memset(Place::Output(1), 7)],
    };
    plan.steps = vec![
        copy(Place::Input(0), Place::Buffer(0), 8),
        copy(Place::Input(1), Place::Buffer(1), 1),
        repeat,
        copy(Place::Buffer(0), Place::Output(0), 8),
        Step::new(Operation::If(choice)),
    ];
    plan
}

fn run(limit: Option<u64>, count: i64, runs: bool) -> Result<RunResult, RuntimeError> {
    let executable = Arc::new(Executable::new(plan(limit), vec![PTX.to_owned()], []).unwrap());
    let mut instance = Instance::new(Arc::new(SimulatorDevice::default()), executable)?;
    let flag = Tensor::new(DType::Bool, vec![1], vec![u8::from(runs)]).unwrap();
    instance.run(&[("n".to_owned(), Tensor::from_i64(vec![1], &[count]).unwrap()), ("p".to_owned(), flag)])
}

#[test]
fn bodies_run_as_the_device_decides() {
    for (count, runs, left, launches) in [(5, true, 0, 9), (1, true, 0, 5), (-3, true, -4, 5), (5, false, 5, 4)] {
        let result = run(Some(100), count, runs).unwrap();
        assert_eq!(result.outputs[0].1.to_i64_vec().unwrap(), [left]);
        assert_eq!(result.outputs[1].1.bytes(), [if runs { 1 } else { 7 }]);
        // Three copies, one fill, and a launch a round.
        assert_eq!(result.launches, launches);
        assert_eq!(result.steps[2].inner.len(), launches - 4);
        assert_eq!(result.steps.iter().flat_map(StepReport::walk).count(), 5 + launches - 4 + 1);
    }
}

#[test]
fn loops_end_at_their_limit() {
    assert_eq!(run(Some(5), 5, true).unwrap().outputs[0].1.to_i64_vec().unwrap(), [0]);
    let error = run(Some(4), 5, true).unwrap_err();
    assert_eq!(error.code(), "E0708");
    assert!(error.to_string().contains("step 2 (`while`, node `Loop.0`) has run 4 rounds"), "{error}");
}
