//! Plans whose sizes are known when they run, with hand-written PTX on the simulator: dense inputs in memory of their capacity, extents as
//! arguments, grids and copies by expressions, outputs in the shapes of their extents, and every refusal by its code.

use std::sync::Arc;

use proptest::prelude::*;
use tenon_runtime::plan::{
    Argument, Buffer, Conditional, Copy, EventMark, Expr, Launch, MemoryKind, Memset, Operation, Place, Step,
    TensorSlot,
};
use tenon_runtime::*;
use tenon_tensor::{DType, Tensor};

/// `transpose`: y[c, r] = x[r, c]; `twice`: y[i] = 2 * x[i] for i < n; both by blocks of 32 threads, one element a thread.
/// `last`: y[0] = x[n - 1], one block.
const PTX: &str = "
.version 7.8
.target sm_80
.address_size 64
.visible .entry transpose(.param .u64 px, .param .u64 py, .param .u64 rows, .param .u64 columns) {
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<16>; .reg .f32 %f<2>;
    ld.param.u64 %rd1, [px];
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
    st.global.f32 [%rd14], %f1;
DONE:
    ret;
}
.visible .entry twice(.param .u64 px, .param .u64 py, .param .u64 n) {
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<8>; .reg .f32 %f<3>;
    ld.param.u64 %rd1, [px];
    ld.param.u64 %rd2, [py];
    ld.param.u64 %rd3, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.s32 %r3, %r1, 32, %r2;
    cvt.u64.u32 %rd4, %r3;
    setp.ge.u64 %p1, %rd4, %rd3;
    @%p1 bra DONE;
    shl.b64 %rd5, %rd4, 2;
    add.s64 %rd6, %rd1, %rd5;
    add.s64 %rd7, %rd2, %rd5;
    ld.global.f32 %f1, [%rd6];
    add.rn.f32 %f2, %f1, %f1;
    st.global.f32 [%rd7], %f2;
DONE:
    ret;
}
.visible .entry last(.param .u64 px, .param .u64 py, .param .u64 n) {
    .reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<6>; .reg .f32 %f<2>;
    ld.param.u64 %rd1, [px];
    ld.param.u64 %rd2, [py];
    ld.param.u64 %rd3, [n];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra DONE;
    shl.b64 %rd4, %rd3, 2;
    add.s64 %rd5, %rd1, %rd4;
    ld.global.f32 %f1, [%rd5+-4];
    st.global.f32 [%rd2], %f1;
DONE:
    ret;
}
";

/// Capacities of `r` and `c`.
const ROWS: u64 = 9;
const COLUMNS: u64 = 13;

fn text(text: &str) -> Expr {
    Expr::Text(text.to_owned())
}

fn slot(name: &str, dims: &[(&str, u64)]) -> TensorSlot {
    let mut slot = TensorSlot::new(name, DType::F32, &dims.iter().map(|(_, capacity)| *capacity).collect::<Vec<_>>());
    slot.extents = Some(
        dims.iter()
            .map(|(name, capacity)| if name.is_empty() { Expr::Number(*capacity) } else { text(name) })
            .collect(),
    );
    slot
}

fn launch(entry: &str, blocks: Expr, arguments: Vec<Argument>) -> Step {
    let grid = [blocks, Expr::Number(1), Expr::Number(1)];
    let launch =
        Launch { entry: entry.to_owned(), grid, block: [32, 1, 1], dynamic_shared_bytes: 0, cluster: None, arguments };
    Step::new(Operation::Launch(launch))
}

