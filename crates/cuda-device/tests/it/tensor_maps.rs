//! Tensor maps, which the driver encodes.

use std::sync::Arc;

use tenon_runtime::plan::{Argument, Expr, Launch, Operation, Place, Step, TensorMap, TensorSlot};
use tenon_runtime::*;
use tenon_tensor::{DType, Tensor};

use crate::child::with_driver;
use crate::plans::open;

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

fn run() {
    let mut instance = instance(open());
    for (rows, columns) in [(4, 8), (3, 8), (2, 4)] {
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
fn the_driver_encodes_tensor_maps() {
    let Some(log) = with_driver("tensor_maps::the_driver_encodes_tensor_maps", "capability=9.0", run) else { return };
    log.assert_right();
    // f32, two dimensions, no swizzle, lines of 128 bytes, zeros outside; for each run anew.
    let calls: Vec<_> = log.lines("cuTensorMapEncodeTiled").collect();
    assert_eq!(calls, ["cuTensorMapEncodeTiled type=7 rank=2 swizzle=0 promotion=2 fill=0 -> 0"; 3]);
}

#[test]
fn a_map_that_the_driver_refuses_is_an_error() {
    fn fails() {
        let error = instance(open()).run(&[("x".to_owned(), x(4, 8))]).map(drop).unwrap_err();
        assert_eq!(error.code(), "E0736");
        assert!(error.to_string().contains("step 0 (boxes)"), "{error}");
        assert!(error.to_string().contains("cuTensorMapEncodeTiled failed"), "{error}");
    }
    let settings = "capability=9.0;fail=cuTensorMapEncodeTiled:1:999";
    let Some(log) = with_driver("tensor_maps::a_map_that_the_driver_refuses_is_an_error", settings, fails) else {
        return;
    };
    log.assert_right();
    assert_eq!(log.count("cuLaunchKernel"), 0);
}
