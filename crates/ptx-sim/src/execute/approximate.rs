//! Approximate functions of the hardware (PTX ISA 9.7.3): `ex2 lg2 sin cos tanh rsqrt` on `f32`.
//!
//! Each is computed here in double precision by fixed polynomials without fused operations and rounded once, so the result is the
//! same on every machine and within one unit in the last place of the true value. [`DECLARED`] states how far a GPU may lie from the
//! true value; a GPU therefore agrees with the simulator within that bound plus one unit in the last place.

use super::integer::functions;
use super::lanes::{Registers, Slot, Vectors, map1};
use super::numbers::{bits, f, flush};
use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;

/// Largest error of an instruction on a GPU, from the PTX ISA.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeclaredError {
    /// Opcode without `.ftz`.
    pub instruction: &'static str,
    /// Relative error of the result.
    pub relative: f64,
    /// Absolute error of the result; either bound suffices.
    pub absolute: f64,
    /// Where the bound holds.
    pub range: &'static str,
}

const U: f64 = 1.0 / 8_388_608.0;

/// Declared errors of the approximate instructions.
pub const DECLARED: &[DeclaredError] = &[
    DeclaredError { instruction: "ex2.approx.f32", relative: 2.0 * U, absolute: 0.0, range: "all" },
    DeclaredError { instruction: "lg2.approx.f32", relative: 2.4e-7, absolute: 2.4e-7, range: "all" },
    DeclaredError { instruction: "sin.approx.f32", relative: 0.0, absolute: 6.8e-7, range: "[-pi, pi]" },
    DeclaredError { instruction: "cos.approx.f32", relative: 0.0, absolute: 6.8e-7, range: "[-pi, pi]" },
    DeclaredError { instruction: "tanh.approx.f32", relative: 4.9e-4, absolute: 0.0, range: "all" },
    DeclaredError { instruction: "rsqrt.approx.f32", relative: 1.7e-7, absolute: 0.0, range: "all" },
    DeclaredError { instruction: "sqrt.approx.f32", relative: 1.7e-7, absolute: 0.0, range: "all" },
    DeclaredError { instruction: "rcp.approx.f32", relative: 1.2e-7, absolute: 0.0, range: "all" },
    DeclaredError { instruction: "div.approx.f32", relative: 2.0 * U, absolute: 0.0, range: "|b| in [2^-126, 2^126]" },
    DeclaredError { instruction: "div.full.f32", relative: 2.0 * U, absolute: 0.0, range: "all" },
    DeclaredError { instruction: "ex2.approx.f16", relative: 9.8e-4, absolute: 0.0, range: "all" },
    DeclaredError { instruction: "tanh.approx.f16", relative: 9.8e-4, absolute: 0.0, range: "all" },
];

/// 2ˣ in double precision, relative error below 1e-13.
#[inline(always)]
pub(crate) fn exp2(x: f64) -> f64 {
    // Adding 1.5·2^52 rounds to an integer in the low bits.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let clamped = if x > 1000.0 {
        1000.0
    } else if x < -1000.0 {
        -1000.0
    } else {
        x
    };
    let shifted = clamped + SHIFT;
    let whole = shifted - SHIFT;
    let r = (clamped - whole) * std::f64::consts::LN_2;
    let mut p = 1.0 / 479_001_600.0;
    for c in [39_916_800.0, 3_628_800.0, 362_880.0, 40_320.0, 5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        p = p * r + 1.0 / c;
    }
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    let v = p * scale;
    if x.is_nan() { x } else { v }
}

/// log₂ x of a positive finite normal number, relative error below 1e-13.
#[inline(always)]
pub(crate) fn log2(x: f64) -> f64 {
    let raw = x.to_bits();
    // The mantissa is brought to [√½, √2).
    let offset = raw.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let exponent = (offset as i64) >> 52;
    let m = f64::from_bits(raw.wrapping_sub((exponent as u64) << 52));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut p = 1.0 / 23.0;
    for c in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        p = p * z + 1.0 / c;
    }
    exponent as f64 + 2.0 * s * p * std::f64::consts::LOG2_E
}

