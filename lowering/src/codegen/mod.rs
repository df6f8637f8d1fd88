//! From the `gpu` stage to PTX.
//!
//! Stages: `gpu` (functions in upstream dialects) → [`to_nvvm`] → [`to_llvm`] → LLVM's optimiser → [`to_ptx`]. Nothing is contracted or
//! reassociated on the way: division and square root are correctly rounded, sums are not fused with products.

mod error;
mod parallel;
mod pressure;
mod ptx;
mod residency;

use tenon_ir::Module;
use tenon_ir::llvm::{LlvmModule, NvptxTarget};

use crate::elementary;

pub use error::CodegenError;
pub use parallel::{CompiledKernel, KernelTimes, compile_kernels, compile_tile_programs};
pub use ptx::{concatenate_ptx, renamed};

/// Upstream passes from the `gpu` stage to LLVM and NVVM operations. Lines of the model's files are kept by directives, without debug
/// sections.
const TO_NVVM: &str = "builtin.module(\
    canonicalize,cse,\
    convert-scf-to-cf,convert-math-to-llvm,convert-vector-to-llvm,convert-arith-to-llvm,convert-cf-to-llvm,\
    reconcile-unrealized-casts,canonicalize,cse,\
    ensure-debug-info-scope-on-llvm-func{emission-kind=DebugDirectivesOnly})";

/// Takes a module of the `gpu` stage to the `nvvm` stage; elementary functions become their code.
pub fn to_nvvm(module: &mut Module<'_>) -> Result<(), CodegenError> {
    elementary::replace(module)?;
    Ok(module.run_pipeline(TO_NVVM)?)
}

/// LLVM IR of each kernel of a module of the `nvvm` stage, with its name, in the module's order.
pub fn to_llvm(module: &Module<'_>) -> Result<Vec<(String, LlvmModule)>, CodegenError> {
    let kernels = module.body().ops().into_iter().filter(|op| op.is("gpu.module"));
    kernels
        .map(|kernel| {
            let name = kernel.string("sym_name").unwrap_or_default();
            Ok((name, LlvmModule::translate(module, kernel)?))
        })
        .collect()
}

/// Optimises a kernel's LLVM IR and gives its PTX. What it calls must be in it: there is no library to link with.
pub fn to_ptx(name: &str, mut module: LlvmModule, target: &NvptxTarget) -> Result<String, CodegenError> {
    module.optimize(target)?;
    emit_ptx(name, &module, target)
}

/// PTX of a kernel's LLVM IR that was optimised before.
pub fn emit_ptx(name: &str, module: &LlvmModule, target: &NvptxTarget) -> Result<String, CodegenError> {
    let ptx = module.emit_ptx(target)?;
    if let Some(symbol) = ptx::external_function(&ptx) {
        return Err(CodegenError::Unresolved { kernel: name.to_owned(), symbol });
    }
    Ok(residency::fit(ptx, &target.processor))
}
