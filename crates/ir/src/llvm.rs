//! LLVM IR: translation from MLIR, optimisation, and assembly for NVPTX.
//!
//! A [`LlvmModule`] owns its LLVM context, so it outlives the session it was translated in.

use inkwell::OptimizationLevel;
use inkwell::context::Context as LlvmContext;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module as InkwellModule;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple};
use std::sync::Once;

use crate::{IrError, Module, Op};

/// Architecture that LLVM emits PTX for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NvptxTarget {
    /// Processor, `sm_80`, `sm_90a`.
    pub processor: String,
    /// PTX ISA version times ten: 78 is 7.8.
    pub ptx_version: u32,
}

/// Most instructions of a module for which straight-line strength reduction runs. It takes the square of a block's length, for kernels of thousands
/// of instructions more than all the rest of code generation; for small kernels it takes a third of their address arithmetic away.
const LARGE_MODULE: usize = 512;

/// Version of LLVM and MLIR: `22.1.8`.
pub fn llvm_version() -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    format!("{major}.{minor}.{patch}")
}

/// A module of LLVM IR.
pub struct LlvmModule {
    // Dropped before the context that it lives in: fields drop in order of declaration.
    module: InkwellModule<'static>,
    context: Box<LlvmContext>,
}

impl LlvmModule {
    /// Translates an operation in the LLVM dialect (a `gpu.module` or the whole module).
    ///
    /// # Errors
    /// The operation does not verify, or holds something that LLVM IR cannot express.
    pub fn translate(module: &Module<'_>, op: Op<'_>) -> Result<LlvmModule, IrError> {
        let session = module.session();
        session.take_diagnostics();
        // SAFETY: the operation is alive. Translation relies on every invariant.
        if !unsafe { mlir_sys::mlirOperationVerify(op.to_raw()) } {
            return Err(IrError::Verify { diagnostics: session.take_diagnostics() });
        }
        let context = Box::new(LlvmContext::create());
        // SAFETY: both contexts are alive; the result is a new LLVM module that we own, or null.
        let raw = unsafe { mlir_sys::mlirTranslateModuleToLLVMIR(op.to_raw(), context.raw().cast()) };
        if raw.is_null() {
            return Err(IrError::Translate { diagnostics: session.take_diagnostics() });
        }
        // SAFETY: not null; the module borrows `context`, which this struct keeps at a fixed address and drops last.
        let module = unsafe { InkwellModule::new(raw.cast()) };
        Ok(LlvmModule { module, context })
    }

    /// Parses LLVM IR in text form.
    pub fn parse(source: &str) -> Result<LlvmModule, IrError> {
        if source.contains('\0') {
            return Err(IrError::Llvm("the text holds a NUL byte".to_owned()));
        }
        // LLVM aborts the process when it upgrades the debug information of a module that does not verify. Without the flag that asks for
        // it, the same module only loses its debug information, and can be verified first.
        let flag = "Debug Info Version";
        if source.contains(flag) {
            let context = LlvmContext::create();
            // LLVM would print a warning that it drops the debug information.
            // SAFETY: the context is alive; the handler keeps nothing and needs no data.
            unsafe {
                inkwell::llvm_sys::core::LLVMContextSetDiagnosticHandler(
                    context.raw(),
                    Some(ignore),
                    std::ptr::null_mut(),
                );
            }
            let plain = source.replace(flag, "debug info version");
            let buffer = MemoryBuffer::create_from_memory_range_copy(plain.as_bytes(), "llvm");
            let module = context.create_module_from_ir(buffer).map_err(|error| IrError::Llvm(error.to_string()))?;
            module.verify().map_err(|error| IrError::Llvm(error.to_string()))?;
        }
        let context = Box::new(LlvmContext::create());
        let buffer = MemoryBuffer::create_from_memory_range_copy(source.as_bytes(), "llvm");
        let module = context.create_module_from_ir(buffer).map_err(|error| IrError::Llvm(error.to_string()))?;
        // SAFETY: the module borrows `context`, which this struct keeps at a fixed address and drops last.
        let module = unsafe { std::mem::transmute::<InkwellModule<'_>, InkwellModule<'static>>(module) };
        Ok(LlvmModule { module, context })
    }

    /// Runs LLVM's pass pipeline `default<O3>` for the target, after verification.
    pub fn optimize(&mut self, target: &NvptxTarget) -> Result<(), IrError> {
        let machine = machine(target)?;
        self.module.set_triple(&machine.get_triple());
        self.module.set_data_layout(&machine.get_target_data().get_data_layout());
        self.module.verify().map_err(|error| IrError::Llvm(error.to_string()))?;
        self.module
            .run_passes("default<O3>", &machine, PassBuilderOptions::create())
            .map_err(|error| IrError::Llvm(error.to_string()))
    }

    /// Number of instructions of all functions.
    fn instructions(&self) -> usize {
        let blocks = self.module.get_functions().flat_map(|function| function.get_basic_block_iter());
        blocks.map(|block| block.get_instructions().count()).sum()
    }

    /// Emits PTX.
    pub fn emit_ptx(&self, target: &NvptxTarget) -> Result<String, IrError> {
        let machine = machine(target)?;
        self.module.set_triple(&machine.get_triple());
        self.module.set_data_layout(&machine.get_target_data().get_data_layout());
        self.module.verify().map_err(|error| IrError::Llvm(error.to_string()))?;
        if self.instructions() > LARGE_MODULE {
            // SAFETY: the context is alive. The gate is never freed, and no pass of this context is running.
            unsafe { tenonSkipStrengthReduction(self.context.raw()) };
        }
        let buffer = machine
            .write_to_memory_buffer(&self.module, FileType::Assembly)
            .map_err(|error| IrError::Llvm(error.to_string()))?;
        let text = String::from_utf8_lossy(buffer.as_slice());
        Ok(text.trim_end_matches('\0').to_owned())
    }
}

impl std::fmt::Display for LlvmModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.module.print_to_string().to_string_lossy())
    }
}

extern "C" fn ignore(_: inkwell::llvm_sys::prelude::LLVMDiagnosticInfoRef, _: *mut std::ffi::c_void) {}

unsafe extern "C" {
    /// `cpp/pass_gate.cpp`.
    fn tenonSkipStrengthReduction(context: inkwell::llvm_sys::prelude::LLVMContextRef);
}

fn machine(target: &NvptxTarget) -> Result<TargetMachine, IrError> {
    if !target.processor.starts_with("sm_")
        || !target.processor.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        return Err(IrError::Llvm(format!("`{}` is no NVPTX processor", target.processor.escape_debug())));
    }
    static TARGETS: Once = Once::new();
    TARGETS.call_once(|| Target::initialize_nvptx(&InitializationConfig::default()));
    let triple = TargetTriple::create("nvptx64-nvidia-cuda");
    let nvptx = Target::from_triple(&triple).map_err(|error| IrError::Llvm(error.to_string()))?;
    nvptx
        .create_target_machine(
            &triple,
            &target.processor,
            &format!("+ptx{}", target.ptx_version),
            // The next level adds passes over memory dependences that take longer than all others and change nothing in kernels.
            OptimizationLevel::Default,
            RelocMode::Default,
            CodeModel::Default,
        )
        .ok_or_else(|| IrError::Llvm(format!("no code generator for {}", target.processor)))
}
