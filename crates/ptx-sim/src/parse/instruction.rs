//! Instructions and their operands.

use super::ast::{Instruction, Operand};
use super::lexer::Kind;
use super::parser::{DEPTH_LIMIT, Parser};
use crate::error::Error;

impl Parser<'_> {
    pub(super) fn instruction(&mut self) -> Result<Instruction, Error> {
        let start = self.token().start;
        let line = self.line();
        let guard = if self.eat(b'@') {
            let negated = self.eat(b'!');
            Some((self.word()?.to_owned(), negated))
        } else {
            None
        };
        let opcode = self.word()?.to_owned();
        let mut operands = Vec::new();
        if self.peek() != Kind::Mark(b';') {
            loop {
                operands.push(self.operand(0)?);
                if !self.eat(b',') {
                    break;
                }
            }
        }
        let end = self.token().end;
        self.need(b';')?;
        let text = self.source[start..end].split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Instruction { guard, opcode, operands, line, text, location: self.location })
    }

    pub(super) fn group(&mut self, close: u8, depth: u32) -> Result<Vec<Operand>, Error> {
        self.next();
        let mut out = Vec::new();
        while !self.eat(close) {
            out.push(self.operand(depth + 1)?);
            if self.peek() != Kind::Mark(close) {
                self.need(b',')?;
            }
        }
        Ok(out)
    }

    pub(super) fn operand(&mut self, depth: u32) -> Result<Operand, Error> {
        if depth > DEPTH_LIMIT {
            return self.fail("operands are nested too deep");
        }
        match self.peek() {
            Kind::Mark(b'{') => Ok(Operand::Vector(self.group(b'}', depth)?)),
            Kind::Mark(b'(') => Ok(Operand::List(self.group(b')', depth)?)),
            Kind::Mark(b'[') => {
                self.next();
                let base = match self.peek() {
                    Kind::Word(w) => {
                        self.next();
                        Operand::Name(w.to_owned())
                    }
                    Kind::Integer(v) => {
                        self.next();
                        Operand::Integer(v)
                    }
                    _ => return self.fail(format!("expected an address, found {}", self.found())),
                };
                let offset = self.signed_offset()?;
                let mut rest = Vec::new();
                while self.eat(b',') {
                    rest.push(self.operand(depth + 1)?);
                }
                self.need(b']')?;
                Ok(Operand::Address(Box::new(base), offset, rest))
            }
            Kind::Mark(b'!') => {
                self.next();
                Ok(Operand::Not(self.word()?.to_owned()))
            }
            Kind::Mark(b'~') => {
                self.next();
                Ok(Operand::Integer(!self.integer()?))
            }
            Kind::Mark(b'-') => {
                self.next();
                match self.next().kind {
                    Kind::Integer(v) => Ok(Operand::Negative(v.wrapping_neg())),
                    Kind::F32(bits) => Ok(Operand::F32(bits ^ 0x8000_0000)),
                    Kind::F64(bits) => Ok(Operand::F64(bits ^ (1 << 63))),
                    _ => self.fail("expected a number after `-`"),
                }
            }
            Kind::Integer(v) => {
                self.next();
                Ok(Operand::Integer(v))
            }
            Kind::F32(bits) => {
                self.next();
                Ok(Operand::F32(bits))
            }
            Kind::F64(bits) => {
                self.next();
                Ok(Operand::F64(bits))
            }
            Kind::Word(w) => {
                self.next();
                if self.eat(b'|') {
                    return Ok(Operand::Pair(w.to_owned(), self.word()?.to_owned()));
                }
                if matches!(self.peek(), Kind::Mark(b'+' | b'-')) {
                    return Ok(Operand::NameOffset(w.to_owned(), self.signed_offset()?));
                }
                Ok(Operand::Name(w.to_owned()))
            }
            _ => self.fail(format!("expected an operand, found {}", self.found())),
        }
    }

    /// Any number of `+ n` and `- n`.
    pub(super) fn signed_offset(&mut self) -> Result<i64, Error> {
        let mut total = 0i64;
        loop {
            if self.eat(b'+') {
                let negative = self.eat(b'-');
                let v = self.integer()? as i64;
                total = total.wrapping_add(if negative { v.wrapping_neg() } else { v });
            } else if self.eat(b'-') {
                total = total.wrapping_sub(self.integer()? as i64);
            } else {
                return Ok(total);
            }
        }
    }
}
