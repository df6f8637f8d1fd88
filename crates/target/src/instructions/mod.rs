//! The table of instructions, `data/instructions.toml`, and which architecture has which.
//!
//! Invariants: a name is in the table once; an instruction that the table grants an architecture assembles for it with the PTX
//! version that is emitted for it, and one that the table denies is refused by ptxas (`tests/probe.rs`).

mod matrix;
mod probe;

use std::sync::LazyLock;

use serde::Deserialize;
use tenon_tensor::DType;

use crate::nearest::nearest;
use crate::{Architecture, ArchitectureName, InstructionUnavailable, TargetError, Version};

pub use matrix::{FragmentScheme, MatrixInstruction, Order};
pub use probe::Probe;

/// How an instruction is emitted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Emission {
    /// By an operation of MLIR's NVVM (or LLVM) dialect, by its full name.
    Nvvm(String),
    /// By `llvm.call_intrinsic` of this name.
    Intrinsic(String),
    /// By inline PTX, the instruction's `ptx`, with these constraints of LLVM.
    Inline(String),
}

/// What an architecture must be to have an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Requirements<'i> {
    /// The first architecture.
    pub minimum_architecture: ArchitectureName,
    /// The only architectures, unless empty.
    pub exact_architectures: &'i [ArchitectureName],
    /// The first PTX version.
    pub ptx_version: Version,
}

impl Requirements<'_> {
    /// Whether `architecture`, with the PTX that is emitted for it, meets them.
    pub fn check(&self, architecture: &Architecture) -> Result<(), InstructionUnavailable> {
        let exact = self.exact_architectures;
        if !exact.is_empty() && !exact.contains(&architecture.name) {
            return Err(InstructionUnavailable::Exact { exact: exact.to_vec() });
        }
        if architecture.name.number < self.minimum_architecture.number {
            return Err(InstructionUnavailable::Architecture { minimum: self.minimum_architecture });
        }
        let emitted = architecture.ptx_version();
        if emitted < self.ptx_version {
            return Err(InstructionUnavailable::PtxVersion { needed: self.ptx_version, emitted });
        }
        Ok(())
    }
}

/// An instruction other than a matrix instruction.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instruction {
    /// PTX's name with what distinguishes the row: `ldmatrix.x4.trans`, `max.NaN.f32`.
    pub name: String,
    /// The first architecture that has it.
    pub minimum_architecture: ArchitectureName,
    /// The only architectures that have it, unless empty.
    #[serde(default)]
    pub exact_architectures: Vec<ArchitectureName>,
    /// The first PTX version that has it.
    pub ptx_version: Version,
    /// How it is emitted.
    pub emission: Emission,
    /// The instruction in PTX: with operands `$0`, `$1`, … where the emission is inline, else an example.
    pub ptx: String,
}

impl Instruction {
    /// What an architecture must be to have it.
    pub fn requirements(&self) -> Requirements<'_> {
        Requirements {
            minimum_architecture: self.minimum_architecture,
            exact_architectures: &self.exact_architectures,
            ptx_version: self.ptx_version,
        }
    }
}

/// The table.
#[derive(Debug)]
pub struct Instructions {
    matrix: Vec<MatrixInstruction>,
    other: Vec<Instruction>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    matrix: Vec<matrix::Row>,
    instruction: Vec<Instruction>,
}

