//! Functions of floats.

use tenon_graph_dialect::operators::Function;

use super::{map, zip};
use crate::array::Array;
use crate::evaluate::Call;
use crate::number::Real;

pub(super) fn apply<T: Real>(function: Function, call: &Call<'_>, inputs: &[Array]) -> Option<Array> {
    let form = &call.results[0];
    let a = inputs[0].to_reals::<T>();
    let real = |values: Vec<T>| Some(Array::reals(form, call.mode, values));
    let truth = |values: Vec<i64>| Some(Array::integers(form, values));
    if let [_, second] = inputs {
        let b = second.to_reals::<T>();
        return if let Some(function) = comparison::<T>(function) {
            truth(zip(&a, &b, |a, b| i64::from(function(a, b))))
        } else {
            real(match function {
                Function::Add => zip(&a, &b, |a, b| a + b),
                Function::Subtract => zip(&a, &b, |a, b| a - b),
                Function::Multiply => zip(&a, &b, |a, b| a * b),
                Function::Divide => zip(&a, &b, |a, b| a / b),
                Function::Max => zip(&a, &b, T::larger),
                Function::Min => zip(&a, &b, T::smaller),
                _ => {
                    let function = binary(function)?;
                    zip(&a, &b, |a: T, b: T| T::of(function(a.wide(), b.wide())))
                }
            })
        };
    }
    match function {
        Function::IsNan => truth(map(&a, |a: T| i64::from(a.is_nan()))),
        Function::IsInf => truth(map(&a, |a: T| i64::from(a.wide().is_infinite()))),
        Function::Negate => real(map(&a, |a: T| -a)),
        Function::Sqrt => real(map(&a, T::sqrt)),
        Function::Reciprocal => real(map(&a, |a: T| T::ONE / a)),
        _ => {
            let function = unary(function)?;
            real(map(&a, |a: T| a.through(function)))
        }
    }
}

fn comparison<T: Real>(function: Function) -> Option<fn(T, T) -> bool> {
    Some(match function {
        Function::Equal => |a, b| a == b,
        Function::NotEqual => |a, b| a != b,
        Function::Less => |a, b| a < b,
        Function::LessEqual => |a, b| a <= b,
        Function::Greater => |a, b| a > b,
        Function::GreaterEqual => |a, b| a >= b,
        _ => return None,
    })
}

fn binary(function: Function) -> Option<fn(f64, f64) -> f64> {
    Some(match function {
        // The remainder is exact; the divisor is added where the signs differ. A zero has the divisor's sign.
        Function::Modulo => |a, b| {
            let remainder = a % b;
            if remainder == 0.0 {
                0f64.copysign(b)
            } else if (remainder < 0.0) != (b < 0.0) {
                remainder + b
            } else {
                remainder
            }
        },
        Function::Remainder => |a, b| a % b,
        Function::Power => f64::powf,
        Function::Atan2 => f64::atan2,
        _ => return None,
    })
}

