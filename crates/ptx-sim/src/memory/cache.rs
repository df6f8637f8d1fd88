//! A simple model of the second-level cache: set-associative, least recently used, 128-byte lines.
//!
//! Blocks hand in the lines they touched, in their order; the model replays them in block order, so that its result does not
//! depend on how blocks were spread over host threads.

/// 4 MiB in 16 ways: one line is 128 bytes.
const WAYS: usize = 16;
const SETS: usize = 2048;

pub(crate) struct Cache {
    tags: Vec<[u64; WAYS]>,
    pub hits: u64,
    pub misses: u64,
}

impl Cache {
    pub(crate) fn new() -> Cache {
        Cache { tags: vec![[u64::MAX; WAYS]; SETS], hits: 0, misses: 0 }
    }

    /// Touches a line (address divided by 128).
    pub(crate) fn touch(&mut self, line: u64) {
        let set = &mut self.tags[(line ^ line >> 11 ^ line >> 29) as usize % SETS];
        match set.iter().position(|&t| t == line) {
            Some(0) => self.hits += 1,
            Some(way) => {
                self.hits += 1;
                set.copy_within(0..way, 1);
                set[0] = line;
            }
            None => {
                self.misses += 1;
                set.copy_within(0..WAYS - 1, 1);
                set[0] = line;
            }
        }
    }
}
