//! Functions of f64. The methods are those of f32 where they carry over; logarithms and the arc tangent follow fdlibm's, with coefficients
//! of our own.

mod error_function;
mod exponential;
mod hyperbolic;
mod inverse;
mod logarithm;
mod pair;
mod power;
mod remainder;
mod trigonometric;

use super::table::Definition;

/// Every function.
pub(super) fn definitions() -> impl Iterator<Item = Definition> {
    let exponentials = exponential::FUNCTIONS.into_iter().chain(logarithm::FUNCTIONS).chain(power::FUNCTIONS);
    let circular = trigonometric::FUNCTIONS.into_iter().chain(inverse::FUNCTIONS).chain(hyperbolic::FUNCTIONS);
    exponentials.chain(circular).chain(error_function::FUNCTIONS).chain(remainder::FUNCTIONS)
}
