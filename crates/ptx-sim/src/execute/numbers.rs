//! Exact rounding between number formats.
//!
//! Results that are not a number are the canonical one of the hardware (`0x7fffffff`, `0x7fff`), so that they do not depend
//! on the machine this runs on. Functions marked inline vectorise when mapped over lanes.

use crate::decode::form::Form;
use crate::decode::types::Type;

/// Rounding direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Nearest,
    Zero,
    Down,
    Up,
    /// Nearest, ties away from zero.
    Away,
}

impl Round {
    /// Takes `.rn .rz .rm .rp` from a form.
    pub(crate) fn take(form: &mut Form<'_, '_>) -> Option<Round> {
        Some(match form.pick(&["rn", "rz", "rm", "rp"])? {
            "rn" => Round::Nearest,
            "rz" => Round::Zero,
            "rm" => Round::Down,
            _ => Round::Up,
        })
    }
}

pub(crate) const NAN32: u32 = 0x7fff_ffff;
pub(crate) const NAN64: u64 = 0x7ff8_0000_0000_0000;
pub(crate) const NAN16: u32 = 0x7fff;

#[inline(always)]
pub(crate) fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}
#[inline(always)]
pub(crate) fn bits(v: f32) -> u32 {
    if v.is_nan() { NAN32 } else { v.to_bits() }
}
#[inline(always)]
pub(crate) fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}
#[inline(always)]
pub(crate) fn bits64(v: f64) -> u64 {
    if v.is_nan() { NAN64 } else { v.to_bits() }
}

