//! `tenon recipe`.

use crate::*;

const MODEL: &str = "command/mlp.mlir";

#[test]
fn a_recipe_to_start_from_fits_its_model() {
    let folder = tempfile::tempdir().unwrap();
    let model = testdata(MODEL);
    let text = tenon(&["recipe", "init", &model]);
    assert!(text.done().contains("batch = { allowed = [1], between = \"reject\" }"), "{}", text.stdout);
    let path = file(&folder, "start.toml");
    tenon(&["recipe", "init", &model, "-o", &path]).done();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text.stdout);
    tenon(&["recipe", "init", &model, "-o", &path]).refused("E0002");
    let checked = tenon(&["recipe", "check", &path, &model]);
    assert!(checked.done().contains("1 graph for a100-sxm4-80gb"), "{}", checked.stdout);
}

#[test]
fn a_recipe_is_checked_against_its_model_with_places() {
    let folder = tempfile::tempdir().unwrap();
    let model = testdata(MODEL);
    let head = "recipe = 1\n[semantic.dims]\nbatch = { allowed = [1, 4] }\n";
    let check = |name: &str, text: &str| {
        let path = write(&folder, name, format!("{head}{text}"));
        tenon(&["recipe", "check", &path, &model])
    };
    assert!(check("good.toml", "").done().contains("2 graphs"));
    for (name, text, code, place) in [
        ("input.toml", "[semantic.inputs.y]\ndims = [\"batch\", 3]\n", "E0220", "input.toml:4:18"),
        ("type.toml", "[semantic.inputs.x]\ndtype = \"f16\"\n", "E0221", "type.toml:4:18"),
        ("rank.toml", "[semantic.inputs.x]\ndims = [\"batch\"]\n", "E0221", "rank.toml:4:18"),
        ("size.toml", "[semantic.inputs.x]\ndims = [\"batch\", 4]\n", "E0222", "size.toml:5:1"),
        ("name.toml", "sequence = { allowed = [2] }\n", "E0224", "name.toml:4:1"),
        ("pad.toml", "[semantic.inputs.x]\npad = 0\n", "E0227", "pad.toml:5:1"),
        ("expect.toml", "[hardware.expect.nope]\nspills = 0\n", "E0600", "`hardware.expect.nope`"),
        ("budget.toml", "[hardware]\nover_budget = \"offload\"\n", "E0207", "budget.toml:5:15"),
        ("disable.toml", "[compile.fusion]\ndisable = [\"remove-ded\"]\n", "E0407", ""),
    ] {
        let outcome = check(name, text);
        assert!(outcome.refused(code).contains(place), "{name}: {}", outcome.stderr);
    }
    for (name, text, code, place) in [
        ("dim.toml", "[semantic.dims.seq]\nallowed = [2]\n", "E0224", "`seq`"),
        (
            "listed.toml",
            "[hardware]\ntargets = ['t4']\n[hardware.expect.sm_80]\nspills = 0\n",
            "E0207",
            "listed.toml:6:18",
        ),
        ("unroll.toml", "[semantic.control_flow]\nunroll = { loop_y = 2 }\n", "E0234", "unroll.toml:5:12"),
    ] {
        let outcome = check(name, text);
        assert!(outcome.refused(code).contains(place), "{name}: {}", outcome.stderr);
    }
    let unlisted = check("unlisted.toml", "[hardware.expect.t4]\nspills = 0\n");
    assert!(unlisted.refused("E0207").contains("the default is a100-sxm4-80gb"), "{}", unlisted.stderr);
    check(
        "listed.toml",
        "[hardware]\ntargets = ['t4']\n[hardware.expect.sm_75]\nspills = 0\n[hardware.expect.t4]\nspills = 0\n",
    )
    .done();
    // A recipe alone is checked without a model.
    let path = write(&folder, "alone.yaml", "recipe: 1\nname: alone\n");
    assert!(tenon(&["recipe", "check", &path]).done().contains("the recipe `alone` is valid"));
}

