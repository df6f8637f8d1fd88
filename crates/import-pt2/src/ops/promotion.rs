//! Element types of mixed operands. Source: `torch.result_type`: numbers and scalars decide only where they are of a higher kind.

use tenon_tensor::{DType, NumberKind};

use crate::error::OpError;
use crate::import::op::OpImport;
use tenon_graph_builder::Handle;

fn rank(dtype: DType) -> u8 {
    match dtype.kind() {
        NumberKind::Bool => 0,
        NumberKind::SignedInteger | NumberKind::UnsignedInteger => 1,
        NumberKind::Float => 2,
        NumberKind::Complex => 3,
    }
}

/// The type that holds both.
pub(crate) fn promote(a: DType, b: DType) -> DType {
    if a == b {
        return a;
    }
    if rank(a) != rank(b) {
        let (high, low) = if rank(a) > rank(b) { (a, b) } else { (b, a) };
        return if high == DType::Complex64 && low == DType::F64 { DType::Complex128 } else { high };
    }
    if rank(a) == 2 {
        // f16 and bf16 hold none of each other.
        return if a.bits() == b.bits() {
            DType::F32
        } else if a.bits() > b.bits() {
            a
        } else {
            b
        };
    }
    match (a.is_signed(), b.is_signed()) {
        (x, y) if x == y => {
            if a.bits() > b.bits() {
                a
            } else {
                b
            }
        }
        (signed, _) => {
            let (signed, unsigned) = if signed { (a, b) } else { (b, a) };
            match unsigned.bits() < signed.bits() {
                true => signed,
                false => match unsigned.bits() {
                    8 => DType::I16,
                    16 => DType::I32,
                    _ => DType::I64,
                },
            }
        }
    }
}

/// `higher` decides unless `lower` is of a higher kind.
fn combine(higher: Option<DType>, lower: Option<DType>) -> Option<DType> {
    match (higher, lower) {
        (Some(higher), Some(lower)) => Some(match (rank(higher), rank(lower)) {
            (3, _) => higher,
            (2, 3) => {
                if higher == DType::F64 {
                    DType::Complex128
                } else {
                    DType::Complex64
                }
            }
            (2, _) => higher,
            (0, _) | (_, 2..) => promote(higher, lower),
            _ => higher,
        }),
        (one, other) => one.or(other),
    }
}

impl OpImport<'_, '_, '_> {
    /// The type of an operation on tensor arguments, of which some may be given as numbers.
    pub(crate) fn result_type(&mut self, names: &[&str]) -> Result<DType, OpError> {
        let (mut tensors, mut scalars, mut numbers) = (None, None, None);
        let join =
            |slot: &mut Option<DType>, dtype: DType| *slot = Some(slot.map_or(dtype, |known| promote(known, dtype)));
        for name in names {
            if self.is_number(name) {
                join(&mut numbers, self.scalar_argument(name)?.dtype());
                continue;
            }
            let handle = self.tensor(name)?;
            let slot = if self.rank(handle) == 0 { &mut scalars } else { &mut tensors };
            let dtype = self.element(handle);
            join(slot, dtype);
        }
        let combined = combine(tensors, combine(scalars, numbers));
        combined.ok_or_else(|| self.invalid("there is no operand"))
    }

    /// A tensor or number argument in an element type.
    pub(crate) fn operand(&mut self, name: &str, dtype: DType) -> Result<Handle, OpError> {
        if self.is_number(name) {
            let scalar = self.scalar_argument(name)?;
            return self.scalar_tensor(&scalar, dtype);
        }
        let handle = self.tensor(name)?;
        Ok(self.cast(handle, dtype)?)
    }
}

/// The type that a float operation of one operand computes a type in: integers become f32.
pub(crate) fn float_of(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::F32 }
}

/// The type that elementary steps of one operator are taken in: f16 and bf16 in f32, rounded once at the end.
pub(crate) fn wide(dtype: DType) -> DType {
    if dtype.is_float() && dtype.bits() < 32 { DType::F32 } else { dtype }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_promote_as_torch_does() {
        use DType::*;
        for (a, b, expected) in [
            (U8, I8, I16),
            (U8, I32, I32),
            (I64, F16, F16),
            (F16, BF16, F32),
            (Bool, U8, U8),
            (F32, F64, F64),
            (F64, Complex64, Complex128),
            (F32, Complex64, Complex64),
        ] {
            assert_eq!((promote(a, b), promote(b, a)), (expected, expected), "{a} {b}");
        }
        assert_eq!(combine(Some(F16), Some(F64)), Some(F16));
        assert_eq!(combine(Some(I32), Some(F32)), Some(F32));
        assert_eq!(combine(Some(I32), Some(I64)), Some(I32));
        assert_eq!(combine(Some(Bool), Some(I64)), Some(I64));
    }
}
