//! Branches, indexed branches and calls (PTX ISA 9.7.12 and 9.7.13): calls are inlined, recursion is refused.

use super::form::Form;
use super::types::Type;
use super::{Decoder, NONE, Scope, Symbol};
use crate::error::Error;
use crate::execute::control::Control;
use crate::execute::{self, Operation};
use crate::parse::ast;

/// Deepest chain of calls.
const CALL_LIMIT: usize = 64;

impl<'m> Decoder<'m> {
    pub(super) fn branch(&mut self, ins: &'m ast::Instruction) -> Result<(), Error> {
        let mut form = Form::new(self, ins);
        form.flag("uni");
        form.done()?;
        form.need_count(1)?;
        let ast::Operand::Name(name) = form.operand(0)? else { return form.error("expected a label") };
        let Some(target) = self.label(name) else {
            return Err(self.error(ins, format!("label `{name}` is not known")));
        };
        self.emit(Operation::Control(Control::Branch { target, meet: NONE }))
    }

    /// A chain of compares and branches; an index beyond the list takes the last label.
    pub(super) fn indexed_branch(&mut self, ins: &'m ast::Instruction) -> Result<(), Error> {
        let mut form = Form::new(self, ins);
        if !form.flag("idx") {
            return form.error("expected brx.idx");
        }
        form.flag("uni");
        form.done()?;
        form.need_count(2)?;
        let index = form.src(0, Type::U32)?;
        let ast::Operand::Name(list) = form.operand(1)? else { return form.error("expected a list of targets") };
        let Some(labels) = self.scopes.iter().rev().find_map(|s| s.targets.get(list.as_str()).copied()) else {
            return Err(self.error(ins, format!("list of targets `{list}` is not known")));
        };
        let outer = self.guard;
        for (i, name) in labels.iter().enumerate() {
            let Some(target) = self.label(name) else {
                return Err(self.error(ins, format!("label `{name}` is not known")));
            };
            if i + 1 < labels.len() {
                let p = self.new_predicate();
                let value = self.constant32(i as u32);
                self.guard = outer;
                // Lanes that the guard excludes must not branch: their predicate is cleared first.
                let never = self.constant_predicate(false);
                self.guard = (NONE, false);
                self.emit(Operation::Compare(execute::compare::Op::copy_predicate(p, never)))?;
                self.guard = outer;
                self.emit(Operation::Compare(execute::compare::Op::equal(p, index, value)))?;
                self.guard = (p, false);
            } else {
                self.guard = outer;
            }
            self.emit(Operation::Control(Control::Branch { target, meet: NONE }))?;
        }
        Ok(())
    }

    pub(super) fn call(&mut self, ins: &'m ast::Instruction) -> Result<(), Error> {
        let mut form = Form::new(self, ins);
        form.flag("uni");
        form.done()?;
        let mut operands = &ins.operands[..];
        let (mut results, mut arguments): (&[ast::Operand], &[ast::Operand]) = (&[], &[]);
        if let [ast::Operand::List(list), rest @ ..] = operands {
            results = list;
            operands = rest;
        }
        let [ast::Operand::Name(name), rest @ ..] = operands else {
            return form.error("expected the name of a function");
        };
        if let [ast::Operand::List(list)] = rest {
            arguments = list;
        } else if !rest.is_empty() {
            return form.error("indirect calls are not supported");
        }
        let module = self.module;
        let Some(index) = module.functions.iter().position(|f| f.name == *name && !f.entry) else {
            return Err(self.error(ins, format!("function `{name}` is not known")));
        };
        let callee = &module.functions[index];
        if callee.body.is_none() {
            return Err(self.error(ins, format!("function `{name}` has no body")));
        }
        if self.calls.contains(&index) || self.calls.len() >= CALL_LIMIT {
            return Err(self.error(ins, "recursive or too deeply nested calls are not supported"));
        }
        if callee.parameters.len() != arguments.len() || callee.results.len() != results.len() {
            return Err(self.error(ins, "the call does not fit the declaration of the function"));
        }
        let mut scope = Scope::default();
        for (formal, actual) in callee.parameters.iter().zip(arguments).chain(callee.results.iter().zip(results)) {
            let symbol = match actual {
                ast::Operand::Name(n) => self.lookup(n),
                _ => None,
            };
            let Some(symbol @ Symbol::CallParam(_)) = symbol else {
                return Err(self.error(ins, "arguments and results of calls must be .param variables"));
            };
            scope.symbols.insert(&formal.name, symbol);
        }
        let guard = self.guard;
        let after = self.new_label();
        if guard.0 != NONE {
            self.guard = (guard.0, !guard.1);
            self.emit(Operation::Control(Control::Branch { target: after, meet: NONE }))?;
        }
        let scopes = std::mem::replace(&mut self.scopes, vec![scope]);
        let return_label = self.return_label.replace(after);
        self.calls.push(index);
        self.body(callee, index)?;
        self.calls.pop();
        self.scopes = scopes;
        self.return_label = return_label;
        self.labels[after as usize] = self.program.code.len() as u32;
        Ok(())
    }
}
