//! The distributed layout of a tile.

use crate::LayoutError;
use crate::bits::{ShiftTerm, Span, shift_terms};

/// Bits of a lane's index: a warp has 32 lanes on every target.
pub const LANE_BITS: usize = 5;
/// Lanes of a warp.
pub const LANES: u32 = 1 << LANE_BITS;
/// The most dimensions a tile can have.
pub const MAX_DIMENSIONS: usize = 16;
/// The most elements a tile can have, as a power of two.
pub const MAX_ELEMENT_BITS: u32 = 20;
/// The most registers per thread, as a power of two: enough for one warp to hold the largest tile.
pub const MAX_REGISTER_BITS: usize = 15;
/// The most warps of a block, as a power of two.
pub const MAX_WARP_BITS: usize = 5;

/// Which element each register of each lane of each warp holds.
///
/// Register `r` of lane `l` of warp `w` holds the element whose coordinates are the xor of the basis vectors that the bits of
/// `r`, `l` and `w` select. A zero vector means that both values of that bit hold the same elements. Every element lies in at
/// least one place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TileLayout {
    shape: Vec<u32>,
    reg: Vec<Vec<u32>>,
    lane: Vec<Vec<u32>>,
    warp: Vec<Vec<u32>>,
}

/// What a register adds to the coordinates that its thread's lane and warp give.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RegisterOffset {
    /// The constant, to be combined by xor with the thread's part, per dimension.
    pub coordinates: Vec<u32>,
    /// Whether xor is addition here: in every dimension no thread's part shares a bit with the constant.
    pub additive: bool,
}

/// Which index bits repeat what the others already cover. Holding these bits at zero, the layout is one place per element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Replication {
    /// Bits of the register index.
    pub registers: u32,
    /// Bits of the lane: only lanes with all of these at zero need to store.
    pub lanes: u32,
    /// Bits of the warp.
    pub warps: u32,
}

impl Replication {
    /// Whether every element lies in exactly one place.
    pub fn is_none(&self) -> bool {
        self.registers == 0 && self.lanes == 0 && self.warps == 0
    }
}

impl TileLayout {
    /// A layout of a tile of `shape`, with one vector of coordinates per bit of the register, lane (five) and warp index.
    pub fn new(
        shape: Vec<u32>,
        reg: Vec<Vec<u32>>,
        lane: Vec<Vec<u32>>,
        warp: Vec<Vec<u32>>,
    ) -> Result<Self, LayoutError> {
        let elements = check_shape(&shape)?;
        if lane.len() != LANE_BITS {
            let reason = format!("{} vectors where a lane's index has {LANE_BITS} bits", lane.len());
            return Err(LayoutError::Basis { index: "lane", shape, reason });
        }
        for (index, bases, most) in
            [("reg", &reg, MAX_REGISTER_BITS), ("lane", &lane, LANE_BITS), ("warp", &warp, MAX_WARP_BITS)]
        {
            check_bases(index, &shape, bases, most)?;
        }
        let layout = Self { shape, reg, lane, warp };
        let covered = Span::of(&layout.columns()).rank();
        if covered != elements {
            return Err(LayoutError::NotSurjective { shape: layout.shape, covered, elements });
        }
        Ok(layout)
    }

    /// The tile's shape.
    pub fn shape(&self) -> &[u32] {
        &self.shape
    }

    /// The tile's number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The tile's number of elements.
    pub fn elements(&self) -> u32 {
        self.shape.iter().product()
    }

    /// The vector of each bit of the register index.
    pub fn register_bases(&self) -> &[Vec<u32>] {
        &self.reg
    }

    /// The vector of each of the five bits of the lane's index.
    pub fn lane_bases(&self) -> &[Vec<u32>] {
        &self.lane
    }

    /// The vector of each bit of the warp's index.
    pub fn warp_bases(&self) -> &[Vec<u32>] {
        &self.warp
    }

    /// Registers per thread, counted in elements.
    pub fn registers(&self) -> u32 {
        1 << self.reg.len()
    }

    /// Warps of the block.
    pub fn warps(&self) -> u32 {
        1 << self.warp.len()
    }

    /// Threads of the block.
    pub fn threads(&self) -> u32 {
        self.warps() * LANES
    }

