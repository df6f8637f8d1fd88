//! Attention, as `graph.attention` where that says all; in steps where a step is wanted as an output or has a precision of its own.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{
    Attention, Causal, Concat, Contract, Function, Pad, PadMode, Reduce, ReduceKind, Softmax,
};
use tenon_tensor::DType;

use super::cast::type_attribute;
use super::heads::{and, default_scale, extent, join, places, split};
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// What the attributes say.
struct Options {
    scale: f64,
    softcap: Option<f64>,
    causal: bool,
    /// Keys that are seen before and after a query's own; no limit where negative.
    window: [i64; 2],
    /// The type that softmax rounds to.
    precision: Option<DType>,
    /// Which step the fourth output is.
    step: i64,
}

/// Attention of 3-D or 4-D operands, with a cache of keys and values inside (`past_key`) or outside (`nonpad_kv_seqlen`).
pub(super) fn attention(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=if op.since < 24 { 6 } else { 7 })?;
    let operands = [op.input(0)?, op.input(1)?, op.input(2)?];
    let dtype = op.dtype(operands[0]);
    let rank = op.rank(operands[0]);
    if operands.iter().any(|operand| op.rank(*operand) != rank) || !matches!(rank, 3 | 4) {
        return Err(op.invalid("Q, K and V must all have three dimensions, or all four"));
    }
    if operands.iter().any(|operand| op.dtype(*operand) != dtype) {
        return Err(op.unsupported("Q, K and V of several element types"));
    }
    let counts = [op.node.int("q_num_heads")?, op.node.int("kv_num_heads")?];
    let [q, k, v] = match (rank, counts) {
        (3, [Some(queries), Some(keys)]) => {
            let [q, k, v] = operands;
            [split(op, q, queries)?, split(op, k, keys)?, split(op, v, keys)?]
        }
        (3, _) => return Err(op.invalid("three-dimensional operands need q_num_heads and kv_num_heads")),
        _ => operands,
    };
    let options = options(op, q)?;
    let mut outputs = [k, v];
    let past = match (op.optional(4)?, op.optional(5)?) {
        (None, None) => None,
        (Some(key), Some(value)) => {
            for (present, past) in outputs.iter_mut().zip([key, value]) {
                *present = op.emit(Concat { axis: 2 }, &[past, *present])?;
            }
            Some(op.dim(key, 2).extent.clone())
        }
        _ => return Err(op.invalid("past_key and past_value are given together or not at all")),
    };
    let filled = op.optional(6)?;
    if past.is_some() && filled.is_some() {
        return Err(op.invalid("nonpad_kv_seqlen is for a cache outside the operator, past_key for one inside"));
    }
    let [keys, values] = outputs;
    // Softmax in f32 (f64) is what `graph.attention` does; f16 and bf16 in their own type are rounded less often there.
    let compute = Attention::compute_type(dtype);
    let in_steps = op.wants(3) || options.precision.is_some_and(|precision| precision != compute && precision != dtype);
    let mask = mask(op, &options, [q, k, keys], past, filled, in_steps)?;
    let weights = match in_steps {
        true => Some(steps(op, &options, [q, keys], &mask)?),
        false => None,
    };
    let y = match &weights {
        Some(steps) if options.precision.is_some_and(|precision| precision != compute && precision != dtype) => {
            weigh(op, steps.weights, [q, values])?
        }
        _ => {
            let Options { scale, softcap, .. } = options;
            let attention = Attention { scale, softcap, causal: mask.causal, plain_softmax: false };
            let operands: Vec<Handle> = [q, keys, values].into_iter().chain(mask.operand).collect();
            op.emit(attention, &operands)?
        }
    };
    let y = if rank == 3 { join(op, y)? } else { y };
    let mut results = vec![y, keys, values];
    if let Some(steps) = weights {
        let step = [steps.raw, steps.capped, steps.masked, steps.weights][options.step as usize];
        results.push(op.cast(step, dtype)?);
    }
    Ok(results)
}

fn options(op: &OpImport<'_, '_, '_>, q: Handle) -> Result<Options, ImportError> {
    let node = op.node;
    let scale = match node.float("scale")? {
        Some(scale) => f64::from(scale),
        None => default_scale(op, q)?,
    };
    let softcap = Some(f64::from(node.float_or("softcap", 0.0)?)).filter(|softcap| *softcap > 0.0);
    let causal = node.flag_or("is_causal", false)?;
    let precision = type_attribute(op, "softmax_precision")?;
    if let Some(dtype) = precision.filter(|dtype| !dtype.is_float() || dtype.bits() < 16) {
        return Err(node.attribute_error("softmax_precision", "f16, bf16, f32 or f64", format!("is {dtype}")));
    }
    let step = node.int_or("qk_matmul_output_mode", 0)?;
    if !(0..4).contains(&step) {
        return Err(node.attribute_error("qk_matmul_output_mode", "0 to 3", format!("is {step}")));
    }
    let mut window = [-1; 2];
    if op.since >= 25 {
        for (name, slot) in ["left_window_size", "right_window_size"].into_iter().zip(&mut window) {
            *slot = node.int_or(name, -1)?;
            if *slot < -1 {
                return Err(node.attribute_error(name, "-1 or a number of keys", format!("is {slot}")));
            }
        }
    }
    Ok(Options { scale, softcap, causal, window, precision, step })
}

