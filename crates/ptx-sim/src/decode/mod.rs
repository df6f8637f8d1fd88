//! Syntax tree to dense instructions.
//!
//! - Every opcode, modifier, type and operand is checked here, whether or not the instruction is ever reached.
//! - Registers, constants, special registers and variable addresses all become slots of the register files, so that
//!   instructions hold nothing but slot numbers.
//! - Calls of device functions are inlined; recursion is refused. After decoding there is one flat list of instructions.
//! - Every branch knows the instruction at which its lanes meet again (the immediate post-dominator).

mod flow;
pub(crate) mod form;
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
/// Deepest chain of calls.
const CALL_LIMIT: usize = 64;
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
}

fn align_up(at: u64, align: u64) -> u64 {
    at.next_multiple_of(align.max(1))
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

    /// Static shared memory: the module-scope variables that the entry or any device function mentions, then those of bodies.
    fn lay_out_shared(&mut self, index: usize) -> Result<(), Error> {
        let module = self.module;
        let reached = |i: usize, f: &ast::Function| i == index || !f.entry;
        let mut mentioned = HashSet::new();
        for (_, f) in module.functions.iter().enumerate().filter(|(i, f)| reached(*i, f)) {
            for s in f.body.iter().flatten() {
                if let ast::Statement::Instruction(ins) = s {
                    ins.operands.iter().for_each(|o| mention(o, &mut mentioned));
                }
            }
        }
        let mut at = 0u64;
        let place = |v: &ast::Variable, at: &mut u64| -> Result<u32, Error> {
            *at = align_up(*at, v.align);
            let offset = *at;
            *at += v.size;
            if *at > 1 << 20 {
                return Err(Error::parse(v.line, "the shared variables have more than 1 MiB"));
            }
            Ok(offset as u32)
        };
        for v in module.variables.iter().filter(|v| v.space == ast::Space::Shared && v.size > 0) {
            if mentioned.contains(v.name.as_str()) {
                let offset = place(v, &mut at)?;
                self.module_shared.insert(&v.name, offset);
            }
        }
        for (i, f) in module.functions.iter().enumerate().filter(|(i, f)| reached(*i, f)) {
            for (j, s) in f.body.iter().flatten().enumerate() {
                if let ast::Statement::Variable(v) = s
                    && v.space == ast::Space::Shared
                {
                    let offset = place(v, &mut at)?;
                    self.shared.insert((i, j), offset);
                }
            }
        }
        let dynamic = module.variables.iter().filter(|v| v.space == ast::Space::Shared && v.size == 0);
        let align = dynamic.clone().map(|v| v.align).max().unwrap_or(1);
        let base = align_up(at, align);
        for v in dynamic {
            self.module_shared.insert(&v.name, base as u32);
        }
        self.program.static_shared = base as u32;
        Ok(())
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

    pub(crate) fn new32(&mut self) -> Slot {
        self.program.slots32 += 1;
        self.program.slots32 - 1
    }
    pub(crate) fn new64(&mut self) -> Slot {
        self.program.slots64 += 1;
        self.program.slots64 - 1
    }
    pub(crate) fn new_predicate(&mut self) -> Slot {
        self.program.predicates += 1;
        self.program.predicates - 1
    }
    pub(crate) fn constant32(&mut self, value: u32) -> Slot {
        if let Some(&slot) = self.constants32.get(&value) {
            return slot;
        }
        let slot = self.new32();
        self.constants32.insert(value, slot);
        self.program.constants32.push((slot, value));
        slot
    }
    pub(crate) fn constant64(&mut self, value: u64) -> Slot {
        if let Some(&slot) = self.constants64.get(&value) {
            return slot;
        }
        let slot = self.new64();
        self.constants64.insert(value, slot);
        self.program.constants64.push((slot, value));
        slot
    }
    pub(crate) fn constant_predicate(&mut self, value: bool) -> Slot {
        if let Some(&slot) = self.constant_predicates.get(&value) {
            return slot;
        }
        let slot = self.new_predicate();
        self.constant_predicates.insert(value, slot);
        self.program.constant_predicates.push((slot, value));
        slot
    }
    fn global_address(&mut self, index: usize, offset: i64) -> Slot {
        if let Some(&slot) = self.globals.get(&(index, offset)) {
            return slot;
        }
        let slot = self.new64();
        self.globals.insert((index, offset), slot);
        self.program.globals.push((slot, index, offset));
        slot
    }
    /// The condition-code register of the carry instructions.
    pub(crate) fn carry(&mut self) -> Slot {
        match self.carry {
            Some(slot) => slot,
            None => {
                let slot = self.new_predicate();
                self.carry = Some(slot);
                slot
            }
        }
    }
    /// Low half of a 64-bit register in a slot of its own.
    fn truncated(&mut self, slot: Slot) -> Slot {
        let d = self.new32();
        self.push(Operation::Convert(execute::convert::Op::truncate(d, slot)), (NONE, false));
        d
    }

    /// Slot of a special register.
    pub(crate) fn special(&mut self, name: &str, wide: bool) -> Option<Slot> {
        use Special::*;
        let (base, axis) = name.split_once('.').map_or((name, 0), |(b, a)| {
            (
                b,
                match a {
                    "x" => 0,
                    "y" => 1,
                    "z" => 2,
                    _ => 9,
                },
            )
        });
        let special = match base {
            "%tid" if axis < 3 => Tid(axis),
            "%ntid" if axis < 3 => Ntid(axis),
            "%ctaid" | "%clusterid" if axis < 3 => Ctaid(axis),
            "%nctaid" | "%nclusterid" if axis < 3 => Nctaid(axis),
            "%cluster_ctaid" | "%cluster_ctarank" if axis < 3 => Constant(0),
            "%cluster_nctaid" | "%cluster_nctarank" if axis < 3 => Constant(1),
            "%laneid" => Lane,
            "%warpid" => Warp,
            "%nwarpid" => Warps,
            "%smid" | "%gridid" => Constant(0),
            "%nsmid" => Constant(1),
            "%lanemask_eq" => LaneMask(self::LaneMask::Eq),
            "%lanemask_le" => LaneMask(self::LaneMask::Le),
            "%lanemask_lt" => LaneMask(self::LaneMask::Lt),
            "%lanemask_ge" => LaneMask(self::LaneMask::Ge),
            "%lanemask_gt" => LaneMask(self::LaneMask::Gt),
            "%dynamic_smem_size" => DynamicShared,
            "%total_smem_size" => TotalShared,
            "%clock" | "%clock_hi" | "%clock64" | "%globaltimer" | "%globaltimer_lo" | "%globaltimer_hi" => {
                let high = base.ends_with("_hi");
                let d = if wide { self.new64() } else { self.new32() };
                self.push(Operation::Move(execute::moves::Op::Clock { d, wide, high }), (NONE, false));
                return Some(d);
            }
            _ => return None,
        };
        let slot = match self.specials.get(&special) {
            Some(&slot) => slot,
            None => {
                let slot = self.new32();
                self.specials.insert(special, slot);
                self.program.specials.push((slot, special));
                slot
            }
        };
        if !wide {
            return Some(slot);
        }
        let d = self.new64();
        self.push(Operation::Convert(execute::convert::Op::extend(d, slot)), (NONE, false));
        Some(d)
    }

    /// What a name stands for; registers get their slot when first named.
    pub(crate) fn lookup(&mut self, name: &'m str) -> Option<Symbol> {
        for i in (0..self.scopes.len()).rev() {
            if let Some(&symbol) = self.scopes[i].symbols.get(name) {
                return Some(symbol);
            }
            let found = self.scopes[i].ranges.iter().find_map(|&(prefix, count, bits)| {
                let tail = name.strip_prefix(prefix)?;
                let hit = match count {
                    None => tail.is_empty(),
                    Some(count) => {
                        !tail.is_empty()
                            && tail.bytes().all(|c| c.is_ascii_digit())
                            && (tail == "0" || !tail.starts_with('0'))
                            && tail.parse::<u32>().is_ok_and(|n| n < count)
                    }
                };
                hit.then_some(bits)
            });
            if let Some(bits) = found {
                let symbol = match bits {
                    1 => Symbol::Predicate(self.new_predicate()),
                    64 => Symbol::R64(self.new64()),
                    _ => Symbol::R32(self.new32(), bits),
                };
                self.scopes[i].symbols.insert(name, symbol);
                return Some(symbol);
            }
        }
        if let Some(&at) = self.module_shared.get(name) {
            return Some(Symbol::Shared(at));
        }
        let &index = self.variables.get(name)?;
        match self.module.variables[index].space {
            ast::Space::Global | ast::Space::Const => Some(Symbol::Global(index)),
            _ => None,
        }
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
                let mut form = Form::new(self, ins);
                let op = execute::decode(&mut form)?;
                form.done()?;
                self.emit(op)
            }
        }
    }

    fn branch(&mut self, ins: &'m ast::Instruction) -> Result<(), Error> {
        let mut form = Form::new(self, ins);
        form.flag("uni");
        form.done()?;
        form.need_count(1)?;
        let ast::Operand::Name(name) = form.operand(0)? else { return form.error("expected a label") };
        let Some(target) = self.label(name) else {
            return Err(self.error(ins, format!("label `{name}` is not known")));
        };
        self.emit(Operation::Control(Control::Branch { target, meet: NONE }))
    }

    /// A chain of compares and branches; an index beyond the list takes the last label.
    fn indexed_branch(&mut self, ins: &'m ast::Instruction) -> Result<(), Error> {
        let mut form = Form::new(self, ins);
        if !form.flag("idx") {
            return form.error("expected brx.idx");
        }
        form.flag("uni");
        form.done()?;
        form.need_count(2)?;
        let index = form.src(0, types::Type::U32)?;
        let ast::Operand::Name(list) = form.operand(1)? else { return form.error("expected a list of targets") };
        let Some(labels) = self.scopes.iter().rev().find_map(|s| s.targets.get(list.as_str()).copied()) else {
            return Err(self.error(ins, format!("list of targets `{list}` is not known")));
        };
        let outer = self.guard;
        for (i, name) in labels.iter().enumerate() {
            let Some(target) = self.label(name) else {
                return Err(self.error(ins, format!("label `{name}` is not known")));
            };
            if i + 1 < labels.len() {
                let p = self.new_predicate();
                let value = self.constant32(i as u32);
                self.guard = outer;
                // Lanes that the guard excludes must not branch: their predicate is cleared first.
                let never = self.constant_predicate(false);
                self.guard = (NONE, false);
                self.emit(Operation::Compare(execute::compare::Op::copy_predicate(p, never)))?;
                self.guard = outer;
                self.emit(Operation::Compare(execute::compare::Op::equal(p, index, value)))?;
                self.guard = (p, false);
            } else {
                self.guard = outer;
            }
            self.emit(Operation::Control(Control::Branch { target, meet: NONE }))?;
        }
        Ok(())
    }

    fn call(&mut self, ins: &'m ast::Instruction) -> Result<(), Error> {
        let mut form = Form::new(self, ins);
        form.flag("uni");
        form.done()?;
        let mut operands = &ins.operands[..];
        let (mut results, mut arguments): (&[ast::Operand], &[ast::Operand]) = (&[], &[]);
        if let [ast::Operand::List(list), rest @ ..] = operands {
            results = list;
            operands = rest;
        }
        let [ast::Operand::Name(name), rest @ ..] = operands else {
            return form.error("expected the name of a function");
        };
        if let [ast::Operand::List(list)] = rest {
            arguments = list;
        } else if !rest.is_empty() {
            return form.error("indirect calls are not supported");
        }
        let module = self.module;
        let Some(index) = module.functions.iter().position(|f| f.name == *name && !f.entry) else {
            return Err(self.error(ins, format!("function `{name}` is not known")));
        };
        let callee = &module.functions[index];
        if callee.body.is_none() {
            return Err(self.error(ins, format!("function `{name}` has no body")));
        }
        if self.calls.contains(&index) || self.calls.len() >= CALL_LIMIT {
            return Err(self.error(ins, "recursive or too deeply nested calls are not supported"));
        }
        if callee.parameters.len() != arguments.len() || callee.results.len() != results.len() {
            return Err(self.error(ins, "the call does not fit the declaration of the function"));
        }
        let mut scope = Scope::default();
        for (formal, actual) in callee.parameters.iter().zip(arguments).chain(callee.results.iter().zip(results)) {
            let symbol = match actual {
                ast::Operand::Name(n) => self.lookup(n),
                _ => None,
            };
            let Some(symbol @ Symbol::CallParam(_)) = symbol else {
                return Err(self.error(ins, "arguments and results of calls must be .param variables"));
            };
            scope.symbols.insert(&formal.name, symbol);
        }
        let guard = self.guard;
        let after = self.new_label();
        if guard.0 != NONE {
            self.guard = (guard.0, !guard.1);
            self.emit(Operation::Control(Control::Branch { target: after, meet: NONE }))?;
        }
        let scopes = std::mem::replace(&mut self.scopes, vec![scope]);
        let return_label = self.return_label.replace(after);
        self.calls.push(index);
        self.body(callee, index)?;
        self.calls.pop();
        self.scopes = scopes;
        self.return_label = return_label;
        self.labels[after as usize] = self.program.code.len() as u32;
        Ok(())
    }

    fn finish(mut self) -> Result<Program, Error> {
        for i in 0..self.program.code.len() {
            if let Operation::Control(Control::Branch { target, .. }) = &mut self.program.code[i].op {
                *target = self.labels[*target as usize];
            }
        }
        flow::set_meeting_points(&mut self.program.code);
        let p = &mut self.program;
        let fixed: HashSet<Slot> = p.constants32.iter().map(|c| c.0).chain(p.specials.iter().map(|s| s.0)).collect();
        p.undefined32 = (0..p.slots32).filter(|s| !fixed.contains(s)).collect();
        let fixed: HashSet<Slot> = p.constants64.iter().map(|c| c.0).chain(p.globals.iter().map(|g| g.0)).collect();
        p.undefined64 = (0..p.slots64).filter(|s| !fixed.contains(s)).collect();
        let fixed: HashSet<Slot> = p.constant_predicates.iter().map(|c| c.0).collect();
        p.undefined_predicates = (0..p.predicates).filter(|s| !fixed.contains(s)).collect();
        Ok(self.program)
    }
}

fn mention<'m>(operand: &'m ast::Operand, names: &mut HashSet<&'m str>) {
    match operand {
        ast::Operand::Name(n) | ast::Operand::NameOffset(n, _) => {
            names.insert(n);
        }
        ast::Operand::Vector(v) | ast::Operand::List(v) => v.iter().for_each(|o| mention(o, names)),
        ast::Operand::Address(base, _, rest) => {
            mention(base, names);
            rest.iter().for_each(|o| mention(o, names));
        }
        _ => {}
    }
}

/// Files named by `.file`, for `.loc`.
pub(crate) fn render_location(files: &BTreeMap<u32, String>, at: ast::SourceLocation) -> String {
    match files.get(&at.file) {
        Some(name) => format!("{name}:{}:{}", at.line, at.column),
        None => format!("file {}:{}:{}", at.file, at.line, at.column),
    }
}