    /// The coordinates of the element that a register holds. Indices count modulo their range.
    pub fn coordinates(&self, register: u32, lane: u32, warp: u32) -> Vec<u32> {
        let mut sum = vec![0; self.shape.len()];
        for (bases, index) in [(&self.reg, register), (&self.lane, lane), (&self.warp, warp)] {
            for (_, basis) in bases.iter().enumerate().filter(|(i, _)| index >> i & 1 == 1) {
                sum.iter_mut().zip(basis).for_each(|(s, b)| *s ^= b);
            }
        }
        sum
    }

    /// The row-major index, in the tile, of the element that a register holds.
    pub fn element(&self, register: u32, lane: u32, warp: u32) -> u32 {
        self.flatten(&self.coordinates(register, lane, warp))
    }

    /// The constant part of each register's coordinates, in order of registers.
    pub fn register_offsets(&self) -> Vec<RegisterOffset> {
        let thread_bits = self.thread_bits();
        (0..self.registers())
            .map(|register| {
                let coordinates = self.coordinates(register, 0, 0);
                let additive = coordinates.iter().zip(&thread_bits).all(|(c, t)| c & t == 0);
                RegisterOffset { coordinates, additive }
            })
            .collect()
    }

    /// The bits of each coordinate that depend on lane or warp.
    pub fn thread_bits(&self) -> Vec<u32> {
        let mut bits = vec![0; self.shape.len()];
        for basis in self.lane.iter().chain(&self.warp) {
            bits.iter_mut().zip(basis).for_each(|(t, b)| *t |= b);
        }
        bits
    }

    /// How a coordinate depends on the lane: terms to be combined by xor. Empty if `dim` is out of range or the lane does not matter.
    pub fn lane_terms(&self, dim: usize) -> Vec<ShiftTerm> {
        shift_terms(&component(&self.lane, dim))
    }

    /// How a coordinate depends on the warp: terms to be combined by xor.
    pub fn warp_terms(&self, dim: usize) -> Vec<ShiftTerm> {
        shift_terms(&component(&self.warp, dim))
    }

    /// Which bits of the indices repeat elements; registers come before lanes and lanes before warps in covering the tile.
    pub fn replication(&self) -> Replication {
        let mut span = Span::new();
        let mut repeats = |columns: Vec<u64>| {
            columns
                .iter()
                .enumerate()
                .filter(|(_, c)| span.push(**c, 0).is_some())
                .fold(0u32, |mask, (i, _)| mask | 1 << i)
        };
        Replication {
            registers: repeats(self.register_columns()),
            lanes: repeats(self.lane_columns()),
            warps: repeats(self.warp_columns()),
        }
    }

    /// The row-major index of coordinates in the tile; an isomorphism of bits.
    pub fn flatten(&self, coordinates: &[u32]) -> u32 {
        flatten(&self.shape, coordinates)
    }

    /// The coordinates of a row-major index in the tile.
    pub fn unflatten(&self, element: u32) -> Vec<u32> {
        unflatten(&self.shape, element)
    }

    /// Register vectors as row-major indices.
    pub(crate) fn register_columns(&self) -> Vec<u64> {
        self.reg.iter().map(|b| u64::from(self.flatten(b))).collect()
    }

    /// Lane vectors as row-major indices.
    pub(crate) fn lane_columns(&self) -> Vec<u64> {
        self.lane.iter().map(|b| u64::from(self.flatten(b))).collect()
    }

    /// Warp vectors as row-major indices.
    pub(crate) fn warp_columns(&self) -> Vec<u64> {
        self.warp.iter().map(|b| u64::from(self.flatten(b))).collect()
    }

    /// All vectors as row-major indices: register bits lowest, then lane, then warp.
    pub(crate) fn columns(&self) -> Vec<u64> {
        [self.register_columns(), self.lane_columns(), self.warp_columns()].concat()
    }

    /// The same layout with every vector replaced.
    pub(crate) fn map_bases(&self, shape: Vec<u32>, map: impl Fn(&[u32]) -> Vec<u32>) -> Result<Self, LayoutError> {
        let each = |bases: &[Vec<u32>]| bases.iter().map(|b| map(b)).collect();
        Self::new(shape, each(&self.reg), each(&self.lane), each(&self.warp))
    }
}

