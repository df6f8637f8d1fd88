//! Conversions between all element types.

use tenon_graph_dialect::operators::Cast;
use tenon_tensor::{DType, Tensor};

use super::{NUMBERS, types};
use crate::graph_kernels::{case, check_on, op};

/// Values that every type rounds, wraps or bounds in some way.
fn values(dtype: DType) -> Tensor {
    let list: Vec<f64> = if dtype == DType::Bool {
        vec![0.0, 1.0]
    } else if dtype.is_float() {
        let mut list = vec![
            0.0,
            -0.0,
            0.5,
            -0.5,
            1.5,
            -1.5,
            2.5,
            127.6,
            -128.9,
            128.0,
            255.9,
            256.0,
            300.0,
            -300.0,
            32767.5,
            65535.0,
            65536.0,
            -40000.0,
            2147483648.0,
            -2147483649.0,
            4294967296.0,
            9.3e18,
            -9.3e18,
            1.9e19,
            1e30,
            -1e30,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            65519.0,
            65520.0,
            1e-8,
            3.051_757_8e-5,
            2049.0,
            2051.0,
            1.0 + 1.0 / 256.0,
            1.0 + 3.0 / 256.0,
            1e-45,
        ];
        // Just beside what a narrower float rounds to even.
        list.extend([1.0 + 1.0 / 2048.0 + 1e-12, 1.0 + 1.0 / 256.0 + 1e-12, 1.0 + 1.0 / 256.0 - 1e-12]);
        list
    } else {
        let bits = dtype.bits() as i32;
        let mut list = vec![0.0, 1.0, 2.0, 3.0, 100.0, 127.0];
        for power in [7, 8, 11, 12, 15, 16, 24, 31, 32, 53, 62, 63] {
            if power < bits - i32::from(dtype.is_signed()) {
                let whole = 2f64.powi(power);
                list.extend([whole, whole + 1.0, whole - 1.0]);
            }
        }
        if dtype.is_signed() {
            let negative: Vec<f64> = list.iter().map(|value| -value).collect();
            list.extend(negative);
            list.push(-2f64.powi(bits - 1));
        }
        list
    };
    Tensor::from_f64s(dtype, vec![list.len()], &list).unwrap()
}

fn check(input: Tensor, to: DType) {
    let input = [input];
    check_on(case("map", &types(&input), 0.0), &input, &|at, v| vec![op(at, Cast { dtype: to, saturate: true }, v)]);
}

#[test]
fn every_pair() {
    let all: Vec<DType> = NUMBERS.into_iter().chain([DType::Bool]).collect();
    for from in &all {
        for to in all.iter().filter(|to| *to != from) {
            check(values(*from), *to);
        }
    }
}

/// Beside the middle between two floats, where a second rounding would go the other way.
#[test]
fn wide_integers_round_once() {
    for to in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let mut list = Vec::new();
        for power in [12i64, 24, 30, 40, 53, 54, 60, 62] {
            for half in [11i64, 8, 24, 53] {
                let middle = (1i64 << power) + if power > half { 1i64 << (power - half) } else { 0 };
                list.extend([middle - 1, middle, middle + 1, -middle, 1 - middle, -1 - middle]);
            }
        }
        list.extend([i64::MAX, i64::MIN, i64::MAX - 1]);
        check(Tensor::from_i64(vec![list.len()], &list).unwrap(), to);
        let narrow: Vec<f64> = list.iter().map(|value| (*value as i32).into()).collect();
        check(Tensor::from_f64s(DType::I32, vec![narrow.len()], &narrow).unwrap(), to);
        let bits: Vec<u64> = list.iter().map(|value| *value as u64).collect();
        check(Tensor::from_bits(DType::U64, vec![bits.len()], bits.iter().copied()).unwrap(), to);
    }
}