/// What hides keys.
struct Mask {
    /// What `graph.attention` does by itself.
    causal: Option<Causal>,
    /// Its fourth operand.
    operand: Option<Handle>,
}

/// The mask that follows from the attributes, the given mask and the number of keys that a cache holds. `explicit`: all of it as an operand.
fn mask(
    op: &mut OpImport<'_, '_, '_>,
    options: &Options,
    [q, new, keys]: [Handle; 3],
    past: Option<DimExpr>,
    filled: Option<Handle>,
    explicit: bool,
) -> Result<Mask, ImportError> {
    let [queries, new, total] = [q, new, keys].map(|operand| op.dim(operand, 2).extent.clone());
    let causal = match (options.causal && !explicit && filled.is_none(), &past) {
        (true, None) => Some(Causal::Start),
        (true, Some(_)) if new == queries => Some(Causal::End),
        _ => None,
    };
    let place = places(op, total.clone(), 0)?;
    let mut visible = None;
    let filled = match filled {
        None => None,
        Some(filled) => {
            let batch = op.extents(filled);
            if batch.len() != 1 || op.dtype(filled) != DType::I64 {
                return Err(op.invalid("nonpad_kv_seqlen must be a list of i64, one for each batch"));
            }
            let filled = op.reshape(filled, vec![batch[0].clone(), 1.into(), 1.into(), 1.into()])?;
            visible = Some(op.apply(Function::Less, &[place, filled])?);
            Some(filled)
        }
    };
    let [left, right] = options.window;
    if (options.causal && causal.is_none()) || left >= 0 || right >= 0 {
        let mut time = places(op, queries.clone(), 1)?;
        let offset = match (filled, past) {
            (Some(filled), _) => {
                let queries = extent(op, queries);
                Some(op.apply(Function::Subtract, &[filled, queries])?)
            }
            (None, Some(past)) => Some(extent(op, past)),
            (None, None) => None,
        };
        if let Some(offset) = offset {
            time = op.apply(Function::Add, &[time, offset])?;
        }
        let mut bound = |function: Function, distance: i64| -> Result<(), ImportError> {
            let distance = op.importer.builder.symbolic(DType::I64, &[], vec![distance.into()]);
            let limit = op.apply(Function::Add, &[time, distance])?;
            let inside = op.apply(function, &[place, limit])?;
            visible = Some(and(op, visible, inside)?);
            Ok(())
        };
        if options.causal && causal.is_none() {
            bound(Function::LessEqual, 0)?;
        }
        if left >= 0 {
            bound(Function::GreaterEqual, -left)?;
        }
        if right >= 0 {
            bound(Function::LessEqual, right)?;
        }
    }
    let operand = match given_mask(op, q, &total)? {
        None => visible,
        Some(given) if op.dtype(given) == DType::Bool => Some(and(op, visible, given)?),
        Some(given) => match visible {
            None => Some(given),
            Some(visible) => {
                let hidden = op.scalar(f64::NEG_INFINITY, op.dtype(given))?;
                Some(op.apply(Function::Select, &[visible, given, hidden])?)
            }
        },
    };
    Ok(Mask { causal, operand })
}

/// The given mask; where it says nothing of the last keys, they are hidden.
fn given_mask(op: &mut OpImport<'_, '_, '_>, q: Handle, total: &DimExpr) -> Result<Option<Handle>, ImportError> {
    let Some(mut mask) = op.optional(3)? else { return Ok(None) };
    let (dtype, queries) = (op.dtype(mask), op.dtype(q));
    if dtype != DType::Bool && (!dtype.is_float() || dtype.bits() < 16) {
        return Err(op.unsupported(format!("a mask of type {dtype}")));
    }
    if dtype.is_float() && dtype != queries {
        let compute = Attention::compute_type(queries);
        if dtype.bits() > compute.bits() {
            return Err(op.unsupported(format!("a mask of type {dtype} for operands of type {queries}")));
        }
        mask = op.cast(mask, compute)?;
    }
    let Some(last) = op.extents(mask).pop().filter(|last| last != total) else { return Ok(Some(mask)) };
    let missing = total.sub(&last).ok_or_else(|| op.unsupported("a dimension this large"))?;
    if missing.as_constant().is_some_and(|missing| missing < 0) {
        return Err(op.invalid(format!("the mask {} is for more than {total} keys", op.ty(mask))));
    }
    let rank = op.rank(mask);
    let low = vec![DimExpr::constant(0); rank];
    let mut high = low.clone();
    high[rank - 1] = missing;
    let hidden = op.scalar(if dtype == DType::Bool { 0.0 } else { f64::NEG_INFINITY }, op.dtype(mask))?;
    op.emit(Pad { mode: PadMode::Constant, low, high }, &[mask, hidden]).map(Some)
}