#[inline(always)]
fn ex2(a: u32) -> u32 {
    bits(exp2(f64::from(f(a))) as f32)
}
#[inline(always)]
fn lg2(a: u32) -> u32 {
    let x = f64::from(f(a));
    let v = log2(if x > 0.0 { x } else { 1.0 }) as f32;
    let v = if x == f64::INFINITY { f32::INFINITY } else { v };
    let v = if x == 0.0 { f32::NEG_INFINITY } else { v };
    bits(if x < 0.0 || x.is_nan() { f32::NAN } else { v })
}
/// sin(x + quarter·π/2). The argument is reduced in double precision, exactly enough below 2²⁰.
#[inline(always)]
fn sine(a: u32, quarter: u64) -> u32 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let x = f64::from(f(a));
    let shifted = x * std::f64::consts::FRAC_2_PI + SHIFT;
    let k = shifted - SHIFT;
    let r = (x - k * 1.570_796_326_734_125_6) - k * 6.077_100_506_506_192e-11;
    let z = r * r;
    let mut s = -1.0 / 1_307_674_368_000.0;
    for c in [6_227_020_800.0, -39_916_800.0, 362_880.0, -5_040.0, 120.0, -6.0, 1.0] {
        s = s * z + 1.0 / c;
    }
    let mut c = 1.0 / 20_922_789_888_000.0;
    for d in [-87_178_291_200.0, 479_001_600.0, -3_628_800.0, 40_320.0, -720.0, 24.0, -2.0, 1.0] {
        c = c * z + 1.0 / d;
    }
    let quadrant = shifted.to_bits().wrapping_add(quarter);
    let v = if quadrant & 1 == 1 { c } else { s * r };
    let v = if quadrant & 2 == 2 { -v } else { v };
    bits(if x.is_finite() { v as f32 } else { f32::NAN })
}
#[inline(always)]
pub(crate) fn tanh(x: f64) -> f64 {
    let e = exp2(x * (2.0 * std::f64::consts::LOG2_E));
    let large = 1.0 - 2.0 / (e + 1.0);
    let small = x - x * x * x / 3.0;
    let v = if x.abs() < 1e-4 { small } else { large };
    if x.is_nan() { x } else { v }
}

functions!(Unary, run, 1, (a), u32, u32;
    Ex2 = ex2;
    Lg2 = lg2;
    Sin = |a: u32| sine(a, 0);
    Cos = |a: u32| sine(a, 1);
    Tanh = |a: u32| bits(tanh(f64::from(f(a))) as f32);
    Rsqrt = |a: u32| bits((1.0 / f64::from(f(a)).sqrt()) as f32);
);

#[derive(Clone, Debug)]
pub(crate) struct Op {
    f: Unary,
    d: Slot,
    a: Slot,
    ftz: bool,
}

struct Run<'a>(&'a Op, &'a mut Registers, u32);

impl pulp::NullaryFnOnce for Run<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Run(op, r, mask) = self;
        let mut v = *r.get(op.a);
        if op.ftz {
            v = map1(&v, flush);
        }
        v = op.f.run(&v);
        if op.ftz {
            v = map1(&v, flush);
        }
        r.put(op.d, &v, mask);
    }
}

impl Op {
    pub(crate) fn execute(&self, vectors: Vectors, r: &mut Registers, mask: u32) {
        vectors.run(Run(self, r, mask));
    }
}

/// Decodes an approximate function of an `f32`.
pub(crate) fn decode(form: &mut Form<'_, '_>, t: Type) -> Result<Op, Error> {
    form.need(&["approx"])?;
    let ftz = form.flag("ftz");
    if t != Type::F32 {
        return form.unsupported(t);
    }
    let f = match form.name() {
        "ex2" => Unary::Ex2,
        "lg2" => Unary::Lg2,
        "sin" => Unary::Sin,
        "cos" => Unary::Cos,
        "tanh" => Unary::Tanh,
        _ => Unary::Rsqrt,
    };
    form.need_count(2)?;
    Ok(Op { f, d: form.dst(0, t)?, a: form.src(1, t)?, ftz })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f32, exact: f64, what: &str) {
        let ulp = f64::from(f32::from_bits((exact.abs() as f32).to_bits() + 1)) - f64::from(exact.abs() as f32);
        assert!((f64::from(got) - exact).abs() <= ulp.max(1e-45), "{what}: {got} {exact}");
    }

    #[test]
    fn functions_lie_within_one_unit_in_the_last_place() {
        for i in -2000..2000 {
            let x = i as f32 * 0.063_7;
            let wide = f64::from(x);
            close(f(ex2(x.to_bits())), wide.exp2(), "ex2");
            close(f(sine(x.to_bits(), 0)), wide.sin(), "sin");
            close(f(sine(x.to_bits(), 1)), wide.cos(), "cos");
            close(tanh(wide) as f32, wide.tanh(), "tanh");
            if x > 0.0 {
                close(f(lg2(x.to_bits())), wide.log2(), "lg2");
            }
        }
        assert_eq!(f(ex2(f32::NEG_INFINITY.to_bits())), 0.0);
        assert_eq!(f(ex2(1000f32.to_bits())), f32::INFINITY);
        assert_eq!(f(ex2((-149f32).to_bits())), f32::from_bits(1));
        assert_eq!(f(lg2(0)), f32::NEG_INFINITY);
        assert!(f(lg2((-1f32).to_bits())).is_nan());
        assert_eq!(f(lg2(1)), -149.0);
    }
}