/// y = 2 * transpose(x), x: [r, c], y: [c, r], with the transposed value in the arena; z is a copy of x, and w: [2 * r] zeros.
fn plan() -> LaunchPlan {
    let mut plan = LaunchPlan::new("main");
    plan.extents = vec!["r".into(), "c".into()];
    plan.inputs.push(slot("x", &[("r", ROWS), ("c", COLUMNS)]));
    plan.outputs.push(slot("y", &[("c", COLUMNS), ("r", ROWS)]));
    plan.outputs.push(slot("z", &[("r", ROWS), ("c", COLUMNS)]));
    plan.outputs.push(slot("w", &[("2*r", 2 * ROWS)]));
    plan.arena_bytes = 4 * ROWS * COLUMNS;
    plan.buffers.push(Buffer {
        name: "transposed".into(),
        dtype: DType::F32,
        shape: vec![COLUMNS, ROWS],
        offset: 0,
        bytes: 4 * ROWS * COLUMNS,
        alignment: 128,
        first: 0,
        last: 3,
        memory: MemoryKind::Device,
        zeroed: false,
    });
    let blocks = || text("floordiv(r*c+31,32)");
    let sizes = ["r", "c"].map(|name| Argument::Extent(text(name)));
    plan.steps.push(launch(
        "transpose",
        blocks(),
        [vec![Argument::Input(0), Argument::Buffer(0)], sizes.to_vec()].concat(),
    ));
    plan.steps.push(Step::new(Operation::Event(EventMark { event: 3 })));
    plan.steps.push(Step::new(Operation::Wait(EventMark { event: 3 })));
    plan.steps.push(launch(
        "twice",
        blocks(),
        vec![Argument::Buffer(0), Argument::Output(0), Argument::Extent(text("r*c"))],
    ));
    let copy = Copy { source: Place::Input(0), target: Place::Output(1), bytes: text("4*r*c") };
    plan.steps.push(Step::new(Operation::Copy(copy)));
    plan.steps.push(Step::new(Operation::Memset(Memset { target: Place::Output(2), byte: 0, bytes: text("8*r") })));
    plan
}

fn executable(plan: LaunchPlan) -> Arc<Executable> {
    Arc::new(Executable::new(plan, vec![PTX.to_owned()], []).unwrap())
}

fn instance(plan: LaunchPlan, placement: Placement) -> Instance {
    let device: Arc<dyn Device> = Arc::new(SimulatorDevice::default());
    let executable = executable(plan);
    let parameters = DeviceParameters::upload(&device, executable.parameters()).unwrap();
    Instance::with_parameters(device, executable, parameters, placement).unwrap()
}

fn counting(shape: &[usize], start: f32) -> Tensor {
    let count = shape.iter().product();
    Tensor::from_f32(shape.to_vec(), &(0..count).map(|index| start + index as f32).collect::<Vec<_>>()).unwrap()
}

fn input(name: &str, tensor: Tensor) -> (String, Tensor) {
    (name.to_owned(), tensor)
}

