//! The tree is formatted as rustfmt would, where rustfmt is installed.

use crate::root;
use std::process::Command;

#[test]
fn sources_are_formatted() {
    let cargo = || {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(root()).arg("fmt");
        command
    };
    if !cargo().arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: rustfmt is not installed");
        return;
    }
    let output = cargo().args(["--all", "--check", "--", "-l"]).output().unwrap();
    let files = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "run `cargo fmt --all`:\n{files}{}", String::from_utf8_lossy(&output.stderr));
}
