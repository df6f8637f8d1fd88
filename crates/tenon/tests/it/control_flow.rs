//! Branches and loops that values decide while the model runs, through PTX on the simulator, against what ONNX Runtime gives, and the clauses
//! `compile.control_flow` that say where they run. `testdata/control_flow/generate.py` says where the cases are from.

use tenon::conformance::{Outcome as Judged, Settings, run_case};
use tenon_tensor::DType;

use crate::*;

fn model(case: &str) -> String {
    testdata(&format!("control_flow/{case}/model.onnx"))
}

fn recipe(folder: &tempfile::TempDir, clauses: &str) -> String {
    write(folder, "recipe.toml", format!("recipe = 1\nname = \"flow\"\n{clauses}"))
}

fn policy(folder: &tempfile::TempDir, clauses: &str) -> String {
    recipe(folder, &format!("[compile.control_flow]\n{clauses}\n"))
}

fn floats(shape: &[usize], values: &[f64]) -> Tensor {
    Tensor::from_f64s(DType::F32, shape.to_vec(), values).unwrap()
}

fn values(path: &str) -> Vec<f64> {
    tenon_tensor::read_npy(path).unwrap().iter_f64().unwrap().collect()
}

#[test]
fn cases_are_as_onnx_runtime_computes_them() {
    let root = PathBuf::from(testdata("control_flow"));
    let target = tenon_target::Target::find("sm_80").unwrap();
    let settings = Settings { target, instruction_budget: 1 << 32, seed: 1 };
    let cases: Vec<_> = names_in(&root).into_iter().filter(|name| root.join(name).is_dir()).collect();
    assert!(cases.len() >= 15, "{}", cases.len());
    let wrong: Vec<_> = cases
        .iter()
        .map(|case| (case, run_case(&root.join(case), &settings)))
        .filter(|(_, verdict)| verdict.outcome != Judged::Passed)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What `explain --summary` says of a model: launches, and branches and loops of the launch plan.
fn summary(model: &str, recipe: &str) -> (u64, u64) {
    let outcome = tenon(&["explain", model, "--summary", "--json", "--recipe", recipe]);
    let summary: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    (summary["launches"].as_u64().unwrap(), summary["conditionals"].as_u64().unwrap_or(0))
}

/// Runs a model of one input `x` and gives the output `y`.
fn y_of(folder: &tempfile::TempDir, model: &str, recipe: &str, x: &Tensor) -> Vec<f64> {
    let (input, out) = (write_npy(folder, "x.npy", x), file(folder, "out"));
    tenon(&["run", model, "--recipe", recipe, "--input", &format!("x={input}"), "-o", &out]).done();
    values(&format!("{out}/y.npy"))
}

/// Where a branch runs changes its launches and nothing of what it gives.
#[test]
fn policies_place_branches() {
    let folder = tempfile::tempdir().unwrap();
    let x = [1.0, 2.0, -1.0, 4.0, 0.5, 3.0];
    for (clauses, conditionals) in [
        ("policy = \"kernel\"", 0),
        ("policy = \"graph\"", 1),
        ("policy = \"host\"\nhost_dispatch = \"allow\"", 1),
        ("inline_if_depth = 2", 0),
        ("inline_if_depth = 0", 1),
    ] {
        let recipe = policy(&folder, clauses);
        assert_eq!(summary(&model("if_small"), &recipe).1, conditionals, "{clauses}");
        for sign in [1.0, -1.0] {
            let x = x.map(|x| x * sign);
            let expected = x.map(|x| if sign > 0.0 { 2.0 * x + 1.0 } else { -x });
            assert_eq!(y_of(&folder, &model("if_small"), &recipe, &floats(&[2, 3], &x)), expected, "{clauses}");
        }
    }
    // Both sides and the selection in one kernel, against a launch for each side; the sum and its comparison are launched before both.
    let selected = summary(&model("if_small"), &policy(&folder, "policy = \"kernel\"")).0;
    let chosen = summary(&model("if_small"), &policy(&folder, "policy = \"graph\"")).0;
    assert_eq!((selected, chosen), (3, 4));
}

/// Branches within branches become selections as deep as the recipe says, from the innermost outwards.
#[test]
fn the_depth_of_selections_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    for (depth, conditionals) in [(0, 3), (1, 1), (2, 0)] {
        let recipe = policy(&folder, &format!("inline_if_depth = {depth}"));
        assert_eq!(summary(&model("if_nested"), &recipe).1, conditionals, "{depth}");
        // Sum 9.5, largest element 4, which is not below 3.5: the exponential.
        let x = [1.0, 2.0, -1.0, 4.0, 0.5, 3.0];
        let found = y_of(&folder, &model("if_nested"), &recipe, &floats(&[2, 3], &x));
        assert!(found.iter().zip(x).all(|(found, x)| (found - x.exp()).abs() < 1e-5 * x.exp()), "{found:?}");
    }
    let recipe = policy(&folder, "policy = \"kernel\"\ninline_if_depth = 1");
    let outcome = tenon(&["lower", &model("if_nested"), "--stage", "flow", "--recipe", &recipe]);
    let message = outcome.refused("E0411");
    assert!(
        message.contains("`if_y`") && message.contains("`compile.control_flow.inline_if_depth` allows 1"),
        "{message}"
    );
}

