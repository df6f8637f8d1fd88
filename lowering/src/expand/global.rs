//! `hw.load` and `hw.store`: vectors of up to 16 bytes, under masks.

use std::collections::HashMap;

use tenon_hw_dialect::{IntegerPredicate, Scalar};
use tenon_ir::{Op, Type, Value};
use tenon_tensor::DType;

use super::values::TileValues;
use super::{ExpandError, Expander};

/// The widest access of a thread, in bytes.
const MAX_BYTES: u32 = 16;
/// Where an index of `llvm.getelementptr` is a value and no constant.
const DYNAMIC: i32 = i32::MIN;

/// How elements lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) element: DType,
    /// Bytes of an element.
    pub(super) bytes: u32,
}

/// Registers that go to memory in one access, under one mask.
struct Access<'m> {
    first: usize,
    count: usize,
    mask: Option<Value<'m>>,
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// How elements of a type lie in memory: one byte for a bool (0 or 1).
    pub(super) fn stored(&self, element: DType) -> Result<Stored, ExpandError> {
        let whole_bytes = element == DType::Bool || element.bits().is_multiple_of(8);
        if !whole_bytes || !(element == DType::Bool || element.is_float() || element.is_integer()) {
            return Err(self.element(format!("elements of {element} have no address of their own")));
        }
        Ok(Stored { element, bytes: element.size() as u32 })
    }

    /// The type that is loaded and stored for an element.
    pub(super) fn stored_type(&self, stored: Stored) -> Type<'m> {
        let context = self.at.context();
        let native = matches!(stored.element, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
        if native { self.register_type(stored.element) } else { context.integer_type(stored.bytes * 8) }
    }

    /// A register's value as what is stored.
    pub(super) fn to_stored(&self, value: Value<'m>, stored: Stored) -> Result<Value<'m>, ExpandError> {
        let ty = self.stored_type(stored);
        if value.ty() == ty {
            Ok(value)
        } else if stored.element == DType::Bool {
            self.pure("arith.extui", &[value], ty)
        } else {
            self.pure("arith.bitcast", &[value], ty)
        }
    }

    /// What was stored as a register's value.
    pub(super) fn restored(&mut self, value: Value<'m>, stored: Stored) -> Result<Value<'m>, ExpandError> {
        let ty = self.register_type(stored.element);
        if value.ty() == ty {
            Ok(value)
        } else if stored.element == DType::Bool {
            let zero = self.constant(self.at.context().integer(0, value.ty()))?;
            Ok(Scalar::new(self.at).compare_int(IntegerPredicate::NotEqual, value, zero)?)
        } else {
            self.pure("arith.bitcast", &[value], ty)
        }
    }

    /// Loads `count` consecutive elements.
    pub(super) fn load_vector(
        &mut self,
        pointer: Value<'m>,
        stored: Stored,
        count: usize,
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let context = self.at.context();
        let element = self.stored_type(stored);
        let alignment = context.i64(i64::from(stored.bytes) * count as i64);
        let load = self.at.op("llvm.load").operands(&[pointer]).attribute("alignment", alignment);
        let values = if count == 1 {
            vec![load.results(&[element]).value()?]
        } else {
            let vector = load.results(&[context.vector_type(count as u32, element)?]).value()?;
            self.at.op("vector.to_elements").operands(&[vector]).results(&vec![element; count]).build()?.results()
        };
        values.into_iter().map(|value| self.restored(value, stored)).collect()
    }

    /// Stores values one after the other.
    pub(super) fn store_vector(
        &mut self,
        pointer: Value<'m>,
        stored: Stored,
        values: &[Value<'m>],
    ) -> Result<(), ExpandError> {
        let context = self.at.context();
        let values = values.iter().map(|value| self.to_stored(*value, stored)).collect::<Result<Vec<_>, _>>()?;
        let whole = match values.as_slice() {
            [value] => *value,
            _ => {
                let ty = context.vector_type(values.len() as u32, self.stored_type(stored))?;
                self.pure("vector.from_elements", &values, ty)?
            }
        };
        let alignment = context.i64(i64::from(stored.bytes) * values.len() as i64);
        self.at.op("llvm.store").operands(&[whole, pointer]).attribute("alignment", alignment).build()?;
        Ok(())
    }

    /// `pointer + index`, counted in elements of a type.
    pub(super) fn pointer_add(
        &self,
        pointer: Value<'m>,
        index: Value<'m>,
        element: Type<'m>,
    ) -> Result<Value<'m>, ExpandError> {
        let context = self.at.context();
        Ok(self
            .at
            .op("llvm.getelementptr")
            .operands(&[pointer, index])
            .attribute("rawConstantIndices", context.i32_array(&[DYNAMIC]))
            .attribute("elem_type", context.type_attribute(element))
            .results(&[pointer.ty()])
            .value()?)
    }

    /// `pointer + bytes`.
    pub(super) fn pointer_offset(&self, pointer: Value<'m>, bytes: u32) -> Result<Value<'m>, ExpandError> {
        if bytes == 0 {
            return Ok(pointer);
        }
        let context = self.at.context();
        Ok(self
            .at
            .op("llvm.getelementptr")
            .operands(&[pointer])
            .attribute("rawConstantIndices", context.i32_array(&[bytes as i32]))
            .attribute("elem_type", context.type_attribute(context.integer_type(8)))
            .results(&[pointer.ty()])
            .value()?)
    }

    /// A positive power of two that divides the tile's registers.
    pub(super) fn run_length(&self, op: Op<'k>, name: &str, registers: usize) -> Result<usize, ExpandError> {
        let run = op.integer(name).unwrap_or(1);
        usize::try_from(run).ok().filter(|run| run.is_power_of_two() && registers.is_multiple_of(*run)).ok_or_else(
            || self.misfit(format!("{name} {run} for {registers} registers: a factor of these is expected")),
        )
    }

    /// The mask that must hold for a register's access, the thread being the one that owns it.
    pub(super) fn masks(
        &self,
        mask: Option<&TileValues<'m>>,
        owner: Option<Value<'m>>,
        registers: usize,
    ) -> Result<Vec<Option<Value<'m>>>, ExpandError> {
        let Some(mask) = mask else { return Ok(vec![owner; registers]) };
        let mut made: HashMap<usize, Value<'m>> = HashMap::new();
        let mut masks = Vec::new();
        for value in mask.registers.iter() {
            let both = match (owner, made.get(&value.key())) {
                (None, _) => *value,
                (Some(_), Some(both)) => *both,
                (Some(owner), None) => self.binary("arith.andi", owner, *value)?,
            };
            made.insert(value.key(), both);
            masks.push(Some(both));
        }
        Ok(masks)
    }

    pub(super) fn check_pointer(&self, pointer: Value<'m>) -> Result<(), ExpandError> {
        if pointer.ty() != self.at.context().pointer_type(1) {
            return Err(self.malformed(format!("`{}` is no pointer to global memory", pointer.ty())));
        }
        Ok(())
    }

    pub(super) fn check_offsets(&self, offsets: &TileValues<'m>) -> Result<(), ExpandError> {
        if !matches!(offsets.ty.element, DType::I32 | DType::I64) {
            return Err(self.element(format!("offsets are i32 or i64, not {}", offsets.ty.element)));
        }
        Ok(())
    }

    pub(super) fn check_mask(&self, mask: &TileValues<'m>, offsets: &TileValues<'m>) -> Result<(), ExpandError> {
        if mask.ty.element != DType::Bool || mask.ty.layout != offsets.ty.layout {
            return Err(self.misfit("the mask is no tile of i1 in the layout of the offsets"));
        }
        Ok(())
    }

    /// `hw.load`.
    pub(super) fn load(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let segments = op.attribute("operandSegmentSizes").and_then(|a| a.as_i32_array()).unwrap_or_default();
        let (has_mask, has_other) = match segments.as_slice() {
            [1, 1, mask, other] => (*mask == 1, *other == 1),
            _ => return Err(self.malformed("its operands are not pointer, offsets, mask, other")),
        };
        let pointer = self.scalar(op, 0)?;
        self.check_pointer(pointer)?;
        let offsets = self.tile(op, 1)?;
        self.check_offsets(&offsets)?;
        let mask = if has_mask { Some(self.tile(op, 2)?) } else { None };
        if let Some(mask) = &mask {
            self.check_mask(mask, &offsets)?;
        }
        let result = self.result_type(op, 0)?;
        if result.layout != offsets.ty.layout {
            return Err(self.misfit("the result is not in the layout of the offsets"));
        }
        let other = if has_other {
            let other = self.scalar(op, 2 + usize::from(has_mask))?;
            if other.ty() != self.register_type(result.element) {
                return Err(self.malformed(format!("`{}` in the place of elements of {}", other.ty(), result.element)));
            }
            other
        } else {
            self.zero(result.element)?
        };
        let stored = self.stored(result.element)?;
        let registers = offsets.registers.len();
        let contiguity = self.run_length(op, "contiguity", registers)?;
        let uniform = self.run_length(op, "uniform", registers)?;
        if contiguity > 1 && uniform > 1 {
            return Err(self.misfit("contiguity and uniform exclude each other"));
        }
        let width = contiguity.min((MAX_BYTES / stored.bytes) as usize);
        let masks = self.masks(mask.as_ref(), None, registers)?;
        let result_type = op.result(0).map(Value::ty).ok_or_else(|| self.malformed("it has no result"))?;
        let distinct = self.distinct(result_type, &result.layout);

        // The register that loads for each: the first of its run, of its repetitions, of its address.
        let mut by_address: HashMap<(usize, Option<usize>), usize> = HashMap::new();
        let key = |register: usize| (offsets.registers[register].key(), masks[register].map(Value::key));
        let mut holder: Vec<usize> = (0..registers).collect();
        let mut accesses: Vec<Access<'m>> = Vec::new();
        for first in (0..registers).step_by(width) {
            let alike = |register: usize| -> usize { distinct[register] as usize };
            let run = first / uniform * uniform;
            let known = if run != first {
                Some(run)
            } else if (0..width).all(|i| alike(first + i) == alike(first) + i) && alike(first) != first {
                Some(alike(first))
            } else {
                by_address.get(&key(first)).copied()
            };
            match known {
                Some(known) => (0..width).for_each(|i| holder[first + i] = holder[known + i]),
                None => {
                    by_address.insert(key(first), first);
                    accesses.push(Access { first, count: width, mask: masks[first] });
                }
            }
        }

        let mut loaded: Vec<Option<Value<'m>>> = vec![None; registers];
        for group in accesses.chunk_by(|a, b| a.mask == b.mask) {
            let count = group.iter().map(|access| access.count).sum();
            let values = match group[0].mask {
                None => self.load_group(pointer, &offsets, stored, group)?,
                Some(mask) => {
                    let types = vec![self.register_type(result.element); count];
                    self.branch(
                        mask,
                        &types,
                        |e| e.load_group(pointer, &offsets, stored, group),
                        Some(vec![other; count]),
                    )?
                }
            };
            let filled = group.iter().flat_map(|access| access.first..access.first + access.count);
            filled.zip(values).for_each(|(register, value)| loaded[register] = Some(value));
        }
        let values: Vec<_> = holder.iter().filter_map(|&register| loaded[register]).collect();
        self.set_tile(op, 0, values)
    }

    fn load_group(
        &mut self,
        pointer: Value<'m>,
        offsets: &TileValues<'m>,
        stored: Stored,
        group: &[Access<'m>],
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let element = self.stored_type(stored);
        let mut values = Vec::new();
        for access in group {
            let address = self.pointer_add(pointer, offsets.registers[access.first], element)?;
            values.extend(self.load_vector(address, stored, access.count)?);
        }
        Ok(values)
    }

    /// `hw.store`.
    pub(super) fn store(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let pointer = self.scalar(op, 0)?;
        self.check_pointer(pointer)?;
        let (offsets, value) = (self.tile(op, 1)?, self.tile(op, 2)?);
        self.check_offsets(&offsets)?;
        if value.ty.layout != offsets.ty.layout {
            return Err(self.misfit("the elements are not in the layout of the offsets"));
        }
        let mask = if op.operand_count() > 3 { Some(self.tile(op, 3)?) } else { None };
        if let Some(mask) = &mask {
            self.check_mask(mask, &offsets)?;
        }
        let stored = self.stored(value.ty.element)?;
        let registers = offsets.registers.len();
        let contiguity = self.run_length(op, "contiguity", registers)?;
        let width = contiguity.min((MAX_BYTES / stored.bytes) as usize);
        let replication = offsets.ty.layout.replication();
        if replication.registers as usize & (width - 1) != 0 {
            return Err(self.misfit("registers that repeat each other cannot be consecutive in memory"));
        }
        let owner = self.owner(&offsets.ty.layout)?;
        let masks = self.masks(mask.as_ref(), owner, registers)?;
        let accesses: Vec<_> = (0..registers)
            .step_by(width)
            .filter(|first| first & replication.registers as usize == 0)
            .map(|first| Access { first, count: width, mask: masks[first] })
            .collect();
        let element = self.stored_type(stored);
        for group in accesses.chunk_by(|a, b| a.mask == b.mask) {
            let store = |e: &mut Self| -> Result<Vec<Value<'m>>, ExpandError> {
                for access in group {
                    let address = e.pointer_add(pointer, offsets.registers[access.first], element)?;
                    let values = &value.registers[access.first..access.first + access.count];
                    e.store_vector(address, stored, values)?;
                }
                Ok(Vec::new())
            };
            match group[0].mask {
                None => store(self)?,
                Some(mask) => self.branch(mask, &[], store, None)?,
            };
        }
        Ok(())
    }

    /// Zero of an element type.
    pub(super) fn zero(&mut self, element: DType) -> Result<Value<'m>, ExpandError> {
        let context = self.at.context();
        let ty = self.register_type(element);
        self.constant(if element.is_float() { context.float(0.0, ty) } else { context.integer(0, ty) })
    }
}
