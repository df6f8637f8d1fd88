//! Buffers that hold zeros between runs.

use std::sync::Arc;

use tenon_runtime::plan::{Argument, Buffer, Launch, MemoryKind, Operation, Step, TensorSlot};
use tenon_runtime::*;
use tenon_tensor::{DType, Tensor};

use crate::child::with_driver;
use crate::plans::open;

/// `count`, of four blocks: the last one to arrive writes y = x. A block that finds 13 traps.
const PTX: &str = "
.version 7.8
.target sm_80
.address_size 64
.visible .entry count(.param .u64 px, .param .u64 py, .param .u64 pc) {
    .reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [px];
    ld.param.u64 %rd2, [py];
    ld.param.u64 %rd3, [pc];
    atom.acq_rel.gpu.global.inc.u32 %r1, [%rd3], 3;
    ld.global.u32 %r2, [%rd1];
    setp.eq.u32 %p1, %r2, 13;
    @%p1 trap;
    setp.ne.u32 %p2, %r1, 3;
    @%p2 bra DONE;
    st.global.u32 [%rd2], %r2;
DONE:
    ret;
}
";

/// One launch, whose counter nothing but the runtime sets.
fn plan() -> LaunchPlan {
    let mut plan = LaunchPlan::new("main");
    plan.arena_bytes = 512;
    plan.inputs.push(TensorSlot::new("x", DType::I32, &[1]));
    plan.outputs.push(TensorSlot::new("y", DType::I32, &[1]));
    plan.buffers.push(Buffer {
        name: "counters".into(),
        dtype: DType::I32,
        shape: vec![1],
        offset: 256,
        bytes: 4,
        alignment: 256,
        first: 0,
        last: 0,
        memory: MemoryKind::Device,
        zeroed: true,
    });
    plan.steps.push(Step::new(Operation::Launch(Launch {
        entry: "count".into(),
        grid: [4.into(), 1.into(), 1.into()],
        block: [1, 1, 1],
        dynamic_shared_bytes: 0,
        cluster: None,
        arguments: vec![Argument::Input(0), Argument::Output(0), Argument::Buffer(0)],
    })));
    plan
}

fn x(value: i32) -> [(String, Tensor); 1] {
    [("x".to_owned(), Tensor::from_i32(vec![1], &[value]).unwrap())]
}

#[test]
fn counters_are_filled_once() {
    fn run() {
        let executable = Arc::new(Executable::new(plan(), vec![PTX.to_owned()], []).unwrap());
        let mut instance = Instance::new(open(), executable).unwrap();
        for value in [5, -3, 5] {
            assert_eq!(instance.run(&x(value)).unwrap().outputs[0].1, x(value)[0].1);
        }
    }
    let Some(log) = with_driver("zeroed::counters_are_filled_once", "", run) else { return };
    log.assert_right();
    assert_eq!((log.count("cuLaunchKernel"), log.count("cuMemsetD8Async")), (3, 1));
    assert!(log.lines("cuMemsetD8Async").all(|line| line.contains("bytes=4")), "{}", log.text);
}
