//! `tenon codegen`: every kernel assembles for every target, without spills and without a word of warning.

use std::os::unix::fs::PermissionsExt;

use tenon_target::{Ptxas, Target};

use crate::{file, tenon, tenon_in, testdata, write};

/// Whether there is a ptxas that assembles for this architecture.
fn can_assemble(architecture: &str) -> bool {
    let target = Target::find(architecture).unwrap();
    match Ptxas::locate().and_then(|ptxas| ptxas.check_release(target.architecture)) {
        Ok(()) => true,
        Err(error) => {
            println!("skipped: {error}");
            false
        }
    }
}

/// The kernels of one report.
fn kernels(json: &serde_json::Value) -> &Vec<serde_json::Value> {
    json["kernels"].as_array().unwrap()
}

fn the_model_that_ships_assembles(architecture: &str) {
    if !can_assemble(architecture) {
        return;
    }
    let model = testdata("models/ppocrv6_det_tiny/model.onnx");
    let outcome = tenon(&["codegen", &model, "--shape", "x=1,3,96,160", "--target", architecture, "--json", "--quiet"]);
    let report: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    assert!(kernels(&report).len() > 50, "{}", kernels(&report).len());
    for kernel in kernels(&report) {
        assert_eq!(kernel["spills"], 0, "{kernel}");
        assert!(kernel["registers"].as_u64().unwrap() >= 4 && kernel["occupancy"].as_f64().unwrap() > 0.0, "{kernel}");
    }
}

macro_rules! architectures {
    ($($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            the_model_that_ships_assembles(stringify!($name));
        }
    )*

    #[test]
    fn every_architecture_is_tried() {
        let known: Vec<_> = tenon_target::Architecture::all().iter().map(|each| each.name.to_string()).collect();
        let mut tried = vec![$(stringify!($name).to_owned()),*];
        tried.retain(|name| known.contains(name));
        assert_eq!(tried, known);
    }
    };
}

architectures!(sm_70, sm_75, sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a);

/// Products and convolutions in f16, whose matrix instructions are seen in the loop.
const PRODUCTS: &str = r#"
module attributes {graph.model = "products"} {
  func.func @main(%a: tensor<256x512xf16> {graph.name = "a"}, %b: tensor<512x256xf16> {graph.name = "b"},
      %x: tensor<1x64x56x56xf16> {graph.name = "x"}, %w: tensor<64x64x3x3xf16> {graph.name = "w"})
      -> (tensor<256x256xf16> {graph.name = "c"}, tensor<1x64x56x56xf16> {graph.name = "y"}) {
    %0 = graph.contract "mk,kn->mn"(%a, %b) accumulate f32 : (tensor<256x512xf16>, tensor<512x256xf16>) -> tensor<256x256xf16> loc("product")
    %1 = graph.convolution(%x, %w) accumulate f32 {dilations = array<i64: 1, 1>, groups = 1 : i64, pad_begin = array<i64: 1, 1>, pad_end = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<1x64x56x56xf16>, tensor<64x64x3x3xf16>) -> tensor<1x64x56x56xf16> loc("convolution")
    return %0, %1 : tensor<256x256xf16>, tensor<1x64x56x56xf16>
  }
}
"#;

#[test]
fn figures_are_those_of_the_assembled_kernels() {
    if !can_assemble("sm_80") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let model = write(&folder, "products.mlir", PRODUCTS);
    let outcome = tenon(&["codegen", &model, "--target", "sm_80", "--target", "sm_90a", "--json", "--quiet"]);
    let reports: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    for report in reports.as_array().unwrap() {
        assert_eq!(kernels(report).len(), 2);
        for kernel in kernels(report) {
            assert_eq!(kernel["spills"], 0, "{kernel}");
            assert!(kernel["threads"] == 128 || kernel["threads"] == 160, "{kernel}");
            assert!(kernel["smem"].as_u64().unwrap() > 0, "{kernel}");
            // Without nvdisasm there are no listings.
            if let Some(mma) = kernel["loop_mma"].as_u64() {
                let (inside, all) = (kernel["loop_sass"].as_u64().unwrap(), kernel["total_sass"].as_u64().unwrap());
                assert!(mma >= 4 && inside > mma && all > inside, "{kernel}");
            }
        }
    }
    // One report of one target is an object, and for people there is a table.
    let text = tenon(&["codegen", &model, "--target", "sm_80"]);
    assert!(text.done().contains("loop MMA") && text.stdout.contains("2 kernels by ptxas of CUDA"), "{}", text.stdout);
}

/// An assembler that takes everything and says `report`.
fn pretended(folder: &tempfile::TempDir, report: &str) -> String {
    let path = write(
        folder,
        "ptxas",
        format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'release 12.9, V0'; exit 0; fi\n\
             name=$(grep -o 'entry [a-z0-9_]*' module.ptx | head -1 | cut -c7-)\n\
             echo \"ptxas info    : Compiling entry function '$name' for 'sm_80'\" >&2\n\
             echo \"ptxas info    : Function properties for $name\" >&2\n{report}\n\
             echo 'ptxas info    : Used 32 registers, 352 bytes cmem[0]' >&2\ntouch module.cubin\n"
        ),
    );
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn spills_and_warnings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (recipe, model) = (testdata("command/mlp.toml"), testdata("command/mlp.mlir"));
    let nvdisasm =
        write(&folder, "nvdisasm", "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'release 12.9, V0'; fi\nexit 0\n");
    std::fs::set_permissions(&nvdisasm, std::fs::Permissions::from_mode(0o755)).unwrap();
    let frame = |bytes: u32| {
        format!("echo '    {bytes} bytes stack frame, {bytes} bytes spill stores, 0 bytes spill loads' >&2")
    };
    let warning = format!("{}\necho 'ptxas module.ptx, line 12; warning : Unused register' >&2", frame(0));
    for (report, code) in [(frame(0), None), (frame(8), Some("E0616")), (warning, Some("E0617"))] {
        let ptxas = pretended(&folder, &report);
        let environment = [("TENON_PTXAS", ptxas.as_str()), ("TENON_NVDISASM", nvdisasm.as_str())];
        let outcome = tenon_in(&environment, &["codegen", &model, "--recipe", &recipe, "--target", "sm_80"]);
        match code {
            None => assert!(outcome.done().contains("1 kernels"), "{}", outcome.stdout),
            Some(code) => {
                assert_eq!(outcome.status, 1, "{}", outcome.stderr);
                assert!(outcome.stderr.contains(code) && outcome.stderr.contains("mlp.mlir"), "{}", outcome.stderr);
                // The figures are printed all the same.
                assert!(outcome.stdout.contains("registers"), "{}", outcome.stdout);
            }
        }
    }
}

