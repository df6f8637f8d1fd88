//! Header, manifest and parts in one file.
//!
//! ```text
//! 0   8  "TENONBDL"
//! 8   4  format, little endian        12  4  zero
//! 16  8  bytes of the manifest        24  8  bytes of the file
//! 32 32  SHA-256 of the manifest
//! 64     manifest (JSON), zeros up to a multiple of 64
//!        parts in the order of the manifest, each followed by zeros up to a multiple of 64
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tenon_mapped_file::MappedFile;

use crate::{BundleError, Identity, Manifest, PartRecord, ProgramRecord, hex, sha256};

/// Version of the file's form that this crate reads and writes.
pub const FORMAT: u32 = 1;

const MAGIC: &[u8; 8] = b"TENONBDL";
const HEADER: usize = 64;
const ALIGNMENT: u64 = 64;
/// Longest manifest that is read.
const MAX_MANIFEST: u64 = 1 << 28;

/// `{model}_{recipe_hash}_{tenon_version}.tenon`, the model's name with what file systems do not like replaced.
pub fn file_name(model: &str, recipe_hash: &str, tenon_version: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let model: String = model.chars().map(|c| if keep(c) { c } else { '_' }).take(100).collect();
    format!("{model}_{recipe_hash}_{tenon_version}.tenon")
}

/// A part to be written: its name, and its content in pieces.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its name, different from that of every other part.
    pub name: String,
    /// Its content, one piece after the other.
    pub pieces: Vec<Bytes>,
}

impl Part {
    /// A part of one piece.
    pub fn new(name: impl Into<String>, content: impl Into<Bytes>) -> Part {
        Part { name: name.into(), pieces: vec![content.into()] }
    }

    fn record(&self, offset: u64) -> PartRecord {
        let mut digest = Sha256::new();
        let mut bytes = 0;
        for piece in &self.pieces {
            digest.update(piece);
            bytes += piece.len() as u64;
        }
        PartRecord { name: self.name.clone(), offset, bytes, sha256: hex(&digest.finalize()) }
    }
}

/// Writes bundles.
pub struct Writer {
    manifest: Manifest,
    parts: Vec<Part>,
}

impl Writer {
    /// A bundle to be: the manifest's list of parts is made from `parts`.
    pub fn new(manifest: Manifest, parts: Vec<Part>) -> Writer {
        Writer { manifest, parts }
    }

    /// Writes the file into a folder, which is made if need be. It appears whole or not at all, also beside other writers of the same file.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    pub fn write(mut self, folder: &Path, name: &str) -> Result<PathBuf, BundleError> {
        let path = folder.join(name);
        let failed = |source: io::Error| BundleError::File { path: path.clone(), source };
        let mut offset = 0;
        self.manifest.parts.clear();
        for part in &self.parts {
            let record = part.record(offset);
            offset = (offset + record.bytes).next_multiple_of(ALIGNMENT);
            self.manifest.parts.push(record);
        }
        let manifest = serde_json::to_vec(&self.manifest).map_err(|error| failed(io::Error::other(error)))?;
        let start = (HEADER as u64 + manifest.len() as u64).next_multiple_of(ALIGNMENT);
        let header = header(manifest.len() as u64, start + offset, &manifest);
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Cut by the umask, as for any new file.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.prefix(".tenon-").tempfile_in(folder).map_err(failed)?;
        let write = || -> io::Result<()> {
            let mut out = io::BufWriter::with_capacity(1 << 20, file.as_file());
            out.write_all(&header)?;
            out.write_all(&manifest)?;
            fill(&mut out, HEADER as u64 + manifest.len() as u64)?;
            for (part, record) in self.parts.iter().zip(&self.manifest.parts) {
                for piece in &part.pieces {
                    out.write_all(piece)?;
                }
                fill(&mut out, record.bytes)?;
            }
            out.flush()?;
            // The name must not come to stand for content that a crash of the machine would lose.
            file.as_file().sync_all()
        };
        write().map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(path)
    }
}

fn header(manifest_bytes: u64, file_bytes: u64, manifest: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[16..24].copy_from_slice(&manifest_bytes.to_le_bytes());
    header[24..32].copy_from_slice(&file_bytes.to_le_bytes());
    header[32..].copy_from_slice(&Sha256::digest(manifest));
    header
}