fn unary(function: Function) -> Option<fn(f64) -> f64> {
    Some(match function {
        Function::Abs => f64::abs,
        Function::Sign => |a| {
            if a > 0.0 {
                1.0
            } else if a < 0.0 {
                -1.0
            } else if a.is_nan() {
                a
            } else {
                0.0
            }
        },
        Function::Exp => f64::exp,
        Function::Expm1 => f64::exp_m1,
        Function::Log => f64::ln,
        Function::Log1p => f64::ln_1p,
        Function::Rsqrt => |a| 1.0 / a.sqrt(),
        Function::Erf => libm::erf,
        Function::Tanh => f64::tanh,
        // Without overflow on either side: e⁻ᵃ is at most 1.
        Function::Sigmoid => |a| if a >= 0.0 { 1.0 / (1.0 + (-a).exp()) } else { a.exp() / (1.0 + a.exp()) },
        Function::Sin => f64::sin,
        Function::Cos => f64::cos,
        Function::Tan => f64::tan,
        Function::Asin => f64::asin,
        Function::Acos => f64::acos,
        Function::Atan => f64::atan,
        Function::Sinh => f64::sinh,
        Function::Cosh => f64::cosh,
        Function::Asinh => f64::asinh,
        Function::Acosh => f64::acosh,
        Function::Atanh => f64::atanh,
        Function::Floor => f64::floor,
        Function::Ceil => f64::ceil,
        Function::Round => f64::round_ties_even,
        Function::Trunc => f64::trunc,
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::operators::testing::*;
    use tenon_graph_dialect::operators::Elementwise;
    use tenon_tensor::{DType, Tensor};

    fn at(function: Function, a: f64) -> f64 {
        let result = run_all(Elementwise { function }, &[Tensor::from_f64(vec![], &[a]).unwrap()], Mode::F64).remove(0);
        result.get_f64(0).unwrap()
    }

    fn at2(function: Function, a: f64, b: f64) -> f64 {
        values(Elementwise { function }, &[f32s(&[], &[a]), f32s(&[], &[b])])[0]
    }

    #[test]
    fn unary_functions_have_their_known_values() {
        use Function::*;
        let e = std::f64::consts::E;
        let pi = std::f64::consts::PI;
        // Values of the functions in closed form; erf(1) and erf(0.5) from Abramowitz and Stegun, table 7.1.
        for (function, a, expected) in [
            (Abs, -2.5, 2.5),
            (Sign, -3.0, -1.0),
            (Sign, 0.0, 0.0),
            (Negate, 2.0, -2.0),
            (Exp, 1.0, e),
            (Expm1, 1e-20, 1e-20),
            (Log, e, 1.0),
            (Log1p, 1e-20, 1e-20),
            (Sqrt, 2.25, 1.5),
            (Rsqrt, 0.25, 2.0),
            (Reciprocal, 8.0, 0.125),
            (Erf, 1.0, 0.842_700_792_9),
            (Erf, -0.5, -0.520_499_877_8),
            (Tanh, 0.5, (e - 1.0) / (e + 1.0)),
            (Sigmoid, 0.0, 0.5),
            (Sigmoid, -1000.0, 0.0),
            (Sigmoid, 1.0, e / (1.0 + e)),
            (Sin, pi / 6.0, 0.5),
            (Cos, pi / 3.0, 0.5),
            (Tan, pi / 4.0, 1.0),
            (Asin, 1.0, pi / 2.0),
            (Acos, 0.5, pi / 3.0),
            (Atan, 1.0, pi / 4.0),
            (Sinh, 1.0, (e - 1.0 / e) / 2.0),
            (Cosh, 1.0, (e + 1.0 / e) / 2.0),
            (Asinh, (e - 1.0 / e) / 2.0, 1.0),
            (Acosh, (e + 1.0 / e) / 2.0, 1.0),
            (Atanh, (e - 1.0) / (e + 1.0), 0.5),
            (Floor, -1.5, -2.0),
            (Ceil, -1.5, -1.0),
            (Round, 2.5, 2.0),
            (Round, 3.5, 4.0),
            (Trunc, -1.9, -1.0),
            (IsNan, 1.0, 0.0),
            (IsNan, f64::NAN, 1.0),
            (IsInf, f64::NEG_INFINITY, 1.0),
            (IsInf, 1.0, 0.0),
        ] {
            assert!((at(function, a) - expected).abs() <= 1e-10, "{} of {a}: {}", function.name(), at(function, a));
        }
        assert!(at(Sign, f64::NAN).is_nan());
    }

    #[test]
    fn binary_functions_have_their_known_values() {
        use Function::*;
        for (function, a, b, expected) in [
            (Add, 1.5, 2.0, 3.5),
            (Subtract, 1.5, 2.0, -0.5),
            (Multiply, 1.5, 2.0, 3.0),
            (Divide, 3.0, 2.0, 1.5),
            (Modulo, -5.0, 3.0, 1.0),
            (Modulo, 5.0, -3.0, -1.0),
            (Remainder, -5.0, 3.0, -2.0),
            (Power, 2.0, 10.0, 1024.0),
            (Max, 1.0, 2.0, 2.0),
            (Min, 1.0, 2.0, 1.0),
            (Atan2, 1.0, -1.0, f64::from(std::f32::consts::PI * 0.75)),
            (Equal, 1.0, 1.0, 1.0),
            (NotEqual, 1.0, 1.0, 0.0),
            (Less, 1.0, 2.0, 1.0),
            (LessEqual, 2.0, 2.0, 1.0),
            (Greater, 1.0, 2.0, 0.0),
            (GreaterEqual, 1.0, f64::NAN, 0.0),
            (NotEqual, f64::NAN, f64::NAN, 1.0),
        ] {
            assert_eq!(at2(function, a, b), expected, "{} of {a}, {b}", function.name());
        }
        assert!(at2(Max, 1.0, f64::NAN).is_nan() && at2(Min, f64::NAN, 1.0).is_nan());
    }

    #[test]
    fn every_operation_rounds_to_its_own_type() {
        // 2048 + 1 is halfway between two f16: each sum ties to even, so adding 1 twice is not adding 2.
        let f16 = |value: f64| tensor(DType::F16, &[1], &[value]);
        let add = Elementwise { function: Function::Add };
        let once = run(add, &[f16(2048.0), f16(1.0)]);
        assert_eq!(values(add, &[once, f16(1.0)]), [2048.0]);
        assert_eq!(values(add, &[f16(2048.0), f16(2.0)]), [2050.0]);
        // The same in f32 shows that the typed reading sees the order of additions and the oracle does not.
        let big = f32s(&[1], &[16777216.0]);
        let one = f32s(&[1], &[1.0]);
        let once = run(add, &[big.clone(), one.clone()]);
        assert_eq!(values(add, &[once, one.clone()]), [16777216.0]);
        let exact = run_all(add, &[big, one], Mode::F64).remove(0);
        let one = tensor(DType::F64, &[1], &[1.0]);
        assert_eq!(run_all(add, &[exact, one], Mode::F64)[0].to_f64_vec().unwrap(), [16777218.0]);
        // f8E4M3FN saturates as its conversions do.
        let f8 = tensor(DType::F8E4M3FN, &[1], &[448.0]);
        assert_eq!(values(add, &[f8.clone(), f8]), [448.0]);
    }
}
