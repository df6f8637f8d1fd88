//! What a bundle says of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenon_tensor::DType;

/// What a bundle was made from and for, and where its parts are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What compiled it.
    pub compiler: Compiler,
    /// The model.
    pub model: ModelRecord,
    /// The recipe; its canonical form is the part `recipe.json`.
    pub recipe: RecipeRecord,
    /// Hash of the graph with the recipe applied, which is the part `graph/contract.mlir`.
    pub graph: String,
    /// Custom operators, in order of their names.
    pub custom_ops: Vec<CustomOpRecord>,
    /// Targets, in order of the build.
    pub targets: Vec<TargetRecord>,
    /// One program for each target and bucket, in order of the build.
    pub programs: Vec<ProgramRecord>,
    /// The dimensions of each input that has named ones, as expressions over them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Vec<String>>,
    /// First value of each buffer that the model keeps between runs, by its name: the hash of its content.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<String, String>,
    /// Type and shape of each tensor of the part `weights.safetensors`, by the hash of its content.
    pub weights: BTreeMap<String, WeightRecord>,
    /// All parts, in order of their places.
    pub parts: Vec<PartRecord>,
}

/// What compiled a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compiler {
    /// Version of Tenon.
    pub tenon: String,
    /// Version of LLVM and MLIR.
    pub llvm: String,
}

impl std::fmt::Display for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tenon {} with LLVM {}", self.tenon, self.llvm)
    }
}

/// The model that a bundle was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRecord {
    /// Its name.
    pub name: String,
    /// Hash of its graph as it was read and of all its weights.
    pub sha256: String,
}

/// The recipe that a bundle was made by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeRecord {
    /// Its name.
    pub name: String,
    /// Hash of its canonical form.
    pub sha256: String,
}

/// A custom operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomOpRecord {
    /// Its name.
    pub name: String,
    /// Version of its interface.
    pub version: String,
    /// Hash of its code.
    pub sha256: String,
}

/// A GPU that a bundle was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetRecord {
    /// Its name.
    pub name: String,
    /// Its architecture with its suffix: PTX of `sm_90a` runs there alone.
    pub architecture: String,
    /// Version of the PTX.
    pub ptx_version: String,
}

/// A program: one bucket for one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramRecord {
    /// Name of the target.
    pub target: String,
    /// Size of each named dimension.
    pub bucket: BTreeMap<String, u64>,
    /// The part with the launch plan.
    pub plan: String,
    /// The part with the grouped graph.
    pub graph: String,
    /// Its kernels, each once, in order of their first launch.
    pub kernels: Vec<KernelRecord>,
    /// The tensor of each parameter of the plan, by the hash of its content.
    pub parameters: BTreeMap<String, String>,
}

impl ProgramRecord {
    /// `batch=4,seq=64`; none for a bucket without names.
    pub fn label(&self) -> Option<String> {
        let parts: Vec<_> = self.bucket.iter().map(|(name, size)| format!("{name}={size}")).collect();
        (!parts.is_empty()).then(|| parts.join(","))
    }
}

/// A kernel of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRecord {
    /// Name of its entry, in the plan and in the PTX.
    pub entry: String,
    /// The part with its PTX, which programs share.
    pub part: String,
    /// Its family of schedules.
    pub family: String,
    /// Nodes of the model that it computes, over all its launches.
    pub source_nodes: Vec<String>,
}

/// A tensor of the weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightRecord {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<u64>,
}

/// A range of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartRecord {
    /// Its name.
    pub name: String,
    /// Where it begins, from the end of the manifest and its filling.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// Hash of its content.
    pub sha256: String,
}

/// What a bundle must be made from or by to be taken; what is not named may be anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// What compiled it.
    pub compiler: Option<Compiler>,
    /// Hash of the model.
    pub model: Option<String>,
    /// Hash of the recipe.
    pub recipe: Option<String>,
}
