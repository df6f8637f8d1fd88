//! Four warps that execute `wgmma` together: each must start the same operations.

use std::collections::VecDeque;

/// What a warp started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Started {
    /// Place in the program.
    pub pc: usize,
    /// Matrix descriptors; 0 for A in registers.
    pub a: u64,
    pub b: u64,
    pub accumulate: bool,
}

/// What warps of a group started and the others have not yet.
#[derive(Default)]
pub(crate) struct Warpgroup {
    started: VecDeque<Started>,
    /// Number of the first of them.
    first: u64,
    /// Operations started by each warp.
    counts: [u64; 4],
}

impl Warpgroup {
    /// A warp starts an operation; `Err` holds what another warp started in its place.
    pub(crate) fn start(&mut self, warp: usize, what: Started) -> Result<(), Started> {
        let number = self.counts[warp];
        self.counts[warp] += 1;
        match self.started.get((number - self.first) as usize) {
            Some(other) if *other != what => return Err(*other),
            Some(_) => {}
            None => self.started.push_back(what),
        }
        let least = self.counts.iter().copied().min().unwrap_or(0);
        while self.first < least {
            self.started.pop_front();
            self.first += 1;
        }
        Ok(())
    }

    /// A warp that started less than another, and what it should have started next.
    pub(crate) fn behind(&self) -> Option<(usize, Started)> {
        let warp = (0..4).min_by_key(|&w| self.counts[w])?;
        self.started.front().map(|s| (warp, *s))
    }
}
