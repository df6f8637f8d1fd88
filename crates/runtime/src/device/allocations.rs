//! Which memory of a device is allocated.

use std::collections::BTreeMap;

/// Why a range of memory cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// It does not lie in one allocation.
    #[error("{bytes} bytes at {address:#x} are in no allocation")]
    Outside {
        /// Where it begins.
        address: u64,
        /// Its size.
        bytes: u64,
    },
    /// An address that is no beginning of an allocation.
    #[error("{0:#x} is no allocation")]
    NoAllocation(u64),
    /// Source and target of a copy share bytes.
    #[error("a copy of {bytes} bytes at {source_address:#x} onto itself at {target_address:#x}")]
    Overlap {
        /// Where the source begins.
        source_address: u64,
        /// Where the target begins.
        target_address: u64,
        /// Size of both.
        bytes: u64,
    },
}

/// The live allocations of a device by address, each with what the device keeps for it.
///
/// Invariant: allocations do not overlap, as long as the addresses come from a device that keeps them apart.
#[derive(Debug)]
pub struct AllocationTable<T> {
    allocations: BTreeMap<u64, (u64, T)>,
    in_use: u64,
}

impl<T> Default for AllocationTable<T> {
    fn default() -> Self {
        AllocationTable { allocations: BTreeMap::new(), in_use: 0 }
    }
}

impl<T> AllocationTable<T> {
    /// Notes an allocation.
    pub fn insert(&mut self, address: u64, bytes: u64, kept: T) {
        if let Some((replaced, _)) = self.allocations.insert(address, (bytes, kept)) {
            self.in_use -= replaced;
        }
        self.in_use += bytes;
    }

    /// Forgets an allocation.
    pub fn remove(&mut self, address: u64) -> Result<T, RangeError> {
        let (bytes, kept) = self.allocations.remove(&address).ok_or(RangeError::NoAllocation(address))?;
        self.in_use -= bytes;
        Ok(kept)
    }

    /// Bytes of all allocations.
    pub fn in_use(&self) -> u64 {
        self.in_use
    }

    /// Where the allocations begin.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.allocations.keys().copied()
    }

    /// The allocation that a range lies in, and the range's offset in it.
    pub fn find(&self, address: u64, bytes: u64) -> Result<(&T, u64), RangeError> {
        match self.allocations.range(..=address).next_back() {
            Some((base, (size, kept))) if (address - base).checked_add(bytes).is_some_and(|end| end <= *size) => {
                Ok((kept, address - base))
            }
            _ => Err(RangeError::Outside { address, bytes }),
        }
    }

    /// Checks a copy: both ranges lie in allocations and share no byte. Gives what [`AllocationTable::find`] gives of both.
    #[allow(clippy::type_complexity)]
    pub fn find_copy(&self, source: u64, target: u64, bytes: u64) -> Result<((&T, u64), (&T, u64)), RangeError> {
        let found = (self.find(source, bytes)?, self.find(target, bytes)?);
        // Ranges inside allocations do not wrap around.
        if source < target + bytes && target < source + bytes && bytes > 0 {
            return Err(RangeError::Overlap { source_address: source, target_address: target, bytes });
        }
        Ok(found)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a map of bytes.
        #[test]
        fn ranges_are_found_where_every_byte_is_of_one_allocation(
            sizes in proptest::collection::vec(0u64..6, 0..8),
            freed in proptest::collection::vec(any::<bool>(), 8),
            ranges in proptest::collection::vec((0u64..60, 0u64..8, 0u64..60), 1..20),
        ) {
            let mut table = AllocationTable::default();
            let mut bytes = [None; 80];
            let mut next = 3;
            let mut live = 0;
            for (index, size) in sizes.iter().enumerate() {
                table.insert(next, *size, index);
                if freed[index] {
                    prop_assert_eq!(table.remove(next), Ok(index));
                    prop_assert_eq!(table.remove(next), Err(RangeError::NoAllocation(next)));
                } else {
                    bytes[next as usize..(next + size) as usize].fill(Some(index));
                    live += size;
                }
                // Some touch each other, others have a gap; an allocation without bytes has an address of its own.
                next += (*size).max(1) + index as u64 % 2;
            }
            prop_assert_eq!(table.in_use(), live);
            for (address, count, other) in ranges {
                let one = |address: u64| {
                    let range = &bytes[address as usize..(address + count) as usize];
                    range.first().copied().flatten().filter(|owner| range.iter().all(|byte| *byte == Some(*owner)))
                };
                if count > 0 {
                    prop_assert_eq!(table.find(address, count).ok().map(|(owner, _)| *owner), one(address));
                    let apart = address.abs_diff(other) >= count;
                    let fits = one(address).is_some() && one(other).is_some();
                    prop_assert_eq!(table.find_copy(address, other, count).is_ok(), fits && apart);
                }
            }
            prop_assert!(table.find(u64::MAX, 2).is_err() && table.find(3, u64::MAX).is_err());
        }
    }
}
