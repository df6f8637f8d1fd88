//! Operations.

use mlir_sys::*;

use crate::block::same_block;
use crate::module::{ModuleCore, print_operation};
use crate::text::{read_string, string_ref};
use crate::{Attribute, Block, Context, IrError, Location, PrintOptions, Region, Type, Value};

/// View of an operation.
#[derive(Clone, Copy)]
pub struct Op<'m> {
    raw: MlirOperation,
    core: &'m ModuleCore,
}

#[allow(clippy::undocumented_unsafe_blocks)] // One reason for all: the module keeps the operation alive for 'm, erased or not.
impl<'m> Op<'m> {
    pub(crate) unsafe fn from_raw(raw: MlirOperation, core: &'m ModuleCore) -> Self {
        Op { raw, core }
    }

    pub(crate) fn to_raw(self) -> MlirOperation {
        self.raw
    }

    /// A key that is equal for equal operations of one module.
    pub fn key(self) -> usize {
        self.raw.ptr as usize
    }

    /// The context it belongs to.
    pub fn context(self) -> Context<'m> {
        unsafe { Context::from_raw(mlirOperationGetContext(self.raw)) }
    }

    /// Full name, `dialect.operation`.
    pub fn name(self) -> String {
        unsafe { read_string(mlirIdentifierStr(mlirOperationGetName(self.raw))) }
    }

    /// Whether the name is `name`, without copying it.
    pub fn is(self, name: &str) -> bool {
        unsafe {
            let own = mlirIdentifierStr(mlirOperationGetName(self.raw));
            own.length == name.len() && std::slice::from_raw_parts(own.data.cast::<u8>(), own.length) == name.as_bytes()
        }
    }

    /// Number of operands.
    pub fn operand_count(self) -> usize {
        unsafe { mlirOperationGetNumOperands(self.raw) as usize }
    }

    /// Operand by index.
    pub fn operand(self, index: usize) -> Option<Value<'m>> {
        (index < self.operand_count())
            .then(|| unsafe { Value::from_raw(mlirOperationGetOperand(self.raw, index as isize), self.core) })
    }

    /// All operands.
    pub fn operands(self) -> Vec<Value<'m>> {
        (0..self.operand_count())
            .map(|index| unsafe { Value::from_raw(mlirOperationGetOperand(self.raw, index as isize), self.core) })
            .collect()
    }

    /// Replaces an operand; false, and nothing done, if there is none of that index, or the value is of another module or part of an erased
    /// operation.
    pub fn set_operand(self, index: usize, value: Value<'m>) -> bool {
        let fits = index < self.operand_count() && std::ptr::eq(self.core, value.core()) && value.is_attached();
        if fits {
            unsafe { mlirOperationSetOperand(self.raw, index as isize, value.to_raw()) };
        }
        fits
    }

    /// Number of results.
    pub fn result_count(self) -> usize {
        unsafe { mlirOperationGetNumResults(self.raw) as usize }
    }

    /// Result by index.
    pub fn result(self, index: usize) -> Option<Value<'m>> {
        (index < self.result_count())
            .then(|| unsafe { Value::from_raw(mlirOperationGetResult(self.raw, index as isize), self.core) })
    }

    /// All results.
    pub fn results(self) -> Vec<Value<'m>> {
        (0..self.result_count())
            .map(|index| unsafe { Value::from_raw(mlirOperationGetResult(self.raw, index as isize), self.core) })
            .collect()
    }

    /// Types of all results.
    pub fn result_types(self) -> Vec<Type<'m>> {
        self.results().into_iter().map(Value::ty).collect()
    }

    /// Number of regions.
    pub fn region_count(self) -> usize {
        unsafe { mlirOperationGetNumRegions(self.raw) as usize }
    }

    /// Region by index.
    pub fn region(self, index: usize) -> Option<Region<'m>> {
        (index < self.region_count())
            .then(|| unsafe { Region::from_raw(mlirOperationGetRegion(self.raw, index as isize), self.core) })
    }

    /// First block of a region.
    pub fn region_block(self, index: usize) -> Option<Block<'m>> {
        self.region(index)?.first_block()
    }

    /// Attribute by name: inherent or discardable.
    pub fn attribute(self, name: &str) -> Option<Attribute<'m>> {
        let raw = unsafe { mlirOperationGetAttributeByName(self.raw, string_ref(name)) };
        (!raw.ptr.is_null()).then(|| unsafe { Attribute::from_raw(raw) })
    }

    /// Sets an attribute.
    pub fn set_attribute(self, name: &str, value: Attribute<'_>) -> Result<(), IrError> {
        if !self.context().owns(value.context()) {
            return Err(IrError::ForeignObject("an attribute"));
        }
        if name.is_empty() {
            return Err(IrError::Text { what: "an attribute's name".to_owned(), reason: "it is empty" });
        }
        unsafe { mlirOperationSetAttributeByName(self.raw, string_ref(name), value.to_raw()) };
        Ok(())
    }

    /// Removes an attribute; whether there was one.
    pub fn remove_attribute(self, name: &str) -> bool {
        unsafe { mlirOperationRemoveAttributeByName(self.raw, string_ref(name)) }
    }

    /// All attributes in MLIR's order.
    pub fn attributes(self) -> Vec<(String, Attribute<'m>)> {
        unsafe {
            (0..mlirOperationGetNumAttributes(self.raw))
                .map(|index| {
                    let entry = mlirOperationGetAttribute(self.raw, index);
                    (read_string(mlirIdentifierStr(entry.name)), Attribute::from_raw(entry.attribute))
                })
                .collect()
        }
    }

    /// String attribute by name.
    pub fn string(self, name: &str) -> Option<String> {
        self.attribute(name)?.as_string()
    }

    /// Integer attribute by name.
    pub fn integer(self, name: &str) -> Option<i64> {
        self.attribute(name)?.as_integer()
    }

    /// Where it comes from.
    pub fn location(self) -> Location<'m> {
        unsafe { Location::from_raw(mlirOperationGetLocation(self.raw)) }
    }

    /// Sets where it comes from.
    pub fn set_location(self, location: Location<'_>) {
        if self.context().owns(location.context()) {
            unsafe { mlirOperationSetLocation(self.raw, location.to_raw()) };
        }
    }

    /// The block it is in; `None` for the module and for erased operations.
    pub fn block(self) -> Option<Block<'m>> {
        let raw = unsafe { mlirOperationGetBlock(self.raw) };
        (!raw.ptr.is_null()).then(|| unsafe { Block::from_raw(raw, self.core) })
    }

    /// The operation around it.
    pub fn parent(self) -> Option<Op<'m>> {
        self.block()?;
        let raw = unsafe { mlirOperationGetParentOperation(self.raw) };
        (!raw.ptr.is_null()).then(|| unsafe { Op::from_raw(raw, self.core) })
    }

    /// The operation after it in its block.
    pub fn next(self) -> Option<Op<'m>> {
        self.block()?;
        let raw = unsafe { mlirOperationGetNextInBlock(self.raw) };
        (!raw.ptr.is_null()).then(|| unsafe { Op::from_raw(raw, self.core) })
    }

    /// Every operation inside it, itself first, in order of the text.
    pub fn walk(self) -> Vec<Op<'m>> {
        let mut found = vec![self];
        let mut next = 0;
        // Depth first without recursion: children are spliced in behind their parent.
        let mut stack: Vec<Op<'m>> = Vec::new();
        let push_children = |op: Op<'m>, stack: &mut Vec<Op<'m>>| {
            let mut children = Vec::new();
            for region in 0..op.region_count() {
                if let Some(region) = op.region(region) {
                    for block in region.blocks() {
                        children.extend(block.ops());
                    }
                }
            }
            stack.extend(children.into_iter().rev());
        };
        push_children(found[next], &mut stack);
        while let Some(op) = stack.pop() {
            found.push(op);
            next += 1;
            push_children(found[next], &mut stack);
        }
        found
    }

    /// Moves it before another operation of the same module; false, and nothing done, where that is impossible: one of the two is the module
    /// or erased, the other lies inside this one, or this one jumps to blocks of its region and would leave it.
    pub fn move_before(self, other: Op<'m>) -> bool {
        let (Some(from), Some(to)) = (self.block(), other.block()) else { return false };
        let jumps = unsafe { mlirOperationGetNumSuccessors(self.raw) } > 0;
        let fits = std::ptr::eq(self.core, other.core)
            && self.core.holds(self.raw)
            && self.core.holds(other.raw)
            && !self.contains(other)
            && (!jumps || from.same_region(to));
        if fits {
            unsafe { mlirOperationMoveBefore(self.raw, other.raw) };
        }
        fits
    }

    /// Whether an operation is this one or inside it.
    pub fn contains(self, inner: Op<'m>) -> bool {
        let mut next = Some(inner);
        while let Some(op) = next {
            if op == self {
                return true;
            }
            next = op.parent();
        }
        false
    }

    /// Whether any result has a user.
    pub fn has_users(self) -> bool {
        self.results().into_iter().any(Value::has_users)
    }

    /// Replaces all uses of its results by as many values; false, and nothing done, if their number differs or one is of another module or
    /// part of an erased operation.
    pub fn replace_all_uses(self, values: &[Value<'m>]) -> bool {
        let fits = values.len() == self.result_count()
            && values.iter().all(|value| std::ptr::eq(self.core, value.core()) && value.is_attached());
        if fits {
            for (old, new) in self.results().into_iter().zip(values) {
                old.replace_all_uses(*new);
            }
        }
        fits
    }

    /// Takes it out of the module. Refused while a result, or a value inside it, has a user outside.
    pub fn erase(self) -> Result<(), IrError> {
        if self.block().is_none() {
            return Ok(());
        }
        let inside = self.walk();
        for op in &inside {
            let blocks = (0..op.region_count()).filter_map(|index| op.region(index)).flat_map(Region::blocks);
            let defined = op.results().into_iter().chain(blocks.flat_map(Block::arguments));
            if defined.flat_map(Value::users).any(|(user, _)| !self.contains(user)) {
                return Err(IrError::StillUsed(op.name()));
            }
        }
        for op in inside {
            unsafe { mlirOperationSetOperands(op.raw, 0, std::ptr::null()) };
        }
        unsafe { mlirOperationRemoveFromParent(self.raw) };
        self.core.erased.borrow_mut().push(self.raw);
        Ok(())
    }

    /// The operation as text.
    pub fn print(self, options: PrintOptions) -> String {
        print_operation(self.raw, options)
    }

    /// Whether two views stand in the same block.
    pub fn same_block(self, other: Op<'m>) -> bool {
        match (self.block(), other.block()) {
            (Some(a), Some(b)) => same_block(a, b),
            _ => false,
        }
    }
}

impl PartialEq for Op<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.raw.ptr == other.raw.ptr
    }
}

impl Eq for Op<'_> {}

impl std::hash::Hash for Op<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl std::fmt::Display for Op<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.print(PrintOptions::default()))
    }
}

impl std::fmt::Debug for Op<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}
