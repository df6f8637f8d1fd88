//! Scaled dot-product attention.

use tenon_graph_builder::{Handle, product};
use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Attention, Causal, Function};
use tenon_tensor::DType;

use crate::error::OpError;
use crate::import::op::{OpImport, Results, one};

/// Operands `[…, heads, length, size]` with four dimensions: the first ones merged, or ones of 1 added.
fn four(op: &mut OpImport<'_, '_, '_>, x: Handle) -> Result<Handle, OpError> {
    let shape = op.extents(x);
    let rank = shape.len();
    let new: Vec<DimExpr> = match rank {
        0 | 1 => return Err(op.invalid(format!("{} has not two dimensions", op.ty(x)))),
        2..=4 => std::iter::repeat_n(DimExpr::constant(1), 4 - rank).chain(shape).collect(),
        _ => {
            let first = product(&shape[..rank - 3]).ok_or_else(|| op.unsupported("sizes this large"))?;
            [first].into_iter().chain(shape[rank - 3..].iter().cloned()).collect()
        }
    };
    Ok(op.reshape(x, new)?)
}

/// `scaled_dot_product_attention` with all its arguments, and the operators of one backend that it decomposes to.
pub(super) fn attention(op: &mut OpImport<'_, '_, '_>) -> Results {
    let [q, k, v] = [op.tensor("query")?, op.tensor("key")?, op.tensor("value")?];
    if op.float("dropout_p")? != 0.0 {
        return Err(op.unsupported("dropout within attention"));
    }
    let shape = op.extents(q);
    let rank = shape.len();
    let dtype = op.element(q);
    let [k_heads, v_heads] = [k, v].map(|x| op.extents(x).iter().rev().nth(2).cloned());
    let value_size = op.extents(v).last().cloned().unwrap_or(1.into());
    let operands = [four(op, q)?, four(op, k)?, four(op, v)?];
    if k_heads != v_heads {
        return Err(op.unsupported("keys and values of several numbers of heads"));
    }
    let scale = match op.is_none("scale") {
        false => op.float("scale")?,
        true => 1.0 / (op.fixed(q, rank.max(1) - 1, "the scale of attention")? as f64).sqrt(),
    };
    let mask_name = if op.has("attn_mask") { "attn_mask" } else { "attn_bias" };
    let mask = if op.has(mask_name) { op.optional_tensor(mask_name)? } else { None };
    let is_causal = op.flag("is_causal")?;
    let mut all = operands.to_vec();
    if let Some(mut mask) = mask {
        let mut sizes = op.extents(mask);
        if rank > 4 && sizes.len() > 3 {
            // Dimensions that were merged are written out.
            let full: Vec<DimExpr> =
                shape[..rank - 3].iter().cloned().chain(sizes[sizes.len() - 3..].iter().cloned()).collect();
            mask = op.broadcast(mask, full)?;
            mask = four(op, mask)?;
            sizes = op.extents(mask);
        }
        if sizes.len() > 4 {
            return Err(op.invalid(format!("the mask {} has more dimensions than the operands", op.ty(mask))));
        }
        let own = op.element(mask);
        if own != DType::Bool && own != dtype {
            mask = op.cast(mask, Attention::compute_type(dtype))?;
        }
        all.push(mask);
    }
    if is_causal && all.len() > 3 {
        return Err(op.invalid("a mask and `is_causal` exclude each other"));
    }
    let attention =
        Attention { scale, softcap: None, causal: is_causal.then_some(Causal::Start), plain_softmax: false };
    let result = op.emit_one(attention, &all)?;
    let mut target = shape;
    if let Some(last) = target.last_mut() {
        *last = value_size;
    }
    one(op.reshape(result, target)?)
}

/// `_safe_softmax`: rows of nothing but -inf become 0.
pub(super) fn softmax_scores(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let axis = op.axis_argument("dim", op.rank(x))?;
    let x = match op.dtype("dtype")? {
        Some(dtype) => op.cast(x, dtype)?,
        None => x,
    };
    let softmax = op.emit_one(tenon_graph_dialect::operators::Softmax { axis: axis as i64, log: false }, &[x])?;
    let dtype = op.element(x);
    let (hidden, zero) = (op.scalar(f64::NEG_INFINITY, dtype)?, op.scalar(0.0, dtype)?);
    let there = op.apply(Function::NotEqual, &[x, hidden])?;
    let any = op.reduce(tenon_graph_dialect::operators::ReduceKind::Any, there, &[axis], true)?;
    one(op.apply(Function::Select, &[any, softmax, zero])?)
}
