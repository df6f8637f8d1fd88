//! Installing Debian packages with apt-get, where that is allowed: as root, or by a sudo that asks for no password.

use crate::error::{Error, Result};
use crate::programs;
use std::fs;
use std::process::{Command, Stdio};

/// How apt-get may be run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Privilege {
    Root,
    Sudo,
    None,
}

impl Privilege {
    fn here() -> Privilege {
        if is_root() {
            Privilege::Root
        } else if programs::find("sudo").is_some() && sudo_asks_nothing() {
            Privilege::Sudo
        } else {
            Privilege::None
        }
    }
}

/// Installs `packages`, or says with which command a person can.
pub fn install(packages: &[&str]) -> Result<()> {
    if programs::find("apt-get").is_none() {
        return Err(Error::Failed(format!(
            "missing: {}\nThis machine has no apt-get. Install LLVM and MLIR 22.1 with headers, static libraries and tools, libclang, \
             the development files of zstd, z3, libxml2 and zlib, and g++ by its own means; if LLVM does not lie in /usr/lib/llvm-22, \
             set the three variables of .cargo/config.toml to its prefix.",
            packages.join(" ")
        )));
    }
    let privilege = Privilege::here();
    if privilege == Privilege::None {
        return Err(Error::Failed(by_hand(packages)));
    }
    eprintln!("installing with apt-get, which takes some minutes: {}", packages.join(" "));
    run(privilege, &["update"])?;
    let unknown: Vec<&str> = packages.iter().copied().filter(|package| !has_candidate(package)).collect();
    if !unknown.is_empty() {
        return Err(Error::Failed(no_candidate(&unknown, &os_release("VERSION_CODENAME"), &policy(None))));
    }
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(packages);
    run(privilege, &arguments)
}

/// What a person can do where this program may not.
fn by_hand(packages: &[&str]) -> String {
    let packages = packages.join(" ");
    format!("missing: {packages}\nInstall with:\n  sudo apt-get update && sudo apt-get install {packages}")
}

/// Runs apt-get, waiting for another if one holds the lock; what it says of success is dropped, errors go to standard error.
fn run(privilege: Privilege, arguments: &[&str]) -> Result<()> {
    let mut line: Vec<&str> = if privilege == Privilege::Sudo { vec!["sudo", "-n"] } else { Vec::new() };
    line.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]);
    line.extend(["-o", "Dpkg::Use-Pty=0"]);
    line.extend(arguments);
    let status = Command::new(line[0])
        .args(&line[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| Error::Failed(format!("{}: {error}", line[0])))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed(format!("`{}` failed ({status})", line.join(" "))))
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    effective_user(&status) == Some(0)
}

/// The effective user of a `/proc/PID/status`, whose `Uid:` line holds real, effective, saved and file-system user.
fn effective_user(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
}

fn sudo_asks_nothing() -> bool {
    let mut command = Command::new("sudo");
    command.args(["-n", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn policy(package: Option<&str>) -> String {
    let output = Command::new("apt-cache").arg("policy").args(package).env("LC_ALL", "C").stdin(Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn has_candidate(package: &str) -> bool {
    candidate(&policy(Some(package))).is_some()
}

/// The version that apt would install, from the output of `apt-cache policy PACKAGE`.
fn candidate(policy: &str) -> Option<&str> {
    policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: ")).filter(|version| *version != "(none)")
}

/// What to do when the package sources do not have `unknown`.
fn no_candidate(unknown: &[&str], codename: &str, policy: &str) -> String {
    let missing = format!("the package sources of this machine do not have: {}", unknown.join(" "));
    if codename != "bookworm" {
        return format!(
            "{missing}\nAdd a source that has LLVM 22 for {}; the LLVM project publishes apt packages of these names for Debian and Ubuntu. \
             Then run `cargo xtask setup` again.",
            if codename.is_empty() { "this system" } else { codename }
        );
    }
    let uri = security_archive(policy).unwrap_or_else(|| "MIRROR/debian-security".into());
    format!(
        "{missing}\nDebian 12 has LLVM 22 in its security suite. Write this line to /etc/apt/sources.list.d/debian-security.list:\n  \
         deb {uri} bookworm-security main\nThen run `cargo xtask setup` again."
    )
}

/// The address of the security archive on the mirror that the suite `bookworm` comes from, from the output of `apt-cache policy`.
fn security_archive(policy: &str) -> Option<String> {
    policy.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| !word.contains("://"));
        let (uri, suite) = (words.next()?, words.next()?);
        let uri = uri.trim_end_matches('/');
        (suite.starts_with("bookworm/") && uri.ends_with("/debian")).then(|| format!("{uri}-security"))
    })
}

fn os_release(key: &str) -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    value.unwrap_or_default().trim_matches('"').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "Package files:\n 100 /var/lib/dpkg/status\n     release a=now\n \
         500 http://mirror.example/debian bookworm-updates/main amd64 Packages\n \
         500 http://mirror.example/debian bookworm/main amd64 Packages\n     origin mirror.example\n";

    #[test]
    fn candidates_are_read_from_the_policy() {
        assert_eq!(candidate("x:\n  Installed: (none)\n  Candidate: 1:22.1.8-1\n"), Some("1:22.1.8-1"));
        assert_eq!(candidate("x:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(candidate(""), None);
    }

    #[test]
    fn debian_12_is_told_the_line_to_add() {
        let message = no_candidate(&["llvm-22-dev"], "bookworm", POLICY);
        assert!(message.contains("do not have: llvm-22-dev"), "{message}");
        assert!(message.contains("  deb http://mirror.example/debian-security bookworm-security main\n"), "{message}");
        assert!(no_candidate(&["llvm-22-dev"], "bookworm", "").contains("deb MIRROR/debian-security "));
        let other = no_candidate(&["llvm-22-dev"], "noble", POLICY);
        assert!(other.contains("LLVM 22 for noble") && !other.contains("bookworm"), "{other}");
    }

    #[test]
    fn without_the_right_to_install_the_command_is_told() {
        let message = by_hand(&["libz3-dev", "g++"]);
        assert!(message.ends_with("\n  sudo apt-get update && sudo apt-get install libz3-dev g++"), "{message}");
    }

    #[test]
    fn the_effective_user_decides() {
        assert_eq!(effective_user("Name:\tx\nUid:\t1000\t0\t0\t0\n"), Some(0));
        assert_eq!(effective_user("Uid:\t0\t1000\t0\t0\n"), Some(1000));
        assert_eq!(effective_user(""), None);
    }
}
