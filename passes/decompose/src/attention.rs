//! `graph.attention` as two contractions with a softmax between them.
//!
//! Scores and weights are in the type that attention computes in, f32 for f16 and bf16. Where a key serves a group of query heads, heads are two
//! dimensions `[G, R]`, and the mask is reshaped to them rather than the scores, so that what follows a contraction keeps its shape.

use tenon_graph_dialect::operators::{Attention, Causal, Contract, Function, Reduce, ReduceKind, Softmax};
use tenon_graph_dialect::{Dim, ErrorKind, OperatorKind, SemanticError};
use tenon_ir::Value;
use tenon_tensor::DType;

use crate::emit::Emit;

/// The sizes of heads that queries and keys have: one dimension, or a group for each key head.
enum Heads {
    Alike,
    Grouped { groups: Dim, each: Dim },
}

pub(crate) fn decompose<'m>(
    op: &Attention,
    emit: Emit<'m>,
    operands: &[Value<'m>],
) -> Result<Vec<Value<'m>>, SemanticError> {
    let [q, k, v] = [0, 1, 2].map(|index| operands[index]);
    let (query, key) = (emit.ty(q)?, emit.ty(k)?);
    let result = op.infer(&operands.iter().map(|value| emit.ty(*value)).collect::<Result<Vec<_>, _>>()?)?;
    let compute = Attention::compute_type(query.dtype);
    let heads = heads(&query.dims[1], &key.dims[1])?;
    let labels = |labels: &str| match heads {
        Heads::Alike => labels.replace('g', "h").replace('r', ""),
        Heads::Grouped { .. } => labels.to_owned(),
    };
    let contract = |lhs: &str, rhs: &str, result: &str| Contract {
        lhs: labels(lhs),
        rhs: labels(rhs),
        result: labels(result),
        accumulate: compute,
        dtype: compute,
    };
    let q = match &heads {
        Heads::Alike => q,
        Heads::Grouped { groups, each } => emit.reshape(q, &split(&query.dims, 1, groups, each))?,
    };
    let mut scores = emit.op(contract("bgrtd", "bgsd", "bgrts"), &[q, k])?;
    scores = emit.apply(Function::Multiply, &[scores, emit.scalar(op.scale, compute)?])?;
    if let Some(cap) = op.softcap {
        let cap = emit.scalar(cap, compute)?;
        let ratio = emit.apply(Function::Divide, &[scores, cap])?;
        scores = emit.apply(Function::Multiply, &[emit.apply(Function::Tanh, &[ratio])?, cap])?;
    }
    let mask = Mask::of(op, emit, operands, &heads)?;
    if let Some(added) = mask.added {
        scores = emit.apply(Function::Add, &[scores, emit.cast(added, compute)?])?;
    }
    if let Some(visible) = mask.visible {
        scores = emit.apply(Function::Select, &[visible, scores, emit.scalar(f64::NEG_INFINITY, compute)?])?;
    }
    let mut weights = emit.op(Softmax { axis: -1, log: false }, &[scores])?;
    if let Some(visible) = mask.visible.filter(|_| mask.may_hide_all && !op.plain_softmax) {
        let any = Reduce { kind: ReduceKind::Any, axes: vec![-1], keep_dims: true };
        let sees = emit.op(any, &[visible])?;
        weights = emit.apply(Function::Select, &[sees, weights, emit.scalar(0.0, compute)?])?;
    }
    let v = emit.cast(v, compute)?;
    let sums = emit.op(contract("bgrts", "bgse", "bgrte"), &[weights, v])?;
    let sums = emit.cast(sums, query.dtype)?;
    Ok(vec![emit.reshape(sums, &result[0].dims)?])
}

fn heads(queries: &Dim, keys: &Dim) -> Result<Heads, SemanticError> {
    match (queries.known(), keys.known()) {
        (Some(heads), Some(groups)) if heads != groups => {
            let each = heads.checked_div(groups).filter(|each| each * groups == heads);
            let refuse = || SemanticError::new(ErrorKind::Shape, Attention::NAME, "heads are no multiple of groups");
            Ok(Heads::Grouped { groups: keys.clone(), each: Dim::fixed(each.ok_or_else(refuse)?) })
        }
        _ => Ok(Heads::Alike),
    }
}

/// `dims` with the dimension `axis` as two.
fn split(dims: &[Dim], axis: usize, groups: &Dim, each: &Dim) -> Vec<Dim> {
    let mut split = dims.to_vec();
    split[axis] = groups.clone();
    split.insert(axis + 1, each.clone());
    split
}

/// What is done to scores.
struct Mask<'m> {
    /// Numbers to add.
    added: Option<Value<'m>>,
    /// Which keys are not hidden.
    visible: Option<Value<'m>>,
    /// Whether there may be a query from which all keys are hidden.
    may_hide_all: bool,
}

impl<'m> Mask<'m> {
    fn of(op: &Attention, emit: Emit<'m>, operands: &[Value<'m>], heads: &Heads) -> Result<Self, SemanticError> {
        let mut mask = Mask { added: None, visible: None, may_hide_all: false };
        if let Some(given) = operands.get(3) {
            let given = with_heads(emit, *given, heads)?;
            mask.may_hide_all = true;
            let dtype = emit.ty(given)?.dtype;
            mask.added = Some(given).filter(|_| dtype != DType::Bool);
            mask.visible = match dtype {
                DType::Bool => Some(given),
                _ if op.plain_softmax => None,
                _ => Some(emit.apply(Function::NotEqual, &[given, emit.scalar(f64::NEG_INFINITY, dtype)?])?),
            };
        }
        if let Some(causal) = op.causal {
            let (q, k) = (operands[0], operands[1]);
            let (queries, keys) = (emit.ty(q)?.dims[2].clone(), emit.ty(k)?.dims[2].clone());
            let mut last = emit.index(vec![queries.clone(), Dim::fixed(1)], 0)?;
            if causal == Causal::End && queries.extent != keys.extent {
                let offset = match (keys.known(), queries.known()) {
                    (Some(keys), Some(queries)) => emit.scalar(keys as f64 - queries as f64, DType::I32)?,
                    _ => emit.apply(Function::Subtract, &[emit.extent(k, 2)?, emit.extent(q, 2)?])?,
                };
                last = emit.apply(Function::Add, &[last, offset])?;
                mask.may_hide_all |= queries.known().zip(keys.known()).is_none_or(|(queries, keys)| queries > keys);
            }
            let place = emit.index(vec![keys.clone()], 0)?;
            let reached = emit.apply(Function::LessEqual, &[place, last])?;
            mask.visible = Some(match mask.visible {
                Some(visible) => emit.apply(Function::And, &[visible, reached])?,
                None => reached,
            });
        }
        Ok(mask)
    }
}

/// A mask that broadcasts to the scores, whose heads may be two dimensions; of one dimension at least.
fn with_heads<'m>(emit: Emit<'m>, mask: Value<'m>, heads: &Heads) -> Result<Value<'m>, SemanticError> {
    let dims = emit.ty(mask)?.dims;
    match heads {
        _ if dims.is_empty() => emit.reshape(mask, &[Dim::fixed(1)]),
        Heads::Grouped { groups, each } if dims.len() >= 3 => {
            let axis = dims.len() - 3;
            let one = Dim::fixed(1);
            let (groups, each) = if dims[axis].is_one() { (&one, &one) } else { (groups, each) };
            emit.reshape(mask, &split(&dims, axis, groups, each))
        }
        _ => Ok(mask),
    }
}
