//! Values sent between lanes: 32-bit words, by `shfl.sync`. Source: PTX ISA, "shfl.sync".

use tenon_ir::Value;
use tenon_layout::{Exchange, ShufflePlan};
use tenon_tensor::DType;

use super::global::Stored;
use super::{ExpandError, Expander};

/// Which lane a lane reads from.
#[derive(Clone, Copy)]
pub(super) enum From<'m> {
    /// The own lane xor a constant.
    Xor(u32),
    /// A lane of its own choice.
    Lane(Value<'m>),
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// One word from another lane; all lanes of the warp take part.
    fn shuffle_word(&mut self, word: Value<'m>, from: From<'m>) -> Result<Value<'m>, ExpandError> {
        let context = self.at.context();
        let (kind, lane) = match from {
            From::Xor(mask) => ("bfly", self.i32(i64::from(mask))?),
            From::Lane(lane) => ("idx", lane),
        };
        let (all, clamp) = (self.i32(-1)?, self.i32(31)?);
        Ok(self
            .at
            .op("nvvm.shfl.sync")
            .operands(&[all, word, lane, clamp])
            .attribute("kind", context.parse_attribute(&format!("#nvvm<shfl_kind {kind}>"))?)
            .results(&[word.ty()])
            .value()?)
    }

    /// Elements from another lane, packed into as few words as they fill: up to 4 bytes, or one element of 8.
    pub(super) fn shuffle(
        &mut self,
        values: &[Value<'m>],
        stored: Stored,
        from: From<'m>,
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let context = self.at.context();
        let word = context.i32_type();
        match stored.element {
            DType::F32 | DType::I32 | DType::U32 => {
                return values.iter().map(|value| self.shuffle_word(*value, from)).collect();
            }
            _ => {}
        }
        let element = self.stored_type(stored);
        let bits = stored.bytes * 8;
        let integer = context.integer_type(bits);
        if bits == 64 {
            let pair = context.vector_type(2, word)?;
            let mut received = Vec::new();
            for value in values {
                let value = self.to_stored(*value, stored)?;
                let words = self.pure("llvm.bitcast", &[value], pair)?;
                let words =
                    self.at.op("vector.to_elements").operands(&[words]).results(&[word, word]).build()?.results();
                let words =
                    words.into_iter().map(|half| self.shuffle_word(half, from)).collect::<Result<Vec<_>, _>>()?;
                let whole = self.pure("vector.from_elements", &words, pair)?;
                let whole = self.pure("llvm.bitcast", &[whole], element)?;
                received.push(self.restored(whole, stored)?);
            }
            return Ok(received);
        }
        let lanes = (32 / bits) as usize;
        let mut received = Vec::new();
        for part in values.chunks(lanes) {
            let own = part.iter().map(|value| self.to_stored(*value, stored)).collect::<Result<Vec<_>, _>>()?;
            if let [value] = own.as_slice() {
                let narrow = if *value == own[0] && element == integer {
                    *value
                } else {
                    self.pure("arith.bitcast", &[*value], integer)?
                };
                let wide = self.pure("arith.extui", &[narrow], word)?;
                let wide = self.shuffle_word(wide, from)?;
                let narrow = self.pure("arith.trunci", &[wide], integer)?;
                let value = if element == integer { narrow } else { self.pure("arith.bitcast", &[narrow], element)? };
                received.push(self.restored(value, stored)?);
                continue;
            }
            // A word is filled up with copies of the last element.
            let padded: Vec<_> = (0..lanes).map(|i| own[i.min(own.len() - 1)]).collect();
            let vector = context.vector_type(lanes as u32, element)?;
            let packed = self.pure("vector.from_elements", &padded, vector)?;
            let packed = self.pure("llvm.bitcast", &[packed], word)?;
            let packed = self.shuffle_word(packed, from)?;
            let packed = self.pure("llvm.bitcast", &[packed], vector)?;
            let elements =
                self.at.op("vector.to_elements").operands(&[packed]).results(&vec![element; lanes]).build()?.results();
            for value in elements.into_iter().take(part.len()) {
                received.push(self.restored(value, stored)?);
            }
        }
        Ok(received)
    }

    /// A conversion within each warp, by its plan.
    pub(super) fn shuffle_layout(
        &mut self,
        plan: &ShufflePlan,
        registers: &[Value<'m>],
        stored: Stored,
        target_registers: u32,
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let source: Vec<_> = registers.iter().copied().map(Some).collect();
        let source = self.exchange(source, &plan.send.exchanges())?;
        let lane = self.linear(&plan.source.lanes, &plan.source.warps)?;
        let own = plan.source.lanes.iter().enumerate().all(|(i, &v)| v == 1 << i)
            && plan.source.warps.iter().all(|&v| v == 0);
        let mut received: Vec<Option<Value<'m>>> = vec![None; target_registers as usize];
        for shuffle in &plan.shuffles {
            let sent: Option<Vec<_>> =
                shuffle.parts.iter().map(|part| source.get(part.send_xor as usize).copied().flatten()).collect();
            let sent = sent.ok_or_else(|| self.misfit("the plan sends a register that there is not"))?;
            let values = if shuffle.local {
                sent
            } else {
                let from = match lane {
                    _ if own => From::Xor(shuffle.source_xor),
                    None => From::Lane(self.i32(i64::from(shuffle.source_xor))?),
                    Some(lane) if shuffle.source_xor == 0 => From::Lane(lane),
                    Some(lane) => {
                        let constant = self.i32(i64::from(shuffle.source_xor))?;
                        From::Lane(self.binary("arith.xori", lane, constant)?)
                    }
                };
                self.shuffle(&sent, stored, from)?
            };
            for (part, value) in shuffle.parts.iter().zip(values) {
                if let Some(place) = received.get_mut(part.receive_xor as usize) {
                    *place = Some(value);
                }
            }
        }
        let received = self.exchange(received, &plan.receive.exchanges())?;
        self.filled(received, &plan.copies)
    }

    /// Registers in an order that depends on the thread.
    fn exchange(
        &mut self,
        mut registers: Vec<Option<Value<'m>>>,
        steps: &[Exchange],
    ) -> Result<Vec<Option<Value<'m>>>, ExpandError> {
        for step in steps {
            let odd = self.odd(step.lanes, step.warps)?;
            let mut exchanged = Vec::with_capacity(registers.len());
            for (index, own) in registers.iter().enumerate() {
                let other = registers.get(index ^ step.register_xor as usize).copied().flatten();
                exchanged.push(match (own, other) {
                    (Some(own), Some(other)) => Some(self.select(odd, other, *own)?),
                    _ => None,
                });
            }
            registers = exchanged;
        }
        Ok(registers)
    }
}
