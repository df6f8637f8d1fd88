//! The kernels of one build: each compiled once, whichever buckets it occurs in.

use std::collections::{HashMap, HashSet};

use tenon_ir::{Bytecode, Module, Op, Session};
use tenon_lowering::codegen::{CompiledKernel, KernelTimes, compile_tile_programs, concatenate_ptx, renamed};
use tenon_lowering::expand::KernelInfo;
use tenon_lowering::program::tile_program_key;
use tenon_target::Target;

use crate::Failure;
use crate::driver::backend;

/// How long the compilation of a kernel took.
#[derive(Debug, Clone)]
pub struct KernelTime {
    /// Its name.
    pub name: String,
    /// The target's name.
    pub target: &'static str,
    /// Times of its steps.
    pub times: KernelTimes,
}

/// PTX of all kernels of a module.
pub(super) struct Compiled {
    pub(super) infos: Vec<KernelInfo>,
    pub(super) ptx: String,
    /// Time of each step, summed over the kernels compiled now, whichever thread did it.
    pub(super) times: KernelTimes,
}

/// Kernels compiled so far, by architecture and content.
#[derive(Default)]
pub(super) struct Library {
    kernels: HashMap<(String, String), CompiledKernel>,
    times: Vec<KernelTime>,
}

impl Library {
    /// How long each compilation took, one entry each.
    pub(super) fn times(&self) -> &[KernelTime] {
        &self.times
    }

    /// Compiles the kernels of a module of stage `hw` that are not there yet. All modules must be of one session.
    pub(super) fn compile(
        &mut self,
        session: &Session,
        module: &Module<'_>,
        target: &'static Target,
        threads: usize,
    ) -> Result<Compiled, Failure> {
        // What a kernel becomes depends on the architecture, and on how many multiprocessors its grid is spread over.
        let architecture = format!("{} {}", target.architecture.name, target.gpu.sms);
        let kernels: Vec<Op<'_>> = module.body().ops().into_iter().filter(|op| op.is("hw.kernel")).collect();
        let keys: Vec<_> = kernels.iter().map(|op| (architecture.clone(), tile_program_key(*op))).collect();
        let mut seen = HashSet::new();
        let missing: Vec<usize> = (0..keys.len())
            .filter(|index| !self.kernels.contains_key(&keys[*index]) && seen.insert(&keys[*index]))
            .collect();
        let programs: Vec<Bytecode> = missing.iter().map(|index| kernels[*index].bytecode()).collect();
        let info = backend::target_info(target);
        let compiled = compile_tile_programs(&programs, session, &info, &backend::nvptx(target), threads)?;
        let mut times = KernelTimes::default();
        for (index, kernel) in missing.into_iter().zip(compiled) {
            times += kernel.times;
            self.times.push(KernelTime { name: kernel.info.name.clone(), target: target.name(), times: kernel.times });
            self.kernels.insert(keys[index].clone(), kernel);
        }
        let mut infos = Vec::with_capacity(kernels.len());
        let mut texts = Vec::with_capacity(kernels.len());
        for (op, key) in kernels.iter().zip(&keys) {
            let Some(kernel) = self.kernels.get(key) else { continue };
            let name = op.string("sym_name").unwrap_or_default();
            texts.push(renamed(&kernel.ptx, &kernel.info.name, &name));
            infos.push(KernelInfo { name, ..kernel.info.clone() });
        }
        Ok(Compiled { infos, ptx: concatenate_ptx(&texts)?, times })
    }
}
