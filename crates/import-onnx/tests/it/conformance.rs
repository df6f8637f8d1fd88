//! The ONNX backend tests and the reduced cases, through the importer and the reference interpreter. No value may be wrong; what is not
//! supported is refused by code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::suite::{Outcome, run_case};
use prost::Message;
use tenon_import_onnx::proto::{ModelProto, TensorProto, tensor_proto, tensor_shape_proto, type_proto};
use tenon_import_onnx::{ImportOptions, Model, import_loaded, read_tensor_pb};
use tenon_ir::Session;

fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.join("model.onnx").is_file()).collect();
    folders.sort();
    folders
}

/// Runs all cases of a folder on two threads and prints counts by operator; gives the names of those with wrong values.
fn run(root: &Path) -> (usize, usize, Vec<String>) {
    let folders = folders(root);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(folder) = folders.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            let outcome = std::panic::catch_unwind(|| run_case(folder, 1e-5, 1e-3));
            done.push((folder.clone(), outcome.unwrap_or_else(|_| Outcome::Wrong("a panic".to_owned()))));
        }
        done
    };
    let mut outcomes = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    outcomes.sort_by(|a, b| a.0.cmp(&b.0));
    let mut by_operator: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let (mut passed, mut refused, mut wrong) = (0, 0, Vec::new());
    for (folder, outcome) in &outcomes {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let operator = operator(folder, &name);
        let counts = by_operator.entry(operator).or_default();
        match outcome {
            Outcome::Passed => {
                passed += 1;
                counts[0] += 1;
            }
            Outcome::Refused(code, message) => {
                refused += 1;
                counts[1] += 1;
                println!("refused {name}: {code} {message}");
                *reasons.entry((*code).to_owned()).or_default() += 1;
            }
            Outcome::Wrong(fault) => {
                counts[2] += 1;
                println!("WRONG {name}: {fault}");
                wrong.push(name);
            }
        }
    }
    println!("operator: passed refused wrong");
    for (operator, [passed, refused, wrong]) in by_operator {
        println!("{operator}: {passed} {refused} {wrong}");
    }
    println!("refused by code: {reasons:?}");
    println!("{}: {passed} passed, {refused} refused, {} wrong", root.display(), wrong.len());
    (passed, refused, wrong)
}

/// The operator that a case is about: the only one of its graph, else `expanded` or `several`.
fn operator(folder: &Path, name: &str) -> String {
    if name.contains("_expanded") {
        return "(expanded)".to_owned();
    }
    match Model::load(folder.join("model.onnx")) {
        Ok(model) => match model.graph.nodes.as_slice() {
            [only] => only.op_type().to_owned(),
            _ => "(several)".to_owned(),
        },
        Err(_) => "(unreadable)".to_owned(),
    }
}

#[test]
fn reduced_cases_are_right_or_refused() {
    let Some(shared) = crate::common::real_models() else { return };
    let (passed, _, wrong) = run(&shared.join("cases"));
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(passed >= 30, "{passed}");
}

/// Operators of ONNX Runtime's own, and options of ONNX's that its backend tests leave out, against what ONNX Runtime gives: none is refused.
/// `generate.py` beside the cases says where they are from.
#[test]
fn cases_that_onnx_runtime_recorded_are_right() {
    for (folder, least) in [("microsoft", 80), ("operators", 60)] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(folder);
        let (passed, refused, wrong) = run(&root);
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!((passed, refused), (folders(&root).len(), 0));
        assert!(passed >= least, "{passed}");
    }
}

/// Products of quantised integers, against their definition.
#[test]
fn cases_of_quantised_products_are_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/quantized");
    let (passed, refused, wrong) = run(&root);
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!((passed, refused), (folders(&root).len(), 0));
    assert!(passed >= 9, "{passed}");
}

/// Knuth's MMIX generator; the high bits are the good ones.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// A number that breaks assumptions.
    fn number(&mut self) -> i64 {
        const NUMBERS: [i64; 16] =
            [0, -1, 1, 2, -2, 3, 7, 64, 1000, 1 << 16, i32::MAX as i64, 1 << 33, 1 << 40, 1 << 62, i64::MAX, i64::MIN];
        NUMBERS[self.below(NUMBERS.len())]
    }
}

