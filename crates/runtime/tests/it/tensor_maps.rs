//! Tensor maps of launch plans: encoded for each run, by the sizes that it has.

use std::sync::Arc;

use tenon_runtime::plan::{Argument, Expr, Launch, Operation, Place, Step, TensorMap, TensorSlot};
use tenon_runtime::*;
use tenon_tensor::{DType, Tensor};

const PTX: &str = include_str!("../../../../testdata/ptx/tensor_map_box.ptx");

fn text(text: &str) -> Expr {
    Expr::Text(text.to_owned())
}

/// `x` of up to 4 rows and 8 columns; `y` is the box.
fn plan() -> LaunchPlan {
    let mut plan = LaunchPlan::new("main");
    plan.extents = vec!["r".into(), "c".into()];
    let extents = Some(vec![text("r"), text("c")]);
    plan.inputs.push(TensorSlot { extents, ..TensorSlot::new("x", DType::F32, &[4, 8]) });
    plan.outputs.push(TensorSlot::new("y", DType::F32, &[4, 8]));
    let map = TensorMap {
        place: Place::Input(0),
        dtype: DType::F32,
        sizes: vec![text("c"), text("r")],
        strides: vec![text("4*c")],
        tile: vec![8, 4],
        swizzle: 0,
    };
    plan.steps.push(Step::new(Operation::Launch(Launch {
        entry: "boxes".to_owned(),
        grid: [1.into(), 1.into(), 1.into()],
        block: [32, 1, 1],
        dynamic_shared_bytes: 0,
        cluster: None,
        arguments: vec![Argument::TensorMap(map), Argument::Output(0)],
    })));
    plan
}

fn instance(device: Arc<dyn Device>) -> Instance {
    let no_weights: [(String, Tensor); 0] = [];
    let executable = Executable::new(plan(), vec![PTX.to_owned()], no_weights).unwrap();
    Instance::new(device, Arc::new(executable)).unwrap()
}

fn x(rows: usize, columns: usize) -> Tensor {
    let values: Vec<f32> = (0..rows * columns).map(|index| index as f32 + 1.0).collect();
    Tensor::from_f32(vec![rows, columns], &values).unwrap()
}

#[test]
fn sizes_and_strides_are_those_of_the_run() {
    let mut instance = instance(Arc::new(SimulatorDevice::default()));
    for (rows, columns) in [(4, 8), (3, 8), (2, 4), (4, 4), (1, 8)] {
        let outcome = instance.run(&[("x".to_owned(), x(rows, columns))]).unwrap();
        let got = outcome.outputs[0].1.to_f32_vec().unwrap();
        let value = |row: usize, column: usize| {
            if row < rows && column < columns { (row * columns + column) as f32 + 1.0 } else { 0.0 }
        };
        let expected: Vec<f32> = (0..32).map(|index| value(index / 8, index % 8)).collect();
        assert_eq!(got, expected, "{rows} × {columns}");
    }
}

#[test]
fn a_stride_that_no_map_has_is_refused() {
    let mut instance = instance(Arc::new(SimulatorDevice::default()));
    let error = instance.run(&[("x".to_owned(), x(3, 5))]).map(drop).unwrap_err();
    assert_eq!(error.code(), "E0719");
    let message = error.to_string();
    assert!(message.contains("a tensor map of step 0 (boxes)") && message.contains("multiple of 16"), "{message}");
}
