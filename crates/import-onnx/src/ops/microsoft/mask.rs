//! Masks of ONNX Runtime's attention operators: finite numbers that are added to the scores, so that a query whose keys are all masked still
//! weighs them.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::Function;
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::OpImport;
use crate::ops::heads::{and, extent, places};

/// The sizes that masks are made for.
pub(super) struct Sizes {
    pub(super) batch: DimExpr,
    pub(super) queries: DimExpr,
    /// Of the cache and of this step.
    pub(super) keys: DimExpr,
}

/// The mask input number `index` as numbers `[batch or 1, 1, queries or 1, keys]`; `None`: it masks nothing.
///
/// It is `[batch]`, the number of keys that are no padding; `[2 · batch]`, those numbers and then the places where keys begin; `[batch, keys]` or
/// `[batch, queries, keys]`, above 0 where a key is no padding. `[_, 1]` masks nothing. Masked scores are lowered by `filter`, and those of keys
/// after the query, where `causal`, by the largest number of f32.
pub(super) fn mask(
    op: &mut OpImport<'_, '_, '_>,
    index: usize,
    sizes: &Sizes,
    filter: f32,
    causal: bool,
) -> Result<Option<Handle>, ImportError> {
    let Some(given) = op.optional(index)? else { return Ok(None) };
    if op.dtype(given) != DType::I32 {
        return Err(op.invalid(format!("the mask must be of i32, not {}", op.dtype(given))));
    }
    let shape = op.extents(given);
    let one = || DimExpr::constant(1);
    let Sizes { batch, queries, keys } = sizes;
    let visible = match shape.as_slice() {
        [count] => {
            let place = places(op, keys.clone(), 0)?;
            let mut limit = |start: DimExpr| -> Result<Handle, ImportError> {
                let list = match count == batch {
                    true => given,
                    false => op.slice(given, 0, start, batch.clone())?,
                };
                let list = op.reshape(list, vec![batch.clone(), one(), one(), one()])?;
                op.cast(list, DType::I64)
            };
            let twice = batch.mul(&DimExpr::constant(2));
            let (end, start) = match (count == batch, Some(count) == twice.as_ref()) {
                (true, _) => (limit(DimExpr::constant(0))?, None),
                (_, true) => (limit(DimExpr::constant(0))?, Some(limit(batch.clone())?)),
                _ => {
                    return Err(op.unsupported(format!(
                        "a mask {} for {batch} batches, neither one number each nor two,",
                        op.ty(given)
                    )));
                }
            };
            let before = op.apply(Function::Less, &[place, end])?;
            match start {
                Some(start) => {
                    let after = op.apply(Function::GreaterEqual, &[place, start])?;
                    and(op, Some(before), after)?
                }
                None => before,
            }
        }
        [_, columns] if columns.as_constant() == Some(1) && keys.as_constant() != Some(1) => return Ok(None),
        [rows, columns] | [rows, _, columns] if rows != batch || columns != keys => {
            return Err(op.invalid(format!("the mask {} is not for {batch} batches and {keys} keys", op.ty(given))));
        }
        [_, middle, _] if middle != queries => {
            return Err(op.invalid(format!("the mask {} is not for {queries} queries", op.ty(given))));
        }
        [_, _] | [_, _, _] => {
            let rows = if shape.len() == 2 { one() } else { queries.clone() };
            let zero = op.scalar(0.0, DType::I32)?;
            let visible = op.apply(Function::Greater, &[given, zero])?;
            op.reshape(visible, vec![batch.clone(), one(), rows, keys.clone()])?
        }
        _ => return Err(op.unsupported(format!("a mask {}", op.ty(given)))),
    };
    let (nothing, filter) = (op.scalar(0.0, DType::F32)?, op.scalar(f64::from(filter), DType::F32)?);
    let mut numbers = op.apply(Function::Select, &[visible, nothing, filter])?;
    if causal {
        let time = places(op, queries.clone(), 1)?;
        let before = keys.sub(queries).ok_or_else(|| op.unsupported("a dimension this large"))?;
        let before = extent(op, before);
        let last = op.apply(Function::Add, &[time, before])?;
        let place = places(op, keys.clone(), 0)?;
        let reached = op.apply(Function::LessEqual, &[place, last])?;
        let lowest = op.scalar(f64::from(f32::MIN), DType::F32)?;
        numbers = op.apply(Function::Select, &[reached, numbers, lowest])?;
    }
    Ok(Some(numbers))
}

/// A mask with the input number `index`, `[batch or 1, heads or 1, queries, keys]`, added to it.
pub(super) fn with_bias(
    op: &mut OpImport<'_, '_, '_>,
    index: usize,
    mask: Option<Handle>,
) -> Result<Option<Handle>, ImportError> {
    let Some(bias) = op.optional(index)? else { return Ok(mask) };
    if op.rank(bias) != 4 {
        return Err(op.invalid(format!("the bias of the scores must have four dimensions, not be {}", op.ty(bias))));
    }
    let Some(mask) = mask else { return Ok(Some(bias)) };
    let bias = op.cast(bias, DType::F32)?;
    op.apply(Function::Add, &[bias, mask]).map(Some)
}
