//! What a plan needs at its most crowded step.

use crate::plan::{LaunchPlan, MemoryKind};

/// The step at which most bytes of the device arena hold values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peak {
    /// The step.
    pub step: u32,
    /// Bytes of the buffers that are alive then.
    pub bytes: u64,
    /// These buffers by their place in the plan, largest first.
    pub buffers: Vec<usize>,
}

impl LaunchPlan {
    /// The most crowded step, the first of several; none for a plan without buffers.
    pub fn peak(&self) -> Option<Peak> {
        let device: Vec<usize> =
            (0..self.buffers.len()).filter(|index| self.buffers[*index].memory == MemoryKind::Device).collect();
        // The number of bytes grows only where a buffer begins to live.
        let mut starts: Vec<u32> = device.iter().map(|index| self.buffers[*index].first).collect();
        starts.sort_unstable();
        starts.dedup();
        let alive = |step: u32| {
            device.iter().copied().filter(move |index| {
                let buffer = &self.buffers[*index];
                (buffer.first..=buffer.last).contains(&step)
            })
        };
        let bytes = |step: u32| alive(step).fold(0u64, |sum, index| sum.saturating_add(self.buffers[index].bytes));
        let step = starts.into_iter().max_by_key(|step| (bytes(*step), std::cmp::Reverse(*step)))?;
        let mut buffers: Vec<usize> = alive(step).collect();
        buffers.sort_by_key(|index| (std::cmp::Reverse(self.buffers[*index].bytes), *index));
        Some(Peak { step, bytes: bytes(step), buffers })
    }
}

#[cfg(test)]
mod tests {
    use tenon_tensor::DType;

    use super::*;
    use crate::plan::Buffer;

    #[test]
    fn the_most_crowded_step_is_found() {
        let buffer = |bytes, first, last| Buffer {
            name: String::new(),
            dtype: DType::U8,
            shape: vec![bytes],
            offset: 0,
            bytes,
            alignment: 256,
            first,
            last,
            memory: MemoryKind::Device,
            zeroed: false,
        };
        let mut plan = LaunchPlan::new("p");
        assert_eq!(plan.peak(), None);
        plan.buffers = vec![buffer(10, 0, 1), buffer(30, 1, 4), buffer(20, 2, 3), buffer(25, 4, 5)];
        // Steps 0 to 5 hold 10, 40, 50, 50, 55 and 25 bytes.
        assert_eq!(plan.peak(), Some(Peak { step: 4, bytes: 55, buffers: vec![1, 3] }));
        plan.buffers[3].memory = MemoryKind::Pinned;
        assert_eq!(plan.peak(), Some(Peak { step: 2, bytes: 50, buffers: vec![1, 2] }));
    }
}
