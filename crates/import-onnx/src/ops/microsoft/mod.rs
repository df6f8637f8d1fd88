//! Operators of ONNX Runtime's own, domain `com.microsoft`, version 1.
//!
//! Source: ONNX Runtime 1.32, `docs/ContribOperators.md`; where that is silent, what its CPU kernels do.

pub(super) mod attention;
pub(super) mod embed_layer_normalization;
pub(super) mod fused_matmul;
pub(super) mod gelu;
pub(super) mod group_query_attention;
mod mask;
pub(super) mod multi_head_attention;
pub(super) mod qlinear;
pub(super) mod quantized;
pub(super) mod rotary_embedding;
pub(super) mod skip_layer_normalization;

use tenon_graph_dialect::operators::Function;
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::OpImport;

/// The type that fused operators compute in before they round once.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// The sum of values, in this order, in the type that fused operators compute in.
fn wide_sum(op: &mut OpImport<'_, '_, '_>, values: &[Handle]) -> Result<Handle, ImportError> {
    let mut sum = None;
    for value in values {
        let value = op.cast(*value, wide(op.dtype(*value)))?;
        sum = Some(match sum {
            Some(sum) => op.apply(Function::Add, &[sum, value])?,
            None => value,
        });
    }
    sum.ok_or_else(|| op.invalid("nothing is added"))
}