impl Instructions {
    /// The table that is built in.
    pub fn table() -> &'static Instructions {
        static TABLE: LazyLock<Instructions> = LazyLock::new(|| {
            Instructions::read(include_str!("../../data/instructions.toml"))
                .expect("the instruction table is valid: a test reads it")
        });
        &TABLE
    }

    fn read(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut matrix = Vec::new();
        for row in file.matrix {
            matrix.extend(row.expand()?);
        }
        let table = Instructions { matrix, other: file.instruction };
        let mut names: Vec<&str> = table.names().collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("`{}` is in the table twice", pair[0])),
            None => Ok(table),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.all_requirements().map(|(name, _)| name)
    }

    /// Every row's name and requirements.
    pub fn all_requirements(&self) -> impl Iterator<Item = (&str, Requirements<'_>)> {
        let matrix = self.matrix.iter().map(|row| (row.name.as_str(), row.requirements()));
        matrix.chain(self.other.iter().map(|row| (row.name.as_str(), row.requirements())))
    }

    /// Every matrix instruction.
    pub fn matrix_instructions(&self) -> &[MatrixInstruction] {
        &self.matrix
    }

    /// Every other instruction.
    pub fn instructions(&self) -> &[Instruction] {
        &self.other
    }

    /// The matrix instruction called `name`; E0601 if there is none.
    pub fn matrix_instruction(&self, name: &str) -> Result<&MatrixInstruction, TargetError> {
        let names = self.matrix.iter().map(|row| row.name.as_str());
        self.matrix.iter().find(|row| row.name == name).ok_or_else(|| unknown(name, names))
    }

    /// The other instruction called `name`; E0601 if there is none.
    pub fn instruction(&self, name: &str) -> Result<&Instruction, TargetError> {
        let names = self.other.iter().map(|row| row.name.as_str());
        self.other.iter().find(|row| row.name == name).ok_or_else(|| unknown(name, names))
    }

    /// Whether `architecture` has the instruction called `name`: E0602 with the reason if not, E0601 if the table has no such row.
    pub fn is_available(&self, name: &str, architecture: impl AsRef<Architecture>) -> Result<(), TargetError> {
        let architecture = architecture.as_ref();
        let found = self.all_requirements().find(|(row, _)| *row == name);
        let (_, requirements) = found.ok_or_else(|| unknown(name, self.names()))?;
        requirements.check(architecture).map_err(|reason| TargetError::InstructionUnavailable {
            instruction: name.to_owned(),
            architecture: architecture.name,
            reason,
        })
    }

    /// The matrix instructions of `architecture` that take A of type `a` and B of type `b` as they are and accumulate in `accumulator`:
    /// wgmma before mma.sync, sm_70's slow-elsewhere instruction last, then by falling work for one instruction.
    ///
    /// Those that round f32 operands to tf32 are another function of their operands: [`Instructions::tf32_instructions_for`].
    pub fn matrix_instructions_for(
        &self,
        architecture: impl AsRef<Architecture>,
        a: DType,
        b: DType,
        accumulator: DType,
    ) -> Vec<&MatrixInstruction> {
        let types = (a, b, accumulator);
        self.select(architecture.as_ref(), |row| !row.tf32 && (row.a, row.b, row.c) == types)
    }

    /// The matrix instructions of `architecture` that read f32 operands as tf32 (mantissa of ten bits), in the same order.
    pub fn tf32_instructions_for(&self, architecture: impl AsRef<Architecture>) -> Vec<&MatrixInstruction> {
        self.select(architecture.as_ref(), |row| row.tf32)
    }

    fn select(
        &self,
        architecture: &Architecture,
        wanted: impl Fn(&MatrixInstruction) -> bool,
    ) -> Vec<&MatrixInstruction> {
        let available = |row: &&MatrixInstruction| wanted(row) && row.requirements().check(architecture).is_ok();
        let mut rows: Vec<&MatrixInstruction> = self.matrix.iter().filter(available).collect();
        // Stable: rows of equal work stay in the table's order.
        rows.sort_by_key(|row| std::cmp::Reverse((row.fragments, row.multiply_adds())));
        rows
    }
}

