//! From one layout of a tile to another: the cheapest of renaming registers, shuffling within warps, and going through shared memory.

use crate::access::{check_element, wavefronts};
use crate::bits::combine32;
use crate::{LayoutError, MAX_ACCESS_BYTES, SharedLayout, ShufflePlan, Span, TileLayout, VectorAccess, Wavefronts};

/// How to bring a tile from one layout to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conversion {
    /// Every register already holds what it should.
    Identity,
    /// Every thread already holds what it should, in other registers.
    PermuteRegisters {
        /// For each register of the target, the register of the source.
        registers: Vec<u32>,
    },
    /// Every warp already holds what it should, in other lanes.
    Shuffle(ShufflePlan),
    /// Through shared memory.
    SharedRoundTrip(SharedRoundTrip),
}

/// A conversion through shared memory: a barrier (if the memory was in use), stores, a barrier, loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedRoundTrip {
    /// The layout in shared memory.
    pub layout: SharedLayout,
    /// The stores, by registers of the source.
    pub store: VectorAccess,
    /// Only lanes with `lane & lane_mask == 0` store; the others hold the same elements.
    pub store_lane_mask: u32,
    /// Only warps with `warp & warp_mask == 0` store.
    pub store_warp_mask: u32,
    /// The loads, by registers of the target.
    pub load: VectorAccess,
    /// What the stores cost per warp.
    pub store_wavefronts: Wavefronts,
    /// What the loads cost per warp.
    pub load_wavefronts: Wavefronts,
    /// Shared memory needed, in bytes.
    pub bytes: u32,
    /// Each warp reads only what it wrote: a barrier of the warp is enough.
    pub within_warp: bool,
}

impl SharedRoundTrip {
    /// Bank conflicts per request: of the stores, of the loads.
    pub fn conflicts(&self) -> (u32, u32) {
        (self.store_wavefronts.conflicts(), self.load_wavefronts.conflicts())
    }
}

/// What a conversion costs each warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ConversionCost {
    /// Shuffle instructions of 32 bits.
    pub shuffles: u32,
    /// Select instructions.
    pub selects: u32,
    /// Loads and stores.
    pub requests: u32,
    /// Wavefronts of these.
    pub wavefronts: u32,
    /// Shared memory, in bytes per block.
    pub shared_bytes: u32,
    /// Barriers of the block.
    pub barriers: u32,
    /// Barriers of the warp.
    pub warp_barriers: u32,
}

impl ConversionCost {
    /// A rough time to compare conversions by, in cycles of a multiprocessor: a shuffle or a wavefront takes the shared-memory pipe
    /// for one, two selects issue in one; barriers are taken as 16 (block) and 2 (warp), the way through memory as 20 of latency.
    pub fn cycles(&self) -> u32 {
        let latency = if self.wavefronts > 0 { 20 } else { 0 };
        self.shuffles
            + self.selects.div_ceil(2)
            + self.wavefronts
            + 16 * self.barriers
            + 2 * self.warp_barriers
            + latency
    }
}

impl Conversion {
    /// The cheapest conversion of a tile of elements of `element_bytes` (1, 2, 4, 8 or 16) from layout `source` to layout `target`.
    ///
    /// Errors: the layouts are of different shapes or numbers of warps.
    pub fn between(source: &TileLayout, target: &TileLayout, element_bytes: u32) -> Result<Self, LayoutError> {
        const OPERATION: &str = "conversion";
        check_element(OPERATION, element_bytes)?;
        if source.shape() != target.shape() || source.warps() != target.warps() {
            let reason = format!(
                "{:?} over {} warps and {:?} over {} warps",
                source.shape(),
                source.warps(),
                target.shape(),
                target.warps()
            );
            return Err(LayoutError::Mismatch { operation: OPERATION, reason });
        }
        if let Some(registers) = renaming(source, target) {
            let identity = source.registers() == target.registers() && registers.iter().zip(0..).all(|(&r, i)| r == i);
            return Ok(if identity { Self::Identity } else { Self::PermuteRegisters { registers } });
        }
        let shuffle = ShufflePlan::new(source, target, element_bytes).map(Self::Shuffle);
        let round_trip = Self::SharedRoundTrip(SharedRoundTrip::new(source, target, element_bytes)?);
        Ok(match shuffle {
            Some(shuffle)
                if shuffle.cost(source, target, element_bytes).cycles()
                    <= round_trip.cost(source, target, element_bytes).cycles() =>
            {
                shuffle
            }
            _ => round_trip,
        })
    }

