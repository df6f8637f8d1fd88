//! Control flow of the flow dialect as steps with bodies.
//!
//! A value that an operation of control flow gives has memory of its own: a body computes what it yields there, where nothing in it still
//! reads what lies there, or ends by copying it. A loop's carried
//! values are these results: they hold the first values before the loop, and the body reads and writes them.

use tenon_flow_dialect::{Flow, If, Loop};
use tenon_graph_dialect::TensorType;
use tenon_ir::{Block, Op, Value};

use crate::program::ProgramError;
use crate::program::read::{Origin, Reader, StepOutline, ValueId, bytes_of, wrong};

impl<'m> Reader<'m> {
    /// An operation of control flow that is placed in the launch plan.
    pub(super) fn flow(&mut self, flow: Flow<'m>) -> Result<(), ProgramError> {
        match flow {
            Flow::If(branch) => self.branch(&branch),
            Flow::Loop(repeat) => self.repeat(&repeat),
            Flow::Scan(scan) => Err(wrong(scan.op, "a `flow.scan` cannot stand in `@main`")),
        }
    }

    /// Memory for a result, written by the steps of this conditional.
    fn result(&mut self, op: Op<'m>, value: Value<'m>) -> Result<ValueId, ProgramError> {
        let index = self.computed(0, None);
        let ty = TensorType::read(value.ty())?;
        let bytes = bytes_of(&ty).ok_or_else(|| wrong(op, format!("{ty} has no largest size")))?;
        let id = self.add(ty, Origin::Step(index), op.location());
        self.outline.computed[index].value = id;
        self.outline.computed[index].bytes = bytes;
        self.by_key.insert(value.key(), id);
        Ok(id)
    }

    fn copy(&mut self, source: ValueId, target: ValueId) {
        if bytes_of(&self.outline.values[target].ty) != Some(0) {
            self.used(source);
            self.used(target);
            self.step(StepOutline::Copy { source, target });
        }
    }

    /// Lets a value that a kernel of this body computes lie in the memory of a result from the start, which nothing reads from then on;
    /// `before` is the number of computed values before the body. False where it must be copied.
    fn put_into(&mut self, value: ValueId, result: ValueId, before: usize) -> bool {
        let Origin::Step(index) = self.outline.values[value].origin else { return false };
        let launches =
            |step: &StepOutline<'_>| matches!(step, StepOutline::Launch { results, .. } if results.contains(&value));
        let is_own = self.bodies.last().is_some_and(|steps| steps.iter().any(launches));
        let same = self.outline.values[value].ty == self.outline.values[result].ty;
        if index < before || !is_own || !same || self.outline.computed[index].replaced {
            return false;
        }
        self.outline.computed[index].replaced = true;
        for other in &mut self.outline.values {
            if other.origin == Origin::View(value) {
                other.origin = Origin::View(result);
            }
        }
        self.outline.values[value].origin = Origin::View(result);
        self.used(result);
        true
    }

    /// Whether no step of the innermost body reads `target` in or behind the one that writes `source`.
    fn is_unread_since(&self, source: ValueId, target: ValueId) -> bool {
        let writes =
            |step: &StepOutline<'_>| matches!(step, StepOutline::Launch { results, .. } if results.contains(&source));
        let steps = self.bodies.last().map(Vec::as_slice).unwrap_or_default();
        match steps.iter().position(writes) {
            Some(first) => steps[first..].iter().all(|step| !self.reads(step, target)),
            None => false,
        }
    }

    fn reads(&self, step: &StepOutline<'_>, target: ValueId) -> bool {
        let is_it = |value: &ValueId| self.outline.root(*value) == target;
        match step {
            StepOutline::Launch { operands, .. } => operands.iter().any(is_it),
            StepOutline::Copy { source, .. } | StepOutline::ReadExtent { source, .. } => is_it(source),
            StepOutline::If { predicate, then, otherwise, .. } => {
                is_it(predicate) || then.iter().chain(otherwise).any(|step| self.reads(step, target))
            }
            StepOutline::While { predicate, body, .. } => {
                is_it(predicate) || body.iter().any(|step| self.reads(step, target))
            }
        }
    }

