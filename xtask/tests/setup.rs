//! `setup` and the handing-on of subcommands, as a process: the file system root and the programs it starts are replaced.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Every file by which `setup` judges a machine without LLVM, below the root.
const FILES: &str = "usr/lib/llvm-22/bin/llvm-config usr/lib/llvm-22/lib/libLLVM.so usr/lib/llvm-22/include/llvm-c/Core.h \
    usr/lib/llvm-22/lib/libMLIRIR.a usr/lib/llvm-22/lib/libMLIRCAPIIR.a usr/lib/llvm-22/include/mlir-c/IR.h \
    usr/lib/llvm-22/bin/mlir-tblgen usr/lib/llvm-22/bin/mlir-opt usr/lib/llvm-22/lib/libclang.so \
    usr/lib/llvm-22/include/clang-c/Index.h usr/lib/llvm-22/lib/libPolly.a usr/include/zstd.h usr/include/z3.h \
    usr/include/libxml2/libxml/parser.h usr/include/zlib.h";

/// A machine of its own: `bin` with programs that log how they were called, `root` as its file system.
struct Machine(TempDir);

impl Machine {
    fn new() -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        fs::create_dir_all(machine.path().join("root")).unwrap();
        machine.program("g++", "");
        // Whoever runs this test, apt-get is reached: as root directly, else through this sudo.
        machine.program("sudo", "shift; exec \"$@\"");
        machine.program("apt-cache", "echo '  Candidate: 1:22.1.8'");
        machine
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn program(&self, name: &str, script: &str) {
        let folder = self.path().join("bin");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// An apt-get that logs its arguments and whose `install` creates `files`.
    fn apt_get(&self, files: &str) {
        let (log, root) = (self.path().join("log"), self.path().join("root"));
        let install =
            format!("for f in {files}; do mkdir -p \"$(dirname {0}/$f)\"; touch {0}/$f; done", root.display());
        self.program(
            "apt-get",
            &format!("echo \"$DEBIAN_FRONTEND $*\" >> {}\ncase \"$*\" in *install*) {install};; esac", log.display()),
        );
    }

    fn xtask(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        for variable in
            ["MLIR_SYS_220_PREFIX", "TABLEGEN_220_PREFIX", "LLVM_SYS_221_PREFIX", "TENON_PTXAS", "TENON_NVDISASM"]
        {
            command.env_remove(variable);
        }
        command.env("TENON_SETUP_ROOT", self.path().join("root"));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.path().join("bin").display()));
        command.args(arguments).output().unwrap()
    }

    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_is_missing_is_installed_once() {
    let machine = Machine::new();
    machine.apt_get(FILES);
    let first = machine.xtask(&["setup"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let log = machine.log();
    assert_eq!(log.len(), 2, "{log:?}");
    assert!(log[0].starts_with("noninteractive ") && log[0].ends_with(" update"), "{log:?}");
    assert!(
        log[1].ends_with(
            " install --yes --no-install-recommends llvm-22-dev libmlir-22-dev mlir-22-tools libclang-22-dev \
             libpolly-22-dev libzstd-dev libz3-dev libxml2-dev zlib1g-dev"
        ),
        "{log:?}"
    );
    assert!(machine.xtask(&["setup"]).status.success());
    assert_eq!(machine.log().len(), 2, "a complete machine starts nothing");
    assert!(machine.xtask(&["setup", "--check"]).status.success());
}

#[test]
fn check_installs_nothing() {
    let machine = Machine::new();
    machine.apt_get(FILES);
    let check = machine.xtask(&["setup", "--check"]);
    assert_eq!(check.status.code(), Some(1));
    let lines = text(&check.stdout);
    assert!(lines.contains("missing  libmlir-22-dev (no ") && lines.contains("present  g++"), "{lines}");
    assert!(machine.log().is_empty());
}

#[test]
fn an_installation_that_leaves_files_missing_is_no_success() {
    let machine = Machine::new();
    machine.apt_get(&FILES.replace("usr/include/z3.h", ""));
    let setup = machine.xtask(&["setup"]);
    assert_eq!(setup.status.code(), Some(1));
    let message = text(&setup.stderr);
    assert!(
        message.contains("files are still missing: libz3-dev (") && !message.contains("libzstd-dev ("),
        "{message}"
    );
}

#[test]
fn sources_without_llvm_22_are_named() {
    let machine = Machine::new();
    machine.apt_get(FILES);
    machine.program("apt-cache", "case $2 in *22*) echo '  Candidate: (none)';; *) echo '  Candidate: 1';; esac");
    let setup = machine.xtask(&["setup"]);
    assert_eq!(setup.status.code(), Some(1));
    let message = text(&setup.stderr);
    let names = "do not have: llvm-22-dev libmlir-22-dev mlir-22-tools libclang-22-dev libpolly-22-dev\n";
    assert!(message.contains(names), "{message}");
    assert_eq!(machine.log().len(), 1, "only the update ran");
}

#[test]
fn a_failing_apt_get_is_reported_with_its_command() {
    let machine = Machine::new();
    machine.program("apt-get", "exit 100");
    let setup = machine.xtask(&["setup"]);
    assert_eq!(setup.status.code(), Some(1));
    let message = text(&setup.stderr);
    assert!(message.contains("apt-get -qq") && message.contains("update` failed"), "{message}");
}

#[test]
fn a_prefix_of_the_users_is_never_filled_by_apt() {
    let machine = Machine::new();
    machine.apt_get(FILES);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    for variable in ["MLIR_SYS_220_PREFIX", "TABLEGEN_220_PREFIX", "LLVM_SYS_221_PREFIX"] {
        command.env(variable, "/nonexistent/llvm");
    }
    command.env("PATH", format!("{}:/usr/bin:/bin", machine.path().join("bin").display())).arg("setup");
    let setup = command.output().unwrap();
    assert_eq!(setup.status.code(), Some(1));
    let message = text(&setup.stderr);
    assert!(message.contains("MLIR_SYS_220_PREFIX is /nonexistent/llvm, where files of"), "{message}");
    command.env("TABLEGEN_220_PREFIX", "/usr/lib/llvm-22");
    let message = text(&command.output().unwrap().stderr);
    assert!(message.contains("name different folders"), "{message}");
    assert!(machine.log().is_empty());
}

#[test]
fn other_subcommands_need_a_complete_machine_first() {
    let machine = Machine::new();
    machine.program("apt-get", "exit 100");
    let lower = machine.xtask(&["lower", "model.onnx"]);
    assert_eq!(lower.status.code(), Some(1));
    assert!(text(&lower.stderr).contains("update` failed"));
}

#[test]
fn wrong_usage_is_status_2() {
    let machine = Machine::new();
    assert_eq!(machine.xtask(&["setup", "--everything"]).status.code(), Some(2));
    assert_eq!(machine.xtask(&["demo", "x"]).status.code(), Some(2));
    assert_eq!(machine.xtask(&["test", "a", "b"]).status.code(), Some(2));
    let help = machine.xtask(&[]);
    assert!(help.status.success() && text(&help.stdout).contains("setup [--ptxas]"));
}

#[test]
fn a_tool_that_is_named_must_be_there() {
    let machine = Machine::new();
    machine.apt_get(FILES);
    assert!(machine.xtask(&["setup"]).status.success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    for variable in ["MLIR_SYS_220_PREFIX", "TABLEGEN_220_PREFIX", "LLVM_SYS_221_PREFIX", "TENON_NVDISASM"] {
        command.env_remove(variable);
    }
    command.env("TENON_SETUP_ROOT", machine.path().join("root")).args(["setup", "--check"]);
    command.env("TENON_PTXAS", "/nonexistent/ptxas");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("TENON_PTXAS is /nonexistent/ptxas, which is no executable file"));
    machine.program("ptxas", "");
    command.env("TENON_PTXAS", machine.path().join("bin/ptxas"));
    let lines = text(&command.output().unwrap().stdout);
    assert!(lines.contains(&format!("found    ptxas at {}", machine.path().join("bin/ptxas").display())), "{lines}");
}