#[test]
fn what_no_kernel_holds_is_refused_by_node() {
    let folder = tempfile::tempdir().unwrap();
    for (case, node, reason) in [
        ("loop_count", "loop_y", "a loop whose iterations are counted"),
        ("if_scatter", "if_y", "`graph.scatter` of node `scatterelements_s`"),
        ("branch_with_loop", "loop_l", "a loop whose iterations are counted"),
    ] {
        let recipe = policy(&folder, "policy = \"kernel\"");
        let outcome = tenon(&["lower", &model(case), "--stage", "flow", "--recipe", &recipe]);
        let message = outcome.refused("E0411");
        assert!(
            message.contains(node) && message.contains(reason) && message.contains("policy = \"graph\""),
            "{message}"
        );
    }
    // The clause is shown where it stands.
    let recipe = policy(&folder, "policy = \"kernel\"");
    let outcome = tenon(&["build", &model("loop_count"), "--recipe", &recipe, "-o", folder.path().to_str().unwrap()]);
    assert!(outcome.refused("E0411").contains("recipe.toml:4:"), "{}", outcome.stderr);
    let recipe = policy(&folder, "policy = \"host\"");
    let outcome = tenon(&["lower", &model("loop_count"), "--stage", "flow", "--recipe", &recipe]);
    assert!(outcome.refused("E0411").contains("`host_dispatch = \"allow\"`"), "{}", outcome.stderr);
}

/// `branches = "all"`: a side that no request may ever take must compile all the same, whatever the branch is placed as.
#[test]
fn every_branch_must_compile() {
    let folder = tempfile::tempdir().unwrap();
    let model = |elements: u64| {
        let text = format!(
            r#"
module attributes {{graph.model = "branches"}} {{
  func.func @main(%c: tensor<i1> {{graph.name = "c"}}, %x: tensor<i64> {{graph.name = "x"}}) -> (tensor<i64> {{graph.name = "y"}}) {{
    %0 = flow.if %c : tensor<i1> -> (tensor<i64>) {{
      flow.yield %x : tensor<i64>
    }} else {{
      %1 = graph.iota {{axis = 0 : i64, shape = [{elements}]}} : tensor<{elements}xi64> loc("Count")
      %2 = graph.elementwise multiply(%1, %x) : (tensor<{elements}xi64>, tensor<i64>) -> tensor<{elements}xi64> loc("Scale")
      %3 = graph.reduce sum(%2) {{axes = array<i64: 0>}} : (tensor<{elements}xi64>) -> tensor<i64> loc("Sum")
      flow.yield %3 : tensor<i64>
    }} loc("Choose")
    return %0 : tensor<i64>
  }}
}}
"#
        );
        write(&folder, "branches.mlir", text)
    };
    let recipe = recipe(&folder, "[semantic.control_flow]\nbranches = \"all\"\n");
    tenon(&["lower", &model(1000), "--recipe", &recipe, "--stage", "hw"]).done();
    let outcome = tenon(&["lower", &model(1 << 41), "--recipe", &recipe, "--stage", "hw"]);
    let text = outcome.refused("E0502");
    assert!(["Count", "Scale", "Sum"].iter().any(|node| text.contains(node)), "{text}");
}

