//! Random numbers from a seed: RandomUniform, RandomNormal, their Like forms, Bernoulli, Multinomial.
//!
//! ONNX prescribes no generator. Here each element is Philox4x32-10 of its place, keyed by the bits of `seed`: the same numbers on every device and in
//! every run. Without a seed the operators are no functions of their inputs and are refused.
//!
//! Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{ArgReduce, Function, Iota};
use tenon_tensor::DType;

use super::cast::type_attribute;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, product};

const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The bits of the seed, which must be there.
fn seed(op: &OpImport<'_, '_, '_>) -> Result<u32, ImportError> {
    match op.node.float("seed")? {
        Some(seed) => Ok(seed.to_bits()),
        None => Err(op.unsupported("random numbers without a `seed`, which are no function of the inputs,")),
    }
}

/// Four words of 32 random bits for each place of a shape, in u64.
fn words(op: &mut OpImport<'_, '_, '_>, shape: &[DimExpr], seed: u32) -> Result<[Handle; 4], ImportError> {
    let count = product(shape).ok_or_else(|| op.unsupported("a tensor this large"))?;
    let place = op.emit(Iota { dtype: DType::I64, shape: vec![count], axis: 0 }, &[])?;
    let place = op.cast(place, DType::U64)?;
    let place = op.reshape(place, shape.to_vec())?;
    let number = |op: &mut OpImport<'_, '_, '_>, value: u32| op.scalar(f64::from(value), DType::U64);
    let (low_bits, half) = (number(op, u32::MAX)?, number(op, 32)?);
    let zero = number(op, 0)?;
    let mut counter =
        [op.apply(Function::BitAnd, &[place, low_bits])?, op.apply(Function::ShiftRight, &[place, half])?, zero, zero];
    let mut key = [seed, 0];
    for _ in 0..ROUNDS {
        let mut next = [zero; 4];
        for (side, multiplier) in MULTIPLIERS.into_iter().enumerate() {
            let multiplier = number(op, multiplier)?;
            let whole = op.apply(Function::Multiply, &[counter[2 * side], multiplier])?;
            let high = op.apply(Function::ShiftRight, &[whole, half])?;
            // The other pair of words takes the product's.
            let other = 1 - side;
            let key = number(op, key[other])?;
            let mixed = op.apply(Function::BitXor, &[high, counter[2 * other + 1]])?;
            next[2 * other] = op.apply(Function::BitXor, &[mixed, key])?;
            next[2 * other + 1] = op.apply(Function::BitAnd, &[whole, low_bits])?;
        }
        counter = next;
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
    }
    Ok(counter)
}

/// Bits that a fraction of a type has, so that none rounds up to 1.
fn fraction_bits(dtype: DType) -> u32 {
    match dtype {
        DType::F64 => 53,
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 24,
    }
}

/// The highest bits of a word, or for f64 of two, as a number from 0 to below 1; `above_zero`: to 1, without 0.
fn fraction(
    op: &mut OpImport<'_, '_, '_>,
    words: [Handle; 2],
    dtype: DType,
    above_zero: bool,
) -> Result<Handle, ImportError> {
    let bits = fraction_bits(dtype);
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let mut value = words[0];
    if bits > 32 {
        let half = op.scalar(32.0, DType::U64)?;
        let high = op.apply(Function::ShiftLeft, &[value, half])?;
        value = op.apply(Function::BitOr, &[high, words[1]])?;
    }
    let drop = op.scalar(f64::from(if bits > 32 { 64 } else { 32 } - bits), DType::U64)?;
    value = op.apply(Function::ShiftRight, &[value, drop])?;
    if above_zero {
        let one = op.scalar(1.0, DType::U64)?;
        value = op.apply(Function::Add, &[value, one])?;
    }
    let value = op.cast(value, wide)?;
    let unit = op.scalar(0.5f64.powi(bits as i32), wide)?;
    op.apply(Function::Multiply, &[value, unit])
}

/// Type and shape of the result: `dtype` and `shape`, or for the Like forms those of the input.
fn result(op: &OpImport<'_, '_, '_>) -> Result<(DType, Vec<DimExpr>), ImportError> {
    let declared = type_attribute(op, "dtype")?;
    let (dtype, shape) = if op.node.op_type().ends_with("Like") {
        op.takes(1..=1)?;
        let x = op.input(0)?;
        (declared.unwrap_or_else(|| op.dtype(x)), op.extents(x))
    } else {
        op.takes(0..=0)?;
        let shape = op.node.required("shape", op.node.ints("shape")?)?;
        if shape.iter().any(|size| *size < 0) {
            return Err(op.node.attribute_error("shape", "sizes, none negative", format!("is {shape:?}")));
        }
        (declared.unwrap_or(DType::F32), shape.iter().map(|size| DimExpr::constant(*size)).collect())
    };
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Ok((dtype, shape)),
        other => Err(op.node.attribute_error("dtype", "f16, bf16, f32 or f64", format!("is {other}"))),
    }
}