/// The steps up to the weights, each `[batch, query heads, queries, keys]`.
struct Steps {
    raw: Handle,
    capped: Handle,
    masked: Handle,
    weights: Handle,
}

/// Dimensions `[batch, heads, …]` as `[batch, groups, heads of each, …]`.
fn grouped(op: &mut OpImport<'_, '_, '_>, x: Handle, groups: &DimExpr) -> Result<Handle, ImportError> {
    let mut dims = op.extents(x);
    let each = dims[1].div_exact(groups).ok_or_else(|| {
        op.unsupported(format!("{groups} groups of heads of {}, which are no whole numbers of heads,", op.ty(x)))
    })?;
    dims.splice(1..2, [groups.clone(), each]);
    op.reshape(x, dims)
}

/// Dimensions `[batch, groups, heads of each, …]` as `[batch, heads, …]`.
fn whole(op: &mut OpImport<'_, '_, '_>, x: Handle, heads: &DimExpr) -> Result<Handle, ImportError> {
    let mut dims = op.extents(x);
    dims.splice(1..3, [heads.clone()]);
    op.reshape(x, dims)
}

fn steps(
    op: &mut OpImport<'_, '_, '_>,
    options: &Options,
    [q, k]: [Handle; 2],
    mask: &Mask,
) -> Result<Steps, ImportError> {
    let dtype = op.dtype(q);
    let compute = Attention::compute_type(dtype);
    let (heads, groups) = (op.dim(q, 1).extent.clone(), op.dim(k, 1).extent.clone());
    let contract = |lhs: &str, rhs: &str, result: &str| Contract {
        lhs: lhs.to_owned(),
        rhs: rhs.to_owned(),
        result: result.to_owned(),
        accumulate: compute,
        dtype: compute,
    };
    let scores = if heads == groups {
        op.emit(contract("bhtd", "bhsd", "bhts"), &[q, k])?
    } else {
        let q = grouped(op, q, &groups)?;
        let scores = op.emit(contract("bgrtd", "bgsd", "bgrts"), &[q, k])?;
        whole(op, scores, &heads)?
    };
    let scale = op.scalar(options.scale, compute)?;
    let raw = op.apply(Function::Multiply, &[scores, scale])?;
    let mut capped = raw;
    if let Some(softcap) = options.softcap {
        let softcap = op.scalar(softcap, compute)?;
        let ratio = op.apply(Function::Divide, &[raw, softcap])?;
        let curve = op.apply(Function::Tanh, &[ratio])?;
        capped = op.apply(Function::Multiply, &[curve, softcap])?;
    }
    let mut masked = capped;
    let mut visible = None;
    let hidden = op.scalar(f64::NEG_INFINITY, compute)?;
    if let Some(given) = mask.operand {
        let shown = match op.dtype(given) {
            DType::Bool => given,
            other => {
                let wide = op.cast(given, compute)?;
                masked = op.apply(Function::Add, &[masked, wide])?;
                let none = op.scalar(f64::NEG_INFINITY, other)?;
                op.apply(Function::NotEqual, &[given, none])?
            }
        };
        masked = op.apply(Function::Select, &[shown, masked, hidden])?;
        visible = Some(shown);
    }
    let precise = match options.precision {
        Some(precision) if precision != dtype => op.cast(masked, precision)?,
        _ => masked,
    };
    let mut weights = op.emit(Softmax { axis: -1, log: false }, &[precise])?;
    if let Some(visible) = visible {
        let visible = if op.rank(visible) == 0 { op.reshape(visible, vec![1.into()])? } else { visible };
        let sees = op.emit(Reduce { kind: ReduceKind::Any, axes: vec![-1], keep_dims: true }, &[visible])?;
        let zero = op.scalar(0.0, op.dtype(weights))?;
        weights = op.apply(Function::Select, &[sees, weights, zero])?;
    }
    Ok(Steps { raw, capped, masked, weights })
}

/// The sum of values by weights, which are rounded to the values' type before it.
fn weigh(op: &mut OpImport<'_, '_, '_>, weights: Handle, [q, v]: [Handle; 2]) -> Result<Handle, ImportError> {
    let dtype = op.dtype(v);
    let weights = op.cast(weights, dtype)?;
    let (heads, groups) = (op.dim(q, 1).extent.clone(), op.dim(v, 1).extent.clone());
    let contract = |lhs: &str, rhs: &str, result: &str| Contract {
        lhs: lhs.to_owned(),
        rhs: rhs.to_owned(),
        result: result.to_owned(),
        accumulate: Attention::compute_type(dtype),
        dtype,
    };
    if heads == groups {
        return op.emit(contract("bhts", "bhse", "bhte"), &[weights, v]);
    }
    let weights = grouped(op, weights, &groups)?;
    let sums = op.emit(contract("bgrts", "bgse", "bgrte"), &[weights, v])?;
    whole(op, sums, &heads)
}
