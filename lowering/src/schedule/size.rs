//! Sizes of kernels: numbers, and products with extents that are known when the kernel is launched.
//!
//! A kernel's arguments are its pointers, then one i64 for each expression of [`ExtentTable`]. A size is a number times some of these. Values are
//! dense: row-major by their extents, in buffers that hold their capacities. So strides are sizes too, and where all sizes are numbers the code
//! is that of a fixed shape.

use std::iter::Product;
use std::ops::{Mul, MulAssign};

use tenon_graph_dialect::DimExpr;
use tenon_hw_dialect::Scalar;
use tenon_ir::{Builder, IrError, Value};
use tenon_tensor::DType;

use crate::LoweringError;

/// Most extents in a product.
const MAX_FACTORS: usize = 8;

/// A number times extents, with the largest value that it can have.
///
/// Equal sizes are the same product, whatever was known of their largest value.
#[derive(Clone, Copy)]
pub struct Size {
    factor: u64,
    /// Indices into the table, counted from 1, ascending; 0 is none.
    extents: [u8; MAX_FACTORS],
    capacity: u64,
}

impl Size {
    /// A number.
    pub const fn fixed(size: u64) -> Self {
        Size { factor: size, extents: [0; MAX_FACTORS], capacity: size }
    }

    /// The number, where it is one.
    pub fn known(self) -> Option<u64> {
        (self.extents[MAX_FACTORS - 1] == 0).then_some(self.factor)
    }

    /// The largest value that it can have.
    pub fn capacity(self) -> u64 {
        self.capacity
    }

    /// The largest value that it can have, for choices among tiles.
    pub fn capacity_u32(self) -> u32 {
        u32::try_from(self.capacity).unwrap_or(u32::MAX)
    }

    /// Whether every value that it can have is a multiple of a number.
    pub fn is_multiple_of(self, number: u32) -> bool {
        self.factor.is_multiple_of(u64::from(number.max(1)))
    }

    /// Whether tiles of a number of elements are full, where one tile is worked on even if there is no element, and more in a loop.
    pub fn fills(self, tile: u32) -> bool {
        let is_never_empty = self.known().is_some_and(|size| size != 0);
        self.is_multiple_of(tile) && (is_never_empty || self.capacity > u64::from(tile))
    }

    /// The largest power of two, at most 2^31, that divides every value that it can have. 2^31 for 0.
    pub fn power_of_two(self) -> u32 {
        1 << self.factor.trailing_zeros().min(31)
    }

    fn factors(self) -> impl Iterator<Item = usize> {
        self.extents.into_iter().filter(|extent| *extent > 0).map(|extent| usize::from(extent) - 1)
    }

    /// The same as an expression.
    pub fn expression(self, table: &ExtentTable) -> Result<DimExpr, LoweringError> {
        let start = i64::try_from(self.factor).map(DimExpr::constant).map_err(|_| too_complex())?;
        self.factors()
            .try_fold(start, |product, extent| product.mul(table.expressions.get(extent)?))
            .ok_or_else(too_complex)
    }

