//! Programs whose launches have memory of their own: what they compute, run after run, and what of their text is refused.

use std::sync::Arc;

use tenon_ir::{PrintOptions, Session};
use tenon_reference::{Mode, run_function};
use tenon_runtime::plan::Place;
use tenon_runtime::{
    Device, DeviceParameters, Executable, Instance, LaunchPlan, Placement, SimulatorDevice, SimulatorOptions,
};
use tenon_target::Target;
use tenon_tensor::{DType, Tensor};

use crate::program::tests::compile;
use crate::program::{Lowered, launch_plan, lower_program};

const ROWS: &str = "tensor<8x4096xi8>";

/// A product of integers that is split: `rows` of the result are those of `x`, columns those of another input.
fn product(kernel: &str, columns: u64, input: &str) -> String {
    let (rhs, result) = (format!("tensor<{columns}x4096xi8>"), format!("tensor<8x{columns}xi32>"));
    format!(
        "graph.kernel contract \"{kernel}\"(%x, %{input}) : ({ROWS}, {rhs}) -> {result} {{
           ^bb0(%p: {ROWS}, %q: {rhs}):
             %r = graph.contract \"mk,nk->mn\"(%p, %q) accumulate i32 : ({ROWS}, {rhs}) -> {result}
             graph.yield %r : {result}
         }} loc(\"{kernel}\")\n"
    )
}

/// Products of 40 and of 136 columns, the second twice, once of them in a branch.
fn source() -> String {
    let (small, large) = ("tensor<8x40xi32>", "tensor<8x136xi32>");
    format!(
        "module {{ func.func @main(%x: {ROWS}, %y: tensor<40x4096xi8>, %z: tensor<136x4096xi8>, %c: tensor<i1>) -> ({small}, {large}, {large}) {{
           %a = {}
           %b = {}
           %d = flow.if %c : tensor<i1> -> ({large}) {{
             %e = {}
             flow.yield %e : {large}
           }} else {{
             flow.yield %b : {large}
           }}
           return %a, %b, %d : {small}, {large}, {large}
         }} }}",
        product("small", 40, "y"),
        product("large", 136, "z"),
        product("branch", 136, "z")
    )
}

fn lowered(session: &Session) -> Lowered<'_> {
    let target = Target::find("sm_80").unwrap();
    lower_program(&session.parse_module(&source(), "test").unwrap(), session, target).unwrap()
}

fn values(rows: usize, seed: usize) -> Tensor {
    let values: Vec<f64> = (0..rows * 4096).map(|i| ((i * i + seed * i) % 251) as f64 - 125.0).collect();
    Tensor::from_f64s(DType::I8, vec![rows, 4096], &values).unwrap()
}

#[test]
fn every_run_finds_the_counters_at_zero() {
    let session = Session::new();
    let lowered = lowered(&session);
    let (infos, ptx) = compile(&lowered);
    let plan = launch_plan(&lowered.module, &infos).unwrap();
    let zeroed: Vec<_> = (0..plan.buffers.len()).filter(|index| plan.buffers[*index].zeroed).collect();
    let [counters] = zeroed[..] else { panic!("one buffer for all launches: {:?}", plan.buffers) };
    assert_eq!((plan.buffers[counters].first, plan.buffers[counters].last as usize + 1), (0, plan.steps.len()));
    // As many counters as the product of more tiles has, and partial sums for each launch.
    let launches = |place: Place| {
        let uses = |step: &tenon_runtime::plan::Step| match &step.operation {
            tenon_runtime::plan::Operation::Launch(launch) => {
                launch.arguments.iter().any(|one| one.place() == Some(place))
            }
            _ => false,
        };
        plan.steps.iter().flat_map(|step| step.walk()).filter(|step| uses(step)).count()
    };
    assert_eq!(launches(Place::Buffer(counters as u32)), 3);
    let partial: Vec<_> =
        plan.buffers.iter().filter(|one| one.dtype == DType::I32 && one.shape.len() == 1 && !one.zeroed).collect();
    assert_eq!(partial.len(), 3, "{:?}", plan.buffers);
    assert!(partial.iter().all(|one| one.first == one.last), "{partial:?}");
    let module = session.parse_module(&source(), "test").unwrap();
    for seed in [0, 3] {
        let options = SimulatorOptions { seed, ..SimulatorOptions::default() };
        let device: Arc<dyn Device> = Arc::new(SimulatorDevice::new(options));
        for placement in [Placement::Arena, Placement::Separate] {
            let executable = Arc::new(Executable::new(plan.clone(), ptx.clone(), []).unwrap());
            let parameters = DeviceParameters::upload(&device, executable.parameters()).unwrap();
            let mut instance = Instance::with_parameters(device.clone(), executable, parameters, placement).unwrap();
            for run in 0..3 {
                let chosen = Tensor::from_bool(vec![], &[run != 1]).unwrap();
                let inputs = [values(8, run + 1), values(40, run + 3), values(136, run + 7), chosen];
                let expected = run_function(&module, "main", &inputs, &|_| None, Mode::Typed).unwrap();
                let named: Vec<_> =
                    inputs.into_iter().enumerate().map(|(i, tensor)| (format!("input{i}"), tensor)).collect();
                let outputs: Vec<_> =
                    instance.run(&named).unwrap().outputs.into_iter().map(|(_, tensor)| tensor).collect();
                assert!(outputs == expected, "seed {seed}, {placement:?}, run {run}");
            }
        }
    }
}

#[test]
fn the_text_says_which_buffer_holds_zeros() {
    let session = Session::new();
    let lowered = lowered(&session);
    let (infos, _) = compile(&lowered);
    let plan = launch_plan(&lowered.module, &infos).unwrap();
    assert_eq!(LaunchPlan::from_json(&plan.to_json().unwrap()).unwrap(), plan);
    let text = lowered.module.print(PrintOptions { locations: true, generic: false });
    assert_eq!(launch_plan(&session.parse_module(&text, "again").unwrap(), &infos).unwrap(), plan);
    let text = lowered.module.to_string();
    let line = text.lines().find(|line| line.contains("{zeroed}")).unwrap();
    let edited = |changed: String| {
        let module = session.parse_module(&text.replace(line, &changed), "edited").unwrap();
        let errors = tenon_hw_dialect::check(&module);
        (
            errors.iter().map(ToString::to_string).collect::<String>(),
            launch_plan(&module, &infos).map_err(|error| error.code()),
        )
    };
    // Memory that lives for one step at the same place.
    let other = plan.buffers.iter().find(|buffer| !buffer.zeroed).unwrap().offset;
    let offset = line.split("offset ").nth(1).unwrap().split(' ').next().unwrap();
    let (errors, plan) = edited(line.replace(&format!("offset {offset} "), &format!("offset {other} ")));
    assert!(errors.contains("shares bytes with the `zeroed` buffer"), "{errors}");
    assert_eq!(plan.unwrap_err(), "E0704");
    let (_, plan) = edited(line.replace("alive 0 to", "alive 1 to"));
    assert_eq!(plan.unwrap_err(), "E0704");
}