fn unknown<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> TargetError {
    let nearest = nearest(name, names).map(str::to_owned);
    TargetError::UnknownInstruction { name: name.chars().take(64).collect(), nearest }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Target;

    fn architecture(name: &str) -> &'static Architecture {
        Architecture::find(name).unwrap()
    }

    fn best(architecture_name: &str, a: DType, c: DType) -> Option<&'static str> {
        let rows = Instructions::table().matrix_instructions_for(architecture(architecture_name), a, a, c);
        rows.first().map(|row| row.name.as_str())
    }

    #[test]
    fn the_table_is_valid() {
        if let Err(reason) = Instructions::read(include_str!("../../data/instructions.toml")) {
            panic!("{reason}");
        }
    }

    #[test]
    fn broken_tables_are_refused() {
        let refused = |text: &str, reason: &str| {
            let found = Instructions::read(text).unwrap_err();
            assert!(found.contains(reason), "{found}");
        };
        let row = r#"{ name = "x", minimum_architecture = "sm_80", ptx_version = "7.0", emission = { inline = "r" }, ptx = "" }"#;
        refused(&format!("matrix = []\ninstruction = [{row}, {row}]"), "`x` is in the table twice");
        refused(&format!("matrix = []\ninstruction = [{}]", row.replace("sm_80", "A100")), "`A100`");
        refused(&format!("matrix = []\ninstruction = [{}]", row.replace("inline", "magic")), "magic");
    }

    /// The table of target facts: which f16 instruction each architecture is best served with.
    #[test]
    fn the_best_f16_instruction_of_each_architecture() {
        let expected = [
            ("sm_70", "mma.m8n8k4.f32.f16.f16.f32"),
            ("sm_75", "mma.m16n8k8.f32.f16.f16.f32"),
            ("sm_80", "mma.m16n8k16.f32.f16.f16.f32"),
            ("sm_89", "mma.m16n8k16.f32.f16.f16.f32"),
            ("sm_90a", "wgmma.m64n256k16.f32.f16.f16"),
            ("sm_100a", "mma.m16n8k16.f32.f16.f16.f32"),
            ("sm_120a", "mma.m16n8k16.f32.f16.f16.f32"),
        ];
        for (name, instruction) in expected {
            assert_eq!(best(name, DType::F16, DType::F32), Some(instruction), "{name}");
        }
    }

    #[test]
    fn other_types_by_architecture() {
        assert_eq!(best("sm_75", DType::BF16, DType::F32), None);
        assert_eq!(best("sm_80", DType::BF16, DType::F32), Some("mma.m16n8k16.f32.bf16.bf16.f32"));
        assert_eq!(best("sm_70", DType::I8, DType::I32), None);
        assert_eq!(best("sm_75", DType::I8, DType::I32), Some("mma.m8n8k16.s32.s8.s8.s32"));
        assert_eq!(best("sm_80", DType::I8, DType::I32), Some("mma.m16n8k32.s32.s8.s8.s32"));
        assert_eq!(best("sm_80", DType::F8E4M3FN, DType::F32), None);
        assert_eq!(best("sm_89", DType::F8E4M3FN, DType::F32), Some("mma.m16n8k32.f32.e4m3.e4m3.f32"));
        assert_eq!(best("sm_80", DType::F32, DType::F32), None, "tf32 rounds its operands");
        let tf32 = Instructions::table().tf32_instructions_for(Target::find("sm_80").unwrap());
        assert_eq!(tf32[0].name, "mma.m16n8k8.f32.tf32.tf32.f32");
        assert!(Instructions::table().tf32_instructions_for(Target::find("t4").unwrap()).is_empty());
    }

    #[test]
    fn unknown_and_unavailable_instructions_are_refused_by_code() {
        let table = Instructions::table();
        let error = table.matrix_instruction("mma.m16n8k16.f16.f16.f32").unwrap_err();
        assert_eq!(error.code(), "E0601");
        assert!(error.help().unwrap().contains("`mma.m16n8k16."), "{error:?}");
        assert_eq!(table.instruction("ldmatrix").unwrap_err().help().unwrap(), "did you mean `ldmatrix.x1`?");
        let reason = |name: &str, target: &str| {
            let error = table.is_available(name, Target::find(target).unwrap()).unwrap_err();
            assert_eq!(error.code(), "E0602");
            assert!(error.help().is_some());
            error.to_string()
        };
        assert_eq!(reason("cp.async.cg.16", "t4"), "sm_75 has no `cp.async.cg.16`: it needs sm_80 or newer");
        assert!(reason("wgmma.m64n64k16.f32.f16.f16", "b200").ends_with("only sm_90a has it"));
        assert!(reason("ld.global.v8", "b200").ends_with("it needs PTX 8.8, and PTX 8.6 is emitted"));
        assert_eq!(table.is_available("max", Target::find("t4").unwrap()).unwrap_err().code(), "E0601");
        table.is_available("ldmatrix.x4.trans", architecture("sm_75")).unwrap();
    }

    /// The features of the descriptions say the same as the table.
    #[test]
    fn features_agree_with_the_table() {
        for architecture in Architecture::all() {
            let features = &architecture.features;
            let pairs = [
                (features.ldmatrix, "ldmatrix.x4"),
                (features.cp_async, "cp.async.cg.16"),
                (features.mbarrier, "mbarrier.init"),
                (features.tma, "cp.async.bulk.tensor.2d.load"),
                (features.wgmma, "wgmma.m64n64k16.f32.f16.f16"),
                (features.redux, "redux.sync.add.s32"),
                (features.max_nan, "max.NaN.f32"),
                (features.bf16_arithmetic, "fma.rn.bf16x2"),
                (features.fp8_conversion, "cvt.rn.f16x2.e4m3x2"),
            ];
            for (feature, instruction) in pairs {
                let available = Instructions::table().is_available(instruction, architecture).is_ok();
                assert_eq!(feature, available, "{}: {instruction}", architecture.name);
            }
        }
    }
}