fn run_error(plan: LaunchPlan, inputs: &[(String, Tensor)]) -> (&'static str, String) {
    let error = instance(plan, Placement::Separate).run(inputs).unwrap_err();
    assert!(error.help().is_some());
    (error.code(), error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// One instance runs a sequence of sizes, whatever was run before, and reads nothing that an earlier run has left.
    #[test]
    fn every_size_up_to_the_capacity_runs(
        sizes in proptest::collection::vec((0..=ROWS as usize, 0..=COLUMNS as usize), 1..6),
        arena in any::<bool>(),
    ) {
        let mut instance = instance(plan(), if arena { Placement::Arena } else { Placement::Separate });
        for (round, (r, c)) in sizes.into_iter().enumerate() {
            let x = counting(&[r, c], round as f32 * 1000.0);
            let result = instance.run(&[input("x", x.clone())]).unwrap();
            let values = x.to_f32_vec().unwrap();
            let transposed: Vec<f32> = (0..c * r).map(|i| 2.0 * values[(i % r) * c + i / r]).collect();
            prop_assert_eq!(result.outputs[0].1.shape(), [c, r]);
            prop_assert_eq!(result.outputs[0].1.to_f32_vec().unwrap(), transposed);
            prop_assert_eq!(&result.outputs[1].1, &x);
            prop_assert_eq!(&result.outputs[2].1, &Tensor::zeros(DType::F32, vec![2 * r]).unwrap());
            prop_assert_eq!(result.extents.get("r").copied(), Some(r as i64));
            // Without elements there is no block, and nothing counted.
            prop_assert_eq!(result.steps[0].counters.is_some(), r * c > 0);
            prop_assert_eq!(result.launches, 4);
        }
    }
}

#[test]
fn steps_of_a_branch_follow_the_extents() {
    let mut branch = plan();
    branch.inputs.push(TensorSlot::new("p", DType::Bool, &[1]));
    let mut steps = std::mem::take(&mut branch.steps);
    steps.retain(|step| !matches!(step.operation, Operation::Event(_) | Operation::Wait(_)));
    let conditional = Conditional { predicate: Place::Input(1), host: false, then: steps.clone(), otherwise: steps };
    branch.steps.push(Step::new(Operation::If(conditional)));
    branch.buffers[0].last = 0;
    let mut instance = instance(branch, Placement::Separate);
    for ([r, c], chosen) in [([3, 5], true), ([9, 2], false), ([1, 1], true)] {
        let x = counting(&[r, c], 7.0);
        let p = Tensor::from_bool(vec![1], &[chosen]).unwrap();
        let result = instance.run(&[input("x", x.clone()), input("p", p)]).unwrap();
        let values = x.to_f32_vec().unwrap();
        let transposed: Vec<f32> = (0..c * r).map(|i| 2.0 * values[(i % r) * c + i / r]).collect();
        assert_eq!(result.outputs[0].1.to_f32_vec().unwrap(), transposed);
        assert_eq!(result.outputs[1].1, x);
    }
}

#[test]
fn a_step_that_reads_beyond_the_extents_is_caught() {
    // One element too many: inside the capacity, and never written in this run, though the run before has written it.
    let mut wrong = plan();
    wrong.outputs.push(slot("l", &[("", 1)]));
    wrong.steps.push(launch(
        "last",
        Expr::Number(1),
        vec![Argument::Input(0), Argument::Output(3), Argument::Extent(text("r*c+1"))],
    ));
    wrong.validate().unwrap();
    let mut instance = instance(wrong, Placement::Separate);
    let mut code = |shape: &[usize]| instance.run(&[input("x", counting(shape, 0.0))]).unwrap_err().code();
    assert_eq!(code(&[2, 5]), "E0818");
    assert_eq!(code(&[ROWS as usize, COLUMNS as usize]), "E0810");
    assert_eq!(code(&[3, 5]), "E0818");
}

#[test]
fn sizes_beyond_the_capacity_are_refused() {
    let x = |shape: &[usize]| [input("x", counting(shape, 0.0))];
    let (code, message) = run_error(plan(), &x(&[10, 3]));
    assert_eq!((code, message.as_str()), ("E0717", "dimension 0 of input `x` is 10, above the capacity 9 of `r`"));
    assert_eq!(run_error(plan(), &x(&[3, 14])).0, "E0717");
    let (code, message) = run_error(plan(), &x(&[3]));
    assert_eq!((code, message.as_str()), ("E0714", "input `x` must have 2 dimensions ([r≤9, c≤13]), found 1 ([3])"));
    let (code, message) = run_error(plan(), &[]);
    assert_eq!((code, message.as_str()), ("E0710", "input `x` is missing: expected f32[r≤9, c≤13]"));
    let mut fixed = plan();
    fixed.inputs.push(slot("k", &[("r", ROWS), ("", 4)]));
    let (code, message) = run_error(fixed, &[x(&[3, 3])[0].clone(), input("k", counting(&[3, 5], 0.0))]);
    assert_eq!(code, "E0715");
    assert_eq!(message, "dimension 1 of input `k` must be 4, found 5 (shape [3, 5], expected [r≤9, 4])");
}

#[test]
fn inputs_that_disagree_are_refused() {
    let mut two = plan();
    two.inputs.push(slot("k", &[("c", COLUMNS + 2), ("2*r+1", 2 * ROWS + 1)]));
    let inputs = |shape: &[usize]| [input("k", counting(shape, 0.0)), input("x", counting(&[3, 5], 0.0))];
    assert!(instance(two.clone(), Placement::Separate).run(&inputs(&[5, 7])).is_ok());
    let (code, message) = run_error(two.clone(), &inputs(&[6, 7]));
    let expected = "dimension 0 of input `k` is 6, but `c` is 5: dimension 1 of input `x` has";
    assert_eq!((code, message.as_str()), ("E0718", expected));
    let (code, message) = run_error(two.clone(), &inputs(&[5, 6]));
    let expected = "dimension 1 of input `k` is 6, but `2*r+1` is 7: it follows from c = 5, r = 3";
    assert_eq!((code, message.as_str()), ("E0718", expected));
    // The least capacity of all inputs is the extent's.
    assert_eq!(two.extent_capacities().get("c"), Some(&COLUMNS));
    assert_eq!(run_error(two, &inputs(&[COLUMNS as usize + 3, 7])).0, "E0717");
}

#[test]
fn expressions_without_a_usable_value_are_refused_before_anything_runs() {
    let code = |change: &dyn Fn(&mut LaunchPlan), shape: &[usize]| {
        let mut wrong = plan();
        change(&mut wrong);
        wrong.validate().unwrap();
        run_error(wrong, &[input("x", counting(shape, 0.0))])
    };
    let grid = |axis: usize, expression: &'static str| {
        move |plan: &mut LaunchPlan| {
            if let Operation::Launch(launch) = &mut plan.steps[3].operation {
                launch.grid[axis] = text(expression);
            }
        }
    };
    let (number, message) = code(&grid(0, "r-4"), &[3, 5]);
    assert_eq!(number, "E0719");
    let expected = "the grid of step 3 (twice) along axis 0: `r-4` is -1 for c = 5, r = 3; it must be 0 to 2147483647";
    assert_eq!(message, expected);
    assert_eq!(code(&grid(1, "1000*(9-r)*(9-r)*(9-r)"), &[3, 5]).0, "E0719");
    let argument = |plan: &mut LaunchPlan| {
        if let Operation::Launch(launch) = &mut plan.steps[3].operation {
            let extent = launch.arguments.iter_mut().find(|argument| matches!(argument, Argument::Extent(_)));
            *extent.unwrap() = Argument::Extent(text("r-4"));
        }
    };
    let (number, message) = code(&argument, &[3, 5]);
    let expected = "an argument of step 3 (twice): `r-4` is -1 for c = 5, r = 3; it must not be negative: the model needs a larger size here";
    assert_eq!((number, message.as_str()), ("E0719", expected));
    let extents =
        |expression: &'static str| move |plan: &mut LaunchPlan| plan.outputs[2].extents = Some(vec![text(expression)]);
    assert_eq!(code(&extents("r-4"), &[3, 5]).0, "E0719");
    let (number, message) = code(&extents("(9-r)*(9-r)"), &[3, 5]);
    assert_eq!(number, "E0719");
    assert!(message.starts_with("dimension 0 of output `w`: `"), "{message}");
    let bytes = |plan: &mut LaunchPlan| {
        plan.steps[4].operation =
            Operation::Copy(Copy { source: Place::Input(0), target: Place::Output(1), bytes: text("4*r*c+1000*(9-r)") })
    };
    assert_eq!(code(&bytes, &[3, 5]).0, "E0719");
    let overflow = |plan: &mut LaunchPlan| {
        if let Operation::Launch(launch) = &mut plan.steps[3].operation {
            launch.arguments[2] = Argument::Extent(text("max(9-r,0)*4000000000000000000"));
        }
    };
    let (number, message) = code(&overflow, &[3, 5]);
    assert_eq!(number, "E0719");
    assert!(message.contains("is no number for"), "{message}");
}