/// Coordinate `dim` of each vector.
fn component(bases: &[Vec<u32>], dim: usize) -> Vec<u32> {
    bases.iter().map(|b| b.get(dim).copied().unwrap_or(0)).collect()
}

/// Checks that a tile may have this shape; gives the bits of its elements.
pub(crate) fn check_shape(shape: &[u32]) -> Result<u32, LayoutError> {
    let fail = |reason: String| {
        Err(LayoutError::Shape { shape: shape.iter().copied().take(MAX_DIMENSIONS + 1).collect(), reason })
    };
    if shape.len() > MAX_DIMENSIONS {
        return fail(format!("{} dimensions, at most {MAX_DIMENSIONS} are allowed", shape.len()));
    }
    if let Some((dim, size)) = shape.iter().enumerate().find(|(_, size)| !size.is_power_of_two()) {
        return fail(format!("the size {size} of dimension {dim} is not a power of two"));
    }
    let bits: u32 = shape.iter().map(|size| size.trailing_zeros()).sum();
    if bits > MAX_ELEMENT_BITS {
        return fail(format!("2^{bits} elements, at most 2^{MAX_ELEMENT_BITS} are allowed"));
    }
    Ok(bits)
}

/// Checks that there are at most `most` vectors and that each is a vector of coordinates of the tile.
pub(crate) fn check_bases(
    index: &'static str,
    shape: &[u32],
    bases: &[Vec<u32>],
    most: usize,
) -> Result<(), LayoutError> {
    let fail = |reason: String| Err(LayoutError::Basis { index, shape: shape.to_vec(), reason });
    if bases.len() > most {
        return fail(format!("{} vectors, at most {most} are allowed", bases.len()));
    }
    for (i, basis) in bases.iter().enumerate() {
        if basis.len() != shape.len() {
            return fail(format!(
                "vector {i} has {} coordinates where the tile has {} dimensions",
                basis.len(),
                shape.len()
            ));
        }
        if let Some(dim) = (0..shape.len()).find(|&d| basis[d] >= shape[d]) {
            return fail(format!(
                "coordinate {} of vector {i} lies outside dimension {dim} of size {}",
                basis[dim], shape[dim]
            ));
        }
    }
    Ok(())
}

/// The row-major index of coordinates in a valid shape.
pub(crate) fn flatten(shape: &[u32], coordinates: &[u32]) -> u32 {
    shape.iter().zip(coordinates).fold(0, |index, (size, c)| index * size + c)
}

