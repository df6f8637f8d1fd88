//! Results that kernels write into concatenations: what of the memory of the whole is theirs.

use tenon_graph_dialect::{ConcatenatedPart, TensorType, destination};
use tenon_ir::Op;

/// Runs of a part in runs of a whole, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Number of runs.
    count: usize,
    /// Where a run of the part begins in that of the whole.
    start: usize,
    /// Elements of a run of the part.
    part: usize,
    /// Elements of a run of the whole.
    whole: usize,
}

impl Part {
    /// `None` where a size is not a number.
    fn of(concatenated: &ConcatenatedPart) -> Option<Self> {
        let ConcatenatedPart { operands, index, axis } = concatenated;
        let own = operands.get(*index)?.known_shape()?;
        let along = |ty: &TensorType| ty.known_shape()?.get(*axis).copied();
        let lengths = operands.iter().map(along).collect::<Option<Vec<u64>>>()?;
        let inner: u64 = own.get(axis + 1..)?.iter().product();
        let elements = |size: u64| usize::try_from(size * inner).ok();
        Some(Part {
            count: usize::try_from(own[..*axis].iter().product::<u64>()).ok()?,
            start: elements(lengths[..*index].iter().sum())?,
            part: elements(lengths[*index])?,
            whole: elements(lengths.iter().sum())?,
        })
    }
}

/// How a kernel's result lies in the memory that it is written to, the innermost concatenation first; none for a result with memory of its own.
pub(super) fn of(kernel: Op<'_>, result: usize) -> Vec<Part> {
    let destination = kernel.result(result).and_then(destination);
    destination.map(|found| found.parts.iter().filter_map(Part::of).collect()).unwrap_or_default()
}

/// Bytes of the memory that a result of `own` bytes is written to.
pub(super) fn bytes(parts: &[Part], own: usize) -> u64 {
    parts.iter().fold(
        own as u64,
        |bytes, part| if part.part == 0 { bytes } else { bytes / part.part as u64 * part.whole as u64 },
    )
}

/// The bytes of a result among those of the memory that it is written to, in elements of `size` bytes.
pub(super) fn cut(parts: &[Part], whole: Vec<u8>, size: usize) -> Vec<u8> {
    parts.iter().rev().fold(whole, |bytes, part| {
        let run = |index: usize| {
            let start = (index * part.whole + part.start) * size;
            bytes.get(start..start + part.part * size).unwrap_or_default()
        };
        (0..part.count).flat_map(run).copied().collect()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tenon_tensor::DType;

    use super::*;

    #[test]
    fn a_part_of_a_part_is_cut_out() {
        // [2, 1] behind [2, 2] along the second axis, and that behind [1, 3] along the first.
        let ty = |shape: &[u64]| TensorType::fixed(DType::I16, shape);
        let inner = ConcatenatedPart { operands: vec![ty(&[2, 2]), ty(&[2, 1])], index: 1, axis: 1 };
        let outer = ConcatenatedPart { operands: vec![ty(&[1, 3]), ty(&[2, 3])], index: 1, axis: 0 };
        let parts = [Part::of(&inner).unwrap(), Part::of(&outer).unwrap()];
        let whole: Vec<u8> = (0..9u16).flat_map(u16::to_le_bytes).collect();
        assert_eq!(bytes(&parts, 4), 18);
        assert_eq!(cut(&parts, whole, 2), [5u16, 8].map(u16::to_le_bytes).concat());
    }
}