/// Subnormal to zero of the same sign.
#[inline(always)]
pub(crate) fn flush(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// To [0, 1]; not-a-number to +0.
#[inline(always)]
pub(crate) fn saturate(v: f32) -> f32 {
    if v > 0.0 { if v < 1.0 { v } else { 1.0 } } else { 0.0 }
}

/// `a + b` rounded to odd: rounding the result again, to at least two bits less, is as if the sum had been rounded once.
#[inline(always)]
pub(crate) fn sum_to_odd(a: f64, b: f64) -> f64 {
    let s = a + b;
    let t = s - a;
    let error = (a - (s - t)) + (b - t);
    to_odd(s, error)
}

/// A value rounded to nearest and the sign of what was lost, as the value rounded to odd.
#[inline(always)]
pub(crate) fn to_odd(s: f64, error: f64) -> f64 {
    let raw = s.to_bits();
    if error != 0.0 && error.is_finite() && raw & 1 == 0 {
        let outward = (error > 0.0) == (s > 0.0);
        return f64::from_bits(if outward { raw + 1 } else { raw - 1 });
    }
    s
}

/// One rounding of an exact (or odd-rounded) value.
pub(crate) fn to_f32(v: f64, round: Round) -> f32 {
    let n = v as f32;
    if v.is_nan() || f64::from(n) == v {
        return n;
    }
    let above = f64::from(n) > v;
    let down = |x: f32| {
        if x == 0.0 {
            -f32::from_bits(1)
        } else if x > 0.0 {
            f(x.to_bits() - 1)
        } else {
            f(x.to_bits() + 1)
        }
    };
    let up = |x: f32| {
        if x == 0.0 {
            f32::from_bits(1)
        } else if x > 0.0 {
            f(x.to_bits() + 1)
        } else {
            f(x.to_bits() - 1)
        }
    };
    match round {
        Round::Nearest | Round::Away => n,
        Round::Zero if above && v > 0.0 => down(n),
        Round::Zero if !above && v < 0.0 => {
            if n == 0.0 {
                -0.0
            } else {
                up(n)
            }
        }
        Round::Zero => n,
        Round::Down => {
            if above {
                down(n)
            } else {
                n
            }
        }
        Round::Up => {
            if above {
                n
            } else {
                up(n)
            }
        }
    }
}

/// Nearest `f32` of an odd-rounded or exact value, odd again where inexact.
#[inline(always)]
pub(crate) fn to_f32_odd(v: f64) -> f32 {
    let n = v as f32;
    let raw = n.to_bits();
    let back = f64::from(n);
    if back != v && n.is_finite() && raw & 1 == 0 {
        let outward = (v > back) == (v > 0.0);
        if outward || raw & 0x7fff_ffff != 0 {
            return f32::from_bits(if outward { raw + 1 } else { raw - 1 });
        }
    }
    n
}

/// A double rounded to nearest moved by its error to another direction.
pub(crate) fn redirect(n: f64, error: f64, round: Round) -> f64 {
    if error == 0.0 || n.is_nan() || round == Round::Nearest || error.is_nan() {
        return n;
    }
    let lower = |x: f64| {
        if x == 0.0 {
            -f64::from_bits(1)
        } else if x > 0.0 {
            d(x.to_bits() - 1)
        } else {
            d(x.to_bits() + 1)
        }
    };
    let upper = |x: f64| {
        if x == 0.0 {
            f64::from_bits(1)
        } else if x > 0.0 {
            d(x.to_bits() + 1)
        } else {
            d(x.to_bits() - 1)
        }
    };
    match round {
        Round::Down if error < 0.0 => lower(n),
        Round::Up if error > 0.0 => upper(n),
        Round::Zero if n > 0.0 && error < 0.0 => lower(n),
        Round::Zero if n < 0.0 && error > 0.0 => upper(n),
        _ => n,
    }
}

/// Binary16 to binary32, exactly.
#[inline(always)]
pub(crate) fn half_to_f32(h: u32) -> f32 {
    let magnitude = (h & 0x7fff) << 13;
    let finite = f32::from_bits(magnitude) * f32::from_bits((254 - 15) << 23);
    let special = magnitude + ((255 - 31) << 23);
    let value = if h & 0x7c00 == 0x7c00 { special } else { finite.to_bits() };
    f32::from_bits(value | (h & 0x8000) << 16)
}

/// Binary32 to binary16, to nearest even.
#[inline(always)]
pub(crate) fn f32_to_half(v: f32) -> u32 {
    let raw = v.to_bits();
    let sign = raw >> 16 & 0x8000;
    let a = raw & 0x7fff_ffff;
    let tiny = (f32::from_bits(a) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let normal = a.wrapping_add(0xc800_0fff).wrapping_add(a >> 13 & 1) >> 13;
    let magnitude = if a < 113 << 23 { tiny } else { normal };
    let magnitude = if a >= 143 << 23 { 0x7c00 } else { magnitude };
    if a > 0x7f80_0000 { NAN16 } else { magnitude | sign }
}

#[inline(always)]
pub(crate) fn bfloat_to_f32(h: u32) -> f32 {
    f32::from_bits(h << 16)
}

/// Binary32 to bfloat16, to nearest even.
#[inline(always)]
pub(crate) fn f32_to_bfloat(v: f32) -> u32 {
    let raw = v.to_bits();
    if raw & 0x7fff_ffff > 0x7f80_0000 { NAN16 } else { raw.wrapping_add(0x7fff).wrapping_add(raw >> 16 & 1) >> 16 }
}

/// Layout of a narrow binary format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub exponent: u32,
    pub mantissa: u32,
    /// Has infinities; without (e4m3) the top exponent holds numbers and one not-a-number.
    pub infinite: bool,
}

impl Format {
    pub(crate) const HALF: Format = Format { exponent: 5, mantissa: 10, infinite: true };
    pub(crate) const BFLOAT: Format = Format { exponent: 8, mantissa: 7, infinite: true };
    pub(crate) const TF32: Format = Format { exponent: 8, mantissa: 10, infinite: true };
    pub(crate) const E4M3: Format = Format { exponent: 4, mantissa: 3, infinite: false };
    pub(crate) const E5M2: Format = Format { exponent: 5, mantissa: 2, infinite: true };

    pub(crate) fn of(t: Type) -> Option<Format> {
        Some(match t {
            Type::F16 | Type::F16x2 => Format::HALF,
            Type::Bf16 | Type::Bf16x2 => Format::BFLOAT,
            Type::Tf32 => Format::TF32,
            Type::E4m3 => Format::E4M3,
            Type::E5m2 => Format::E5M2,
            _ => return None,
        })
    }

    fn largest(self) -> u32 {
        let top = (1 << (self.exponent + self.mantissa)) - 1;
        if self.infinite { top - (1 << self.mantissa) } else { top - 1 }
    }

    /// Encodes with one rounding; `finite` keeps overflow at the largest number.
    pub(crate) fn encode(self, v: f64, round: Round, finite: bool) -> u32 {
        let width = 1 + self.exponent + self.mantissa;
        let nan = if width == 16 {
            NAN16
        } else if width == 8 {
            0x7f
        } else {
            (1 << (width - 1)) - 1
        };
        if v.is_nan() {
            return nan;
        }
        let sign = u32::from(v.is_sign_negative()) << (width - 1);
        let a = v.abs();
        let bias = (1i32 << (self.exponent - 1)) - 1;
        let overflow = |up: bool| {
            let infinity = if self.infinite { self.largest() + 1 } else { nan };
            sign | if finite || !up && a.is_finite() { self.largest() } else { infinity }
        };
        let outward = match round {
            Round::Nearest | Round::Away => true,
            Round::Zero => false,
            Round::Down => v < 0.0,
            Round::Up => v > 0.0,
        };
        if a.is_infinite() {
            return overflow(true);
        }
        if a == 0.0 {
            return sign;
        }
        let exponent = (((a.to_bits() >> 52) as i32) - 1023).max(1 - bias);
        // Units of the last place, exact: the scale is a power of two inside the range of f64.
        let scaled = a * power_of_two(i64::from(self.mantissa) - i64::from(exponent));
        let whole = scaled.floor();
        let rest = scaled - whole;
        let mut units = whole as u64;
        let up = match round {
            Round::Nearest => rest > 0.5 || rest == 0.5 && units & 1 == 1,
            Round::Away => rest >= 0.5,
            Round::Zero => false,
            Round::Down | Round::Up => outward && rest > 0.0,
        };
        units += u64::from(up);
        let magnitude = (((exponent + bias - 1) as u64) << self.mantissa) + units;
        if magnitude > u64::from(self.largest()) { overflow(outward) } else { sign | magnitude as u32 }
    }

    /// Value of an encoding.
    pub(crate) fn decode(self, raw: u32) -> f64 {
        let width = 1 + self.exponent + self.mantissa;
        let magnitude = raw & ((1 << (width - 1)) - 1);
        let negative = raw >> (width - 1) & 1 == 1;
        let bias = (1i64 << (self.exponent - 1)) - 1;
        let value = if magnitude > self.largest() {
            if self.infinite && magnitude == self.largest() + 1 { f64::INFINITY } else { f64::NAN }
        } else {
            let e = i64::from(magnitude >> self.mantissa);
            let m = f64::from(magnitude & ((1 << self.mantissa) - 1));
            let one = f64::from(1u32 << self.mantissa);
            let scale = power_of_two(e.max(1) - bias - i64::from(self.mantissa));
            if e == 0 { m * scale } else { (one + m) * scale }
        };
        if negative { -value } else { value }
    }
}

/// 2ⁿ for n in the normal range of f64; saturates outside.
pub(crate) fn power_of_two(n: i64) -> f64 {
    f64::from_bits(((n.clamp(-1022, 1023) + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_converts_as_the_half_crate_does() {
        for h in 0..=0xffffu32 {
            let expected = half::f16::from_bits(h as u16).to_f32();
            let got = half_to_f32(h);
            assert!(
                got == expected && got.is_sign_negative() == expected.is_sign_negative()
                    || got.is_nan() && expected.is_nan()
            );
            if !expected.is_nan() {
                assert_eq!(f32_to_half(expected), h);
                assert_eq!(Format::HALF.encode(f64::from(expected), Round::Nearest, false), h);
                assert_eq!(Format::HALF.decode(h), f64::from(expected));
            }
        }
    }

    #[test]
    fn rounding_to_half_and_bfloat_agrees_with_the_half_crate() {
        let mut x = 1u32;
        for _ in 0..200_000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let v = f32::from_bits(x);
            if v.is_nan() {
                continue;
            }
            assert_eq!(f32_to_half(v), u32::from(half::f16::from_f32(v).to_bits()), "{v}");
            assert_eq!(f32_to_bfloat(v), u32::from(half::bf16::from_f32(v).to_bits()), "{v}");
            assert_eq!(Format::HALF.encode(f64::from(v), Round::Nearest, false), f32_to_half(v), "{v}");
            assert_eq!(Format::BFLOAT.encode(f64::from(v), Round::Nearest, false), f32_to_bfloat(v), "{v}");
        }
    }

    #[test]
    fn directed_rounding_brackets_the_value() {
        let mut x = 7u64;
        for _ in 0..100_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let v = f64::from_bits(x & !(0x7ff << 52) | (900 + (x >> 52) % 200) << 52);
            let (down, up) = (to_f32(v, Round::Down), to_f32(v, Round::Up));
            assert!(f64::from(down) <= v && v <= f64::from(up), "{v} {down} {up}");
            assert!(down == up || f64::from(down) < v && v < f64::from(up));
            let zero = to_f32(v, Round::Zero);
            assert_eq!(zero, if v > 0.0 { down } else { up });
        }
    }
}
