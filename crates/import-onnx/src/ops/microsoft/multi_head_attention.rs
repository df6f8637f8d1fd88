//! MultiHeadAttention: attention of queries, keys and values that are projected already, and perhaps lack their bias.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Attention, Causal, Concat, Function};

use super::mask::{Sizes, mask, with_bias};
use super::wide;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};
use crate::ops::heads::{default_scale, join, split};

/// `[batch, sequence, size]` each for queries, keys and values; keys and values may be `[batch, heads, sequence, size of a head]`, without a bias.
pub(in crate::ops) fn multi_head_attention(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=10)?;
    let node = op.node;
    let heads = node.required("num_heads", node.int("num_heads")?)?;
    let causal = node.flag_or("unidirectional", false)?;
    let filter = node.float_or("mask_filter_value", -10000.0)?;
    let scale = node.float_or("scale", 0.0)?;
    let q = op.input(0)?;
    let (Some(k), Some(v)) = (op.optional(1)?, op.optional(2)?) else {
        return Err(op.unsupported("queries packed with keys and values"));
    };
    if op.optional(8)?.is_some() || op.optional(9)?.is_some() {
        return Err(op.unsupported("a past that shares its memory with the present"));
    }
    if op.wants(3) {
        return Err(op.unsupported("the output `qk`"));
    }
    if op.rank(q) != 3 || op.rank(k) == 5 || op.rank(k) != op.rank(v) {
        return Err(op.unsupported(format!("q {}, k {} and v {}", op.ty(q), op.ty(k), op.ty(v))));
    }
    let mut parts = [q, k, v];
    let bias = op.optional(3)?;
    let mut start = DimExpr::constant(0);
    for part in &mut parts {
        if op.rank(*part) == 4 {
            continue;
        }
        if let Some(bias) = bias {
            *part = biased(op, *part, bias, &mut start)?;
        }
        *part = split(op, *part, heads)?;
    }
    let [q, mut k, mut v] = parts;
    match (op.optional(6)?, op.optional(7)?) {
        (None, None) => {}
        (Some(past_k), Some(past_v)) => {
            k = op.emit(Concat { axis: 2 }, &[past_k, k])?;
            v = op.emit(Concat { axis: 2 }, &[past_v, v])?;
        }
        _ => return Err(op.invalid("past_key and past_value are given together or not at all")),
    }
    let sizes = Sizes {
        batch: op.dim(q, 0).extent.clone(),
        queries: op.dim(q, 2).extent.clone(),
        keys: op.dim(k, 2).extent.clone(),
    };
    let scale = if scale == 0.0 { default_scale(op, q)? } else { f64::from(scale) };
    let masked = mask(op, 4, &sizes, filter, causal)?;
    let causal = (causal && masked.is_none()).then_some(Causal::End);
    let masked = with_bias(op, 5, masked)?;
    let operands: Vec<Handle> = [q, k, v].into_iter().chain(masked).collect();
    let result = op.emit(Attention { scale, softcap: None, causal, plain_softmax: false }, &operands)?;
    Ok(vec![join(op, result)?, k, v])
}

/// `[batch, sequence, size]` with the next `size` elements of the bias added, rounded once.
fn biased(op: &mut OpImport<'_, '_, '_>, x: Handle, bias: Handle, start: &mut DimExpr) -> Result<Handle, ImportError> {
    let (dtype, size) = (op.dtype(x), op.dim(x, 2).extent.clone());
    if op.rank(bias) != 1 {
        return Err(op.invalid(format!("the bias {} must be a list", op.ty(bias))));
    }
    let part = op.slice(bias, 0, start.clone(), size.clone())?;
    *start = start.add(&size).ok_or_else(|| op.unsupported("a dimension this large"))?;
    let (x, part) = (op.cast(x, wide(dtype))?, op.cast(part, wide(dtype))?);
    let sum = op.apply(Function::Add, &[x, part])?;
    op.cast(sum, dtype)
}
