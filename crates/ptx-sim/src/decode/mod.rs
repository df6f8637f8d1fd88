//! Syntax tree to dense instructions.
//!
//! - Every opcode, modifier, type and operand is checked here, whether or not the instruction is ever reached.
//! - Registers, constants, special registers and variable addresses all become slots of the register files, so that
//!   instructions hold nothing but slot numbers.
//! - Calls of device functions are inlined; recursion is refused. After decoding there is one flat list of instructions.
//! - Every branch knows the instruction at which its lanes meet again (the immediate post-dominator).

mod branches;
mod flow;
pub(crate) mod form;
mod names;
mod shared_layout;
pub(crate) mod types;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::error::Error;
use crate::execute::control::Control;
use crate::execute::lanes::Slot;
use crate::execute::{self, Instruction, Operation};
use crate::parse::ast;
use form::Form;

/// Most instructions an entry may have once its calls are inlined.
const INSTRUCTION_LIMIT: usize = 1 << 19;
/// Most bytes of local memory a thread may have.
pub(crate) const LOCAL_LIMIT: u64 = 512 << 10;
/// No slot, no label, no reconvergence point.
pub(crate) const NONE: u32 = u32::MAX;

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Symbol {
    /// Slot and declared bits.
    R32(Slot, u32),
    R64(Slot),
    Predicate(Slot),
    Shared(u32),
    Local(u32),
    Param(u32),
    /// A parameter of a call, in the thread's local memory.
    CallParam(u32),
    Global(usize),
}

/// Special registers that are constant for a thread; they are slots filled when a block starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Lane,
    Warp,
    Warps,
    LaneMask(LaneMask),
    Constant(u32),
    DynamicShared,
    TotalShared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LaneMask {
    Eq,
    Le,
    Lt,
    Ge,
    Gt,
}

/// Where an instruction comes from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub line: u32,
    pub text: String,
    pub location: Option<ast::SourceLocation>,
}

/// A decoded entry.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub code: Vec<Instruction>,
    /// For each instruction the index of its origin.
    pub origin: Vec<u32>,
    pub origins: Vec<Origin>,
    pub slots32: u32,
    pub slots64: u32,
    pub predicates: u32,
    pub constants32: Vec<(Slot, u32)>,
    pub constants64: Vec<(Slot, u64)>,
    pub constant_predicates: Vec<(Slot, bool)>,
    pub globals: Vec<(Slot, usize, i64)>,
    pub specials: Vec<(Slot, Special)>,
    /// Registers of the program itself: they start as zero in every block.
    pub undefined32: Vec<Slot>,
    pub undefined64: Vec<Slot>,
    pub undefined_predicates: Vec<Slot>,
    pub local_bytes: u32,
    pub static_shared: u32,
    /// Dynamic shared memory is declared and mentioned.
    pub dynamic_shared: bool,
    pub uses_tensor_maps: bool,
    /// Whether blocks may order their accesses to global memory.
    pub orders_blocks: bool,
    pub param_bytes: u32,
    pub parameters: Vec<ParameterPlace>,
}

#[derive(Debug, Clone)]
pub(crate) struct ParameterPlace {
    pub name: String,
    pub offset: u32,
    pub size: u32,
    pub align: u32,
}

#[derive(Default)]
struct Scope<'m> {
    ranges: Vec<(&'m str, Option<u32>, u32)>,
    symbols: HashMap<&'m str, Symbol>,
    labels: HashMap<&'m str, u32>,
    targets: HashMap<&'m str, &'m [String]>,
}

pub(crate) struct Decoder<'m> {
    module: &'m ast::Module,
    /// Names of module variables, with their index for global ones.
    variables: HashMap<&'m str, usize>,
    shared: HashMap<(usize, usize), u32>,
    module_shared: HashMap<&'m str, u32>,
    scopes: Vec<Scope<'m>>,
    labels: Vec<u32>,
    program: Program,
    constants32: HashMap<u32, Slot>,
    constants64: HashMap<u64, Slot>,
    constant_predicates: HashMap<bool, Slot>,
    globals: HashMap<(usize, i64), Slot>,
    specials: HashMap<Special, Slot>,
    return_label: Option<u32>,
    calls: Vec<usize>,
    current: u32,
    guard: (u32, bool),
    carry: Option<Slot>,
    /// The entry has `wgmma`: registers of each instruction are noted.
    warpgroups: bool,
    touched: Vec<Slot>,
    touches: Vec<(usize, Vec<Slot>)>,
}

fn align_up(at: u64, align: u64) -> u64 {
    at.next_multiple_of(align.max(1))
}

fn mentions_wgmma(module: &ast::Module) -> bool {
    let wgmma = |s: &ast::Statement| matches!(s, ast::Statement::Instruction(i) if i.opcode.starts_with("wgmma."));
    module.functions.iter().any(|f| f.body.iter().flatten().any(wgmma))
}

