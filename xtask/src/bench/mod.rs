//! `cargo xtask bench --against iree`: Tenon and IREE compile the same models side by side, in turn.
//!
//! Both start from the ONNX file and end at PTX for sm_80: Tenon by `tenon lower --stage ptx`, IREE by `iree-import-onnx` and
//! `iree-compile` with the options of its own guide. Figures of one machine and one run only compare with each other.

mod report;

use crate::error::{Error, Result};
use crate::setup::{self, Set};
use crate::workspace::Workspace;
use crate::{output, tenon};
use report::{Figures, Row};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is compiled where no model is named.
const MODELS: [&str; 4] = ["resnet18", "resnet50", "bert_mini", "bert_base"];
/// The folder of models that are named without a folder.
const FOLDER_VARIABLE: &str = "TENON_FILLED";
/// Runs of each side that count.
const REPETITIONS: u32 = 5;
const SCRIPT: &str = include_str!("measure.py");

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    models: Vec<String>,
    repetitions: u32,
    json: bool,
}

impl Options {
    fn parse(arguments: &[OsString]) -> Result<Options> {
        let usage = |message: &str| {
            Error::Usage(format!("{message}; usage: bench --against iree [--repetitions N] [--json] [MODEL…]"))
        };
        let mut options = Options { models: Vec::new(), repetitions: REPETITIONS, json: false };
        let mut against = None;
        let mut words = arguments.iter().map(|argument| argument.to_string_lossy().into_owned());
        while let Some(word) = words.next() {
            match word.as_str() {
                "--against" => against = words.next(),
                "--json" => options.json = true,
                "--repetitions" => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    options.repetitions = number
                        .filter(|number| (1..=100).contains(number))
                        .ok_or_else(|| usage("--repetitions takes a number from 1 to 100"))?;
                }
                word if word.starts_with('-') => return Err(usage(&format!("bench does not know `{word}`"))),
                _ => options.models.push(word),
            }
        }
        match against.as_deref() {
            Some("iree") => {}
            Some(other) => return Err(usage(&format!("bench cannot compare with `{other}`"))),
            None => return Err(usage("bench needs to know whom to compare with")),
        }
        if options.models.is_empty() {
            options.models = MODELS.map(str::to_owned).to_vec();
        }
        Ok(options)
    }
}

/// The file of a model: a path as it stands, else a name in the folder of filled models.
fn file_of(model: &str, folder: Option<&Path>) -> Result<PathBuf> {
    let path = if model.ends_with(".onnx") {
        PathBuf::from(model)
    } else {
        let Some(folder) = folder else {
            return Err(Error::Failed(format!(
                "`{model}` is looked for in the folder that {FOLDER_VARIABLE} names: set it, or give the path of an ONNX file"
            )));
        };
        let alone = folder.join(format!("{model}.onnx"));
        if alone.is_file() { alone } else { folder.join(model).join("model.onnx") }
    };
    if path.is_file() { Ok(path) } else { Err(Error::Failed(format!("there is no model {}", path.display()))) }
}

/// Runs the comparison.
pub fn command(workspace: &Workspace, arguments: &[OsString]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let folder = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from);
    let models: Vec<(String, PathBuf)> = options
        .models
        .iter()
        .map(|model| {
            let path = file_of(model, folder.as_deref())?;
            let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            // In a folder of its own, a model is called `model`.
            let name = match (stem(&path), path.parent()) {
                (name, Some(folder)) if name == "model" && folder.file_stem().is_some() => stem(folder),
                (name, _) => name,
            };
            Ok((name, path))
        })
        .collect::<Result<_>>()?;
    setup::install(workspace, Set::Iree)?;
    let program = tenon::built(workspace)?.get_program().to_owned();
    let scratch = workspace.target.join("bench");
    std::fs::create_dir_all(&scratch).map_err(|error| Error::file(&scratch, error))?;
    let mut rows = Vec::new();
    for (name, path) in models {
        if !options.json {
            eprintln!("{name}: {} runs of each", options.repetitions + 1);
        }
        let sides = steps(workspace, &program, &path, &scratch);
        rows.push(Row::new(name, &measure(workspace, &sides, options.repetitions)?)?);
    }
    output::line(&if options.json { report::json(&rows) } else { report::table(&rows) });
    Ok(())
}

