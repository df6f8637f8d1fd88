//! The command `tenon`, run as a user runs it.
#![allow(clippy::unwrap_used)]

mod basics;
mod bisect;
mod bundle;
mod codegen;
mod concatenation;
mod conformance;
mod control_flow;
#[cfg(feature = "cuda")]
mod cuda;
mod explain;
mod golden;
mod hostile;
mod kernels;
mod lower;
mod models;
mod quantized;
mod recipe;
mod requests;
mod resume;
mod rewriting;
mod rotary;
mod run;
mod selection;
mod sim;
mod spellings;
mod states;
mod stream;
mod torch_export;
mod verify;

use std::path::{Path, PathBuf};
use std::process::Command;

use tenon_tensor::Tensor;

/// What a run of the command gave.
struct Outcome {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Outcome {
    /// Refused with this code, and nothing on standard output.
    #[track_caller]
    fn refused(&self, code: &str) -> &str {
        assert_eq!(self.status, 1, "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.contains(code), "{code} is not in:\n{}", self.stderr);
        assert_eq!(self.stdout, "", "a refused command prints no result");
        &self.stderr
    }

    #[track_caller]
    fn done(&self) -> &str {
        assert_eq!(self.status, 0, "{}", self.stderr);
        &self.stdout
    }
}

fn tenon(arguments: &[&str]) -> Outcome {
    tenon_in(&[], arguments)
}

/// The command with variables of its environment.
fn tenon_in(environment: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenon"));
    let output = command.args(arguments).envs(environment.iter().copied()).output().unwrap();
    Outcome {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn testdata(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    root.join("testdata").join(name).to_str().unwrap().to_owned()
}

/// A file of a temporary folder as an argument.
fn file(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

fn write(folder: &tempfile::TempDir, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = file(folder, name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn write_npy(folder: &tempfile::TempDir, name: &str, tensor: &Tensor) -> String {
    let path = file(folder, name);
    tenon_tensor::write_npy(&path, tensor).unwrap();
    path
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Weights of `command/mlp.mlir` as a safetensors file: w[i][j] = i - j / 2, b[j] = j / 4.
fn mlp_weights(folder: &tempfile::TempDir) -> String {
    let w: Vec<f32> = (0..3).flat_map(|i| (0..4).map(move |j| i as f32 - j as f32 / 2.0)).collect();
    let b: Vec<f32> = (0..4).map(|j| j as f32 / 4.0).collect();
    let header = r#"{"b":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"w":{"dtype":"F32","shape":[3,4],"data_offsets":[16,64]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(b.iter().chain(&w).flat_map(|value| value.to_le_bytes()));
    write(folder, "mlp.safetensors", bytes)
}

#[test]
fn the_test_data_is_there() {
    assert!(PathBuf::from(testdata("command/mlp.mlir")).is_file());
}
