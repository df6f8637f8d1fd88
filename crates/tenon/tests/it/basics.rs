//! Exit status, refusals, lists.

use crate::*;

#[test]
fn usage_errors_are_2_and_refusals_1() {
    assert_eq!(tenon(&[]).status, 2);
    assert_eq!(tenon(&["lower"]).status, 2);
    assert_eq!(tenon(&["lower", "m.onnx", "--stage", "fuze"]).status, 2);
    assert!(tenon(&["lower", "m.onnx", "--stage", "fuze"]).stderr.contains("did you mean `fuse`?"));
    let unknown = tenon(&["lowr", "m.onnx"]);
    assert_eq!(unknown.status, 2);
    assert!(unknown.stderr.contains("'lower'"), "{}", unknown.stderr);
    tenon(&["lower", "no-such-file.onnx"]).refused("E01");
    tenon(&["lower", "no-such-file.mlir"]).refused("E0001");
    tenon(&["lower", "model.pt"]).refused("E0007");
    assert_eq!(tenon(&["--help"]).status, 0);
}

#[test]
fn planned_commands_are_refused_by_name() {
    for command in ["profile", "tune"] {
        let outcome = tenon(&[command, "x"]);
        let text = outcome.refused("E0005");
        assert!(text.contains(&format!("`tenon {command}`")), "{text}");
        assert!(!tenon(&["--help"]).stdout.contains(&format!("\n  {command} ")), "{command} is listed");
    }
}

#[test]
fn codes_have_pages() {
    let list = tenon(&["errors"]);
    assert!(list.done().lines().count() > 50);
    assert!(tenon(&["errors", "e0223"]).done().starts_with("# E0223: "));
    let page: serde_json::Value = serde_json::from_str(tenon(&["--json", "errors", "E0223"]).done()).unwrap();
    assert_eq!(page["code"], "E0223");
    tenon(&["errors", "E99999"]).refused("E0008");
}

#[test]
fn targets_and_stages_are_listed() {
    let targets: Vec<serde_json::Value> = serde_json::from_str(tenon(&["--json", "targets"]).done()).unwrap();
    let default = targets.iter().find(|target| target["is_default"] == true).unwrap();
    assert_eq!((default["name"].as_str(), default["architecture"].as_str()), (Some("a100-sxm4-80gb"), Some("sm_80")));
    assert!(tenon(&["targets"]).done().contains("a100-sxm4-80gb (default)"));
    let stages: Vec<serde_json::Value> = serde_json::from_str(tenon(&["lower", "--list", "--json"]).done()).unwrap();
    let names: Vec<_> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["import", "contract", "bucket", "flow", "fuse", "hw", "gpu", "nvvm", "llvm", "ptx", "sass"]);
}

#[test]
fn errors_show_their_place_to_people_and_machines() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = write(&folder, "r.toml", "recipe = 1\n[semantic.numerics]\nrewrite = 'exact'\n");
    let model = testdata("command/mlp.mlir");
    let outcome = tenon(&["lower", &model, "--recipe", &recipe]);
    let text = outcome.refused("E0203");
    assert!(
        text.contains("r.toml:3:1") && text.contains("rewrite = 'exact'") && text.contains("`rewrites`?"),
        "{text}"
    );
    let outcome = tenon(&["--json", "lower", &model, "--recipe", &recipe]);
    let value: serde_json::Value = serde_json::from_str(outcome.refused("E0203")).unwrap();
    assert_eq!((value["line"].as_u64(), value["column"].as_u64()), (Some(3), Some(1)));

    let broken = write(&folder, "m.mlir", "module {\n  func.func @main() {\n    graph.nothing\n  }\n}\n");
    let text = tenon(&["lower", &broken]).stderr;
    assert!(text.contains("E0401") && text.contains("m.mlir:3:5"), "{text}");
    tenon(&["lower", &model, "--target", "a100"]).refused("E0600");
    tenon(&["lower", &model, "--disable", "remove-ded"]).refused("E0407");
    tenon(&["lower", &model, "--disable", "bucket"]).refused("E0408");
}