/// Index of module-scope global and constant data is the index in `module.variables`; shared ones are laid out per entry.
pub(crate) fn entry(module: &ast::Module, index: usize) -> Result<Program, Error> {
    let function = &module.functions[index];
    let mut d = Decoder {
        module,
        variables: module.variables.iter().enumerate().map(|(i, v)| (v.name.as_str(), i)).collect(),
        shared: HashMap::new(),
        module_shared: HashMap::new(),
        scopes: Vec::new(),
        labels: Vec::new(),
        program: Program::default(),
        constants32: HashMap::new(),
        constants64: HashMap::new(),
        constant_predicates: HashMap::new(),
        globals: HashMap::new(),
        specials: HashMap::new(),
        return_label: None,
        calls: vec![index],
        current: 0,
        guard: (NONE, false),
        carry: None,
        warpgroups: mentions_wgmma(module),
        touched: Vec::new(),
        touches: Vec::new(),
    };
    d.lay_out_shared(index)?;
    let mut scope = Scope::default();
    let mut offset = 0u64;
    for p in &function.parameters {
        offset = align_up(offset, p.align);
        scope.symbols.insert(&p.name, Symbol::Param(offset as u32));
        d.program.parameters.push(ParameterPlace {
            name: p.name.clone(),
            offset: offset as u32,
            size: p.size as u32,
            align: p.align as u32,
        });
        offset += p.size;
        if offset > 32 << 10 {
            return Err(Error::parse(p.line, "the parameters have more than 32 KiB"));
        }
    }
    d.program.param_bytes = offset as u32;
    for r in &function.results {
        let at = d.reserve_local(r)?;
        scope.symbols.insert(&r.name, Symbol::CallParam(at));
    }
    d.scopes.push(scope);
    d.body(function, index)?;
    d.guard = (NONE, false);
    d.emit(Operation::Control(Control::Exit))?;
    d.finish()
}

/// Checks functions that no entry calls, too: decodes each as if it were called.
pub(crate) fn function(module: &ast::Module, index: usize) -> Result<(), Error> {
    if module.functions[index].parameters.iter().any(|p| p.size > 4096) {
        return Err(Error::parse(module.functions[index].line, "a parameter of the function has more than 4096 bytes"));
    }
    entry(module, index).map(drop)
}

impl<'m> Decoder<'m> {
    #[cold]
    pub(crate) fn error(&self, ins: &ast::Instruction, message: impl Into<String>) -> Error {
        Error::Instruction { line: ins.line, message: message.into(), text: ins.text.clone() }
    }

    fn body(&mut self, function: &'m ast::Function, index: usize) -> Result<(), Error> {
        let Some(body) = &function.body else {
            return Err(Error::parse(function.line, format!("function `{}` has no body", function.name)));
        };
        self.open(body, 0);
        for (at, statement) in body.iter().enumerate() {
            match statement {
                ast::Statement::Open => self.open(body, at + 1),
                ast::Statement::Close => drop(self.scopes.pop()),
                ast::Statement::Label(name, line) => {
                    let here = self.program.code.len() as u32;
                    match self.label(name) {
                        Some(label) if self.labels[label as usize] == NONE => self.labels[label as usize] = here,
                        _ => return Err(Error::parse(*line, format!("label `{name}` is defined twice"))),
                    }
                }
                ast::Statement::Registers { name, count, bits, line } => {
                    if *bits == 128 {
                        return Err(Error::parse(*line, "128-bit registers are not supported"));
                    }
                    if let Some(scope) = self.scopes.last_mut() {
                        scope.ranges.push((name, *count, *bits));
                    }
                }
                ast::Statement::BranchTargets(name, labels) => {
                    if let Some(scope) = self.scopes.last_mut() {
                        scope.targets.insert(name, labels);
                    }
                }
                ast::Statement::Variable(v) => {
                    let symbol = match v.space {
                        ast::Space::Shared => Symbol::Shared(self.shared.get(&(index, at)).copied().unwrap_or(0)),
                        ast::Space::Local => Symbol::Local(self.reserve_local(v)?),
                        ast::Space::Param => Symbol::CallParam(self.reserve_local(v)?),
                        ast::Space::Global | ast::Space::Const => {
                            return Err(Error::parse(v.line, "declare global and constant data at module scope"));
                        }
                    };
                    if let Some(scope) = self.scopes.last_mut() {
                        scope.symbols.insert(&v.name, symbol);
                    }
                }
                ast::Statement::Instruction(ins) => self.instruction(ins)?,
            }
        }
        self.scopes.pop();
        Ok(())
    }

    fn reserve_local(&mut self, v: &ast::Variable) -> Result<u32, Error> {
        let at = align_up(u64::from(self.program.local_bytes), v.align.max(8));
        let end = at + v.size;
        if end > LOCAL_LIMIT {
            return Err(Error::parse(v.line, format!("more than {LOCAL_LIMIT} bytes of local memory")));
        }
        self.program.local_bytes = end as u32;
        Ok(at as u32)
    }

