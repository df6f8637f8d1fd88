//! Types of the hw dialect as Rust data.
//!
//! MLIR's C interface has no accessors for a dialect's own parameters; the printed form is the interface, and [`tenon_layout`] reads layouts.
//! Element types are signless: the signedness of integers is in the operations, as in `arith`.

use tenon_ir::{Context, Type};
use tenon_layout::{SharedLayout, TileLayout};
use tenon_tensor::DType;

use crate::HwError;

/// `!hw.tile<[shape] x element, layout>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TileType {
    /// Element type; integers signless, spelled as signed.
    pub element: DType,
    /// Shape and distribution.
    pub layout: TileLayout,
}

/// `!hw.shared<slots x [shape] x element, layout>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SharedType {
    /// How many tiles lie one after another.
    pub slots: u32,
    /// Element type.
    pub element: DType,
    /// Shape and place of elements.
    pub layout: SharedLayout,
}

impl TileType {
    /// A tile type.
    pub fn new(element: DType, layout: TileLayout) -> Self {
        TileType { element, layout }
    }

    /// Sizes of the tile.
    pub fn shape(&self) -> &[u32] {
        self.layout.shape()
    }

    /// The same places with another element type.
    pub fn with_element(&self, element: DType) -> Self {
        TileType { element, layout: self.layout.clone() }
    }

    /// The MLIR type.
    pub fn to_type<'s>(&self, context: Context<'s>) -> Result<Type<'s>, HwError> {
        let text = format!("!hw.tile<{:?} x {}, <{}>>", self.shape(), self.element, self.layout);
        Ok(context.parse_type(&text)?)
    }

    /// Reads an MLIR type.
    pub fn read(ty: Type<'_>) -> Result<Self, HwError> {
        let text = ty.to_string();
        let parse = || -> Option<Self> {
            let inner = text.strip_prefix("!hw.tile<")?.strip_suffix('>')?;
            let (shape, rest) = split_shape(inner)?;
            let (element, layout) = rest.split_once(',')?;
            let layout = strip_layout(layout)?;
            Some(TileType { element: element.trim().parse().ok()?, layout: TileLayout::parse(&shape, layout).ok()? })
        };
        parse().ok_or_else(|| HwError::Type { expected: "a tile with a layout that covers it", found: text.clone() })
    }
}

impl SharedType {
    /// Bytes of all slots.
    pub fn bytes(&self) -> u64 {
        u64::from(self.slots) * u64::from(self.layout.elements()) * self.element.size() as u64
    }

    /// The MLIR type.
    pub fn to_type<'s>(&self, context: Context<'s>) -> Result<Type<'s>, HwError> {
        let text = format!(
            "!hw.shared<{} x {:?} x {}, <offset = {:?}>>",
            self.slots,
            self.layout.shape(),
            self.element,
            self.layout.bases()
        );
        Ok(context.parse_type(&text)?)
    }

    /// Reads an MLIR type.
    pub fn read(ty: Type<'_>) -> Result<Self, HwError> {
        let text = ty.to_string();
        let parse = || -> Option<Self> {
            let inner = text.strip_prefix("!hw.shared<")?.strip_suffix('>')?;
            let (slots, rest) = inner.split_once('x')?;
            let (shape, rest) = split_shape(rest)?;
            let (element, layout) = rest.split_once(',')?;
            let layout = strip_layout(layout)?;
            Some(SharedType {
                slots: slots.trim().parse().ok()?,
                element: element.trim().parse().ok()?,
                layout: SharedLayout::parse(&shape, layout).ok()?,
            })
        };
        parse().ok_or_else(|| HwError::Type {
            expected: "shared memory with a layout that covers it",
            found: text.clone(),
        })
    }
}

/// `!hw.tensor_map<[box] x element, swizzle>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorMapType {
    /// Element type.
    pub element: DType,
    /// Sizes of the box that one instruction copies, innermost first.
    pub tile: Vec<u32>,
    /// Width in bytes of the swizzle in shared memory.
    pub swizzle: u32,
}

impl TensorMapType {
    /// Elements of a box.
    pub fn elements(&self) -> u64 {
        self.tile.iter().map(|size| u64::from(*size)).product()
    }

    /// The MLIR type.
    pub fn to_type<'s>(&self, context: Context<'s>) -> Result<Type<'s>, HwError> {
        Ok(context.parse_type(&format!("!hw.tensor_map<{:?} x {}, {}>", self.tile, self.element, self.swizzle))?)
    }

    /// Reads an MLIR type.
    pub fn read(ty: Type<'_>) -> Result<Self, HwError> {
        let text = ty.to_string();
        let parse = || -> Option<Self> {
            let inner = text.strip_prefix("!hw.tensor_map<")?.strip_suffix('>')?;
            let (tile, rest) = split_shape(inner)?;
            let (element, swizzle) = rest.split_once(',')?;
            Some(TensorMapType { element: element.trim().parse().ok()?, tile, swizzle: swizzle.trim().parse().ok()? })
        };
        parse().ok_or_else(|| HwError::Type { expected: "a tensor map", found: text.clone() })
    }
}

/// The number of barriers of `!hw.mbarriers<count>`.
pub fn read_mbarriers(ty: Type<'_>) -> Result<u32, HwError> {
    let text = ty.to_string();
    let count = text.strip_prefix("!hw.mbarriers<").and_then(|rest| rest.strip_suffix('>')?.parse().ok());
    count.ok_or_else(|| HwError::Type { expected: "barriers in shared memory", found: text.clone() })
}

/// `[8, 16] x f32, …` into the shape and what follows the `x`.
fn split_shape(text: &str) -> Option<(Vec<u32>, &str)> {
    let (shape, rest) = text.trim().strip_prefix('[')?.split_once(']')?;
    let shape = shape.split(',').map(|size| size.trim().parse().ok()).collect::<Option<Vec<u32>>>()?;
    Some((shape, rest.trim().strip_prefix('x')?))
}

/// The body of a layout printed as `<…>` or `#hw.layout<…>`.
fn strip_layout(text: &str) -> Option<&str> {
    let text = text.trim();
    let text = text.strip_prefix("#hw.layout").or_else(|| text.strip_prefix("#hw.shared_layout")).unwrap_or(text);
    text.strip_prefix('<')?.strip_suffix('>')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tenon_ir::Session;
    use tenon_layout::MmaShape;

    #[test]
    fn types_round_trip() {
        let session = Session::new();
        let mma = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 };
        let tile = TileType::new(DType::F16, mma.operand_a([64, 32], [2, 2]).unwrap());
        let ty = tile.to_type(session.context()).unwrap();
        assert_eq!(TileType::read(ty).unwrap(), tile);
        let shared =
            SharedType { slots: 3, element: DType::F16, layout: SharedLayout::row_major(&[64, 32], &[1, 0]).unwrap() };
        let ty = shared.to_type(session.context()).unwrap();
        assert_eq!(SharedType::read(ty).unwrap(), shared);
        assert_eq!(TileType::read(session.context().i32_type()).unwrap_err().code(), "E0321");
        let map = TensorMapType { element: DType::BF16, tile: vec![64, 128, 1], swizzle: 128 };
        assert_eq!(TensorMapType::read(map.to_type(session.context()).unwrap()).unwrap(), map);
        assert_eq!(TensorMapType::read(ty).unwrap_err().code(), "E0321");
        let barriers = session.context().parse_type("!hw.mbarriers<3>").unwrap();
        assert_eq!(read_mbarriers(barriers).unwrap(), 3);
        assert_eq!(read_mbarriers(ty).unwrap_err().code(), "E0321");
    }
}