    /// Its value, an i32.
    pub fn value<'m>(self, code: Scalar<'m>) -> Result<Value<'m>, IrError> {
        let mut product = None;
        for extent in self.factors() {
            let value = extent_value(code.builder(), extent)?;
            product = Some(match product {
                None => value,
                Some(product) => code.mul(product, value)?,
            });
        }
        match product {
            None => code.i32(self.factor as u32 as i32),
            Some(product) => code.scale(product, self.factor as u32 as i32),
        }
    }

    /// Its value as an i64.
    pub fn wide_value<'m>(self, code: Scalar<'m>) -> Result<Value<'m>, IrError> {
        if self.capacity < 1 << 31 && self.known().is_none() {
            return code.convert("arith.extui", self.value(code)?, DType::I64);
        }
        let start = code.int(self.factor as i64, DType::I64)?;
        self.factors().try_fold(start, |product, extent| {
            code.mul(product, code.convert("arith.extui", extent_value(code.builder(), extent)?, DType::I64)?)
        })
    }

    /// Its value as an i32 or i64.
    pub fn as_integer<'m>(self, code: Scalar<'m>, dtype: DType) -> Result<Value<'m>, IrError> {
        match self.known() {
            Some(size) => code.int(size as i64, dtype),
            None if dtype == DType::I64 => self.wide_value(code),
            None => self.value(code),
        }
    }

    /// `value · self` of an i32, without code for 1.
    pub fn scale<'m>(self, code: Scalar<'m>, value: Value<'m>) -> Result<Value<'m>, IrError> {
        match self.known() {
            Some(number) => code.scale(value, number as u32 as i32),
            None => code.mul(value, self.value(code)?),
        }
    }

    /// `value · self` of an i32, as an i64 if `wide`.
    pub fn scale_to<'m>(self, code: Scalar<'m>, value: Value<'m>, wide: bool) -> Result<Value<'m>, IrError> {
        if !wide {
            return self.scale(code, value);
        }
        let value = code.convert("arith.extsi", value, DType::I64)?;
        if self == 1 { Ok(value) } else { code.mul(value, self.wide_value(code)?) }
    }

    /// Quotient, an i64, and remainder, an i32, of a non-negative i64; a size of 0 counts as 1.
    pub fn div_rem_wide<'m>(self, code: Scalar<'m>, value: Value<'m>) -> Result<(Value<'m>, Value<'m>), IrError> {
        let divisor = match self.known() {
            Some(1) => return Ok((value, code.i32(0)?)),
            Some(number) => code.int(number.max(1) as i64, DType::I64)?,
            None => code.op("arith.maxsi", &[self.wide_value(code)?, code.int(1, DType::I64)?])?,
        };
        let remainder = code.op("arith.remui", &[value, divisor])?;
        Ok((code.op("arith.divui", &[value, divisor])?, code.convert("arith.trunci", remainder, DType::I32)?))
    }

    /// Quotient and remainder of a non-negative i32; a size of 0 counts as 1.
    pub fn div_rem<'m>(self, code: Scalar<'m>, value: Value<'m>) -> Result<(Value<'m>, Value<'m>), IrError> {
        match self.known() {
            Some(number) => code.div_rem(value, number.max(1) as u32 as i32),
            None => {
                // An empty tensor is looked into by nobody, but its kernel may be launched.
                let divisor = code.op("arith.maxsi", &[self.value(code)?, code.i32(1)?])?;
                Ok((code.op("arith.divui", &[value, divisor])?, code.op("arith.remui", &[value, divisor])?))
            }
        }
    }
}

/// A number of equal parts that hold a size: what [`super::parts`] is as an expression.
#[derive(Clone, Copy)]
pub struct Parts {
    /// What is held.
    pub size: Size,
    /// Elements of a part.
    pub part: u32,
}

impl Parts {
    /// Its value, an i32.
    pub fn value<'m>(self, code: Scalar<'m>) -> Result<Value<'m>, IrError> {
        let part = self.part.max(1);
        if let Some(number) = self.size.known() {
            return code.i32(number.div_ceil(u64::from(part)) as i32);
        }
        let sum = code.offset(self.size.value(code)?, part as i32 - 1)?;
        Ok(code.div_rem(sum, part as i32)?.0)
    }

    /// Quotient and remainder of a non-negative i32; no parts count as one.
    pub fn div_rem<'m>(self, code: Scalar<'m>, value: Value<'m>) -> Result<(Value<'m>, Value<'m>), IrError> {
        match self.size.known() {
            Some(number) => code.div_rem(value, number.div_ceil(u64::from(self.part.max(1))).max(1) as i32),
            None => {
                let divisor = code.op("arith.maxsi", &[self.value(code)?, code.i32(1)?])?;
                Ok((code.op("arith.divui", &[value, divisor])?, code.op("arith.remui", &[value, divisor])?))
            }
        }
    }
}

/// How often a loop runs.
#[derive(Clone, Copy)]
pub enum Count {
    /// As often as a size says.
    Size(Size),
    /// Once a part.
    Parts(Parts),
}

impl Count {
    /// Its value, an i32.
    pub fn value<'m>(self, code: Scalar<'m>) -> Result<Value<'m>, IrError> {
        match self {
            Count::Size(size) => size.value(code),
            Count::Parts(parts) => parts.value(code),
        }
    }
}

