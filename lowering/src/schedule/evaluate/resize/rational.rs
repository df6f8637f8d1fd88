//! Input positions as quotients of integers.

use tenon_graph_dialect::operators::{CoordinateMode, Resize};
use tenon_hw_dialect::Scalar;
use tenon_ir::{IrError, Value};

/// (x · multiplier + addend) / divisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rational {
    multiplier: i32,
    addend: i32,
    pub(super) divisor: i32,
}

/// Denominators of scales that are looked for.
const MAX_DENOMINATOR: u32 = 64;

impl Rational {
    fn apply(self, x: i64) -> i64 {
        (x * i64::from(self.multiplier) + i64::from(self.addend)).div_euclid(i64::from(self.divisor))
    }

    /// Fits i32 for all places of a dimension, and f32 holds every remainder.
    fn checked(multiplier: i64, addend: i64, divisor: i64, output: u32) -> Option<Self> {
        let largest = multiplier.checked_mul(i64::from(output))?.checked_add(addend.abs())?;
        let fits = (0..1 << 30).contains(&multiplier) && addend.abs() < 1 << 30 && (1..1 << 24).contains(&divisor);
        (fits && largest < 1 << 30).then_some(Rational {
            multiplier: multiplier as i32,
            addend: addend as i32,
            divisor: divisor as i32,
        })
    }

    /// The position of every place exactly, up to what rounds in f64; none where the scale is no such quotient.
    pub(super) fn exact(resize: &Resize, dim: usize, input: u32, output: u32) -> Option<Self> {
        let own = f64::from(output) / f64::from(input);
        let scale = resize.scales.as_ref().map_or(own, |scales| scales[dim]);
        let (p, q) = if scale == own {
            (i64::from(output), i64::from(input))
        } else {
            (1..=MAX_DENOMINATOR).find_map(|q| {
                let p = (scale * f64::from(q)).round();
                ((1.0..1e6).contains(&p) && p / f64::from(q) == scale).then_some((p as i64, i64::from(q)))
            })?
        };
        // (x + 1/2) / (p/q) − 1/2.
        let half_pixel = || Self::checked(2 * q, q - p, 2 * p, output);
        match resize.coordinates {
            CoordinateMode::HalfPixel => half_pixel(),
            CoordinateMode::HalfPixelSymmetric if scale == own => half_pixel(),
            CoordinateMode::PytorchHalfPixel if output > 1 => half_pixel(),
            CoordinateMode::AlignCorners if output > 1 => {
                Self::checked(i64::from(input) - 1, 0, i64::from(output) - 1, output)
            }
            CoordinateMode::PytorchHalfPixel | CoordinateMode::AlignCorners => Self::checked(0, 0, 1, output),
            CoordinateMode::Asymmetric => Self::checked(q, 0, p, output),
            CoordinateMode::HalfPixelSymmetric | CoordinateMode::TfCropAndResize => None,
        }
    }

    /// A formula whose floor gives every entry of a table.
    pub(super) fn fit(table: &[i64], input: u32, output: u32) -> Option<Self> {
        // Candidates: the ratio of sizes and of sizes less one, with all addends that the first entries allow.
        for (numerator, denominator) in [(input, output), (input.saturating_sub(1), output.saturating_sub(1).max(1))] {
            for refinement in [2i64, 4] {
                let multiplier = i64::from(numerator) * refinement;
                let divisor = i64::from(denominator) * refinement;
                // table[x]·divisor <= x·multiplier + addend < (table[x] + 1)·divisor for all x.
                let mut low = i64::MIN;
                let mut high = i64::MAX;
                for (x, entry) in table.iter().enumerate() {
                    let base = x as i64 * multiplier;
                    low = low.max(entry * divisor - base);
                    high = high.min((entry + 1) * divisor - base - 1);
                }
                if low <= high
                    && let Some(formula) = Self::checked(multiplier, low, divisor, output)
                {
                    debug_assert!(table.iter().enumerate().all(|(x, entry)| formula.apply(x as i64) == *entry));
                    return Some(formula);
                }
            }
        }
        None
    }

    /// Floor and remainder of the quotient at an i32 that is not negative.
    pub(super) fn code<'m>(self, code: Scalar<'m>, x: Value<'m>) -> Result<(Value<'m>, Value<'m>), IrError> {
        // Shifted by a multiple of the divisor so that the division is of a non-negative number.
        let shift = self.addend.min(0).div_euclid(self.divisor);
        let addend = self.addend - shift * self.divisor;
        let scaled = code.offset(code.scale(x, self.multiplier)?, addend)?;
        let (quotient, remainder) = code.div_rem(scaled, self.divisor)?;
        Ok((code.offset(quotient, shift)?, remainder))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::position::position;
    use super::*;
    use tenon_graph_dialect::operators::{ResizeMode, ResizeRounding};

    #[test]
    fn formulas_give_every_entry() {
        for input in 1..20u32 {
            for output in 1..40u32 {
                let table: Vec<i64> = (0..output).map(|x| i64::from(x * input / output)).collect();
                let formula = Rational::fit(&table, input, output).unwrap();
                assert!(table.iter().enumerate().all(|(x, entry)| formula.apply(x as i64) == *entry));
            }
        }
        assert_eq!(Rational::fit(&[0, 5, 1], 6, 3), None);
    }

    #[test]
    fn quotients_are_the_positions() {
        use CoordinateMode as C;
        let mut tried = 0;
        for coordinates in [C::HalfPixel, C::HalfPixelSymmetric, C::PytorchHalfPixel, C::AlignCorners, C::Asymmetric] {
            for (input, output, scale) in
                [(7, 14, None), (7, 5, None), (9, 1, None), (5, 7, Some(1.5)), (8, 2, Some(0.3125)), (4, 2, Some(0.6))]
            {
                let resize = Resize {
                    mode: ResizeMode::Linear,
                    coordinates,
                    rounding: ResizeRounding::Floor,
                    sizes: Vec::new(),
                    scales: scale.map(|scale| vec![scale]),
                    cubic_coefficient: 0.0,
                    exclude_outside: false,
                    region: None,
                    extrapolation_value: 0.0,
                };
                // 0.6 is 3/5, but not as an f64's exact value.
                let Some(exact) = Rational::exact(&resize, 0, input, output) else { continue };
                tried += 1;
                for x in 0..output {
                    let quotient = f64::from(x * exact.multiplier as u32) + f64::from(exact.addend);
                    let expected = position(&resize, 0, f64::from(x), f64::from(input), f64::from(output));
                    assert!(
                        (quotient / f64::from(exact.divisor) - expected).abs() < 1e-14,
                        "{coordinates:?} {input} {output}"
                    );
                }
            }
        }
        assert!(tried >= 24, "{tried}");
    }
}
