//! EmbedLayerNormalization: embeddings of words, positions and segments, summed and normalised.

use tenon_graph_dialect::operators::{
    Function, Gather, GatherKind, Iota, Normalize, NormalizeKind, Reduce, ReduceKind,
};
use tenon_tensor::DType;

use super::wide_sum;
use crate::import::node::{OpImport, Outputs};

/// The normalised sum of embeddings, the number of words of each batch by a mask (0 without one), and the sum itself.
pub(in crate::ops) fn embed_layer_normalization(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(7..=9)?;
    let epsilon = f64::from(op.node.float_or("epsilon", 1e-12)?);
    op.node.flag_or("mask_index_type", false)?;
    let words = op.input(0)?;
    let shape = op.extents(words);
    if shape.len() != 2 {
        return Err(op.invalid(format!("the words must be [batch, sequence], not {}", op.ty(words))));
    }
    let places = match op.optional(8)? {
        Some(places) => places,
        None => op.emit(Iota { dtype: DType::I32, shape: vec![1.into(), shape[1].clone()], axis: 1 }, &[])?,
    };
    let mut pairs = vec![(words, op.input(2)?), (places, op.input(3)?)];
    match (op.optional(1)?, op.optional(4)?) {
        (Some(segments), Some(table)) => pairs.push((segments, table)),
        (None, None) => {}
        _ => return Err(op.invalid("segments and their embeddings are given together or not at all")),
    }
    let mut terms = Vec::new();
    for (indices, table) in pairs {
        if op.rank(indices) != 2 || op.rank(table) != 2 || !op.dtype(indices).is_integer() {
            return Err(op.invalid("indices must be [batch, sequence], tables [rows, size]"));
        }
        op.check_indices(indices, table, 0..1, false)?;
        terms.push(op.emit(Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, &[table, indices])?);
    }
    let dtype = op.dtype(terms[0]);
    let sum = wide_sum(op, &terms)?;
    let (gamma, beta) = (op.input(5)?, op.input(6)?);
    let gamma = op.cast(gamma, op.dtype(sum))?;
    let beta = op.cast(beta, op.dtype(sum))?;
    let normal = Normalize { kind: NormalizeKind::Layer, axes: vec![-1], epsilon };
    let result = op.emit(normal, &[sum, gamma, beta])?;
    let result = op.cast(result, dtype)?;
    let count = match op.optional(7)? {
        Some(mask) => {
            let one = op.scalar(1.0, op.dtype(mask))?;
            let counted = op.apply(Function::Equal, &[mask, one])?;
            let counted = op.cast(counted, DType::I32)?;
            op.emit(Reduce { kind: ReduceKind::Sum, axes: vec![-1], keep_dims: false }, &[counted])?
        }
        None => {
            let zero = op.scalar(0.0, DType::I32)?;
            op.broadcast(zero, vec![shape[0].clone()])?
        }
    };
    Ok(vec![result, count, op.cast(sum, dtype)?])
}
