//! What names stand for: slots for registers, constants, special registers and addresses of variables.

use super::{Decoder, NONE, Special, Symbol};
use crate::execute::lanes::Slot;
use crate::execute::{self, Operation};
use crate::parse::ast;

impl<'m> Decoder<'m> {
    pub(crate) fn new32(&mut self) -> Slot {
        self.program.slots32 += 1;
        self.program.slots32 - 1
    }
    pub(crate) fn new64(&mut self) -> Slot {
        self.program.slots64 += 1;
        self.program.slots64 - 1
    }
    pub(crate) fn new_predicate(&mut self) -> Slot {
        self.program.predicates += 1;
        self.program.predicates - 1
    }
    pub(crate) fn constant32(&mut self, value: u32) -> Slot {
        if let Some(&slot) = self.constants32.get(&value) {
            return slot;
        }
        let slot = self.new32();
        self.constants32.insert(value, slot);
        self.program.constants32.push((slot, value));
        slot
    }
    pub(crate) fn constant64(&mut self, value: u64) -> Slot {
        if let Some(&slot) = self.constants64.get(&value) {
            return slot;
        }
        let slot = self.new64();
        self.constants64.insert(value, slot);
        self.program.constants64.push((slot, value));
        slot
    }
    pub(crate) fn constant_predicate(&mut self, value: bool) -> Slot {
        if let Some(&slot) = self.constant_predicates.get(&value) {
            return slot;
        }
        let slot = self.new_predicate();
        self.constant_predicates.insert(value, slot);
        self.program.constant_predicates.push((slot, value));
        slot
    }
    pub(super) fn global_address(&mut self, index: usize, offset: i64) -> Slot {
        if let Some(&slot) = self.globals.get(&(index, offset)) {
            return slot;
        }
        let slot = self.new64();
        self.globals.insert((index, offset), slot);
        self.program.globals.push((slot, index, offset));
        slot
    }
    /// The condition-code register of the carry instructions.
    pub(crate) fn carry(&mut self) -> Slot {
        match self.carry {
            Some(slot) => slot,
            None => {
                let slot = self.new_predicate();
                self.carry = Some(slot);
                slot
            }
        }
    }
    /// Low half of a 64-bit register in a slot of its own.
    pub(super) fn truncated(&mut self, slot: Slot) -> Slot {
        let d = self.new32();
        self.push(Operation::Convert(execute::convert::Op::truncate(d, slot)), (NONE, false));
        d
    }

    /// Slot of a special register.
    pub(crate) fn special(&mut self, name: &str, wide: bool) -> Option<Slot> {
        use Special::*;
        let (base, axis) = name.split_once('.').map_or((name, 0), |(b, a)| {
            (
                b,
                match a {
                    "x" => 0,
                    "y" => 1,
                    "z" => 2,
                    _ => 9,
                },
            )
        });
        let special = match base {
            "%tid" if axis < 3 => Tid(axis),
            "%ntid" if axis < 3 => Ntid(axis),
            "%ctaid" | "%clusterid" if axis < 3 => Ctaid(axis),
            "%nctaid" | "%nclusterid" if axis < 3 => Nctaid(axis),
            "%cluster_ctaid" | "%cluster_ctarank" if axis < 3 => Constant(0),
            "%cluster_nctaid" | "%cluster_nctarank" if axis < 3 => Constant(1),
            "%laneid" => Lane,
            "%warpid" => Warp,
            "%nwarpid" => Warps,
            "%smid" | "%gridid" => Constant(0),
            "%nsmid" => Constant(1),
            "%lanemask_eq" => LaneMask(super::LaneMask::Eq),
            "%lanemask_le" => LaneMask(super::LaneMask::Le),
            "%lanemask_lt" => LaneMask(super::LaneMask::Lt),
            "%lanemask_ge" => LaneMask(super::LaneMask::Ge),
            "%lanemask_gt" => LaneMask(super::LaneMask::Gt),
            "%dynamic_smem_size" => DynamicShared,
            "%total_smem_size" => TotalShared,
            "%clock" | "%clock_hi" | "%clock64" | "%globaltimer" | "%globaltimer_lo" | "%globaltimer_hi" => {
                let high = base.ends_with("_hi");
                let d = if wide { self.new64() } else { self.new32() };
                self.push(Operation::Move(execute::moves::Op::Clock { d, wide, high }), (NONE, false));
                return Some(d);
            }
            _ => return None,
        };
        let slot = match self.specials.get(&special) {
            Some(&slot) => slot,
            None => {
                let slot = self.new32();
                self.specials.insert(special, slot);
                self.program.specials.push((slot, special));
                slot
            }
        };
        if !wide {
            return Some(slot);
        }
        let d = self.new64();
        self.push(Operation::Convert(execute::convert::Op::extend(d, slot)), (NONE, false));
        Some(d)
    }

    /// What a name stands for; registers get their slot when first named.
    pub(crate) fn lookup(&mut self, name: &'m str) -> Option<Symbol> {
        let symbol = self.find(name);
        if self.warpgroups
            && let Some(Symbol::R32(slot, _)) = symbol
        {
            self.touched.push(slot);
        }
        symbol
    }

    /// The program uses tensor maps.
    pub(crate) fn uses_tensor_maps(&mut self) {
        self.program.uses_tensor_maps = true;
    }

    fn find(&mut self, name: &'m str) -> Option<Symbol> {
        for i in (0..self.scopes.len()).rev() {
            if let Some(&symbol) = self.scopes[i].symbols.get(name) {
                return Some(symbol);
            }
            let found = self.scopes[i].ranges.iter().find_map(|&(prefix, count, bits)| {
                let tail = name.strip_prefix(prefix)?;
                let hit = match count {
                    None => tail.is_empty(),
                    Some(count) => {
                        !tail.is_empty()
                            && tail.bytes().all(|c| c.is_ascii_digit())
                            && (tail == "0" || !tail.starts_with('0'))
                            && tail.parse::<u32>().is_ok_and(|n| n < count)
                    }
                };
                hit.then_some(bits)
            });
            if let Some(bits) = found {
                let symbol = match bits {
                    1 => Symbol::Predicate(self.new_predicate()),
                    64 => Symbol::R64(self.new64()),
                    _ => Symbol::R32(self.new32(), bits),
                };
                self.scopes[i].symbols.insert(name, symbol);
                return Some(symbol);
            }
        }
        if let Some(&at) = self.module_shared.get(name) {
            return Some(Symbol::Shared(at));
        }
        let &index = self.variables.get(name)?;
        match self.module.variables[index].space {
            ast::Space::Global | ast::Space::Const => Some(Symbol::Global(index)),
            _ => None,
        }
    }
}
