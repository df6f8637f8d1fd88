//! Declarations of variables and parameters: state space, alignment, type, extent and initial values.

use super::ast::{Initialiser, Operand, Space, Variable};
use super::lexer::Kind;
use super::parser::{Parser, type_bits};
use crate::error::Error;

/// Most bytes one variable may have.
const VARIABLE_LIMIT: u64 = 4 << 30;

impl Parser<'_> {
    /// `.space [.align N] .type name[…] [= init] {, name …};` with the cursor on the space.
    pub(super) fn variables(&mut self, is_extern: bool) -> Result<Vec<Variable>, Error> {
        let mut out = Vec::new();
        let mut first = self.variable(is_extern)?;
        loop {
            if self.eat(b'=') {
                self.initialiser(&mut first)?;
            }
            let template = Variable { values: Vec::new(), ..first.clone() };
            out.push(first);
            if !self.eat(b',') {
                break;
            }
            first = template;
            first.name = self.word()?.to_owned();
            self.extent(&mut first)?;
        }
        self.need(b';')?;
        Ok(out)
    }

    pub(super) fn space(&mut self) -> Result<Space, Error> {
        let word = self.word()?;
        Ok(match word {
            ".global" => Space::Global,
            ".const" => Space::Const,
            ".shared" => Space::Shared,
            ".local" => Space::Local,
            ".param" => Space::Param,
            _ => return self.fail(format!("`{word}` is no state space")),
        })
    }

    pub(super) fn variable(&mut self, is_extern: bool) -> Result<Variable, Error> {
        let line = self.line();
        let space = self.space()?;
        let mut align = 0;
        let mut lanes = 1u32;
        let element;
        loop {
            let word = self.word()?;
            match word {
                ".align" => align = self.integer()?,
                ".v2" => lanes = 2,
                ".v4" => lanes = 4,
                ".attribute" => {
                    self.need(b'(')?;
                    while !self.eat(b')') {
                        if self.next().kind == Kind::End {
                            return self.fail("attribute without an end");
                        }
                    }
                }
                _ => match type_bits(word) {
                    Some(bits) if bits >= 8 => {
                        element = bits / 8;
                        break;
                    }
                    _ => return self.fail(format!("`{word}` is no type of a variable")),
                },
            }
        }
        // `.ptr .space .align N` describes what a pointer parameter points to; nothing is checked against it.
        if self.peek() == Kind::Word(".ptr") {
            self.next();
            while let Kind::Word(w @ (".global" | ".const" | ".shared" | ".local" | ".align")) = self.peek() {
                self.next();
                if w == ".align" {
                    self.integer()?;
                }
            }
        }
        if !(align == 0 || align.is_power_of_two() && align <= 4096) {
            return self.fail(format!(".align {align} is no power of two up to 4096"));
        }
        let width = element * lanes;
        let mut variable = Variable {
            space,
            name: self.word()?.to_owned(),
            size: u64::from(width),
            align: align.max(u64::from(width)),
            is_extern,
            element: width,
            values: Vec::new(),
            line,
        };
        if align != 0 {
            variable.align = align;
        }
        self.extent(&mut variable)?;
        variable.element = element;
        Ok(variable)
    }

    pub(super) fn extent(&mut self, v: &mut Variable) -> Result<(), Error> {
        v.size = u64::from(v.element);
        while self.eat(b'[') {
            if self.eat(b']') {
                v.size = 0;
                continue;
            }
            let count = self.integer()?;
            self.need(b']')?;
            v.size = match v.size.checked_mul(count) {
                Some(size) if size <= VARIABLE_LIMIT => size,
                _ => return self.fail(format!("`{}` has more than {VARIABLE_LIMIT} bytes", v.name)),
            };
        }
        Ok(())
    }

    pub(super) fn initialiser(&mut self, v: &mut Variable) -> Result<(), Error> {
        let mut depth = 0u32;
        loop {
            match self.peek() {
                Kind::Mark(b'{') => {
                    self.next();
                    depth += 1;
                    continue;
                }
                Kind::Mark(b'}') if depth > 0 => {
                    self.next();
                    depth -= 1;
                }
                Kind::Word(word) => {
                    self.next();
                    let name = if word == "generic" {
                        self.need(b'(')?;
                        let name = self.word()?;
                        self.need(b')')?;
                        name
                    } else {
                        word
                    };
                    let offset = self.signed_offset()?;
                    v.values.push(Initialiser::Symbol(name.to_owned(), offset));
                }
                _ => {
                    let bits = match self.operand(0)? {
                        Operand::Integer(bits) | Operand::Negative(bits) | Operand::F64(bits) => bits,
                        Operand::F32(bits) => u64::from(bits),
                        _ => return self.fail("unsupported initialiser"),
                    };
                    v.values.push(Initialiser::Bits(bits));
                }
            }
            if depth == 0 {
                break;
            }
            self.eat(b',');
        }
        if v.size == 0 {
            v.size = v.values.len() as u64 * u64::from(v.element);
        }
        if v.values.len() as u64 * u64::from(v.element) > v.size {
            return self.fail(format!("more initialisers than `{}` has elements", v.name));
        }
        Ok(())
    }
}
