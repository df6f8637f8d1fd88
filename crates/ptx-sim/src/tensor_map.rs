//! Tensor maps (PTX ISA 5.5.8): what a bulk tensor copy knows of a tensor in global memory.
//!
//! A tensor map is 128 opaque bytes. The encoding is the simulator's own, not the hardware's: maps are made by [`TensorMap::encode`] for a
//! simulated device, or by a kernel with `tensormap.replace`, for which a map of zero bytes is one with nothing set.

use crate::error::Error;

/// Bytes of a tensor map.
pub const TENSOR_MAP_BYTES: usize = 128;
/// Most dimensions of a tensor.
const RANK_LIMIT: usize = 5;

/// Element type of a tensor, in the order of `tensormap.replace.tile.elemtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum TensorElement {
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    F16,
    F32,
    /// Subnormal values become zero.
    F32Flushed,
    F64,
    Bf16,
    /// f32 whose low 13 bits become zero.
    Tf32,
    /// As [`TensorElement::Tf32`], and subnormal values become zero.
    Tf32Flushed,
}

impl TensorElement {
    const ALL: [TensorElement; 13] = {
        use TensorElement::*;
        [U8, U16, U32, S32, U64, S64, F16, F32, F32Flushed, F64, Bf16, Tf32, Tf32Flushed]
    };

    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        use TensorElement::*;
        match self {
            U8 => 1,
            U16 | F16 | Bf16 => 2,
            U32 | S32 | F32 | F32Flushed | Tf32 | Tf32Flushed => 4,
            U64 | S64 | F64 => 8,
        }
    }

    fn is_float(self) -> bool {
        use TensorElement::*;
        matches!(self, F16 | F32 | F32Flushed | F64 | Bf16 | Tf32 | Tf32Flushed)
    }
}

/// How 16-byte pieces of a box are permuted in shared memory: bits 4 and up of their address are exclusive-ored with bits 7 and up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorSwizzle {
    /// As they come.
    None,
    /// Two pieces, in a pattern of 256 bytes.
    Bytes32,
    /// Four pieces, in a pattern of 512 bytes.
    Bytes64,
    /// Eight pieces, in a pattern of 1024 bytes.
    Bytes128,
}

impl TensorSwizzle {
    const ALL: [TensorSwizzle; 4] =
        [TensorSwizzle::None, TensorSwizzle::Bytes32, TensorSwizzle::Bytes64, TensorSwizzle::Bytes128];

    /// Bytes that a row of the box must have; 0 for any number.
    pub fn span(self) -> u32 {
        match self {
            TensorSwizzle::None => 0,
            TensorSwizzle::Bytes32 => 32,
            TensorSwizzle::Bytes64 => 64,
            TensorSwizzle::Bytes128 => 128,
        }
    }

    /// Where an address in shared memory is moved to.
    pub(crate) fn apply(self, address: u32) -> u32 {
        let mask = match self {
            TensorSwizzle::None => 0,
            TensorSwizzle::Bytes32 => 1,
            TensorSwizzle::Bytes64 => 3,
            TensorSwizzle::Bytes128 => 7,
        };
        address ^ (address >> 7 & mask) << 4
    }
}

/// What a load finds outside the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorFill {
    /// Zero.
    Zero,
    /// Not-a-number, for element types of floating point.
    NotANumber,
}

/// What a tensor map says. Dimensions are given innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapConfig {
    /// Type of the elements.
    pub element: TensorElement,
    /// Address of the first element; a multiple of 16.
    pub address: u64,
    /// Elements of each dimension, one to five of them.
    pub sizes: Vec<u32>,
    /// Bytes between elements of each dimension but the innermost, which is dense; multiples of 16 below 2^40.
    pub strides: Vec<u64>,
    /// Elements of the box in each dimension, before element strides; at most 256.
    pub box_sizes: Vec<u32>,
    /// Every how many elements one is copied, in each dimension; 1 to 8, 1 in the innermost.
    pub element_strides: Vec<u32>,
    /// Permutation in shared memory.
    pub swizzle: TensorSwizzle,
    /// Values outside the tensor.
    pub fill: TensorFill,
}

/// An encoded tensor map: an argument of a kernel ([`crate::Argument::TensorMap`]), or bytes to write to global memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap([u8; TENSOR_MAP_BYTES]);