    /// The steps of a body, and what it yields.
    fn body(&mut self, body: Block<'m>) -> Result<Vec<ValueId>, ProgramError> {
        let mut yielded = Vec::new();
        for op in body.ops() {
            if op.is("flow.yield") {
                for value in op.operands() {
                    yielded.push(self.operand(op, value)?);
                }
            } else {
                self.op(op)?;
            }
        }
        Ok(yielded)
    }

    fn branch(&mut self, branch: &If<'m>) -> Result<(), ProgramError> {
        let op = branch.op;
        let predicate = self.operand(op, branch.condition)?;
        self.used(predicate);
        let results = op.results().into_iter().map(|value| self.result(op, value)).collect::<Result<Vec<_>, _>>()?;
        let mut bodies = Vec::new();
        for body in [branch.then_body, branch.else_body] {
            self.bodies.push(Vec::new());
            let before = self.outline.computed.len();
            let yielded = self.body(body)?;
            for (value, result) in yielded.into_iter().zip(&results) {
                if !self.put_into(value, *result, before) {
                    self.copy(value, *result);
                }
            }
            bodies.push(self.bodies.pop().unwrap_or_default());
        }
        let otherwise = bodies.pop().unwrap_or_default();
        let then = bodies.pop().unwrap_or_default();
        self.step(StepOutline::If { op, predicate, then, otherwise });
        Ok(())
    }

    fn repeat(&mut self, repeat: &Loop<'m>) -> Result<(), ProgramError> {
        let op = repeat.op;
        let (Some(condition), None) = (repeat.condition, repeat.count) else {
            return Err(wrong(op, "a loop of the launch plan must have a condition and no trip count"));
        };
        let arguments = repeat.body.arguments();
        if arguments.first().is_none_or(|number| number.has_users()) || !repeat.scan_outputs().is_empty() {
            return Err(wrong(op, "a loop of the launch plan must carry its iteration number and scan outputs"));
        }
        // The condition is carried too: the first one, then that of each iteration.
        let first = self.operand(op, condition)?;
        let index = self.computed(1, None);
        let ty = TensorType::read(condition.ty())?;
        let predicate = self.add(ty, Origin::Step(index), op.location());
        self.outline.computed[index].value = predicate;
        let mut carried = Vec::new();
        for (value, result) in repeat.carried.iter().zip(op.results()) {
            let first = self.operand(op, *value)?;
            carried.push((first, self.result(op, result)?));
        }
        self.copy(first, predicate);
        for (first, result) in &carried {
            self.copy(*first, *result);
        }
        for (argument, (_, result)) in arguments[1..].iter().zip(&carried) {
            self.by_key.insert(argument.key(), *result);
        }
        self.used(predicate);
        carried.iter().for_each(|(_, result)| self.used(*result));
        self.bodies.push(Vec::new());
        let before = self.outline.computed.len();
        let mut yielded = self.body(repeat.body)?.into_iter();
        let next = yielded.next().ok_or_else(|| wrong(op, "its body yields no condition"))?;
        let mut copies: Vec<(ValueId, ValueId)> = Vec::new();
        for (value, (_, result)) in yielded.zip(&carried) {
            let root = self.outline.root(value);
            if root == *result {
                continue;
            }
            // Another carried value is overwritten too, perhaps before it is copied.
            let is_carried = carried.iter().any(|(_, other)| *other == root);
            let source = if is_carried { self.saved(op, value)? } else { value };
            copies.push((source, *result));
        }
        // The body does not read the predicate.
        copies.push((next, predicate));
        for (source, target) in copies {
            if !self.is_unread_since(source, target) || !self.put_into(source, target, before) {
                self.copy(source, target);
            }
        }
        let body = self.bodies.pop().unwrap_or_default();
        self.step(StepOutline::While { op, predicate, body, limit: repeat.capacity });
        Ok(())
    }

    /// A copy of a value in memory of its own.
    fn saved(&mut self, op: Op<'m>, value: ValueId) -> Result<ValueId, ProgramError> {
        let ty = self.outline.values[value].ty.clone();
        let bytes = bytes_of(&ty).ok_or_else(|| wrong(op, format!("{ty} has no largest size")))?;
        let index = self.computed(bytes, None);
        let id = self.add(ty, Origin::Step(index), op.location());
        self.outline.computed[index].value = id;
        self.copy(value, id);
        Ok(id)
    }
}
