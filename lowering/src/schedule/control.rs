//! Loops in tile programs whose bodies may fail to lower.

use tenon_hw_dialect::{HwError, Tile, TileBuilder};
use tenon_ir::Value;

use crate::LoweringError;
use crate::schedule::size::Count;

/// `scf.for` over i32 from 0 below `count` in steps of `step`, carrying tiles.
pub(crate) fn for_range<'m>(
    builder: TileBuilder<'m>,
    count: impl Into<Count>,
    step: u32,
    carried: &[Tile<'m>],
    body: impl FnOnce(TileBuilder<'m>, Value<'m>, &[Tile<'m>]) -> Result<Vec<Tile<'m>>, LoweringError>,
) -> Result<Vec<Tile<'m>>, LoweringError> {
    let scalar = builder.scalar();
    let (lower, upper, step) = (scalar.i32(0)?, count.into().value(scalar)?, scalar.i32(step as i32)?);
    let mut failure = None;
    let result = builder.for_loop(lower, upper, step, carried, |inner, position, tiles| {
        body(inner, position, tiles).map_err(|error| keep(error, &mut failure))
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(result?),
    }
}

/// Passes an error through a builder that only knows its own kind; the original is kept.
pub(crate) fn keep(error: LoweringError, failure: &mut Option<LoweringError>) -> HwError {
    match error {
        LoweringError::Hw(error) => error,
        other => {
            let placeholder = HwError::semantic("hw.kernel", other.to_string());
            *failure = Some(other);
            placeholder
        }
    }
}
