//! The benchmark kernels: operations whose code is counted and compared with published figures of another compiler.
//!
//! The graphs and the figures are data of this crate (`data/benchmarks`). A kernel of the list that no schedule makes is named with the reason;
//! none is left out.

use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, de::Error};
use tenon_ir::Session;
use tenon_recipe::NumericClass;
use tenon_target::{BlockResources, Target};

use crate::Failure;
use crate::driver::Source;

/// The list.
#[derive(Debug, Deserialize)]
pub struct Suite {
    /// What published figures are from.
    pub source: String,
    /// The kernels.
    pub kernels: Vec<Benchmark>,
}

/// A benchmark kernel.
#[derive(Debug, Deserialize)]
pub struct Benchmark {
    /// Its name.
    pub name: String,
    /// What schedules may do to numbers, as `semantic.numerics.rewrites` has it; none for what the request says.
    #[serde(default, deserialize_with = "numeric_class")]
    pub rewrites: Option<NumericClass>,
    /// Why no schedule makes it, on targets that are not in `targets`; none where one does on all.
    pub unsupported: Option<String>,
    /// Targets on which a schedule makes it all the same.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Figures by target.
    pub published: Vec<Published>,
}

fn numeric_class<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NumericClass>, D::Error> {
    let word = String::deserialize(deserializer)?;
    NumericClass::of_name(&word).map(Some).ok_or_else(|| D::Error::custom(format!("{word:?} is no class of rewrites")))
}

/// What another compiler made of it.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Published {
    /// The target.
    pub target: String,
    /// Tile of a block.
    pub tile: String,
    /// Threads of a block.
    pub threads: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes spilled.
    pub spills: u32,
    /// Bytes of shared memory.
    pub smem: u32,
    /// Instructions of the hottest loop.
    pub loop_sass: Option<usize>,
    /// Matrix instructions of the hottest loop.
    pub loop_mma: Option<usize>,
    /// All instructions.
    pub total_sass: Option<usize>,
}

impl Published {
    /// Warps that a multiprocessor of the target holds, as a share of what it could hold.
    pub fn occupancy(&self, target: &Target) -> Option<f64> {
        let (threads, registers_per_thread, shared_memory) = (self.threads, self.registers, self.smem);
        let block = BlockResources { threads, registers_per_thread, shared_memory };
        Some(target.architecture.occupancy(&block).ok()?.fraction)
    }
}

/// Graphs of the kernels that schedules make, by name.
const GRAPHS: [(&str, &str); 12] = [
    ("matmul_f16", include_str!("../data/benchmarks/matmul_f16.mlir")),
    ("matmul_f16_wide", include_str!("../data/benchmarks/matmul_f16_wide.mlir")),
    ("matmul_f16_tma", include_str!("../data/benchmarks/matmul_f16_tma.mlir")),
    ("matmul_f16_bias_gelu", include_str!("../data/benchmarks/matmul_f16_bias_gelu.mlir")),
    ("matmul_f32", include_str!("../data/benchmarks/matmul_f32.mlir")),
    ("matmul_tf32", include_str!("../data/benchmarks/matmul_f32.mlir")),
    ("matmul_tf32_three_passes", include_str!("../data/benchmarks/matmul_f32.mlir")),
    ("attention_f16_d64", include_str!("../data/benchmarks/attention_f16_d64.mlir")),
    ("attention_f16_d128", include_str!("../data/benchmarks/attention_f16_d128.mlir")),
    ("softmax_f32", include_str!("../data/benchmarks/softmax_f32.mlir")),
    ("add_layernorm_f32", include_str!("../data/benchmarks/add_layernorm_f32.mlir")),
    ("convolution_f16", include_str!("../data/benchmarks/convolution_f16.mlir")),
];

static SUITE: LazyLock<Suite> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/benchmarks/published.json")).expect("the list of this crate is valid")
});

impl Suite {
    /// The list of this version.
    pub fn get() -> &'static Suite {
        &SUITE
    }
}

impl Benchmark {
    /// Why no schedule makes it for a target.
    pub fn unsupported_on(&self, target: &Target) -> Option<&str> {
        let name = target.architecture.name.to_string();
        self.unsupported.as_deref().filter(|_| !self.targets.contains(&name))
    }

    /// Its graph, where a schedule makes it for a target.
    ///
    /// # Errors
    /// None that a released version has: the graphs are its own.
    pub fn source<'s>(&self, session: &'s Session, target: &Target) -> Result<Option<Source<'s>>, Failure> {
        if self.unsupported_on(target).is_some() {
            return Ok(None);
        }
        let graph = GRAPHS.iter().find(|(name, _)| *name == self.name);
        graph.map(|(name, text)| Source::of_graph(session, name, text)).transpose()
    }

    /// The published figures for a target.
    pub fn published(&self, target: &Target) -> Option<&Published> {
        let name = target.architecture.name.to_string();
        self.published.iter().find(|figures| figures.target == name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_has_a_graph_or_a_reason() {
        let session = Session::new();
        for kernel in &Suite::get().kernels {
            for target in ["sm_80", "sm_90a"].map(|name| Target::find(name).unwrap()) {
                let source = kernel.source(&session, target);
                let source = source.unwrap_or_else(|failure| panic!("{}: {failure:?}", kernel.name));
                assert_eq!(source.is_none(), kernel.unsupported_on(target).is_some(), "{}", kernel.name);
            }
            assert!(kernel.targets.iter().all(|name| Target::find(name).is_ok()), "{}", kernel.name);
            for figures in &kernel.published {
                let target = Target::find(&figures.target).unwrap();
                assert!(figures.occupancy(target).unwrap() > 0.0, "{}", kernel.name);
            }
        }
        assert!(GRAPHS.iter().all(|(name, _)| Suite::get().kernels.iter().any(|kernel| kernel.name == *name)));
    }
}
