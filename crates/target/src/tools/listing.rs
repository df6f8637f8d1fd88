//! Reading the listing of `nvdisasm -c`.

use std::collections::{BTreeMap, HashMap};

use crate::TargetError;

use super::loops::{self, Loop};

/// The instructions of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Sass {
    /// Name of the kernel.
    pub kernel: String,
    /// In order of addresses, without NOPs and without the endless branch that follows the last instruction.
    pub instructions: Vec<SassInstruction>,
    /// The loop that most instructions are expected to be executed in, if there is a loop.
    pub hottest_loop: Option<Loop>,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SassInstruction {
    /// Byte address in the kernel.
    pub address: u64,
    /// `@P0`, `@!UP2`.
    pub predicate: Option<String>,
    /// With modifiers: `HMMA.16816.F32`.
    pub opcode: String,
    /// As listed, branch targets as addresses: `R1, c[0x0][0x28]`.
    pub operands: String,
}

impl SassInstruction {
    /// The opcode without modifiers: `HMMA`.
    pub fn family(&self) -> &str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    /// Whether a matrix unit executes it: HMMA, IMMA, DMMA, HGMMA, UTCHMMA; FFMA ends otherwise.
    pub fn is_matrix(&self) -> bool {
        self.family().ends_with("MMA")
    }
}

impl Sass {
    /// Instructions by opcode without modifiers.
    pub fn counts(&self) -> BTreeMap<&str, usize> {
        count(&self.instructions)
    }

    /// Instructions whose opcode is `opcode` or begins with it and a full stop: `HMMA`, `HMMA.16816`.
    pub fn count(&self, opcode: &str) -> usize {
        let is = |instruction: &&SassInstruction| {
            instruction.opcode.strip_prefix(opcode).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.instructions.iter().filter(is).count()
    }

    /// The instructions of a loop of this kernel, in order of addresses.
    pub fn body<'s>(&'s self, of: &Loop) -> impl Iterator<Item = &'s SassInstruction> {
        let holds = |address: &u64| of.blocks.iter().any(|block| block.contains(address));
        self.instructions.iter().filter(move |instruction| holds(&instruction.address))
    }

    /// Instructions of a loop by opcode without modifiers.
    pub fn counts_of(&self, of: &Loop) -> BTreeMap<&str, usize> {
        count(self.body(of))
    }
}

fn count<'s>(instructions: impl IntoIterator<Item = &'s SassInstruction>) -> BTreeMap<&'s str, usize> {
    let mut counts = BTreeMap::new();
    for instruction in instructions {
        *counts.entry(instruction.family()).or_insert(0) += 1;
    }
    counts
}

/// A section of the listing as it is read.
struct Section {
    kernel: String,
    instructions: Vec<SassInstruction>,
    /// Labels and the address of the next instruction.
    labels: HashMap<String, u64>,
    /// Labels since the last instruction.
    waiting: Vec<String>,
}

/// Reads a listing; E0613 for what is not understood.
pub(super) fn read(text: &str) -> Result<Vec<Sass>, TargetError> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |reason: &str| TargetError::Listing { line: index + 1, reason: reason.to_owned() };
        let line = line.trim();
        if let Some(kernel) = line.strip_prefix(".text.").and_then(|rest| rest.strip_suffix(':')) {
            let (instructions, labels, waiting) = (Vec::new(), HashMap::new(), Vec::new());
            sections.push(Section { kernel: kernel.to_owned(), instructions, labels, waiting });
        } else if line.starts_with("/*") {
            let section = sections.last_mut().ok_or_else(|| wrong("an instruction before any section"))?;
            let instruction =
                instruction(line).ok_or_else(|| wrong("no instruction of the form /*ADDRESS*/ OPCODE OPERANDS;"))?;
            if section.instructions.last().is_some_and(|last| last.address >= instruction.address) {
                return Err(wrong("addresses do not rise"));
            }
            for label in section.waiting.drain(..) {
                section.labels.insert(label, instruction.address);
            }
            section.instructions.push(instruction);
        } else if let Some(label) = line.strip_suffix(':').filter(|label| !label.contains(char::is_whitespace))
            && let Some(section) = sections.last_mut()
        {
            section.waiting.push(label.to_owned());
        }
    }
    let mut kernels: Vec<Sass> = sections.into_iter().map(finish).collect::<Result<_, _>>()?;
    kernels.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    Ok(kernels)
}

