//! A stream of requests of random shapes through the buckets of a bundle, and through one graph for each shape.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenon::bundle::{LoadedProgram, build, load, pool};
use tenon::driver::{Driver, Request, Source};
use tenon_bundle::Bundle;
use tenon_import_onnx::ImportOptions;
use tenon_ir::Session;
use tenon_recipe::Recipe;
use tenon_runtime::{Instance, SimulatorDevice, SimulatorOptions};
use tenon_target::Target;
use tenon_tensor::Tensor;

use crate::write;

/// Softmax of rows, n of them, m wide.
const ROWS: &str = r#"
module attributes {graph.model = "rows"} {
  func.func @main(%x: tensor<?x?xf32, {dims = ["n", "m"]}> {graph.name = "x"}) -> (tensor<?x?xf32, {dims = ["n", "m"]}> {graph.name = "p"}) {
    %0 = graph.elementwise add(%x, %x) : (tensor<?x?xf32, {dims = ["n", "m"]}>, tensor<?x?xf32, {dims = ["n", "m"]}>) -> tensor<?x?xf32, {dims = ["n", "m"]}> loc("Add_0")
    %1 = graph.softmax %0 {axis = 1} : tensor<?x?xf32, {dims = ["n", "m"]}> -> tensor<?x?xf32, {dims = ["n", "m"]}> loc("Softmax_1")
    return %1 : tensor<?x?xf32, {dims = ["n", "m"]}>
  }
}
"#;

const MOST: (u64, u64) = (16, 48);

fn recipe(dims: &str) -> Recipe {
    Recipe::parse(&format!("recipe = 1\nname = 'rows'\n[semantic]\nmax_graphs = 6\n[semantic.dims]\n{dims}")).unwrap()
}

fn bundle(folder: &tempfile::TempDir, model: &str, recipe: Recipe) -> Bundle {
    let session = Session::new();
    let request = Request::of(recipe);
    let mut driver = Driver::new(&session, &request).unwrap();
    let source = Source::model(&session, model.as_ref(), &ImportOptions::default(), None).unwrap();
    let built = build(&mut driver, &source, "rows").unwrap();
    Bundle::open(&built.write(&folder.path().join("out")).unwrap()).unwrap()
}

fn input(rows: usize, columns: usize, seed: u64) -> Vec<f32> {
    (0..rows * columns).map(|place| ((place as u64 * 37 + seed * 101) % 29) as f32 / 8.0 - 1.5).collect()
}

/// Softmax of twice each row, in f64.
fn expected(x: &[f32], columns: usize) -> Vec<f64> {
    let row = |row: &[f32]| -> Vec<f64> {
        let exponentials: Vec<f64> = row.iter().map(|value| (2.0 * f64::from(*value)).exp()).collect();
        let total: f64 = exponentials.iter().sum();
        exponentials.iter().map(|value| value / total).collect()
    };
    x.chunks(columns).flat_map(row).collect()
}

fn shapes(count: usize) -> Vec<(usize, usize)> {
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut next = |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        1 + ((state >> 20) % most) as usize
    };
    (0..count).map(|_| (next(MOST.0), next(MOST.1))).collect()
}

fn memory(programs: &[LoadedProgram]) -> (u64, usize) {
    let arenas = programs.iter().map(|program| {
        let plan = program.executable.plan();
        let slots = plan.inputs.iter().chain(&plan.outputs).filter_map(|slot| slot.bytes()).sum::<u64>();
        plan.arena_bytes + slots
    });
    let mut texts: Vec<&str> =
        programs.iter().flat_map(|program| program.executable.modules()).map(|text| text.as_ref()).collect();
    texts.sort_unstable();
    texts.dedup();
    (arenas.sum(), texts.iter().map(|text| text.len()).sum())
}

fn spread(costs: &mut [f64]) -> String {
    costs.sort_by(f64::total_cmp);
    let at = |part: usize| costs[(costs.len() - 1) * part / 100];
    format!("{:.1} to {:.1}, median {:.1}", at(0), at(100), at(50))
}

