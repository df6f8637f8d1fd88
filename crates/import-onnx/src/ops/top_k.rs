//! TopK.

use tenon_graph_dialect::operators::TopK;

use crate::import::node::{OpImport, Outputs};

/// The k largest (or, version 11, smallest) along an axis and their indices. k is an attribute before version 10, then an input. Order
/// is kept even where `sorted` = 0 asks for none.
pub(super) fn top_k(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let k = if op.since < 10 {
        op.takes(1..=1)?;
        op.node.required("k", op.node.int("k")?)?
    } else {
        op.takes(2..=2)?;
        op.known_int(1, "the number of elements of the result")?
    };
    let x = op.input(0)?;
    let axis = op.node.int_or("axis", -1)?;
    let axis = op.axis(axis, op.rank(x))? as i64;
    let mut smallest = false;
    if op.since >= 11 {
        smallest = !op.node.flag_or("largest", true)?;
        op.node.flag_or("sorted", true)?;
    }
    op.emit_all(TopK { k, axis, smallest }, &[x])
}
