//! Resuming from dumps: the clauses of the recipe that a dump was made by hold for what comes after it, whichever stage it is of.

use crate::run::PADDED;
use crate::*;

/// Scaled dot-product attention, as exporters write it out.
const ATTENTION: &str = r#"
module attributes {graph.model = "attention"} {
  func.func @main(%q: tensor<4x8x16xf32> {graph.name = "q"}, %k: tensor<4x16x8xf32> {graph.name = "k"}, %v: tensor<4x8x16xf32> {graph.name = "v"}) -> (tensor<4x8x16xf32> {graph.name = "y"}) {
    %root = graph.constant dense<0.25> : tensor<f32> -> tensor<f32>
    %0 = graph.contract "bmk,bkn->bmn"(%q, %k) accumulate f32 : (tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> tensor<4x8x8xf32> loc("Scores")
    %1 = graph.elementwise multiply(%0, %root) : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8x8xf32> loc("Scale")
    %2 = graph.softmax %1 {axis = 2} : tensor<4x8x8xf32> -> tensor<4x8x8xf32> loc("Softmax")
    %3 = graph.contract "bmk,bkn->bmn"(%2, %v) accumulate f32 : (tensor<4x8x8xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32> loc("Sum")
    return %3 : tensor<4x8x16xf32>
  }
}
"#;

/// (x + 2) + 3, which a rule makes x + 5.
const SUMS: &str = r#"
module attributes {graph.model = "sums"} {
  func.func @main(%x: tensor<64xf32> {graph.name = "x"}) -> (tensor<64xf32> {graph.name = "y"}) {
    %two = graph.constant dense<2.0> : tensor<f32> -> tensor<f32>
    %three = graph.constant dense<3.0> : tensor<f32> -> tensor<f32>
    %0 = graph.elementwise add(%x, %two) : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32> loc("Add_0")
    %1 = graph.elementwise add(%0, %three) : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32> loc("Add_1")
    return %1 : tensor<64xf32>
  }
}
"#;

/// Softmax over rows and columns in turn, each of a batch by itself.
const BATCH: &str = r#"
module attributes {graph.model = "batch"} {
  func.func @main(%x: tensor<?x8x32xf32, {dims = ["batch", 8, 32]}> {graph.name = "x"}) -> (tensor<?x8x32xf32, {dims = ["batch", 8, 32]}> {graph.name = "y"}) {
    %0 = graph.softmax %x {axis = 2} : tensor<?x8x32xf32, {dims = ["batch", 8, 32]}> -> tensor<?x8x32xf32, {dims = ["batch", 8, 32]}> loc("first")
    %1 = graph.softmax %0 {axis = 1} : tensor<?x8x32xf32, {dims = ["batch", 8, 32]}> -> tensor<?x8x32xf32, {dims = ["batch", 8, 32]}> loc("second")
    %2 = graph.softmax %1 {axis = 2} : tensor<?x8x32xf32, {dims = ["batch", 8, 32]}> -> tensor<?x8x32xf32, {dims = ["batch", 8, 32]}> loc("third")
    return %2 : tensor<?x8x32xf32, {dims = ["batch", 8, 32]}>
  }
}
"#;

/// A stage of a model under a recipe, and what resuming from each dump before it gives, by the dump's name. The first stage is given the recipe, since it has none.
fn resumed(folder: &tempfile::TempDir, model: &str, recipe: &str, stage: &str) -> (String, Vec<(String, String)>) {
    let out = file(folder, "stages");
    let _ = std::fs::remove_dir_all(&out);
    tenon(&["lower", model, "--recipe", recipe, "--all", "-o", &out]).done();
    let names = names_in(Path::new(&out));
    let path = |name: &String| Path::new(&out).join(name).to_str().unwrap().to_owned();
    let place = names.iter().position(|name| name[3..].starts_with(stage)).unwrap();
    let (before, straight) = (names[..place].iter(), path(&names[place]));
    let resumed = before.map(|name| {
        let dump = path(name);
        let mut arguments = vec!["lower", "--from", &dump, "--stage", stage];
        if name.starts_with("00-import") {
            arguments.extend(["--recipe", recipe]);
        }
        (name.clone(), tenon(&arguments).done().to_owned())
    });
    let resumed = resumed.collect();
    (std::fs::read_to_string(straight).unwrap(), resumed)
}

/// A dump without the lines that name the recipe's clauses and hash.
fn body(text: &str) -> String {
    text.lines().filter(|line| !line.contains("graph.recipe")).map(|line| format!("{line}\n")).collect()
}

/// Each clause decides something about the PTX, or about the launch plan where it says how often kernels run, and decides the same whichever
/// dump is resumed from.
#[test]
fn the_clauses_of_a_dump_hold_for_later_stages() {
    let folder = tempfile::tempdir().unwrap();
    let attention = write(&folder, "attention.mlir", ATTENTION);
    let sums = write(&folder, "sums.mlir", SUMS);
    let batch = write(&folder, "batch.mlir", BATCH);
    let flow = |case: &str| testdata(&format!("control_flow/{case}/model.onnx"));
    let (mlp, if_small, if_nested, loop_count) =
        (testdata("command/mlp.mlir"), flow("if_small"), flow("if_nested"), flow("loop_count"));
    let rows = "[semantic.dims]\nbatch = { allowed = [2] }\n";
    let many = "[semantic.dims]\nbatch = { allowed = [8] }\n";
    for (model, dims, clause) in [
        (&attention, "", "[semantic.numerics]\nrewrites = 'exact'"),
        (&attention, "", "[compile.attention]\nimplementation = 'unfused'"),
        (&attention, "", "[compile.fusion]\ndisable = ['fuse-attention']"),
        (&sums, "", "[compile.fusion]\ndisable = ['sum-of-sums']"),
        (&mlp, rows, "[compile.fusion]\nforbid = [['add', 'relu']]"),
        (&if_small, "", "[compile.control_flow]\npolicy = 'graph'"),
        (&if_nested, "", "[compile.control_flow]\ninline_if_depth = 0"),
        (&loop_count, "", "[semantic.control_flow]\nunroll = { loop_y = 3 }"),
        (&mlp, rows, "[hardware]\ntargets = ['t4']"),
        (&batch, many, "[hardware]\nactivation_budget = 12288\nover_budget = 'stream'"),
    ] {
        let plain = write(&folder, "plain.toml", format!("recipe = 1\n{dims}"));
        let recipe = write(&folder, "recipe.toml", format!("recipe = 1\nname = 'another'\n{dims}{clause}\n"));
        let stage = if clause.contains("unroll") { "hw" } else { "ptx" };
        let (straight, resumed) = resumed(&folder, model, &recipe, stage);
        assert_eq!(resumed.len(), if stage == "hw" { 5 } else { 9 }, "{clause}");
        for (name, other) in resumed {
            assert!(other == straight, "{clause}: resuming from {name} gives another `{stage}`");
        }
        let without = tenon(&["lower", model, "--recipe", &plain, "--stage", stage]);
        assert!(body(without.done()) != body(&straight), "{clause}: the clause decides nothing");
    }
}

/// What a dump says is what holds: an edit of it counts, another recipe beside it is refused, and so is an edit that is no clause.
#[test]
fn a_dump_and_a_recipe_that_disagree_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(&folder, "attention.mlir", ATTENTION);
    let recipe = write(&folder, "r.toml", "recipe = 1\n[compile.attention]\nimplementation = 'unfused'\n");
    let dump = |stage: &str, recipe: &str| {
        write(&folder, "dump.mlir", tenon(&["lower", &model, "--recipe", recipe, "--stage", stage]).done())
    };
    let contract = dump("contract", &recipe);
    let text = std::fs::read_to_string(&contract).unwrap();
    assert!(text.contains(r#"graph.clauses = {compile = {attention = {implementation = "unfused"}}}"#), "{text}");
    // The same recipe in other words is the same.
    let same = write(&folder, "same.yaml", "recipe: 1\ncompile: {attention: {implementation: unfused}}\n");
    let unfused = tenon(&["lower", "--from", &contract, "--recipe", &same]).done().to_owned();
    let other = write(&folder, "other.toml", "recipe = 1\n");
    for stage in ["contract", "fuse", "hw"] {
        let contract = dump(stage, &recipe);
        let outcome = tenon(&["lower", "--from", &contract, "--recipe", &other]);
        assert!(outcome.refused("E0054").contains("leave out --recipe"), "{}", outcome.stderr);
    }
    let summary = tenon(&["explain", "--from", &dump("fuse", &recipe), "--summary", "--json"]);
    let summary: serde_json::Value = serde_json::from_str(summary.done()).unwrap();
    assert_eq!(summary["recipe_hash"], tenon(&["recipe", "hash", &recipe]).done().trim());

    let edited = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        write(&folder, "edited.mlir", text.replace(from, to))
    };
    let fused = tenon(&["lower", "--from", &edited("\"unfused\"", "\"auto\""), "--stage", "ptx"]);
    assert!(fused.done() != unfused);
    let wrong = tenon(&["lower", "--from", &edited("\"unfused\"", "\"unfuzed\"")]);
    assert!(wrong.refused("E0415").contains("`compile.attention.implementation`"), "{}", wrong.stderr);
    let wrong = tenon(&["lower", "--from", &edited("tolerance_abs = 1.000000e-04", "tolerance_abs = -1.0")]);
    wrong.refused("E0415");
}

/// A bundle is built from the dump of stage `import` as from the model, and from no later one: it has the model's hash in it.
#[test]
fn bundles_are_built_from_models_and_their_import() {
    let folder = tempfile::tempdir().unwrap();
    let (model, weights) = (testdata("command/mlp.mlir"), mlp_weights(&folder));
    let recipe = write(&folder, "padded.toml", PADDED);
    let build = |source: &[&str], out: &str| {
        let out = file(&folder, out);
        let more = ["--recipe", &recipe, "--weights", &weights, "--name", "mlp", "-o", &out, "--json"];
        let outcome = tenon(&[&["build"], source, &more].concat());
        let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
        std::fs::read(value["file"].as_str().unwrap()).unwrap()
    };
    let dump = |stage: &str| {
        let text = tenon(&["lower", &model, "--recipe", &recipe, "--stage", stage, "--bucket", "batch=4"]);
        write(&folder, &format!("{stage}.mlir"), text.done())
    };
    let import = dump("import");
    assert!(build(&[&model], "a") == build(&["--from", &import], "b"));
    tenon(&["verify", "--from", &import, "--recipe", &recipe, "--weights", &weights, "--numerics"]).done();
    let out = file(&folder, "none");
    for stage in ["contract", "fuse", "hw", "ptx"] {
        let dump = dump(stage);
        let built = tenon(&["build", "--from", &dump, "--weights", &weights, "-o", &out]);
        let verified = tenon(&["verify", "--from", &dump, "--weights", &weights]);
        for outcome in [&built, &verified] {
            let text = outcome.refused("E0006");
            assert!(text.contains(&format!("is at stage `{stage}`")) && text.contains("name the model"), "{text}");
        }
    }
    // Weights are no part of a dump, and the refusal says how they are given.
    let without = tenon(&["build", "--from", &import, "--recipe", &recipe, "-o", &out]);
    assert!(without.refused("E0706").contains("--weights FILE.safetensors"), "{}", without.stderr);
}
