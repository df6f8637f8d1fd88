//! Encoding and decoding of floats against methods that share nothing with the implementation.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tenon_tensor::{DType, E8m0Rounding, Overflow, decode_float, encode_e8m0, encode_float, encode_float_with};

/// Value by definition: sign · significand · 2^(exponent − bias), in floating-point `powi`.
fn by_definition(dtype: DType, code: u64) -> Option<f64> {
    let (exponent_bits, mantissa_bits, bias) = match dtype {
        DType::F16 => (5, 10, 15),
        DType::BF16 => (8, 7, 127),
        DType::F8E4M3FN => (4, 3, 7),
        DType::F8E4M3FNUZ => (4, 3, 8),
        DType::F8E5M2 => (5, 2, 15),
        DType::F8E5M2FNUZ => (5, 2, 16),
        DType::F4E2M1FN => (2, 1, 1),
        _ => unreachable!("not a small float"),
    };
    let sign = if code >> (exponent_bits + mantissa_bits) & 1 == 1 { -1.0 } else { 1.0 };
    let exponent = (code >> mantissa_bits & ((1 << exponent_bits) - 1)) as i32;
    let fraction = (code & ((1 << mantissa_bits) - 1)) as f64 / f64::from(1 << mantissa_bits);
    let all_ones = exponent == (1 << exponent_bits) - 1;
    let special = match dtype {
        DType::F8E4M3FN => all_ones && code & 7 == 7,
        DType::F8E4M3FNUZ | DType::F8E5M2FNUZ => code == 0x80,
        DType::F4E2M1FN => false,
        _ => all_ones,
    };
    let value =
        if exponent == 0 { fraction * 2f64.powi(1 - bias) } else { (1.0 + fraction) * 2f64.powi(exponent - bias) };
    (!special).then_some(sign * value)
}

const SMALL: [DType; 7] =
    [DType::F16, DType::BF16, DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F4E2M1FN];

#[test]
fn every_small_code_decodes_by_definition_and_encodes_back() {
    for dtype in SMALL {
        for code in 0..1u64 << dtype.bits() {
            let value = decode_float(dtype, code);
            match by_definition(dtype, code) {
                Some(expected) => {
                    assert_eq!(value.to_bits(), expected.to_bits(), "{dtype} {code:#x}");
                    for overflow in [Overflow::Saturate, Overflow::Special] {
                        assert_eq!(encode_float_with(dtype, value, overflow), code, "{dtype} {code:#x}");
                    }
                }
                None => assert!(!value.is_finite(), "{dtype} {code:#x}"),
            }
        }
    }
}

/// Between every two neighbours: the midpoint goes to the even code, and the next f64 on either side to the nearer one.
#[test]
fn every_small_boundary_rounds_to_nearest_even() {
    for dtype in SMALL {
        let mut finite: Vec<(f64, u64)> = (0..1u64 << dtype.bits())
            .filter_map(|code| by_definition(dtype, code).map(|value| (value, code)))
            .filter(|(value, _)| *value != 0.0 || value.is_sign_positive())
            .collect();
        finite.sort_by(|a, b| a.0.total_cmp(&b.0));
        for pair in finite.windows(2) {
            let [(low, low_code), (high, high_code)] = [pair[0], pair[1]];
            let middle = (low + high) / 2.0;
            // A zero that comes from a negative value keeps its sign where the type has a negative zero.
            let signed = |code: u64, from: f64| {
                let keeps = !matches!(dtype, DType::F8E4M3FNUZ | DType::F8E5M2FNUZ);
                if code == 0 && from < 0.0 && keeps { 1 << (dtype.bits() - 1) } else { code }
            };
            let even = if low_code & 1 == 0 { low_code } else { high_code };
            let encode = |value| encode_float(dtype, value);
            assert_eq!(encode(middle), signed(even, middle), "{dtype} {middle}");
            assert_eq!(encode(middle.next_down()), signed(low_code, middle), "{dtype} below {middle}");
            assert_eq!(encode(middle.next_up()), signed(high_code, middle), "{dtype} above {middle}");
        }
    }
}

