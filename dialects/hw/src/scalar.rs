//! Scalar code: thin, typed makers of `arith` and `math` operations.

use tenon_ir::{Builder, IrError, Type, Value};
use tenon_tensor::DType;

/// Comparison of integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IntegerPredicate {
    Equal = 0,
    NotEqual = 1,
    SignedLess = 2,
    SignedLessEqual = 3,
    SignedGreater = 4,
    SignedGreaterEqual = 5,
    UnsignedLess = 6,
    UnsignedLessEqual = 7,
    UnsignedGreater = 8,
    UnsignedGreaterEqual = 9,
}

/// Comparison of floats; ordered ones are false for NaN, unordered ones true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FloatPredicate {
    OrderedEqual = 1,
    OrderedGreater = 2,
    OrderedGreaterEqual = 3,
    OrderedLess = 4,
    OrderedLessEqual = 5,
    Ordered = 7,
    UnorderedNotEqual = 13,
    Unordered = 14,
}

/// Maker of scalar code at a builder's place.
#[derive(Clone, Copy)]
pub struct Scalar<'m> {
    builder: Builder<'m>,
}

impl<'m> Scalar<'m> {
    /// Code at this place.
    pub fn new(builder: Builder<'m>) -> Self {
        Scalar { builder }
    }

    /// The place.
    pub fn builder(self) -> Builder<'m> {
        self.builder
    }

    /// The signless type of an element.
    pub fn ty(self, element: DType) -> Type<'m> {
        let context = self.builder.context();
        match element {
            DType::U2 | DType::U4 | DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
                context.integer_type(element.bits())
            }
            _ => context.element_type(element),
        }
    }

    /// Integer constant of a signless type.
    pub fn int(self, value: i64, element: DType) -> Result<Value<'m>, IrError> {
        let ty = self.ty(element);
        self.builder
            .op("arith.constant")
            .attribute("value", self.builder.context().integer(value, ty))
            .results(&[ty])
            .value()
    }

    /// `i32` constant.
    pub fn i32(self, value: i32) -> Result<Value<'m>, IrError> {
        self.int(i64::from(value), DType::I32)
    }

    /// Float constant, rounded to its type.
    pub fn float(self, value: f64, element: DType) -> Result<Value<'m>, IrError> {
        let ty = self.ty(element);
        self.builder
            .op("arith.constant")
            .attribute("value", self.builder.context().float(value, ty))
            .results(&[ty])
            .value()
    }

    /// Zero of any element type.
    pub fn zero(self, element: DType) -> Result<Value<'m>, IrError> {
        if element.is_float() { self.float(0.0, element) } else { self.int(0, element) }
    }

    /// An operation whose result has the type of its first operand: `arith.addf`, `math.exp`, `arith.maximumf`, …
    pub fn op(self, name: &str, operands: &[Value<'m>]) -> Result<Value<'m>, IrError> {
        let results: Vec<_> = operands.first().map(|value| value.ty()).into_iter().collect();
        self.builder.op(name).operands(operands).results(&results).value()
    }

    /// A conversion: `arith.extf`, `arith.trunci`, `arith.sitofp`, …
    pub fn convert(self, name: &str, value: Value<'m>, to: DType) -> Result<Value<'m>, IrError> {
        self.builder.op(name).operands(&[value]).results(&[self.ty(to)]).value()
    }

    /// Comparison of integers.
    pub fn compare_int(self, predicate: IntegerPredicate, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>, IrError> {
        let context = self.builder.context();
        self.builder
            .op("arith.cmpi")
            .attribute("predicate", context.i64(predicate as i64))
            .operands(&[a, b])
            .results(&[context.bool_type()])
            .value()
    }

    /// Comparison of floats.
    pub fn compare_float(self, predicate: FloatPredicate, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>, IrError> {
        let context = self.builder.context();
        self.builder
            .op("arith.cmpf")
            .attribute("predicate", context.i64(predicate as i64))
            .operands(&[a, b])
            .results(&[context.bool_type()])
            .value()
    }

    /// `condition ? a : b`.
    pub fn select(self, condition: Value<'m>, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>, IrError> {
        self.builder.op("arith.select").operands(&[condition, a, b]).results(&[a.ty()]).value()
    }

    /// `a + b` of integers.
    pub fn add(self, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>, IrError> {
        self.op("arith.addi", &[a, b])
    }

    /// `a · b` of integers.
    pub fn mul(self, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>, IrError> {
        self.op("arith.muli", &[a, b])
    }

    /// `a · factor` of an i32, without code for 1.
    pub fn scale(self, a: Value<'m>, factor: i32) -> Result<Value<'m>, IrError> {
        if factor == 1 { Ok(a) } else { self.mul(a, self.i32(factor)?) }
    }

    /// `a + offset` of an i32, without code for 0.
    pub fn offset(self, a: Value<'m>, offset: i32) -> Result<Value<'m>, IrError> {
        if offset == 0 { Ok(a) } else { self.add(a, self.i32(offset)?) }
    }

    /// Quotient and remainder of a non-negative i32 by a positive constant.
    pub fn div_rem(self, a: Value<'m>, divisor: i32) -> Result<(Value<'m>, Value<'m>), IrError> {
        if divisor == 1 {
            return Ok((a, self.i32(0)?));
        }
        let divisor = self.i32(divisor)?;
        Ok((self.op("arith.divui", &[a, divisor])?, self.op("arith.remui", &[a, divisor])?))
    }
}