/// The coordinates of a row-major index in a valid shape.
pub(crate) fn unflatten(shape: &[u32], mut element: u32) -> Vec<u32> {
    let mut coordinates = vec![0; shape.len()];
    for (c, size) in coordinates.iter_mut().zip(shape).rev() {
        *c = element % size;
        element /= size;
    }
    coordinates
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{random_layout, seeds};
    use proptest::prelude::*;

    fn vectors(bases: &[&[u32]]) -> Vec<Vec<u32>> {
        bases.iter().map(|b| b.to_vec()).collect()
    }

    fn rows_of_lanes() -> TileLayout {
        TileLayout::new(
            vec![8, 16],
            vectors(&[&[0, 1], &[4, 0]]),
            vectors(&[&[0, 2], &[0, 4], &[0, 8], &[1, 0], &[2, 0]]),
            vectors(&[&[0, 0]]),
        )
        .unwrap()
    }

    #[test]
    fn coordinates_are_sums_of_bases() {
        let layout = rows_of_lanes();
        assert_eq!((layout.registers(), layout.warps(), layout.threads(), layout.elements()), (4, 2, 64, 128));
        assert_eq!(layout.coordinates(3, 0b01010, 1), vec![5, 5]);
        assert_eq!(layout.element(3, 0b01010, 1), 5 * 16 + 5);
        assert_eq!(layout.unflatten(85), vec![5, 5]);
        assert_eq!(layout.replication(), Replication { registers: 0, lanes: 0, warps: 1 });
    }

    #[test]
    fn constants_of_registers() {
        let offsets = rows_of_lanes().register_offsets();
        assert_eq!(
            offsets.iter().map(|o| o.coordinates.clone()).collect::<Vec<_>>(),
            vectors(&[&[0, 0], &[0, 1], &[4, 0], &[4, 1]])
        );
        assert!(offsets.iter().all(|o| o.additive));
        // Register bit and lane bit share a coordinate bit: xor is not addition.
        let lane = vectors(&[&[1], &[2], &[4], &[8], &[16]]);
        let mixed = TileLayout::new(vec![64], vectors(&[&[33]]), lane, vec![]).unwrap();
        assert_eq!(mixed.register_offsets().iter().map(|o| o.additive).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn scalars_are_tiles() {
        let layout = TileLayout::new(vec![], vec![], vec![vec![]; 5], vec![vec![]]).unwrap();
        assert_eq!((layout.elements(), layout.registers(), layout.element(0, 7, 1)), (1, 1, 0));
        assert_eq!(layout.replication(), Replication { registers: 0, lanes: 31, warps: 1 });
    }

    #[test]
    fn refusals() {
        let zero = |rank: usize| vec![vec![0; rank]; 5];
        let code = |r: Result<TileLayout, LayoutError>| r.map_err(|e| e.code()).unwrap_err();
        assert_eq!(code(TileLayout::new(vec![3], vec![], zero(1), vec![])), "E0481");
        assert_eq!(code(TileLayout::new(vec![0], vec![], zero(1), vec![])), "E0481");
        assert_eq!(code(TileLayout::new(vec![1; 17], vec![], zero(17), vec![])), "E0481");
        assert_eq!(code(TileLayout::new(vec![1 << 11, 1 << 10], vec![], zero(2), vec![])), "E0481");
        assert_eq!(code(TileLayout::new(vec![1 << 31, 1 << 31], vec![], zero(2), vec![])), "E0481");
        assert_eq!(code(TileLayout::new(vec![1], vec![], vec![vec![0]; 4], vec![])), "E0482");
        assert_eq!(code(TileLayout::new(vec![2], vec![vec![2]], zero(1), vec![])), "E0482");
        assert_eq!(code(TileLayout::new(vec![2], vec![vec![1, 0]], zero(1), vec![])), "E0482");
        assert_eq!(code(TileLayout::new(vec![2], vec![vec![1]; 16], zero(1), vec![])), "E0482");
        assert_eq!(code(TileLayout::new(vec![2], vec![vec![1]], zero(1), vec![vec![0]; 6])), "E0482");
        assert_eq!(code(TileLayout::new(vec![2], vec![], zero(1), vec![])), "E0483");
    }

    proptest! {
        #[test]
        fn replication_leaves_one_place_per_element(seed in seeds()) {
            let layout = random_layout(seed);
            let free = layout.replication();
            let mut places = vec![0; layout.elements() as usize];
            for w in (0..layout.warps()).filter(|w| w & free.warps == 0) {
                for l in (0..LANES).filter(|l| l & free.lanes == 0) {
                    for r in (0..layout.registers()).filter(|r| r & free.registers == 0) {
                        places[layout.element(r, l, w) as usize] += 1;
                    }
                }
            }
            prop_assert!(places.iter().all(|&p| p == 1));
        }

        #[test]
        fn terms_and_constants_give_coordinates(seed in seeds()) {
            let layout = random_layout(seed);
            let offsets = layout.register_offsets();
            for w in 0..layout.warps() {
                for l in 0..LANES {
                    let thread: Vec<u32> = (0..layout.rank()).map(|d| {
                        let lanes = layout.lane_terms(d).iter().fold(0, |s, t| s ^ t.apply(l));
                        layout.warp_terms(d).iter().fold(lanes, |s, t| s ^ t.apply(w))
                    }).collect();
                    for (r, offset) in offsets.iter().enumerate() {
                        let xored: Vec<u32> = thread.iter().zip(&offset.coordinates).map(|(a, b)| a ^ b).collect();
                        prop_assert_eq!(&xored, &layout.coordinates(r as u32, l, w));
                        if offset.additive {
                            let added: Vec<u32> = thread.iter().zip(&offset.coordinates).map(|(a, b)| a + b).collect();
                            prop_assert_eq!(&xored, &added);
                        }
                    }
                }
            }
        }
    }
}
