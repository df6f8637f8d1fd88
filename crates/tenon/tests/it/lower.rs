//! Stages, dumps, resuming.

use crate::*;

fn lower(arguments: &[&str]) -> Outcome {
    let (model, recipe) = (testdata("command/mlp.mlir"), testdata("command/mlp.toml"));
    tenon(&[&["lower", model.as_str(), "--recipe", recipe.as_str()], arguments].concat())
}

#[test]
fn all_stages_are_written_and_resuming_from_each_gives_the_same_ptx() {
    let folder = tempfile::tempdir().unwrap();
    let out = file(&folder, "stages");
    lower(&["--all", "-o", &out, "--bucket", "batch=2"]).done();
    let names = names_in(Path::new(&out));
    let expected = [
        "00-import.mlir",
        "01-contract.mlir",
        "02-bucket.batch=2.mlir",
        "03-flow.batch=2.mlir",
        "04-fuse.batch=2.mlir",
        "05-hw.batch=2.sm_80.mlir",
        "06-gpu.batch=2.sm_80.mlir",
        "07-nvvm.batch=2.sm_80.mlir",
        "08-llvm.batch=2.sm_80.ll",
        "09-ptx.batch=2.sm_80.ptx",
    ];
    let found: Vec<_> = names.iter().filter(|name| !name.starts_with("10-sass")).collect();
    assert_eq!(found, expected);
    let ptx = std::fs::read_to_string(Path::new(&out).join(expected[9])).unwrap();
    assert!(ptx.starts_with("// tenon stage: ptx\n// target: a100-sxm4-80gb\n// bucket: batch=2\n"), "{ptx}");
    assert!(ptx.contains(".target sm_80") && ptx.contains(".visible .entry"), "{ptx}");
    for name in &expected[..9] {
        let dump = Path::new(&out).join(name);
        let mut arguments = vec!["lower", "--from", dump.to_str().unwrap(), "--stage", "ptx", "--bucket", "batch=2"];
        let recipe = testdata("command/mlp.toml");
        if *name == expected[0] {
            arguments.extend(["--recipe", &recipe]);
        }
        assert_eq!(tenon(&arguments).done(), ptx, "resuming from {name}");
    }
    // The stage of a dump resumed from is the dump itself.
    let fuse = Path::new(&out).join(expected[4]);
    let again = tenon(&["lower", "--from", fuse.to_str().unwrap(), "--stage", "fuse"]);
    assert_eq!(again.done(), std::fs::read_to_string(&fuse).unwrap());
    tenon(&["lower", "--from", fuse.to_str().unwrap(), "--stage", "bucket"]).refused("E0006");
    let hw = Path::new(&out).join(expected[5]);
    tenon(&["lower", "--from", hw.to_str().unwrap(), "--target", "h200"]).refused("E0038");
    let text = std::fs::read_to_string(&hw).unwrap();
    let start = text.find(" warps ").unwrap() + " warps ".len();
    let edited = write(&folder, "05-hw.mlir", format!("{}3{}", &text[..start], &text[start + 1..]));
    assert!(tenon(&["lower", "--from", &edited]).refused("E0322").contains("3 warps"));
}

#[test]
fn every_bucket_is_printed_and_one_can_be_chosen() {
    let both = lower(&["--stage", "bucket"]);
    assert_eq!(both.done().matches("// tenon stage: bucket").count(), 2);
    let one = lower(&["--stage", "bucket", "--bucket", "batch=1"]);
    assert!(one.done().contains("tensor<1x3xf32>") && !one.stdout.contains("tensor<2x3xf32>"));
    let none = lower(&["--stage", "bucket", "--bucket", "batch=3"]);
    assert!(none.refused("E0034").contains("buckets are batch=1; batch=2"));
    lower(&["--stage", "bucket", "--bucket", "seq=3"]).refused("E0034");
    assert_eq!(lower(&["--bucket", "batch"]).status, 2);
}

#[test]
fn dumps_say_their_stage_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = "module {\n}\n";
    let unnamed = write(&folder, "edited.mlir", text);
    tenon(&["lower", "--from", &unnamed, "--stage", "ptx"]).refused("E0004");
    let wrong = write(&folder, "wrong.mlir", format!("// tenon stage: fuze\n{text}"));
    assert!(tenon(&["lower", "--from", &wrong]).refused("E0003").contains("fuse"));
    let early = write(&folder, "04-fuse.mlir", text);
    tenon(&["lower", "--from", &early, "--stage", "hw"]).refused("E0550");
    let unready = write(&folder, "01-contract.mlir", text);
    tenon(&["lower", "--from", &unready, "--stage", "bucket"]).refused("E0413");
    let deep = write(&folder, "03-flow.mlir", "(".repeat(100_000));
    tenon(&["lower", "--from", &deep, "--stage", "fuse"]).refused("E0402");
}