/// The recipe that `init` writes is one in the language of its file's ending, and the same in both.
#[test]
fn a_recipe_to_start_from_is_written_in_the_language_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    // Names that need quotes, expressions, and a model without free dimensions.
    let expression = write(
        &folder,
        "odd \"name\".mlir",
        r#"
module attributes {graph.model = "odd"} {
  func.func @main(%x: tensor<?x?xf32, {dims = ["n: 1", "m"]}> {graph.name = "x: #1"}, %z: tensor<?xi64, {dims = ["m * 2"]}> {graph.name = "z.z"}) -> (tensor<?x?xf32, {dims = ["n: 1", "m"]}> {graph.name = "y"}) {
    %0 = graph.elementwise add(%x, %x) : (tensor<?x?xf32, {dims = ["n: 1", "m"]}>, tensor<?x?xf32, {dims = ["n: 1", "m"]}>) -> tensor<?x?xf32, {dims = ["n: 1", "m"]}> loc("Add_0")
    return %0 : tensor<?x?xf32, {dims = ["n: 1", "m"]}>
  }
}
"#
        .replace("n: 1", "n"),
    );
    for (index, model) in [testdata(MODEL), testdata("command/rows.mlir"), expression].iter().enumerate() {
        let path = |ending: &str| file(&folder, &format!("start{index}.{ending}"));
        let hashes = ["toml", "yaml", "yml"].map(|ending| {
            tenon(&["recipe", "init", model, "-o", &path(ending)]).done();
            tenon(&["recipe", "check", &path(ending), model]).done();
            tenon(&["recipe", "hash", &path(ending)]).done().to_owned()
        });
        assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{model}: {hashes:?}");
        let yaml = std::fs::read_to_string(path("yaml")).unwrap();
        assert!(yaml.contains("\nrecipe: 1\n") && yaml.contains("docs/recipes.md"), "{yaml}");
        assert_eq!(yaml, std::fs::read_to_string(path("yml")).unwrap());
    }
    let model = testdata(MODEL);
    assert!(tenon(&["recipe", "init", &model, "-o", &file(&folder, "r.json")]).refused("E0201").contains(".yaml"));
}

/// What the model's ranges and the placement of control flow refuse is seen without compiling, with the clause.
#[test]
fn a_check_goes_as_far_as_control_flow() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(testdata(MODEL)).unwrap();
    let ranged =
        text.replacen("graph.model = \"mlp\"", "graph.model = \"mlp\", graph.ranges = {batch = array<i64: 2, 8>}", 1);
    assert!(ranged != text);
    let ranged = write(&folder, "ranged.mlir", ranged);
    let flow = |case: &str| testdata(&format!("control_flow/{case}/model.onnx"));
    for (model, clauses, code, part) in [
        (&ranged, "[semantic.dims]\nbatch = { allowed = [2, 16] }\n", "E0184", "r.toml:3:1"),
        (&flow("loop_count"), "[compile.control_flow]\npolicy = 'kernel'\n", "E0411", "`loop_y`"),
        (&flow("loop_count"), "[compile.control_flow]\npolicy = 'host'\n", "E0411", "host_dispatch"),
        (
            &flow("if_nested"),
            "[compile.control_flow]\npolicy = 'kernel'\ninline_if_depth = 1\n",
            "E0411",
            "inline_if_depth",
        ),
        (&flow("if_small"), "[semantic.control_flow]\nunroll = { loop_z = 2 }\n", "E0234", "r.toml:3:12"),
    ] {
        let recipe = write(&folder, "r.toml", format!("recipe = 1\n{clauses}"));
        let outcome = tenon(&["recipe", "check", &recipe, model]);
        assert!(outcome.refused(code).contains(part), "{clauses}: {}", outcome.stderr);
    }
    let recipe = write(&folder, "r.toml", "recipe = 1\n[semantic.dims]\nbatch = { allowed = [2, 8] }\n");
    assert!(tenon(&["recipe", "check", &recipe, &ranged]).done().contains("2 graphs"));
}