impl From<u32> for Count {
    fn from(size: u32) -> Self {
        Count::Size(size.into())
    }
}

impl From<Size> for Count {
    fn from(size: Size) -> Self {
        Count::Size(size)
    }
}

impl From<Parts> for Count {
    fn from(parts: Parts) -> Self {
        Count::Parts(parts)
    }
}

/// The i32 of an extent: made once, at the head of the kernel that code stands in.
fn extent_value<'m>(at: Builder<'m>, extent: usize) -> Result<Value<'m>, IrError> {
    let missing = || IrError::UnknownOperation(format!("extent {extent} of the kernel"));
    let mut op = at.block().parent_op().ok_or_else(missing)?;
    while !op.is("hw.kernel") {
        op = op.parent().ok_or_else(missing)?;
    }
    let entry = op.region_block(0).ok_or_else(missing)?;
    // Extents are the arguments behind pointers and tensor maps.
    let extents = at.context().i64_type();
    let argument = entry.arguments().into_iter().filter(|argument| argument.ty() == extents).nth(extent);
    let argument = argument.ok_or_else(missing)?;
    let made = argument.users().into_iter().find(|(user, _)| user.is("arith.trunci"));
    made.and_then(|(user, _)| user.result(0)).ok_or_else(missing)
}

/// Writes the i32 of every extent at the head of a kernel.
pub(super) fn declare_extents<'m>(code: Scalar<'m>, arguments: &[Value<'m>]) -> Result<(), IrError> {
    arguments.iter().try_for_each(|argument| code.convert("arith.trunci", *argument, DType::I32).map(|_| ()))
}

fn too_complex() -> LoweringError {
    LoweringError::padded("a product of sizes that are known at launch has too many factors or is too large")
}

impl Mul for Size {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let mut all: Vec<u8> = self.extents.into_iter().chain(other.extents).filter(|extent| *extent > 0).collect();
        all.sort_unstable();
        let mut extents = [0; MAX_FACTORS];
        // Tensors with more extents are refused when the kernel is read, and sizes are only multiplied within one.
        debug_assert!(all.len() <= MAX_FACTORS);
        for (place, extent) in extents.iter_mut().rev().zip(all.into_iter().rev()) {
            *place = extent;
        }
        let (factor, capacity) =
            (self.factor.saturating_mul(other.factor), self.capacity.saturating_mul(other.capacity));
        if factor == 0 { Size::fixed(0) } else { Size { factor, extents, capacity } }
    }
}

impl MulAssign for Size {
    fn mul_assign(&mut self, other: Self) {
        *self = *self * other;
    }
}

impl Product for Size {
    fn product<I: Iterator<Item = Size>>(sizes: I) -> Self {
        sizes.fold(Size::fixed(1), Mul::mul)
    }
}

impl<'a> Product<&'a Size> for Size {
    fn product<I: Iterator<Item = &'a Size>>(sizes: I) -> Self {
        sizes.copied().product()
    }
}

impl PartialEq for Size {
    fn eq(&self, other: &Self) -> bool {
        (self.factor, self.extents) == (other.factor, other.extents)
    }
}

impl Eq for Size {}

impl std::hash::Hash for Size {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.factor, self.extents).hash(state);
    }
}

impl PartialEq<u32> for Size {
    fn eq(&self, other: &u32) -> bool {
        self.known() == Some(u64::from(*other))
    }
}

impl From<u32> for Size {
    fn from(size: u32) -> Self {
        Size::fixed(u64::from(size))
    }
}

impl std::fmt::Debug for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.factor)?;
        self.factors().try_for_each(|extent| write!(f, "·e{extent}"))
    }
}

/// A number of either sign, or one that is known at launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// A number.
    Number(i32),
    /// A value of the table, as it is.
    Extent(Size),
}

impl Amount {
    /// `value + self`, without code for 0.
    pub fn add<'m>(self, code: Scalar<'m>, value: Value<'m>) -> Result<Value<'m>, IrError> {
        match self {
            Amount::Number(number) => code.offset(value, number),
            Amount::Extent(size) => code.add(value, size.value(code)?),
        }
    }

