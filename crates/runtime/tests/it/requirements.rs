//! Conditions of a plan: checked before anything runs, or once the extent is read that they need.

use std::sync::Arc;

use tenon_runtime::plan::{Copy, Expr, Operation, Place, ReadExtent, Requirement, Step, TensorSlot};
use tenon_runtime::*;
use tenon_tensor::{DType, Tensor};

const CAPACITY: u64 = 9;

fn requirement(condition: &str, nodes: &[&str]) -> Requirement {
    Requirement {
        condition: condition.to_owned(),
        reason: "it was exported so".to_owned(),
        source_nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// y = x, of n elements; `count` is read from an input.
fn plan(requirements: &[Requirement]) -> LaunchPlan {
    let slot = |name: &str| {
        let extents = Some(vec![Expr::Text("n".to_owned())]);
        TensorSlot { extents, ..TensorSlot::new(name, DType::F32, &[CAPACITY]) }
    };
    let mut plan = LaunchPlan::new("main");
    plan.extents = vec!["n".into(), "count".into()];
    plan.requirements = requirements.to_vec();
    plan.inputs = vec![slot("x"), TensorSlot::new("count", DType::I64, &[])];
    plan.outputs = vec![slot("y")];
    let (source, target) = (Place::Input(0), Place::Output(0));
    plan.steps = vec![
        Step::new(Operation::Copy(Copy { source, target, bytes: Expr::Text("4*n".to_owned()) })),
        Step::new(Operation::ReadExtent(ReadExtent { name: "count".to_owned(), capacity: 5, source: Place::Input(1) })),
    ];
    plan
}

fn executable(requirements: &[Requirement]) -> Result<Executable, RuntimeError> {
    Executable::new(plan(requirements), Vec::<String>::new(), [])
}

/// Runs with n elements and a count; how many steps were done, and the error.
fn run(requirements: &[Requirement], n: usize, count: i64) -> (usize, Option<RuntimeError>) {
    let executable = Arc::new(executable(requirements).unwrap());
    let mut instance = Instance::new(Arc::new(SimulatorDevice::default()), executable).unwrap();
    let inputs = [
        ("x".to_owned(), Tensor::zeros(DType::F32, vec![n]).unwrap()),
        ("count".to_owned(), Tensor::from_i64(Vec::new(), &[count]).unwrap()),
    ];
    let mut done = 0;
    let result = instance.run_observed(&inputs, &mut |_, _| {
        done += 1;
        Ok(())
    });
    (done, result.err())
}

#[test]
fn conditions_on_inputs_are_checked_before_anything_runs() {
    let list = [requirement("n >= 2", &[]), requirement("3*n != 12", &["conv", "model.py:7"])];
    for n in 0..=CAPACITY as usize {
        let (done, error) = run(&list, n, 0);
        assert_eq!(done, if n < 2 || n == 4 { 0 } else { 2 });
        assert_eq!(error.as_ref().map(RuntimeError::code), (n < 2 || n == 4).then_some("E0724"));
    }
    let message = run(&list, 1, 0).1.unwrap().to_string();
    assert_eq!(message, "`n >= 2` must hold and is 1 >= 2 for n = 1: it was exported so");
    let message = run(&list, 4, 0).1.unwrap().to_string();
    let expected = "node `conv`, `model.py:7`: `3*n != 12` must hold and is 12 != 12 for n = 4: it was exported so";
    assert_eq!(message, expected);
    let overflow = run(&[requirement("n*9223372036854775807 <= 0", &[])], 2, 0).1.unwrap();
    assert!(overflow.to_string().contains("beyond the range of i64"), "{overflow}");
}

#[test]
fn conditions_on_what_is_read_stop_the_run_there() {
    let list = [requirement("count < n", &["check"])];
    let (done, error) = run(&list, 3, 2);
    assert!(done == 2 && error.is_none());
    let (done, error) = run(&list, 3, 3);
    assert_eq!((done, error.unwrap().code()), (1, "E0724"));
}

#[test]
fn an_executable_tells_which_extents_it_takes() {
    let executable = executable(&[requirement("n >= 2", &[]), requirement("count == 1", &[])]).unwrap();
    let takes = |n| executable.check_requirements(&[("n".to_owned(), n)].into_iter().collect()).is_ok();
    assert!(takes(2) && !takes(1));
}

#[test]
fn plans_with_wrong_conditions_are_refused() {
    for condition in ["n", "m == 1", "n == ", "n === 1", &format!("n == {}1", "1+".repeat(8000))] {
        let error = executable(&[requirement(condition, &[])]).unwrap_err();
        assert_eq!(error.code(), "E0703", "{condition}");
    }
    let plan = plan(&[requirement("n >= 2", &["a"]), requirement("n < 8", &[])]);
    assert_eq!(LaunchPlan::from_json(&plan.to_json().unwrap()).unwrap(), plan);
}