impl TensorMap {
    /// Encodes a tensor map.
    ///
    /// # Errors
    /// [`Error::TensorMap`] when the fields do not fit together: ranks that differ, sizes, strides or an address out of their ranges, a row
    /// of the box that is no multiple of 16 bytes or not the span of the swizzle.
    pub fn encode(config: &TensorMapConfig) -> Result<TensorMap, Error> {
        let rank = config.sizes.len();
        let lengths = [config.strides.len() + 1, config.box_sizes.len(), config.element_strides.len()];
        if rank == 0 || rank > RANK_LIMIT || lengths != [rank; 3] {
            return Err(Error::TensorMap(format!(
                "{rank} sizes, {} strides, {} sizes of the box, {} element strides: one to five dimensions, one stride less",
                config.strides.len(),
                config.box_sizes.len(),
                config.element_strides.len()
            )));
        }
        let mut bytes = [0; TENSOR_MAP_BYTES];
        let position = |p: Option<usize>| p.unwrap_or(0) as u64;
        Field::Address.put(&mut bytes, 0, config.address);
        Field::Rank.put(&mut bytes, 0, rank as u64 - 1);
        Field::Element.put(&mut bytes, 0, position(TensorElement::ALL.iter().position(|e| *e == config.element)));
        Field::Swizzle.put(&mut bytes, 0, position(TensorSwizzle::ALL.iter().position(|s| *s == config.swizzle)));
        Field::Fill.put(&mut bytes, 0, u64::from(config.fill == TensorFill::NotANumber));
        for d in 0..rank {
            Field::Size.put(&mut bytes, d, u64::from(config.sizes[d]));
            Field::Box.put(&mut bytes, d, u64::from(config.box_sizes[d]));
            Field::ElementStride.put(&mut bytes, d, u64::from(config.element_strides[d]));
            if d > 0 {
                Field::Stride.put(&mut bytes, d - 1, config.strides[d - 1]);
            }
        }
        match Decoded::new(&bytes) {
            Ok(_) => Ok(TensorMap(bytes)),
            Err(message) => Err(Error::TensorMap(message)),
        }
    }

    /// The 128 bytes.
    pub fn bytes(&self) -> &[u8; TENSOR_MAP_BYTES] {
        &self.0
    }
}

/// A field of the encoding, little-endian.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Field {
    Address,
    /// One less than the number of dimensions.
    Rank,
    Size,
    Stride,
    Box,
    ElementStride,
    Element,
    Interleave,
    Swizzle,
    SwizzleAtomicity,
    Fill,
}

impl Field {
    /// Offset, bytes of a value, and how many there are.
    fn place(self) -> (usize, usize, usize) {
        match self {
            Field::Address => (0, 8, 1),
            Field::Stride => (8, 8, RANK_LIMIT - 1),
            Field::Size => (40, 4, RANK_LIMIT),
            Field::Box => (60, 4, RANK_LIMIT),
            Field::ElementStride => (80, 4, RANK_LIMIT),
            Field::Rank => (100, 4, 1),
            Field::Element => (104, 4, 1),
            Field::Interleave => (108, 4, 1),
            Field::Swizzle => (112, 4, 1),
            Field::SwizzleAtomicity => (116, 4, 1),
            Field::Fill => (120, 4, 1),
        }
    }

    /// How many values it has.
    pub(crate) fn count(self) -> usize {
        self.place().2
    }

    /// Whether a value has 64 bits.
    pub(crate) fn is_wide(self) -> bool {
        self.place().1 == 8
    }

    pub(crate) fn put(self, map: &mut [u8; TENSOR_MAP_BYTES], index: usize, value: u64) {
        let (at, bytes, _) = self.place();
        let at = at + bytes * index;
        map[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }

    fn get(self, map: &[u8; TENSOR_MAP_BYTES], index: usize) -> u64 {
        let (at, bytes, _) = self.place();
        let at = at + bytes * index;
        map[at..at + bytes].iter().rev().fold(0, |all, &b| all << 8 | u64::from(b))
    }
}

/// A tensor map that holds together.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    pub element: TensorElement,
    pub address: u64,
    pub rank: usize,
    pub sizes: [u32; RANK_LIMIT],
    /// Bytes between elements; the first is the size of one.
    pub strides: [u64; RANK_LIMIT],
    /// Elements that are copied in each dimension.
    pub counts: [u32; RANK_LIMIT],
    pub element_strides: [u32; RANK_LIMIT],
    pub swizzle: TensorSwizzle,
    pub fill: TensorFill,
}

