//! Sorting and choosing by order.

use tenon_graph_builder::Handle;
use tenon_graph_dialect::operators::TopK;

use crate::error::OpError;
use crate::import::op::{OpImport, Out, Results};

/// The first `k` along an axis in order, with their indices.
fn first(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    k: i64,
    axis: usize,
    smallest: bool,
) -> Result<[Handle; 2], OpError> {
    let results = op.importer.builder.emit(&TopK { k, axis: axis as i64, smallest }.into(), &[x])?;
    match results.as_slice() {
        [values, indices] => Ok([*values, *indices]),
        _ => Err(op.invalid("the selection has not two results")),
    }
}

pub(super) fn top_k(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let axis = op.axis_argument("dim", op.rank(x))?;
    let (k, largest) = (op.int("k")?, op.flag("largest")?);
    Ok(first(op, x, k, axis, !largest)?.into_iter().map(Out::New).collect())
}

/// sort, msort and argsort; equal elements stay in order.
pub(super) fn sort(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let (axis, descending) = match op.name {
        "msort" => (0, false),
        _ => (op.axis_argument("dim", op.rank(x))?, op.flag("descending")?),
    };
    let size = op.fixed(x, axis, "sorting")?;
    let [values, indices] = first(op, x, size, axis, !descending)?;
    Ok(match op.name {
        "msort" => vec![Out::New(values)],
        "argsort" => vec![Out::New(indices)],
        _ => vec![Out::New(values), Out::New(indices)],
    })
}

/// The k-th smallest, and the lower median.
pub(super) fn kth(op: &mut OpImport<'_, '_, '_>) -> Results {
    let mut x = op.tensor("self")?;
    let whole = !op.has("dim");
    let axis = match whole {
        true => {
            let all = tenon_graph_builder::product(&op.extents(x)).ok_or_else(|| op.unsupported("sizes this large"))?;
            x = op.reshape(x, vec![all])?;
            0
        }
        false => op.axis_argument("dim", op.rank(x))?,
    };
    let size = op.fixed(x, axis, "choosing by order")?;
    let k = if op.name == "kthvalue" { op.int("k")? } else { (size + 1) / 2 };
    if k < 1 || k > size {
        return Err(op.invalid(format!("element number {k} of {size}")));
    }
    let keep = !whole && op.flag("keepdim")?;
    let mut outs = Vec::new();
    for part in first(op, x, k, axis, true)? {
        let last = op.slice(part, axis, (k - 1).into(), 1.into())?;
        let mut shape = op.extents(last);
        if !keep {
            shape.remove(axis);
        }
        outs.push(Out::New(op.reshape(last, shape)?));
    }
    outs.truncate(if whole { 1 } else { 2 });
    Ok(outs)
}
