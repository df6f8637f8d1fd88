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

impl ModuleCore {
    /// The context that the module belongs to; alive while the module is.
    pub(crate) fn context(&self) -> Context<'_> {
        // SAFETY: the module is alive.
        unsafe { Context::from_raw(mlirModuleGetContext(self.raw)) }
    }

    /// Whether an operation is the module's or inside it, and not erased.
    pub(crate) fn holds(&self, mut operation: MlirOperation) -> bool {
        // SAFETY: the operation is alive; an operation without a block has no parent.
        unsafe {
            let root = mlirModuleGetOperation(self.raw);
            while operation.ptr != root.ptr {
                if mlirOperationGetBlock(operation).ptr.is_null() {
                    return false;
                }
                operation = mlirOperationGetParentOperation(operation);
                if operation.ptr.is_null() {
                    return false;
                }
            }
            true
        }
    }
}

impl Drop for ModuleCore {
    fn drop(&mut self) {
        // MLIR drops all references between the operations of a region before it destroys any: back in the module, erased operations may
        // use each other and be used in whatever way.
        // SAFETY: each is detached and owned by this list alone; the module is owned by this core alone.
        unsafe {
            let body = mlirModuleGetBody(self.raw);
            for operation in self.erased.get_mut().drain(..) {
                mlirBlockAppendOwnedOperation(body, operation);
            }
            mlirModuleDestroy(self.raw);
        }
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
///
/// A module cannot outlive its session:
///
/// ```compile_fail,E0597
/// use tenon_ir::Session;
/// let module;
/// let session = Session::new();
/// module = session.new_module(session.context().unknown_location()).unwrap();
/// ```
///
/// nor can the session be dropped before it:
///
/// ```compile_fail,E0505
/// use tenon_ir::Session;
/// let session = Session::new();
/// let module = session.new_module(session.context().unknown_location()).unwrap();
/// drop(session);
/// println!("{module}");
/// ```
///
/// and a view cannot outlive its module:
///
/// ```compile_fail,E0505
/// use tenon_ir::Session;
/// let session = Session::new();
/// let module = session.new_module(session.context().unknown_location()).unwrap();
/// let op = module.op();
/// drop(module);
/// println!("{op}");
/// ```
pub struct Module<'s> {
    core: ModuleCore,
    session: &'s Session,
}

/// Makes the compiler demand that the session outlives the module: its context must be there when the core is dropped.
impl Drop for Module<'_> {
    fn drop(&mut self) {}
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
