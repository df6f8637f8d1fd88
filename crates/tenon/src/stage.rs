//! The stages, in one table.

use std::fmt;
use std::str::FromStr;

/// A stage of compilation; later ones compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The model as read.
    Import,
    /// The recipe applied.
    Contract,
    /// One module per point of the shape space.
    Bucket,
    /// Control flow placed.
    Flow,
    /// Kernels chosen.
    Fuse,
    /// Tile programs and the launch plan of one target.
    Hw,
    /// Upstream dialects.
    Gpu,
    /// LLVM dialect with NVVM.
    Nvvm,
    /// Optimised LLVM IR.
    Llvm,
    /// PTX.
    Ptx,
    /// SASS.
    Sass,
}

/// What is known of a stage.
#[derive(Debug, Clone, Copy)]
pub struct StageInfo {
    /// The stage.
    pub stage: Stage,
    /// Its name on the command line and in dumps.
    pub name: &'static str,
    /// Ending of its dumps.
    pub extension: &'static str,
    /// What a dump holds.
    pub holds: &'static str,
    /// Dialects of its modules.
    pub dialects: &'static str,
}

const fn row(
    stage: Stage,
    name: &'static str,
    extension: &'static str,
    dialects: &'static str,
    holds: &'static str,
) -> StageInfo {
    StageInfo { stage, name, extension, holds, dialects }
}

/// All stages in order; the number in a dump's name is the index.
pub const STAGES: &[StageInfo] = &[
    row(Stage::Import, "import", "mlir", "graph, flow", "the model as read, normalised operators, source locations"),
    row(
        Stage::Contract,
        "contract",
        "mlir",
        "graph, flow",
        "recipe applied: dimensions named, numeric promise and shape space attached",
    ),
    row(
        Stage::Bucket,
        "bucket",
        "mlir",
        "graph, flow",
        "one module per point of the shape space, every dimension a number",
    ),
    row(Stage::Flow, "flow", "mlir", "graph, flow", "control flow placed"),
    row(Stage::Fuse, "fuse", "mlir", "graph, flow", "operators grouped into kernels"),
    row(Stage::Hw, "hw", "mlir", "hw", "one target: kernels as tile programs, the launch plan, buffers in an arena"),
    row(Stage::Gpu, "gpu", "mlir", "upstream", "kernels in gpu, nvvm, vector, scf, arith, llvm"),
    row(Stage::Nvvm, "nvvm", "mlir", "llvm, nvvm", "LLVM dialect with NVVM intrinsics"),
    row(Stage::Llvm, "llvm", "ll", "", "LLVM IR after optimisation, one section a kernel"),
    row(Stage::Ptx, "ptx", "ptx", "", "PTX"),
    row(Stage::Sass, "sass", "sass", "", "SASS, registers, spills, shared memory; needs ptxas and nvdisasm"),
];

impl Stage {
    /// Its row of the table.
    pub fn info(self) -> &'static StageInfo {
        &STAGES[self.number()]
    }

    /// Its place in the table.
    pub fn number(self) -> usize {
        self as usize
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The stage after it.
    pub fn next(self) -> Option<Stage> {
        STAGES.get(self.number() + 1).map(|info| info.stage)
    }

    /// Whether its dumps are MLIR.
    pub fn is_mlir(self) -> bool {
        self.info().extension == "mlir"
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Stage {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        STAGES.iter().find(|info| info.name == name).map(|info| info.stage).ok_or_else(|| {
            let names: Vec<_> = STAGES.iter().map(|info| info.name).collect();
            let nearest = tenon_pass_manager::nearest(name, names.iter().copied());
            let hint = nearest.map(|nearest| format!("did you mean `{nearest}`? ")).unwrap_or_default();
            format!("{hint}stages are {}", names.join(", "))
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        for (index, info) in STAGES.iter().enumerate() {
            assert_eq!(info.stage.number(), index);
            assert_eq!(info.name.parse::<Stage>().unwrap(), info.stage);
        }
        assert_eq!(Stage::Ptx.next(), Some(Stage::Sass));
        assert_eq!(Stage::Sass.next(), None);
        assert!("fuze".parse::<Stage>().unwrap_err().contains("did you mean `fuse`?"));
    }
}
