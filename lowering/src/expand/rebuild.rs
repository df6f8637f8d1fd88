//! Scalar code and structured control flow: built again, with every tile taken apart.

use tenon_ir::{Location, Op, Type, Value};

use super::pipeline::Role;
use super::values::Lowered;
use super::{ExpandError, Expander};

/// Dialects whose operations are taken over as they are.
const KEPT: [&str; 3] = ["arith.", "math.", "scf."];

/// Values that a loop carries a thread from which on the code behind it makes its own values of the thread: a quarter of a thread's registers.
const CROWDED: usize = 64;

/// Values that a loop carries a thread from which on it is the main loop of a product or of attention, whose schedule chooses how much one round holds.
const PIPELINED: usize = 16;

/// Rounds of a loop that ptxas, left alone, holds all at once. The kernel then takes twice the registers that its schedule counted with.
const UNROLLED: i64 = 32;

/// Becomes `.pragma "nounroll"` in PTX (PTX ISA, "Pragma Strings").
const NO_UNROLL: &str = "#llvm.loop_annotation<unroll = <disable = true>>";

/// How often the body of an `scf.for` runs, where that is a constant.
fn rounds(op: Op<'_>) -> Option<i64> {
    let operands = op.operands();
    let constant = |index: usize| operands.get(index)?.defining_op()?.0.attribute("value")?.as_integer();
    let (from, to, step) = (constant(0)?, constant(1)?, constant(2)?);
    to.checked_sub(from)?.checked_div(step)
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// The same operation on what its operands became: each tile among operands, results, arguments of blocks and what they yield is
    /// replaced by its registers.
    pub(super) fn rebuild(&mut self, op: Op<'k>, name: &str) -> Result<(), ExpandError> {
        if !KEPT.iter().any(|dialect| name.starts_with(dialect)) {
            return Err(ExpandError::UnknownOperation { place: self.place.clone() });
        }
        if name == "arith.constant"
            && let Some(value) = op.attribute("value")
        {
            let made = match self.constant_ops.get(&op) {
                Some(made) => *made,
                None => self.constant(value)?,
            };
            self.constant_ops.insert(op, made);
            return self.set(op, 0, Lowered::Scalar(made));
        }
        let mut operands = Vec::new();
        for operand in op.operands() {
            operands.extend(self.flat(operand)?);
        }
        if let (Role::Producer, "scf.for", Some(bound)) = (&self.role, name, operands.get(1).copied()) {
            // Copies are started one after the other: unrolled, they are no faster. LLVM unrolls by a number of turns that it knows.
            operands[1] = self.inline_ptx("mov.b32 $0, $1;", "=r,r", &[bound], Some(bound.ty()))?.unwrap_or(bound);
        }
        let results: Vec<_> = op.results();
        let (counts, types) = self.flat_types(&results)?;
        let mut attributes = op.attributes();
        if name == "scf.for" && types.len() >= PIPELINED && rounds(op).is_some_and(|rounds| rounds <= UNROLLED) {
            attributes.push(("loop_annotation".into(), op.context().parse_attribute(NO_UNROLL)?));
        }
        let mut builder = self.at.op(name).operands(&operands).results(&types).regions(op.region_count());
        for (name, value) in &attributes {
            builder = builder.attribute(name, *value);
        }
        let made = builder.build()?;

        let outside = self.at;
        for index in 0..op.region_count() {
            let (Some(old), Some(new)) = (op.region(index), made.region(index)) else {
                return Err(self.malformed("a region is missing"));
            };
            let blocks = old.blocks();
            let [block] = blocks.as_slice() else {
                if blocks.is_empty() {
                    continue;
                }
                return Err(self.malformed("a region has more than one block"));
            };
            let (counts, types) = self.flat_types(&block.arguments())?;
            let arguments: Vec<(Type<'_>, Location<'_>)> = types.iter().map(|ty| (*ty, outside.location())).collect();
            let inner = new.append_block(&arguments)?;
            self.bind(&block.arguments(), &counts, &inner.arguments());
            // The area may be in use from what ran before, the loop's last turn included.
            self.shared.scratch_in_use = true;
            self.at = outside.in_block(inner);
            self.block(*block)?;
            self.shared.scratch_in_use = true;
        }
        self.at = outside;
        self.bind(&results, &counts, &made.results());
        if name == "scf.for" && types.len() >= CROWDED && self.anchor.block() == Some(self.at.block()) {
            self.renew_thread_values()?;
        }
        Ok(())
    }

    /// For each value, how many it becomes (`None`: it stays a scalar), and the types of all.
    fn flat_types(&mut self, values: &[Value<'k>]) -> Result<(Vec<Option<usize>>, Vec<Type<'m>>), ExpandError> {
        let mut counts = Vec::new();
        let mut types = Vec::new();
        for value in values {
            if Self::is_tile(value.ty()) {
                let ty = self.tile_type(value.ty())?;
                let registers = ty.layout.registers() as usize;
                counts.push(Some(registers));
                types.extend(vec![self.register_type(ty.element); registers]);
            } else {
                counts.push(None);
                types.push(self.own_type(value.ty())?);
            }
        }
        Ok((counts, types))
    }

    fn bind(&mut self, old: &[Value<'k>], counts: &[Option<usize>], new: &[Value<'m>]) {
        let mut rest = new;
        for (old, count) in old.iter().zip(counts) {
            let (own, others) = rest.split_at(count.unwrap_or(1).min(rest.len()));
            rest = others;
            let lowered = match (count, own) {
                (None, [value]) => Lowered::Scalar(*value),
                _ => Lowered::Tile(own.into()),
            };
            self.values.insert(old.key(), lowered);
        }
    }
}
