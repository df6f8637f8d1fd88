//! Layouts made from a shape and a way to deal it out to threads.

use crate::{LANE_BITS, LANES, LayoutError, MAX_WARP_BITS, TileLayout, layout::check_shape};

/// Deals the bits of each dimension, lowest first, to registers, lanes and warps.
pub(crate) struct Dealer {
    shape: Vec<u32>,
    /// The next coordinate bit of each dimension, as its weight.
    next: Vec<u32>,
    reg: Vec<Vec<u32>>,
    lane: Vec<Vec<u32>>,
    warp: Vec<Vec<u32>>,
}

impl Dealer {
    /// Nothing is dealt yet.
    pub(crate) fn new(shape: &[u32]) -> Result<Self, LayoutError> {
        check_shape(shape)?;
        let (reg, lane, warp) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { shape: shape.to_vec(), next: vec![1; shape.len()], reg, lane, warp })
    }

    /// What is left of a dimension, as a factor.
    pub(crate) fn left(&self, dim: usize) -> u32 {
        self.shape[dim] / self.next[dim]
    }

    /// The next bit of `dim` as a vector; zero when the dimension is used up.
    fn take(&mut self, dim: usize) -> Vec<u32> {
        let mut basis = vec![0; self.shape.len()];
        if self.next[dim] < self.shape[dim] {
            basis[dim] = self.next[dim];
            self.next[dim] *= 2;
        }
        basis
    }

    /// Gives registers a factor of `size` of a dimension, or what is left of it.
    pub(crate) fn registers(&mut self, dim: usize, size: u32) {
        for _ in 0..size.min(self.left(dim)).trailing_zeros() {
            let basis = self.take(dim);
            self.reg.push(basis);
        }
    }

    /// Gives lanes a factor of a dimension; repeats when it is used up.
    pub(crate) fn lanes(&mut self, dim: usize, size: u32) {
        for _ in 0..size.trailing_zeros() {
            let basis = self.take(dim);
            self.lane.push(basis);
        }
    }

    /// Gives warps a factor of a dimension; repeats when it is used up.
    pub(crate) fn warps(&mut self, dim: usize, size: u32) {
        for _ in 0..size.trailing_zeros() {
            let basis = self.take(dim);
            self.warp.push(basis);
        }
    }

    /// Lanes that all hold the same.
    pub(crate) fn repeat_lanes(&mut self, count: u32) {
        let zero = vec![0; self.shape.len()];
        self.lane.extend((0..count.trailing_zeros()).map(|_| zero.clone()));
    }

    /// Warps that all hold the same.
    pub(crate) fn repeat_warps(&mut self, count: u32) {
        let zero = vec![0; self.shape.len()];
        self.warp.extend((0..count.trailing_zeros()).map(|_| zero.clone()));
    }

    /// Gives registers all that is left, in the order given (fastest first), and closes the layout.
    pub(crate) fn finish(mut self, order: &[usize]) -> Result<TileLayout, LayoutError> {
        for &dim in order {
            self.registers(dim, self.left(dim));
        }
        TileLayout::new(self.shape, self.reg, self.lane, self.warp)
    }
}

/// Checks that `order` names each of `rank` dimensions once.
pub(crate) fn check_order(operation: &'static str, order: &[usize], rank: usize) -> Result<(), LayoutError> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    if sorted.len() != rank || sorted.iter().enumerate().any(|(i, &d)| i != d) {
        let reason = format!("{order:?} does not name each of the {rank} dimensions once");
        return Err(LayoutError::Argument { operation, reason });
    }
    Ok(())
}

/// Checks a number of warps.
pub(crate) fn check_warps(operation: &'static str, warps: u32) -> Result<(), LayoutError> {
    if !warps.is_power_of_two() || warps > 1 << MAX_WARP_BITS {
        let reason = format!("{warps} warps: a power of two of at most {} is expected", 1 << MAX_WARP_BITS);
        return Err(LayoutError::Argument { operation, reason });
    }
    Ok(())
}

impl TileLayout {
    /// Blocks of `size_per_thread` registers, over `threads_per_warp` lanes (32 in all), over `warps`: each a factor per dimension,
    /// the dimension `order[0]` fastest.
    ///
    /// A tile larger than that repeats over registers; where it is smaller, lanes and warps repeat elements, and a thread holds no
    /// register twice.
    pub fn blocked(
        shape: &[u32],
        size_per_thread: &[u32],
        threads_per_warp: &[u32],
        warps: &[u32],
        order: &[usize],
    ) -> Result<Self, LayoutError> {
        const OPERATION: &str = "blocked layout";
        let mut dealer = Dealer::new(shape)?;
        check_order(OPERATION, order, shape.len())?;
        for (name, factors, most) in [
            ("size per thread", size_per_thread, u32::MAX),
            ("threads per warp", threads_per_warp, LANES),
            ("warps", warps, 32),
        ] {
            if factors.len() != shape.len() || factors.iter().any(|f| !f.is_power_of_two() || *f > most) {
                let reason = format!("{name} {factors:?}: a power of two per dimension of {shape:?} is expected");
                return Err(LayoutError::Argument { operation: OPERATION, reason });
            }
        }
        let lane_bits: u32 = threads_per_warp.iter().map(|f| f.trailing_zeros()).sum();
        if !shape.is_empty() && lane_bits != LANE_BITS as u32 {
            let reason = format!("threads per warp {threads_per_warp:?} are not {LANES} in all");
            return Err(LayoutError::Argument { operation: OPERATION, reason });
        }
        order.iter().for_each(|&d| dealer.registers(d, size_per_thread[d]));
        order.iter().for_each(|&d| dealer.lanes(d, threads_per_warp[d]));
        order.iter().for_each(|&d| dealer.warps(d, warps[d]));
        if shape.is_empty() {
            dealer.repeat_lanes(LANES);
        }
        dealer.finish(order)
    }

