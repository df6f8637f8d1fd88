//! The schedule of attention: the one of the least time.

use tenon_hw_dialect::TileBuilder;
use tenon_ir::Value;
use tenon_target::{Target, TensorType};
use tenon_tensor::DType;

use super::plan::AttentionPlan;
use super::problem::Problem;
use super::tma::TmaPlan;
use crate::LoweringError;
use crate::schedule::body::Body;
use crate::schedule::candidate::L2_BYTES;
use crate::schedule::{Candidate, KernelShape, KernelTensorMap, RuledOut, Weighed};

/// Clocks of a multiprocessor for a tile of queries and keys, where heads take so many elements: to multiply, to load keys and values, and to
/// compute weights, by powers of two of the special functions, and scale the results before.
pub(super) fn tile_clocks(
    problem: &Problem,
    target: &Target,
    [queries, keys]: [u32; 2],
    [depth, width]: [u32; 2],
) -> [u64; 3] {
    let operands = if problem.dtype == DType::BF16 { TensorType::BF16 } else { TensorType::F16 };
    let rate = u64::from(target.tensor_rate(operands).unwrap_or(1).max(1));
    let scores = u64::from(queries) * u64::from(keys);
    let multiply = (scores * u64::from(depth + width)).div_ceil(rate);
    let load = (u64::from(keys) * loaded_bytes(problem)).div_ceil(L2_BYTES);
    let rates = &target.architecture.rates;
    let powers = scores.div_ceil(u64::from(rates.sfu.max(1)));
    let scaled = (u64::from(queries) * u64::from(width)).div_ceil(u64::from(rates.fma_f32.max(1)));
    [multiply, load, powers + scaled]
}

/// Bytes of a key and its value.
fn loaded_bytes(problem: &Problem) -> u64 {
    u64::from(problem.depth + problem.width) * problem.dtype.size() as u64
}

/// What the model says of a tile. Sizes that are known at launch count with their capacities; each multiprocessor has one block at a time.
pub(super) struct Time {
    tile: [u32; 2],
    blocks: u64,
    waves: u64,
    pub(super) clocks: u64,
}

impl Time {
    /// Of a tile of queries and keys that takes so many clocks.
    pub(super) fn new(problem: &Problem, target: &Target, tile: [u32; 2], clocks: u64) -> Self {
        let [queries, keys] = tile.map(|size| u64::from(size.max(1)));
        let heads = problem.batch.capacity().saturating_mul(problem.heads.capacity());
        let blocks = problem.queries.capacity().div_ceil(queries).saturating_mul(heads);
        let waves = blocks.div_ceil(u64::from(target.gpu.sms.max(1)));
        let turns = problem.keys.capacity().div_ceil(keys);
        Time { tile, blocks, waves, clocks: waves.saturating_mul(turns).saturating_mul(clocks) }
    }

    /// As people read it.
    pub(super) fn candidate(
        &self,
        problem: &Problem,
        schedule: &'static str,
        warps: u32,
        occupancy: f64,
        stages: u32,
    ) -> Candidate {
        let queries = u64::from(self.tile[0]) * u64::from(problem.depth) * problem.dtype.size() as u64;
        let keys = problem.keys.capacity().saturating_mul(loaded_bytes(problem));
        Candidate {
            schedule,
            tile: [self.tile[0], self.tile[1], problem.depth],
            splits: 1,
            warps,
            blocks: self.blocks,
            waves: self.waves,
            occupancy,
            stages,
            bytes: self.blocks.saturating_mul(queries.saturating_add(keys)),
            clocks: self.clocks,
            chosen: true,
        }
    }
}

/// The schedules of attention, and which it is.
pub(in crate::schedule) struct AttentionSchedule {
    plan: AttentionPlan,
    /// By tensor maps and warpgroups, or why not.
    tma: Result<TmaPlan, String>,
    uses_tma: bool,
}

impl AttentionSchedule {
    /// The schedule of less time.
    pub(in crate::schedule) fn choose(body: &Body, target: &Target) -> Result<Self, LoweringError> {
        let plan = AttentionPlan::new(body, target)?;
        let tma = TmaPlan::new(&plan.problem, target)?;
        let uses_tma = match (&tma, plan.candidate(target)) {
            (Ok(tma), Some(other)) => {
                let own = tma.candidates(target).into_iter().find(|candidate| candidate.chosen);
                own.is_some_and(|own| own.clocks <= other.clocks)
            }
            (Ok(_), None) => true,
            (Err(_), _) => false,
        };
        Ok(AttentionSchedule { plan, tma, uses_tma })
    }

    fn chosen_tma(&self) -> Option<&TmaPlan> {
        self.tma.as_ref().ok().filter(|_| self.uses_tma)
    }

    /// What was weighed; nothing on CUDA cores.
    pub(in crate::schedule) fn weighed(&self, target: &Target) -> Weighed {
        let by_warps = self.plan.candidate(target).map(|own| Candidate { chosen: !self.uses_tma, ..own });
        let mut weighed = Weighed::default();
        match &self.tma {
            Ok(tma) => {
                let own = tma.candidates(target).into_iter();
                weighed.candidates = own.map(|own| Candidate { chosen: own.chosen && self.uses_tma, ..own }).collect();
            }
            // Of a target without the instructions there is nothing to say of each kernel.
            Err(_) if !target.architecture.features.wgmma => {}
            Err(reason) => weighed.ruled_out.push(RuledOut { schedule: TmaPlan::NAME, reason: reason.clone() }),
        }
        // Of equals the first is taken.
        weighed.candidates.extend(by_warps);
        weighed
    }

    pub(in crate::schedule) fn shape(&self, body: &Body) -> Result<KernelShape, LoweringError> {
        match self.chosen_tma() {
            Some(tma) => tma.shape(body),
            None => self.plan.shape(body),
        }
    }

    pub(in crate::schedule) fn tensor_maps(&self, body: &Body) -> Result<Vec<KernelTensorMap>, LoweringError> {
        self.chosen_tma().map_or(Ok(Vec::new()), |tma| tma.tensor_maps(body))
    }

    pub(in crate::schedule) fn build<'m>(
        &self,
        builder: TileBuilder<'m>,
        body: &Body,
        [inputs, outputs, maps]: [&[Value<'m>]; 3],
    ) -> Result<(), LoweringError> {
        match self.chosen_tma() {
            Some(tma) => tma.build(builder, body, [inputs, outputs, maps]),
            None => self.plan.build(builder, body, inputs, outputs),
        }
    }
}
