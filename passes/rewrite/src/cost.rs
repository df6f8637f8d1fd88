//! What a node costs on a target, in picoseconds; `kernel_cost` says it of a kernel.
//!
//! A launch, the bytes that move through device memory, and operations by the rate of the unit. Scalar functions and views join the
//! kernels beside them, so that they cost a small part of a launch and of the traffic.

use tenon_graph_dialect::operators::{Elementwise, Function};
use tenon_graph_dialect::{Operator, TensorType};
use tenon_target::{Target, TensorType as MatrixOperands, Unit};
use tenon_tensor::DType;

/// Rates of a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    /// Picoseconds of a launch.
    pub launch: f64,
    /// Picoseconds of a byte of device memory.
    pub byte: f64,
    /// Picoseconds of a multiplication with addition of f32.
    pub multiply_add: f64,
    /// Picoseconds of one of f16 or bf16, by matrix instructions where the target has them.
    pub half_multiply_add: f64,
    /// Picoseconds of one of bytes, by matrix instructions where the target has them.
    pub byte_multiply_add: f64,
}

impl CostModel {
    /// The model of a target: f32 units, the bandwidth of its memory.
    pub fn of(target: &Target) -> Self {
        let known = |unit: Unit| target.peak(unit).ok().filter(|peak| *peak > 0.0);
        let peak = known(Unit::F32).unwrap_or(1e13);
        let half = known(Unit::Tensor(MatrixOperands::F16)).or_else(|| known(Unit::F16)).unwrap_or(peak);
        let bytes = known(Unit::Tensor(MatrixOperands::I8)).unwrap_or(peak);
        CostModel {
            launch: 2.5e6,
            byte: 1e12 / target.gpu.memory.bandwidth,
            multiply_add: 2e12 / peak,
            half_multiply_add: 2e12 / half,
            byte_multiply_add: 2e12 / bytes,
        }
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
            _ => (1.0, 1.0, self.work(operator, operands, result)),
        };
        let time = launches * self.launch + (share * moved * self.byte).max(work);
        time as u64 + 1
    }

    /// Picoseconds of an operator's multiplications with additions.
    pub(crate) fn work(&self, operator: &Operator, operands: &[TensorType], result: &TensorType) -> f64 {
        let count = |ty: &TensorType| ty.element_capacity().unwrap_or(1) as f64;
        let terms = match operator {
            Operator::Contract(contract) => contract
                .summed()
                .iter()
                .filter_map(|label| operands.first()?.dims.get(contract.lhs.find(*label)?)?.capacity)
                .map(|size| size as f64)
                .product(),
            Operator::Convolution(_) => {
                let weight = operands.get(1).and_then(|weight| weight.capacities()).unwrap_or_default();
                weight.iter().skip(1).map(|size| *size as f64).product()
            }
            // A score for each key by the depth, and a value for each key.
            Operator::Attention(_) => match (operands.first(), operands.get(1)) {
                (Some(q), Some(k)) => {
                    let size = |ty: &TensorType, axis: usize| {
                        ty.dims.get(axis).and_then(|dim| dim.capacity).unwrap_or(1) as f64
                    };
                    size(k, 2) * (1.0 + size(q, 3) / size(result, 3).max(1.0))
                }
                _ => 0.0,
            },
            _ => 0.0,
        };
        let rate = match operands.first().map(|ty| ty.dtype) {
            Some(DType::F16 | DType::BF16) => self.half_multiply_add,
            Some(DType::I8 | DType::U8) => self.byte_multiply_add,
            _ => self.multiply_add,
        };
        count(result) * terms * rate
    }
}