    /// The elements in memory order (`order[0]` fastest), dealt out in runs of `vector` to consecutive threads: `vector` registers,
    /// then lanes, then `warps`, then the rest to registers. The layout for streaming through global memory.
    pub fn contiguous(shape: &[u32], order: &[usize], vector: u32, warps: u32) -> Result<Self, LayoutError> {
        const OPERATION: &str = "contiguous layout";
        let mut dealer = Dealer::new(shape)?;
        check_order(OPERATION, order, shape.len())?;
        check_warps(OPERATION, warps)?;
        if !vector.is_power_of_two() {
            return Err(LayoutError::Argument {
                operation: OPERATION,
                reason: format!("vector {vector} is not a power of two"),
            });
        }
        // What is left of `count` after dealing out bits in memory order.
        let deal = |dealer: &mut Dealer, count: u32, give: fn(&mut Dealer, usize, u32)| {
            order.iter().fold(count, |count, &dim| {
                let size = count.min(dealer.left(dim));
                give(dealer, dim, size);
                count / size
            })
        };
        deal(&mut dealer, vector, Dealer::registers);
        let lanes = deal(&mut dealer, LANES, Dealer::lanes);
        dealer.repeat_lanes(lanes);
        let warps = deal(&mut dealer, warps, Dealer::warps);
        dealer.repeat_warps(warps);
        dealer.finish(order)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn blocked_follows_the_order() {
        let layout = TileLayout::blocked(&[16, 64], &[1, 4], &[4, 8], &[2, 1], &[1, 0]).unwrap();
        assert_eq!(layout.register_bases(), [vec![0, 1], vec![0, 2], vec![0, 32], vec![8, 0]]);
        assert_eq!(layout.lane_bases(), [vec![0, 4], vec![0, 8], vec![0, 16], vec![1, 0], vec![2, 0]]);
        assert_eq!(layout.warp_bases(), [vec![4, 0]]);
        // By the definition: lane = row of 8 lanes, four elements each.
        for (r, l, w) in [(0, 0, 0), (3, 9, 1), (4, 31, 0), (15, 17, 1)] {
            let (row, column) = (l / 8 + 4 * w + 8 * (r / 8), r % 4 + 4 * (l % 8) + 32 * (r / 4 % 2));
            assert_eq!(layout.coordinates(r, l, w), vec![row, column]);
        }
    }

    #[test]
    fn small_tiles_repeat_over_threads_not_registers() {
        let layout = TileLayout::blocked(&[2, 8], &[4, 4], &[4, 8], &[2, 2], &[1, 0]).unwrap();
        assert_eq!(layout.registers(), 8);
        assert_eq!(layout.replication().lanes, 0b11110);
        assert_eq!(layout.replication().warps, 0b11);
    }

    #[test]
    fn contiguous_counts_through_memory() {
        for (shape, order, vector, warps) in [
            (vec![4, 256], vec![1, 0], 4, 4),
            (vec![8, 8, 2], vec![2, 1, 0], 2, 1),
            (vec![256, 8], vec![0, 1], 8, 2),
            (vec![16], vec![0], 4, 2),
        ] {
            let layout = TileLayout::contiguous(&shape, &order, vector, warps).unwrap();
            let elements: u32 = shape.iter().product();
            for w in 0..warps {
                for l in 0..LANES {
                    for r in 0..layout.registers() {
                        let thread = w * LANES + l;
                        let memory = (r % vector + vector * thread + r / vector * vector * LANES * warps) % elements;
                        let mut rest = memory;
                        let mut expected = vec![0; shape.len()];
                        for &d in &order {
                            expected[d] = rest % shape[d];
                            rest /= shape[d];
                        }
                        assert_eq!(layout.coordinates(r, l, w), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn scalars() {
        assert_eq!(TileLayout::blocked(&[], &[], &[], &[], &[]).unwrap().registers(), 1);
        assert_eq!(TileLayout::contiguous(&[], &[], 4, 4).unwrap().warps(), 4);
    }

    #[test]
    fn refusals() {
        let code = |r: Result<TileLayout, LayoutError>| r.map_err(|e| e.code()).unwrap_err();
        assert_eq!(code(TileLayout::blocked(&[16, 16], &[1, 1], &[4, 4], &[1, 1], &[1, 0])), "E0486");
        assert_eq!(code(TileLayout::blocked(&[16, 16], &[1, 3], &[4, 8], &[1, 1], &[1, 0])), "E0486");
        assert_eq!(code(TileLayout::blocked(&[16, 16], &[1], &[4, 8], &[1, 1], &[1, 0])), "E0486");
        assert_eq!(code(TileLayout::blocked(&[16, 16], &[1, 1], &[4, 8], &[1, 1], &[1, 1])), "E0486");
        assert_eq!(code(TileLayout::blocked(&[16, 16], &[1, 1], &[4, 8], &[32, 32], &[1, 0])), "E0482");
        assert_eq!(code(TileLayout::contiguous(&[16], &[0], 3, 1)), "E0486");
        assert_eq!(code(TileLayout::contiguous(&[16], &[0], 1, 64)), "E0486");
        assert_eq!(code(TileLayout::contiguous(&[17], &[0], 1, 1)), "E0481");
    }
}
