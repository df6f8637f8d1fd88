//! Attention: projection of the input to queries, keys and values, a cache of keys and values, and attention.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Attention, Causal, Concat, Contract, Function};

use super::mask::{Sizes, mask, with_bias};
use super::wide;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, accumulator};
use crate::ops::heads::{default_scale, join, split};
use crate::ops::integer_product::{Factor, matrix_product};

/// `[batch, sequence, size]` attends to itself and to the cache `[2, batch, heads, past, size of a head]`, which grows by the sequence.
pub(in crate::ops) fn attention(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=7)?;
    let node = op.node;
    let heads = node.required("num_heads", node.int("num_heads")?)?;
    let causal = node.flag_or("unidirectional", false)?;
    let filter = node.float_or("mask_filter_value", -10000.0)?;
    let scale = node.float_or("scale", 0.0)?;
    node.int_or("rotary_embedding_dim", 0)?;
    if node.flag_or("do_rotary", false)? {
        return Err(op.unsupported("`do_rotary` = 1"));
    }
    if node.flag_or("past_present_share_buffer", false)? || op.optional(6)?.is_some() {
        return Err(op.unsupported("a past that shares its memory with the present"));
    }
    let x = input(op)?;
    let parts = project(op, x, heads)?;
    let settings = Settings { causal, filter, scale, mask: 3, past: 4, bias: Some(5) };
    attend(op, x, parts, &settings)
}

/// QAttention: the same with input and weights of 8 bits, whose product is exact.
pub(in crate::ops) fn quantized_attention(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(5..=9)?;
    let node = op.node;
    let heads = node.required("num_heads", node.int("num_heads")?)?;
    let causal = node.flag_or("unidirectional", false)?;
    let filter = node.float_or("mask_filter_value", -10000.0)?;
    let scale = node.float_or("scale", 0.0)?;
    if node.flag_or("do_rotary", false)? {
        return Err(op.unsupported("`do_rotary` = 1"));
    }
    if node.flag_or("past_present_share_buffer", false)? {
        return Err(op.unsupported("a past that shares its memory with the present"));
    }
    let x = input(op)?;
    let (lhs, rhs) = (Factor::read(op, 0, 6, 1)?, Factor::read(op, 1, 7, 1)?);
    let sums = matrix_product(op, lhs, rhs)?;
    let (x_scale, weight_scale, bias) = (op.input(3)?, op.input(4)?, op.input(2)?);
    let x_scale = op.as_scalar(x_scale)?;
    let scales = op.apply(Function::Multiply, &[x_scale, weight_scale])?;
    let sums = op.cast(sums, op.dtype(scales))?;
    let sums = op.apply(Function::Multiply, &[sums, scales])?;
    let sums = op.apply(Function::Add, &[sums, bias])?;
    let size = op.fixed_dim(sums, 2, "a projection")? / 3;
    let mut part = |index: i64| {
        let part = op.slice(sums, 2, (index * size).into(), size.into())?;
        split(op, part, heads)
    };
    let parts = [part(0)?, part(1)?, part(2)?];
    attend(op, x, parts, &Settings { causal, filter, scale, mask: 5, past: 8, bias: None })
}

/// The input, `[batch, sequence, size]`.
fn input(op: &OpImport<'_, '_, '_>) -> Result<Handle, ImportError> {
    let x = op.input(0)?;
    match op.rank(x) {
        3 => Ok(x),
        _ => Err(op.invalid(format!("the input must be [batch, sequence, size], not {}", op.ty(x)))),
    }
}

/// What attributes say, and which inputs hold the rest.
struct Settings {
    causal: bool,
    filter: f32,
    /// 0: that of the heads' size.
    scale: f32,
    mask: usize,
    past: usize,
    bias: Option<usize>,
}

