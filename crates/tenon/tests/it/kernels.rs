//! Kernels of a build: compiled once each, and the same whatever compiles them.

use std::path::PathBuf;

use tenon::driver::{Driver, Program, Request, Source};
use tenon::stage::Stage;
use tenon_import_onnx::ImportOptions;
use tenon_ir::Session;
use tenon_recipe::Recipe;
use tenon_runtime::plan::Operation;
use tenon_target::Target;

use crate::{testdata, write};

/// Softmax of rows of a free number, and of a table that no bucket changes.
const TWO_PARTS: &str = r#"
module attributes {graph.model = "parts"} {
  func.func @main(%x: tensor<?x48xf32, {dims = ["batch", 48]}> {graph.name = "x"}, %t: tensor<6x40xf32> {graph.name = "t"})
      -> (tensor<?x48xf32, {dims = ["batch", 48]}> {graph.name = "p"}, tensor<6x40xf32> {graph.name = "q"}) {
    %0 = graph.softmax %x {axis = 1} : tensor<?x48xf32, {dims = ["batch", 48]}> -> tensor<?x48xf32, {dims = ["batch", 48]}> loc("rows")
    %1 = graph.softmax %t {axis = 1} : tensor<6x40xf32> -> tensor<6x40xf32> loc("table")
    return %0, %1 : tensor<?x48xf32, {dims = ["batch", 48]}>, tensor<6x40xf32>
  }
}
"#;

const RECIPE: &str = r#"
recipe = 1
name = "parts"

[semantic.dims]
batch = { allowed = [2, 3, 5], between = "reject", beyond = "reject" }

[semantic.inputs.x]
dims = ["batch", 48]
"#;

fn request(recipe: Recipe, targets: &[&str], threads: usize) -> Request {
    Request {
        recipe,
        targets: targets.iter().map(|name| Target::find(name).unwrap()).collect(),
        targets_are_named: true,
        bucket: Default::default(),
        input_shapes: None,
        passes: Default::default(),
        threads,
    }
}

/// Names of the kernels that a program launches.
fn launches(program: &Program) -> Vec<&str> {
    let steps = program.plan.steps.iter();
    steps
        .filter_map(|step| if let Operation::Launch(launch) = &step.operation { Some(&*launch.entry) } else { None })
        .collect()
}

#[test]
fn buckets_share_what_they_have_in_common() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(&folder, "parts.mlir", TWO_PARTS);
    let tenon_recipe::Loaded { recipe, .. } =
        Recipe::load(&PathBuf::from(write(&folder, "parts.toml", RECIPE))).unwrap();
    let session = Session::new();
    let source = Source::model(&session, &PathBuf::from(model), &ImportOptions::default(), None).unwrap();
    let request = request(recipe, &["a100-sxm4-80gb", "t4"], 2);
    let mut driver = Driver::new(&session, &request).unwrap();
    let programs = driver.programs(&source).unwrap();
    assert_eq!(programs.len(), 6);
    for program in &programs {
        assert_eq!(program.ptx.matches(".entry").count(), 2, "{:?}", program.bucket);
        for launch in launches(program) {
            assert!(program.ptx.contains(&format!(".entry {launch}(")), "{launch} is not in the PTX");
        }
    }
    // For each of two targets three kernels of rows, and one of the table, not three.
    let compiled: Vec<_> = driver.kernel_times().iter().map(|time| time.target).collect();
    assert_eq!(compiled.iter().filter(|target| **target == "t4").count(), 4, "{compiled:?}");
    assert_eq!(compiled.len(), 8, "{compiled:?}");
    // Asked for again, nothing is compiled again, and the same comes out.
    let again = driver.programs(&source).unwrap();
    assert_eq!(driver.kernel_times().len(), 8);
    for (one, two) in programs.iter().zip(&again) {
        assert_eq!(one.ptx, two.ptx);
        assert_eq!(one.plan, two.plan);
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let model = PathBuf::from(testdata("models/ppocrv6_det_tiny/model.onnx"));
    let shapes = [("x".to_owned(), vec![1, 3, 32, 64])].into();
    let options = ImportOptions { shapes: Some(shapes), ..ImportOptions::default() };
    let compile = |threads: usize| {
        let session = Session::new();
        let source = Source::model(&session, &model, &options, None).unwrap();
        let request = request(Recipe::default(), &["a100-sxm4-80gb"], threads);
        let programs = Driver::new(&session, &request).unwrap().programs(&source).unwrap();
        let texts: Vec<_> = programs.into_iter().map(|program| (program.ptx, program.plan)).collect();
        // Stage by stage, for the module as a whole, the same PTX is made.
        let mut staged = String::new();
        Driver::new(&session, &request)
            .unwrap()
            .lower(&source, &[Stage::Llvm, Stage::Ptx], false, &mut |dump| {
                if dump.stage == Stage::Ptx {
                    staged = dump.text;
                }
                Ok(())
            })
            .unwrap();
        (texts, staged)
    };
    let (one, staged) = compile(1);
    assert!(staged.ends_with(&one[0].0), "stage by stage, other PTX is made");
    for threads in [2, 5] {
        let (several, again) = compile(threads);
        assert!(one == several, "{threads} threads make other programs");
        assert!(staged == again);
    }
}

