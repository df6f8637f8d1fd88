//! From the `gpu` stage to PTX.
//!
//! Stages: `gpu` (functions in upstream dialects) → [`to_nvvm`] → [`to_llvm`] → LLVM's optimiser → [`to_ptx`]. Nothing is contracted or
//! reassociated on the way: division and square root are correctly rounded, sums are not fused with products.

mod error;
mod ptx;

use tenon_ir::llvm::{LlvmModule, NvptxTarget};
use tenon_ir::{Module, Session};

use crate::elementary;

pub use error::CodegenError;
pub use ptx::concatenate_ptx;

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
    module.run_pipeline(TO_NVVM)?;
    module.verify()?;
    Ok(())
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
    Ok(ptx)
}

/// Names of kernels with their PTX.
type Kernels = Vec<(String, String)>;

/// PTX of each kernel of texts of the `gpu` stage, in order of texts, compiled by up to `threads` threads with a session each.
pub fn compile_kernels(
    texts: &[String],
    target: &NvptxTarget,
    threads: usize,
) -> Result<Vec<(String, String)>, CodegenError> {
    let threads = threads.clamp(1, texts.len().max(1));
    // Thread `t` takes texts t, t + threads, …: which one compiles what does not depend on timing.
    let compiled: Vec<Vec<(usize, Result<Kernels, CodegenError>)>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|first| {
                scope.spawn(move || {
                    let own = texts.iter().enumerate().skip(first).step_by(threads);
                    own.map(|(index, text)| (index, compile(text, target))).collect::<Vec<_>>()
                })
            })
            .collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| match worker.join() {
            Ok(compiled) => compiled,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().map(join).collect()
    });
    let mut results: Vec<_> = compiled.into_iter().flatten().collect();
    results.sort_by_key(|(index, _)| *index);
    let mut all = Vec::new();
    for (_, result) in results {
        all.extend(result?);
    }
    Ok(all)
}

fn compile(text: &str, target: &NvptxTarget) -> Result<Kernels, CodegenError> {
    let session = Session::new();
    let mut module = session.parse_module(text, "gpu")?;
    to_nvvm(&mut module)?;
    let kernels = to_llvm(&module)?;
    kernels
        .into_iter()
        .map(|(name, llvm)| {
            let ptx = to_ptx(&name, llvm, target)?;
            Ok((name, ptx))
        })
        .collect()
}
