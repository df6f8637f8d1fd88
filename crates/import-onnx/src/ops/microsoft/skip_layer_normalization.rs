//! SkipLayerNormalization, SkipSimplifiedLayerNormalization: a residual sum and its normalisation.

use tenon_graph_dialect::operators::{Normalize, NormalizeKind};

use super::wide_sum;
use crate::import::node::{OpImport, Outputs};

/// (input + skip + bias) normalised over the last dimension, and that sum. The sum is taken and normalised in f32; each output rounds it once.
pub(in crate::ops) fn skip_layer_normalization(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let simplified = op.node.op_type() == "SkipSimplifiedLayerNormalization";
    op.takes(3..=if simplified { 4 } else { 5 })?;
    let epsilon = f64::from(op.node.float_or("epsilon", 1e-12)?);
    if op.wants(1) || op.wants(2) {
        return Err(op.unsupported("the statistics, which are for training,"));
    }
    let (x, skip, gamma) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let dtype = op.dtype(x);
    let (beta, bias) = if simplified { (None, op.optional(3)?) } else { (op.optional(3)?, op.optional(4)?) };
    let rank = op.rank_at_least(x, 2)?;
    for list in [Some(gamma), beta, bias].into_iter().flatten() {
        if op.rank(list) != 1 || op.dim(list, 0).differs(op.dim(x, rank - 1)) {
            return Err(op.invalid(format!(
                "{} must be a list as long as the last dimension of {}",
                op.ty(list),
                op.ty(x)
            )));
        }
    }
    let terms: Vec<_> = [x, skip].into_iter().chain(bias).collect();
    let sum = wide_sum(op, &terms)?;
    if op.extents(sum) != op.extents(x) {
        return Err(op.invalid(format!("{} does not broadcast to {}", op.ty(skip), op.ty(x))));
    }
    let mut operands = vec![sum];
    for list in [Some(gamma), beta].into_iter().flatten() {
        operands.push(op.cast(list, op.dtype(sum))?);
    }
    let kind = if simplified { NormalizeKind::Rms } else { NormalizeKind::Layer };
    let result = op.emit(Normalize { kind, axes: vec![-1], epsilon }, &operands)?;
    let (result, sum) = (op.cast(result, dtype)?, op.cast(sum, dtype)?);
    Ok(vec![result, result, result, sum])
}
