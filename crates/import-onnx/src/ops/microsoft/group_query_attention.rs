//! GroupQueryAttention: causal attention of several query heads to each head of a cache, which the step is written into.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Attention, Function, Gather, GatherKind, Pad, PadMode};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};
use crate::ops::heads::{and, default_scale, join, places, split};
use crate::ops::rotary_embedding::rotate;
use crate::ops::tensor_scatter::write_steps;

/// Query `[batch, sequence, heads · size]`, or with keys and values behind it where those are left out; cache `[batch, heads of keys, places, size]`;
/// for each batch the number of its last place, and the number of places of the longest.
///
/// Each batch's step is written behind what its cache holds, or at the begin where all there is is this step. Places of the cache that nothing was
/// written to are 0.
pub(in crate::ops) fn group_query_attention(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(7..=11)?;
    let node = op.node;
    let heads = node.required("num_heads", node.int("num_heads")?)?;
    let groups = node.required("kv_num_heads", node.int("kv_num_heads")?)?;
    let scale = node.float_or("scale", 0.0)?;
    let softcap = Some(f64::from(node.float_or("softcap", 0.0)?)).filter(|softcap| *softcap > 0.0);
    let window = node.int_or("local_window_size", -1)?;
    let turns = node.flag_or("do_rotary", false)?;
    let interleaved = node.flag_or("rotary_interleaved", false)?;
    if node.int_or("smooth_softmax", 0)? > 0 {
        return Err(op.unsupported("`smooth_softmax` = 1"));
    }
    if node.int_or("qk_output", 0)? != 0 || op.wants(3) {
        return Err(op.unsupported("the output `output_qk`"));
    }
    if heads < 1 || groups < 1 || heads % groups != 0 {
        return Err(op.invalid(format!("{heads} heads of queries for {groups} of keys")));
    }
    let [mut q, mut k, v] = operands(op, heads, groups)?;
    let (batch, sequence) = (op.dim(q, 0).extent.clone(), op.dim(q, 2).extent.clone());
    let total = op.known_ints(6, "the size of the cache")?;
    let [total] = <[i64; 1]>::try_from(total).map_err(|_| op.invalid("the number of places must be one number"))?;

    if !(0..=1 << 40).contains(&total) {
        return Err(op.invalid(format!("a cache of {total} places")));
    }

    // The place of the step's first element, for each batch.
    let last = op.input(5)?;
    let last = op.cast(last, DType::I64)?;
    let last = op.reshape(last, vec![batch.clone(), 1.into()])?;
    let one = op.scalar(1.0, DType::I64)?;
    let steps = op.importer.builder.symbolic(DType::I64, &[], vec![sequence.clone()]);
    let end = op.apply(Function::Add, &[last, one])?;
    let begin = op.apply(Function::Subtract, &[end, steps])?;
    let zero = op.scalar(0.0, DType::I64)?;
    let first = match sequence.as_constant() {
        Some(sequence) if sequence == total => op.broadcast(zero, vec![batch.clone(), 1.into()])?,
        _ => op.apply(Function::Max, &[begin, zero])?,
    };
    let time = places(op, sequence.clone(), 0)?;
    let time = op.apply(Function::Add, &[first, time])?;

    if turns {
        let positions = match op.optional(9)? {
            Some(positions) => positions,
            None => time,
        };
        let mut angles = [op.input(7)?, op.input(8)?];
        if angles.iter().any(|angle| op.rank(*angle) != 2) {
            return Err(op.invalid("caches of cosines and sines must be matrices"));
        }
        let turned = op.fixed_dim(angles[0], 1, "an embedding")?.saturating_mul(2);
        for angle in &mut angles {
            *angle = op.emit(Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, &[*angle, positions])?;
        }
        q = rotate(op, q, angles, 1, turned, interleaved)?;
        k = rotate(op, k, angles, 1, turned, interleaved)?;
    }
    let keys = cache(op, 3, k, first, total)?;
    let values = cache(op, 4, v, first, total)?;

    let cached = op.dim(keys, 2).extent.clone();
    let place = places(op, cached, 0)?;
    let time = op.reshape(time, vec![batch, 1.into(), sequence, 1.into()])?;
    let mut visible = op.apply(Function::LessEqual, &[place, time])?;
    if window > 0 {
        let reach = op.scalar(window as f64, DType::I64)?;
        let oldest = op.apply(Function::Subtract, &[time, reach])?;
        let near = op.apply(Function::Greater, &[place, oldest])?;
        visible = and(op, Some(visible), near)?;
    }
    let mut mask = visible;
    if let Some(bias) = op.optional(10)? {
        let hidden = op.scalar(f64::NEG_INFINITY, op.dtype(bias))?;
        mask = op.apply(Function::Select, &[visible, bias, hidden])?;
    }
    let scale = if scale == 0.0 { default_scale(op, q)? } else { f64::from(scale) };
    let result = op.emit(Attention { scale, softcap, causal: None, plain_softmax: false }, &[q, keys, values, mask])?;
    Ok(vec![join(op, result)?, keys, values])
}

