//! Fundamental types as modifiers name them.

/// Type modifier of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
    Tf32,
    U4,
    S4,
    E4m3,
    E5m2,
}

impl Type {
    pub(crate) fn parse(name: &str) -> Option<Type> {
        use Type::*;
        Some(match name {
            "pred" => Pred,
            "b8" => B8,
            "b16" => B16,
            "b32" => B32,
            "b64" => B64,
            "b128" => B128,
            "u8" => U8,
            "u16" => U16,
            "u32" => U32,
            "u64" => U64,
            "s8" => S8,
            "s16" => S16,
            "s32" => S32,
            "s64" => S64,
            "f16" => F16,
            "f16x2" => F16x2,
            "bf16" => Bf16,
            "bf16x2" => Bf16x2,
            "f32" => F32,
            "f64" => F64,
            "tf32" => Tf32,
            "u4" => U4,
            "s4" => S4,
            "e4m3" => E4m3,
            "e5m2" => E5m2,
            _ => return None,
        })
    }

    pub(crate) fn bits(self) -> u32 {
        use Type::*;
        match self {
            Pred => 1,
            U4 | S4 => 4,
            B8 | U8 | S8 | E4m3 | E5m2 => 8,
            B16 | U16 | S16 | F16 | Bf16 => 16,
            B32 | U32 | S32 | F16x2 | Bf16x2 | F32 | Tf32 => 32,
            B64 | U64 | S64 | F64 => 64,
            B128 => 128,
        }
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Type::S4 | Type::S8 | Type::S16 | Type::S32 | Type::S64)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 | Type::F32 | Type::F64 | Type::Tf32)
    }

    pub(crate) fn is_integer(self) -> bool {
        use Type::*;
        matches!(self, U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64)
    }

    pub(crate) fn is_bits(self) -> bool {
        matches!(self, Type::B8 | Type::B16 | Type::B32 | Type::B64)
    }
}
