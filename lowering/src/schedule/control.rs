//! Loops and conditions in tile programs whose bodies may fail to lower.

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
    for_range_with(builder, count, step, &[], carried, |inner, position, _, tiles| {
        Ok((Vec::new(), body(inner, position, tiles)?))
    })
}

/// What a turn of a loop leaves to the next: scalars and tiles.
type Turn<'m> = (Vec<Value<'m>>, Vec<Tile<'m>>);

/// The same, carrying scalars besides, which end with the loop.
pub(crate) fn for_range_with<'m>(
    builder: TileBuilder<'m>,
    count: impl Into<Count>,
    step: u32,
    scalars: &[Value<'m>],
    carried: &[Tile<'m>],
    body: impl FnOnce(TileBuilder<'m>, Value<'m>, &[Value<'m>], &[Tile<'m>]) -> Result<Turn<'m>, LoweringError>,
) -> Result<Vec<Tile<'m>>, LoweringError> {
    let scalar = builder.scalar();
    let (lower, upper, step) = (scalar.i32(0)?, count.into().value(scalar)?, scalar.i32(step as i32)?);
    let mut failure = None;
    let result = builder.for_loop_with(lower, upper, step, scalars, carried, |inner, position, own, tiles| {
        body(inner, position, own, tiles).map_err(|error| keep(error, &mut failure))
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(result?),
    }
}

/// `scf.for` over i32 from `lower` below `upper`, one by one, carrying tiles.
pub(crate) fn for_between<'m>(
    builder: TileBuilder<'m>,
    [lower, upper]: [Value<'m>; 2],
    carried: &[Tile<'m>],
    body: impl FnOnce(TileBuilder<'m>, Value<'m>, &[Tile<'m>]) -> Result<Vec<Tile<'m>>, LoweringError>,
) -> Result<Vec<Tile<'m>>, LoweringError> {
    let step = builder.scalar().i32(1)?;
    let mut failure = None;
    let result = builder.for_loop(lower, upper, step, carried, |inner, position, tiles| {
        body(inner, position, tiles).map_err(|error| keep(error, &mut failure))
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(result?),
    }
}

/// `scf.if` without results.
pub(crate) fn when<'m>(
    builder: TileBuilder<'m>,
    condition: Value<'m>,
    body: impl FnOnce(TileBuilder<'m>) -> Result<(), LoweringError>,
) -> Result<(), LoweringError> {
    let mut failure = None;
    let done = builder.when(condition, |inner| body(inner).map_err(|error| keep(error, &mut failure)));
    match failure {
        Some(error) => Err(error),
        None => Ok(done?),
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
