//! `hw.scan`: within threads, across lanes, across warps, round by round, each in the order of the dimension.

use tenon_hw_dialect::{IntegerPredicate, Scalar};
use tenon_ir::{Block, Op, Value};
use tenon_layout::{CrossWarpScan, LANE_BITS, LANES, ScanPlan};

use super::convert::Move;
use super::global::Stored;
use super::shuffle::From;
use super::{ExpandError, Expander};

/// One element of every input.
type Elements<'m> = Vec<Value<'m>>;

/// What is combined from the left, where the condition holds; without one, always.
struct Before<'m> {
    elements: Elements<'m>,
    exists: Option<Value<'m>>,
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// `hw.scan`.
    pub(super) fn scan(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let body = op.region_block(0).ok_or_else(|| self.malformed("it has no body"))?;
        let inputs = (0..op.operand_count()).map(|i| self.tile(op, i)).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = inputs.first() else { return Err(self.malformed("it has no input")) };
        let layout = first.ty.layout.clone();
        if inputs.iter().any(|tile| tile.ty.layout != layout) {
            return Err(self.misfit("its inputs are of different layouts"));
        }
        let dimension = op.integer("dimension").and_then(|d| usize::try_from(d).ok()).unwrap_or(usize::MAX);
        if dimension >= layout.rank() {
            return Err(self.misfit(format!("dimension {dimension} of a tile of {} dimensions", layout.rank())));
        }
        let plan = self.fit(ScanPlan::new(&layout, dimension))?;
        let stored = inputs.iter().map(|tile| self.stored(tile.ty.element)).collect::<Result<Vec<_>, _>>()?;
        if op.result_count() != inputs.len() || body.arguments().len() != 2 * inputs.len() {
            return Err(self.malformed("inputs, results and arguments of the body do not correspond"));
        }

        let mut registers: Vec<Elements<'m>> = (0..layout.registers() as usize)
            .map(|register| inputs.iter().map(|tile| tile.registers[register]).collect())
            .collect();
        // What the rounds before come to, for each chain.
        let mut carry: Option<Vec<Elements<'m>>> = None;
        for (number, round) in plan.rounds.iter().enumerate() {
            for chain in round {
                for pair in chain.windows(2) {
                    let (before, own) = (&registers[pair[0] as usize], &registers[pair[1] as usize]);
                    registers[pair[1] as usize] = self.combine(body, before, own)?;
                }
            }
            let runs: Vec<&[u32]> = round.iter().map(Vec::as_slice).filter(|chain| !chain.is_empty()).collect();
            let mut sums: Vec<Elements<'m>> =
                runs.iter().map(|chain| registers[chain[chain.len() - 1] as usize].clone()).collect();
            for step in &plan.steps {
                sums = self.scan_step(body, sums, &stored, step.bit, step.below)?;
            }
            let last = number + 1 == plan.rounds.len();
            let (before, after) = self.precedes(&plan, body, &sums, &stored, carry.as_deref(), last)?;
            for (chain, before) in runs.iter().zip(before) {
                let Some(before) = before else { continue };
                for register in chain.iter().map(|register| *register as usize) {
                    let own = registers[register].clone();
                    let combined = self.combine(body, &before.elements, &own)?;
                    registers[register] = self.choose(before.exists, combined, own)?;
                }
            }
            carry = after;
        }
        for index in 0..inputs.len() {
            self.set_tile(op, index, registers.iter().map(|elements| elements[index]).collect())?;
        }
        Ok(())
    }

    /// `a` where the condition holds, else `b`.
    fn choose(
        &self,
        condition: Option<Value<'m>>,
        a: Elements<'m>,
        b: Elements<'m>,
    ) -> Result<Elements<'m>, ExpandError> {
        let Some(condition) = condition else { return Ok(a) };
        a.into_iter().zip(b).map(|(a, b)| self.select(condition, a, b)).collect()
    }

    /// A function of the lane alone: the xor of what its bits add.
    fn of_lane(&mut self, lanes: impl Fn(u32) -> u32) -> Result<Value<'m>, ExpandError> {
        let lanes: Vec<u32> = (0..LANE_BITS as u32).map(lanes).collect();
        let warps = vec![0; self.warps.trailing_zeros() as usize];
        match self.linear(&lanes, &warps)? {
            Some(value) => Ok(value),
            None => self.i32(0),
        }
    }

    /// The elements of all chains from another lane.
    fn read_lane(
        &mut self,
        sums: &[Elements<'m>],
        stored: &[Stored],
        lane: Value<'m>,
    ) -> Result<Vec<Elements<'m>>, ExpandError> {
        let mut received = vec![Vec::new(); sums.len()];
        for (index, stored) in stored.iter().enumerate() {
            let sent: Vec<_> = sums.iter().map(|elements| elements[index]).collect();
            let values = self.shuffle(&sent, *stored, From::Lane(lane))?;
            received.iter_mut().zip(values).for_each(|(list, value)| list.push(value));
        }
        Ok(received)
    }

    /// Lanes of the upper half combine, from the left, the last lane of the half before.
    fn scan_step(
        &mut self,
        body: Block<'k>,
        sums: Vec<Elements<'m>>,
        stored: &[Stored],
        bit: u32,
        below: u32,
    ) -> Result<Vec<Elements<'m>>, ExpandError> {
        let kept = self.of_lane(|i| (1 << i) & !(bit | below))?;
        let source = if below == 0 {
            kept
        } else {
            let below = self.i32(i64::from(below))?;
            self.binary("arith.ori", kept, below)?
        };
        let received = self.read_lane(&sums, stored, source)?;
        let upper = self.odd(bit, 0)?;
        let mut combined = Vec::new();
        for (own, before) in sums.into_iter().zip(received) {
            let sum = self.combine(body, &before, &own)?;
            combined.push(self.choose(Some(upper), sum, own)?);
        }
        Ok(combined)
    }

    /// What precedes each thread's run: the rounds before, the warps before, the lanes before. With it, unless this round is the last,
    /// what the rounds come to with this one.
    #[allow(clippy::type_complexity)]
    fn precedes(
        &mut self,
        plan: &ScanPlan,
        body: Block<'k>,
        sums: &[Elements<'m>],
        stored: &[Stored],
        carry: Option<&[Elements<'m>]>,
        last_round: bool,
    ) -> Result<(Vec<Option<Before<'m>>>, Option<Vec<Elements<'m>>>), ExpandError> {
        let lanes = plan.steps.iter().fold(0, |mask, step| mask | step.bit);
        let (mut of_lanes, mut of_warp) = (None, sums.to_vec());
        if lanes != 0 {
            let lane = self.of_lane(|i| 1 << i)?;
            let (mask, one) = (self.i32(i64::from(lanes))?, self.i32(1)?);
            let own = self.binary("arith.andi", lane, mask)?;
            let less = self.binary("arith.subi", own, one)?;
            let less = self.binary("arith.andi", less, mask)?;
            let others = self.of_lane(|i| (1 << i) & !lanes)?;
            let before = if lanes == LANES - 1 { less } else { self.binary("arith.ori", others, less)? };
            of_lanes = Some(self.read_lane(sums, stored, before)?);
            if plan.cross_warp.is_some() || !last_round {
                let last = self.binary("arith.ori", others, mask)?;
                of_warp = self.read_lane(sums, stored, last)?;
            }
        }
        let slots = match &plan.cross_warp {
            None => of_warp.iter().map(|total| vec![total.clone()]).collect(),
            Some(cross) => self.warp_totals(cross, &of_warp, stored)?,
        };
        let mut after = Vec::new();
        if !last_round {
            for (chain, totals) in slots.iter().enumerate() {
                let mut sum = carry.map(|carry| carry[chain].clone());
                for total in totals {
                    sum = Some(match sum {
                        None => total.clone(),
                        Some(sum) => self.combine(body, &sum, total)?,
                    });
                }
                after.push(sum.ok_or_else(|| self.misfit("a warp without a total"))?);
            }
        }

        let mut all = Vec::new();
        for chain in 0..sums.len() {
            let mut before = carry.map(|carry| Before { elements: carry[chain].clone(), exists: None });
            if let Some(cross) = &plan.cross_warp {
                before = self.warps_before(cross, body, &slots[chain], before)?;
            }
            if let Some(of_lanes) = &of_lanes {
                let own = of_lanes[chain].clone();
                let first = self.leads(lanes, 0)?.ok_or_else(|| self.misfit("a scan over no lanes"))?;
                let (exists, elements) = match before {
                    None => (Some(self.not(first)?), own),
                    Some(Before { elements, exists }) => {
                        let both = self.combine(body, &elements, &own)?;
                        // The lane's own, where no warp precedes.
                        let both = match exists {
                            None => both,
                            Some(_) => self.choose(exists, both, own)?,
                        };
                        let chosen = self.choose(Some(first), elements, both)?;
                        let exists = match exists {
                            None => None,
                            Some(exists) => {
                                let later = self.not(first)?;
                                Some(self.binary("arith.ori", exists, later)?)
                            }
                        };
                        (exists, chosen)
                    }
                };
                before = Some(Before { elements, exists });
            }
            all.push(before);
        }
        Ok((all, (!last_round).then_some(after)))
    }

    fn not(&mut self, condition: Value<'m>) -> Result<Value<'m>, ExpandError> {
        let context = self.at.context();
        let truth = self.constant(context.integer(-1, context.bool_type()))?;
        self.binary("arith.xori", condition, truth)
    }

    /// The totals of all slots, by chain.
    fn warp_totals(
        &mut self,
        cross: &CrossWarpScan,
        totals: &[Elements<'m>],
        stored: &[Stored],
    ) -> Result<Vec<Vec<Elements<'m>>>, ExpandError> {
        let columns: Vec<Vec<_>> =
            (0..stored.len()).map(|index| totals.iter().map(|elements| elements[index]).collect()).collect();
        let moves: Vec<_> = columns
            .iter()
            .zip(stored)
            .map(|(registers, stored)| Move {
                registers,
                source: &cross.totals,
                target: &cross.gathered,
                stored: *stored,
            })
            .collect();
        let gathered = self.move_all(&moves)?;
        let slots = 1usize << cross.warp_bits.len();
        let at = |chain: usize, slot: usize| gathered.iter().map(|column| column[chain * slots + slot]).collect();
        Ok((0..totals.len()).map(|chain| (0..slots).map(|slot| at(chain, slot)).collect()).collect())
    }

    /// Adds, from the right, the totals of the warps before the own.
    fn warps_before(
        &mut self,
        cross: &CrossWarpScan,
        body: Block<'k>,
        totals: &[Elements<'m>],
        carry: Option<Before<'m>>,
    ) -> Result<Option<Before<'m>>, ExpandError> {
        let mut warps = vec![0; self.warps.trailing_zeros() as usize];
        for (position, bit) in cross.warp_bits.iter().enumerate() {
            if let Some(warp) = warps.get_mut(bit.trailing_zeros() as usize) {
                *warp = 1 << position;
            }
        }
        let slot = match self.linear(&[0; LANE_BITS], &warps)? {
            Some(slot) => slot,
            None => self.i32(0)?,
        };
        let mut before = carry.map(|before| before.elements);
        let exists = if before.is_some() {
            None
        } else {
            let zero = self.i32(0)?;
            Some(Scalar::new(self.at).compare_int(IntegerPredicate::NotEqual, slot, zero)?)
        };
        let others = totals.len().saturating_sub(1);
        for (number, total) in totals.iter().enumerate().take(others) {
            before = Some(match before {
                // Nothing but slot 0 before: used where the own slot is a later one.
                None => total.clone(),
                Some(before) => {
                    let number = self.i32(number as i64)?;
                    let earlier = Scalar::new(self.at).compare_int(IntegerPredicate::UnsignedLess, number, slot)?;
                    let sum = self.combine(body, &before, total)?;
                    self.choose(Some(earlier), sum, before)?
                }
            });
        }
        Ok(before.map(|elements| Before { elements, exists }))
    }
}
