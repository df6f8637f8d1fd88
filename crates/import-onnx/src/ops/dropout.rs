//! Dropout at inference: the input itself.

use tenon_tensor::DType;

use crate::import::node::{OpImport, Outputs};

/// The input, and a mask of ones if it is wanted.
pub(super) fn dropout(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=if op.since < 12 { 1 } else { 3 })?;
    if op.since < 12 {
        op.node.float_or("ratio", 0.5)?;
    } else {
        op.node.int("seed")?;
    }
    let x = op.input(0)?;
    if op.optional(2)?.is_some() {
        let training = op.known_tensor(2, "whether the node drops elements")?;
        let drops = training.get_i64(0) != Some(0);
        let never =
            op.node.input(1).is_some() && op.known_tensor(1, "how many elements are dropped")?.get_f64(0) == Some(0.0);
        if drops && !never {
            return Err(op.unsupported("training mode"));
        }
    }
    let mut outputs = vec![x];
    if op.wants(1) {
        let dtype = if op.since < 10 { op.dtype(x) } else { DType::Bool };
        let one = op.scalar(1.0, dtype)?;
        let shape = op.extents(x);
        outputs.push(op.broadcast(one, shape)?);
    }
    Ok(outputs)
}