#[test]
fn the_table_marks_control_flow() {
    let folder = tempfile::tempdir().unwrap();
    let rows = |case: &str, clauses: &str| -> Vec<(String, u64, String)> {
        let recipe = policy(&folder, clauses);
        let outcome = tenon(&["table", &model(case), "--json", "--recipe", &recipe]);
        let table: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
        let rows = table[0]["operators"].as_array().unwrap().clone();
        let of_flow = rows.iter().filter(|row| row["placement"].is_string());
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        of_flow
            .map(|row| (text(&row["nodes"][0]), row["control_flow_depth"].as_u64().unwrap(), text(&row["placement"])))
            .collect()
    };
    let row = |node: &str, depth, placement: &str| (node.to_owned(), depth, placement.to_owned());
    assert_eq!(rows("loop_with_branch", ""), [row("loop_y", 0, "graph"), row("if_next", 1, "kernel")]);
    assert_eq!(
        rows("loop_with_branch", "policy = \"host\"\nhost_dispatch = \"allow\""),
        [row("loop_y", 0, "host"), row("if_next", 1, "host")]
    );
    assert_eq!(rows("loop_with_loop", ""), [row("loop_y", 0, "graph"), row("loop_next", 1, "graph")]);
    let recipe = policy(&folder, "");
    let outcome = tenon(&["table", &model("if_small"), "--recipe", &recipe]);
    let line = outcome.done().lines().find(|line| line.starts_with("flow.if")).unwrap().to_owned();
    assert!(line.contains("if_y") && line.contains("placement kernel"), "{line}");
}

/// A bundle with branches, loops and sizes that the program computes is what the reference interpreter makes of its graph.
#[test]
fn bundles_with_control_flow_verify() {
    for case in ["loop_outputs", "branch_with_loop"] {
        let folder = tempfile::tempdir().unwrap();
        let recipe = policy(&folder, "policy = \"graph\"");
        let out = file(&folder, "out");
        std::fs::create_dir(&out).unwrap();
        tenon(&["build", &model(case), "--recipe", &recipe, "-o", &out]).done();
        let bundle = format!("{out}/{}", names_in(Path::new(&out))[0]);
        tenon(&["verify", &bundle, "--numerics"]).done();
    }
}

/// Each unrolled iteration is a body of launches more, under the condition that the one before left.
#[test]
fn loops_are_unrolled_by_the_recipe() {
    let folder = tempfile::tempdir().unwrap();
    let unrolled = |times: u64| recipe(&folder, &format!("[semantic.control_flow]\nunroll = {{ loop_y = {times} }}\n"));
    for count in [0.0, 1.0, 4.0, 5.0] {
        let x = [count, -1.0, 0.25];
        // v becomes v / 2 + x, count times.
        let expected = x.map(|x| (0..count as u32).fold(x, |v, _| v / 2.0 + x));
        assert_eq!(y_of(&folder, &model("loop_count"), &unrolled(3), &floats(&[3], &x)), expected);
    }
    assert_eq!([1, 3].map(|times| summary(&model("loop_count"), &unrolled(times)).1), [1, 3]);
    let outcome = tenon(&["lower", &model("if_small"), "--stage", "flow", "--recipe", &unrolled(2)]);
    assert!(outcome.refused("E0234").contains("loop_y"), "{}", outcome.stderr);
}

/// A loop of unknown length whose outputs are kept: nothing but the recipe bounds them.
#[test]
fn the_recipe_bounds_a_loop() {
    let folder = tempfile::tempdir().unwrap();
    let model = model("loop_open");
    let bounded = recipe(&folder, "[semantic.dims]\nloop_0_most = { allowed = [5] }\n");
    for count in [3.0, 0.0, 5.0] {
        let x = [count, -1.0, 0.25];
        let expected: Vec<f64> = (1..=count as u32).flat_map(|round| x.map(|x| x * f64::from(round))).collect();
        assert_eq!(y_of(&folder, &model, &bounded, &floats(&[3], &x)), expected);
    }
    let x = write_npy(&folder, "x.npy", &floats(&[3], &[6.0, 0.0, 0.0]));
    let out = file(&folder, "out");
    let outcome = tenon(&["run", &model, "--recipe", &bounded, "--input", &format!("x={x}"), "-o", &out]);
    let said = outcome.refused("E0708");
    assert!(
        said.contains("`loop_last`") && said.contains("allow more than 5 in `semantic.dims.loop_0_most`"),
        "{said}"
    );
    // Of several bounds the largest is taken, of a model and of a bundle.
    let two = recipe(&folder, "[semantic.dims]\nloop_0_most = { allowed = [2, 5] }\n");
    let five = floats(&[3], &[5.0, -1.0, 0.25]);
    assert_eq!(y_of(&folder, &model, &two, &five), y_of(&folder, &model, &bounded, &five));
    let bundles = file(&folder, "bundles");
    std::fs::create_dir(&bundles).unwrap();
    tenon(&["build", &model, "--recipe", &two, "-o", &bundles]).done();
    let bundle = format!("{bundles}/{}", names_in(Path::new(&bundles))[0]);
    let x = format!("x={}", write_npy(&folder, "five.npy", &five));
    let ran = tenon(&["run", &bundle, "--input", &x, "-o", &out]);
    assert!(ran.done().contains("loop_0_most=5"), "{}", ran.stdout);
    let x = format!("x={}", write_npy(&folder, "six.npy", &floats(&[3], &[6.0, 0.0, 0.0])));
    let said = tenon(&["run", &bundle, "--input", &x, "-o", &out]);
    assert!(said.refused("E0708").contains("`semantic.dims.loop_0_most`"), "{}", said.stderr);
    let open = write(&folder, "open.toml", "recipe = 1\nname = \"open\"\n");
    let outcome = tenon(&["lower", &model, "--stage", "contract", "--recipe", &open]);
    let said = outcome.refused("E0223");
    assert!(said.contains("loop_0_most = { allowed = [1] }  # most iterations of node `loop_last`"), "{said}");
    assert!(
        said.contains("`loop_0_most` is the most iterations of node `loop_last`, which nothing in the model bounds"),
        "{said}"
    );
}