/// `TENON_STREAM` requests, and every shape of them compiled by itself for comparison; 300 and some shapes without it: no more graphs than the recipe declares, nothing compiled after the start, right values for each.
#[test]
fn random_shapes_take_no_more_graphs_than_declared() {
    let count = std::env::var("TENON_STREAM").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    let folder = tempfile::tempdir().unwrap();
    let model = write(&folder, "rows.mlir", ROWS);
    let dims = "n = { allowed = [4, 16], between = 'pad' }\nm = { align = 16, max = 48, between = 'pad' }\n";
    let bundle = bundle(&folder, &model, recipe(dims));
    let device = Arc::new(SimulatorDevice::new(SimulatorOptions::default()));
    let (programs, weights) = load(&bundle, Target::default_target()).unwrap();
    let declared = programs.len();
    assert_eq!(declared, 6);
    let mut pool = pool(device, &programs, &weights).unwrap();
    let shapes = shapes(count);
    let mut costs: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    let mut taken = vec![0usize; declared];
    for (seed, (rows, columns)) in shapes.iter().copied().enumerate() {
        let x = input(rows, columns, seed as u64);
        let given = [("x".to_owned(), Tensor::from_f32(vec![rows, columns], &x).unwrap())];
        let (index, result) = pool.run(&given).unwrap();
        taken[index] += 1;
        // The cheapest that holds it: of each dimension its least size that does.
        let least = (if rows <= 4 { 4 } else { 16 }, columns.next_multiple_of(16));
        assert_eq!(pool.buckets()[index].name, format!("m={},n={}", least.1, least.0));
        let output = &result.outputs[0].1;
        assert_eq!(output.shape(), [rows, columns]);
        for (actual, expected) in output.iter_f64().unwrap().zip(expected(&x, columns)) {
            assert!((actual - expected).abs() < 1e-6, "{rows} by {columns}: {actual} instead of {expected}");
        }
        let instructions: u64 =
            result.steps.iter().filter_map(|step| step.counters.as_ref()).map(|c| c.warp_instructions).sum();
        costs.insert((rows, columns), instructions as f64 / (rows * columns) as f64);
    }
    assert!(pool.graphs() <= declared && pool.modules() <= declared, "{} graphs", pool.graphs());
    let (bytes, text) = memory(&programs);
    let mut all: Vec<f64> = costs.values().copied().collect();
    println!(
        "{count} requests of {} shapes: {} graphs, {} modules, taken {taken:?}; {bytes} bytes on the device, {text} of PTX; warp instructions an element {}",
        costs.len(),
        pool.graphs(),
        pool.modules(),
        spread(&mut all)
    );

    // The same with one graph for each shape, or for some of the shapes.
    let most = if std::env::var("TENON_STREAM").is_ok() { costs.len() } else { 24 };
    let sample: Vec<(usize, usize)> = costs.keys().copied().step_by(costs.len().div_ceil(most)).collect();
    let (mut bytes, mut text, mut fixed, mut padded) = (0, 0, Vec::new(), Vec::new());
    for (rows, columns) in &sample {
        let dims = format!("n = {{ allowed = [{rows}] }}\nm = {{ allowed = [{columns}] }}\n");
        let bundle = self::bundle(&folder, &model, recipe(&dims));
        let (programs, _) = load(&bundle, Target::default_target()).unwrap();
        let (own, own_text) = memory(&programs);
        (bytes, text) = (bytes + own, text + own_text);
        let device = Arc::new(SimulatorDevice::new(SimulatorOptions::default()));
        let mut instance = Instance::new(device, Arc::clone(&programs[0].executable)).unwrap();
        let x = input(*rows, *columns, 0);
        let given = [("x".to_owned(), Tensor::from_f32(vec![*rows, *columns], &x).unwrap())];
        let result = instance.run(&given).unwrap();
        let instructions: u64 =
            result.steps.iter().filter_map(|step| step.counters.as_ref()).map(|c| c.warp_instructions).sum();
        fixed.push(instructions as f64 / (rows * columns) as f64);
        padded.push(costs[&(*rows, *columns)]);
    }
    println!(
        "one graph a shape, {} of them: {bytes} bytes on the device, {text} of PTX; warp instructions an element {}; the same shapes in buckets {}",
        sample.len(),
        spread(&mut fixed),
        spread(&mut padded)
    );
}
