//! Description of a GPU as a product, `data/gpus/NAME.toml`.

use serde::Deserialize;

use crate::architecture::TensorRates;
use crate::{ArchitectureName, registry};

/// A GPU.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// `a100-sxm4-80gb`.
    pub name: String,
    /// The vendor's name.
    pub product: String,
    /// Which architecture its code is compiled for.
    pub architecture: ArchitectureName,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// The highest clock under load that is stated, in MHz.
    pub boost_clock_mhz: u32,
    /// The clock that the vendor's peaks of the tensor cores are computed with, where it differs, in MHz.
    pub tensor_clock_mhz: Option<u32>,
    /// Device memory.
    pub memory: Memory,
    /// L2 cache.
    pub l2: L2,
    /// Links to the host and to other GPUs.
    pub links: Links,
    /// Tensor-core rates in which the product differs from its architecture.
    #[serde(default)]
    pub(crate) tensor_rates: TensorRates,
}

/// Device memory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes per second.
    pub bandwidth: f64,
}

/// L2 cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct L2 {
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes per second of reads that hit.
    pub bandwidth: f64,
    /// How far to trust `bandwidth`.
    pub bandwidth_from: BandwidthSource,
}

/// Where a bandwidth is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BandwidthSource {
    /// Stated by the vendor.
    Vendor,
    /// Published measurements of this chip.
    Measured,
    /// Neither: a judgement.
    Estimate,
}

/// Links, in bytes per second in one direction; 0 where there is none.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// To the host.
    pub pcie: f64,
    /// To other GPUs, all links together.
    pub nvlink: f64,
}

impl Gpu {
    /// What the types do not say.
    pub(crate) fn check(&self, file: &str) -> Result<(), String> {
        let ensure = |holds: bool, reason: String| if holds { Ok(()) } else { Err(reason) };
        ensure(self.name == file, format!("`name` is `{}`, which is not the file's", self.name))?;
        let known = registry::knows_architecture(&self.architecture.to_string());
        ensure(known, format!("`architecture` is `{}`, which has no description", self.architecture))?;
        let whole = [
            ("sms", u64::from(self.sms)),
            ("boost_clock_mhz", u64::from(self.boost_clock_mhz)),
            ("tensor_clock_mhz", u64::from(self.tensor_clock_mhz.unwrap_or(1))),
            ("memory.bytes", self.memory.bytes),
            ("l2.bytes", self.l2.bytes),
        ];
        for (field, value) in whole {
            ensure(value > 0, format!("`{field}` is 0"))?;
        }
        for (field, value) in [("memory.bandwidth", self.memory.bandwidth), ("l2.bandwidth", self.l2.bandwidth)] {
            ensure(value.is_finite() && value > 0.0, format!("`{field}` is {value}"))?;
        }
        for (field, value) in [("links.pcie", self.links.pcie), ("links.nvlink", self.links.nvlink)] {
            ensure(value.is_finite() && value >= 0.0, format!("`{field}` is {value}"))?;
        }
        self.tensor_rates.check()
    }
}