/// A count that nothing in the model bounds, beside a padded dimension: the inputs choose the bucket of the one, and of the other the largest bound is taken.
#[test]
fn the_recipe_bounds_a_count() {
    let folder = tempfile::tempdir().unwrap();
    let x = r#"tensor<?xf32, {dims = ["n"]}>"#;
    let (all, some) = (r#"tensor<?xi64, {dims = ["range_0_most"]}>"#, r#"tensor<?xi64, {dims = ["range_0"]}>"#);
    let text = format!(
        r#"
module attributes {{graph.model = "count"}} {{
  func.func @main(%x: {x} {{graph.name = "x"}}, %c: tensor<i64> {{graph.name = "c"}}) -> ({x} {{graph.name = "y"}}, {some} {{graph.name = "z"}}) {{
    %0 = graph.iota {{axis = 0 : i64, shape = ["range_0_most"]}} : {all}
    %1 = graph.set_dimension_size "range_0" = %c of %0 : ({all}, tensor<i64>) -> {some} loc("Range_0")
    %2 = graph.elementwise add(%x, %x) : ({x}, {x}) -> {x} loc("Add_0")
    return %2, %1 : {x}, {some}
  }}
}}
"#
    );
    let model = write(&folder, "count.mlir", text);
    let x = format!("x={}", write_npy(&folder, "x.npy", &floats(&[3], &[0.5, -1.0, 2.0])));
    let c = |count: i64| {
        let count = Tensor::new(tenon_tensor::DType::I64, vec![], count.to_le_bytes().to_vec()).unwrap();
        format!("c={}", write_npy(&folder, "c.npy", &count))
    };
    let out = file(&folder, "out");
    for bounds in ["[5]", "[3, 5]"] {
        let dims = format!(
            "[semantic.dims]\nn = {{ allowed = [2, 4], between = 'pad' }}\nrange_0_most = {{ allowed = {bounds} }}\n"
        );
        let recipe = recipe(&folder, &dims);
        let bundles = tempfile::tempdir().unwrap();
        tenon(&["build", &model, "--recipe", &recipe, "-o", bundles.path().to_str().unwrap()]).done();
        let bundle = bundles.path().join(&names_in(bundles.path())[0]).to_str().unwrap().to_owned();
        for base in [&["run", &model, "--recipe", &recipe][..], &["run", &bundle]] {
            let run = |count: i64| tenon(&[base, &["--input", &x, "--input", &c(count), "-o", &out]].concat());
            let ran = run(4);
            assert!(ran.done().contains("bucket n=4,range_0_most=5"), "{}", ran.stdout);
            let read = |name: &str| tenon_tensor::read_npy(file(&folder, &format!("out/{name}.npy"))).unwrap();
            assert_eq!(read("y").to_f32_vec().unwrap(), [1.0, -2.0, 4.0]);
            assert_eq!(read("z").to_i64_vec().unwrap(), [0, 1, 2, 3]);
            let said = run(6);
            assert!(
                said.refused("E0719").contains("allow more than 5 in `semantic.dims.range_0_most`"),
                "{}",
                said.stderr
            );
        }
    }
    // A recipe to begin with covers the count too.
    let started = write(&folder, "started.toml", tenon(&["recipe", "init", &model]).done());
    tenon(&["recipe", "check", &started, &model]).done();
}

/// A decoder of tables, whose loop writes columns at a counted place and ends by what it has decoded, decided on the device alone.
#[test]
fn a_decoder_loops_without_the_host() {
    let Some(case) = crate::models::shared().map(|shared| shared.join("models/slanet_plus_loop_decoder")) else {
        println!("skipped: slanet_plus_loop_decoder is not there");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let clauses = "policy = \"graph\"\nhost_dispatch = \"forbid\"\n[semantic.dims]\nbatch = { allowed = [1] }";
    let recipe = policy(&folder, clauses);
    let read = |name: &str| tenon_import_onnx::read_tensor_pb(case.join("test_data_set_0").join(name)).unwrap().1;
    let (input, out) = (write_npy(&folder, "x.npy", &read("input_0.pb")), file(&folder, "out"));
    let model = case.join("model.onnx");
    let model = model.to_str().unwrap();
    tenon(&["run", model, "--recipe", &recipe, "--input", &format!("hardswish_72.tmp_0={input}"), "-o", &out]).done();
    for index in [0, 1] {
        let path = format!("{out}/save_infer_model_scale_{index}.tmp_0.npy");
        let found = tenon_tensor::read_npy(path).unwrap();
        let excess = crate::models::excess(&found, &read(&format!("output_{index}.pb")), 1e-4);
        assert!(excess <= 1e-5, "output {index} is off by {excess}");
    }
}

/// A recurrent layer as one kernel, and step by step, against what ONNX Runtime gives; one launch does the steps of a direction.
#[test]
fn policies_place_recurrent_layers() {
    let folder = tempfile::tempdir().unwrap();
    let root = PathBuf::from(testdata("recurrent"));
    for case in ["lstm_bidirectional_lengths", "gru_forward_reset_after", "gru_reverse_lengths", "rnn_clip"] {
        let launches = ["kernel", "graph"].map(|policy_of| {
            let recipe = policy(&folder, &format!("policy = \"{policy_of}\""));
            check_recurrent(&folder, &root.join(case), &recipe, policy_of);
            summary(root.join(case).join("model.onnx").to_str().unwrap(), &recipe).0
        });
        assert!(launches[0] < launches[1], "{case}: {launches:?}");
    }
}

/// The steps of a kernel are as many as a request has, in a bucket of more.
#[test]
fn recurrent_layers_follow_the_length_of_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let root = PathBuf::from(testdata("recurrent"));
    let padded = |policy: &str| {
        let clauses = format!(
            "[compile.control_flow]\npolicy = \"{policy}\"\n[semantic.dims]\nsteps = {{ allowed = [8], between = \"pad\" }}\n"
        );
        recipe(&folder, &clauses)
    };
    for case in ["lstm_bidirectional_free_length", "gru_reverse_free_length"] {
        check_recurrent(&folder, &root.join(case), &padded("kernel"), "kernel");
    }
    let model = root.join("gru_reverse_free_length/model.onnx");
    let outcome = tenon(&["lower", model.to_str().unwrap(), "--stage", "flow", "--recipe", &padded("graph")]);
    let message = outcome.refused("E0411");
    assert!(message.contains("`GRU`") && message.contains("policy = \"kernel\""), "{message}");
}

fn check_recurrent(scratch: &tempfile::TempDir, case: &Path, recipe: &str, policy: &str) {
    let model = tenon_import_onnx::Model::load(case.join("model.onnx")).unwrap();
    let set = case.join("test_data_set_0");
    let read =
        |kind: &str, index: usize| tenon_import_onnx::read_tensor_pb(set.join(format!("{kind}_{index}.pb"))).unwrap().1;
    let out = file(scratch, "recurrent");
    let path = case.join("model.onnx");
    let mut arguments = ["run", path.to_str().unwrap(), "--recipe", recipe, "-o", &out].map(str::to_owned).to_vec();
    for (index, input) in model.graph.inputs.iter().enumerate() {
        let path = write_npy(scratch, &format!("recurrent.{index}.npy"), &read("input", index));
        arguments.extend(["--input".to_owned(), format!("{}={path}", input.name)]);
    }
    tenon(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).done();
    for (index, output) in model.graph.outputs.iter().enumerate() {
        let found = tenon_tensor::read_npy(format!("{out}/{}.npy", output.name)).unwrap();
        let excess = crate::models::excess(&found, &read("output", index), 1e-3);
        assert!(excess <= 1e-5, "{}, {policy}: output {} is off by {excess}", case.display(), output.name);
    }
}
