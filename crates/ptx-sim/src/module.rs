//! A parsed and decoded module.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::decode::{self, Program};
use crate::error::Error;
use crate::parse::{self, ast};

/// A PTX module whose every instruction was decoded: what parses here runs without meeting an unknown instruction.
pub struct Module {
    pub(crate) id: u64,
    pub(crate) ast: ast::Module,
    entries: Vec<Entry>,
}

/// A kernel of a module.
pub struct Entry {
    name: String,
    parameters: Vec<Parameter>,
    required_threads: Option<[u32; 3]>,
    pub(crate) maximum_threads: Option<[u32; 3]>,
    cluster: Option<[u32; 3]>,
    pub(crate) program: Program,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name in the source.
    pub name: String,
    /// Bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// Offset in the parameter space.
    pub offset: u32,
}

impl Module {
    /// Parses and decodes PTX text.
    ///
    /// # Errors
    /// [`Error::Parse`] for text that is no PTX, [`Error::Instruction`] for an instruction, modifier, type or operand that is not known.
    pub fn parse(source: &str) -> Result<Module, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let ast = parse::module(source)?;
        let mut entries = Vec::new();
        for (index, function) in ast.functions.iter().enumerate() {
            if function.body.is_none() {
                continue;
            }
            if !function.entry {
                decode::function(&ast, index)?;
                continue;
            }
            let program = decode::entry(&ast, index)?;
            let parameters = program
                .parameters
                .iter()
                .map(|p| Parameter { name: p.name.clone(), size: p.size, align: p.align, offset: p.offset })
                .collect();
            entries.push(Entry {
                name: function.name.clone(),
                parameters,
                required_threads: function.required_threads,
                maximum_threads: function.maximum_threads,
                cluster: function.cluster,
                program,
            });
        }
        Ok(Module { id: NEXT.fetch_add(1, Ordering::Relaxed), ast, entries })
    }

    /// The kernels, in the order of the source.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The kernel of a name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }

    /// The `.target`, such as `sm_80`.
    pub fn target(&self) -> &str {
        &self.ast.target
    }

    /// The `.version`, such as (8, 8).
    pub fn version(&self) -> (u32, u32) {
        self.ast.version
    }
}

impl Entry {
    /// Name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Parameters, in order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
    /// Bytes of static shared memory; dynamic shared memory follows them.
    pub fn static_shared_bytes(&self) -> u32 {
        self.program.static_shared
    }
    /// Whether dynamic shared memory is declared and used: a launch may give it more than zero bytes.
    pub fn uses_dynamic_shared(&self) -> bool {
        self.program.dynamic_shared
    }
    /// The block size of `.reqntid`.
    pub fn required_threads(&self) -> Option<[u32; 3]> {
        self.required_threads
    }
    /// Blocks of a cluster as `.reqnctapercluster` says; a launch with more than one is refused.
    pub fn cluster(&self) -> Option<[u32; 3]> {
        self.cluster
    }
    /// Bytes of local memory of a thread.
    pub fn local_bytes(&self) -> u32 {
        self.program.local_bytes
    }
    /// Instructions once device functions are inlined.
    pub fn instruction_count(&self) -> usize {
        self.program.code.len()
    }
}
