//! Kernels to PTX, several at a time.
//!
//! Each thread has an MLIR session of its own and keeps the pass pipeline ready; a kernel travels to it as bytecode. Whatever the number of
//! threads, a kernel is compiled by itself, so that its PTX is the same.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenon_ir::llvm::{LlvmModule, NvptxTarget};
use tenon_ir::{Bytecode, IrError, Module, Pipeline, Session};

use super::{CodegenError, TO_NVVM, emit_ptx, to_llvm};
use crate::elementary;
use crate::expand::{KernelInfo, TargetInfo, expand_kernel};

/// Stack of a compiling thread: LLVM recurses over chains of operations.
const STACK_BYTES: usize = 16 << 20;

/// Time that the steps of one kernel's compilation took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelTimes {
    /// Tile program to upstream dialects.
    pub gpu: Duration,
    /// To the LLVM dialect.
    pub nvvm: Duration,
    /// To optimised LLVM IR.
    pub llvm: Duration,
    /// To PTX.
    pub ptx: Duration,
}

impl KernelTimes {
    /// All steps together.
    pub fn total(&self) -> Duration {
        self.gpu + self.nvvm + self.llvm + self.ptx
    }
}

impl std::ops::AddAssign for KernelTimes {
    fn add_assign(&mut self, other: KernelTimes) {
        self.gpu += other.gpu;
        self.nvvm += other.nvvm;
        self.llvm += other.llvm;
        self.ptx += other.ptx;
    }
}

/// A kernel as PTX.
#[derive(Debug, Clone)]
pub struct CompiledKernel {
    /// What a launch must know.
    pub info: KernelInfo,
    /// A file of PTX with this kernel alone.
    pub ptx: String,
    /// How long it took.
    pub times: KernelTimes,
}

/// What a thread compiles with.
struct Worker<'s> {
    session: &'s Session,
    pipeline: Pipeline<'s>,
}

impl<'s> Worker<'s> {
    fn new(session: &'s Session) -> Result<Self, IrError> {
        Ok(Worker { session, pipeline: session.pipeline(TO_NVVM)? })
    }

    /// A module of the `gpu` stage to PTX.
    fn finish(
        &self,
        mut module: Module<'s>,
        target: &NvptxTarget,
        times: &mut KernelTimes,
    ) -> Result<Vec<(String, String)>, CodegenError> {
        let start = Instant::now();
        elementary::replace(&module)?;
        self.pipeline.run(&mut module)?;
        times.nvvm = start.elapsed();
        let start = Instant::now();
        let kernels = to_llvm(&module)?;
        drop(module);
        times.llvm = start.elapsed();
        let mut texts = Vec::with_capacity(kernels.len());
        for (name, mut llvm) in kernels {
            let start = Instant::now();
            llvm.optimize(target)?;
            // As a dump of this stage is read: the order of uses decides among equal choices of the code generator.
            let llvm = LlvmModule::parse(&llvm.to_string())?;
            times.llvm += start.elapsed();
            let start = Instant::now();
            let ptx = emit_ptx(&name, &llvm, target)?;
            times.ptx += start.elapsed();
            texts.push((name, ptx));
        }
        Ok(texts)
    }

    fn tile_program(
        &self,
        kernel: &Bytecode,
        info: &TargetInfo,
        target: &NvptxTarget,
    ) -> Result<CompiledKernel, CodegenError> {
        let mut times = KernelTimes::default();
        let start = Instant::now();
        let module = self.session.read_bytecode(kernel)?;
        let gpu = self.session.new_module(self.session.context().unknown_location())?;
        let op = module.body().ops().into_iter().next();
        let op = op.ok_or(IrError::Text { what: "bytecode".to_owned(), reason: "it holds no operation" })?;
        let info = expand_kernel(op, &gpu, info)?;
        drop(module);
        times.gpu = start.elapsed();
        let ptx = self.finish(gpu, target, &mut times)?.into_iter().map(|(_, ptx)| ptx).collect();
        Ok(CompiledKernel { info, ptx, times })
    }
}

/// Applies `work` to every item on up to `threads` threads, the calling one among them, which uses `session`. Results are in the order of
/// items; of errors, the first in that order.
fn spread<T: Sync, R: Send>(
    items: &[T],
    size: impl Fn(&T) -> usize,
    session: &Session,
    threads: usize,
    work: impl for<'s> Fn(&Worker<'s>, &T) -> Result<R, CodegenError> + Sync,
) -> Result<Vec<R>, CodegenError> {
    // Large ones first, so that no thread is left with a large one at the end.
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(size(&items[*index])));
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let run = |session: &Session| -> Result<(), CodegenError> {
        let worker = Worker::new(session)?;
        while let Some(index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = work(&worker, &items[*index]);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((*index, result));
        }
        Ok(())
    };
    let helpers = threads.min(items.len()).saturating_sub(1);
    std::thread::scope(|scope| {
        let spawn = |index: usize| {
            std::thread::Builder::new()
                .name(format!("kernels-{index}"))
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, || run(&Session::new()))
        };
        // Where no more threads are to be had, those that there are do the work.
        let helpers: Vec<_> = (0..helpers).map_while(|index| spawn(index).ok()).collect();
        let mut outcome = run(session);
        for helper in helpers {
            match helper.join() {
                Ok(result) => outcome = outcome.and(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        outcome
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// PTX of tile programs (`hw.kernel` as bytecode), in their order, by up to `threads` threads. The calling thread takes part with `session`.
///
/// # Errors
/// Of the first kernel that cannot be compiled.
pub fn compile_tile_programs(
    kernels: &[Bytecode],
    session: &Session,
    info: &TargetInfo,
    target: &NvptxTarget,
    threads: usize,
) -> Result<Vec<CompiledKernel>, CodegenError> {
    spread(kernels, Bytecode::size, session, threads, |worker, kernel| worker.tile_program(kernel, info, target))
}

/// Name and PTX of each kernel of texts of the `gpu` stage, in order of texts, by up to `threads` threads.
///
/// # Errors
/// Of the first text that cannot be compiled.
pub fn compile_kernels(
    texts: &[String],
    target: &NvptxTarget,
    threads: usize,
) -> Result<Vec<(String, String)>, CodegenError> {
    let work = |worker: &Worker<'_>, text: &String| {
        worker.finish(worker.session.parse_module(text, "gpu")?, target, &mut KernelTimes::default())
    };
    let all = spread(texts, String::len, &Session::new(), threads, work)?;
    Ok(all.into_iter().flatten().collect())
}