/// Attention of queries, keys and values `[batch, heads, sequence, size of a head]`.
fn attend(op: &mut OpImport<'_, '_, '_>, x: Handle, [q, k, v]: [Handle; 3], settings: &Settings) -> Outputs {
    let Settings { causal, filter, scale, .. } = *settings;
    let past = op.optional(settings.past)?;
    let (keys, values, present) = cache(op, past, k, v)?;
    let sizes = Sizes {
        batch: op.dim(x, 0).extent.clone(),
        queries: op.dim(x, 1).extent.clone(),
        keys: op.dim(keys, 2).extent.clone(),
    };
    let scale = if scale == 0.0 { default_scale(op, q)? } else { f64::from(scale) };
    let masked = mask(op, settings.mask, &sizes, filter, causal)?;
    let causal = (causal && masked.is_none()).then_some(Causal::End);
    let masked = match settings.bias {
        Some(bias) => with_bias(op, bias, masked)?,
        None => masked,
    };
    let operands: Vec<Handle> = [q, keys, values].into_iter().chain(masked).collect();
    let result = op.emit(Attention { scale, softcap: None, causal, plain_softmax: false }, &operands)?;
    let result = join(op, result)?;
    match present {
        Some(present) => Ok(vec![result, present]),
        None => Ok(vec![result]),
    }
}

/// Queries, keys and values, each `[batch, heads, sequence, size of a head]`: input · weights + bias, rounded once.
fn project(op: &mut OpImport<'_, '_, '_>, x: Handle, heads: i64) -> Result<[Handle; 3], ImportError> {
    let dtype = op.dtype(x);
    let weights = op.input(1)?;
    let bias = op.optional(2)?;
    if op.rank(weights) != 2 || bias.is_some_and(|bias| op.rank(bias) != 1) {
        return Err(op.invalid("the weights must be a matrix, the bias a list"));
    }
    let total = op.fixed_dim(weights, 1, "a projection")?;
    let sizes = match op.node.ints("qkv_hidden_sizes")? {
        None => vec![total / 3; 3],
        Some(sizes) => sizes.to_vec(),
    };
    let fits = sizes.iter().try_fold(0i64, |sum, size| sum.checked_add(*size)) == Some(total)
        && sizes.iter().all(|size| heads > 0 && *size > 0 && size % heads == 0);
    let [q, k, v] = <[i64; 3]>::try_from(sizes).ok().filter(|[q, k, _]| fits && q == k).ok_or_else(|| {
        op.invalid(format!("weights of {total} columns are not those of q, k and v in {heads} heads"))
    })?;
    let contract = Contract {
        lhs: "bti".into(),
        rhs: "io".into(),
        result: "bto".into(),
        accumulate: accumulator(dtype),
        dtype: wide(dtype),
    };
    let mut sums = op.emit(contract, &[x, weights])?;
    if let Some(bias) = bias {
        let bias = op.cast(bias, wide(dtype))?;
        sums = op.apply(Function::Add, &[sums, bias])?;
        if op.dim(sums, 2).known() != Some(total as u64) {
            return Err(op.invalid("the bias is not as long as the weights are wide"));
        }
    }
    let sums = op.cast(sums, dtype)?;
    let mut part = |start: i64, size: i64| {
        let part = op.slice(sums, 2, start.into(), size.into())?;
        split(op, part, heads)
    };
    Ok([part(0, q)?, part(q, k)?, part(q + k, v)?])
}

/// All keys and values, and the present cache where it is wanted or the past is given.
fn cache(
    op: &mut OpImport<'_, '_, '_>,
    past: Option<Handle>,
    k: Handle,
    v: Handle,
) -> Result<(Handle, Handle, Option<Handle>), ImportError> {
    if past.is_none() && !op.wants(1) {
        return Ok((k, v, None));
    }
    let mut shape = op.extents(k);
    if shape != op.extents(v) {
        return Err(op.invalid("a cache needs keys and values of one size"));
    }
    shape.insert(0, 1.into());
    let (key, value) = (op.reshape(k, shape.clone())?, op.reshape(v, shape)?);
    let mut present = op.emit(Concat { axis: 0 }, &[key, value])?;
    let Some(past) = past else { return Ok((k, v, Some(present))) };
    if op.rank(past) != 5 {
        return Err(op.invalid(format!("the past must have five dimensions, not be {}", op.ty(past))));
    }
    present = op.emit(Concat { axis: 3 }, &[past, present])?;
    let mut half = |index: i64| -> Result<Handle, ImportError> {
        let part = op.slice(present, 0, index.into(), 1.into())?;
        let shape: Vec<DimExpr> = op.extents(part).split_off(1);
        op.reshape(part, shape)
    };
    Ok((half(0)?, half(1)?, Some(present)))
}