    /// Opens a scope and makes the labels that lie directly in it known.
    fn open(&mut self, body: &'m [ast::Statement], from: usize) {
        let mut scope = Scope::default();
        let mut depth = 0usize;
        for statement in &body[from.min(body.len())..] {
            match statement {
                ast::Statement::Open => depth += 1,
                ast::Statement::Close if depth == 0 => break,
                ast::Statement::Close => depth -= 1,
                ast::Statement::Label(name, _) if depth == 0 => {
                    scope.labels.insert(name, self.labels.len() as u32);
                    self.labels.push(NONE);
                }
                _ => {}
            }
        }
        self.scopes.push(scope);
    }

    fn label(&self, name: &str) -> Option<u32> {
        self.scopes.iter().rev().find_map(|s| s.labels.get(name).copied())
    }
    fn new_label(&mut self) -> u32 {
        self.labels.push(NONE);
        self.labels.len() as u32 - 1
    }

    fn push(&mut self, op: Operation, guard: (u32, bool)) {
        self.program.code.push(Instruction { op, guard: guard.0, negated: guard.1 });
        self.program.origin.push(self.current);
    }
    pub(crate) fn emit(&mut self, op: Operation) -> Result<(), Error> {
        if self.program.code.len() >= INSTRUCTION_LIMIT {
            return Err(Error::parse(
                self.program.origins.last().map_or(0, |o| o.line),
                format!("more than {INSTRUCTION_LIMIT} instructions once calls are inlined"),
            ));
        }
        self.push(op, self.guard);
        Ok(())
    }

    fn instruction(&mut self, ins: &'m ast::Instruction) -> Result<(), Error> {
        self.current = self.program.origins.len() as u32;
        self.program.origins.push(Origin { line: ins.line, text: ins.text.clone(), location: ins.location });
        self.guard = match &ins.guard {
            None => (NONE, false),
            Some((name, negated)) => match self.lookup(name) {
                Some(Symbol::Predicate(slot)) => (slot, *negated),
                _ => return Err(self.error(ins, format!("guard `{name}` is no predicate"))),
            },
        };
        let name = ins.opcode.split('.').next().unwrap_or("");
        match name {
            "bra" => self.branch(ins),
            "brx" => self.indexed_branch(ins),
            "call" => self.call(ins),
            "ret" | "exit" => {
                let mut form = Form::new(self, ins);
                form.flag("uni");
                form.done()?;
                form.need_count(0)?;
                match self.return_label {
                    Some(label) if name == "ret" => {
                        self.emit(Operation::Control(Control::Branch { target: label, meet: NONE }))
                    }
                    _ => self.emit(Operation::Control(Control::Exit)),
                }
            }
            _ => {
                self.touched.clear();
                let mut form = Form::new(self, ins);
                let op = execute::decode(&mut form)?;
                form.done()?;
                if !self.touched.is_empty() {
                    self.touches.push((self.program.code.len(), std::mem::take(&mut self.touched)));
                }
                self.emit(op)
            }
        }
    }

    fn finish(mut self) -> Result<Program, Error> {
        for i in 0..self.program.code.len() {
            if let Operation::Control(Control::Branch { target, .. }) = &mut self.program.code[i].op {
                *target = self.labels[*target as usize];
            }
        }
        flow::set_meeting_points(&mut self.program.code);
        execute::wgmma_registers::watch(&mut self.program.code, std::mem::take(&mut self.touches));
        let p = &mut self.program;
        let fixed: HashSet<Slot> = p.constants32.iter().map(|c| c.0).chain(p.specials.iter().map(|s| s.0)).collect();
        p.undefined32 = (0..p.slots32).filter(|s| !fixed.contains(s)).collect();
        let fixed: HashSet<Slot> = p.constants64.iter().map(|c| c.0).chain(p.globals.iter().map(|g| g.0)).collect();
        p.undefined64 = (0..p.slots64).filter(|s| !fixed.contains(s)).collect();
        let fixed: HashSet<Slot> = p.constant_predicates.iter().map(|c| c.0).collect();
        p.undefined_predicates = (0..p.predicates).filter(|s| !fixed.contains(s)).collect();
        p.orders_blocks = p.code.iter().any(|instruction| instruction.op.orders_blocks());
        Ok(self.program)
    }
}

/// Files named by `.file`, for `.loc`.
pub(crate) fn render_location(files: &BTreeMap<u32, String>, at: ast::SourceLocation) -> String {
    match files.get(&at.file) {
        Some(name) => format!("{name}:{}:{}", at.line, at.column),
        None => format!("file {}:{}:{}", at.file, at.line, at.column),
    }
}
