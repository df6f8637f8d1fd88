//! Concatenations whose parts kernels write where they lie, through PTX against the interpreter.

use crate::*;

/// Products, a softmax and a map into one matrix side by side, with a free number of rows, and that matrix with another one below it.
fn rows() -> String {
    let of = |columns: u64| format!("tensor<?x{columns}xf32, {{dims = [\"batch\", {columns}]}}>");
    let (x, a, b, c) = (of(6), of(5), of(7), of(18));
    let double = "tensor<?x18xf32, {dims = [\"2*batch\", 18]}>";
    let weight = |columns: u64| format!("tensor<6x{columns}xf32>");
    let (w, v, wide) = (weight(5), weight(7), weight(18));
    format!(
        "module {{
           func.func @main(%x: {x} {{graph.name = \"x\"}}, %w: {w} {{graph.name = \"w\"}}, %v: {v} {{graph.name = \"v\"}},
               %u: {wide} {{graph.name = \"u\"}}) -> (DOUBLE {{graph.name = \"y\"}}) {{
             %a = graph.contract \"mk,kn->mn\"(%x, %w) accumulate f32 : ({x}, {w}) -> {a} loc(\"MatMul_a\")
             %b = graph.contract \"mk,kn->mn\"(%x, %v) accumulate f32 : ({x}, {v}) -> {b} loc(\"MatMul_b\")
             %s = graph.softmax %b {{axis = 1}} : {b} -> {b} loc(\"Softmax\")
             %e = graph.elementwise exp(%x) : ({x}) -> {x} loc(\"Exp\")
             %c = graph.concat(%a, %s, %e) {{axis = 1 : i64}} : ({a}, {b}, {x}) -> {c} loc(\"Concat_columns\")
             %d = graph.contract \"mk,kn->mn\"(%x, %u) accumulate f32 : ({x}, {wide}) -> {c} loc(\"MatMul_d\")
             %y = graph.concat(%c, %d) {{axis = 0 : i64}} : ({c}, {c}) -> DOUBLE loc(\"Concat_rows\")
             return %y : DOUBLE
           }}
         }}\n"
    )
    .replace("DOUBLE", double)
}

/// Five kernels, none for the two concatenations; in buckets that are full and in ones that are not, where parts begin by extents.
#[test]
fn parts_lie_by_extents() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(&folder, "rows.mlir", rows());
    let recipe = "recipe = 1\n[semantic.dims]\nbatch = { allowed = [4, 16], between = 'pad' }\n";
    let recipe = write(&folder, "r.toml", recipe);
    let fused = tenon(&["lower", &model, "--recipe", &recipe, "--bucket", "batch=16", "--stage", "fuse"]);
    let families = fused.done().lines().filter_map(|line| line.split_once("graph.kernel "));
    let families: Vec<&str> = families.filter_map(|(_, rest)| rest.split_whitespace().next()).collect();
    assert_eq!(families, ["contract", "contract", "reduce", "map", "contract"], "{}", fused.stdout);
    let report = tenon(&["--json", "verify", &model, "--recipe", &recipe, "--numerics", "--padding", "--seeds", "3"]);
    let report: serde_json::Value = serde_json::from_str(report.done()).unwrap();
    assert!(report["numerics"].as_array().unwrap().len() >= 12, "{report}");
    // What writes a part stands for the concatenation too.
    let pair =
        tenon(&["explain", &model, "--recipe", &recipe, "--bucket", "batch=16", "--pair", "MatMul_a", "Concat_rows"]);
    assert!(pair.done().contains("share kernel"), "{}", pair.stdout);
    let pair =
        tenon(&["explain", &model, "--recipe", &recipe, "--bucket", "batch=16", "--pair", "MatMul_a", "Softmax"]);
    assert!(pair.done().contains("neither reads what the other gives"), "{}", pair.stdout);
}
