//! Extents that the program computes: read by the host, checked, and known to the steps and outputs behind.

use std::sync::Arc;

use tenon_runtime::plan::{Conditional, Copy, Expr, Memset, Operation, Place, ReadExtent, Step, TensorSlot};
use tenon_runtime::*;
use tenon_tensor::{DType, Tensor};

const CAPACITY: u64 = 13;

fn read(name: &str, source: u32) -> Step {
    Step::new(Operation::ReadExtent(ReadExtent {
        name: name.to_owned(),
        capacity: CAPACITY,
        source: Place::Input(source),
    }))
}

fn output(name: &str, extent: &str, capacity: u64) -> TensorSlot {
    let extents = Some(vec![Expr::Text(extent.to_owned())]);
    TensorSlot { extents, ..TensorSlot::new(name, DType::F32, &[capacity]) }
}

fn copy(target: u32, bytes: &str) -> Step {
    let (source, target) = (Place::Input(2), Place::Output(target));
    Step::new(Operation::Copy(Copy { source, target, bytes: Expr::Text(bytes.to_owned()) }))
}

/// `first` has as many elements of x as the first size says, `second` as the second; `both` as many zeros as both together.
fn plan() -> LaunchPlan {
    let mut plan = LaunchPlan::new("main");
    plan.extents = vec!["m".into(), "n".into()];
    plan.inputs = vec![
        TensorSlot::new("m", DType::I64, &[]),
        TensorSlot::new("n", DType::I64, &[]),
        TensorSlot::new("x", DType::F32, &[CAPACITY]),
    ];
    plan.outputs =
        vec![output("first", "m", CAPACITY), output("second", "n", CAPACITY), output("both", "m+n", 2 * CAPACITY)];
    let target = Place::Output(2);
    let fill = Operation::Memset(Memset { target, byte: 0, bytes: Expr::Text("4*m+4*n".into()) });
    plan.steps = vec![read("m", 0), copy(0, "4*m"), copy(1, "4*m"), read("n", 1), copy(1, "4*n"), Step::new(fill)];
    plan
}

fn run(plan: LaunchPlan, m: i64, n: i64) -> Result<RunResult, RuntimeError> {
    let executable = Executable::new(plan, Vec::<String>::new(), [])?;
    let mut instance = Instance::new(Arc::new(SimulatorDevice::default()), Arc::new(executable))?;
    let size = |value: i64| Tensor::from_i64(Vec::new(), &[value]).unwrap();
    let x: Vec<f32> = (0..CAPACITY).map(|value| value as f32).collect();
    let inputs = [("m", size(m)), ("n", size(n)), ("x", Tensor::from_f32(vec![x.len()], &x).unwrap())];
    let inputs = inputs.map(|(name, tensor)| (name.to_owned(), tensor));
    // The second run must not take what the first has read.
    instance.run(&inputs)?;
    instance.run(&inputs)
}

#[test]
fn steps_and_outputs_follow_what_is_read() {
    for (m, n) in [(0, 0), (0, 13), (13, 0), (5, 7), (7, 5), (13, 13)] {
        let result = run(plan(), m, n).unwrap();
        let shapes: Vec<_> = result.outputs.iter().map(|(_, tensor)| tensor.shape().to_vec()).collect();
        assert_eq!(shapes, [vec![m as usize], vec![n as usize], vec![(m + n) as usize]]);
        let counting = |count: i64| (0..count).map(|value| value as f32).collect::<Vec<_>>();
        assert_eq!(result.outputs[0].1.to_f32_vec().unwrap(), counting(m));
        assert_eq!(result.outputs[1].1.to_f32_vec().unwrap(), counting(n));
        assert_eq!(result.outputs[2].1.to_f32_vec().unwrap(), vec![0.0; (m + n) as usize]);
        assert_eq!(result.extents.into_iter().collect::<Vec<_>>(), [("m".to_owned(), m), ("n".to_owned(), n)]);
        assert_eq!((result.launches, result.steps.len(), result.steps[3].operation), (6, 6, "read_extent"));
    }
    // As the last step, too.
    let mut plan = plan();
    plan.outputs.truncate(2);
    plan.steps = vec![read("m", 0), copy(0, "4*m"), copy(1, "4*m"), read("n", 1)];
    assert_eq!(run(plan, 9, 4).unwrap().outputs[1].1.shape(), [4]);
}

#[test]
fn what_is_out_of_range_stops_the_run() {
    for (m, n, step, value) in [(-1, 0, 0, -1), (14, 0, 0, 14), (3, i64::MIN, 3, i64::MIN)] {
        let error = run(plan(), m, n).unwrap_err();
        assert_eq!(error.code(), "E0719");
        let name = if step == 0 { "m" } else { "n" };
        let expected = format!("the extent that step {step} reads: `{name}` is {value}; it must be 0 to 13");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn plans_that_use_an_extent_wrongly_are_refused() {
    type Change = fn(&mut LaunchPlan);
    let cases: [(Change, &str); 7] = [
        (|plan| plan.steps.swap(0, 1), "`m` in `4*m` is no extent of the plan"),
        (|plan| plan.steps.push(read("n", 1)), "the extent `n` is known before it is read"),
        (|plan| plan.steps.push(read("k", 1)), "`k` is no extent of the plan"),
        (|plan| plan.steps[3] = read("n", 2), "the extent `n` is no i64"),
        (|plan| plan.inputs[2].extents = Some(vec![Expr::Text("m".into())]), "known before it is read"),
        (|plan| drop(plan.steps.remove(3)), "no step reads it"),
        (
            |plan| {
                let then = vec![plan.steps.remove(3)];
                let predicate = Place::Input(0);
                plan.steps.insert(
                    3,
                    Step::new(Operation::If(Conditional { predicate, host: false, then, otherwise: Vec::new() })),
                );
            },
            "no step reads it",
        ),
    ];
    for (index, (change, part)) in cases.into_iter().enumerate() {
        let mut plan = plan();
        change(&mut plan);
        let error = plan.validate().unwrap_err();
        assert!(error.to_string().contains(part), "{index}: {error}");
    }
    let text = plan().to_json().unwrap();
    assert_eq!(LaunchPlan::from_json(&text).unwrap(), plan());
}
