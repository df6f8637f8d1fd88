//! One instruction on its way to being decoded: its modifiers are taken one by one, and what nobody took is an error.

use super::types::Type;
use super::{Decoder, Symbol};
use crate::error::Error;
use crate::execute::lanes::Slot;
use crate::parse::ast::{Instruction, Operand};

/// Address operand: a register slot of 32 or 64 bits and a constant offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub slot: Slot,
    pub wide: bool,
    pub offset: i64,
}

pub(crate) struct Form<'a, 'm> {
    pub d: &'a mut Decoder<'m>,
    pub ins: &'m Instruction,
    parts: Vec<&'m str>,
    taken: u64,
}

impl<'a, 'm> Form<'a, 'm> {
    pub(crate) fn new(d: &'a mut Decoder<'m>, ins: &'m Instruction) -> Form<'a, 'm> {
        Form { d, ins, parts: ins.opcode.split('.').take(64).collect(), taken: 1 }
    }

    /// First part of the opcode.
    pub(crate) fn name(&self) -> &'m str {
        self.parts[0]
    }
    pub(crate) fn error<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(self.d.error(self.ins, message))
    }
    /// Takes a modifier if it is there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        for i in 1..self.parts.len() {
            if self.parts[i] == name && self.taken >> i & 1 == 0 {
                self.taken |= 1 << i;
                return true;
            }
        }
        false
    }
    /// Takes the first of several modifiers that is there.
    pub(crate) fn pick(&mut self, names: &[&'static str]) -> Option<&'static str> {
        names.iter().copied().find(|n| self.flag(n))
    }
    pub(crate) fn need(&mut self, names: &[&'static str]) -> Result<&'static str, Error> {
        match self.pick(names) {
            Some(n) => Ok(n),
            None => self.error(format!("expected one of the modifiers .{}", names.join(", ."))),
        }
    }
    /// Takes every type modifier, in order.
    pub(crate) fn types(&mut self) -> Vec<Type> {
        let mut out = Vec::new();
        for i in 1..self.parts.len() {
            if self.taken >> i & 1 == 0
                && let Some(t) = Type::parse(self.parts[i])
            {
                self.taken |= 1 << i;
                out.push(t);
            }
        }
        out
    }
    /// Takes the one type modifier.
    pub(crate) fn ty(&mut self) -> Result<Type, Error> {
        match self.types()[..] {
            [t] => Ok(t),
            _ => self.error("expected exactly one type"),
        }
    }
    /// Takes modifiers that begin with one of the prefixes (cache hints).
    pub(crate) fn skip_prefixed(&mut self, prefixes: &[&str]) {
        for i in 1..self.parts.len() {
            if prefixes.iter().any(|p| self.parts[i].starts_with(p)) {
                self.taken |= 1 << i;
            }
        }
    }
    /// Takes a shape `PREFIX` N `k` K; returns N and K.
    pub(crate) fn take_shape(&mut self, prefix: &str) -> Option<(usize, usize)> {
        for i in 1..self.parts.len() {
            if let Some((n, k)) = self.parts[i].strip_prefix(prefix).and_then(|rest| rest.split_once('k'))
                && let (Ok(n), Ok(k)) = (n.parse(), k.parse())
            {
                self.taken |= 1 << i;
                return Some((n, k));
            }
        }
        None
    }
    /// Takes two layouts, `row` or `col`, in order.
    pub(crate) fn layouts(&mut self) -> [&'m str; 2] {
        let mut out = [""; 2];
        let mut next = 0;
        for i in 1..self.parts.len() {
            if next < 2 && matches!(self.parts[i], "row" | "col") && self.taken >> i & 1 == 0 {
                self.taken |= 1 << i;
                out[next] = self.parts[i];
                next += 1;
            }
        }
        out
    }
    /// All modifiers must have been taken.
    pub(crate) fn done(&self) -> Result<(), Error> {
        for i in 1..self.parts.len() {
            if self.taken >> i & 1 == 0 {
                return self.error(format!("unknown or unsuitable modifier `.{}`", self.parts[i]));
            }
        }
        Ok(())
    }
    pub(crate) fn unsupported<T>(&self, t: Type) -> Result<T, Error> {
        self.error(format!("type {t:?} is not supported here"))
    }

    pub(crate) fn count(&self) -> usize {
        self.ins.operands.len()
    }
    pub(crate) fn need_count(&self, n: usize) -> Result<(), Error> {
        if self.count() == n { Ok(()) } else { self.error(format!("expected {n} operands, found {}", self.count())) }
    }
    pub(crate) fn operand(&self, i: usize) -> Result<&'m Operand, Error> {
        match self.ins.operands.get(i) {
            Some(o) => Ok(o),
            None => self.error(format!("operand {} is missing", i + 1)),
        }
    }

    /// Slot of a source of the type's width: a register, a constant, a special register or an address.
    pub(crate) fn src(&mut self, i: usize, t: Type) -> Result<Slot, Error> {
        let operand = self.operand(i)?;
        self.source(operand, t, false)
    }
    /// As [`Form::src`], a wider register being accepted too (`st`, `cvt`).
    pub(crate) fn source(&mut self, operand: &'m Operand, t: Type, relaxed: bool) -> Result<Slot, Error> {
        let wide = t.bits() == 64;
        match operand {
            Operand::Integer(v) | Operand::Negative(v) => {
                if t == Type::F32 || t == Type::F64 {
                    return self.error("expected a floating-point constant");
                }
                Ok(if wide { self.d.constant64(*v) } else { self.d.constant32(truncate(*v, t.bits())) })
            }
            Operand::F32(bits) => match t {
                Type::F32 | Type::B32 | Type::Tf32 => Ok(self.d.constant32(*bits)),
                Type::F64 => Ok(self.d.constant64(f64::from(f32::from_bits(*bits)).to_bits())),
                _ => self.error("an f32 constant does not fit the type"),
            },
            Operand::F64(bits) => match t {
                Type::F64 | Type::B64 => Ok(self.d.constant64(*bits)),
                Type::F32 | Type::B32 => Ok(self.d.constant32((f64::from_bits(*bits) as f32).to_bits())),
                _ => self.error("an f64 constant does not fit the type"),
            },
            Operand::Name(name) => match self.d.lookup(name) {
                Some(Symbol::R32(slot, bits))
                    if !wide && (t.bits() <= 8 || bits == t.bits() || relaxed && bits >= t.bits()) =>
                {
                    Ok(slot)
                }
                Some(Symbol::R64(slot)) if wide => Ok(slot),
                Some(Symbol::R64(slot)) if relaxed => Ok(self.d.truncated(slot)),
                Some(Symbol::R32(_, bits)) => {
                    self.error(format!("register `{name}` has {bits} bits, the type {} bits", t.bits()))
                }
                Some(Symbol::R64(_)) => {
                    self.error(format!("register `{name}` has 64 bits, the type {} bits", t.bits()))
                }
                Some(Symbol::Predicate(_)) => self.error(format!("`{name}` is a predicate")),
                Some(symbol) => self.symbol_address(name, symbol, 0, wide),
                None => match self.d.special(name, wide) {
                    Some(slot) => Ok(slot),
                    None => self.error(format!("`{name}` is not declared")),
                },
            },
            Operand::NameOffset(name, offset) => match self.d.lookup(name) {
                Some(Symbol::R32(..) | Symbol::R64(_) | Symbol::Predicate(_)) | None => {
                    self.error(format!("`{name}` is no variable"))
                }
                Some(symbol) => self.symbol_address(name, symbol, *offset, wide),
            },
            _ => self.error("expected a register or a constant"),
        }
    }

    fn symbol_address(&mut self, name: &str, symbol: Symbol, offset: i64, wide: bool) -> Result<Slot, Error> {
        let fixed = match symbol {
            Symbol::Shared(at) | Symbol::Local(at) | Symbol::Param(at) => u64::from(at),
            Symbol::CallParam(at) => u64::from(at) | CALL_PARAM,
            Symbol::Global(index) => {
                if !wide {
                    return self.error(format!("the address of `{name}` has 64 bits"));
                }
                return Ok(self.d.global_address(index, offset));
            }
            _ => return self.error(format!("`{name}` has no address")),
        };
        let value = fixed.wrapping_add(offset as u64);
        Ok(if wide { self.d.constant64(value) } else { self.d.constant32(value as u32) })
    }

    /// Slot of a destination; a sink `_` gets a slot of its own.
    pub(crate) fn dst(&mut self, i: usize, t: Type) -> Result<Slot, Error> {
        let operand = self.operand(i)?;
        self.destination(operand, t)
    }
    pub(crate) fn destination(&mut self, operand: &'m Operand, t: Type) -> Result<Slot, Error> {
        let wide = t.bits() == 64;
        let Operand::Name(name) = operand else { return self.error("expected a register") };
        if name == "_" {
            return Ok(if wide { self.d.new64() } else { self.d.new32() });
        }
        match self.d.lookup(name) {
            Some(Symbol::R32(slot, bits)) if !wide && (bits == t.bits() || t.bits() < 16) => Ok(slot),
            Some(Symbol::R64(slot)) if wide => Ok(slot),
            Some(Symbol::R32(_, bits)) => {
                self.error(format!("register `{name}` has {bits} bits, the type {} bits", t.bits()))
            }
            Some(Symbol::R64(_)) => self.error(format!("register `{name}` has 64 bits, the type {} bits", t.bits())),
            Some(_) => self.error(format!("`{name}` is no register of this type")),
            None => self.error(format!("`{name}` is not declared")),
        }
    }
    /// Destination register of any width at least the type's: slot and its bits.
    pub(crate) fn wide_destination(&mut self, operand: &'m Operand, t: Type) -> Result<(Slot, u32), Error> {
        let Operand::Name(name) = operand else { return self.error("expected a register") };
        if name == "_" {
            return Ok(if t.bits() == 64 { (self.d.new64(), 64) } else { (self.d.new32(), 32) });
        }
        match self.d.lookup(name) {
            Some(Symbol::R32(slot, bits)) if bits >= t.bits() => Ok((slot, bits)),
            Some(Symbol::R64(slot)) => Ok((slot, 64)),
            Some(Symbol::R32(_, bits)) => {
                self.error(format!("register `{name}` has {bits} bits, the type {} bits", t.bits()))
            }
            Some(_) => self.error(format!("`{name}` is no register of this type")),
            None => self.error(format!("`{name}` is not declared")),
        }
    }

    /// Predicate source and whether it is negated.
    pub(crate) fn predicate(&mut self, i: usize) -> Result<(Slot, bool), Error> {
        let operand = self.operand(i)?;
        let (name, negated) = match operand {
            Operand::Name(n) => (n, false),
            Operand::Not(n) => (n, true),
            Operand::Integer(v) => return Ok((self.d.constant_predicate(*v != 0), false)),
            Operand::Negative(_) => return Ok((self.d.constant_predicate(true), false)),
            _ => return self.error("expected a predicate"),
        };
        match self.d.lookup(name) {
            Some(Symbol::Predicate(slot)) => Ok((slot, negated)),
            _ => self.error(format!("`{name}` is no predicate")),
        }
    }
    pub(crate) fn predicate_named(&mut self, name: &'m str) -> Result<Slot, Error> {
        if name == "_" {
            return Ok(self.d.new_predicate());
        }
        match self.d.lookup(name) {
            Some(Symbol::Predicate(slot)) => Ok(slot),
            _ => self.error(format!("`{name}` is no predicate")),
        }
    }
    pub(crate) fn predicate_dst(&mut self, i: usize) -> Result<Slot, Error> {
        match self.operand(i)? {
            Operand::Name(n) => self.predicate_named(n),
            _ => self.error("expected a predicate"),
        }
    }

    /// A constant known when decoding.
    pub(crate) fn constant(&self, i: usize) -> Result<i64, Error> {
        match self.operand(i)? {
            Operand::Integer(v) | Operand::Negative(v) => Ok(*v as i64),
            _ => self.error("expected a constant"),
        }
    }
    pub(crate) fn address(&mut self, i: usize) -> Result<Address, Error> {
        let Operand::Address(base, offset, rest) = self.operand(i)? else { return self.error("expected an address") };
        if !rest.is_empty() {
            return self.error("expected an address of one part");
        }
        self.base_address(base, *offset)
    }
    /// Address of a tensor map and the coordinates after it.
    pub(crate) fn tensor_address(&mut self, i: usize) -> Result<(Address, Vec<Slot>), Error> {
        let Operand::Address(base, offset, rest) = self.operand(i)? else { return self.error("expected an address") };
        let [Operand::Vector(coordinates)] = &rest[..] else {
            return self.error("expected a tensor map and its coordinates");
        };
        let slots = coordinates.iter().map(|c| self.source(c, Type::S32, false)).collect::<Result<_, _>>()?;
        Ok((self.base_address(base, *offset)?, slots))
    }
    fn base_address(&mut self, base: &'m Operand, offset: i64) -> Result<Address, Error> {
        match base {
            Operand::Name(name) => match self.d.lookup(name) {
                Some(Symbol::R32(slot, 32)) => Ok(Address { slot, wide: false, offset }),
                Some(Symbol::R64(slot)) => Ok(Address { slot, wide: true, offset }),
                Some(Symbol::R32(..) | Symbol::Predicate(_)) => self.error(format!("`{name}` holds no address")),
                Some(symbol) => {
                    Ok(Address { slot: self.symbol_address(name, symbol, offset, true)?, wide: true, offset: 0 })
                }
                None => self.error(format!("`{name}` is not declared")),
            },
            Operand::Integer(v) => {
                Ok(Address { slot: self.d.constant64(v.wrapping_add(offset as u64)), wide: true, offset: 0 })
            }
            _ => self.error("expected an address"),
        }
    }
    /// Elements of `{…}`, or the operand itself.
    pub(crate) fn elements(&self, i: usize) -> Result<&'m [Operand], Error> {
        let operand = self.operand(i)?;
        Ok(match operand {
            Operand::Vector(v) => v,
            _ => std::slice::from_ref(operand),
        })
    }
}

/// Marks addresses of call parameters, which live with the thread's local data.
pub(crate) const CALL_PARAM: u64 = 1 << 31;

fn truncate(v: u64, bits: u32) -> u32 {
    if bits >= 32 { v as u32 } else { v as u32 & ((1 << bits) - 1) }
}
