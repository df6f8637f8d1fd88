//! ArgMax and ArgMin.

use tenon_graph_dialect::operators::ArgReduce;

use crate::import::node::{OpImport, Outputs};

/// Index of the largest or smallest element; the first of equals, or on request (version 12) the last.
pub(super) fn arg_reduce(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let axis = op.node.int_or("axis", 0)?;
    let axis = op.axis(axis, op.rank(x))? as i64;
    let last = op.since >= 12 && op.node.flag_or("select_last_index", false)?;
    let keep_dims = op.node.flag_or("keepdims", true)?;
    let minimum = op.node.op_type() == "ArgMin";
    Ok(vec![op.emit(ArgReduce { minimum, axis, keep_dims, last }, &[x])?])
}