#[test]
fn a_shared_kernel_has_the_name_that_its_bucket_gives_it() {
    // With 5 rows, the table's kernel is the second of two; with 6 rows, both are the same kernel, which has the first one's name.
    let folder = tempfile::tempdir().unwrap();
    let model = write(&folder, "parts.mlir", TWO_PARTS.replace("48", "40"));
    let recipe = RECIPE.replace("48", "40").replace("[2, 3, 5]", "[5, 6]");
    let tenon_recipe::Loaded { recipe, .. } =
        Recipe::load(&PathBuf::from(write(&folder, "parts.toml", recipe))).unwrap();
    let session = Session::new();
    let source = Source::model(&session, &PathBuf::from(model), &ImportOptions::default(), None).unwrap();
    let request = request(recipe, &["a100-sxm4-80gb"], 1);
    let mut driver = Driver::new(&session, &request).unwrap();
    let programs = driver.programs(&source).unwrap();
    assert_eq!(driver.kernel_times().len(), 2);
    let entries = |index: usize| -> Vec<&str> {
        let parts = programs[index].ptx.split(".entry ").skip(1);
        parts.map(|part| part.split('(').next().unwrap().trim()).collect()
    };
    assert_eq!(entries(0), ["k0_reduce_softmax", "k1_reduce_softmax"]);
    assert_eq!(entries(1), ["k0_reduce_softmax"]);
    for program in &programs {
        for launch in launches(program) {
            assert!(program.ptx.contains(&format!(".entry {launch}(")), "{launch} is not in the PTX");
        }
    }
    assert!(!programs[1].ptx.contains("k1_reduce"), "{}", programs[1].ptx);
}

/// Outputs of a split are one kernel for all that do not begin at 0, launched with their starts.
#[test]
fn outputs_of_a_split_share_a_kernel() {
    const OUTPUTS: u64 = 40;
    let (mut slices, mut values, mut types) = (String::new(), Vec::new(), Vec::new());
    for index in 0..OUTPUTS {
        slices += &format!(
            "    %{index} = graph.slice %x {{sizes = [3, 2], starts = [0, {}], steps = array<i64: 1, 1>}} : tensor<3x80xf32> -> tensor<3x2xf32>\n",
            index * 2
        );
        values.push(format!("%{index}"));
        types.push(format!("tensor<3x2xf32> {{graph.name = \"y{index}\"}}"));
    }
    let text = format!(
        "module attributes {{graph.model = \"split\"}} {{\n  func.func @main(%x: tensor<3x80xf32> {{graph.name = \"x\"}}) -> ({}) {{\n{slices}    return {} : {}\n  }}\n}}\n",
        types.join(", "),
        values.join(", "),
        vec!["tensor<3x2xf32>"; OUTPUTS as usize].join(", ")
    );
    let folder = tempfile::tempdir().unwrap();
    let model = write(&folder, "split.mlir", text);
    let values: Vec<f64> = (0..240).map(f64::from).collect();
    let input = tenon_tensor::Tensor::from_f64s(tenon_tensor::DType::F32, vec![3, 80], &values).unwrap();
    let input = format!("x={}", crate::write_npy(&folder, "x.npy", &input));
    let out = crate::file(&folder, "out");
    crate::tenon(&["run", &model, "--input", &input, "-o", &out]).done();
    for index in 0..OUTPUTS as usize {
        let found = tenon_tensor::read_npy(std::path::Path::new(&out).join(format!("y{index}.npy"))).unwrap();
        let expected: Vec<f64> =
            (0..3).flat_map(|row| [row * 80 + index * 2, row * 80 + index * 2 + 1]).map(|value| value as f64).collect();
        assert_eq!(found.to_f64_vec().unwrap(), expected, "{index}");
    }
    let ptx = crate::tenon(&["lower", &model, "--stage", "ptx"]);
    assert_eq!(ptx.done().matches(".entry").count(), 2);
}
