//! Dumps of stages: text with a header that says what it is.
//!
//! The header is a comment in the language of the dump: `// tenon stage: NAME`, then `// target: NAME` and `// bucket: NAME` where there is
//! one.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use tenon_ir::{PrintOptions, Session};
use tenon_target::Target;

use crate::driver::{Unit, backend};
use crate::stage::Stage;
use crate::{Diagnostic, Failure};

/// The text of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    /// The stage.
    pub stage: Stage,
    /// Header and body.
    pub text: String,
    /// `NN-STAGE[.BUCKET][.TARGET].EXT`.
    pub file_name: String,
    header_bytes: usize,
}

/// What the header of a dump says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// The stage.
    pub stage: Option<Stage>,
    /// Name of the target.
    pub target: Option<String>,
    /// The bucket.
    pub bucket: Option<String>,
}

impl Header {
    /// Reads the header of a text; fields that are not there are `None`.
    ///
    /// # Errors
    /// A stage that does not exist.
    pub fn parse(text: &str) -> Result<Header, String> {
        let mut header = Header::default();
        for line in text.lines() {
            let Some(comment) = line.strip_prefix("// ").or_else(|| line.strip_prefix("; ")) else { break };
            if let Some(stage) = comment.strip_prefix("tenon stage: ") {
                header.stage = Some(stage.trim().parse()?);
            } else if let Some(target) = comment.strip_prefix("target: ") {
                header.target = Some(target.trim().to_owned());
            } else if let Some(bucket) = comment.strip_prefix("bucket: ") {
                header.bucket = Some(bucket.trim().to_owned());
            }
        }
        Ok(header)
    }

    /// The stage that a file's name says: `NN-STAGE…`.
    pub fn stage_of_name(path: &Path) -> Option<Stage> {
        let name = path.file_name()?.to_str()?;
        let (number, rest) = name.split_once('-')?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| rest.split('.').next()?.parse().ok()).flatten()
    }

    fn write(&self, stage: Stage) -> String {
        let comment = if stage == Stage::Llvm { ";" } else { "//" };
        let line = |label: &str, value: &str| format!("{comment} {label}: {}\n", value.replace(['\n', '\r'], " "));
        let target = self.target.as_deref().map(|target| line("target", target)).unwrap_or_default();
        let bucket = self.bucket.as_deref().map(|bucket| line("bucket", bucket)).unwrap_or_default();
        format!("{}{target}{bucket}", line("tenon stage", stage.name()))
    }
}

impl Dump {
    pub(crate) fn new(unit: &Unit<'_>, body: String, targets: &[&'static Target]) -> Dump {
        let stage = unit.stage;
        let header = Header {
            stage: Some(stage),
            target: unit.target.map(|t| t.name().to_owned()),
            bucket: unit.bucket.clone(),
        };
        let mut file_name = format!("{:02}-{}", stage.number(), stage.name());
        if let Some(bucket) = &unit.bucket {
            file_name.push('.');
            file_name.push_str(&plain(bucket));
        }
        if let Some(target) = unit.target {
            // Two GPUs of one architecture are told apart by their names.
            let same = |other: &&&'static Target| other.architecture.name == target.architecture.name;
            let several = targets.iter().filter(same).count() > 1;
            file_name.push('.');
            file_name.push_str(if several { target.name() } else { &target.architecture.llvm.processor });
        }
        file_name.push('.');
        file_name.push_str(stage.info().extension);
        let header = header.write(stage);
        let end = if body.ends_with('\n') { "" } else { "\n" };
        Dump { stage, file_name, header_bytes: header.len(), text: format!("{header}{body}{end}") }
    }

    /// Whether the text, read and printed again, is the same text.
    pub(crate) fn check(&self, session: &Session) -> Result<(), Failure> {
        let again = match self.stage {
            stage if stage.is_mlir() => {
                let text: Arc<str> = self.text.as_str().into();
                let module = session.parse_module(&self.text, &self.file_name);
                let module = module.map_err(|error| Failure::of_mlir(&self.file_name, &text, error))?;
                module.print(PrintOptions { locations: true, generic: false })
            }
            Stage::Llvm => backend::llvm_text(&backend::parse_llvm(&self.text)?),
            _ => return Ok(()),
        };
        let body = &self.text[self.header_bytes..];
        if again.trim_end() == body.trim_end() {
            return Ok(());
        }
        let line = again.lines().zip(body.lines()).take_while(|(a, b)| a == b).count();
        let shown = |text: &str| text.lines().nth(line).unwrap_or("the end").chars().take(160).collect::<String>();
        let message = format!(
            "the dump of stage `{}` does not parse back to the same text: line {} is `{}`, then `{}`",
            self.stage,
            line + 1,
            shown(body),
            shown(&again)
        );
        Err(Diagnostic::new("E0030", message).with_help("this is a fault of Tenon: report it with the model").into())
    }
}

/// A name with what file systems do not like replaced.
fn plain(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '=' | ',');
    name.chars().map(|c| if keep(c) { c } else { '_' }).take(120).collect()
}

/// Writes a file into a folder, which is made if need be; what was there before is replaced as a whole.
///
/// # Errors
/// The folder or file cannot be written.
pub fn write_file(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let path = folder.join(name);
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Cut by the umask, as for any new file; the default would be private to the user.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let mut file = builder.prefix(".tenon-").tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.persist(&path)?;
        Ok(())
    };
    write().map_err(|error| Diagnostic::new("E0002", format!("{}: {error}", path.display())).into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_what_a_dump_is() {
        let header = Header { stage: Some(Stage::Ptx), target: Some("t4".into()), bucket: Some("n=1".into()) };
        let text = header.write(Stage::Ptx);
        assert_eq!(text, "// tenon stage: ptx\n// target: t4\n// bucket: n=1\n");
        assert_eq!(Header::parse(&format!("{text}.version 7.8\n// target: other\n")).unwrap(), header);
        assert!(
            Header { stage: Some(Stage::Llvm), ..Header::default() }
                .write(Stage::Llvm)
                .starts_with("; tenon stage: llvm")
        );
        assert_eq!(Header::parse("module {}").unwrap(), Header::default());
        assert!(Header::parse("// tenon stage: fuze\n").unwrap_err().contains("fuse"));
    }

    #[test]
    fn names_say_the_stage() {
        let stage = |name: &str| Header::stage_of_name(Path::new(name));
        assert_eq!(stage("out/03-flow.batch=4,seq=64.mlir"), Some(Stage::Flow));
        assert_eq!(stage("09-ptx.sm_80.ptx"), Some(Stage::Ptx));
        assert_eq!(stage("09-patx.ptx"), None);
        assert_eq!(stage("x-ptx.ptx"), None);
        assert_eq!(stage("model.mlir"), None);
        assert_eq!(plain("a/b=1,c d=2"), "a_b=1,c_d=2");
    }

    #[test]
    fn files_are_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        write_file(&inner, "x", b"one").unwrap();
        write_file(&inner, "x", b"two").unwrap();
        assert_eq!(fs::read(inner.join("x")).unwrap(), b"two");
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 1);
        fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!(write_file(&folder.path().join("file"), "x", b"").unwrap_err().0[0].code, "E0002");
    }
}
