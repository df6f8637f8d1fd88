//! Blocks and regions.

use mlir_sys::*;

use crate::module::ModuleCore;
use crate::{Context, IrError, Location, Op, Type, Value};

/// View of a block.
#[derive(Clone, Copy)]
pub struct Block<'m> {
    raw: MlirBlock,
    core: &'m ModuleCore,
}

/// View of a region.
#[derive(Clone, Copy)]
pub struct Region<'m> {
    raw: MlirRegion,
    core: &'m ModuleCore,
}

pub(crate) fn same_block(a: Block<'_>, b: Block<'_>) -> bool {
    a.raw.ptr == b.raw.ptr
}

#[allow(clippy::undocumented_unsafe_blocks)] // One reason for all: the module keeps the block alive for 'm.
impl<'m> Block<'m> {
    pub(crate) unsafe fn from_raw(raw: MlirBlock, core: &'m ModuleCore) -> Self {
        Block { raw, core }
    }

    pub(crate) fn to_raw(self) -> MlirBlock {
        self.raw
    }

    pub(crate) fn core(self) -> &'m ModuleCore {
        self.core
    }

    /// A key that is equal for equal blocks of one module.
    pub fn key(self) -> usize {
        self.raw.ptr as usize
    }

    /// The context it belongs to.
    pub fn context(self) -> Option<Context<'m>> {
        self.parent_op().map(Op::context)
    }

    /// Its operations in order.
    pub fn ops(self) -> Vec<Op<'m>> {
        let mut ops = Vec::new();
        unsafe {
            let mut next = mlirBlockGetFirstOperation(self.raw);
            while !next.ptr.is_null() {
                ops.push(Op::from_raw(next, self.core));
                next = mlirOperationGetNextInBlock(next);
            }
        }
        ops
    }

    /// Its terminator.
    pub fn terminator(self) -> Option<Op<'m>> {
        let raw = unsafe { mlirBlockGetTerminator(self.raw) };
        (!raw.ptr.is_null()).then(|| unsafe { Op::from_raw(raw, self.core) })
    }

    /// Its arguments.
    pub fn arguments(self) -> Vec<Value<'m>> {
        (0..unsafe { mlirBlockGetNumArguments(self.raw) })
            .map(|index| unsafe { Value::from_raw(mlirBlockGetArgument(self.raw, index), self.core) })
            .collect()
    }

    /// Argument by index.
    pub fn argument(self, index: usize) -> Option<Value<'m>> {
        ((index as isize) < unsafe { mlirBlockGetNumArguments(self.raw) })
            .then(|| unsafe { Value::from_raw(mlirBlockGetArgument(self.raw, index as isize), self.core) })
    }

    /// Appends an argument.
    ///
    /// # Errors
    /// A type or location of another session.
    pub fn add_argument(self, ty: Type<'_>, location: Location<'_>) -> Result<Value<'m>, IrError> {
        let context = self.core.context();
        if !context.owns(ty.context()) {
            return Err(IrError::ForeignObject("a type"));
        }
        if !context.owns(location.context()) {
            return Err(IrError::ForeignObject("a location"));
        }
        Ok(unsafe { Value::from_raw(mlirBlockAddArgument(self.raw, ty.to_raw(), location.to_raw()), self.core) })
    }

    /// Whether another block is in the same region.
    pub fn same_region(self, other: Block<'_>) -> bool {
        unsafe { mlirRegionEqual(mlirBlockGetParentRegion(self.raw), mlirBlockGetParentRegion(other.raw)) }
    }

    /// The operation whose region it is in.
    pub fn parent_op(self) -> Option<Op<'m>> {
        let raw = unsafe { mlirBlockGetParentOperation(self.raw) };
        (!raw.ptr.is_null()).then(|| unsafe { Op::from_raw(raw, self.core) })
    }
}

impl PartialEq for Block<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.raw.ptr == other.raw.ptr
    }
}

impl Eq for Block<'_> {}

impl std::fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block of {} arguments", self.arguments().len())
    }
}

impl std::fmt::Debug for Region<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "region of {} blocks", self.blocks().len())
    }
}

#[allow(clippy::undocumented_unsafe_blocks)] // One reason for all: the module keeps the region alive for 'm.
impl<'m> Region<'m> {
    pub(crate) unsafe fn from_raw(raw: MlirRegion, core: &'m ModuleCore) -> Self {
        Region { raw, core }
    }

    /// Its first block.
    pub fn first_block(self) -> Option<Block<'m>> {
        let raw = unsafe { mlirRegionGetFirstBlock(self.raw) };
        (!raw.ptr.is_null()).then(|| unsafe { Block::from_raw(raw, self.core) })
    }

    /// Its blocks in order.
    pub fn blocks(self) -> Vec<Block<'m>> {
        let mut blocks = Vec::new();
        unsafe {
            let mut next = mlirRegionGetFirstBlock(self.raw);
            while !next.ptr.is_null() {
                blocks.push(Block::from_raw(next, self.core));
                next = mlirBlockGetNextInRegion(next);
            }
        }
        blocks
    }

    /// Appends a block with arguments.
    ///
    /// # Errors
    /// A type or location of another session.
    pub fn append_block(self, arguments: &[(Type<'_>, Location<'_>)]) -> Result<Block<'m>, IrError> {
        let context = self.core.context();
        if arguments.iter().any(|(ty, _)| !context.owns(ty.context())) {
            return Err(IrError::ForeignObject("a type"));
        }
        if arguments.iter().any(|(_, location)| !context.owns(location.context())) {
            return Err(IrError::ForeignObject("a location"));
        }
        let types: Vec<_> = arguments.iter().map(|(ty, _)| ty.to_raw()).collect();
        let locations: Vec<_> = arguments.iter().map(|(_, location)| location.to_raw()).collect();
        unsafe {
            let block = mlirBlockCreate(types.len() as isize, types.as_ptr(), locations.as_ptr());
            mlirRegionAppendOwnedBlock(self.raw, block);
            Ok(Block::from_raw(block, self.core))
        }
    }
}
