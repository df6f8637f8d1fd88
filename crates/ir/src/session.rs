//! The owner of an MLIR context.

use std::sync::Once;
use std::sync::{Arc, Mutex};

use melior::dialect::DialectRegistry;
use mlir_sys::{
    MlirDialectRegistry, MlirStringRef, mlirModuleCreateEmpty, mlirModuleCreateParse, mlirModuleGetOperation,
    mlirOperationVerify,
};

use crate::diagnostics::{self, Diagnostic, Sink};
use crate::text::{check_text, string_ref};
use crate::{Attribute, Bytecode, Context, IrError, Location, Module, Type};

unsafe extern "C" {
    /// Inserts the upstream dialects that Tenon uses, with their translations to LLVM IR; defined in `cpp/upstream.cpp`.
    fn tenonInsertUpstreamDialects(registry: MlirDialectRegistry);
    /// Makes the upstream passes that Tenon uses known by name; defined in `cpp/upstream.cpp`. To be called once.
    fn tenonRegisterUpstreamPasses();
    /// Inserts every Tenon dialect whose crate is linked into the program; defined in `cpp/registry.cpp`.
    fn tenonInsertDialects(registry: MlirDialectRegistry);
}

/// Owner of an MLIR context with the upstream dialects that Tenon uses and every Tenon dialect that is linked into the program.
///
/// Not `Sync`: parallel work uses one session a thread.
pub struct Session {
    context: melior::Context,
    sink: Sink,
    _not_sync: std::marker::PhantomData<*const ()>,
}

impl Session {
    /// A new context; threading inside MLIR is off.
    pub fn new() -> Session {
        static PASSES: Once = Once::new();
        // SAFETY: called once in the process.
        PASSES.call_once(|| unsafe { tenonRegisterUpstreamPasses() });
        let registry = DialectRegistry::new();
        // SAFETY: the registry is alive.
        unsafe {
            tenonInsertUpstreamDialects(registry.to_raw());
            tenonInsertDialects(registry.to_raw());
        }
        let context = melior::Context::new_with_registry(&registry, false);
        for dialect in
            ["builtin", "arith", "func", "gpu", "scf", "cf", "llvm", "nvvm", "math", "vector", "memref", "ub"]
        {
            context.get_or_load_dialect(dialect);
        }
        for dialect in ["graph", "flow", "hw"] {
            context.get_or_load_dialect(dialect);
        }
        let sink: Sink = Arc::new(Mutex::new(Vec::new()));
        diagnostics::attach(context.to_raw(), &sink);
        Session { context, sink, _not_sync: std::marker::PhantomData }
    }

    /// Constructor of types, attributes and locations.
    pub fn context(&self) -> Context<'_> {
        // SAFETY: the context lives as long as `self`.
        unsafe { Context::from_raw(self.context.to_raw()) }
    }

    pub(crate) fn melior(&self) -> &melior::Context {
        &self.context
    }

    /// Diagnostics since the last call.
    pub fn take_diagnostics(&self) -> Vec<Diagnostic> {
        self.sink.lock().map(|mut list| std::mem::take(&mut *list)).unwrap_or_default()
    }

    /// An empty module.
    pub fn new_module(&self, location: Location<'_>) -> Result<Module<'_>, IrError> {
        if location.context().to_raw().ptr != self.context.to_raw().ptr {
            return Err(IrError::ForeignObject("a location"));
        }
        // SAFETY: the location is of this context.
        Ok(unsafe { Module::from_raw(self, mlirModuleCreateEmpty(location.to_raw())) })
    }

    /// Parses a module and verifies it. `name` is the file's name for messages.
    pub fn parse_module(&self, source: &str, name: &str) -> Result<Module<'_>, IrError> {
        check_text(source).map_err(|reason| IrError::Text { what: name.to_owned(), reason })?;
        self.take_diagnostics();
        // SAFETY: the context is alive; MLIR copies the source.
        let raw = unsafe { mlirModuleCreateParse(self.context.to_raw(), string_ref(source)) };
        if raw.ptr.is_null() {
            return Err(IrError::Parse { what: name.to_owned(), diagnostics: self.take_diagnostics() });
        }
        // SAFETY: not null, owned by nobody else.
        let module = unsafe { Module::from_raw(self, raw) };
        // SAFETY: the module is alive.
        if !unsafe { mlirOperationVerify(mlirModuleGetOperation(raw)) } {
            return Err(IrError::Verify { diagnostics: self.take_diagnostics() });
        }
        Ok(module)
    }

    /// A module with a copy of an operation of any session, read from its bytecode.
    ///
    /// # Errors
    /// The operation uses values from outside of it.
    pub fn read_bytecode(&self, bytecode: &Bytecode) -> Result<Module<'_>, IrError> {
        self.take_diagnostics();
        let source = MlirStringRef { data: bytecode.bytes().as_ptr().cast(), length: bytecode.bytes().len() };
        // SAFETY: the context is alive. What MLIR has written itself is safe to read, though bytecode of unknown origin is not.
        let raw = unsafe { mlirModuleCreateParse(self.context.to_raw(), source) };
        if raw.ptr.is_null() {
            return Err(IrError::Parse { what: "bytecode".to_owned(), diagnostics: self.take_diagnostics() });
        }
        // SAFETY: not null, owned by nobody else.
        Ok(unsafe { Module::from_raw(self, raw) })
    }

    /// Parses a type.
    pub fn parse_type(&self, source: &str) -> Result<Type<'_>, IrError> {
        self.context().parse_type(source).map_err(|error| self.with_diagnostics(error))
    }

    /// Parses an attribute.
    pub fn parse_attribute(&self, source: &str) -> Result<Attribute<'_>, IrError> {
        self.context().parse_attribute(source).map_err(|error| self.with_diagnostics(error))
    }

    fn with_diagnostics(&self, error: IrError) -> IrError {
        match error {
            IrError::Parse { what, .. } => IrError::Parse { what, diagnostics: self.take_diagnostics() },
            other => other,
        }
    }
}

impl Default for Session {
    fn default() -> Self {
        Session::new()
    }
}