/// Changes a few numbers of a model: attributes, dimensions, integers in tensors.
fn spoil(model: &mut ModelProto, random: &mut Random) {
    let Some(graph) = &mut model.graph else { return };
    for node in &mut graph.node {
        for attribute in &mut node.attribute {
            if random.below(2) == 0 {
                continue;
            }
            if let Some(value) = &mut attribute.i {
                *value = random.number();
            }
            if let Some(value) = &mut attribute.f {
                *value = [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-30, 1e30][random.below(6)];
            }
            if !attribute.ints.is_empty() {
                let index = random.below(attribute.ints.len());
                attribute.ints[index] = random.number();
            }
            if let Some(tensor) = &mut attribute.t {
                spoil_tensor(tensor, random);
            }
        }
        if random.below(16) == 0 && !node.input.is_empty() {
            let index = random.below(node.input.len());
            node.input[index].clear();
        }
    }
    for tensor in &mut graph.initializer {
        spoil_tensor(tensor, random);
    }
    for input in &mut graph.input {
        let tensor = input.r#type.as_mut().and_then(|ty| ty.value.as_mut());
        let Some(type_proto::Value::TensorType(tensor)) = tensor else { continue };
        for dim in tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim) {
            match random.below(6) {
                0 => dim.value = Some(tensor_shape_proto::dimension::Value::DimValue(random.number())),
                1 => dim.value = Some(tensor_shape_proto::dimension::Value::DimParam("n".to_owned())),
                _ => {}
            }
        }
    }
}

fn spoil_tensor(tensor: &mut TensorProto, random: &mut Random) {
    if tensor.data_type() != tensor_proto::DataType::Int64 as i32 || random.below(2) == 0 {
        return;
    }
    match &tensor.raw_data {
        Some(raw) if raw.len() >= 8 => {
            let mut bytes = raw.to_vec();
            let place = random.below(bytes.len() / 8) * 8;
            bytes[place..place + 8].copy_from_slice(&random.number().to_le_bytes());
            tensor.raw_data = Some(bytes.into());
        }
        _ if !tensor.int64_data.is_empty() => {
            let index = random.below(tensor.int64_data.len());
            tensor.int64_data[index] = random.number();
        }
        _ => {}
    }
}

/// Models of all operators with absurd numbers here and there: imported or refused, never a panic, and soon.
#[test]
fn spoiled_models_of_the_suite_are_imported_or_refused() {
    let Some(suite) = std::env::var_os("TENON_ONNX_SUITE").map(PathBuf::from) else {
        println!("skipped: TENON_ONNX_SUITE names no unpacked suite");
        return;
    };
    let mut random = Random(1);
    let (mut imported, mut refused, mut slowest) = (0, 0, (Duration::ZERO, PathBuf::new()));
    for folder in folders(&suite.join("node")) {
        let session = Session::new();
        let bytes = std::fs::read(folder.join("model.onnx")).unwrap();
        let Ok(proto) = ModelProto::decode(bytes.as_slice()) else { continue };
        for _ in 0..8 {
            let mut spoiled = proto.clone();
            spoil(&mut spoiled, &mut random);
            // Integers among the inputs decide shapes in many of these models.
            let mut constants = BTreeMap::new();
            for (index, input) in proto.graph.iter().flat_map(|graph| &graph.input).enumerate() {
                let path = folder.join(format!("test_data_set_0/input_{index}.pb"));
                let Ok(bytes) = std::fs::read(path) else { continue };
                let Ok(mut tensor) = TensorProto::decode(bytes.as_slice()) else { continue };
                spoil_tensor(&mut tensor, &mut random);
                let folder = tempfile::tempdir().unwrap();
                std::fs::write(folder.path().join("t.pb"), tensor.encode_to_vec()).unwrap();
                if let Ok((_, tensor)) = read_tensor_pb(folder.path().join("t.pb")) {
                    constants.insert(input.name().to_owned(), tensor);
                }
            }
            let start = Instant::now();
            let result = Model::from_proto(spoiled, None).and_then(|model| {
                constants.retain(|name, _| model.graph.inputs.iter().any(|input| input.name == *name));
                let options = ImportOptions { shapes: None, constants };
                import_loaded(&session, &model, "model.onnx", &options).map(drop)
            });
            match result {
                Ok(()) => imported += 1,
                Err(error) => {
                    assert!(error.code().starts_with("E0"));
                    refused += 1;
                }
            }
            slowest = slowest.max((start.elapsed(), folder.clone()));
        }
    }
    println!("{imported} imported, {refused} refused, the slowest took {slowest:?}");
    assert!(imported > 1000 && refused > 1000);
    assert!(slowest.0 < Duration::from_secs(20), "{slowest:?}");
}

/// The suite lies where `TENON_ONNX_SUITE` says: a folder that holds `node` and `simple`.
#[test]
fn the_onnx_suite_is_right_or_refused() {
    let Some(suite) = std::env::var_os("TENON_ONNX_SUITE").map(PathBuf::from) else {
        println!("skipped: TENON_ONNX_SUITE names no unpacked suite");
        return;
    };
    for part in ["node", "simple"] {
        let (_, _, wrong) = run(&suite.join(part));
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