    /// What the conversion from `source` to `target` costs each warp.
    pub fn cost(&self, source: &TileLayout, target: &TileLayout, element_bytes: u32) -> ConversionCost {
        match self {
            Self::Identity | Self::PermuteRegisters { .. } => ConversionCost::default(),
            Self::Shuffle(plan) => {
                let words = (element_bytes / 4).max(1);
                let steps = |count: usize, registers: u32| count as u32 * registers * words;
                let distinct = target.registers() >> target.replication().registers.count_ones();
                ConversionCost {
                    shuffles: plan.words(element_bytes),
                    selects: steps(plan.send.exchanges().len(), source.registers())
                        + steps(plan.receive.exchanges().len(), distinct),
                    ..ConversionCost::default()
                }
            }
            Self::SharedRoundTrip(trip) => ConversionCost {
                requests: trip.store_wavefronts.requests + trip.load_wavefronts.requests,
                wavefronts: trip.store_wavefronts.total() + trip.load_wavefronts.total(),
                shared_bytes: trip.bytes,
                barriers: if trip.within_warp { 0 } else { 2 },
                warp_barriers: if trip.within_warp { 2 } else { 0 },
                ..ConversionCost::default()
            },
        }
    }
}

/// For each register of the target the register of the source that holds the same in every thread, if every thread has all.
fn renaming(source: &TileLayout, target: &TileLayout) -> Option<Vec<u32>> {
    if source.lane_bases() != target.lane_bases() || source.warp_bases() != target.warp_bases() {
        return None;
    }
    let span = Span::of(&source.register_columns());
    let bits: Vec<u32> =
        target.register_columns().iter().map(|&e| span.express(e).map(|r| r as u32)).collect::<Option<_>>()?;
    Some((0..target.registers()).map(|r| combine32(&bits, r)).collect())
}

impl SharedRoundTrip {
    /// The round trip between layouts of one shape over equally many warps.
    pub fn new(source: &TileLayout, target: &TileLayout, element_bytes: u32) -> Result<Self, LayoutError> {
        let layout = SharedLayout::for_exchange(source, target, element_bytes)?;
        let (stored, loaded) = (layout.offsets(source)?, layout.offsets(target)?);
        let store = VectorAccess::new(&stored, element_bytes, MAX_ACCESS_BYTES)?;
        let load = VectorAccess::new(&loaded, element_bytes, MAX_ACCESS_BYTES)?;
        let repeated = source.replication();
        Ok(Self {
            store_wavefronts: wavefronts(&stored, element_bytes, store.width),
            load_wavefronts: wavefronts(&loaded, element_bytes, load.width),
            store,
            load,
            store_lane_mask: repeated.lanes,
            store_warp_mask: repeated.warps,
            bytes: layout.elements() * element_bytes,
            within_warp: repeated.warps == 0 && within_warp(source, target),
            layout,
        })
    }
}

/// Whether every warp of the target needs only elements that the same warp of the source holds.
fn within_warp(source: &TileLayout, target: &TileLayout) -> bool {
    let held = Span::of(&[source.register_columns(), source.lane_columns()].concat());
    let warps = source.warp_columns().into_iter().zip(target.warp_columns()).map(|(s, t)| s ^ t);
    let needed = [target.register_columns(), target.lane_columns()].concat();
    needed.into_iter().chain(warps).all(|e| held.contains(e))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
