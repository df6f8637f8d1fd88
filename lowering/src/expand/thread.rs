//! Values that depend on the thread alone, made once.

use std::collections::HashMap;

use tenon_hw_dialect::{IntegerPredicate, Scalar};
use tenon_ir::{Op, Value};
use tenon_layout::{LANE_BITS, ShiftTerm, TileLayout, shift_terms};

use super::values::Lowered;
use super::{ExpandError, Expander};

/// What has been made.
#[derive(Default)]
pub(super) struct ThreadValues<'m> {
    index: Option<Value<'m>>,
    /// Whether the index is read in a way that is not put together with earlier reads of it.
    apart: bool,
    /// By what each bit of the thread's index adds.
    linear: HashMap<Vec<u32>, Value<'m>>,
    /// By mask of the thread's index: whether the parity is odd.
    odd: HashMap<u32, Value<'m>>,
    /// By mask of the thread's index: whether those bits are all zero.
    zero: HashMap<u32, Value<'m>>,
}

/// Bits of lanes and warps as bits of the thread's index.
fn bits(lanes: u32, warps: u32) -> u32 {
    lanes | warps << LANE_BITS
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// The thread's index in the block: lane in the low five bits, then warp.
    pub(super) fn thread_index(&mut self) -> Result<Value<'m>, ExpandError> {
        if let Some(found) = self.thread.index {
            return Ok(found);
        }
        let at = self.prologue();
        let context = at.context();
        let read = if self.thread.apart {
            at.op("llvm.inline_asm")
                .attribute("asm_string", context.string("mov.u32 $0, %tid.x;"))
                .attribute("constraints", context.string("=r"))
                .attribute("has_side_effects", context.unit())
        } else {
            at.op("nvvm.read.ptx.sreg.tid.x")
        };
        let value = read.results(&[context.i32_type()]).value()?;
        self.thread.index = Some(value);
        Ok(value)
    }

    /// Makes values of the thread anew from here on, so that those of the code that follows need no registers in the code before.
    /// The present place must be in the function's own block.
    pub(super) fn renew_thread_values(&mut self) -> Result<(), ExpandError> {
        let context = self.at.context();
        let mark = self.at.op("arith.constant").attribute("value", context.i32(0));
        self.anchor = mark.results(&[context.i32_type()]).build()?;
        self.thread = ThreadValues { apart: true, ..ThreadValues::default() };
        Ok(())
    }

    /// The function whose value is the xor of what the set bits of lane and warp add. `None` if it is zero.
    pub(super) fn linear(&mut self, lanes: &[u32], warps: &[u32]) -> Result<Option<Value<'m>>, ExpandError> {
        let key: Vec<u32> = lanes.iter().chain(warps).copied().collect();
        if key.iter().all(|&value| value == 0) {
            return Ok(None);
        }
        if let Some(found) = self.thread.linear.get(&key) {
            return Ok(Some(*found));
        }
        let mut sum: Option<Value<'m>> = None;
        let thread = self.thread_index()?;
        let all = self.warps * 32 - 1;
        for ShiftTerm { mask, shift } in shift_terms(&key) {
            let mut term = thread;
            // A shift to the right drops low bits by itself.
            let dropped = if shift < 0 { (1 << -shift) - 1 } else { 0 };
            if mask != all & !dropped {
                term = self.once("arith.andi", term, i64::from(mask))?;
            }
            match shift {
                0 => {}
                1.. => term = self.once("arith.shli", term, i64::from(shift))?,
                _ => term = self.once("arith.shrui", term, i64::from(-shift))?,
            }
            sum = Some(match sum {
                None => term,
                Some(sum) => Scalar::new(self.prologue()).op("arith.xori", &[sum, term])?,
            });
        }
        if let Some(value) = sum {
            self.thread.linear.insert(key, value);
        }
        Ok(sum)
    }

    fn once(&mut self, name: &str, value: Value<'m>, constant: i64) -> Result<Value<'m>, ExpandError> {
        let constant = self.i32(constant)?;
        Ok(Scalar::new(self.prologue()).op(name, &[value, constant])?)
    }

    /// Whether an odd number of the given bits of lane and warp are set, as i1.
    pub(super) fn odd(&mut self, lanes: u32, warps: u32) -> Result<Value<'m>, ExpandError> {
        let mask = bits(lanes, warps);
        if let Some(found) = self.thread.odd.get(&mask) {
            return Ok(*found);
        }
        let thread = self.thread_index()?;
        let mut masked = self.once("arith.andi", thread, i64::from(mask))?;
        if mask.count_ones() > 1 {
            masked = Scalar::new(self.prologue()).op("math.ctpop", &[masked])?;
            masked = self.once("arith.andi", masked, 1)?;
        }
        let zero = self.i32(0)?;
        let odd = Scalar::new(self.prologue()).compare_int(IntegerPredicate::NotEqual, masked, zero)?;
        self.thread.odd.insert(mask, odd);
        Ok(odd)
    }

    /// Whether all given bits of lane and warp are zero, as i1; `None` if there are none.
    pub(super) fn leads(&mut self, lanes: u32, warps: u32) -> Result<Option<Value<'m>>, ExpandError> {
        let mask = bits(lanes, warps);
        if mask == 0 {
            return Ok(None);
        }
        if let Some(found) = self.thread.zero.get(&mask) {
            return Ok(Some(*found));
        }
        let thread = self.thread_index()?;
        let masked = self.once("arith.andi", thread, i64::from(mask))?;
        let zero = self.i32(0)?;
        let leads = Scalar::new(self.prologue()).compare_int(IntegerPredicate::Equal, masked, zero)?;
        self.thread.zero.insert(mask, leads);
        Ok(Some(leads))
    }

    /// Whether this thread is the one among those that hold the same elements that stores them; `None` if all do.
    pub(super) fn owner(&mut self, layout: &TileLayout) -> Result<Option<Value<'m>>, ExpandError> {
        let replication = layout.replication();
        self.leads(replication.lanes, replication.warps)
    }

    /// `hw.program_id`.
    pub(super) fn program_id(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let name = match op.integer("axis") {
            Some(0) => "nvvm.read.ptx.sreg.ctaid.x",
            Some(1) => "nvvm.read.ptx.sreg.ctaid.y",
            Some(2) => "nvvm.read.ptx.sreg.ctaid.z",
            _ => return Err(self.malformed("the axis is not 0, 1 or 2")),
        };
        let value = self.at.op(name).results(&[self.at.context().i32_type()]).value()?;
        self.set(op, 0, Lowered::Scalar(value))
    }
}
