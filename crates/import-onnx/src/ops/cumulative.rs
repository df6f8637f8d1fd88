//! CumSum and CumProd.

use tenon_graph_dialect::operators::{Scan, ScanKind};

use crate::import::node::{OpImport, Outputs};

/// Running sum or product along an axis.
pub(super) fn cumulative(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let x = op.input(0)?;
    let axis = op.known_int(1, "the axis")?;
    let axis = op.axis(axis, op.rank(x))? as i64;
    let kind = if op.node.op_type() == "CumProd" { ScanKind::Product } else { ScanKind::Sum };
    let exclusive = op.node.flag_or("exclusive", false)?;
    let reverse = op.node.flag_or("reverse", false)?;
    Ok(vec![op.emit(Scan { kind, axis, exclusive, reverse }, &[x])?])
}