/// The command lines of both sides, as the script reads them.
fn steps(workspace: &Workspace, tenon: &OsString, model: &Path, scratch: &Path) -> String {
    let bin = workspace.venv().join("bin");
    let text = |path: &Path| path.display().to_string();
    let (module, compiled) = (text(&scratch.join("iree.mlir")), text(&scratch.join("iree.vmfb")));
    let model = text(model);
    let tenon = tenon.to_string_lossy();
    let lines = [
        vec!["tenon", &tenon, "--quiet", "lower", &model, "--stage", "ptx", "--target", "sm_80", "-o"],
        vec!["iree", "iree-import-onnx", &model, "-o", &module],
        vec!["iree", "iree-compile", &module, "--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80", "-o"],
    ];
    let scratch = text(scratch);
    let mut input = String::new();
    for (mut line, last) in lines.into_iter().zip([Some(&scratch), None, Some(&compiled)]) {
        let tool;
        if line[0] == "iree" {
            tool = text(&bin.join(line[1]));
            line[1] = &tool;
        }
        line.extend(last.map(String::as_str));
        input.push_str(&line.join("\t"));
        input.push('\n');
    }
    input
}

/// Runs both sides in turn.
fn measure(workspace: &Workspace, steps: &str, repetitions: u32) -> Result<Vec<(String, Figures)>> {
    let python = workspace.venv().join("bin/python");
    let failed = |error: std::io::Error| Error::file(&python, error);
    let mut process = Command::new(&python)
        .args(["-c", SCRIPT, &repetitions.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = process.stdin.take() {
        input.write_all(steps.as_bytes()).map_err(failed)?;
    }
    let finished = process.wait_with_output().map_err(failed)?;
    if !finished.status.success() {
        return Err(Error::Failed("a compiler failed: its last words stand above".to_owned()));
    }
    String::from_utf8_lossy(&finished.stdout).lines().map(report::read).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(words: &[&str]) -> Result<Options> {
        Options::parse(&words.iter().map(|word| OsString::from(*word)).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_exact() {
        let options = parse(&["--against", "iree", "a.onnx", "--repetitions", "3", "--json"]).unwrap();
        assert_eq!(options, Options { models: vec!["a.onnx".to_owned()], repetitions: 3, json: true });
        assert_eq!(parse(&["--against", "iree"]).unwrap().models, MODELS);
        for wrong in [
            &["--against", "tvm"][..],
            &[],
            &["resnet18"],
            &["--against", "iree", "--repetitions", "0"],
            &["--against", "iree", "-x"],
        ] {
            assert!(matches!(parse(wrong), Err(Error::Usage(_))), "{wrong:?}");
        }
    }

    #[test]
    fn a_name_is_looked_for_in_the_folder_and_a_path_is_taken_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, "").unwrap();
        assert_eq!(file_of("m", Some(folder.path())).unwrap(), path);
        assert_eq!(file_of(path.to_str().unwrap(), None).unwrap(), path);
        assert!(file_of("m", None).unwrap_err().message().unwrap().contains(FOLDER_VARIABLE));
        assert!(file_of("n", Some(folder.path())).is_err());
        let inside = folder.path().join("n/model.onnx");
        std::fs::create_dir(folder.path().join("n")).unwrap();
        std::fs::write(&inside, "").unwrap();
        assert_eq!(file_of("n", Some(folder.path())).unwrap(), inside);
    }

    #[test]
    fn the_script_runs_sides_in_turn_and_passes_failures_on() {
        let Some(python) = crate::programs::find("python3") else { return };
        let run = |steps: &str| {
            let mut process = Command::new(&python)
                .args(["-c", SCRIPT, "2"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            process.stdin.take().unwrap().write_all(steps.as_bytes()).unwrap();
            process.wait_with_output().unwrap()
        };
        let finished = run("a\ttrue\nb\ttrue\nb\ttrue\n");
        let text = String::from_utf8(finished.stdout).unwrap();
        let runs: Vec<_> = text.lines().map(|line| report::read(line).unwrap()).collect();
        assert_eq!(runs.iter().map(|(side, _)| side.as_str()).collect::<Vec<_>>(), ["a", "b", "a", "b"]);
        assert!(runs.iter().all(|(_, figures)| figures.wall > 0.0 && figures.peak > 100_000.0));
        let failed = run("a\tsh\t-c\techo no such thing; exit 3\n");
        assert!(!failed.status.success());
        let words = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(words.contains("exit status 3") && words.contains("no such thing"), "{words}");
    }
}
