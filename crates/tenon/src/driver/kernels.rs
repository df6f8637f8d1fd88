//! The kernels of one build: each compiled once, whichever buckets it occurs in.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tenon_ir::{Bytecode, Module, Op, Session};
use tenon_lowering::codegen::{CompiledKernel, KernelTimes, compile_tile_programs, concatenate_ptx, renamed};
use tenon_lowering::expand::KernelInfo;
use tenon_lowering::program::tile_program_key;
use tenon_target::Target;

use crate::Failure;
use crate::driver::backend;
use crate::driver::store::{KernelKey, KernelStore, Miss, compiler_hash, decode, encode};

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

/// A compiled kernel as all programs of a build share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedKernel {
    /// Its name in the program.
    pub name: String,
    /// Its entry in `ptx`: a name that no other kernel of the build has.
    pub entry: String,
    /// A file of PTX with this kernel alone.
    pub ptx: Arc<str>,
}

/// PTX of all kernels of a module.
pub(super) struct Compiled {
    pub(super) infos: Vec<KernelInfo>,
    pub(super) ptx: String,
    pub(super) shared: Vec<SharedKernel>,
    /// Time of each step, summed over the kernels compiled now, whichever thread did it.
    pub(super) times: KernelTimes,
}

/// Kernels compiled so far, by architecture and content.
#[derive(Default)]
pub(super) struct Library {
    kernels: HashMap<(String, String), Kept>,
    times: Vec<KernelTime>,
    store: Option<Arc<dyn KernelStore>>,
    lookups: Vec<StoreLookup>,
}

/// What a store had of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLookup {
    /// The kernel.
    pub kernel: String,
    /// The target's name.
    pub target: &'static str,
    /// Why it was not there.
    pub miss: Option<Miss>,
}

/// A compiled kernel, and what programs share of it.
struct Kept {
    kernel: CompiledKernel,
    entry: String,
    ptx: Arc<str>,
}

impl Kept {
    fn new(kernel: CompiledKernel) -> Kept {
        // The name says what it is, the hash makes it one of its own. Its number in the program is no part of either.
        let name = kernel.info.name.as_str();
        let numbered = name.strip_prefix('k').and_then(|rest| rest.split_once('_'));
        let plain = match numbered {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
            _ => name,
        };
        let hash = tenon_bundle::sha256(renamed(&kernel.ptx, name, "kernel"));
        let entry = format!("{plain}_{}", &hash[..12]);
        let ptx = renamed(&kernel.ptx, &kernel.info.name, &entry).into();
        Kept { kernel, entry, ptx }
    }
}

impl Library {
    /// How long each compilation took, one entry each.
    pub(super) fn times(&self) -> &[KernelTime] {
        &self.times
    }

    /// Looks for kernels in a store before it compiles them, and keeps there what it compiles.
    pub(super) fn use_store(&mut self, store: Arc<dyn KernelStore>) {
        self.store = Some(store);
    }

    /// What the store had, one entry for each kernel that was asked for.
    pub(super) fn lookups(&self) -> &[StoreLookup] {
        &self.lookups
    }

    /// Takes kernels from the store; gives the places of those that must be compiled, each with its key.
    fn from_store(
        &mut self,
        store: &dyn KernelStore,
        missing: &[usize],
        kernels: &[Op<'_>],
        programs: &[Bytecode],
        keys: &[(String, String)],
        target: &'static Target,
    ) -> Result<Vec<Option<KernelKey>>, Failure> {
        let mut left = Vec::with_capacity(missing.len());
        for (program, index) in programs.iter().zip(missing) {
            let key = KernelKey {
                content: tenon_bundle::sha256(program.bytes()),
                architecture: format!("{}-ptx{}", target.architecture.name, target.architecture.ptx_version()),
                compiler: compiler_hash().to_owned(),
            };
            let found = store.get(&key)?.and_then(|bytes| decode(&key, &bytes));
            let kernel = kernels[*index].string("sym_name").unwrap_or_default();
            let miss = found.as_ref().err().cloned();
            self.lookups.push(StoreLookup { kernel, target: target.name(), miss });
            left.push(match found {
                Ok(kernel) => {
                    self.kernels.insert(keys[*index].clone(), Kept::new(kernel));
                    None
                }
                Err(_) => Some(key),
            });
        }
        Ok(left)
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
        let mut programs: Vec<Bytecode> = missing.iter().map(|index| kernels[*index].bytecode()).collect();
        let (mut missing, mut stored) = (missing, Vec::new());
        let store = self.store.clone();
        if let Some(store) = &store {
            let left = self.from_store(store.as_ref(), &missing, &kernels, &programs, &keys, target)?;
            let is_left = |place: &usize| left[*place].is_some();
            let places: Vec<usize> = (0..missing.len()).filter(is_left).collect();
            programs = places.iter().map(|place| programs[*place].clone()).collect();
            missing = places.iter().map(|place| missing[*place]).collect();
            stored = left.into_iter().flatten().collect();
        }
        let info = backend::target_info(target);
        let compiled = compile_tile_programs(&programs, session, &info, &backend::nvptx(target), threads)?;
        let mut times = KernelTimes::default();
        for (place, (index, kernel)) in missing.into_iter().zip(compiled).enumerate() {
            if let (Some(store), Some(key)) = (&store, stored.get(place)) {
                store.put(key, &encode(key, &kernel))?;
            }
            times += kernel.times;
            self.times.push(KernelTime { name: kernel.info.name.clone(), target: target.name(), times: kernel.times });
            self.kernels.insert(keys[index].clone(), Kept::new(kernel));
        }
        let mut infos = Vec::with_capacity(kernels.len());
        let mut texts = Vec::with_capacity(kernels.len());
        let mut shared = Vec::with_capacity(kernels.len());
        for (op, key) in kernels.iter().zip(&keys) {
            let Some(Kept { kernel, entry, ptx }) = self.kernels.get(key) else { continue };
            let name = op.string("sym_name").unwrap_or_default();
            shared.push(SharedKernel { name: name.clone(), entry: entry.clone(), ptx: Arc::clone(ptx) });
            texts.push(renamed(&kernel.ptx, &kernel.info.name, &name));
            infos.push(KernelInfo { name, ..kernel.info.clone() });
        }
        Ok(Compiled { infos, ptx: concatenate_ptx(&texts)?, shared, times })
    }
}