/// `/*0150*/ @!P1 LDG.E.128 R4, [R14.64] ;`
fn instruction(line: &str) -> Option<SassInstruction> {
    let (address, rest) = line.strip_prefix("/*")?.split_once("*/")?;
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    let rest = rest.split(';').next()?.trim();
    let (predicate, rest) = match rest.starts_with('@').then(|| rest.split_once(char::is_whitespace)) {
        Some(parts) => parts.map(|(predicate, rest)| (Some(predicate.to_owned()), rest.trim_start()))?,
        None => (None, rest),
    };
    let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let known = opcode.starts_with(|first: char| first.is_ascii_uppercase());
    known.then(|| SassInstruction {
        address,
        predicate,
        opcode: opcode.to_owned(),
        operands: operands.trim().to_owned(),
    })
}

/// Resolves labels, finds loops, and drops what pads the section.
fn finish(mut section: Section) -> Result<Sass, TargetError> {
    for instruction in &mut section.instructions {
        instruction.operands = resolve(&instruction.operands, &section.labels);
    }
    let hottest_loop = loops::hottest(&section.instructions)?;
    section.instructions.retain(|instruction| instruction.family() != "NOP");
    let ends_in_padding = section.instructions.last().is_some_and(|last| {
        last.family() == "BRA" && last.predicate.is_none() && loops::target(&last.operands) == Some(last.address)
    });
    if ends_in_padding {
        section.instructions.pop();
    }
    Ok(Sass { kernel: section.kernel, instructions: section.instructions, hottest_loop })
}

/// Replaces each label, `` `(.L_x_1) ``, by its address in hexadecimal.
fn resolve(operands: &str, labels: &HashMap<String, u64>) -> String {
    let mut resolved = String::new();
    let mut rest = operands;
    while let Some((before, after)) = rest.split_once("`(") {
        resolved.push_str(before);
        let Some((label, after)) = after.split_once(')') else {
            resolved.push_str("`(");
            rest = after;
            continue;
        };
        match labels.get(label) {
            Some(address) => resolved.push_str(&format!("{address:#x}")),
            None => resolved.push_str(&format!("`({label})")),
        }
        rest = after;
    }
    resolved + rest
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// In the form of nvdisasm 13.5: a loop of three instructions, an early branch, padding.
    const LISTING: &str = "\t.headerflags\t@\"EF_CUDA_SM80\"
//--------------------- .text.k                  --------------------------
\t.section\t.text.k,\"ax\",@progbits
        .global         k
k:
.text.k:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/              @!P0 BRA `(.L_x_0) ;
.L_x_1:
        /*0020*/                   HMMA.16816.F32 R4, R8, R10, R4 ;
        /*0030*/                   IADD3 R2, R2, -0x1, RZ ;
        /*0040*/               @P1 BRA `(.L_x_1) ;
.L_x_0:
        /*0050*/                   EXIT ;
.L_x_2:
        /*0060*/                   BRA `(.L_x_2);
        /*0070*/                   NOP;
.L_x_3:
";

    #[test]
    fn instructions_loops_and_counts_are_read() {
        let kernels = read(LISTING).unwrap();
        let [kernel] = &kernels[..] else { panic!("{kernels:?}") };
        assert_eq!((kernel.kernel.as_str(), kernel.instructions.len()), ("k", 6));
        assert_eq!(kernel.instructions[1].predicate.as_deref(), Some("@!P0"));
        assert_eq!(kernel.instructions[1].operands, "0x50");
        assert_eq!(
            (kernel.count("HMMA"), kernel.count("HMMA.16816"), kernel.count("HMM"), kernel.count("NOP")),
            (1, 1, 0, 0)
        );
        assert_eq!(kernel.counts()["BRA"], 2);
        let hottest = kernel.hottest_loop.as_ref().unwrap();
        assert_eq!((hottest.header, hottest.depth, hottest.instructions), (0x20, 1, 3));
        assert_eq!(kernel.counts_of(hottest), BTreeMap::from([("HMMA", 1), ("IADD3", 1), ("BRA", 1)]));
    }

    #[test]
    fn broken_listings_are_an_error() {
        for (find, replacement, line) in [
            ("/*0030*/", "/*0020*/", 11),
            ("/*0030*/", "/*00x0*/", 11),
            ("IADD3 R2", "?", 11),
            (".text.k:\n", "", 6),
            ("@P1 BRA `(.L_x_1) ;", "@P1;", 12),
        ] {
            let error = read(&LISTING.replacen(find, replacement, 1)).unwrap_err();
            assert_eq!(error.code(), "E0613", "{find}");
            assert!(error.to_string().starts_with(&format!("line {line} ")), "{error}");
            assert!(error.help().unwrap().contains("cargo xtask setup --ptxas"));
        }
    }

    #[test]
    fn unknown_labels_stay() {
        let labels = HashMap::from([("a".to_owned(), 16)]);
        assert_eq!(resolve("P0, `(a), `(b), `(c", &labels), "P0, 0x10, `(b), `(c");
    }
}