/// Queries, keys and values by heads, `[batch, heads, sequence, size]`.
fn operands(op: &mut OpImport<'_, '_, '_>, heads: i64, groups: i64) -> Result<[Handle; 3], ImportError> {
    let q = op.input(0)?;
    if op.rank(q) != 3 {
        return Err(op.invalid(format!("the query must be [batch, sequence, size], not {}", op.ty(q))));
    }
    match (op.optional(1)?, op.optional(2)?) {
        (Some(k), Some(v)) => Ok([split(op, q, heads)?, split(op, k, groups)?, split(op, v, groups)?]),
        (None, None) => {
            let count = groups.checked_mul(2).and_then(|groups| groups.checked_add(heads));
            let count = count.ok_or_else(|| op.unsupported("heads this many"))?;
            let all = split(op, q, count)?;
            let mut part = |start: i64, count: i64| op.slice(all, 1, start.into(), count.into());
            Ok([part(0, heads)?, part(heads, groups)?, part(heads + groups, groups)?])
        }
        _ => Err(op.invalid("key and value are given together or not at all")),
    }
}

/// The cache of input `index`, made as long as `total`, with the step written into it from `first` on.
fn cache(
    op: &mut OpImport<'_, '_, '_>,
    index: usize,
    step: Handle,
    first: Handle,
    total: i64,
) -> Result<Handle, ImportError> {
    let mut shape = op.extents(step);
    let zero = op.scalar(0.0, op.dtype(step))?;
    let past = match op.optional(index)? {
        Some(past) if op.dtype(past) != op.dtype(step) => return Err(op.unsupported("a quantised cache")),
        Some(past) => {
            let places = op.fixed_dim(past, 2, "the cache")?;
            let none = vec![DimExpr::constant(0); 4];
            let mut high = none.clone();
            high[2] = DimExpr::constant((total - places).max(0));
            match high[2].as_constant() {
                Some(0) => past,
                _ => op.emit(Pad { mode: PadMode::Constant, low: none, high }, &[past, zero])?,
            }
        }
        None => {
            shape[2] = DimExpr::constant(total.max(0));
            op.broadcast(zero, shape)?
        }
    };
    // What a batch does not hold yet is 0 behind its step, whatever the buffer has there.
    let length = op.dim(past, 2).extent.clone();
    let batch = op.dim(past, 0).extent.clone();
    let place = places(op, length, 1)?;
    let begin = op.reshape(first, vec![batch, 1.into(), 1.into(), 1.into()])?;
    let held = op.apply(Function::Less, &[place, begin])?;
    let past = op.apply(Function::Select, &[held, past, zero])?;
    write_steps(op, past, step, first, 2, false)
}
