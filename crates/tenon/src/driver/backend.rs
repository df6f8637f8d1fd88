//! The stages of one target: `hw` to `sass`.

use std::fmt::Write;

use tenon_ir::llvm::{LlvmModule, NvptxTarget};
use tenon_ir::{Module, Session};
use tenon_lowering::codegen::{concatenate_ptx, emit_ptx, to_llvm, to_nvvm};
use tenon_lowering::expand::{TargetInfo, expand_kernel};
use tenon_lowering::program::lower_program;
use tenon_target::{KernelFigures, Nvdisasm, Ptxas, Sass, Target};
use tenon_tensor::Tensor;

use crate::driver::Content;
use crate::stage::Stage;
use crate::{Diagnostic, Failure};

/// Code of a tool that is not installed, as against one that refuses.
pub(crate) const TOOL_MISSING: &str = "E0604";

/// What begins each kernel of an LLVM dump.
const KERNEL_MARK: &str = "; kernel: ";

/// Target of LLVM's code generator.
pub(crate) fn nvptx(target: &Target) -> NvptxTarget {
    let version = target.architecture.ptx_version();
    NvptxTarget {
        processor: target.architecture.llvm.processor.clone(),
        ptx_version: version.major * 10 + version.minor,
    }
}

pub(super) fn target_info(target: &Target) -> TargetInfo {
    TargetInfo::of(target.architecture, target.gpu.sms)
}

/// Stage `fuse` to `hw`, with the literals that became parameters.
pub(super) fn to_hw<'s>(
    session: &'s Session,
    module: &Module<'_>,
    target: &Target,
) -> Result<(Module<'s>, Vec<(String, Tensor)>), Failure> {
    let lowered = lower_program(module, session, target)?;
    for (name, value) in module.op().attributes() {
        if name.starts_with("graph.") {
            lowered.module.op().set_attribute(&name, value)?;
        }
    }
    tenon_pass_manager::verify(&lowered.module, || "after lowering to stage `hw`".to_owned())?;
    Ok((lowered.module, lowered.constants))
}

/// Stage `hw` to `gpu`: all kernels in one module.
fn to_gpu<'s>(session: &'s Session, module: &Module<'_>, target: &Target) -> Result<Module<'s>, Failure> {
    let gpu = session.new_module(session.context().unknown_location())?;
    for kernel in module.body().ops().into_iter().filter(|op| op.is("hw.kernel")) {
        expand_kernel(kernel, &gpu, &target_info(target))?;
    }
    gpu.verify()?;
    Ok(gpu)
}

/// One stage after `hw`.
pub(super) fn advance<'s>(
    session: &'s Session,
    next: Stage,
    content: Content<'s>,
    target: &Target,
) -> Result<Content<'s>, Failure> {
    Ok(match (next, content) {
        (Stage::Gpu, Content::Module(module)) => Content::Module(to_gpu(session, &module, target)?),
        (Stage::Nvvm, Content::Module(mut module)) => {
            to_nvvm(&mut module)?;
            Content::Module(module)
        }
        (Stage::Llvm, Content::Module(module)) => {
            let mut kernels = to_llvm(&module)?;
            for (_, kernel) in &mut kernels {
                kernel.optimize(&nvptx(target))?;
                // Reading brings declarations of intrinsics to their normal form, so that the dump is what goes on from here.
                *kernel = LlvmModule::parse(&kernel.to_string())?;
            }
            Content::Llvm(kernels)
        }
        (Stage::Ptx, Content::Llvm(kernels)) => {
            let target = nvptx(target);
            let texts =
                kernels.iter().map(|(name, kernel)| emit_ptx(name, kernel, &target)).collect::<Result<Vec<_>, _>>()?;
            Content::Text(concatenate_ptx(&texts)?)
        }
        (Stage::Sass, Content::Text(ptx)) => Content::Text(sass(&ptx, target)?),
        // Sources hold what their stage says: a unit of another kind cannot be made.
        (next, content) => {
            let kind = match content {
                Content::Module(_) => "a module",
                Content::Llvm(_) => "LLVM IR",
                Content::Text(_) => "a text",
            };
            return Err(Diagnostic::new("E0404", format!("stage `{next}` cannot be made of {kind}")).into());
        }
    })
}

/// LLVM IR of all kernels, each behind a line with its name.
pub(super) fn llvm_text(kernels: &[(String, LlvmModule)]) -> String {
    let mut text = String::new();
    for (name, kernel) in kernels {
        let _ = writeln!(text, "{KERNEL_MARK}{name}");
        // The module's identifier is how it was made, not what it is; predecessors are listed in the order of use lists.
        for line in kernel.to_string().lines().filter(|line| !line.starts_with("; ModuleID")) {
            let line = line.split_once("; preds = ").map_or(line, |(label, _)| label);
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

/// Reads what [`llvm_text`] wrote.
pub(super) fn parse_llvm(text: &str) -> Result<Vec<(String, LlvmModule)>, Failure> {
    let mut sections: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix(KERNEL_MARK) {
            sections.push((name.trim().to_owned(), String::new()));
        } else if let Some((_, section)) = sections.last_mut() {
            section.push_str(line);
            section.push('\n');
        }
    }
    sections.into_iter().map(|(name, section)| Ok((name, LlvmModule::parse(&section)?))).collect()
}

/// SASS of a file of PTX, with what ptxas says of each kernel.
fn sass(ptx: &str, target: &Target) -> Result<String, Failure> {
    let assembly = Ptxas::locate()?.assemble(ptx, target)?;
    let listings = Nvdisasm::locate()?.disassemble(&assembly.cubin, target)?;
    let mut text = String::new();
    for listing in &listings {
        if let Some(figures) = assembly.kernel(&listing.kernel) {
            write_figures(&mut text, figures);
        }
        write_listing(&mut text, listing);
    }
    for message in &assembly.messages {
        let _ = writeln!(text, "// ptxas: {}", message.text);
    }
    Ok(text)
}

fn write_figures(text: &mut String, figures: &KernelFigures) {
    let _ = writeln!(
        text,
        "// {}: {} registers, {} + {} bytes spilled, {} bytes of static shared memory, {} bytes of stack, {} barriers",
        figures.name,
        figures.registers,
        figures.spill_stores,
        figures.spill_loads,
        figures.shared_memory,
        figures.stack,
        figures.barriers
    );
}

fn write_listing(text: &mut String, listing: &Sass) {
    let _ = writeln!(text, "{}:", listing.kernel);
    for instruction in &listing.instructions {
        let predicate = instruction.predicate.as_deref().map(|predicate| format!("{predicate} ")).unwrap_or_default();
        let _ = writeln!(
            text,
            "  /*{:04x}*/ {predicate}{} {};",
            instruction.address, instruction.opcode, instruction.operands
        );
    }
}
