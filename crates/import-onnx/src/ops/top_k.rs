//! TopK.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Gather, GatherKind, TopK};
use tenon_tensor::DType;

use crate::import::node::{OpImport, Outputs};

/// The k largest (or, version 11, smallest) along an axis and their indices. k is an attribute before version 10, then an input. Order
/// is kept even where `sorted` = 0 asks for none.
pub(super) fn top_k(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let k = if op.since < 10 {
        op.takes(1..=1)?;
        Some(op.node.required("k", op.node.int("k")?)?)
    } else {
        op.takes(2..=2)?;
        let is_known = op.importer.builder.tensor(op.input(1)?).is_some();
        if is_known { Some(op.known_int(1, "the number of elements of the result")?) } else { None }
    };
    let x = op.input(0)?;
    let axis = op.node.int_or("axis", -1)?;
    let axis = op.axis(axis, op.rank(x))? as i64;
    let mut smallest = false;
    if op.since >= 11 {
        smallest = !op.node.flag_or("largest", true)?;
        op.node.flag_or("sorted", true)?;
    }
    if let Some(k) = k {
        return op.emit_all(TopK { k, axis, smallest }, &[x]);
    }
    // All in order, of which the first k are taken.
    let size = op.fixed_dim(x, axis as usize, "a selection of as many elements as a value says")?;
    let all = op.emit_all(TopK { k: size, axis, smallest }, &[x])?;
    let k = op.input(1)?;
    let k = op.as_scalar(k)?;
    let k = op.cast(k, DType::I64)?;
    let (_, ranks) = op.counted("top", k, DimExpr::constant(size))?;
    let take = Gather { kind: GatherKind::Take, axis, batch_dims: 0 };
    all.into_iter().map(|values| op.emit(take.clone(), &[values, ranks])).collect()
}
