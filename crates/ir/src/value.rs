//! Values: results of operations and arguments of blocks.

use mlir_sys::*;

use crate::module::ModuleCore;
use crate::{Block, Op, Type};

/// View of a value.
#[derive(Clone, Copy)]
pub struct Value<'m> {
    raw: MlirValue,
    core: &'m ModuleCore,
}

#[allow(clippy::undocumented_unsafe_blocks)] // One reason for all: the module keeps the value's owner alive for 'm.
impl<'m> Value<'m> {
    pub(crate) unsafe fn from_raw(raw: MlirValue, core: &'m ModuleCore) -> Self {
        Value { raw, core }
    }

    pub(crate) fn to_raw(self) -> MlirValue {
        self.raw
    }

    pub(crate) fn core(self) -> &'m ModuleCore {
        self.core
    }

    /// A key that is equal for equal values of one module.
    pub fn key(self) -> usize {
        self.raw.ptr as usize
    }

    /// Its type.
    pub fn ty(self) -> Type<'m> {
        unsafe { Type::from_raw(mlirValueGetType(self.raw)) }
    }

    /// Changes its type; the caller must keep its users consistent (verification finds what is not).
    pub fn set_type(self, ty: Type<'_>) {
        if self.ty().context().owns(ty.context()) {
            unsafe { mlirValueSetType(self.raw, ty.to_raw()) };
        }
    }

    /// The operation that it is a result of, and which.
    pub fn defining_op(self) -> Option<(Op<'m>, usize)> {
        unsafe {
            mlirValueIsAOpResult(self.raw).then(|| {
                (
                    Op::from_raw(mlirOpResultGetOwner(self.raw), self.core),
                    mlirOpResultGetResultNumber(self.raw) as usize,
                )
            })
        }
    }

    /// The block that it is an argument of, and which.
    pub fn block_argument(self) -> Option<(Block<'m>, usize)> {
        unsafe {
            mlirValueIsABlockArgument(self.raw).then(|| {
                (
                    Block::from_raw(mlirBlockArgumentGetOwner(self.raw), self.core),
                    mlirBlockArgumentGetArgNumber(self.raw) as usize,
                )
            })
        }
    }

    /// Whether an operation uses it.
    pub fn has_users(self) -> bool {
        unsafe { !mlirOpOperandIsNull(mlirValueGetFirstUse(self.raw)) }
    }

    /// Operations that use it with the operand's index, in MLIR's order (latest first).
    pub fn users(self) -> Vec<(Op<'m>, usize)> {
        let mut users = Vec::new();
        unsafe {
            let mut next = mlirValueGetFirstUse(self.raw);
            while !mlirOpOperandIsNull(next) {
                users.push((
                    Op::from_raw(mlirOpOperandGetOwner(next), self.core),
                    mlirOpOperandGetOperandNumber(next) as usize,
                ));
                next = mlirOpOperandGetNextUse(next);
            }
        }
        users
    }

    /// Makes all users use another value; false, and nothing done, if that is of another module or part of an erased operation.
    pub fn replace_all_uses(self, other: Value<'m>) -> bool {
        if !std::ptr::eq::<ModuleCore>(self.core, other.core) || !other.is_attached() {
            return false;
        }
        if self.raw.ptr != other.raw.ptr {
            unsafe { mlirValueReplaceAllUsesOfWith(self.raw, other.raw) };
        }
        true
    }

    /// Whether what defines it is still in the module.
    pub(crate) fn is_attached(self) -> bool {
        let owner = unsafe {
            if mlirValueIsAOpResult(self.raw) {
                mlirOpResultGetOwner(self.raw)
            } else {
                mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(self.raw))
            }
        };
        !owner.ptr.is_null() && self.core.holds(owner)
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.raw.ptr == other.raw.ptr
    }
}

impl Eq for Value<'_> {}

impl std::hash::Hash for Value<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "value of type {}", self.ty())
    }
}