#[test]
fn a_free_dimension_is_refused_with_the_stanza() {
    let outcome = tenon(&["lower", &testdata("command/mlp.mlir")]);
    let text = outcome.refused("E0223");
    assert!(text.contains("[semantic.dims]") && text.contains("batch = { allowed = [1] }"), "{text}");
    assert!(text.contains("or compile for the shapes of given inputs with --shapes-from-inputs"), "{text}");
}

/// A clause for a dimension that is spelt otherwise is shown where it stands, with the dimension that was meant.
#[test]
fn a_misspelt_dimension_is_proposed() {
    let folder = tempfile::tempdir().unwrap();
    for (name, said) in [
        ("bacth", "`semantic.dims.bacth` names no dimension of the model: did you mean `batch`?"),
        ("sequence", "`semantic.dims.sequence` names no dimension of the model; say in a recipe"),
    ] {
        let recipe = write(&folder, "r.toml", format!("recipe = 1\n[semantic.dims]\n{name} = {{ allowed = [1] }}\n"));
        let outcome = tenon(&["lower", &testdata("command/mlp.mlir"), "--recipe", &recipe]);
        let text = outcome.refused("E0223");
        assert!(text.contains(said) && text.contains("r.toml:3:1"), "{text}");
    }
}

/// What a command advises is an option that it has.
#[test]
fn advice_is_about_options_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let model = testdata("command/mlp.mlir");
    let recipe = write(&folder, "r.toml", "recipe = 1\n");
    let check = tenon(&["recipe", "check", &recipe, &model]);
    assert!(!check.refused("E0223").contains("--shapes-from-inputs"), "{}", check.stderr);
    let import = write(&folder, "import.mlir", tenon(&["lower", &model, "--stage", "import"]).done());
    let resumed = tenon(&["lower", "--from", &import]);
    assert!(!resumed.refused("E0223").contains("--shapes-from-inputs"), "{}", resumed.stderr);
    if tenon_target::Ptxas::locate().is_ok() {
        let codegen = tenon(&["codegen", &model]);
        let text = codegen.refused("E0223");
        assert!(text.contains("--shape x=1,3,224,224") && !text.contains("--shapes-from-inputs"), "{text}");
    }
}

/// A file of one long line is not printed whole.
#[test]
fn refusals_are_short_whatever_the_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(300_000);
    for (name, text) in [
        ("key.toml", format!("recipe = 1\nsemantic = {{ {long} = 1 }}\n")),
        ("text.toml", format!("recipe = 1\nsemantic.combine = '{long}'\n")),
        ("comment.toml", format!("recipe = 1 # {long}\nnamee = 'a' # {long}\n")),
        ("flow.yaml", format!("{{ recipe: 1, name: a, {long}: 1 }}\n")),
        ("syntax.yaml", format!("recipe: 1\nname: [{long}\n")),
        ("escape.toml", "recipe = 1\nnam = \"\u{1b}[2J\"\n".to_owned()),
    ] {
        let path = write(&folder, name, text);
        for flag in ["-q", "--json"] {
            let outcome = tenon(&[flag, "recipe", "check", &path]);
            assert_eq!(outcome.status, 1, "{}", outcome.stderr);
            assert!(!outcome.stderr.contains("\u{1b}"), "{name}: {}", outcome.stderr.len());
            let longest = outcome.stderr.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(flag == "--json" || longest < 600, "{name}: a line of {longest} characters");
        }
    }
    let model = write(&folder, "long.mlir", format!("module {{ {} }}", "(".repeat(300_000)));
    let outcome = tenon(&["lower", &model]);
    assert!(outcome.status == 1 && outcome.stderr.len() < 5000, "{}", outcome.stderr.len());
}
