//! Element types.
//!
//! The names are those of the command and of dumps (`f16`, `i64`, `ui8`, …): MLIR's builtin spelling, signless integers being signed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Element type of a tensor.
///
/// Integers narrower than eight bits and the narrow floats are held on the host one element a byte, in the low bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    F16,
    BF16,
    F32,
    F64,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F4E2M1FN,
    Complex64,
    Complex128,
}

/// Kind of number a [`DType`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberKind {
    /// `i1`.
    Bool,
    /// Two's complement.
    SignedInteger,
    /// Modulo 2ⁿ.
    UnsignedInteger,
    /// Binary floating point of any width.
    Float,
    /// Pair of floats.
    Complex,
}

const TABLE: &[(DType, &str, u32, NumberKind)] = {
    use DType::*;
    use NumberKind::*;
    &[
        (DType::Bool, "i1", 1, NumberKind::Bool),
        (I2, "i2", 2, SignedInteger),
        (I4, "i4", 4, SignedInteger),
        (I8, "i8", 8, SignedInteger),
        (I16, "i16", 16, SignedInteger),
        (I32, "i32", 32, SignedInteger),
        (I64, "i64", 64, SignedInteger),
        (U2, "ui2", 2, UnsignedInteger),
        (U4, "ui4", 4, UnsignedInteger),
        (U8, "ui8", 8, UnsignedInteger),
        (U16, "ui16", 16, UnsignedInteger),
        (U32, "ui32", 32, UnsignedInteger),
        (U64, "ui64", 64, UnsignedInteger),
        (F16, "f16", 16, Float),
        (BF16, "bf16", 16, Float),
        (F32, "f32", 32, Float),
        (F64, "f64", 64, Float),
        (F8E4M3FN, "f8E4M3FN", 8, Float),
        (F8E4M3FNUZ, "f8E4M3FNUZ", 8, Float),
        (F8E5M2, "f8E5M2", 8, Float),
        (F8E5M2FNUZ, "f8E5M2FNUZ", 8, Float),
        (F8E8M0FNU, "f8E8M0FNU", 8, Float),
        (F4E2M1FN, "f4E2M1FN", 4, Float),
        (Complex64, "complex<f32>", 64, Complex),
        (Complex128, "complex<f64>", 128, Complex),
    ]
};

impl DType {
    /// All element types.
    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> &'static (DType, &'static str, u32, NumberKind) {
        TABLE.iter().find(|row| row.0 == self).expect("every dtype has a row")
    }

    /// MLIR's spelling: `f32`, `i64`, `ui8`, `i1`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Width in bits of the value itself.
    pub fn bits(self) -> u32 {
        self.row().2
    }

    /// Bytes that one element takes in host and device memory (narrower than eight bits: one).
    pub fn size(self) -> usize {
        (self.bits() as usize).div_ceil(8)
    }

    /// Kind of number.
    pub fn kind(self) -> NumberKind {
        self.row().3
    }

    /// Whether this is a float of any width.
    pub fn is_float(self) -> bool {
        self.kind() == NumberKind::Float
    }

    /// Whether this is a signed or unsigned integer; `i1` is not.
    pub fn is_integer(self) -> bool {
        matches!(self.kind(), NumberKind::SignedInteger | NumberKind::UnsignedInteger)
    }

    /// Whether this is a signed integer.
    pub fn is_signed(self) -> bool {
        self.kind() == NumberKind::SignedInteger
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no element type.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is no element type")]
pub struct UnknownDType(pub String);

impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(name: &str) -> Result<Self, UnknownDType> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0).ok_or_else(|| UnknownDType(name.to_owned()))
    }
}

impl Serialize for DType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for DType {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for dtype in DType::all() {
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
        assert!("float".parse::<DType>().is_err());
    }
}
