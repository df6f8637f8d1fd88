//! Elementary functions through PTX against their bounds: every f16 and every bf16, f32 and f64 at numbers spread over all patterns of bits.
//!
//! The exact value is that of the host's mathematical library in f64, an independent one whose own error is 2^-29 of a place of f32 and
//! less of the others. Functions of f64 are measured on the host with numbers of 256 bits (`lowering/src/elementary/tests`), whose bits
//! the device gives; here the operators that are made of them get one place more, the host's.

use tenon_graph_dialect::operators::Function;
use tenon_lowering::elementary::{Bounds, bounds_of};
use tenon_tensor::{DType, Tensor};

use super::types;
use crate::graph_kernels::{case, ew, outputs};

use Function::*;

const UNARY: [Function; 21] = [
    Exp, Expm1, Log, Log1p, Sqrt, Rsqrt, Reciprocal, Erf, Tanh, Sigmoid, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh,
    Asinh, Acosh, Atanh,
];
const BINARY: [Function; 4] = [Power, Atan2, Remainder, Modulo];

fn exact(function: Function, x: f64, y: f64) -> f64 {
    match function {
        Exp => x.exp(),
        Expm1 => x.exp_m1(),
        Log => x.ln(),
        Log1p => x.ln_1p(),
        Sqrt => x.sqrt(),
        Rsqrt => 1.0 / x.sqrt(),
        Reciprocal => 1.0 / x,
        Erf => libm::erf(x),
        Tanh => x.tanh(),
        Sigmoid if x < 0.0 => x.exp() / (1.0 + x.exp()),
        Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Sin => x.sin(),
        Cos => x.cos(),
        Tan => x.tan(),
        Asin => x.asin(),
        Acos => x.acos(),
        Atan => x.atan(),
        Sinh => x.sinh(),
        Cosh => x.cosh(),
        // Without the cancellation of the textbook formulas.
        Asinh if x.is_infinite() => x,
        Asinh => (x.abs() + x * x / (1.0 + (x * x + 1.0).sqrt())).ln_1p().copysign(x),
        Acosh if x < 1.0 => f64::NAN,
        Acosh => ((x - 1.0) + ((x - 1.0) * (x + 1.0)).sqrt()).ln_1p(),
        Atanh => (0.5 * (2.0 * x.abs() / (1.0 - x.abs())).ln_1p()).copysign(x),
        Power => x.powf(y),
        Atan2 => x.atan2(y),
        Remainder => x % y,
        Modulo if x % y == 0.0 => 0f64.copysign(y),
        Modulo if (x % y < 0.0) != (y < 0.0) => x % y + y,
        Modulo => x % y,
        other => panic!("{} is not an elementary function", other.name()),
    }
}

/// Digits of the mantissa after the point, and the exponent of the smallest normal number.
fn format(dtype: DType) -> (i32, i32) {
    match dtype {
        DType::F16 => (10, -14),
        DType::BF16 => (7, -126),
        DType::F32 => (23, -126),
        _ => (52, -1022),
    }
}

/// Error in units in the last place; infinite where kinds of numbers differ.
fn ulp(value: f64, exact: f64, dtype: DType) -> f64 {
    let rounded = tenon_tensor::decode_float(dtype, tenon_tensor::encode_float(dtype, exact));
    if value.is_nan() || exact.is_nan() {
        return if value.is_nan() && exact.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if value == rounded && value.is_sign_positive() == exact.is_sign_positive() && (exact == 0.0 || value.is_infinite())
    {
        return 0.0;
    }
    let (digits, least) = format(dtype);
    // Infinity may stand for the largest number and the reverse.
    let largest = (2.0 - 2f64.powi(-digits)) * 2f64.powi(1 - least);
    if exact.abs() >= largest && value.abs() >= largest && value.is_sign_positive() == exact.is_sign_positive() {
        return if value == rounded { 0.0 } else { 1.0 };
    }
    if exact == 0.0 || value.is_infinite() || value.is_sign_positive() != exact.is_sign_positive() {
        return f64::INFINITY;
    }
    let exponent = exact.abs().log2().floor().max(f64::from(least)) as i32;
    // Two factors: the last place of the smallest f64 is no normal number, and its half is none at all.
    (value - exact).abs() / 2f64.powi(exponent) * 2f64.powi(digits)
}

fn bound(bounds: Bounds, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => bounds.f16,
        DType::BF16 => bounds.bf16,
        DType::F32 => bounds.f32,
        _ => bounds.f64,
    }
}

