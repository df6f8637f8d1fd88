//! Layouts of the results of operations that move no data: slice, expansion, broadcast, transposition, reshape, join, split.

use crate::construct::check_order;
use crate::layout::{check_shape, flatten, unflatten};
use crate::{LayoutError, Span, TileLayout};

impl TileLayout {
    fn check_dim(&self, operation: &'static str, dim: usize) -> Result<(), LayoutError> {
        if dim >= self.rank() {
            let reason = format!("dimension {dim} of a tile of {} dimensions", self.rank());
            return Err(LayoutError::Argument { operation, reason });
        }
        Ok(())
    }

    /// The layout without dimension `dim`: where the results of a reduction over it lie. Registers that then hold the same as others
    /// of their thread are dropped; lanes and warps that differed only in `dim` repeat each other.
    pub fn slice(&self, dim: usize) -> Result<Self, LayoutError> {
        self.check_dim("slice", dim)?;
        let without = |v: &[u32]| v.iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, c)| *c).collect::<Vec<_>>();
        Ok(self.map_bases(without(self.shape()), without)?.distinct_registers().0)
    }

    /// The layout with `dim` of size 1: `slice`, keeping the dimension. What an operand of a broadcast to this layout has.
    pub fn keep_dim(&self, dim: usize) -> Result<Self, LayoutError> {
        self.slice(dim)?.expand_dim(dim)
    }

    /// The layout of a tile that broadcasts (from size 1) to this one in every dimension where `shape` has 1: the coordinates of those
    /// dimensions are dropped, register for register; several registers may then hold the same. Together with
    /// `Conversion::between` this gives, for a broadcast, the register of the operand behind each register of the result.
    pub fn project(&self, shape: &[u32]) -> Result<Self, LayoutError> {
        if shape.len() != self.rank() || shape.iter().zip(self.shape()).any(|(&s, &t)| s != t && s != 1) {
            let reason = format!("{shape:?} does not broadcast to {:?}", self.shape());
            return Err(LayoutError::Argument { operation: "projection", reason });
        }
        self.map_bases(shape.to_vec(), |v| v.iter().zip(shape).map(|(&c, &s)| if s == 1 { 0 } else { c }).collect())
    }

    /// The layout without registers that repeat others of their thread, and for each register of this one the register of the
    /// new one that holds the same.
    pub fn distinct_registers(&self) -> (Self, Vec<u32>) {
        let mut span = Span::new();
        let mut kept = Vec::new();
        // Where each bit of the old index goes in the new one.
        let mut images = Vec::new();
        for (basis, column) in self.register_bases().iter().zip(self.register_columns()) {
            let bit = 1u64 << kept.len();
            match span.push(column, bit) {
                None => {
                    kept.push(basis.clone());
                    images.push(bit as u32);
                }
                Some(combination) => images.push(combination as u32),
            }
        }
        let registers = (0..self.registers()).map(|r| crate::bits::combine32(&images, r)).collect();
        let layout = Self::new(self.shape().to_vec(), kept, self.lane_bases().to_vec(), self.warp_bases().to_vec())
            .expect("a dependent register vector adds nothing to what the layout covers");
        (layout, registers)
    }

    /// A new dimension of size 1 before dimension `dim`.
    pub fn expand_dim(&self, dim: usize) -> Result<Self, LayoutError> {
        if dim > self.rank() {
            let reason = format!("new dimension {dim} of a tile of {} dimensions", self.rank());
            return Err(LayoutError::Argument { operation: "expansion", reason });
        }
        let with = |v: &[u32], new: u32| [&v[..dim], &[new], &v[dim..]].concat();
        self.map_bases(with(self.shape(), 1), |v| with(v, 0))
    }

    /// Dimension `dim`, of size 1, becomes `size`: each register becomes `size` registers, new ones lowest, that hold the same.
    pub fn broadcast(&self, dim: usize, size: u32) -> Result<Self, LayoutError> {
        self.check_dim("broadcast", dim)?;
        let mut shape = self.shape().to_vec();
        if shape[dim] != 1 {
            let reason = format!("dimension {dim} has size {}, not 1", shape[dim]);
            return Err(LayoutError::Argument { operation: "broadcast", reason });
        }
        shape[dim] = size;
        check_shape(&shape)?;
        let new = (0..size.trailing_zeros()).map(|bit| {
            let mut basis = vec![0; shape.len()];
            basis[dim] = 1 << bit;
            basis
        });
        let reg = new.chain(self.register_bases().iter().cloned()).collect();
        Self::new(shape.clone(), reg, self.lane_bases().to_vec(), self.warp_bases().to_vec())
    }

    /// Dimension `i` of the result is dimension `permutation[i]` of this.
    pub fn transpose(&self, permutation: &[usize]) -> Result<Self, LayoutError> {
        check_order("transposition", permutation, self.rank())?;
        let permuted = |v: &[u32]| permutation.iter().map(|&d| v[d]).collect::<Vec<_>>();
        self.map_bases(permuted(self.shape()), permuted)
    }

    /// The same elements in row-major order under another shape.
    pub fn reshape(&self, shape: &[u32]) -> Result<Self, LayoutError> {
        let bits = check_shape(shape)?;
        if 1 << bits != self.elements() {
            let reason = format!("{:?} has {} elements, {shape:?} has {}", self.shape(), self.elements(), 1 << bits);
            return Err(LayoutError::Argument { operation: "reshape", reason });
        }
        self.map_bases(shape.to_vec(), |v| unflatten(shape, flatten(self.shape(), v)))
    }

    /// Two tiles of this layout side by side in a new last dimension of size 2: register `2r` of the result is register `r` of the
    /// first, `2r + 1` of the second.
    pub fn join(&self) -> Result<Self, LayoutError> {
        let rank = self.rank();
        self.expand_dim(rank)?.broadcast(rank, 2)
    }

    /// The layout of the two halves of a tile whose last dimension has size 2 and lies in one register bit alone, and that bit:
    /// registers with it at zero hold the first half.
    pub fn split(&self) -> Result<(Self, u32), LayoutError> {
        let fail = |reason: &str| Err(LayoutError::Argument { operation: "split", reason: reason.into() });
        if self.shape().last() != Some(&2) {
            return fail("the last dimension is not of size 2");
        }
        let last = self.rank() - 1;
        let bases = [self.register_bases(), self.lane_bases(), self.warp_bases()].concat();
        let mut holders = bases.iter().enumerate().filter(|(_, b)| b[last] == 1);
        let (Some((bit, basis)), None) = (holders.next(), holders.next()) else {
            return fail("more than one index bit takes part in the last dimension");
        };
        if bit >= self.register_bases().len() || basis[..last].iter().any(|&c| c != 0) {
            return fail("the last dimension does not lie in a register bit of its own");
        }
        let halved = |bases: &[Vec<u32>]| bases.iter().map(|b| b[..last].to_vec()).collect::<Vec<_>>();
        let mut reg = halved(self.register_bases());
        reg.remove(bit);
        let layout =
            Self::new(self.shape()[..last].to_vec(), reg, halved(self.lane_bases()), halved(self.warp_bases()))?;
        Ok((layout, bit as u32))
    }

    /// The layout of operand A, `[m, k]`, of a product computed by each thread for the elements of this accumulator `[m, n]`: every
    /// thread holds the rows it needs, all of `k`, with `k` in the lowest register bits.
    pub fn dot_operand_a(&self, k: u32) -> Result<Self, LayoutError> {
        self.check_accumulator()?;
        self.slice(1)?.expand_dim(1)?.broadcast(1, k)
    }

    /// The layout of operand B, `[k, n]`: every thread holds the columns it needs, all of `k`, with `k` in the highest register bits.
    pub fn dot_operand_b(&self, k: u32) -> Result<Self, LayoutError> {
        self.check_accumulator()?;
        let columns = self.slice(0)?.expand_dim(0)?;
        let low = columns.register_bases().len();
        let wide = columns.broadcast(0, k)?;
        let mut reg = wide.register_bases().to_vec();
        let k_bits = reg.len() - low;
        reg.rotate_left(k_bits);
        Self::new(wide.shape().to_vec(), reg, wide.lane_bases().to_vec(), wide.warp_bases().to_vec())
    }

    fn check_accumulator(&self) -> Result<(), LayoutError> {
        if self.rank() != 2 {
            let reason = format!("an accumulator has two dimensions, {:?} has {}", self.shape(), self.rank());
            return Err(LayoutError::Argument { operation: "dot operand", reason });
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::LANES;
    use crate::testing::{random_layout, seeds};
    use proptest::prelude::*;

    /// Every place of `layout`, as (register, lane, warp).
    fn places(layout: &TileLayout) -> impl Iterator<Item = (u32, u32, u32)> + use<> {
        let (warps, registers) = (layout.warps(), layout.registers());
        (0..warps).flat_map(move |w| (0..LANES).flat_map(move |l| (0..registers).map(move |r| (r, l, w))))
    }

    proptest! {
        #[test]
        fn slices_hold_each_thread_s_coordinates_once(seed in seeds()) {
            let layout = random_layout(seed);
            for dim in 0..layout.rank() {
                let slice = layout.slice(dim).unwrap();
                for w in 0..layout.warps() {
                    for l in 0..LANES {
                        let mut expected: Vec<Vec<u32>> = (0..layout.registers()).map(|r| {
                            let mut c = layout.coordinates(r, l, w);
                            c.remove(dim);
                            c
                        }).collect();
                        expected.sort();
                        expected.dedup();
                        let mut found: Vec<Vec<u32>> = (0..slice.registers()).map(|r| slice.coordinates(r, l, w)).collect();
                        found.sort();
                        prop_assert_eq!(found, expected);
                    }
                }
                prop_assert_eq!(layout.keep_dim(dim).unwrap().slice(dim).unwrap(), slice);
            }
        }

        #[test]
        fn distinct_registers_say_who_holds_what(seed in seeds()) {
            let layout = random_layout(seed);
            let (distinct, registers) = layout.distinct_registers();
            for (r, l, w) in places(&layout) {
                prop_assert_eq!(layout.element(r, l, w), distinct.element(registers[r as usize], l, w));
            }
            prop_assert_eq!(distinct.replication().registers, 0);
        }

        #[test]
        fn moves_of_no_data(seed in seeds()) {
            let layout = random_layout(seed);
            let rank = layout.rank();
            let permutation: Vec<usize> = (0..rank).map(|i| (i + seed as usize % rank.max(1)) % rank).collect();
            let transposed = layout.transpose(&permutation).unwrap();
            let flat = layout.reshape(&[layout.elements()]).unwrap();
            let joined = layout.join().unwrap();
            let expanded = layout.expand_dim(0).unwrap();
            let wide = expanded.broadcast(0, 4).unwrap();
            for (r, l, w) in places(&layout) {
                let c = layout.coordinates(r, l, w);
                let moved: Vec<u32> = permutation.iter().map(|&d| c[d]).collect();
                prop_assert_eq!(transposed.coordinates(r, l, w), moved);
                prop_assert_eq!(flat.coordinates(r, l, w), vec![layout.element(r, l, w)]);
                for half in 0..2 {
                    prop_assert_eq!(joined.coordinates(2 * r + half, l, w), [&c[..], &[half]].concat());
                }
                for copy in 0..4 {
                    prop_assert_eq!(wide.coordinates(4 * r + copy, l, w), [&[copy], &c[..]].concat());
                }
            }
            prop_assert_eq!(joined.split().unwrap(), (layout.clone(), 0));
            prop_assert_eq!(flat.reshape(layout.shape()).unwrap(), layout.clone());
            prop_assert_eq!(wide.slice(0).unwrap(), layout.distinct_registers().0);
            let mut ones = vec![1];
            ones.extend(layout.shape());
            let projected = wide.project(&ones).unwrap();
            for (r, l, w) in places(&wide) {
                prop_assert_eq!(projected.element(r, l, w), layout.element(r / 4, l, w));
            }
        }
    }

    #[test]
    fn threads_hold_the_operands_of_their_products() {
        let accumulator = TileLayout::blocked(&[32, 64], &[2, 4], &[4, 8], &[2, 2], &[1, 0]).unwrap();
        let (a, b) = (accumulator.dot_operand_a(8).unwrap(), accumulator.dot_operand_b(8).unwrap());
        assert_eq!((a.shape(), b.shape()), (&[32, 8][..], &[8, 64][..]));
        let holds =
            |layout: &TileLayout, l, w, c: [u32; 2]| (0..layout.registers()).any(|r| layout.coordinates(r, l, w) == c);
        for (r, l, w) in places(&accumulator) {
            let c = accumulator.coordinates(r, l, w);
            for k in 0..8 {
                assert!(holds(&a, l, w, [c[0], k]) && holds(&b, l, w, [k, c[1]]));
            }
        }
        // A thread owns 4 of 32 rows (2, repeated twice) and 4 of 64 columns, times 8.
        assert_eq!((a.registers(), b.registers()), (4 * 8, 4 * 8));
        assert_eq!((a.coordinates(1, 0, 0), b.coordinates(1, 0, 0)), (vec![0, 1], vec![0, 1]));
    }

    #[test]
    fn refusals() {
        let layout = TileLayout::contiguous(&[4, 8], &[1, 0], 1, 1).unwrap();
        let codes = [
            layout.slice(2).map(drop),
            layout.expand_dim(3).map(drop),
            layout.broadcast(0, 2).map(drop),
            layout.transpose(&[0, 0]).map(drop),
            layout.reshape(&[16]).map(drop),
            layout.split().map(drop),
            layout.project(&[2, 8]).map(drop),
            layout.slice(0).and_then(|l| l.dot_operand_a(4)).map(drop),
        ];
        assert!(codes.iter().all(|c| c.as_ref().is_err_and(|e| e.code() == "E0486")), "{codes:?}");
        assert_eq!(layout.reshape(&[3, 5]).unwrap_err().code(), "E0481");
        assert_eq!(layout.expand_dim(0).unwrap().broadcast(0, 3).unwrap_err().code(), "E0481");
    }
}
