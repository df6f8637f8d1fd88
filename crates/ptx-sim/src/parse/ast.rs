//! What a PTX source says, with lines, before any meaning is given to opcodes.

use std::collections::BTreeMap;

/// A source position given by `.loc`: file index of `.file`, line and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceLocation {
    pub file: u32,
    pub line: u32,
    pub column: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Module {
    pub version: (u32, u32),
    pub target: String,
    pub files: BTreeMap<u32, String>,
    pub variables: Vec<Variable>,
    pub functions: Vec<Function>,
}

/// State space of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Const,
    Shared,
    Local,
    Param,
}

#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub space: Space,
    pub name: String,
    /// In bytes; 0 for an unsized `.extern` array.
    pub size: u64,
    pub align: u64,
    pub is_extern: bool,
    /// Initialiser as element values; element width in bytes.
    pub element: u32,
    pub values: Vec<Initialiser>,
    pub line: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Initialiser {
    Bits(u64),
    Symbol(String, i64),
}

#[derive(Debug)]
pub(crate) struct Function {
    pub entry: bool,
    pub name: String,
    pub line: u32,
    pub parameters: Vec<Variable>,
    pub results: Vec<Variable>,
    pub required_threads: Option<[u32; 3]>,
    pub maximum_threads: Option<[u32; 3]>,
    /// Blocks of a cluster.
    pub cluster: Option<[u32; 3]>,
    /// `None` for a declaration.
    pub body: Option<Vec<Statement>>,
}

#[derive(Debug)]
pub(crate) enum Statement {
    Open,
    Close,
    Label(String, u32),
    /// Name prefix, count (`None`: the single name), bits (1 for predicates).
    Registers {
        name: String,
        count: Option<u32>,
        bits: u32,
        line: u32,
    },
    Variable(Variable),
    /// A named list of labels for `brx.idx`.
    BranchTargets(String, Vec<String>),
    Instruction(Instruction),
}

#[derive(Debug)]
pub(crate) struct Instruction {
    /// Guard register and whether it is negated.
    pub guard: Option<(String, bool)>,
    pub opcode: String,
    pub operands: Vec<Operand>,
    pub line: u32,
    pub text: String,
    pub location: Option<SourceLocation>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    /// A register, variable, label or function name.
    Name(String),
    /// `name + offset` outside brackets.
    NameOffset(String, i64),
    Integer(u64),
    /// An integer written with a minus sign, already negated.
    Negative(u64),
    F32(u32),
    F64(u64),
    /// `!p`.
    Not(String),
    /// `a|b`.
    Pair(String, String),
    /// `{a, b, …}`.
    Vector(Vec<Operand>),
    /// `(a, b, …)`.
    List(Vec<Operand>),
    /// `[base + offset, …]`.
    Address(Box<Operand>, i64, Vec<Operand>),
}
