//! Which tiles of keys a block goes over.

use tenon_hw_dialect::Scalar;
use tenon_ir::Value;

use super::scores::Softmax;
use crate::LoweringError;
use crate::schedule::size::Parts;

/// Tiles of keys, from the first on: those whose keys all exist and are visible are gone over without masks; those at the edge follow.
pub(super) struct KeyTiles<'m> {
    /// All there are.
    pub(super) all: Value<'m>,
    /// Those without masks.
    pub(super) full: Value<'m>,
    /// Those that the block looks at.
    pub(super) count: Value<'m>,
    /// Whether tiles at the edge may be among them.
    pub(super) has_edge: bool,
    /// Whether tiles without masks may be among them.
    pub(super) has_full: bool,
}

impl<'m> KeyTiles<'m> {
    /// Those of the block that a softmax is of.
    pub(super) fn new(softmax: &Softmax<'_, '_, 'm>, code: Scalar<'m>) -> Result<Self, LoweringError> {
        let tile = softmax.tile;
        let problem = tile.problem;
        let all = Parts { size: problem.keys, part: tile.keys }.value(code)?;
        let (whole, _) = code.div_rem(problem.keys.value(code)?, tile.keys as i32)?;
        let (mut full, mut count) = (whole, all);
        let reach = softmax.reach(code)?;
        if let Some(reach) = reach {
            let zero = code.i32(0)?;
            let tiles = |keys: Value<'m>, up: bool| -> Result<Value<'m>, LoweringError> {
                let keys = code.op("arith.maxsi", &[keys, zero])?;
                let keys = if up { code.offset(keys, tile.keys as i32 - 1)? } else { keys };
                Ok(code.div_rem(keys, tile.keys as i32)?.0)
            };
            // The first query of the block sees so many keys, and the last one so many.
            let first = code.offset(code.add(softmax.place.query, reach)?, 1)?;
            let last = code.offset(first, tile.queries as i32 - 1)?;
            full = code.op("arith.minsi", &[full, tiles(first, false)?])?;
            count = code.op("arith.minsi", &[count, tiles(last, true)?])?;
        }
        let has_edge = reach.is_some() || !tile.has_whole_keys();
        let no_full = problem.keys.capacity() < u64::from(tile.keys);
        Ok(KeyTiles { all, full, count, has_edge, has_full: !(has_edge && no_full) })
    }
}
