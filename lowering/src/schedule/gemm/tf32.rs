//! Products of f32 on tensor cores, which read f32 as tf32: eight bits of exponent and eleven of significand, the leading one included.
//!
//! **One pass.** An operand is read without its low 13 bits, so that an element x becomes h with |x − h| < 2⁻¹⁰ |x|. For S = Σ |a b| over the terms of a
//! sum, the result is within 2⁻⁹ S of the real number, besides the rounding of sums. That is another function: the class `approximates`.
//!
//! **Three passes.** Let u = 2⁻²⁴, a half unit of f32. An element is h + l without rounding, where h is what the instruction reads of x, and l = x − h, of at most
//! 13 bits, is read as l′ with |l − l′| ≤ 6 u |x|; |l| ≤ 2⁻¹⁰ |x|. Of a · b the passes l′ₐ hᵦ, hₐ l′ᵦ and hₐ hᵦ are summed, small ones first; what they leave out is
//! hₐ (lᵦ − l′ᵦ) + (lₐ − l′ₐ) hᵦ + lₐ lᵦ, at most (6 + 6 + 16) u |a b|. Products of tf32 are exact, and an instruction adds eight terms to a sum that it
//! rounds or truncates to f32, by at most 2 u: 3 k / 8 instructions for a sum of k terms. So the result is within (28 + 3 k / 4) u S of the real number,
//! where k fused multiply-adds in f32 promise k u S: from k = 112 on, three passes keep what a sum of f32 in any order keeps, and are of the class
//! `reassociates`. Shorter sums stay on CUDA cores.
//!
//! PTX does not say how an instruction aligns its eight terms before it adds them (as for f16), and an infinite operand gives a NaN, since l = ∞ − ∞;
//! of elements below 2⁻¹⁰³, l underflows to a multiple of 2⁻¹³⁶. Finite operands never do where f32 would not: l has the sign of x, so that all three passes have the sign of a · b.

use tenon_hw_dialect::{Scalar, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_target::{Target, TensorType};
use tenon_tensor::DType;

use super::problem::{Axis, Problem};
use crate::LoweringError;
use crate::schedule::numeric_class::NumericClass;

/// Fewest terms of a sum that three passes are for.
const LEAST_TERMS: u64 = 112;

/// Products of tf32 that stand for one of f32.
pub(super) const THREE: u32 = 3;

/// How many products of tf32 are to stand for one of f32 on the target: 1 or 3; none where CUDA cores compute it, since the class asks for it, or since they
/// are faster.
pub(super) fn passes(problem: &Problem, class: NumericClass, target: &Target) -> Option<u32> {
    if [problem.a.dtype, problem.b.dtype, problem.accumulate] != [DType::F32; 3] {
        return None;
    }
    let rate = target.tensor_rate(TensorType::Tf32)?;
    // At the same rate a matrix instruction reads shared memory less often.
    let pays = |passes: u32| rate / passes >= target.architecture.rates.fma_f32;
    // Of a length that is known at launch the bound is not known here.
    let is_long = problem.extent(Axis::K).known().is_some_and(|terms| terms >= LEAST_TERMS);
    match class {
        NumericClass::Approximates if pays(1) => Some(1),
        NumericClass::Reassociates | NumericClass::Approximates if is_long && pays(THREE) => Some(THREE),
        _ => None,
    }
}

/// x − h of every element: what an instruction that reads x as tf32 does not see of it.
fn rest<'m>(builder: TileBuilder<'m>, tile: &Tile<'m>) -> Result<Tile<'m>, LoweringError> {
    Ok(builder.map1(&[tile], &tile.ty.layout, DType::F32, |code: Scalar<'m>, values: &[Value<'m>]| {
        let bits = code.convert("arith.bitcast", values[0], DType::I32)?;
        let kept = code.op("arith.andi", &[bits, code.i32(!0x1fff)?])?;
        let read = code.convert("arith.bitcast", kept, DType::F32)?;
        Ok(code.op("arith.subf", &[values[0], read])?)
    })?)
}

/// a · b + c in three passes of an instruction.
pub(super) fn multiply<'m>(
    builder: TileBuilder<'m>,
    instruction: &str,
    a: &Tile<'m>,
    b: &Tile<'m>,
    c: &Tile<'m>,
) -> Result<Tile<'m>, LoweringError> {
    let (rest_a, rest_b) = (rest(builder, a)?, rest(builder, b)?);
    let sum = builder.mma(instruction, &rest_a, b, c)?;
    let sum = builder.mma(instruction, a, &rest_b, &sum)?;
    Ok(builder.mma(instruction, a, b, &sum)?)
}
