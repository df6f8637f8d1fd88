//! Rooflines: the least time that work can take, by the rates of units and the bandwidths of memories.

use std::fmt;

use crate::{Target, TargetError, TensorType};

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// f32 arithmetic.
    F32,
    /// f64 arithmetic.
    F64,
    /// f16 arithmetic, two to an instruction.
    F16,
    /// 32-bit integer arithmetic.
    I32,
    /// Special functions.
    Sfu,
    /// Tensor cores with these operands.
    Tensor(TensorType),
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unit::F32 => f.write_str("f32 units"),
            Unit::F64 => f.write_str("f64 units"),
            Unit::F16 => f.write_str("f16 units"),
            Unit::I32 => f.write_str("integer units"),
            Unit::Sfu => f.write_str("special function units"),
            Unit::Tensor(operands) => write!(f, "{} tensor cores", operands.name()),
        }
    }
}

/// What limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Resource {
    Unit(Unit),
    DeviceMemory,
    L2,
    SharedMemory,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Unit(unit) => unit.fmt(f),
            Resource::DeviceMemory => f.write_str("device memory"),
            Resource::L2 => f.write_str("L2 cache"),
            Resource::SharedMemory => f.write_str("shared memory"),
        }
    }
}

/// Work on a whole GPU.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Operations by unit; a multiply-add counts as two, a special function as one.
    pub flops: Vec<(Unit, f64)>,
    /// Bytes from and to device memory.
    pub device_bytes: f64,
    /// Bytes from and to the L2 cache, those of device memory included.
    pub l2_bytes: f64,
    /// Bytes from and to shared memory.
    pub shared_bytes: f64,
}

/// The least time of some work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LowerBound {
    /// Seconds.
    pub seconds: f64,
    /// What takes that long.
    pub limit: Resource,
}

impl Target {
    /// Operations per second of a unit, a multiply-add counting as two; E0603 where the target has no such tensor cores.
    pub fn peak(&self, unit: Unit) -> Result<f64, TargetError> {
        let rates = &self.architecture.rates;
        let (results, operations) = match unit {
            Unit::F32 => (rates.fma_f32, 2),
            Unit::F64 => (rates.fma_f64, 2),
            Unit::F16 => (rates.fma_f16, 2),
            Unit::I32 => (rates.fma_i32, 2),
            Unit::Sfu => (rates.sfu, 1),
            Unit::Tensor(operands) => {
                let absent =
                    || TargetError::NoTensorCores { operands: operands.name(), target: self.name().to_owned() };
                (self.tensor_rate(operands).ok_or_else(absent)?, 2)
            }
        };
        let clock = match unit {
            Unit::Tensor(_) => self.gpu.tensor_clock_mhz.unwrap_or(self.gpu.boost_clock_mhz),
            _ => self.gpu.boost_clock_mhz,
        };
        Ok(self.per_second(results * operations, clock))
    }

    /// Bytes per second of the shared memory of all SMs.
    pub fn shared_memory_bandwidth(&self) -> f64 {
        self.per_second(self.architecture.rates.shared_memory_bytes, self.gpu.boost_clock_mhz)
    }

    fn per_second(&self, per_clock_per_sm: u32, clock_mhz: u32) -> f64 {
        f64::from(per_clock_per_sm) * f64::from(self.gpu.sms) * f64::from(clock_mhz) * 1e6
    }

