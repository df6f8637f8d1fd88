//! What a node costs on a target, in picoseconds.
//!
//! A launch, the bytes that move through device memory, and operations by the rate of the unit. Scalar functions and views join the
//! kernels beside them, so that they cost a small part of a launch and of the traffic.

use tenon_graph_dialect::operators::{Elementwise, Function};
use tenon_graph_dialect::{Operator, TensorType};
use tenon_target::{Target, Unit};

/// Rates of a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    /// Picoseconds of a launch.
    pub launch: f64,
    /// Picoseconds of a byte of device memory.
    pub byte: f64,
    /// Picoseconds of a multiplication with addition.
    pub multiply_add: f64,
}

impl CostModel {
    /// The model of a target: f32 units, the bandwidth of its memory.
    pub fn of(target: &Target) -> Self {
        let peak = target.peak(Unit::F32).ok().filter(|peak| *peak > 0.0).unwrap_or(1e13);
        CostModel { launch: 2.5e6, byte: 1e12 / target.gpu.memory.bandwidth, multiply_add: 2e12 / peak }
    }

    /// Cost of an operator.
    pub(crate) fn cost(&self, operator: &Operator, operands: &[TensorType], result: &TensorType) -> u64 {
        let count = |ty: &TensorType| ty.element_capacity().unwrap_or(1) as f64;
        let bytes = |ty: &TensorType| count(ty) * ty.dtype.size() as f64;
        let moved: f64 = operands.iter().map(bytes).sum::<f64>() + bytes(result);
        let (launches, share, work) = match operator {
            Operator::Reshape(_) | Operator::Constant(_) | Operator::SetDimensionSize(_) => (0.01, 0.0, 0.0),
            Operator::Slice(_) => (0.2, 0.0, 0.0),
            // A logarithm, a product and an exponential, with more than the type's precision in between.
            Operator::Elementwise(Elementwise { function: Function::Power }) => (0.4, 0.1, 0.0),
            Operator::Elementwise(_) | Operator::Cast(_) | Operator::Bitcast(_) | Operator::Broadcast(_) => {
                (0.1, 0.1, 0.0)
            }
            Operator::Transpose(_) => (0.4, 0.5, 0.0),
            Operator::Contract(contract) => {
                let summed: f64 = contract
                    .summed()
                    .iter()
                    .filter_map(|label| operands.first()?.dims.get(contract.lhs.find(*label)?)?.capacity)
                    .map(|size| size as f64)
                    .product();
                (1.0, 1.0, count(result) * summed)
            }
            Operator::Convolution(_) => {
                let weight = operands.get(1).and_then(|weight| weight.capacities()).unwrap_or_default();
                (1.0, 1.0, count(result) * weight.iter().skip(1).map(|size| *size as f64).product::<f64>())
            }
            _ => (1.0, 1.0, 0.0),
        };
        let time = launches * self.launch + (share * moved * self.byte).max(work * self.multiply_add);
        time as u64 + 1
    }
}
