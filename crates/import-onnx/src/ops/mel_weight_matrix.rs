//! MelWeightMatrix: triangular bands of a spectrum that lie at equal distances on the mel scale, 2595 log₁₀(1 + f / 700).

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Iota};
use tenon_tensor::DType;

use super::cast::type_attribute;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// `[dft_length / 2 + 1, bands]`; computed in f64, rounded once.
pub(super) fn mel_weight_matrix(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    use Function::*;
    op.takes(5..=5)?;
    let what = "the size of the result";
    let (bands, length) = (op.known_int(0, what)?, op.known_int(1, what)?);
    let dtype = type_attribute(op, "output_datatype")?.unwrap_or(DType::F32);
    if !(0..=1 << 20).contains(&bands) || !(0..=1 << 30).contains(&length) {
        return Err(op.invalid(format!("{bands} bands over a transform of length {length}")));
    }
    let mut number = |index: usize| -> Result<Handle, ImportError> {
        let input = op.input(index)?;
        let scalar = op.as_scalar(input)?;
        op.cast(scalar, DType::F64)
    };
    let (rate, lower, upper) = (number(2)?, number(3)?, number(4)?);
    let ln_10 = std::f64::consts::LN_10;
    let mut mel = |frequency: Handle| -> Result<Handle, ImportError> {
        let ratio = op.scalar(700.0, DType::F64)?;
        let ratio = op.apply(Divide, &[frequency, ratio])?;
        let log = op.apply(Log1p, &[ratio])?;
        let factor = op.scalar(2595.0 / ln_10, DType::F64)?;
        op.apply(Multiply, &[log, factor])
    };
    let (low, high) = (mel(lower)?, mel(upper)?);
    // Bands + 2 edges, of which the last one is left out of the step: the distance is divided by their number.
    let count = op.scalar((bands + 2) as f64, DType::F64)?;
    let span = op.apply(Subtract, &[high, low])?;
    let step = op.apply(Divide, &[span, count])?;
    let mut edge = |offset: f64| -> Result<Handle, ImportError> {
        let places = op.emit(Iota { dtype: DType::I64, shape: vec![DimExpr::constant(bands)], axis: 0 }, &[])?;
        let places = op.cast(places, DType::F64)?;
        let offset = op.scalar(offset, DType::F64)?;
        let places = op.apply(Add, &[places, offset])?;
        let steps = op.apply(Multiply, &[places, step])?;
        let mel = op.apply(Add, &[steps, low])?;
        let factor = op.scalar(ln_10 / 2595.0, DType::F64)?;
        let exponent = op.apply(Multiply, &[mel, factor])?;
        let ratio = op.apply(Expm1, &[exponent])?;
        let factor = op.scalar(700.0 * (length + 1) as f64, DType::F64)?;
        let scaled = op.apply(Multiply, &[ratio, factor])?;
        let bin = op.apply(Divide, &[scaled, rate])?;
        op.apply(Floor, &[bin])
    };
    let [left, center, right] = [edge(0.0)?, edge(1.0)?, edge(2.0)?];
    let bins = op.emit(Iota { dtype: DType::I64, shape: vec![(length / 2 + 1).into(), 1.into()], axis: 0 }, &[])?;
    let bins = op.cast(bins, DType::F64)?;
    let zero = op.scalar(0.0, DType::F64)?;
    let one = op.scalar(1.0, DType::F64)?;
    // A side without width divides by 1 instead of 0; no bin lies inside of it.
    let mut side = |from: Handle, to: Handle, above: [Handle; 2]| -> Result<Handle, ImportError> {
        let width = op.apply(Subtract, &[to, from])?;
        let flat = op.apply(Equal, &[width, zero])?;
        let width = op.apply(Select, &[flat, one, width])?;
        let above = op.apply(Subtract, &above)?;
        op.apply(Divide, &[above, width])
    };
    let rising = side(left, center, [bins, left])?;
    let falling = side(center, right, [right, bins])?;
    let mut inside = |from: Handle, to: Handle, last: Function| -> Result<Handle, ImportError> {
        let begun = op.apply(GreaterEqual, &[bins, from])?;
        let going = op.apply(last, &[bins, to])?;
        op.apply(And, &[begun, going])
    };
    let rises = inside(left, center, Less)?;
    let falls = inside(center, right, Less)?;
    let peak = op.apply(Equal, &[bins, center])?;
    let result = op.apply(Select, &[falls, falling, zero])?;
    let result = op.apply(Select, &[rises, rising, result])?;
    let result = op.apply(Select, &[peak, one, result])?;
    Ok(vec![op.cast(result, dtype)?])
}
