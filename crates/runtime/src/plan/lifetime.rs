//! Whether buffers whose lifetimes meet share memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BinaryHeap;

use crate::plan::Buffer;

/// Two buffers that are alive at one step and share a byte of one arena, by index.
///
/// A sweep over steps that keeps the live ranges by offset: since those are disjoint, only the neighbours of a new one can overlap it.
pub(crate) fn find_overlap(buffers: &[Buffer]) -> Option<(usize, usize)> {
    let mut order: Vec<usize> = (0..buffers.len()).filter(|index| buffers[*index].bytes > 0).collect();
    order.sort_by_key(|index| (buffers[*index].first, *index));
    let mut live: BTreeMap<(u8, u64), usize> = BTreeMap::new();
    let mut ends: BinaryHeap<Reverse<(u32, u8, u64)>> = BinaryHeap::new();
    for index in order {
        let buffer = &buffers[index];
        while let Some(Reverse((last, memory, offset))) = ends.peek().copied() {
            if last >= buffer.first {
                break;
            }
            ends.pop();
            live.remove(&(memory, offset));
        }
        let memory = buffer.memory as u8;
        let end = buffer.offset.saturating_add(buffer.bytes);
        // The last live range that begins before this one ends.
        if let Some((_, other)) = live.range((memory, 0)..(memory, end)).next_back()
            && buffers[*other].offset.saturating_add(buffers[*other].bytes) > buffer.offset
        {
            return Some((*other, index));
        }
        live.insert((memory, buffer.offset), index);
        ends.push(Reverse((buffer.last, memory, buffer.offset)));
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenon_tensor::DType;

    use super::*;
    use crate::plan::MemoryKind;

    fn buffer((offset, bytes, first, length): (u64, u64, u32, u32)) -> Buffer {
        let (dtype, shape) = (DType::I8, vec![bytes]);
        Buffer {
            name: String::new(),
            dtype,
            shape,
            offset,
            bytes,
            alignment: 1,
            first,
            last: first + length,
            memory: MemoryKind::Device,
            zeroed: false,
        }
    }

    fn brute_force(buffers: &[Buffer]) -> bool {
        buffers.iter().enumerate().any(|(i, a)| {
            buffers[..i].iter().any(|b| {
                let together = a.first <= b.last && b.first <= a.last;
                together && a.offset.max(b.offset) < (a.offset + a.bytes).min(b.offset + b.bytes)
            })
        })
    }

    proptest! {
        #[test]
        fn the_sweep_agrees_with_all_pairs(list in proptest::collection::vec((0u64..40, 0u64..8, 0u32..10, 0u32..4), 0..12)) {
            let buffers: Vec<Buffer> = list.into_iter().map(buffer).collect();
            let found = find_overlap(&buffers);
            prop_assert_eq!(found.is_some(), brute_force(&buffers));
            if let Some((a, b)) = found {
                prop_assert!(brute_force(&[buffers[a].clone(), buffers[b].clone()]));
            }
        }
    }
}
