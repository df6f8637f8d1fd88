//! What values of the tile program became.

use std::rc::Rc;

use tenon_hw_dialect::{Scalar, TileType};
use tenon_ir::{Op, Type, Value};
use tenon_layout::TileLayout;
use tenon_tensor::DType;

use super::shared::{MBARRIER_BYTES, SharedTile};
use super::{ExpandError, Expander};

/// What a value of the tile program became.
#[derive(Clone)]
pub(super) enum Lowered<'m> {
    /// A scalar.
    Scalar(Value<'m>),
    /// A tile: one value a register.
    Tile(Rc<[Value<'m>]>),
    /// A range of shared memory.
    Shared(Rc<SharedTile>),
    /// Barriers in shared memory, from so many bytes on.
    Mbarriers(u64),
}

/// A tile with its type.
#[derive(Clone)]
pub(super) struct TileValues<'m> {
    pub(super) ty: Rc<TileType>,
    pub(super) registers: Rc<[Value<'m>]>,
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// Whether a type is that of a tile.
    pub(super) fn is_tile(ty: Type<'_>) -> bool {
        ty.dialect() == "hw" && ty.to_string().starts_with("!hw.tile")
    }

    pub(super) fn tile_type(&mut self, ty: Type<'_>) -> Result<Rc<TileType>, ExpandError> {
        if let Some(found) = self.tile_types.get(&ty.key()) {
            return Ok(Rc::clone(found));
        }
        let read = Rc::new(TileType::read(ty)?);
        if read.layout.warps() != self.warps {
            let reason = format!("a tile over {} warps in a kernel of {}", read.layout.warps(), self.warps);
            return Err(self.misfit(reason));
        }
        self.tile_types.insert(ty.key(), Rc::clone(&read));
        Ok(read)
    }

    /// The type of the registers of a tile.
    pub(super) fn register_type(&self, element: DType) -> Type<'m> {
        Scalar::new(self.at).ty(element)
    }

    /// The type as one of the growing module.
    pub(super) fn own_type(&self, ty: Type<'_>) -> Result<Type<'m>, ExpandError> {
        let context = self.at.context();
        match ty.dtype() {
            Some(element) => Ok(context.element_type(element)),
            None => Ok(context.parse_type(&ty.to_string())?),
        }
    }

    fn lookup(&self, value: Value<'k>) -> Result<&Lowered<'m>, ExpandError> {
        self.values.get(&value.key()).ok_or_else(|| self.malformed("an operand has no value here"))
    }

    pub(super) fn scalar(&self, op: Op<'k>, index: usize) -> Result<Value<'m>, ExpandError> {
        let operand = op.operand(index).ok_or_else(|| self.malformed(format!("operand {index} is missing")))?;
        match self.lookup(operand)? {
            Lowered::Scalar(value) => Ok(*value),
            _ => Err(self.malformed(format!("operand {index} is no scalar"))),
        }
    }

    pub(super) fn tile(&mut self, op: Op<'k>, index: usize) -> Result<TileValues<'m>, ExpandError> {
        let operand = op.operand(index).ok_or_else(|| self.malformed(format!("operand {index} is missing")))?;
        let registers = match self.lookup(operand)? {
            Lowered::Tile(registers) => Rc::clone(registers),
            _ => return Err(self.malformed(format!("operand {index} is no tile"))),
        };
        Ok(TileValues { ty: self.tile_type(operand.ty())?, registers })
    }

    pub(super) fn shared_tile(&self, op: Op<'k>, index: usize) -> Result<Rc<SharedTile>, ExpandError> {
        let operand = op.operand(index).ok_or_else(|| self.malformed(format!("operand {index} is missing")))?;
        match self.lookup(operand)? {
            Lowered::Shared(shared) => Ok(Rc::clone(shared)),
            _ => Err(self.malformed(format!("operand {index} is no shared memory"))),
        }
    }

    /// The address of one of the barriers that an operand is.
    pub(super) fn mbarrier(&mut self, op: Op<'k>, index: usize, slot: Value<'m>) -> Result<Value<'m>, ExpandError> {
        let operand = op.operand(index).ok_or_else(|| self.malformed(format!("operand {index} is missing")))?;
        let start = match self.lookup(operand)? {
            Lowered::Mbarriers(start) => *start,
            _ => return Err(self.malformed(format!("operand {index} is no barrier"))),
        };
        let base = self.shared_address(start)?;
        let bytes = self.i32(i64::from(MBARRIER_BYTES))?;
        let offset = self.binary("arith.muli", slot, bytes)?;
        self.pointer_add(base, offset, self.at.context().integer_type(8))
    }

    /// All values that an operand became; for shared memory there is none.
    pub(super) fn flat(&self, value: Value<'k>) -> Result<Vec<Value<'m>>, ExpandError> {
        match self.lookup(value)? {
            Lowered::Scalar(value) => Ok(vec![*value]),
            Lowered::Tile(registers) => Ok(registers.to_vec()),
            Lowered::Shared(_) | Lowered::Mbarriers(_) => {
                Err(self.malformed("shared memory cannot be carried by control flow"))
            }
        }
    }

    pub(super) fn result_type(&mut self, op: Op<'k>, index: usize) -> Result<Rc<TileType>, ExpandError> {
        let result = op.result(index).ok_or_else(|| self.malformed(format!("result {index} is missing")))?;
        self.tile_type(result.ty())
    }

    pub(super) fn set(&mut self, op: Op<'k>, index: usize, value: Lowered<'m>) -> Result<(), ExpandError> {
        let result = op.result(index).ok_or_else(|| self.malformed(format!("result {index} is missing")))?;
        self.values.insert(result.key(), value);
        Ok(())
    }

    pub(super) fn set_tile(&mut self, op: Op<'k>, index: usize, registers: Vec<Value<'m>>) -> Result<(), ExpandError> {
        let ty = self.result_type(op, index)?;
        if registers.len() != ty.layout.registers() as usize {
            let reason = format!("{} registers where the result has {}", registers.len(), ty.layout.registers());
            return Err(self.misfit(reason));
        }
        self.set(op, index, Lowered::Tile(registers.into()))
    }

    /// For each register of a layout the first register that holds the same in every thread.
    pub(super) fn distinct(&mut self, ty: Type<'_>, layout: &TileLayout) -> std::rc::Rc<[u32]> {
        if let Some(found) = self.distinct.get(&ty.key()) {
            return Rc::clone(found);
        }
        let (_, canonical) = layout.distinct_registers();
        let mut first = std::collections::HashMap::new();
        let map: Rc<[u32]> =
            canonical.iter().zip(0..).map(|(c, register)| *first.entry(*c).or_insert(register)).collect();
        self.distinct.insert(ty.key(), Rc::clone(&map));
        map
    }
}
