//! Modules: owners of operations.

use std::cell::RefCell;

use mlir_sys::*;

use crate::text::collect;
use crate::{Block, Context, IrError, Op, Session};

/// What views share with their module.
pub(crate) struct ModuleCore {
    pub(crate) raw: MlirModule,
    /// Erased operations: detached, without operands, destroyed with the module so that views of them never dangle.
    pub(crate) erased: RefCell<Vec<MlirOperation>>,
}

impl Drop for ModuleCore {
    fn drop(&mut self) {
        // Later erased operations may lie inside earlier ones' regions only if they were attached there, which erasing undid.
        for operation in self.erased.get_mut().drain(..) {
            // SAFETY: detached and owned by this list alone.
            unsafe { mlirOperationDestroy(operation) };
        }
        // SAFETY: owned by this core alone.
        unsafe { mlirModuleDestroy(self.raw) };
    }
}

/// How a module is printed.
#[derive(Debug, Clone, Copy, Default)]
pub struct PrintOptions {
    /// Print locations, in a form that parses back.
    pub locations: bool,
    /// Print in MLIR's generic form.
    pub generic: bool,
}

/// A `builtin.module` and all that is inside it.
pub struct Module<'s> {
    core: ModuleCore,
    session: &'s Session,
}

impl<'s> Module<'s> {
    /// # Safety
    ///
    /// `raw` must be a module of the session's context that nobody else owns.
    pub(crate) unsafe fn from_raw(session: &'s Session, raw: MlirModule) -> Self {
        Module { core: ModuleCore { raw, erased: RefCell::new(Vec::new()) }, session }
    }

    /// A copy of everything in it, in the same session.
    pub fn duplicate(&self) -> Module<'s> {
        // SAFETY: the clone of a `builtin.module` operation is one, detached and owned by nobody else.
        unsafe {
            Module::from_raw(
                self.session,
                mlirModuleFromOperation(mlirOperationClone(mlirModuleGetOperation(self.core.raw))),
            )
        }
    }

    /// The session it belongs to.
    pub fn session(&self) -> &'s Session {
        self.session
    }

    /// Constructor of types, attributes and locations.
    pub fn context(&self) -> Context<'s> {
        self.session.context()
    }

    /// The `builtin.module` operation.
    pub fn op(&self) -> Op<'_> {
        // SAFETY: the operation lives as long as the module, which the view borrows.
        unsafe { Op::from_raw(mlirModuleGetOperation(self.core.raw), &self.core) }
    }

    /// The module's block.
    pub fn body(&self) -> Block<'_> {
        // SAFETY: as above.
        unsafe { Block::from_raw(mlirModuleGetBody(self.core.raw), &self.core) }
    }

    /// Checks every invariant that MLIR knows of.
    pub fn verify(&self) -> Result<(), IrError> {
        self.session.take_diagnostics();
        // SAFETY: the module is alive.
        if unsafe { mlirOperationVerify(mlirModuleGetOperation(self.core.raw)) } {
            Ok(())
        } else {
            Err(IrError::Verify { diagnostics: self.session.take_diagnostics() })
        }
    }

    /// The module as text that [`Session::parse_module`] reads.
    pub fn print(&self, options: PrintOptions) -> String {
        self.op().print(options)
    }

    pub(crate) fn raw(&self) -> MlirModule {
        self.core.raw
    }
}

pub(crate) fn print_operation(raw: MlirOperation, options: PrintOptions) -> String {
    // SAFETY: the operation is alive; the flags are made and destroyed here.
    unsafe {
        let flags = mlirOpPrintingFlagsCreate();
        if options.locations {
            mlirOpPrintingFlagsEnableDebugInfo(flags, true, false);
        }
        if options.generic {
            mlirOpPrintingFlagsPrintGenericOpForm(flags);
        }
        let text = collect(|callback, data| mlirOperationPrintWithFlags(raw, flags, callback, data));
        mlirOpPrintingFlagsDestroy(flags);
        text
    }
}

impl std::fmt::Display for Module<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.print(PrintOptions::default()))
    }
}
