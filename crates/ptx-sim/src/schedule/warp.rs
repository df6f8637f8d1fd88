//! The paths of a warp: sets of lanes at one place in the program.
//!
//! - A branch whose lanes part makes the path wait at the meeting point and starts a path for each side; a path that reaches its
//!   meeting point gives its lanes back. Paths of a warp are independent, so that one spinning on another makes progress.
//! - Lanes that exit are taken from every path that waits for them.

use crate::decode::NONE;
use crate::execute::machine::Warp;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    Ready,
    /// Waits for these lanes to come back; `mask` holds those that have.
    Waiting(u32),
    /// At a block barrier.
    Blocked,
    Free,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub pc: u32,
    pub mask: u32,
    pub meet: u32,
    pub parent: usize,
    pub state: State,
}

const ROOT: usize = usize::MAX;

pub(super) struct Thread {
    pub warp: Warp,
    pub paths: Vec<Path>,
    /// Path to run next if it is ready.
    pub current: usize,
}

impl Thread {
    pub(super) fn start(&mut self, live: u32) {
        self.paths.clear();
        self.paths.push(Path { pc: 0, mask: live, meet: NONE, parent: ROOT, state: State::Ready });
        self.current = 0;
        self.warp.live = live;
    }

    pub(super) fn is_done(&self) -> bool {
        self.warp.live == 0
    }

    /// A ready path, starting the search at the current one plus `turn`.
    pub(super) fn pick(&self, turn: usize) -> Option<usize> {
        let n = self.paths.len();
        (0..n).map(|i| (self.current + turn + i) % n).find(|&i| self.paths[i].state == State::Ready)
    }

    fn add(&mut self, path: Path) -> usize {
        match self.paths.iter().position(|p| p.state == State::Free) {
            Some(i) => {
                self.paths[i] = path;
                i
            }
            None => {
                self.paths.push(path);
                self.paths.len() - 1
            }
        }
    }

    /// Lanes of `path` part: `taken` goes to `target`, the others to `next`; `first_taken` says which side runs first.
    /// Returns the path to go on with.
    pub(super) fn part(
        &mut self,
        path: usize,
        taken: u32,
        target: u32,
        next: u32,
        meet: u32,
        first_taken: bool,
    ) -> usize {
        let Path { mask, meet: own, parent, .. } = self.paths[path];
        let sides = [(target, taken), (next, mask & !taken)];
        if meet == NONE || meet == own {
            // No new meeting point: the sides are siblings.
            let mut stay = None;
            let order = if first_taken { [1, 0] } else { [0, 1] };
            for side in order {
                let (pc, lanes) = sides[side];
                if pc == own && own != NONE {
                    self.give_back(parent, lanes);
                } else if stay.is_none() {
                    self.paths[path].pc = pc;
                    self.paths[path].mask = lanes;
                    stay = Some(path);
                } else {
                    stay = Some(self.add(Path { pc, mask: lanes, meet: own, parent, state: State::Ready }));
                }
            }
            return match stay {
                Some(p) => p,
                None => {
                    self.paths[path].state = State::Free;
                    self.pick(0).unwrap_or(path)
                }
            };
        }
        self.paths[path].state = State::Waiting(mask);
        self.paths[path].pc = meet;
        self.paths[path].mask = 0;
        let mut last = path;
        let order = if first_taken { [1, 0] } else { [0, 1] };
        for side in order {
            let (pc, lanes) = sides[side];
            if pc == meet {
                self.give_back(path, lanes);
            } else {
                last = self.add(Path { pc, mask: lanes, meet, parent: path, state: State::Ready });
            }
        }
        last
    }

    /// The whole path reached its meeting point. Returns the path to go on with.
    pub(super) fn arrive(&mut self, path: usize) -> usize {
        let Path { mask, parent, .. } = self.paths[path];
        self.paths[path].state = State::Free;
        self.give_back(parent, mask);
        if parent != ROOT && self.paths[parent].state == State::Ready { parent } else { path }
    }

    fn give_back(&mut self, to: usize, lanes: u32) {
        let Some(p) = self.paths.get_mut(to) else { return };
        p.mask |= lanes;
        if let State::Waiting(pending) = p.state {
            let pending = pending & !lanes;
            p.state = if pending == 0 { State::Ready } else { State::Waiting(pending) };
        }
    }

    /// Lanes of `path` exit.
    pub(super) fn exit(&mut self, path: usize, lanes: u32) {
        self.warp.live &= !lanes;
        self.paths[path].mask &= !lanes;
        if self.paths[path].mask == 0 {
            self.paths[path].state = State::Free;
        }
        let mut at = self.paths[path].parent;
        while let Some(p) = self.paths.get_mut(at) {
            if let State::Waiting(pending) = p.state {
                let pending = pending & !lanes;
                p.state = match pending {
                    0 if p.mask == 0 => State::Free,
                    0 => State::Ready,
                    _ => State::Waiting(pending),
                };
            }
            at = p.parent;
        }
    }
}
