//! What a model is compiled for: a GPU with its architecture.

use std::sync::LazyLock;

use crate::{Architecture, Gpu, TargetError, TensorType, registry};

/// A GPU with its architecture.
#[derive(Clone, Debug)]
pub struct Target {
    /// The GPU.
    pub gpu: &'static Gpu,
    /// Its architecture.
    pub architecture: &'static Architecture,
}

impl Target {
    /// Every GPU that is known, in the order of the architectures.
    pub fn all() -> &'static [Target] {
        static ALL: LazyLock<Vec<Target>> = LazyLock::new(|| {
            let of = |architecture: &'static Architecture| {
                let gpus = registry::gpus().iter().filter(|gpu| gpu.architecture == architecture.name);
                gpus.map(move |gpu| Target { gpu, architecture })
            };
            Architecture::all().iter().flat_map(of).collect()
        });
        &ALL
    }

    /// The target called `name`: a GPU (`a100-sxm4-80gb`) or an architecture (`sm_80`), which means its default GPU.
    pub fn find(name: &str) -> Result<&'static Target, TargetError> {
        let architecture = Architecture::all().iter().find(|architecture| architecture.llvm.processor == name);
        let gpu = architecture.map_or(name, |architecture| &architecture.default_gpu);
        Self::all().iter().find(|target| target.gpu.name == gpu).ok_or_else(|| {
            let architectures = Architecture::all().iter().map(|architecture| architecture.llvm.processor.as_str());
            TargetError::unknown_target(name, Self::all().iter().map(Target::name).chain(architectures))
        })
    }

    /// What is compiled for where no target is named.
    pub fn default_target() -> &'static Target {
        Self::find(registry::DEFAULT_TARGET).expect("the default target is a GPU of the table")
    }

    /// Name of the GPU.
    pub fn name(&self) -> &'static str {
        &self.gpu.name
    }

    /// Dense multiply-accumulates per clock per SM of the tensor cores with these operands; `None` where they do not exist.
    pub fn tensor_rate(&self, operands: TensorType) -> Option<u32> {
        self.gpu.tensor_rates.of(operands).or_else(|| self.architecture.tensor_rate(operands))
    }
}

impl AsRef<Architecture> for Target {
    fn as_ref(&self) -> &Architecture {
        self.architecture
    }
}

impl AsRef<Architecture> for Architecture {
    fn as_ref(&self) -> &Architecture {
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn targets_are_found_by_gpu_and_by_architecture() {
        assert_eq!(Target::find("sm_80").unwrap().name(), "a100-sxm4-80gb");
        assert_eq!(Target::find("h200").unwrap().architecture.llvm.processor, "sm_90a");
        assert_eq!(Target::default_target().name(), "a100-sxm4-80gb");
        for architecture in Architecture::all() {
            assert_eq!(Target::find(&architecture.llvm.processor).unwrap().architecture.name, architecture.name);
        }
        for target in Target::all() {
            assert_eq!(Target::find(target.name()).unwrap().name(), target.name());
        }
        assert_eq!(Target::all().len(), registry::gpus().len());
    }

    #[test]
    fn unknown_targets_are_refused_with_the_nearest() {
        for (name, nearest) in
            [("a100-sxm4-80GB", "a100-sxm4-80gb"), ("sm80", "sm_80"), ("sm_90", "sm_90a"), ("h100-sxm", "h100-sxm5")]
        {
            let error = Target::find(name).unwrap_err();
            assert_eq!(error.code(), "E0600");
            let help = error.help().unwrap();
            assert!(help.contains(&format!("did you mean `{nearest}`?")), "{name}: {help}");
            assert!(help.contains("rtx-5090") && help.contains("sm_120a"), "{help}");
        }
        assert!(!Target::find(&"x".repeat(1 << 20)).unwrap_err().help().unwrap().contains("did you mean"));
        assert!(Target::find("").is_err());
    }
}