/// Every kernel of the list has its row, or a reason why there is none, and stands beside what was published.
#[test]
fn benchmark_kernels_without_a_model() {
    if !can_assemble("sm_80") {
        return;
    }
    let outcome = tenon(&["codegen", "--target", "sm_80", "--json", "--quiet"]);
    let report: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let names = |list: &str| -> Vec<String> {
        let rows = report[list].as_array().unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap().split('/').next().unwrap().to_owned()).collect()
    };
    let (made, missing) = (names("kernels"), names("unsupported"));
    for kernel in &tenon::benchmark::Suite::get().kernels {
        let list = if kernel.unsupported_on(Target::find("sm_80").unwrap()).is_some() { &missing } else { &made };
        assert!(list.contains(&kernel.name), "{}", kernel.name);
    }
    for kernel in kernels(&report) {
        assert_eq!(kernel["spills"], 0, "{kernel}");
        assert!(kernel["registers"].as_u64().unwrap() > 0 && kernel["occupancy"].as_f64().unwrap() > 0.0, "{kernel}");
    }
    // At most the registers of the published kernel, and at most what it needs for each of its matrix instructions (on CUDA cores, for the same
    // number of multiply-adds of a thread).
    for name in ["matmul_f16", "matmul_f16_wide", "matmul_tf32", "matmul_f32"] {
        let product = kernels(&report).iter().find(|kernel| kernel["name"] == name).unwrap();
        let published = &product["published"];
        assert!(product["registers"].as_u64() <= published["registers"].as_u64(), "{product}");
        assert_eq!(product["threads"], published["threads"], "{product}");
        if let (Some(mma), Some(sass)) = (product["loop_mma"].as_u64(), product["loop_sass"].as_f64()) {
            let theirs = published["loop_mma"].as_u64().unwrap();
            assert_eq!(mma > 0, theirs > 0, "{product}");
            let share = if theirs == 0 { 1.0 } else { mma as f64 / theirs as f64 };
            assert!(sass <= share * published["loop_sass"].as_f64().unwrap(), "{product}");
        }
    }
    let text = tenon(&["codegen", "--target", "sm_80"]);
    assert!(
        text.done().contains("not there: matmul_f16_tma") && text.stdout.contains("published, 128x128x32"),
        "{}",
        text.stdout
    );
}

/// A product by tensor maps and warpgroups needs at most a tenth more instructions for each `HGMMA` than what was published.
#[test]
fn warpgroup_products_beside_what_was_published() {
    if !can_assemble("sm_90a") {
        return;
    }
    let outcome = tenon(&["codegen", "--target", "sm_90a", "--json", "--quiet"]);
    let report: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let product = kernels(&report).iter().find(|kernel| kernel["name"] == "matmul_f16_tma").unwrap();
    assert_eq!((&product["spills"], &product["threads"]), (&0.into(), &160.into()), "{product}");
    assert_eq!((&product["published"]["loop_mma"], &product["published"]["loop_sass"]), (&8.into(), &83.into()));
    if let Some(mma) = product["loop_mma"].as_u64() {
        assert_eq!(mma % 8, 0, "{product}");
        assert!(product["loop_sass"].as_f64().unwrap() / mma as f64 <= 1.1 * 83.0 / 8.0, "{product}");
    }
}

/// Attention by warpgroups needs at most the instructions that were published, keeps as many warps on a multiprocessor, and spills nothing.
#[test]
fn warpgroup_attention_beside_what_was_published() {
    if !can_assemble("sm_90a") {
        return;
    }
    let outcome = tenon(&["codegen", "--target", "sm_90a", "--json", "--quiet"]);
    let report: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    for (name, loop_sass) in [("attention_f16_d64", 571), ("attention_f16_d128", 394)] {
        let kernel = kernels(&report).iter().find(|kernel| kernel["name"] == name).unwrap();
        let published = &kernel["published"];
        assert_eq!((&kernel["spills"], &kernel["threads"]), (&0.into(), &288.into()), "{kernel}");
        assert_eq!(published["loop_sass"], loop_sass, "{kernel}");
        let share = |figures: &serde_json::Value| figures["occupancy"].as_f64().unwrap();
        assert!(share(kernel) >= share(published), "{kernel}");
        if let Some(sass) = kernel["loop_sass"].as_u64() {
            assert!(sass <= loop_sass && kernel["loop_mma"].as_u64() == Some(12), "{kernel}");
        }
    }
}

#[test]
fn what_is_missing_is_refused_by_code() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = file(&folder, "nowhere");
    let outcome = tenon_in(&[("TENON_PTXAS", &nowhere)], &["codegen", &testdata("command/mlp.mlir")]);
    outcome.refused("E0605");
    assert_eq!(tenon(&["codegen", "m.onnx", "--shape", "x"]).status, 2);
}
