//! Upstream pass pipelines.

use melior::utility::parse_pass_pipeline;
use mlir_sys::{mlirModuleGetOperation, mlirPassManagerRunOnOp};

use crate::{IrError, Module};

impl Module<'_> {
    /// Runs a textual pipeline of upstream passes, `builtin.module(cse,…)`. No view of the module survives.
    pub fn run_pipeline(&mut self, pipeline: &str) -> Result<(), IrError> {
        let session = self.session();
        session.take_diagnostics();
        let failed = || IrError::Pipeline { pipeline: pipeline.to_owned(), diagnostics: session.take_diagnostics() };
        if crate::text::check_text(pipeline).is_err() || pipeline.is_empty() {
            return Err(failed());
        }
        let context = session.melior();
        let manager = melior::pass::PassManager::new(context);
        parse_pass_pipeline(manager.as_operation_pass_manager(), pipeline).map_err(|_| failed())?;
        // SAFETY: the manager and the module are alive and of one context; `&mut self` keeps views away.
        let result = unsafe { mlirPassManagerRunOnOp(manager.to_raw(), mlirModuleGetOperation(self.raw())) };
        if result.value == 0 { Err(failed()) } else { Ok(()) }
    }
}