#[test]
fn passes_are_observed_and_left_out() {
    let outcome = lower(&[
        "--stage",
        "fuse",
        "--bucket",
        "batch=1",
        "--timings",
        "--statistics",
        "--remarks",
        "--dump-after",
        "group-kernels",
    ]);
    outcome.done();
    for part in [
        "group-kernels",
        "kernels",
        "verify ms",
        "after pass",
        "`k0_contract_add_max` of 3 operators [MatMul_0, Add_1, Relu_2]",
    ] {
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
    let json = lower(&["--stage", "fuse", "--bucket", "batch=1", "--statistics", "--json", "--quiet"]);
    json.done();
    let value: serde_json::Value = serde_json::from_str(&json.stderr).unwrap();
    assert!(value["statistics"].as_array().unwrap().iter().any(|row| row[1] == "kernels" && row[2] == 2), "{value}");
}

#[test]
fn the_table_has_a_row_for_each_operator() {
    let (model, recipe) = (testdata("command/mlp.mlir"), testdata("command/mlp.toml"));
    let outcome = tenon(&["--json", "table", &model, "--recipe", &recipe, "--bucket", "batch=2"]);
    let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let rows = value[0]["operators"].as_array().unwrap();
    let cell = |row: usize, name: &str| rows[row][name].to_string();
    assert_eq!(rows.len(), 4);
    assert_eq!(cell(0, "operator"), "\"contract\"");
    assert_eq!(cell(2, "nodes"), "[\"Relu_2\"]");
    assert_eq!(cell(2, "kernel"), "\"k0_contract_add_max\"");
    assert_eq!(cell(3, "results"), "[\"f32[2, 4]\"]");
    assert_eq!(cell(3, "layout"), "[\"row-major\"]");
    let text = tenon(&["table", &model, "--recipe", &recipe]);
    assert!(text.done().contains("batch=1\n") && text.stdout.contains("elementwise max"), "{}", text.stdout);
}

/// What is computed from weights alone stands behind what runs for every request.
#[test]
fn the_table_begins_with_what_runs() {
    let outcome = tenon(&["--json", "table", &testdata("passes/rewrite-batch-norm.mlir")]);
    let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let rows = value[0]["operators"].as_array().unwrap();
    let ahead: Vec<bool> = rows.iter().map(|row| row["placement"] == "ahead").collect();
    assert_eq!(rows[0]["operator"], "convolution");
    assert!(ahead.is_sorted() && ahead.contains(&true) && !ahead[0], "{ahead:?}");
    assert!(rows.iter().all(|row| (row["placement"] == "ahead") == row["kernel"].is_null()), "{value}");
}

#[test]
fn the_summary_counts_launches() {
    let (model, recipe) = (testdata("command/mlp.mlir"), testdata("command/mlp.toml"));
    let outcome = tenon(&["explain", &model, "--recipe", &recipe, "--bucket", "batch=2", "--summary", "--json"]);
    let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    assert_eq!(
        (value["launches"].as_u64(), value["copies"].as_u64(), value["memsets"].as_u64()),
        (Some(2), Some(0), Some(0))
    );
    assert_eq!(value["bucket"], "batch=2");
    assert_eq!(value["kernels"][0]["source_nodes"], serde_json::json!(["MatMul_0", "Add_1", "Relu_2"]));
    assert_eq!(value["recipe_hash"].as_str().unwrap().len(), 64);
    assert!(
        tenon(&["explain", &model, "--recipe", &recipe]).done().contains("group-kernels: kernel: `k1_reduce_softmax`")
    );
}

/// A product with few tiles takes smaller ones, by the model that is printed: each multiprocessor computes 64x64x1024 multiply-adds at 1024 a clock,
/// and reads (64 + 64) x 1024 elements of two bytes at 64 bytes a clock.
#[test]
fn schedules_that_were_weighed_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
module {
  func.func @main(%a: tensor<512x1024xf16> {graph.name = "a"}, %b: tensor<1024x512xf16> {graph.name = "b"}) -> (tensor<512x512xf16> {graph.name = "c"}) {
    %0 = graph.contract "mk,kn->mn"(%a, %b) accumulate f32 : (tensor<512x1024xf16>, tensor<1024x512xf16>) -> tensor<512x512xf16> loc("product")
    return %0 : tensor<512x512xf16>
  }
}
"#;
    let model = write(&folder, "product.mlir", text);
    let outcome = tenon(&["explain", &model, "--schedules", "--json"]);
    let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let list = value[0]["candidates"].as_array().unwrap();
    let of_tile = |rows: u64, columns: u64| {
        list.iter().filter(move |candidate| candidate["tile"] == serde_json::json!([rows, columns, 32]))
    };
    let of = |rows: u64, columns: u64| of_tile(rows, columns).find(|candidate| candidate["splits"] == 1).unwrap();
    // Each of eight tiles as a whole, and those that there are fewer of than two for each of 108 multiprocessors split along k.
    assert_eq!((list.len(), of_tile(32, 32).count(), of_tile(64, 32).count()), (15, 1, 2));
    let split = of_tile(128, 128).find(|candidate| candidate["splits"] != 1).unwrap();
    let splits = split["splits"].as_u64().unwrap();
    assert!(splits > 1 && split["blocks"] == 16 * splits && 16 * splits <= 108 && split["waves"] == 1, "{split}");
    // The run of a block, handing over, and sums of four bytes at 64 bytes a clock: written by one block, read of all.
    let run = 32_u64.div_ceil(splits) * 32;
    let sums = 128 * 128 * 4;
    assert_eq!(split["clocks"], (128 * 128 / 1024 + (128 + 128) * 2 / 64) * run + 2048 + (1 + splits) * sums / 64);
    assert_eq!(split["bytes"], 16 * ((128 + 128) * 1024 * 2 + 2 * splits * sums));
    let (small, large) = (of(64, 64), of(128, 128));
    assert_eq!(
        (small["blocks"].as_u64(), small["waves"].as_u64(), small["stages"].as_u64()),
        (Some(64), Some(1), Some(3))
    );
    assert_eq!(small["clocks"], 64 * 64 + (64 + 64) * 2 * 1024 / 64);
    assert_eq!(
        (large["blocks"].as_u64(), large["clocks"].as_u64()),
        (Some(16), Some(128 * 128 + (128 + 128) * 2 * 1024 / 64))
    );
    assert_eq!(small["bytes"], 64 * (64 + 64) * 1024 * 2);
    assert_eq!((of(128, 256)["warps"].as_u64(), large["warps"].as_u64()), (Some(8), Some(4)));
    assert_eq!((small["chosen"].as_bool(), large["chosen"].as_bool()), (Some(true), Some(false)));
    let table = tenon(&["explain", &model, "--schedules"]);
    assert!(table.done().contains("64x64x32") && table.stdout.contains("chosen: the least clocks"), "{}", table.stdout);
    // On sm_90a the schedule by tensor maps is weighed too.
    let outcome = tenon(&["explain", &model, "--schedules", "--target", "sm_90a", "--json"]);
    let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let chosen: Vec<_> =
        value[0]["candidates"].as_array().unwrap().iter().filter(|one| one["chosen"] == true).collect();
    assert_eq!(chosen.len(), 1, "{value}");
    assert_eq!(chosen[0]["schedule"], "tma wgmma");
    assert_eq!(value[0]["ruled_out"], serde_json::json!([]));
    // Rows of 1022 elements have no stride of whole 16 bytes.
    let model = write(&folder, "odd.mlir", text.replace("1024", "1022"));
    let outcome = tenon(&["explain", &model, "--schedules", "--target", "sm_90a", "--json"]);
    let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    assert_eq!(value[0]["ruled_out"][0]["schedule"], "tma wgmma");
    assert!(value[0]["ruled_out"][0]["reason"].as_str().unwrap().contains("a stride of A"), "{value}");
    let table = tenon(&["explain", &model, "--schedules", "--target", "sm_90a"]);
    assert!(table.done().contains("not possible: a stride of A"), "{}", table.stdout);
    // So are the schedules of attention.
    let attention = |heads: u32| {
        let ty = format!("tensor<1x2x256x{heads}xf16>");
        let text = format!(
            "module {{ func.func @main(%q: {ty} {{graph.name = \"q\"}}, %k: {ty} {{graph.name = \"k\"}}, %v: {ty} {{graph.name = \"v\"}}) \
             -> ({ty} {{graph.name = \"o\"}}) {{\n%0 = graph.attention(%q, %k, %v) {{scale = 0.125 : f64}} : ({ty}, {ty}, {ty}) -> {ty} \
             loc(\"attention\")\nreturn %0 : {ty} }} }}"
        );
        let model = write(&folder, "attention.mlir", text);
        let outcome = tenon(&["explain", &model, "--schedules", "--target", "sm_90a", "--json"]);
        serde_json::from_str::<serde_json::Value>(outcome.done()).unwrap()[0].clone()
    };
    let value = attention(64);
    let named =
        |name: &str| value["candidates"].as_array().unwrap().iter().filter(|one| one["schedule"] == name).count();
    assert!(named("tma wgmma") > 1 && named("mma.sync") == 1, "{value}");
    // Two heads of 256 queries keep four or eight blocks busy, each with 256 keys: of 64 queries, products and weights are
    // 64 x 64 x 128 / 2048 and 64 x 64 / 16 clocks for 64 keys, results are scaled in 64 x 64 / 128.
    let chosen = value["candidates"].as_array().unwrap().iter().find(|one| one["chosen"] == true).unwrap();
    assert_eq!((&chosen["schedule"], &chosen["waves"]), (&"tma wgmma".into(), &1.into()), "{value}");
    let small =
        value["candidates"].as_array().unwrap().iter().find(|one| one["tile"] == serde_json::json!([64, 64, 64]));
    assert_eq!(small.unwrap()["clocks"], 4 * (64 * 64 * 128 / 2048 + 64 * 64 / 16 + 64 * 64 / 128), "{value}");
    let value = attention(60);
    assert_eq!(value["candidates"][0]["schedule"], "mma.sync", "{value}");
    assert!(value["ruled_out"][0]["reason"].as_str().unwrap().contains("a stride of the queries"), "{value}");
    // A family of one schedule says so.
    let rows = tenon(&["explain", &testdata("command/rows.mlir"), "--schedules"]);
    assert!(rows.done().contains("has one schedule for it"), "{}", rows.stdout);
}
