//! Upstream pass pipelines.

use melior::utility::parse_pass_pipeline;
use mlir_sys::{mlirModuleGetOperation, mlirPassManagerEnableVerifier, mlirPassManagerRunOnOp};

use crate::{Diagnostic, IrError, Module, Session, Severity};

/// A textual pipeline of upstream passes, `builtin.module(cse,…)`, made ready once and run on any number of modules of its session.
///
/// Patterns of the passes are collected when it runs first, which takes longer than running it on a small module.
pub struct Pipeline<'s> {
    manager: melior::pass::PassManager<'s>,
    session: &'s Session,
    text: String,
}

impl Session {
    /// Parses a pipeline.
    ///
    /// # Errors
    /// The pipeline does not parse, or names a pass that is not registered.
    pub fn pipeline(&self, pipeline: &str) -> Result<Pipeline<'_>, IrError> {
        self.take_diagnostics();
        let refused = |message: String| IrError::Pipeline {
            pipeline: pipeline.to_owned(),
            diagnostics: [
                vec![Diagnostic { severity: Severity::Error, location: String::new(), message, notes: Vec::new() }],
                self.take_diagnostics(),
            ]
            .concat(),
        };
        if let Err(reason) = crate::text::check_text(pipeline) {
            return Err(refused(reason.to_owned()));
        }
        if pipeline.is_empty() {
            return Err(refused("it is empty".to_owned()));
        }
        let manager = melior::pass::PassManager::new(self.melior());
        parse_pass_pipeline(manager.as_operation_pass_manager(), pipeline)
            .map_err(|error| refused(error.to_string().trim().to_owned()))?;
        // Between the passes only builds for debugging verify: it takes as long as the passes. What goes in and what comes out is verified.
        // SAFETY: the manager is alive.
        unsafe { mlirPassManagerEnableVerifier(manager.to_raw(), cfg!(debug_assertions)) };
        Ok(Pipeline { manager, session: self, text: pipeline.to_owned() })
    }
}

impl Pipeline<'_> {
    /// Runs the passes on a module of the pipeline's session, which is verified before and after.
    ///
    /// # Errors
    /// The module is of another session, does not verify, or a pass fails.
    pub fn run(&self, module: &mut Module<'_>) -> Result<(), IrError> {
        if !std::ptr::eq(module.session(), self.session) {
            return Err(IrError::ForeignObject("a module"));
        }
        // Passes may rely on every invariant: on broken IR they crash.
        module.verify()?;
        // SAFETY: the manager and the module are alive and of one context; `&mut` keeps views of the module away. The context has no threads,
        // so the manager is used by one at a time.
        let result = unsafe { mlirPassManagerRunOnOp(self.manager.to_raw(), mlirModuleGetOperation(module.raw())) };
        if result.value == 0 {
            let diagnostics = self.session.take_diagnostics();
            return Err(IrError::Pipeline { pipeline: self.text.clone(), diagnostics });
        }
        module.verify()
    }
}

impl Module<'_> {
    /// Runs a textual pipeline of upstream passes, `builtin.module(cse,…)`. The module is verified before and after.
    ///
    /// No view of the module survives:
    ///
    /// ```compile_fail,E0502
    /// use tenon_ir::Session;
    /// let session = Session::new();
    /// let mut module = session.parse_module("module {}", "doc").unwrap();
    /// let op = module.op();
    /// module.run_pipeline("builtin.module(cse)").unwrap();
    /// println!("{op}");
    /// ```
    ///
    /// # Errors
    /// The module does not verify, the pipeline does not parse, a pass fails.
    pub fn run_pipeline(&mut self, pipeline: &str) -> Result<(), IrError> {
        self.session().pipeline(pipeline)?.run(self)
    }
}
