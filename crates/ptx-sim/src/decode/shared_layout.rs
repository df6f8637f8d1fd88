//! Where the shared variables of an entry lie: static ones first, then dynamic shared memory.

use std::collections::HashSet;

use super::{Decoder, align_up};
use crate::error::Error;
use crate::parse::ast;

impl Decoder<'_> {
    /// Static shared memory: the module-scope variables that the entry or any device function mentions, then those of bodies.
    pub(super) fn lay_out_shared(&mut self, index: usize) -> Result<(), Error> {
        let module = self.module;
        let reached = |i: usize, f: &ast::Function| i == index || !f.entry;
        let mut mentioned = HashSet::new();
        for (_, f) in module.functions.iter().enumerate().filter(|(i, f)| reached(*i, f)) {
            for s in f.body.iter().flatten() {
                if let ast::Statement::Instruction(ins) = s {
                    ins.operands.iter().for_each(|o| mention(o, &mut mentioned));
                }
            }
        }
        let mut at = 0u64;
        let place = |v: &ast::Variable, at: &mut u64| -> Result<u32, Error> {
            *at = align_up(*at, v.align);
            let offset = *at;
            *at += v.size;
            if *at > 1 << 20 {
                return Err(Error::parse(v.line, "the shared variables have more than 1 MiB"));
            }
            Ok(offset as u32)
        };
        for v in module.variables.iter().filter(|v| v.space == ast::Space::Shared && v.size > 0) {
            if mentioned.contains(v.name.as_str()) {
                let offset = place(v, &mut at)?;
                self.module_shared.insert(&v.name, offset);
            }
        }
        for (i, f) in module.functions.iter().enumerate().filter(|(i, f)| reached(*i, f)) {
            for (j, s) in f.body.iter().flatten().enumerate() {
                if let ast::Statement::Variable(v) = s
                    && v.space == ast::Space::Shared
                {
                    let offset = place(v, &mut at)?;
                    self.shared.insert((i, j), offset);
                }
            }
        }
        let dynamic = module.variables.iter().filter(|v| v.space == ast::Space::Shared && v.size == 0);
        let align = dynamic.clone().map(|v| v.align).max().unwrap_or(1);
        let base = align_up(at, align);
        for v in dynamic {
            self.program.dynamic_shared |= mentioned.contains(v.name.as_str());
            self.module_shared.insert(&v.name, base as u32);
        }
        self.program.static_shared = base as u32;
        Ok(())
    }
}

fn mention<'m>(operand: &'m ast::Operand, names: &mut HashSet<&'m str>) {
    match operand {
        ast::Operand::Name(n) | ast::Operand::NameOffset(n, _) => {
            names.insert(n);
        }
        ast::Operand::Vector(v) | ast::Operand::List(v) => v.iter().for_each(|o| mention(o, names)),
        ast::Operand::Address(base, _, rest) => {
            mention(base, names);
            rest.iter().for_each(|o| mention(o, names));
        }
        _ => {}
    }
}