/// Patterns of bits: all of 16 bits, 2^16 of those of wider types.
fn patterns(dtype: DType, multiplier: u64) -> Tensor {
    let spread = |i: u64| match dtype.bits() {
        16 => i.wrapping_mul(multiplier) & 0xffff,
        // Steps that meet all exponents, low bits that look like noise.
        32 => i << 16 | i.wrapping_mul(multiplier) & 0xffff,
        _ => i << 48 | i.wrapping_mul(multiplier).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16,
    };
    let bits: Vec<u64> = (0..1 << 16).map(spread).collect();
    Tensor::from_bits(dtype, vec![1 << 16], bits).unwrap()
}

/// Powers whose results are within the range: the greater part of random pairs is not.
fn moderate(dtype: DType) -> [Tensor; 2] {
    let noise = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1u64 << 53) as f64;
    let base: Vec<f64> = (0..1 << 16).map(|i| (noise(i) * 12.0 - 6.0).exp2()).collect();
    let power: Vec<f64> = (0..1 << 16).map(|i| noise(i + 77_777) * 40.0 - 20.0).collect();
    [base, power].map(|values| Tensor::from_f64s(dtype, vec![1 << 16], &values).unwrap())
}

fn measure(function: Function, dtype: DType, operands: &[Tensor], slack: f64) {
    let bound = bound(bounds_of(function.name()).unwrap(), dtype) + slack;
    let found =
        &outputs(&case("map", &types(operands), 0.0), operands, &operands[..1], &|at, v| vec![ew(at, function, v)])[0];
    let mut worst = (0.0, 0);
    for index in 0..found.element_count() {
        let argument = |i: usize| operands.get(i).map_or(0.0, |tensor| tensor.get_f64(index).unwrap());
        let error = ulp(found.get_f64(index).unwrap(), exact(function, argument(0), argument(1)), dtype);
        if error > worst.0 {
            worst = (error, index);
        }
    }
    let (error, index) = worst;
    println!("{:12} {dtype:5} {error:.5}", function.name());
    let arguments: Vec<f64> = operands.iter().map(|operand| operand.get_f64(index).unwrap()).collect();
    let (value, exact) =
        (found.get_f64(index).unwrap(), exact(function, arguments[0], *arguments.get(1).unwrap_or(&0.0)));
    let name = function.name();
    assert!(error <= bound, "{name}{arguments:?} of {dtype} = {value:e}, {exact:e} is exact: {error} > {bound}");
}

fn measure_all(dtype: DType) {
    for function in UNARY {
        measure(function, dtype, &[patterns(dtype, 1)], 0.0);
    }
    for function in BINARY {
        measure(function, dtype, &[patterns(dtype, 1), patterns(dtype, 40_503)], 0.0);
    }
    measure(Power, dtype, &moderate(dtype), 0.0);
}

#[test]
fn every_f16() {
    measure_all(DType::F16);
}

#[test]
fn every_bf16() {
    measure_all(DType::BF16);
}

#[test]
fn spread_f32() {
    measure_all(DType::F32);
}

#[test]
fn composed_functions_of_f64() {
    for function in [Sqrt, Reciprocal, Rsqrt, Sigmoid] {
        measure(function, DType::F64, &[patterns(DType::F64, 1)], 1.0);
    }
    measure(Modulo, DType::F64, &[patterns(DType::F64, 1), patterns(DType::F64, 40_503)], 0.0);
}
