//! Scalar functions of every element type.

use tenon_graph_dialect::operators::{DimExtent, Function, Iota};
use tenon_graph_dialect::{DimExpr, Operator};
use tenon_tensor::{DType, Tensor};

use super::{FLOATS, NUMBERS, rounding, types};
use crate::graph_kernels::{F32, case, check_on, ew, op, t};

use Function::*;

/// Functions that integers have, and those that every number has.
const OF_INTEGERS: [Function; 6] = [BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight, BitNot];
const OF_NUMBERS: [Function; 20] = [
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Remainder,
    Power,
    Max,
    Min,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Select,
    Negate,
    Abs,
    Sign,
    Add,
];
/// Functions that floats alone have.
const OF_FLOATS: [Function; 29] = [
    Exp, Expm1, Log, Log1p, Sqrt, Rsqrt, Reciprocal, Tanh, Sigmoid, Sinh, Cosh, Floor, Ceil, Round, Trunc, IsNan,
    IsInf, Erf, Sin, Cos, Tan, Asin, Acos, Atan, Asinh, Acosh, Atanh, Atan2, Power,
];

/// Values of a type with its extremes.
fn values(dtype: DType, count: usize, shift: usize) -> Tensor {
    let special: Vec<f64> = match dtype {
        _ if dtype.is_float() => {
            vec![0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 7.25]
        }
        _ if dtype.is_signed() => {
            let top = 2f64.powi(dtype.bits() as i32 - 1);
            // The greatest of i64 is no f64.
            vec![
                0.0,
                1.0,
                -1.0,
                2.0,
                -3.0,
                -top,
                if dtype.bits() == 64 { 4e18 } else { top - 1.0 },
                5.0,
                100.0,
                -77.0,
                9.0,
            ]
        }
        _ => vec![
            0.0,
            1.0,
            2.0,
            3.0,
            if dtype.bits() == 64 { 1e19 } else { 2f64.powi(dtype.bits() as i32) - 1.0 },
            5.0,
            100.0,
            77.0,
            9.0,
            128.0,
            200.0,
        ],
    };
    // Every pair meets: the lengths have no common factor.
    let list: Vec<f64> = (0..count).map(|i| special[(i + i / special.len() * shift) % special.len()]).collect();
    Tensor::from_f64s(dtype, vec![count], &list).unwrap()
}

fn check(function: Function, dtype: DType, tolerance: f64) {
    let (a, b) = (values(dtype, 121, 0), values(dtype, 121, 1));
    let operands = match function.arity() {
        1 => vec![a],
        2 => vec![a, b],
        _ => {
            let condition: Vec<f64> = (0..121).map(|i| f64::from(i % 2)).collect();
            vec![Tensor::from_f64s(DType::Bool, vec![121], &condition).unwrap(), a, b]
        }
    };
    check_on(case("map", &types(&operands), tolerance), &operands, &|at, v| vec![ew(at, function, v)]);
}

#[test]
fn functions_of_numbers() {
    for dtype in NUMBERS {
        for function in OF_NUMBERS {
            let exact = !dtype.is_float() || function != Power;
            check(function, dtype, if exact { 0.0 } else { rounding(dtype) });
        }
    }
}

#[test]
fn functions_of_integers_and_truth_values() {
    for dtype in NUMBERS.into_iter().filter(|dtype| !dtype.is_float()) {
        for function in OF_INTEGERS {
            check(function, dtype, 0.0);
        }
    }
    for function in [And, Or, Xor, Not, BitAnd, BitOr, BitXor, BitNot, Equal, NotEqual, Max, Min] {
        let pair: Vec<Tensor> = [2, 4]
            .map(|modulus| (0..16).map(|i| f64::from(i % modulus * 2 >= modulus)).collect::<Vec<_>>())
            .map(|list| Tensor::from_f64s(DType::Bool, vec![16], &list).unwrap())
            .to_vec();
        let operands = &pair[..function.arity()];
        check_on(case("map", &types(operands), 0.0), operands, &|at, v| vec![ew(at, function, v)]);
    }
}

#[test]
fn functions_of_floats() {
    for dtype in FLOATS {
        for function in OF_FLOATS {
            check(function, dtype, rounding(dtype));
        }
    }
}

#[test]
fn counters() {
    for dtype in NUMBERS {
        for axis in [0, -1] {
            crate::graph_kernels::check(case("map", &[t(dtype, &[7, 9])], 0.0), &|at, v| {
                let shape = [7, 9].map(DimExpr::constant).to_vec();
                let counter = Operator::from(Iota { dtype, axis, shape }).build(at, &[]).unwrap()[0];
                vec![ew(at, Add, &[counter, v[0]])]
            });
        }
    }
    crate::graph_kernels::check(case("map", &[t(F32, &[7, 9])], 0.0), &|at, v| vec![op(at, DimExtent { axis: -1 }, v)]);
}
