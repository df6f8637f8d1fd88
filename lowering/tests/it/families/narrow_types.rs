//! Floats of 8 and 4 bits and integers of 4 and 2: every value of them, and every value of the 16-bit floats, converted and computed with.

use tenon_graph_dialect::operators::{Bitcast, Cast, Elementwise, Function};
use tenon_tensor::{DType, Tensor};

use super::types;
use crate::graph_kernels::{case, check_on, op};

const FLOATS: [DType; 6] =
    [DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F8E8M0FNU, DType::F4E2M1FN];
const INTEGERS: [DType; 4] = [DType::I4, DType::U4, DType::I2, DType::U2];

/// Every value of a type of 16 bits or fewer.
fn every_value(dtype: DType) -> Tensor {
    let count = 1usize << dtype.bits();
    Tensor::from_bits(dtype, vec![count], 0..count as u64).unwrap()
}

/// Values of a wide type around those that a narrow one rounds to, and the middles between neighbours, each with the nearest below and above.
fn around(dtype: DType, narrow: DType) -> Tensor {
    let codes = every_value(narrow).to_f64_vec().unwrap();
    let mut values: Vec<f64> = codes.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let middles: Vec<f64> = values.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
    let largest = values.last().copied().unwrap_or(1.0);
    values.extend(middles);
    values.extend([1.25 * largest, 1.5 * largest, 1e30, 1e-30, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
    if dtype == DType::F64 {
        values.extend([1e300, -1e300, 1e-300, 5e-324]);
    }
    let beside = |value: f64| {
        if dtype == DType::F64 {
            [value.next_down(), value, value.next_up()]
        } else {
            let value = value as f32;
            [value.next_down(), value, value.next_up()].map(f64::from)
        }
    };
    let list: Vec<f64> = values.into_iter().flat_map(beside).collect();
    Tensor::from_f64s(dtype, vec![list.len()], &list).unwrap()
}

fn cast(input: Tensor, to: DType, saturate: bool) {
    let input = [input];
    check_on(case("map", &types(&input), 0.0), &input, &|at, v| vec![op(at, Cast { dtype: to, saturate }, v)]);
}

#[test]
fn from_every_value_of_sixteen_bits() {
    for from in [DType::F16, DType::BF16] {
        for to in FLOATS {
            cast(every_value(from), to, true);
            cast(every_value(from), to, false);
        }
    }
    for from in [DType::F16, DType::BF16, DType::I16, DType::U16] {
        for to in [DType::I4, DType::U2] {
            cast(every_value(from), to, false);
        }
    }
}

#[test]
fn from_wide_types_rounding_once() {
    for to in FLOATS {
        for from in [DType::F32, DType::F64] {
            cast(around(from, to), to, true);
            cast(around(from, to), to, false);
        }
        let list = [
            0,
            1,
            -1,
            2,
            3,
            5,
            7,
            17,
            19,
            25,
            447,
            449,
            463,
            464,
            465,
            57_343,
            61_440,
            1 << 24,
            (1 << 53) + 1,
            i64::MAX,
            i64::MIN,
        ];
        cast(Tensor::from_i64(vec![list.len()], &list).unwrap(), to, true);
        let narrow: Vec<f64> = list.iter().map(|value| (*value as i32).into()).collect();
        cast(Tensor::from_f64s(DType::I32, vec![narrow.len()], &narrow).unwrap(), to, true);
    }
}

#[test]
fn from_every_narrow_value_to_every_type() {
    let wide =
        [DType::Bool, DType::I8, DType::U8, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];
    for from in FLOATS.into_iter().chain(INTEGERS) {
        for to in wide.into_iter().chain(FLOATS).chain(INTEGERS).filter(|to| *to != from) {
            cast(every_value(from), to, true);
        }
    }
    for to in INTEGERS {
        cast(every_value(DType::I8), to, false);
    }
}

/// All pairs of values of two operands.
fn pairs(dtype: DType) -> [Tensor; 2] {
    let count = 1u64 << dtype.bits();
    let size = vec![(count * count) as usize];
    let of =
        |part: fn(u64, u64) -> u64| Tensor::from_bits(dtype, size.clone(), (0..count * count).map(|i| part(i, count)));
    [of(|i, count| i / count).unwrap(), of(|i, count| i % count).unwrap()]
}

#[test]
fn arithmetic_wraps_and_rounds() {
    use Function::*;
    for dtype in INTEGERS {
        let inputs = pairs(dtype);
        check_on(case("map", &types(&inputs), 0.0), &inputs, &|at, v| {
            let apply = |function| op(at, Elementwise { function }, v);
            [Add, Subtract, Multiply, Divide, Modulo, Max, Min, Less, Equal, BitXor, ShiftLeft, ShiftRight]
                .map(apply)
                .into()
        });
        let input = [every_value(dtype)];
        check_on(case("map", &types(&input), 0.0), &input, &|at, v| {
            let mut list = vec![op(at, Elementwise { function: BitNot }, v), op(at, Elementwise { function: Sign }, v)];
            if dtype.is_signed() {
                list.extend([Negate, Abs].map(|function| op(at, Elementwise { function }, v)));
            }
            list
        });
    }
    for dtype in [DType::F4E2M1FN, DType::F8E5M2] {
        let inputs = pairs(dtype);
        check_on(case("map", &types(&inputs), 0.0), &inputs, &|at, v| {
            [Add, Subtract, Multiply, Less, Equal].map(|function| op(at, Elementwise { function }, v)).into()
        });
    }
}

#[test]
fn bits_as_another_type() {
    let same = [
        (DType::F16, DType::I16),
        (DType::U16, DType::BF16),
        (DType::F8E4M3FN, DType::U8),
        (DType::I8, DType::F8E5M2),
        (DType::U8, DType::I8),
        (DType::U4, DType::I4),
        (DType::I4, DType::F4E2M1FN),
        (DType::F4E2M1FN, DType::I4),
        (DType::I2, DType::U2),
    ];
    for (from, to) in same {
        // The reference holds f16 and bf16 as f32, where every NaN is one.
        let is_wide_float = |dtype: DType| dtype.is_float() && dtype.bits() == 16;
        let all = every_value(if is_wide_float(to) { to } else { from });
        let is_one_of_all = |index: &usize| !all.get_f64(*index).is_some_and(f64::is_nan);
        let bits: Vec<u64> = (0..all.element_count()).filter(is_one_of_all).filter_map(|i| all.get_bits(i)).collect();
        let input = [Tensor::from_bits(from, vec![bits.len()], bits.iter().copied()).unwrap()];
        check_on(case("map", &types(&input), 0.0), &input, &|at, v| vec![op(at, Bitcast { dtype: to }, v)]);
    }
    let numbers = Tensor::from_f64s(DType::F64, vec![5], &[1.0, -0.0, 1e300, f64::INFINITY, -5e-324]).unwrap();
    check_on(case("map", &types(&[numbers.clone()]), 0.0), &[numbers], &|at, v| {
        vec![op(at, Bitcast { dtype: DType::I64 }, v)]
    });
    let truth = Tensor::from_f64s(DType::Bool, vec![2], &[0.0, 1.0]).unwrap();
    check_on(case("map", &types(&[truth.clone()]), 0.0), &[truth], &|at, v| {
        vec![op(at, Bitcast { dtype: DType::U8 }, v)]
    });
}