    /// The least time of `work` when everything overlaps: the longest of what each unit and each memory takes. Launches come on top.
    pub fn time_lower_bound(&self, work: &Work) -> Result<LowerBound, TargetError> {
        let memories = [
            (Resource::DeviceMemory, work.device_bytes, self.gpu.memory.bandwidth),
            (Resource::L2, work.l2_bytes, self.gpu.l2.bandwidth),
            (Resource::SharedMemory, work.shared_bytes, self.shared_memory_bandwidth()),
        ];
        let mut bound = LowerBound { seconds: 0.0, limit: Resource::DeviceMemory };
        let mut take = |limit, seconds: f64| {
            if seconds > bound.seconds {
                bound = LowerBound { seconds, limit };
            }
        };
        for (limit, bytes, bandwidth) in memories {
            take(limit, bytes / bandwidth);
        }
        for &(unit, flops) in &work.flops {
            take(Resource::Unit(unit), flops / self.peak(unit)?);
        }
        Ok(bound)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Peaks in TFLOPS or TOPS that the data sheets state, to three digits.
    #[test]
    fn peaks_are_those_of_the_data_sheets() {
        use TensorType::*;
        let cases = [
            ("v100", Unit::F32, 15.7),
            ("v100", Unit::F64, 7.8),
            ("v100", Unit::Tensor(F16), 125.0),
            ("t4", Unit::F32, 8.1),
            ("t4", Unit::Tensor(F16), 65.0),
            ("t4", Unit::Tensor(I8), 130.0),
            ("t4", Unit::Tensor(I4), 260.0),
            ("a100-sxm4-80gb", Unit::F32, 19.5),
            ("a100-sxm4-80gb", Unit::F64, 9.7),
            ("a100-sxm4-80gb", Unit::F16, 78.0),
            ("a100-sxm4-80gb", Unit::Tensor(F16), 312.0),
            ("a100-sxm4-80gb", Unit::Tensor(BF16), 312.0),
            ("a100-sxm4-80gb", Unit::Tensor(Tf32), 156.0),
            ("a100-sxm4-80gb", Unit::Tensor(F64), 19.5),
            ("a100-sxm4-40gb", Unit::Tensor(I8), 624.0),
            ("a100-sxm4-40gb", Unit::Tensor(I4), 1248.0),
            ("l40s", Unit::F32, 91.6),
            ("l40s", Unit::Tensor(F16), 362.0),
            ("l40s", Unit::Tensor(Tf32), 183.0),
            ("l40s", Unit::Tensor(F8), 733.0),
            ("h100-sxm5", Unit::F32, 67.0),
            ("h100-sxm5", Unit::F64, 33.5),
            ("h100-sxm5", Unit::Tensor(F16), 989.0),
            ("rtx-3090", Unit::F32, 35.6),
            ("rtx-3090", Unit::Tensor(F16), 71.0),
            ("rtx-3090", Unit::Tensor(I8), 284.0),
            ("h100-sxm5", Unit::Tensor(F8), 1979.0),
            ("h100-pcie", Unit::F32, 51.2),
            ("h100-pcie", Unit::Tensor(F16), 756.0),
            ("h200", Unit::Tensor(Tf32), 494.7),
            ("b200", Unit::F32, 75.0),
            ("b200", Unit::F64, 37.0),
            ("b200", Unit::F16, 150.0),
            ("b200", Unit::Tensor(F16), 2250.0),
            ("b200", Unit::Tensor(F4), 9000.0),
            ("rtx-5090", Unit::F32, 104.8),
            ("rtx-5090", Unit::Tensor(F16), 209.5),
            ("rtx-5090", Unit::Tensor(F8), 419.0),
            ("rtx-5090", Unit::Tensor(I8), 838.0),
            ("rtx-5090", Unit::Tensor(F4), 1676.0),
        ];
        for (name, unit, stated) in cases {
            let peak = Target::find(name).unwrap().peak(unit).unwrap() / 1e12;
            assert!((peak / stated - 1.0).abs() < 0.015, "{name}, {unit}: {peak} is not {stated}");
        }
    }

    #[test]
    fn the_longest_resource_is_the_bound() {
        let a100 = Target::default_target();
        let mut work = Work { device_bytes: 2039e9, l2_bytes: 2039e9, ..Work::default() };
        let bound = a100.time_lower_bound(&work).unwrap();
        assert_eq!((bound.seconds, bound.limit), (1.0, Resource::DeviceMemory));
        // 1024 multiply-accumulates × 108 SMs × 1.41 GHz × 2, twice.
        work.flops = vec![(Unit::F32, 1e12), (Unit::Tensor(TensorType::F16), 2.0 * 311.869_44e12)];
        let bound = a100.time_lower_bound(&work).unwrap();
        assert_eq!(bound.limit, Resource::Unit(Unit::Tensor(TensorType::F16)));
        assert!((bound.seconds - 2.0).abs() < 1e-12);
        // 128 bytes × 108 SMs × 1.41 GHz are 19.49 TB/s.
        work = Work { shared_bytes: 19.4918e12 * 3.0, ..Work::default() };
        let bound = a100.time_lower_bound(&work).unwrap();
        assert!(bound.limit == Resource::SharedMemory && (bound.seconds - 3.0).abs() < 1e-4);
        assert_eq!(a100.time_lower_bound(&Work::default()).unwrap().seconds, 0.0);
    }

    #[test]
    fn absent_tensor_cores_are_refused() {
        let work = Work { flops: vec![(Unit::Tensor(TensorType::BF16), 1.0)], ..Work::default() };
        let error = Target::find("v100").unwrap().time_lower_bound(&work).unwrap_err();
        assert_eq!(error.code(), "E0603");
        assert!(error.to_string().contains("v100") && error.to_string().contains("bf16"), "{error}");
    }
}