#[test]
fn overflow_follows_the_table_of_cast() {
    use Overflow::{Saturate, Special};
    // (type, largest value, its code, first value that rounds past it, overflow without saturation, NaN, −NaN)
    let rows = [
        (DType::F8E4M3FN, 448.0, 0x7e, 464.0f64.next_up(), 0x7f, 0x7f, 0xff),
        (DType::F8E4M3FNUZ, 240.0, 0x7f, 248.0, 0x80, 0x80, 0x80),
        (DType::F8E5M2, 57344.0, 0x7b, 61440.0, 0x7c, 0x7e, 0xfe),
        (DType::F8E5M2FNUZ, 57344.0, 0x7f, 61440.0, 0x80, 0x80, 0x80),
        (DType::F16, 65504.0, 0x7bff, 65520.0, 0x7c00, 0x7e00, 0xfe00),
        (DType::F4E2M1FN, 6.0, 0x7, 7.0, 0x7, 0x8, 0x8),
    ];
    for (dtype, largest, code, past, special, nan, negative_nan) in rows {
        let sign = 1u64 << (dtype.bits() - 1);
        assert_eq!(decode_float(dtype, code), largest);
        assert_eq!(encode_float_with(dtype, past.next_down(), Special), code, "{dtype}");
        for value in [past, 1e30, f64::MAX, f64::INFINITY] {
            assert_eq!(encode_float_with(dtype, value, Saturate), code, "{dtype} {value}");
            assert_eq!(encode_float_with(dtype, -value, Saturate), sign | code, "{dtype} −{value}");
            assert_eq!(encode_float_with(dtype, value, Special), special, "{dtype} {value}");
            assert_eq!(encode_float_with(dtype, -value, Special), sign | special, "{dtype} −{value}");
        }
        for overflow in [Saturate, Special] {
            assert_eq!(encode_float_with(dtype, f64::NAN, overflow), nan);
            assert_eq!(encode_float_with(dtype, -f64::NAN, overflow), negative_nan);
        }
    }
    assert_eq!(encode_float(DType::F16, 1e9), 0x7c00);
    assert_eq!(encode_float(DType::F8E5M2, 1e9), 0x7b);
}

#[test]
fn powers_of_two_follow_the_table_of_cast() {
    use E8m0Rounding::{Down, Nearest, Up};
    use Overflow::{Saturate, Special};
    for code in 0..255u64 {
        let value = 2f64.powi(code as i32 - 127);
        assert_eq!(decode_float(DType::F8E8M0FNU, code), value);
        for rounding in [Up, Down, Nearest] {
            assert_eq!(encode_e8m0(value, rounding, Special), code);
        }
        if code < 254 {
            assert_eq!(encode_e8m0(value * 1.25, Up, Special), code + 1);
            assert_eq!(encode_e8m0(value * 1.75, Down, Special), code);
            assert_eq!(encode_e8m0(value * 1.5, Nearest, Special), code + 1);
            assert_eq!(encode_e8m0((value * 1.5).next_down(), Nearest, Special), code);
        }
    }
    assert!(decode_float(DType::F8E8M0FNU, 255).is_nan());
    for (value, saturated) in
        [(0.0, 0), (1e-300, 0), (f64::INFINITY, 0xfe), (1e300, 0xfe), (2f64.powi(127) * 1.5, 0xfe)]
    {
        assert_eq!(encode_e8m0(value, Up, Saturate), saturated, "{value}");
        assert_eq!(encode_e8m0(value, Nearest, Special), 0xff, "{value}");
    }
    for value in [f64::NAN, -1.0] {
        assert_eq!(encode_e8m0(value, Up, Saturate), 0xff);
    }
}

#[test]
fn sixteen_bit_types_agree_with_another_implementation() {
    for code in 0..=u16::MAX {
        let (ours, theirs) = (decode_float(DType::F16, code.into()), half::f16::from_bits(code).to_f64());
        assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
        let (ours, theirs) = (decode_float(DType::BF16, code.into()), half::bf16::from_bits(code).to_f64());
        assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
    }
}

proptest! {
    #[test]
    fn f32_agrees_with_the_hardware(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        prop_assume!(!value.is_nan());
        prop_assert_eq!(encode_float(DType::F32, value), u64::from((value as f32).to_bits()));
        prop_assert_eq!(encode_float(DType::F64, value), bits);
        let single = f32::from_bits(bits as u32);
        prop_assume!(!single.is_nan());
        prop_assert_eq!(decode_float(DType::F32, u64::from(single.to_bits())).to_bits(), f64::from(single).to_bits());
    }

    /// Values in and around the range of f32, subnormals included, where random bits seldom fall.
    #[test]
    fn f32_agrees_with_the_hardware_near_its_limits(exponent in -160i32..140, mantissa in 0u64..1 << 52, negative in any::<bool>()) {
        let magnitude = f64::from_bits(((exponent + 1023) as u64) << 52 | mantissa);
        let value = if negative { -magnitude } else { magnitude };
        prop_assert_eq!(encode_float(DType::F32, value), u64::from((value as f32).to_bits()));
    }
}
