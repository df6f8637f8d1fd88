//! Input positions of output places in f64, operation by operation as the reference interpreter computes them, so that no rounding of the
//! device decides which element is read. On the host where sizes are numbers, in the kernel otherwise and where no integers give the same.

use tenon_graph_dialect::operators::{CoordinateMode, Resize, ResizeRounding};
use tenon_hw_dialect::Scalar;
use tenon_ir::{IrError, Value};
use tenon_tensor::DType;

use crate::schedule::size::Size;

/// Start and end of a dimension's region of interest.
pub(super) fn region(resize: &Resize, dim: usize) -> (f64, f64) {
    let region = resize.region.as_deref().unwrap_or(&[]);
    let part = |index: usize, default: f64| region.get(index).copied().unwrap_or(default);
    (part(dim, 0.0), part(dim + region.len() / 2, 1.0))
}

/// The position in the input that output place `x` of a dimension maps to.
pub(super) fn position(resize: &Resize, dim: usize, x: f64, input: f64, output: f64) -> f64 {
    let scale = resize.scales.as_ref().map_or(output / input, |scales| scales[dim]);
    let half_pixel = (x + 0.5) / scale - 0.5;
    match resize.coordinates {
        CoordinateMode::HalfPixel => half_pixel,
        CoordinateMode::HalfPixelSymmetric => input / 2.0 * (1.0 - output / (scale * input)) + half_pixel,
        CoordinateMode::PytorchHalfPixel if output > 1.0 => half_pixel,
        CoordinateMode::AlignCorners if output > 1.0 => x * (input - 1.0) / (output - 1.0),
        CoordinateMode::PytorchHalfPixel | CoordinateMode::AlignCorners => 0.0,
        CoordinateMode::Asymmetric => x / scale,
        CoordinateMode::TfCropAndResize => {
            let (start, end) = region(resize, dim);
            if output > 1.0 {
                start * (input - 1.0) + x * (end - start) * (input - 1.0) / (output - 1.0)
            } else {
                0.5 * (start + end) * (input - 1.0)
            }
        }
    }
}

/// The index that `nearest` picks at a position.
pub(super) fn nearest(rounding: ResizeRounding, position: f64) -> f64 {
    match rounding {
        ResizeRounding::RoundPreferFloor => (position - 0.5).ceil(),
        ResizeRounding::RoundPreferCeil => (position + 0.5).floor(),
        ResizeRounding::Floor => position.floor(),
        ResizeRounding::Ceil => position.ceil(),
    }
}

/// f64 code.
#[derive(Clone, Copy)]
struct Double<'m>(Scalar<'m>);

impl<'m> Double<'m> {
    fn number(self, value: f64) -> Result<Value<'m>, IrError> {
        self.0.float(value, DType::F64)
    }

    fn size(self, size: Size) -> Result<Value<'m>, IrError> {
        match size.known() {
            Some(size) => self.number(size as f64),
            None => self.0.convert("arith.uitofp", size.value(self.0)?, DType::F64),
        }
    }

    fn less_one(self, size: Size) -> Result<Value<'m>, IrError> {
        self.sub(self.size(size)?, self.number(1.0)?)
    }

    fn add(self, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>, IrError> {
        self.0.op("arith.addf", &[a, b])
    }

    fn sub(self, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>, IrError> {
        self.0.op("arith.subf", &[a, b])
    }

    fn mul(self, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>, IrError> {
        self.0.op("arith.mulf", &[a, b])
    }

    fn div(self, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>, IrError> {
        self.0.op("arith.divf", &[a, b])
    }
}

/// [`position`] of an i32 in the kernel.
pub(super) fn position_code<'m>(
    code: Scalar<'m>,
    resize: &Resize,
    dim: usize,
    x: Value<'m>,
    [input, output]: [Size; 2],
) -> Result<Value<'m>, IrError> {
    let d = Double(code);
    let x = code.convert("arith.sitofp", x, DType::F64)?;
    let (half, one) = (d.number(0.5)?, d.number(1.0)?);
    let scale = || match &resize.scales {
        Some(scales) => d.number(scales[dim]),
        None => d.div(d.size(output)?, d.size(input)?),
    };
    let half_pixel = || d.sub(d.div(d.add(x, half)?, scale()?)?, half);
    // `value` where the output has more than one place, else `other`.
    let unless_one = |value: Value<'m>, other: Value<'m>| {
        use tenon_hw_dialect::IntegerPredicate::UnsignedGreater;
        let several = code.compare_int(UnsignedGreater, output.value(code)?, code.i32(1)?)?;
        code.select(several, value, other)
    };
    match resize.coordinates {
        CoordinateMode::HalfPixel => half_pixel(),
        CoordinateMode::HalfPixelSymmetric => {
            let center = d.div(d.size(input)?, d.number(2.0)?)?;
            let adjustment = d.div(d.size(output)?, d.mul(scale()?, d.size(input)?)?)?;
            d.add(d.mul(center, d.sub(one, adjustment)?)?, half_pixel()?)
        }
        CoordinateMode::PytorchHalfPixel => unless_one(half_pixel()?, d.number(0.0)?),
        CoordinateMode::AlignCorners => {
            let place = d.div(d.mul(x, d.less_one(input)?)?, d.less_one(output)?)?;
            unless_one(place, d.number(0.0)?)
        }
        CoordinateMode::Asymmetric => d.div(x, scale()?),
        CoordinateMode::TfCropAndResize => {
            let (start, end) = region(resize, dim);
            let along = d.mul(d.mul(x, d.number(end - start)?)?, d.less_one(input)?)?;
            let along = d.div(along, d.less_one(output)?)?;
            let several = d.add(d.mul(d.number(start)?, d.less_one(input)?)?, along)?;
            unless_one(several, d.mul(d.number(0.5 * (start + end))?, d.less_one(input)?)?)
        }
    }
}

/// [`nearest`] in the kernel.
pub(super) fn nearest_code<'m>(
    code: Scalar<'m>,
    rounding: ResizeRounding,
    position: Value<'m>,
) -> Result<Value<'m>, IrError> {
    let half = code.float(0.5, DType::F64)?;
    match rounding {
        ResizeRounding::RoundPreferFloor => code.op("math.ceil", &[code.op("arith.subf", &[position, half])?]),
        ResizeRounding::RoundPreferCeil => code.op("math.floor", &[code.op("arith.addf", &[position, half])?]),
        ResizeRounding::Floor => code.op("math.floor", &[position]),
        ResizeRounding::Ceil => code.op("math.ceil", &[position]),
    }
}
