//! `hw.reduce`: within threads, across lanes, across warps, each in a fixed order.

use tenon_ir::{Block, Op, Value};
use tenon_layout::ReductionPlan;

use super::convert::Move;
use super::global::Stored;
use super::shuffle::From;
use super::{ExpandError, Expander};

/// Operations whose result is the same bits when their operands change places.
const COMMUTATIVE: [&str; 14] = [
    "arith.addf",
    "arith.addi",
    "arith.andi",
    "arith.maximumf",
    "arith.maxnumf",
    "arith.maxsi",
    "arith.maxui",
    "arith.minimumf",
    "arith.minnumf",
    "arith.minsi",
    "arith.minui",
    "arith.mulf",
    "arith.muli",
    "arith.ori",
];

/// Whether the body combines each pair of elements by one commutative operation of its own.
fn is_commutative(body: Block<'_>) -> bool {
    let arguments = body.arguments();
    let half = arguments.len() / 2;
    body.ops().iter().all(|op| {
        if op.is("hw.yield") {
            return true;
        }
        let (Some(a), Some(b)) = (op.operand(0), op.operand(1)) else { return false };
        let pairs = |i: usize| {
            (a == arguments[i] && b == arguments[i + half]) || (b == arguments[i] && a == arguments[i + half])
        };
        op.operand_count() == 2 && COMMUTATIVE.contains(&op.name().as_str()) && (0..half).any(pairs)
    })
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// `hw.reduce`.
    pub(super) fn reduce(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let body = op.region_block(0).ok_or_else(|| self.malformed("it has no body"))?;
        let inputs = (0..op.operand_count()).map(|i| self.tile(op, i)).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = inputs.first() else { return Err(self.malformed("it has no input")) };
        let layout = first.ty.layout.clone();
        if inputs.iter().any(|tile| tile.ty.layout != layout) {
            return Err(self.misfit("its inputs are of different layouts"));
        }
        let dimension = op.integer("dimension").and_then(|d| usize::try_from(d).ok()).unwrap_or(usize::MAX);
        let plan = self.fit(ReductionPlan::new(&layout, dimension))?;
        let stored = inputs.iter().map(|tile| self.stored(tile.ty.element)).collect::<Result<Vec<_>, _>>()?;
        for index in 0..op.result_count() {
            if self.result_type(op, index)?.layout != plan.result {
                return Err(self.misfit(format!("the result does not lie in {}", plan.result)));
            }
        }
        if op.result_count() != inputs.len() || body.arguments().len() != 2 * inputs.len() {
            return Err(self.malformed("inputs, results and arguments of the body do not correspond"));
        }

        // Values of all inputs for each register of the result.
        let mut sums: Vec<Vec<Value<'m>>> = Vec::new();
        for group in &plan.groups {
            let mut sum: Option<Vec<Value<'m>>> = None;
            for &register in group {
                let new: Vec<_> = inputs.iter().map(|tile| tile.registers[register as usize]).collect();
                sum = Some(match sum {
                    None => new,
                    Some(sum) => self.combine(body, &sum, &new)?,
                });
            }
            sums.push(sum.ok_or_else(|| self.misfit("an element of the result combines nothing"))?);
        }

        let commutative = is_commutative(body);
        for step in &plan.butterfly {
            sums = self.butterfly(body, &sums, &stored, step.lane_xor, step.register_xor, commutative)?;
        }

        if let Some(cross) = &plan.cross_warp {
            let columns: Vec<Vec<_>> = (0..inputs.len()).map(|i| sums.iter().map(|sum| sum[i]).collect()).collect();
            let moves: Vec<_> = columns
                .iter()
                .zip(&stored)
                .map(|(registers, stored)| Move {
                    registers,
                    source: &cross.partial,
                    target: &cross.gathered,
                    stored: *stored,
                })
                .collect();
            let gathered = self.move_all(&moves)?;
            for (register, total) in sums.iter_mut().enumerate() {
                let slot = |s: usize| gathered.iter().map(move |column| column[register * cross.slots as usize + s]);
                let mut sum: Vec<_> = slot(0).collect();
                for s in 1..cross.slots as usize {
                    let new: Vec<_> = slot(s).collect();
                    sum = self.combine(body, &sum, &new)?;
                }
                *total = sum;
            }
        }
        for index in 0..inputs.len() {
            self.set_tile(op, index, sums.iter().map(|sum| sum[index]).collect())?;
        }
        Ok(())
    }

    pub(super) fn combine(
        &mut self,
        body: Block<'k>,
        accumulated: &[Value<'m>],
        new: &[Value<'m>],
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let values = self.inline(body, &[accumulated, new].concat())?;
        if values.len() != accumulated.len() {
            return Err(self.malformed(format!("it yields {} values for {}", values.len(), accumulated.len())));
        }
        Ok(values)
    }

    /// Every lane combines with the lane at `lane_xor`. Unless the order of operands makes no difference, the lower lane's value comes
    /// first in both, so that both compute the same bits.
    fn butterfly(
        &mut self,
        body: Block<'k>,
        sums: &[Vec<Value<'m>>],
        stored: &[Stored],
        lane_xor: u32,
        register_xor: u32,
        commutative: bool,
    ) -> Result<Vec<Vec<Value<'m>>>, ExpandError> {
        let mut received = vec![Vec::new(); sums.len()];
        for (index, stored) in stored.iter().enumerate() {
            let sent: Vec<_> = (0..sums.len()).map(|q| sums[q ^ register_xor as usize][index]).collect();
            let values = self.shuffle(&sent, *stored, From::Xor(lane_xor))?;
            received.iter_mut().zip(values).for_each(|(list, value)| list.push(value));
        }
        let upper = if commutative { None } else { Some(self.odd(1 << lane_xor.ilog2(), 0)?) };
        let mut combined = Vec::new();
        for (own, other) in sums.iter().zip(&received) {
            combined.push(match upper {
                None => self.combine(body, own, other)?,
                Some(upper) => {
                    let pairs = own.iter().zip(other);
                    let first =
                        pairs.clone().map(|(a, b)| self.select(upper, *b, *a)).collect::<Result<Vec<_>, _>>()?;
                    let second = pairs.map(|(a, b)| self.select(upper, *a, *b)).collect::<Result<Vec<_>, _>>()?;
                    self.combine(body, &first, &second)?
                }
            });
        }
        Ok(combined)
    }
}