fn fill(out: &mut impl Write, written: u64) -> io::Result<()> {
    let zeros = [0u8; ALIGNMENT as usize];
    out.write_all(&zeros[..(written.next_multiple_of(ALIGNMENT) - written) as usize])
}

/// A bundle that was opened, mapped into memory. Every byte of it has been checked.
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    manifest: Manifest,
    parts: BTreeMap<String, Bytes>,
}

impl Bundle {
    /// Whether a file is meant to be a bundle, by its first bytes or its ending.
    pub fn is_one(path: &Path) -> bool {
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("tenon")) {
            return true;
        }
        let mut start = [0; 8];
        std::fs::File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut start)).is_ok()
            && start == *MAGIC
    }

    /// Opens a bundle and checks all of it: header, manifest, every part and what lies between them.
    ///
    /// # Errors
    /// What is not as it was written, by name.
    pub fn open(path: &Path) -> Result<Bundle, BundleError> {
        let failed = |source| BundleError::File { path: path.to_owned(), source };
        let data = MappedFile::open(path).map_err(failed)?.bytes();
        let (manifest, start) = read_manifest(path, &data)?;
        let damaged = |part: String| BundleError::Damaged { path: path.to_owned(), part };
        let inconsistent = |reason: String| BundleError::Manifest { path: path.to_owned(), reason };
        let mut parts = BTreeMap::new();
        let mut place = start;
        for record in &manifest.parts {
            let begins = start.checked_add(record.offset).filter(|begins| *begins == place);
            let begins = begins.ok_or_else(|| inconsistent(format!("part `{}` is out of its place", record.name)))?;
            let ends = begins.checked_add(record.bytes).filter(|ends| *ends <= data.len() as u64);
            let ends = ends.ok_or_else(|| inconsistent(format!("part `{}` ends outside the file", record.name)))?;
            let next = ends.next_multiple_of(ALIGNMENT).min(data.len() as u64);
            let content = data.slice(begins as usize..ends as usize);
            if sha256(&content) != record.sha256 {
                return Err(damaged(format!("part `{}`", record.name)));
            }
            if data[ends as usize..next as usize].iter().any(|byte| *byte != 0) {
                return Err(damaged(format!("the space after part `{}`", record.name)));
            }
            if parts.insert(record.name.clone(), content).is_some() {
                return Err(inconsistent(format!("part `{}` is there twice", record.name)));
            }
            place = next;
        }
        if place != data.len() as u64 {
            return Err(inconsistent("the parts do not fill the file".to_owned()));
        }
        let bundle = Bundle { path: path.to_owned(), manifest, parts };
        bundle.check_references()?;
        Ok(bundle)
    }

    /// Refuses a manifest whose records name what is not there, or bind what does not belong together.
    fn check_references(&self) -> Result<(), BundleError> {
        let inconsistent = |reason: String| BundleError::Manifest { path: self.path.clone(), reason };
        let manifest = &self.manifest;
        let has = |part: &String| self.parts.contains_key(part);
        for (part, expected) in [("recipe.json", &manifest.recipe.sha256), ("graph/contract.mlir", &manifest.graph)] {
            let found = self.parts.get(part).map(sha256);
            if found.as_ref() != Some(expected) {
                return Err(inconsistent(format!("the hash of part `{part}` is not that of the manifest")));
            }
        }
        let mut seen = BTreeSet::new();
        for program in &manifest.programs {
            let name = format!("program {} {}", program.target, program.label().unwrap_or_default());
            if !manifest.targets.iter().any(|target| target.name == program.target) {
                return Err(inconsistent(format!("{name} is for no target of the bundle")));
            }
            if !seen.insert((&program.target, &program.bucket)) {
                return Err(inconsistent(format!("{name} is there twice")));
            }
            let kernels = program.kernels.iter().map(|kernel| &kernel.part);
            if let Some(missing) = kernels.chain([&program.plan, &program.graph]).find(|part| !has(part)) {
                return Err(inconsistent(format!("{name} names part `{missing}`, which is not there")));
            }
            if let Some(missing) = program.parameters.values().find(|key| !manifest.weights.contains_key(*key)) {
                return Err(inconsistent(format!("{name} names the tensor {missing}, which is not there")));
            }
        }
        if let Some((name, key)) = manifest.states.iter().find(|(_, key)| !manifest.weights.contains_key(*key)) {
            return Err(inconsistent(format!("state `{name}` names the tensor {key}, which is not there")));
        }
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The content of a part.
    ///
    /// # Errors
    /// There is no such part.
    pub fn part(&self, name: &str) -> Result<&Bytes, BundleError> {
        let missing =
            || BundleError::Manifest { path: self.path.clone(), reason: format!("there is no part `{name}`") };
        self.parts.get(name).ok_or_else(missing)
    }

    /// A part as text.
    ///
    /// # Errors
    /// There is no such part, or it is no UTF-8.
    pub fn text(&self, name: &str) -> Result<&str, BundleError> {
        let wrong = |_| BundleError::Manifest { path: self.path.clone(), reason: format!("part `{name}` is no text") };
        std::str::from_utf8(self.part(name)?).map_err(wrong)
    }

    /// Refuses a bundle that was made from or by something else.
    ///
    /// # Errors
    /// Names what differs, the first of compiler, model and recipe.
    pub fn check(&self, identity: &Identity) -> Result<(), BundleError> {
        let manifest = &self.manifest;
        let compilers = identity
            .compiler
            .as_ref()
            .map(|expected| ("compiler", expected.to_string(), manifest.compiler.to_string()));
        let model = identity.model.as_ref().map(|expected| ("model", expected.clone(), manifest.model.sha256.clone()));
        let recipe =
            identity.recipe.as_ref().map(|expected| ("recipe", expected.clone(), manifest.recipe.sha256.clone()));
        for (part, expected, found) in [compilers, model, recipe].into_iter().flatten() {
            if expected != found {
                return Err(BundleError::Mismatch { path: self.path.clone(), part, expected, found });
            }
        }
        Ok(())
    }

    /// The programs for a target: those for exactly this GPU, else those for another GPU of the very same architecture.
    ///
    /// # Errors
    /// Nothing is there for it; the message says what is there and why it is not taken.
    pub fn programs(&self, target: &str, architecture: &str) -> Result<Vec<&ProgramRecord>, BundleError> {
        let manifest = &self.manifest;
        let exact = manifest.targets.iter().find(|record| record.name == target && record.architecture == architecture);
        let record = exact.or_else(|| manifest.targets.iter().find(|record| record.architecture == architecture));
        match record {
            Some(record) => Ok(manifest.programs.iter().filter(|program| program.target == record.name).collect()),
            None => {
                let there: Vec<_> = manifest
                    .targets
                    .iter()
                    .map(|record| format!("{} ({})", record.name, record.architecture))
                    .collect();
                let reason = if there.is_empty() {
                    "the bundle has no program".to_owned()
                } else {
                    format!("it has {}, and code for one architecture is never taken for another", there.join(", "))
                };
                let wanted = format!("{target} ({architecture})");
                Err(BundleError::Target { path: self.path.clone(), wanted, reason })
            }
        }
    }
}