#[test]
fn a_disabled_pass_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let head = "recipe = 1\n[semantic.dims]\nbatch = { allowed = [1] }\n";
    let recipe = write(&folder, "r.toml", format!("{head}[compile.fusion]\ndisable = [\"fold-broadcast\"]\n"));
    let ran = |recipe: &str| {
        let arguments = ["lower", &testdata(MODEL), "--recipe", recipe, "--stage", "fuse", "--timings"];
        let outcome = tenon(&arguments);
        outcome.done();
        outcome.stderr.contains("fold-broadcast")
    };
    assert!(!ran(&recipe) && ran(&write(&folder, "all.toml", head)));
}

#[test]
fn hashes_schema_and_differences() {
    let folder = tempfile::tempdir().unwrap();
    let toml = write(&folder, "a.toml", "recipe = 1\nname = 'a'\n");
    let yaml = write(&folder, "a.yaml", "name: a\nrecipe: 1\n");
    let hash = |path: &str| tenon(&["recipe", "hash", path]).done().to_owned();
    assert_eq!(hash(&toml), hash(&yaml));
    assert_eq!(hash(&toml).trim().len(), 64);
    assert!(tenon(&["recipe", "hash", &toml, "--canonical"]).done().contains(r#""max_graphs":1024"#));
    let schema: serde_json::Value = serde_json::from_str(tenon(&["recipe", "schema"]).done()).unwrap();
    assert_eq!(schema["title"], "Tenon recipe");
    let other = write(&folder, "b.toml", "recipe = 1\nname = 'a'\nsemantic.numerics.rewrites = 'exact'\n");
    let text = tenon(&["recipe", "diff", &toml, &other]);
    assert!(text.done().contains("semantic.numerics.rewrites"), "{}", text.stdout);
    assert!(tenon(&["recipe", "diff", &toml, &yaml]).done().contains("the same"));
    assert!(tenon(&["recipe", "patterns"]).done().contains("relu"));
    tenon(&["recipe", "hash", "no-such-recipe.toml"]).refused("E0200");
}

/// Sizes by `zip`: two buckets of a model with two free dimensions, not four.
#[test]
fn sizes_that_belong_together_make_one_bucket() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(
        &folder,
        "two.mlir",
        r#"
module attributes {graph.model = "two"} {
  func.func @main(%x: tensor<?x?xf32, {dims = ["n", "m"]}> {graph.name = "x"}) -> (tensor<?x?xf32, {dims = ["n", "m"]}> {graph.name = "y"}) {
    %0 = graph.elementwise add(%x, %x) : (tensor<?x?xf32, {dims = ["n", "m"]}>, tensor<?x?xf32, {dims = ["n", "m"]}>) -> tensor<?x?xf32, {dims = ["n", "m"]}> loc("Add_0")
    return %0 : tensor<?x?xf32, {dims = ["n", "m"]}>
  }
}
"#,
    );
    let recipe = |semantic: &str| {
        format!(
            "recipe = 1\n[semantic]\n{semantic}\n[semantic.dims]\nn = {{ allowed = [1, 4], between = 'pad' }}\nm = {{ allowed = [8, 2], between = 'pad' }}\n"
        )
    };
    let zip = write(&folder, "zip.toml", recipe("combine = 'zip'\nmax_graphs = 2"));
    let product = write(&folder, "product.toml", recipe("max_graphs = 4"));
    let buckets = |path: &str| {
        let outcome = tenon(&["--json", "table", &model, "--recipe", path]);
        let rows: Vec<serde_json::Value> = serde_json::from_str(outcome.done()).unwrap();
        rows.iter().map(|row| row["bucket"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(buckets(&zip), ["m=8,n=1", "m=2,n=4"]);
    assert_eq!(buckets(&product), ["m=2,n=1", "m=2,n=4", "m=8,n=1", "m=8,n=4"]);
    let x = write_npy(&folder, "x.npy", &Tensor::from_f32(vec![1, 2], &[1.5, -2.0]).unwrap());
    let run = tenon(&["run", &model, "--recipe", &zip, "--input", &format!("x={x}")]);
    // Both buckets hold one by two; each has eight elements, and the one with fewer m is taken.
    assert!(run.done().contains("bucket m=2,n=4"), "{}", run.stdout);
    let over = write(&folder, "over.toml", recipe("max_graphs = 3"));
    tenon(&["recipe", "check", &over]).refused("E0208");
}

/// `init` writes sizes that `check` takes: the smallest that fit the model together, where 1 does not.
#[test]
fn a_recipe_to_start_from_has_sizes_that_fit() {
    let folder = tempfile::tempdir().unwrap();
    let x = r#"tensor<?x?xf32, {dims = ["n", "m"]}>"#;
    let model = |name: &str, constant: usize| {
        let text = format!(
            r#"
module attributes {{graph.model = "fits"}} {{
  func.func @main(%x: {x} {{graph.name = "x"}}) -> ({x} {{graph.name = "y"}}) {{
    %0 = graph.constant dense<1.0> : tensor<1x{constant}xf32> -> tensor<1x{constant}xf32>
    %1 = graph.concat(%x, %0) {{axis = 0 : i64}} : ({x}, tensor<1x{constant}xf32>) -> tensor<?x?xf32, {{dims = ["n+1", "m"]}}> loc("Concat_0")
    %2 = graph.slice %1 {{sizes = ["n", "m"], starts = [0, 0], steps = array<i64: 1, 1>}} : tensor<?x?xf32, {{dims = ["n+1", "m"]}}> -> {x} loc("Slice_0")
    return %2 : {x}
  }}
}}
"#
        );
        write(&folder, name, text)
    };
    let eight = model("eight.mlir", 8);
    let recipe = tenon(&["recipe", "init", &eight]).done().to_owned();
    assert!(recipe.contains("m = { allowed = [8]") && recipe.contains("n = { allowed = [1]"), "{recipe}");
    assert!(recipe.contains("# With smaller ones the model is refused, or an output has no elements."), "{recipe}");
    tenon(&["recipe", "check", &write(&folder, "eight.toml", recipe), &eight]).done();
    // Where every eighth element but the first seven is taken, 8 is the least of which any is left.
    let strided = r#"
module attributes {graph.model = "strided"} {
  func.func @main(%x: tensor<?xf32, {dims = ["n"]}> {graph.name = "x"}) -> (tensor<?xf32, {dims = ["floordiv(n,8)"]}> {graph.name = "y"}) {
    %0 = graph.slice %x {sizes = ["floordiv(n,8)"], starts = [7], steps = array<i64: 8>} : tensor<?xf32, {dims = ["n"]}> -> tensor<?xf32, {dims = ["floordiv(n,8)"]}> loc("Slice_0")
    return %0 : tensor<?xf32, {dims = ["floordiv(n,8)"]}>
  }
}
"#;
    let strided = tenon(&["recipe", "init", &write(&folder, "strided.mlir", strided)]).done().to_owned();
    assert!(strided.contains("n = { allowed = [8]"), "{strided}");
    // A size that is not tried: the refusal is that of the first sizes, and says which clauses decide.
    let seven = tenon(&["recipe", "init", &model("seven.mlir", 7)]);
    let said = seven.refused("E0303");
    assert!(
        said.contains("dimension 1 is 7 in one operand and 1 in another")
            || said.contains("1 in one operand and 7 in another"),
        "{said}"
    );
    assert!(said.contains("(`semantic.dims.m`, `semantic.dims.n`)"), "{said}");
}

/// Dimensions of which the recipe allows one size are numbers when the model is imported, where it cannot be imported with them free.
#[test]
fn one_size_of_a_dimension_is_enough_to_import_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let model = testdata("command/squeezed.onnx");
    tenon(&["lower", &model, "--stage", "import"]).refused("E0135");
    let text = tenon(&["recipe", "init", &model]).done().to_owned();
    assert!(text.contains("batch = { allowed = [1]") && text.contains("n = { allowed = [4]"), "{text}");
    let started = write(&folder, "started.toml", text);
    tenon(&["recipe", "check", &started, &model]).done();
    let short =
        write(&folder, "short.toml", "recipe = 1\n[semantic.dims]\nbatch = { allowed = [2] }\nn = { allowed = [4] }\n");
    let values: Vec<f32> = (0..8).map(|value| value as f32 / 2.0 - 1.0).collect();
    let weight = |row: usize, column: usize| row as f32 + column as f32 / 4.0;
    let y = |rows: usize| -> Vec<f32> {
        let product = |place: usize| (0..4).map(|k| values[place / 3 * 4 + k] * weight(k, place % 3)).sum();
        (0..rows * 3).map(product).collect()
    };
    for (recipe, rows, bucket) in [(&started, 1, "batch=1,n=4"), (&short, 2, "batch=2,n=4")] {
        let x = Tensor::from_f32(vec![rows, 1, 4], &values[..rows * 4]).unwrap();
        let x = format!("x={}", write_npy(&folder, "x.npy", &x));
        let out = file(&folder, "out");
        let ran = tenon(&["run", &model, "--recipe", recipe, "--input", &x, "-o", &out]);
        assert!(ran.done().contains(bucket), "{}", ran.stdout);
        let read = || tenon_tensor::read_npy(file(&folder, "out/y.npy")).unwrap().to_f32_vec().unwrap();
        assert_eq!(read(), y(rows));
        let bundles = tempfile::tempdir().unwrap();
        let built = tenon(&["--json", "build", &model, "--recipe", recipe, "-o", bundles.path().to_str().unwrap()]);
        let value: serde_json::Value = serde_json::from_str(built.done()).unwrap();
        let bundle = value["file"].as_str().unwrap().to_owned();
        assert!(tenon(&["run", &bundle, "--input", &x, "-o", &out]).done().contains(bucket));
        assert_eq!(read(), y(rows));
    }
    // Of two sizes none is the model's.
    let two = write(
        &folder,
        "two.toml",
        "recipe = 1\n[semantic.dims]\nbatch = { allowed = [1, 2] }\nn = { allowed = [4] }\n",
    );
    tenon(&["recipe", "check", &two, &model]).refused("E0135");
    let wrong =
        write(&folder, "wrong.toml", "recipe = 1\n[semantic.dims]\nbatch = { allowed = [1] }\nn = { allowed = [5] }\n");
    tenon(&["recipe", "check", &wrong, &model]).refused("E01");
    let other = write(
        &folder,
        "other.toml",
        "recipe = 1\n[semantic.dims]\nbatch = { allowed = [2] }\nn = { allowed = [4] }\nk = { allowed = [3] }\n",
    );
    assert!(tenon(&["recipe", "check", &other, &model]).refused("E0224").contains("`k`"));
}

/// Two dimensions that meet in an operator: sizes that differ are refused by the bucket, and sizes that may differ with what to write instead.
#[test]
fn sizes_that_do_not_meet_are_refused_by_bucket() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(
        &folder,
        "meet.mlir",
        r#"
module attributes {graph.model = "meet"} {
  func.func @main(%x: tensor<?xf32, {dims = ["n"]}> {graph.name = "x"}, %z: tensor<?xf32, {dims = ["m"]}> {graph.name = "z"}) -> (tensor<?xf32, {dims = ["n"]}> {graph.name = "y"}) {
    %0 = graph.elementwise add(%x, %z) : (tensor<?xf32, {dims = ["n"]}>, tensor<?xf32, {dims = ["m"]}>) -> tensor<?xf32, {dims = ["n"]}> loc("Add_0")
    return %0 : tensor<?xf32, {dims = ["n"]}>
  }
}
"#,
    );
    let lower = |between: &str| {
        let dims = format!(
            "n = {{ allowed = [2, 3], between = '{between}' }}\nm = {{ allowed = [2], between = '{between}' }}\n"
        );
        let recipe = write(&folder, "meet.toml", format!("recipe = 1\n[semantic.dims]\n{dims}"));
        tenon(&["lower", &model, "--recipe", &recipe, "--stage", "hw"])
    };
    let fixed = lower("reject");
    let said = "bucket m=2,n=3: node `Add_0`: graph.elementwise: dimension 0 is 3 in one operand and 2 in another";
    let text = fixed.refused("E0303");
    assert!(text.contains(said) && text.contains("allow other sizes in `semantic.dims`"), "{text}");
    let padded = lower("pad");
    let text = padded.refused("E0502");
    assert!(text.contains("bucket m=2,n=2: node `Add_0`") && text.contains("`between = \"reject\"`"), "{text}");
    assert!(text.contains("one name for it in `semantic.inputs`"), "{text}");
    // One name for both, as the help says, and it compiles.
    let recipe = "recipe = 1\n[semantic.dims]\nn = { allowed = [2, 3], between = 'pad' }\n[semantic.inputs.x]\ndims = ['n']\n[semantic.inputs.z]\ndims = ['n']\n";
    let recipe = write(&folder, "one.toml", recipe);
    tenon(&["lower", &model, "--recipe", &recipe, "--stage", "hw"]).done();
}

#[test]
fn fusion_is_required_and_forbidden_by_source_patterns() {
    let folder = tempfile::tempdir().unwrap();
    let model = testdata(MODEL);
    let recipe = |clause: &str| {
        let text = format!("recipe = 1\n[semantic.dims]\nbatch = {{ allowed = [2] }}\n[compile.fusion]\n{clause}\n");
        write(&folder, "r.toml", text)
    };
    // Which kernel each node is in.
    let kernels = |clause: &str| {
        let outcome = tenon(&["--json", "table", &model, "--recipe", &recipe(clause)]);
        let buckets: Vec<serde_json::Value> = serde_json::from_str(outcome.done()).unwrap();
        let rows = buckets[0]["operators"].as_array().unwrap().clone();
        let of = |node: &str| {
            let row = rows.iter().find(|row| row["nodes"][0] == node).unwrap();
            row["kernel"].as_str().unwrap_or("none").to_owned()
        };
        ["MatMul_0", "Add_1", "Relu_2", "Softmax_3"].map(of)
    };
    let [product, add, relu, softmax] = kernels("require = [[\"matmul\", \"add\", \"relu\"]]");
    assert!(product == add && add == relu && relu != softmax);
    let [product, add, relu, _] = kernels("forbid = [[\"matmul\", \"add\"]]");
    assert!(product != add, "{product} {relu}");
    let [product, add, relu, _] = kernels("forbid = [[\"add\", \"relu\"]]");
    assert!(product == add && add != relu);
    for (clause, code, text) in [
        ("require = [[\"relu\", \"softmax\"]]", "E0233", "Relu_2, Softmax_3 in one kernel"),
        ("require = [[\"conv\", \"relu\"]]", "E0232", "occurs nowhere"),
        ("forbid = [[\"softmax\", \"add\"]]", "E0232", "occurs nowhere"),
        ("forbid = [[\"matmull\"]]", "E0231", "did you mean `matmul`?"),
        ("require = [[\"matmul\", \"add\"]]\nforbid = [[\"matmul\", \"add\"]]", "E0233", "MatMul_0, Add_1"),
    ] {
        let outcome = tenon(&["lower", &model, "--recipe", &recipe(clause), "--stage", "fuse"]);
        assert!(outcome.refused(code).contains(text), "{clause}: {}", outcome.stderr);
    }
    // A node of a forbidden pair still gives the right numbers.
    let x = write_npy(&folder, "x.npy", &Tensor::from_f32(vec![2, 3], &[0.5, -1.0, 2.0, 3.0, 0.25, -0.75]).unwrap());
    let (weights, out) = (mlp_weights(&folder), file(&folder, "out"));
    let recipe = recipe("forbid = [[\"matmul\", \"add\"], [\"add\", \"relu\"]]");
    let given = format!("x={x}");
    tenon(&["run", &model, "--recipe", &recipe, "--weights", &weights, "--input", &given, "-o", &out]).done();
    let result = tenon_tensor::read_npy(file(&folder, "out/probabilities.npy")).unwrap();
    let expected = crate::run::expected(&[0.5, -1.0, 2.0, 3.0, 0.25, -0.75]);
    for (actual, expected) in result.to_f64_vec().unwrap().iter().zip(expected) {
        assert!((actual - expected).abs() < 1e-6, "{actual} instead of {expected}");
    }
}
