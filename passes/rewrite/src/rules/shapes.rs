//! Shapes as rules see them.

use std::ops::Range;

use tenon_graph_dialect::{Dim, TensorType};

/// Which dimensions of one shape hold the elements of which of another, in order: equal ones one by one, and runs of numbers whose products
/// are equal. Dimensions of one element may stand alone against none.
pub(crate) fn groups(from: &[Dim], to: &[Dim]) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    let (mut i, mut j) = (0, 0);
    let mut found = Vec::new();
    while i < from.len() || j < to.len() {
        let (start_i, start_j) = (i, j);
        match (from.get(i), to.get(j)) {
            (Some(a), Some(b)) if a == b => {
                i += 1;
                j += 1;
            }
            (Some(a), _) if a.is_one() => i += 1,
            (_, Some(b)) if b.is_one() => j += 1,
            (Some(a), Some(b)) => {
                let (mut left, mut right) = (a.known()?, b.known()?);
                i += 1;
                j += 1;
                if left == 0 || right == 0 {
                    return None;
                }
                while left != right {
                    if left < right {
                        left = left.checked_mul(from.get(i)?.known()?)?;
                        i += 1;
                    } else {
                        right = right.checked_mul(to.get(j)?.known()?)?;
                        j += 1;
                    }
                }
            }
            _ => return None,
        }
        found.push((start_i..i, start_j..j));
    }
    Some(found)
}

/// The dimensions that an operand of an elementwise operator has, once the result `from` is seen as `to`. `None` where an operand repeats in a
/// part of a run.
pub(crate) fn operand_dims(operand: &TensorType, from: &[Dim], to: &[Dim]) -> Option<Vec<Dim>> {
    if operand.dims.iter().all(Dim::is_one) {
        return Some(if operand.rank() > to.len() { Vec::new() } else { operand.dims.clone() });
    }
    let own = aligned(operand, from.len())?;
    let mut dims = Vec::new();
    for (before, after) in groups(from, to)? {
        let part = &own[before.clone()];
        if part == &from[before.clone()] {
            dims.extend_from_slice(&to[after]);
        } else if part.iter().all(Dim::is_one) {
            dims.extend(vec![Dim::fixed(1); after.len()]);
        } else {
            return None;
        }
    }
    Some(dims)
}

/// Dimensions with ones in front, to a rank.
pub(crate) fn aligned(operand: &TensorType, rank: usize) -> Option<Vec<Dim>> {
    let ones = rank.checked_sub(operand.rank())?;
    Some([vec![Dim::fixed(1); ones], operand.dims.clone()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(sizes: &[u64]) -> Vec<Dim> {
        sizes.iter().map(|size| Dim::fixed(*size)).collect()
    }

    #[test]
    fn runs_of_equal_products() {
        let of = |a: &[u64], b: &[u64]| groups(&dims(a), &dims(b));
        assert_eq!(of(&[2, 6], &[2, 2, 3]), Some(vec![(0..1, 0..1), (1..2, 1..3)]));
        assert_eq!(of(&[128], &[1, 128]), Some(vec![(0..0, 0..1), (0..1, 1..2)]));
        assert_eq!(of(&[4, 6], &[6, 4]), Some(vec![(0..2, 0..2)]));
        assert_eq!(of(&[4, 6], &[5, 5]), None);
        assert_eq!(of(&[4], &[0]), None);
    }
}
