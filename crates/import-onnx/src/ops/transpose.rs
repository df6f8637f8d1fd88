//! Transpose.

use crate::import::node::{OpImport, Outputs};

/// Dimensions in the order of `perm`, reversed where it is absent.
pub(super) fn transpose(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let reversed = || (0..op.rank(x) as i64).rev().collect();
    let permutation = op.node.ints("perm")?.map_or_else(reversed, <[i64]>::to_vec);
    Ok(vec![op.transpose(x, permutation)?])
}
