//! Creating operations.

use mlir_sys::*;

use crate::diagnostics::Diagnostic;
use crate::module::ModuleCore;
use crate::text::string_ref;
use crate::{Attribute, Block, Context, IrError, Location, Op, Type, Value};

/// Where new operations go, and the location that they get.
#[derive(Clone, Copy)]
pub struct Builder<'m> {
    block: Block<'m>,
    /// New operations go before it; `None` is the end of the block.
    before: Option<Op<'m>>,
    context: Context<'m>,
    location: Location<'m>,
}

impl<'m> Builder<'m> {
    /// At the end of a block that is in an operation.
    pub fn at_end(block: Block<'m>) -> Option<Self> {
        let context = block.context()?;
        Some(Builder { block, before: None, context, location: context.unknown_location() })
    }

    /// Before an operation, with its location.
    pub fn before(op: Op<'m>) -> Option<Self> {
        Some(Builder { block: op.block()?, before: Some(op), context: op.context(), location: op.location() })
    }

    /// After an operation, with its location.
    pub fn after(op: Op<'m>) -> Option<Self> {
        Some(Builder { block: op.block()?, before: op.next(), context: op.context(), location: op.location() })
    }

    /// The same place with another location.
    pub fn with_location(self, location: Location<'_>) -> Self {
        let location = if self.context.owns(location.context()) {
            // SAFETY: a location lives as long as its context, which is this one.
            unsafe { Location::from_raw(location.to_raw()) }
        } else {
            self.location
        };
        Builder { location, ..self }
    }

    /// The end of another block, with the same location.
    pub fn in_block(self, block: Block<'m>) -> Self {
        Builder { block, before: None, ..self }
    }

    /// The location that new operations get.
    pub fn location(self) -> Location<'m> {
        self.location
    }

    /// The block that new operations go to.
    pub fn block(self) -> Block<'m> {
        self.block
    }

    /// Constructor of types, attributes and locations.
    pub fn context(self) -> Context<'m> {
        self.context
    }

    /// Starts an operation.
    pub fn op<'a>(self, name: &'a str) -> OpBuilder<'m, 'a> {
        OpBuilder {
            builder: self,
            name,
            operands: Vec::new(),
            results: Vec::new(),
            attributes: Vec::new(),
            successors: Vec::new(),
            regions: 0,
            foreign: None,
            erased: None,
        }
    }
}

/// An operation being put together.
pub struct OpBuilder<'m, 'a> {
    builder: Builder<'m>,
    name: &'a str,
    operands: Vec<MlirValue>,
    results: Vec<MlirType>,
    attributes: Vec<(&'a str, MlirAttribute)>,
    successors: Vec<MlirBlock>,
    regions: usize,
    foreign: Option<&'static str>,
    erased: Option<&'static str>,
}

impl<'m> OpBuilder<'m, '_> {
    /// Appends operands.
    pub fn operands(mut self, values: &[Value<'m>]) -> Self {
        if values.iter().any(|value| !std::ptr::eq::<ModuleCore>(value.core(), self.builder.block.core())) {
            self.foreign = Some("an operand");
        }
        if values.iter().any(|value| !value.is_attached()) {
            self.erased = Some("an operand");
        }
        self.operands.extend(values.iter().map(|value| value.to_raw()));
        self
    }

    /// Appends result types.
    pub fn results(mut self, types: &[Type<'_>]) -> Self {
        if types.iter().any(|ty| !self.builder.context.owns(ty.context())) {
            self.foreign = Some("a result type");
        }
        self.results.extend(types.iter().map(|ty| ty.to_raw()));
        self
    }

    /// Appends block successors.
    pub fn successors(mut self, blocks: &[Block<'m>]) -> Self {
        if blocks.iter().any(|block| !block.same_region(self.builder.block)) {
            self.foreign = Some("a successor");
        }
        self.successors.extend(blocks.iter().map(|block| block.to_raw()));
        self
    }

    /// Appends empty regions.
    pub fn regions(mut self, count: usize) -> Self {
        self.regions += count;
        self
    }

    /// Creates the operation and puts it in its place. It is not verified here.
    pub fn build(self) -> Result<Op<'m>, IrError> {
        let context = self.builder.context;
        if let Some(what) = self.foreign {
            return Err(IrError::ForeignObject(what));
        }
        if let Some(what) = self.erased {
            return Err(IrError::Erased(what));
        }
        if !self.builder.block.core().context().owns(context) {
            return Err(IrError::ForeignObject("a block"));
        }
        if self.attributes.iter().any(|(name, _)| name.is_empty()) {
            return Err(IrError::Text { what: "an attribute's name".to_owned(), reason: "it is empty" });
        }
        if !context.is_registered(self.name) {
            return Err(IrError::UnknownOperation(self.name.to_owned()));
        }
        // SAFETY: every object in the state is of this context and alive; MLIR copies the arrays.
        unsafe {
            let mut state = mlirOperationStateGet(string_ref(self.name), self.builder.location.to_raw());
            mlirOperationStateAddOperands(&raw mut state, self.operands.len() as isize, self.operands.as_ptr());
            mlirOperationStateAddResults(&raw mut state, self.results.len() as isize, self.results.as_ptr());
            let attributes: Vec<_> = self
                .attributes
                .iter()
                .map(|(name, attribute)| MlirNamedAttribute {
                    name: mlirIdentifierGet(context.to_raw(), string_ref(name)),
                    attribute: *attribute,
                })
                .collect();
            mlirOperationStateAddAttributes(&raw mut state, attributes.len() as isize, attributes.as_ptr());
            mlirOperationStateAddSuccessors(&raw mut state, self.successors.len() as isize, self.successors.as_ptr());
            let regions: Vec<_> = (0..self.regions).map(|_| mlirRegionCreate()).collect();
            mlirOperationStateAddOwnedRegions(&raw mut state, regions.len() as isize, regions.as_ptr());
            let raw = mlirOperationCreate(&raw mut state);
            if raw.ptr.is_null() {
                return Err(IrError::Build { name: self.name.to_owned(), diagnostics: Vec::<Diagnostic>::new() });
            }
            let block = self.builder.block;
            match self.builder.before {
                Some(before) if before.block().is_some_and(|b| b == block) => {
                    mlirBlockInsertOwnedOperationBefore(block.to_raw(), before.to_raw(), raw);
                }
                _ => mlirBlockAppendOwnedOperation(block.to_raw(), raw),
            }
            Ok(Op::from_raw(raw, block.core()))
        }
    }

    /// Creates the operation and gives its only result.
    pub fn value(self) -> Result<Value<'m>, IrError> {
        let name = self.name.to_owned();
        self.build()?.result(0).ok_or(IrError::Build { name, diagnostics: Vec::new() })
    }
}

impl<'m, 'a> OpBuilder<'m, 'a> {
    /// Adds an attribute.
    pub fn attribute(mut self, name: &'a str, value: Attribute<'_>) -> Self {
        if !self.builder.context.owns(value.context()) {
            self.foreign = Some("an attribute");
        }
        self.attributes.push((name, value.to_raw()));
        self
    }

    /// Adds an attribute if there is one.
    pub fn optional_attribute(self, name: &'a str, value: Option<Attribute<'_>>) -> Self {
        match value {
            Some(value) => self.attribute(name, value),
            None => self,
        }
    }

    /// Sets `operandSegmentSizes` for operations with several variadic operand groups.
    pub fn segments(self, sizes: &[i32]) -> Self {
        let sizes = self.builder.context.i32_array(sizes);
        self.attribute("operandSegmentSizes", sizes)
    }
}