/// RandomUniform and RandomUniformLike: from `low` to below `high`.
pub(super) fn uniform(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (dtype, shape) = result(op)?;
    let (low, high) = (f64::from(op.node.float_or("low", 0.0)?), f64::from(op.node.float_or("high", 1.0)?));
    let seed = seed(op)?;
    let [first, second, ..] = words(op, &shape, seed)?;
    let value = fraction(op, [first, second], dtype, false)?;
    let wide = op.dtype(value);
    let (range, low) = (op.scalar(high - low, wide)?, op.scalar(low, wide)?);
    let value = op.apply(Function::Multiply, &[value, range])?;
    let value = op.apply(Function::Add, &[value, low])?;
    Ok(vec![op.cast(value, dtype)?])
}

/// RandomNormal and RandomNormalLike, after Box and Muller: √(-2 ln u) cos(2π v).
pub(super) fn normal(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (dtype, shape) = result(op)?;
    let (mean, scale) = (f64::from(op.node.float_or("mean", 0.0)?), f64::from(op.node.float_or("scale", 1.0)?));
    let seed = seed(op)?;
    let [first, second, ..] = words(op, &shape, seed)?;
    let u = fraction(op, [first, second], DType::F32, true)?;
    let v = fraction(op, [second, first], DType::F32, false)?;
    let logarithm = op.apply(Function::Log, &[u])?;
    let minus_two = op.scalar(-2.0, DType::F32)?;
    let square = op.apply(Function::Multiply, &[logarithm, minus_two])?;
    let radius = op.apply(Function::Sqrt, &[square])?;
    let turn = op.scalar(std::f64::consts::TAU, DType::F32)?;
    let angle = op.apply(Function::Multiply, &[v, turn])?;
    let cosine = op.apply(Function::Cos, &[angle])?;
    let value = op.apply(Function::Multiply, &[radius, cosine])?;
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let value = op.cast(value, wide)?;
    let (mean, scale) = (op.scalar(mean, wide)?, op.scalar(scale, wide)?);
    let value = op.apply(Function::Multiply, &[value, scale])?;
    let value = op.apply(Function::Add, &[value, mean])?;
    Ok(vec![op.cast(value, dtype)?])
}

/// Bernoulli: 1 with the probability that the input gives, else 0.
pub(super) fn bernoulli(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let dtype = type_attribute(op, "dtype")?.unwrap_or_else(|| op.dtype(x));
    if !op.dtype(x).is_float() {
        return Err(op.invalid(format!("probabilities of {}", op.dtype(x))));
    }
    let seed = seed(op)?;
    let shape = op.extents(x);
    let [first, second, ..] = words(op, &shape, seed)?;
    let wide = if op.dtype(x) == DType::F64 { DType::F64 } else { DType::F32 };
    let drawn = fraction(op, [first, second], wide, false)?;
    let x = op.cast(x, wide)?;
    let hit = op.apply(Function::Less, &[drawn, x])?;
    Ok(vec![op.cast(hit, dtype)?])
}

/// Multinomial: `sample_size` classes for each row of unnormalised logarithms of probabilities `[batch, classes]`. A class is where the
/// logarithm plus noise of Gumbel's distribution is largest.
pub(super) fn multinomial(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let dtype = type_attribute(op, "dtype")?.unwrap_or(DType::I32);
    let samples = op.node.int_or("sample_size", 1)?;
    if op.rank(x) != 2 || !op.dtype(x).is_float() || samples < 0 {
        return Err(op.invalid(format!("{samples} classes drawn from {}", op.ty(x))));
    }
    if !matches!(dtype, DType::I32 | DType::I64) {
        return Err(op.node.attribute_error("dtype", "i32 or i64", format!("is {dtype}")));
    }
    let seed = seed(op)?;
    let x = op.cast(x, DType::F32)?;
    let dims = op.extents(x);
    let shape = vec![dims[0].clone(), DimExpr::constant(samples), dims[1].clone()];
    let [first, second, ..] = words(op, &shape, seed)?;
    let u = fraction(op, [first, second], DType::F32, true)?;
    let logarithm = op.apply(Function::Log, &[u])?;
    // Where u is 1 the noise is infinite: it is kept finite, for a class of probability 0 must stay impossible.
    let small = op.scalar(-f64::from(f32::MIN_POSITIVE), DType::F32)?;
    let logarithm = op.apply(Function::Min, &[logarithm, small])?;
    let positive = op.apply(Function::Negate, &[logarithm])?;
    let again = op.apply(Function::Log, &[positive])?;
    let row = op.reshape(x, vec![dims[0].clone(), 1.into(), dims[1].clone()])?;
    let score = op.apply(Function::Subtract, &[row, again])?;
    let class = op.emit(ArgReduce { minimum: false, axis: 2, keep_dims: false, last: false }, &[score])?;
    Ok(vec![op.cast(class, dtype)?])
}
