//! Whether an output is the recorded one.

use tenon_tensor::{DType, Tensor};

/// How far a float may lie from the recorded one: `absolute + relative · |recorded|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Part of the recorded value.
    pub relative: f64,
    /// In units of the value.
    pub absolute: f64,
}

impl Tolerance {
    /// What ONNX's own runner takes (`onnx/backend/test/runner`, onnx 1.23): 1e-3 relative, 1e-7 absolute, and two ULP of bf16; and two
    /// ULP of f16 too, since recorded values of f16 are rounded after each of several operators and are off by up to that themselves.
    /// Everything that is no f16, bf16, f32, f64 or complex number is compared exactly.
    pub fn of(dtype: DType) -> Tolerance {
        match dtype {
            DType::F32 | DType::F64 | DType::Complex64 | DType::Complex128 => {
                Tolerance { relative: 1e-3, absolute: 1e-7 }
            }
            DType::F16 => Tolerance { relative: 1.0 / 512.0, absolute: 1e-7 },
            DType::BF16 => Tolerance { relative: 1.0 / 64.0, absolute: 1e-7 },
            _ => Tolerance { relative: 0.0, absolute: 0.0 },
        }
    }

    fn holds(self, found: f64, recorded: f64) -> bool {
        found == recorded
            || (found.is_nan() && recorded.is_nan())
            || (found - recorded).abs() <= self.absolute + self.relative * recorded.abs() && recorded.is_finite()
    }
}

/// Whether `found` is `recorded`: the same element type and shape, and each element within the type's [`Tolerance`]; NaN and
/// infinities only where they are recorded.
///
/// # Errors
/// The first difference in words, with how many elements differ.
pub fn judge(found: &Tensor, recorded: &Tensor) -> Result<(), String> {
    let describe = |tensor: &Tensor| format!("{}{:?}", tensor.dtype(), tensor.shape());
    if found.dtype() != recorded.dtype() || found.shape() != recorded.shape() {
        return Err(format!("{} instead of {}", describe(found), describe(recorded)));
    }
    let tolerance = Tolerance::of(recorded.dtype());
    let exact = tolerance.absolute == 0.0 && tolerance.relative == 0.0;
    let elements = |tensor: &Tensor| -> Vec<(f64, f64)> {
        match tensor.to_f64_vec() {
            Ok(values) => values.into_iter().map(|value| (value, 0.0)).collect(),
            Err(_) => tensor.to_complex_vec().unwrap_or_default(),
        }
    };
    let (a, b) = (elements(found), elements(recorded));
    let differs = |index: usize| {
        // 64-bit integers are told apart by their bits; NaN of a narrow float is one value whatever its bits.
        if exact && found.get_bits(index) == recorded.get_bits(index) {
            return false;
        }
        match (a.get(index), b.get(index)) {
            (Some(_), Some(_)) if exact && !recorded.dtype().is_float() => true,
            (Some(x), Some(y)) => !tolerance.holds(x.0, y.0) || !tolerance.holds(x.1, y.1),
            _ => true,
        }
    };
    let wrong: Vec<usize> = (0..recorded.element_count()).filter(|index| differs(*index)).collect();
    let Some(first) = wrong.first() else { return Ok(()) };
    let show = |values: &[(f64, f64)]| match values.get(*first) {
        Some((real, imaginary)) if *imaginary != 0.0 => format!("{real}{imaginary:+}i"),
        Some((real, _)) => real.to_string(),
        None => "nothing".to_owned(),
    };
    Err(format!(
        "{} of {} elements differ; element {first} is {}, recorded is {}",
        wrong.len(),
        recorded.element_count(),
        show(&a),
        show(&b)
    ))
}

/// For a model that draws random numbers: type and shape, since the recorded values are those of another generator.
///
/// # Errors
/// The difference in words.
pub fn judge_drawn(found: &Tensor, recorded: &Tensor) -> Result<(), String> {
    let describe = |tensor: &Tensor| format!("{}{:?}", tensor.dtype(), tensor.shape());
    match found.dtype() == recorded.dtype() && found.shape() == recorded.shape() {
        true => Ok(()),
        false => Err(format!("{} instead of {}", describe(found), describe(recorded))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn tensor(dtype: DType, values: &[f64]) -> Tensor {
        Tensor::from_f64s(dtype, vec![values.len()], values).unwrap()
    }

    fn same(dtype: DType, found: f64, recorded: f64) -> bool {
        judge(&tensor(dtype, &[found]), &tensor(dtype, &[recorded])).is_ok()
    }

    #[test]
    fn floats_are_judged_within_the_tolerance() {
        for dtype in [DType::F32, DType::F64] {
            assert!(same(dtype, 1.000_976_562_5, 1.0) && !same(dtype, 1.001_953_125, 1.0), "{dtype}");
        }
        assert!(same(DType::F16, 1.001_953_125, 1.0) && !same(DType::F16, 1.002_929_687_5, 1.0));
        assert!(same(DType::F32, 9e-8, 0.0) && !same(DType::F32, 2e-7, 0.0));
        assert!(same(DType::BF16, 1.015_625, 1.0) && !same(DType::BF16, 1.023_437_5, 1.0));
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        assert!(same(DType::F32, nan, nan) && same(DType::F32, inf, inf) && same(DType::F32, -0.0, 0.0));
        assert!(!same(DType::F32, nan, 1.0) && !same(DType::F32, 1.0, nan));
        assert!(!same(DType::F32, 1.0, inf) && !same(DType::F32, inf, 1.0) && !same(DType::F32, -inf, inf));
    }

    #[test]
    fn everything_else_is_exact() {
        assert!(!same(DType::I32, 1001.0, 1000.0) && same(DType::I32, -7.0, -7.0));
        assert!(!same(DType::F8E4M3FN, 1.125, 1.0) && same(DType::F8E4M3FN, f64::NAN, f64::NAN));
        let large = |value: i64| Tensor::from_i64(vec![1], &[value]).unwrap();
        assert!(judge(&large((1 << 60) + 1), &large(1 << 60)).is_err());
        let one = |dtype| tensor(dtype, &[1.0]);
        assert!(judge(&one(DType::I32), &one(DType::I64)).unwrap_err().contains("i32[1] instead of"));
        let scalar = one(DType::F32).reshaped(vec![]).unwrap();
        assert!(judge(&scalar, &one(DType::F32)).is_err());
        let message = judge(&tensor(DType::F32, &[1.0, 2.0, 4.0]), &tensor(DType::F32, &[1.0, 3.0, 5.0])).unwrap_err();
        assert_eq!(message, "2 of 3 elements differ; element 1 is 2, recorded is 3");
    }
}