    /// `value - self`, without code for 0.
    pub fn subtract<'m>(self, code: Scalar<'m>, value: Value<'m>) -> Result<Value<'m>, IrError> {
        match self {
            Amount::Number(number) => code.offset(value, number.wrapping_neg()),
            Amount::Extent(size) => code.op("arith.subi", &[value, size.value(code)?]),
        }
    }

    /// Whether it is certainly 0.
    pub fn is_zero(self) -> bool {
        self == Amount::Number(0)
    }
}

/// The expressions that a kernel gets as arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtentTable {
    /// In order of the arguments.
    pub expressions: Vec<DimExpr>,
}

impl ExtentTable {
    /// The size that an expression gives; `capacity` is its largest value.
    pub(super) fn size(&mut self, expression: &DimExpr, capacity: u64) -> Result<Size, LoweringError> {
        if let Some(number) = expression.as_constant() {
            return u64::try_from(number).map(Size::fixed).map_err(|_| LoweringError::shape("a size below 0"));
        }
        let (number, mut rest) = expression.factors();
        let factor = match u64::try_from(number) {
            Ok(factor) => factor,
            Err(_) => {
                rest = vec![expression.clone()];
                1
            }
        };
        let mut extents = [0; MAX_FACTORS];
        if rest.len() > MAX_FACTORS {
            return Err(too_complex());
        }
        let mut indices = rest.iter().map(|part| self.index(part)).collect::<Result<Vec<u8>, _>>()?;
        indices.sort_unstable();
        for (place, index) in extents.iter_mut().rev().zip(indices.into_iter().rev()) {
            *place = index;
        }
        Ok(Size { factor, extents, capacity })
    }

    /// What an expression of an attribute is, such as a start or a pad, which was put into the table when the kernel was read.
    pub(super) fn amount(&self, expression: &DimExpr) -> Result<Amount, LoweringError> {
        let index = self.expressions.iter().position(|known| known == expression);
        match (expression.as_constant(), index) {
            (Some(number), None) => i32::try_from(number).map(Amount::Number).map_err(|_| too_complex()),
            (_, index) => {
                let index = index.and_then(|index| u8::try_from(index + 1).ok()).ok_or_else(too_complex)?;
                let mut extents = [0; MAX_FACTORS];
                extents[MAX_FACTORS - 1] = index;
                Ok(Amount::Extent(Size { factor: 1, extents, capacity: u64::MAX }))
            }
        }
    }

    /// Puts an expression of an attribute into the table.
    pub(super) fn add(&mut self, expression: &DimExpr) -> Result<(), LoweringError> {
        if expression.as_constant().is_none() {
            self.index(expression)?;
        }
        Ok(())
    }

    /// Puts a number other than 0 into the table, so that it is an argument.
    pub(super) fn add_number(&mut self, number: &DimExpr) -> Result<(), LoweringError> {
        if number.as_constant().is_some_and(|number| number != 0) {
            self.index(number)?;
        }
        Ok(())
    }

    fn index(&mut self, expression: &DimExpr) -> Result<u8, LoweringError> {
        let found = self.expressions.iter().position(|known| known == expression);
        let index = found.unwrap_or_else(|| {
            self.expressions.push(expression.clone());
            self.expressions.len() - 1
        });
        u8::try_from(index + 1)
            .map_err(|_| LoweringError::padded("a kernel over more than 255 different sizes that are known at launch"))
    }
}

/// Whether offsets in a tensor of these sizes need 64 bits.
pub fn is_wide(sizes: &[Size]) -> bool {
    sizes.iter().product::<Size>().capacity() >= 1 << 31
}

/// The type of offsets.
pub fn offset_type(wide: bool) -> DType {
    if wide { DType::I64 } else { DType::I32 }
}

/// Elements of a tensor are counted by extents; more than [`MAX_FACTORS`] of them cannot be multiplied.
pub(super) fn check_factors(sizes: &[Size]) -> Result<(), LoweringError> {
    let count: usize = sizes.iter().map(|size| size.factors().count()).sum();
    if count > MAX_FACTORS { Err(too_complex()) } else { Ok(()) }
}