impl Decoded {
    /// Reads and checks a map; `Err` says what is wrong with it.
    pub(crate) fn new(map: &[u8; TENSOR_MAP_BYTES]) -> Result<Decoded, String> {
        let one = |f: Field| f.get(map, 0);
        let rank = one(Field::Rank) as usize + 1;
        if rank > RANK_LIMIT {
            return Err(format!("a tensor has one to five dimensions, not {rank}"));
        }
        let Some(&element) = TensorElement::ALL.get(one(Field::Element) as usize) else {
            return Err(format!("element type {} is not supported", one(Field::Element)));
        };
        let Some(&swizzle) = TensorSwizzle::ALL.get(one(Field::Swizzle) as usize) else {
            return Err(format!("swizzle mode {} is not supported", one(Field::Swizzle)));
        };
        if one(Field::Interleave) != 0 || one(Field::SwizzleAtomicity) != 0 {
            return Err("an interleaved layout or a swizzle atomicity other than 16 bytes is not supported".into());
        }
        let fill = match one(Field::Fill) {
            0 => TensorFill::Zero,
            1 if element.is_float() => TensorFill::NotANumber,
            fill => return Err(format!("fill mode {fill} does not fit the element type {element:?}")),
        };
        let address = one(Field::Address);
        if !address.is_multiple_of(16) || address == 0 {
            return Err(format!("the tensor's address {address:#x} is no multiple of 16, or null"));
        }
        let mut out = Decoded {
            element,
            address,
            rank,
            sizes: [1; RANK_LIMIT],
            strides: [u64::from(element.bytes()); RANK_LIMIT],
            counts: [1; RANK_LIMIT],
            element_strides: [1; RANK_LIMIT],
            swizzle,
            fill,
        };
        for d in 0..rank {
            let size = Field::Size.get(map, d);
            if size == 0 {
                return Err(format!("dimension {d} has no elements"));
            }
            out.sizes[d] = size as u32;
            let (boxed, step) = (Field::Box.get(map, d), Field::ElementStride.get(map, d));
            if boxed == 0 || boxed > 256 {
                return Err(format!("the box has {boxed} elements in dimension {d}: it must be 1 to 256"));
            }
            if step == 0 || step > 8 || d == 0 && step != 1 {
                return Err(format!("the element stride of dimension {d} is {step}: 1 to 8, in the innermost 1"));
            }
            out.element_strides[d] = step as u32;
            out.counts[d] = boxed.div_ceil(step) as u32;
            if d > 0 {
                let stride = Field::Stride.get(map, d - 1);
                if !stride.is_multiple_of(16) || stride >= 1 << 40 {
                    return Err(format!("the stride of dimension {d} is {stride} bytes: a multiple of 16 below 2^40"));
                }
                out.strides[d] = stride;
            }
        }
        let row = out.row_bytes();
        if !row.is_multiple_of(16) {
            return Err(format!("a row of the box has {row} bytes: it must be a multiple of 16"));
        }
        if swizzle != TensorSwizzle::None && row != swizzle.span() {
            return Err(format!("a row of the box has {row} bytes, the swizzle needs {}", swizzle.span()));
        }
        Ok(out)
    }

    /// Bytes of a row of the box.
    pub(crate) fn row_bytes(&self) -> u32 {
        self.counts[0] * self.element.bytes()
    }

    /// Rows of the box.
    pub(crate) fn rows(&self) -> u64 {
        self.counts[1..].iter().map(|&n| u64::from(n)).product()
    }

    /// Global address of the first byte of a row, and the part of the row that lies inside the tensor, in elements; for coordinates of the
    /// box's first element.
    pub(crate) fn row(&self, row: u32, coordinates: &[i32; RANK_LIMIT]) -> (u64, std::ops::Range<u32>) {
        let mut rest = row;
        let mut address = self.address;
        let mut inside = true;
        for d in 1..self.rank {
            let index = rest % self.counts[d];
            rest /= self.counts[d];
            let at = i64::from(coordinates[d]) + i64::from(index * self.element_strides[d]);
            inside &= at >= 0 && at < i64::from(self.sizes[d]);
            address = address.wrapping_add((at as u64).wrapping_mul(self.strides[d]));
        }
        let first = i64::from(coordinates[0]);
        let low = (-first).clamp(0, i64::from(self.counts[0])) as u32;
        let high = (i64::from(self.sizes[0]) - first).clamp(i64::from(low), i64::from(self.counts[0])) as u32;
        let range = if inside { low..high } else { 0..0 };
        (address.wrapping_add((first as u64).wrapping_mul(u64::from(self.element.bytes()))), range)
    }

    /// Bytes of an element outside the tensor.
    pub(crate) fn outside(&self) -> [u8; 8] {
        use TensorElement::*;
        let bits: u64 = match (self.fill, self.element) {
            (TensorFill::Zero, _) => 0,
            (_, F16 | Bf16) => 0x7fff,
            (_, F64) => 0x7fff_ffff_ffff_ffff,
            _ => 0x7fff_ffff,
        };
        bits.to_le_bytes()
    }

    /// What a load makes of elements of the tensor.
    pub(crate) fn convert(&self, data: &mut [u8]) {
        use TensorElement::*;
        let (flush, cut) = match self.element {
            F32Flushed => (true, false),
            Tf32 => (false, true),
            Tf32Flushed => (true, true),
            _ => return,
        };
        for word in data.chunks_exact_mut(4) {
            let mut bits = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            if flush && bits & 0x7f80_0000 == 0 {
                bits &= 0x8000_0000;
            }
            if cut {
                bits &= 0xffff_e000;
            }
            word.copy_from_slice(&bits.to_le_bytes());
        }
    }
}
