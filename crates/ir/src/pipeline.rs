//! Upstream pass pipelines.

use melior::utility::parse_pass_pipeline;
use mlir_sys::{mlirModuleGetOperation, mlirPassManagerRunOnOp};

use crate::{Diagnostic, IrError, Module, Severity};

impl Module<'_> {
    /// Runs a textual pipeline of upstream passes, `builtin.module(cse,…)`. The module must verify.
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
        let session = self.session();
        // Passes may rely on every invariant: on broken IR they crash.
        self.verify()?;
        let failed = || IrError::Pipeline { pipeline: pipeline.to_owned(), diagnostics: session.take_diagnostics() };
        let refused = |message: String| IrError::Pipeline {
            pipeline: pipeline.to_owned(),
            diagnostics: [
                vec![Diagnostic { severity: Severity::Error, location: String::new(), message, notes: Vec::new() }],
                session.take_diagnostics(),
            ]
            .concat(),
        };
        if let Err(reason) = crate::text::check_text(pipeline) {
            return Err(refused(reason.to_owned()));
        }
        if pipeline.is_empty() {
            return Err(refused("it is empty".to_owned()));
        }
        let context = session.melior();
        let manager = melior::pass::PassManager::new(context);
        parse_pass_pipeline(manager.as_operation_pass_manager(), pipeline)
            .map_err(|error| refused(error.to_string().trim().to_owned()))?;
        // SAFETY: the manager and the module are alive and of one context; `&mut self` keeps views away.
        let result = unsafe { mlirPassManagerRunOnOp(manager.to_raw(), mlirModuleGetOperation(self.raw())) };
        if result.value == 0 { Err(failed()) } else { Ok(()) }
    }
}
