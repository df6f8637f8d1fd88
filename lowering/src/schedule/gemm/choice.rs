//! The schedule of a product: the one of the least time.

use tenon_hw_dialect::TileBuilder;
use tenon_ir::Value;
use tenon_target::Target;

use super::plan::GemmPlan;
use super::tma::TmaPlan;
use crate::LoweringError;
use crate::schedule::body::Body;
use crate::schedule::{Candidate, KernelShape, KernelTensorMap, KernelWorkspace, RuledOut, Weighed};

/// The schedules of a product, and which it is.
pub(in crate::schedule) struct GemmSchedule {
    plan: GemmPlan,
    /// By tensor maps and warpgroups, or why not.
    tma: Result<TmaPlan, String>,
    uses_tma: bool,
}

/// Clocks of the tile that a schedule takes.
fn clocks(candidates: &[Candidate]) -> Option<u64> {
    candidates.iter().find(|candidate| candidate.chosen).map(|candidate| candidate.clocks)
}

impl GemmSchedule {
    /// The schedule of less time; none where computing element by element is better.
    pub(in crate::schedule) fn choose(body: &Body, target: &Target) -> Result<Option<Self>, LoweringError> {
        let Some(plan) = GemmPlan::new(body, target)? else { return Ok(None) };
        let tma = TmaPlan::new(&plan.problem, body.numeric_class, target)?;
        let uses_tma = match &tma {
            Ok(tma) => {
                let (own, other) = (clocks(&tma.candidates(target)), clocks(&plan.candidates(target)));
                own.zip(other).is_none_or(|(own, other)| own <= other)
            }
            Err(_) => false,
        };
        Ok(Some(GemmSchedule { plan, tma, uses_tma }))
    }

    fn chosen_tma(&self) -> Option<&TmaPlan> {
        self.tma.as_ref().ok().filter(|_| self.uses_tma)
    }

    /// What was weighed; nothing on CUDA cores.
    pub(in crate::schedule) fn weighed(&self, target: &Target) -> Weighed {
        let mut candidates = self.plan.candidates(target);
        if self.uses_tma {
            candidates.iter_mut().for_each(|candidate| candidate.chosen = false);
        }
        let mut ruled_out = Vec::new();
        match &self.tma {
            Ok(tma) => {
                let own = tma.candidates(target).into_iter();
                let own = own.map(|candidate| Candidate { chosen: candidate.chosen && self.uses_tma, ..candidate });
                // Of equals the first is taken.
                candidates = own.chain(candidates).collect();
            }
            // Of a target without the instructions there is nothing to say of each kernel.
            Err(_) if !target.architecture.features.wgmma => {}
            Err(reason) => ruled_out.push(RuledOut { schedule: TmaPlan::NAME, reason: reason.clone() }),
        }
        Weighed { candidates, ruled_out }
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

    pub(in crate::schedule) fn workspaces(&self) -> Vec<KernelWorkspace> {
        match self.chosen_tma() {
            Some(tma) => tma.workspaces(),
            None => self.plan.workspaces(),
        }
    }

    pub(in crate::schedule) fn build<'m>(
        &self,
        builder: TileBuilder<'m>,
        body: &Body,
        [inputs, outputs, workspaces, maps]: [&[Value<'m>]; 4],
    ) -> Result<(), LoweringError> {
        match self.chosen_tma() {
            Some(tma) => tma.build(builder, body, [inputs, outputs, workspaces, maps]),
            None => self.plan.build(builder, body, [inputs, outputs, workspaces]),
        }
    }
}