/// The manifest and where the parts begin.
fn read_manifest(path: &Path, data: &Bytes) -> Result<(Manifest, u64), BundleError> {
    let format = |reason: String| BundleError::Format { path: path.to_owned(), reason };
    if data.len() < HEADER || data[..8] != *MAGIC {
        return Err(format("this is no bundle of Tenon".to_owned()));
    }
    let u32_at = |at: usize| u32::from_le_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    if u32_at(8) != FORMAT || u32_at(12) != 0 {
        return Err(format(format!("the bundle has format {}, and this version reads {FORMAT}", u32_at(8))));
    }
    let (manifest_bytes, expected) = (u64_at(16), u64_at(24));
    if expected != data.len() as u64 {
        return Err(BundleError::Length { path: path.to_owned(), expected, found: data.len() as u64 });
    }
    let end = HEADER as u64 + manifest_bytes.min(MAX_MANIFEST + 1);
    let start = end.next_multiple_of(ALIGNMENT);
    let damaged = |part: &str| BundleError::Damaged { path: path.to_owned(), part: part.to_owned() };
    if manifest_bytes > MAX_MANIFEST || start > data.len() as u64 {
        return Err(damaged("the header"));
    }
    let text = &data[HEADER..end as usize];
    if Sha256::digest(text)[..] != data[32..HEADER] {
        return Err(damaged("the manifest"));
    }
    if data[end as usize..start as usize].iter().any(|byte| *byte != 0) {
        return Err(damaged("the space after the manifest"));
    }
    let manifest = serde_json::from_slice(text)
        .map_err(|error| BundleError::Manifest { path: path.to_owned(), reason: error.to_string() })?;
    Ok((manifest, start))
}
