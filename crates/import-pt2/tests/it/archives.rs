//! Programs of `testdata/pt2`, evaluated by the reference interpreter, against what eager PyTorch gave.

use std::collections::BTreeMap;

use tenon_import_pt2::{ImportOptions, Imported, Program, import_program};
use tenon_ir::{PrintOptions, Session};
use tenon_reference::{Mode, run_function};
use tenon_tensor::{Tensor, read_npy};

use crate::testdata;

/// A tolerance that the rounding of f32 explains.
const RELATIVE: f64 = 1e-5;
const ABSOLUTE: f64 = 2e-6;

fn tensors(folder: &std::path::Path, kind: &str) -> Vec<Tensor> {
    (0..)
        .map(|index| folder.join(format!("{kind}_{index}.npy")))
        .take_while(|path| path.exists())
        .map(|path| read_npy(path).unwrap())
        .collect()
}

fn import<'s>(session: &'s Session, name: &str, shapes: bool) -> (Imported<'s>, Vec<Tensor>) {
    let folder = testdata().join(name);
    let program = Program::load(folder.join("model.pt2")).unwrap();
    let inputs = tensors(&folder, "input");
    let names = program.inputs();
    let shape = |tensor: &Tensor| tensor.shape().iter().map(|size| *size as u64).collect::<Vec<_>>();
    let given: BTreeMap<String, Vec<u64>> = names.into_iter().zip(inputs.iter().map(shape)).collect();
    let options = ImportOptions { shapes: shapes.then_some(given) };
    let imported = import_program(session, &program, "model.pt2", &options)
        .unwrap_or_else(|error| panic!("{name}: {}: {error}", error.code()));
    let errors = tenon_graph_dialect::check(&imported.module);
    assert!(errors.is_empty(), "{name}: {}", errors[0]);
    let text = imported.module.print(PrintOptions::default());
    let again = session.parse_module(&text, "dump").unwrap();
    assert_eq!(again.print(PrintOptions::default()), text, "{name}");
    (imported, inputs)
}

/// Compares every output that PyTorch gave; the program may have more.
fn check(name: &str) {
    let session = Session::new();
    let (imported, inputs) = import(&session, name, true);
    let states = imported.weights.iter().filter(|(name, _)| imported.states.contains(name));
    let inputs: Vec<Tensor> = inputs.into_iter().chain(states.map(|(_, tensor)| tensor.clone())).collect();
    let parameters = |name: &str| imported.weights.get(name).cloned();
    let outputs = run_function(&imported.module, "main", &inputs, &parameters, Mode::Typed).unwrap();
    let expected = tensors(&testdata().join(name), "output");
    assert!(!expected.is_empty() && outputs.len() >= expected.len(), "{name}: {} outputs", outputs.len());
    let mut wrong = Vec::new();
    for (index, (output, expected)) in outputs.iter().zip(&expected).enumerate() {
        if (output.dtype(), output.shape()) != (expected.dtype(), expected.shape()) {
            wrong.push(format!(
                "output {index} is {}{:?}, not {}{:?}",
                output.dtype(),
                output.shape(),
                expected.dtype(),
                expected.shape()
            ));
            continue;
        }
        let (relative, absolute) = match output.dtype() {
            tenon_tensor::DType::F16 => (2e-3, 2e-3),
            dtype if dtype.is_float() => (RELATIVE, ABSOLUTE),
            _ => (0.0, 0.0),
        };
        let pairs = output.iter_f64().unwrap().zip(expected.iter_f64().unwrap());
        let off = pairs
            .map(|(a, e)| if a == e || (a.is_nan() && e.is_nan()) { 0.0 } else { (a - e).abs() - relative * e.abs() });
        let most = off.fold(0.0, |most: f64, off| if off > most || off.is_nan() { off } else { most });
        if most > absolute || most.is_nan() {
            let (a, e) = (output.to_f64_vec().unwrap(), expected.to_f64_vec().unwrap());
            wrong.push(format!(
                "output {index} is off by {most}: {:?} instead of {:?}",
                &a[..a.len().min(8)],
                &e[..e.len().min(8)]
            ));
        }
    }
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}

macro_rules! families {
    ($($name:ident),* $(,)?) => { $(#[test] fn $name() { check(stringify!($name)); })* };
}

families! {
    activations, attention, branches, counter, creation, images, in_place, indexing, matmuls, norms, pointwise, quantization, recurrent, reductions,
    shared, unary, views,
}

#[test]
fn nested_graphs_become_regions() {
    let session = Session::new();
    let (imported, _) = import(&session, "branches", false);
    assert!(tenon_flow_dialect::check(&imported.module).is_empty());
    let text = imported.module.print(PrintOptions::default());
    assert!(text.contains("flow.if") && text.contains("flow.loop"), "{text}");
}

#[test]
fn weights_are_those_of_the_file_and_tied_ones_are_one() {
    let session = Session::new();
    let (imported, _) = import(&session, "shared", false);
    let names: Vec<&str> = imported.weights.keys().map(String::as_str).collect();
    assert_eq!(names.iter().filter(|name| name.contains("weight") && !name.contains("conv")).count(), 1, "{names:?}");
    let text = imported.module.print(PrintOptions::default());
    assert!(text.contains("graph.path = \"logits\"") && text.contains("graph.path = \"more.1\""), "{text}");
    assert!(text.contains("graph.ranges"), "{text}");
}

#[test]
fn a_written_buffer_is_an_argument_and_a_result() {
    let session = Session::new();
    let (imported, _) = import(&session, "counter", false);
    assert_eq!(imported.states, ["steps", "total"]);
    assert_eq!(imported.weights["total"].to_f32_vec().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let text = imported.module.print(PrintOptions::default());
    assert_eq!(text.matches("graph.state").count(), 4, "{text}");
}
