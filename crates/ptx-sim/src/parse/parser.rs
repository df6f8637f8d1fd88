//! The grammar: module directives, functions, statements and operands.

use super::ast::{Function, Initialiser, Instruction, Module, Operand, SourceLocation, Space, Statement, Variable};
use super::lexer::{Kind, Token, tokens};
use crate::error::Error;

/// Deepest nesting of operands and of `{ … }` scopes.
pub(crate) const DEPTH_LIMIT: u32 = 32;
/// Most bytes one variable may have.
const VARIABLE_LIMIT: u64 = 4 << 30;
/// Most registers one declaration may name.
const REGISTER_LIMIT: u64 = 1 << 20;

/// Parses a whole module.
pub(crate) fn module(source: &str) -> Result<Module, Error> {
    let mut p = Parser { source, tokens: tokens(source)?, at: 0, location: None };
    let mut module = Module::default();
    p.module(&mut module)?;
    Ok(module)
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    location: Option<SourceLocation>,
}

/// Bytes of a fundamental type name without its dot.
fn type_bits(name: &str) -> Option<u32> {
    Some(match name {
        ".pred" => 1,
        ".b8" | ".u8" | ".s8" => 8,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 16,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 32,
        ".b64" | ".u64" | ".s64" | ".f64" => 64,
        ".b128" => 128,
        _ => return None,
    })
}

impl<'a> Parser<'a> {
    fn token(&self) -> Token<'a> {
        self.tokens[self.at]
    }
    fn peek(&self) -> Kind<'a> {
        self.tokens[self.at].kind
    }
    fn peek_second(&self) -> Kind<'a> {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
    }
    fn line(&self) -> u32 {
        self.tokens[self.at].line
    }
    fn next(&mut self) -> Token<'a> {
        let t = self.tokens[self.at];
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        t
    }
    fn fail<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error::parse(self.line(), message))
    }
    fn found(&self) -> String {
        let t = self.token();
        match t.kind {
            Kind::End => "the end of the source".into(),
            _ => format!("`{}`", &self.source[t.start..t.end]),
        }
    }
    fn eat(&mut self, mark: u8) -> bool {
        let hit = self.peek() == Kind::Mark(mark);
        if hit {
            self.next();
        }
        hit
    }
    fn need(&mut self, mark: u8) -> Result<(), Error> {
        if self.eat(mark) { Ok(()) } else { self.fail(format!("expected `{}`, found {}", mark as char, self.found())) }
    }
    fn word(&mut self) -> Result<&'a str, Error> {
        match self.peek() {
            Kind::Word(w) => {
                self.next();
                Ok(w)
            }
            _ => self.fail(format!("expected a name, found {}", self.found())),
        }
    }
    fn integer(&mut self) -> Result<u64, Error> {
        match self.peek() {
            Kind::Integer(v) => {
                self.next();
                Ok(v)
            }
            _ => self.fail(format!("expected an integer, found {}", self.found())),
        }
    }
    fn small(&mut self) -> Result<u32, Error> {
        let value = self.integer()?;
        u32::try_from(value).or_else(|_| self.fail(format!("{value} is too large")))
    }

    fn module(&mut self, module: &mut Module) -> Result<(), Error> {
        loop {
            let word = match self.peek() {
                Kind::End => break,
                Kind::Word(w) => w,
                Kind::Mark(b';') => {
                    self.next();
                    continue;
                }
                _ => return self.fail(format!("expected a directive, found {}", self.found())),
            };
            match word {
                ".version" => {
                    self.next();
                    module.version = match self.next().kind {
                        Kind::F64(bits) => {
                            let v = f64::from_bits(bits);
                            (v as u32, ((v - v.floor()) * 10.0).round() as u32)
                        }
                        Kind::Integer(v) => (v.min(1000) as u32, 0),
                        _ => return self.fail("expected a version number"),
                    };
                }
                ".target" => {
                    self.next();
                    module.target = self.word()?.to_owned();
                    while self.eat(b',') {
                        self.word()?;
                    }
                }
                ".address_size" => {
                    self.next();
                    if self.integer()? != 64 {
                        return self.fail("only .address_size 64 is supported");
                    }
                }
                ".file" => self.file(module)?,
                ".loc" => self.loc()?,
                ".section" => self.section()?,
                ".pragma" => self.pragma()?,
                ".alias" => return self.fail(".alias is not supported"),
                _ => self.declaration(module)?,
            }
        }
        if module.target.is_empty() {
            return self.fail("the module has no .target directive");
        }
        Ok(())
    }

    fn pragma(&mut self) -> Result<(), Error> {
        self.next();
        while let Kind::Text(_) = self.peek() {
            self.next();
            self.eat(b',');
        }
        self.need(b';')
    }

    fn file(&mut self, module: &mut Module) -> Result<(), Error> {
        self.next();
        let index = self.small()?;
        let Kind::Text(name) = self.next().kind else { return self.fail("expected a file name") };
        module.files.insert(index, name.to_owned());
        while self.eat(b',') {
            self.integer()?;
        }
        Ok(())
    }

    fn loc(&mut self) -> Result<(), Error> {
        self.next();
        let file = self.small()?;
        let line = self.small()?;
        let column = self.small()?;
        self.location = Some(SourceLocation { file, line, column });
        while self.eat(b',') {
            self.word()?;
            loop {
                match self.peek() {
                    Kind::Integer(_) => {
                        self.next();
                    }
                    Kind::Word(w) if !w.starts_with('.') && matches!(self.peek_second(), Kind::Mark(b',' | b'+')) => {
                        self.next();
                        if self.eat(b'+') {
                            self.integer()?;
                        }
                    }
                    _ => break,
                }
            }
        }
        Ok(())
    }

    fn section(&mut self) -> Result<(), Error> {
        self.next();
        self.word()?;
        self.need(b'{')?;
        let mut depth = 1u32;
        while depth > 0 {
            match self.next().kind {
                Kind::Mark(b'{') => depth += 1,
                Kind::Mark(b'}') => depth -= 1,
                Kind::End => return self.fail("section without an end"),
                _ => {}
            }
        }
        Ok(())
    }

    /// A function or a module-scope variable, with its linkage.
    fn declaration(&mut self, module: &mut Module) -> Result<(), Error> {
        let mut is_extern = false;
        loop {
            match self.peek() {
                Kind::Word(".visible" | ".weak" | ".common") => {
                    self.next();
                }
                Kind::Word(".extern") => {
                    self.next();
                    is_extern = true;
                }
                Kind::Word(".entry" | ".func") => {
                    let function = self.function()?;
                    match module.functions.iter_mut().find(|f| f.name == function.name) {
                        Some(known) if known.body.is_none() => *known = function,
                        Some(_) if function.body.is_none() => {}
                        Some(_) => return self.fail(format!("`{}` is defined twice", function.name)),
                        None => module.functions.push(function),
                    }
                    return Ok(());
                }
                Kind::Word(".global" | ".const" | ".shared") => {
                    let variables = self.variables(is_extern)?;
                    for v in variables {
                        if module.variables.iter().any(|known| known.name == v.name) {
                            if !v.is_extern {
                                return self.fail(format!("`{}` is defined twice", v.name));
                            }
                            continue;
                        }
                        module.variables.push(v);
                    }
                    return Ok(());
                }
                _ => return self.fail(format!("unknown directive {}", self.found())),
            }
        }
    }

    /// `.space [.align N] .type name[…] [= init] {, name …};` with the cursor on the space.
    fn variables(&mut self, is_extern: bool) -> Result<Vec<Variable>, Error> {
        let mut out = Vec::new();
        let mut first = self.variable(is_extern)?;
        loop {
            if self.eat(b'=') {
                self.initialiser(&mut first)?;
            }
            let template = Variable { values: Vec::new(), ..first.clone() };
            out.push(first);
            if !self.eat(b',') {
                break;
            }
            first = template;
            first.name = self.word()?.to_owned();
            self.extent(&mut first)?;
        }
        self.need(b';')?;
        Ok(out)
    }

    fn space(&mut self) -> Result<Space, Error> {
        let word = self.word()?;
        Ok(match word {
            ".global" => Space::Global,
            ".const" => Space::Const,
            ".shared" => Space::Shared,
            ".local" => Space::Local,
            ".param" => Space::Param,
            _ => return self.fail(format!("`{word}` is no state space")),
        })
    }

    fn variable(&mut self, is_extern: bool) -> Result<Variable, Error> {
        let line = self.line();
        let space = self.space()?;
        let mut align = 0;
        let mut lanes = 1u32;
        let element;
        loop {
            let word = self.word()?;
            match word {
                ".align" => align = self.integer()?,
                ".v2" => lanes = 2,
                ".v4" => lanes = 4,
                ".attribute" => {
                    self.need(b'(')?;
                    while !self.eat(b')') {
                        if self.next().kind == Kind::End {
                            return self.fail("attribute without an end");
                        }
                    }
                }
                _ => match type_bits(word) {
                    Some(bits) if bits >= 8 => {
                        element = bits / 8;
                        break;
                    }
                    _ => return self.fail(format!("`{word}` is no type of a variable")),
                },
            }
        }
        // `.ptr .space .align N` describes what a pointer parameter points to; nothing is checked against it.
        if self.peek() == Kind::Word(".ptr") {
            self.next();
            while let Kind::Word(w @ (".global" | ".const" | ".shared" | ".local" | ".align")) = self.peek() {
                self.next();
                if w == ".align" {
                    self.integer()?;
                }
            }
        }
        if !(align == 0 || align.is_power_of_two() && align <= 4096) {
            return self.fail(format!(".align {align} is no power of two up to 4096"));
        }
        let width = element * lanes;
        let mut variable = Variable {
            space,
            name: self.word()?.to_owned(),
            size: u64::from(width),
            align: align.max(u64::from(width)),
            is_extern,
            element: width,
            values: Vec::new(),
            line,
        };
        if align != 0 {
            variable.align = align;
        }
        self.extent(&mut variable)?;
        variable.element = element;
        Ok(variable)
    }

    fn extent(&mut self, v: &mut Variable) -> Result<(), Error> {
        v.size = u64::from(v.element);
        while self.eat(b'[') {
            if self.eat(b']') {
                v.size = 0;
                continue;
            }
            let count = self.integer()?;
            self.need(b']')?;
            v.size = match v.size.checked_mul(count) {
                Some(size) if size <= VARIABLE_LIMIT => size,
                _ => return self.fail(format!("`{}` has more than {VARIABLE_LIMIT} bytes", v.name)),
            };
        }
        Ok(())
    }

    fn initialiser(&mut self, v: &mut Variable) -> Result<(), Error> {
        let mut depth = 0u32;
        loop {
            match self.peek() {
                Kind::Mark(b'{') => {
                    self.next();
                    depth += 1;
                    continue;
                }
                Kind::Mark(b'}') if depth > 0 => {
                    self.next();
                    depth -= 1;
                }
                Kind::Word(word) => {
                    self.next();
                    let name = if word == "generic" {
                        self.need(b'(')?;
                        let name = self.word()?;
                        self.need(b')')?;
                        name
                    } else {
                        word
                    };
                    let offset = self.signed_offset()?;
                    v.values.push(Initialiser::Symbol(name.to_owned(), offset));
                }
                _ => {
                    let bits = match self.operand(0)? {
                        Operand::Integer(bits) | Operand::Negative(bits) | Operand::F64(bits) => bits,
                        Operand::F32(bits) => u64::from(bits),
                        _ => return self.fail("unsupported initialiser"),
                    };
                    v.values.push(Initialiser::Bits(bits));
                }
            }
            if depth == 0 {
                break;
            }
            self.eat(b',');
        }
        if v.size == 0 {
            v.size = v.values.len() as u64 * u64::from(v.element);
        }
        if v.values.len() as u64 * u64::from(v.element) > v.size {
            return self.fail(format!("more initialisers than `{}` has elements", v.name));
        }
        Ok(())
    }

    /// Any number of `+ n` and `- n`.
    fn signed_offset(&mut self) -> Result<i64, Error> {
        let mut total = 0i64;
        loop {
            if self.eat(b'+') {
                let negative = self.eat(b'-');
                let v = self.integer()? as i64;
                total = total.wrapping_add(if negative { v.wrapping_neg() } else { v });
            } else if self.eat(b'-') {
                total = total.wrapping_sub(self.integer()? as i64);
            } else {
                return Ok(total);
            }
        }
    }

    fn function(&mut self) -> Result<Function, Error> {
        let entry = self.word()? == ".entry";
        let mut results = Vec::new();
        if !entry && self.peek() == Kind::Mark(b'(') {
            results = self.parameters()?;
        }
        let line = self.line();
        let name = self.word()?.to_owned();
        let parameters = if self.peek() == Kind::Mark(b'(') { self.parameters()? } else { Vec::new() };
        let mut function = Function {
            entry,
            name,
            line,
            parameters,
            results,
            required_threads: None,
            maximum_threads: None,
            body: None,
        };
        loop {
            match self.peek() {
                Kind::Word(".reqntid") => function.required_threads = Some(self.triple()?),
                Kind::Word(".maxntid") => function.maximum_threads = Some(self.triple()?),
                Kind::Word(".pragma") => self.pragma()?,
                Kind::Word(
                    ".minnctapersm"
                    | ".maxnctapersm"
                    | ".maxnreg"
                    | ".reqnctapercluster"
                    | ".maxclusterrank"
                    | ".abi_preserve"
                    | ".abi_preserve_control",
                ) => {
                    self.triple()?;
                }
                Kind::Word(".noreturn" | ".explicitcluster" | ".blocksareclusters" | ".unified") => {
                    self.next();
                }
                Kind::Mark(b';') => {
                    self.next();
                    return Ok(function);
                }
                Kind::Mark(b'{') => break,
                _ => return self.fail(format!("unexpected {} before the body of `{}`", self.found(), function.name)),
            }
        }
        self.location = None;
        function.body = Some(self.body()?);
        Ok(function)
    }

    fn triple(&mut self) -> Result<[u32; 3], Error> {
        self.next();
        let mut out = [1; 3];
        for (i, value) in out.iter_mut().enumerate() {
            if i == 0 || self.eat(b',') {
                *value = self.small()?;
            }
        }
        Ok(out)
    }

    fn parameters(&mut self) -> Result<Vec<Variable>, Error> {
        self.need(b'(')?;
        let mut out = Vec::new();
        while !self.eat(b')') {
            if self.peek() == Kind::Word(".reg") {
                return self.fail("register parameters of functions are not supported: use .param");
            }
            out.push(self.variable(false)?);
            if self.peek() != Kind::Mark(b')') {
                self.need(b',')?;
            }
        }
        Ok(out)
    }

    fn body(&mut self) -> Result<Vec<Statement>, Error> {
        self.need(b'{')?;
        let mut depth = 1u32;
        let mut out = Vec::new();
        while depth > 0 {
            match self.peek() {
                Kind::Mark(b'{') => {
                    self.next();
                    depth += 1;
                    if depth > DEPTH_LIMIT {
                        return self.fail("scopes are nested too deep");
                    }
                    out.push(Statement::Open);
                }
                Kind::Mark(b'}') => {
                    self.next();
                    depth -= 1;
                    if depth > 0 {
                        out.push(Statement::Close);
                    }
                }
                Kind::Mark(b';') => {
                    self.next();
                }
                Kind::Mark(b'@') => out.push(Statement::Instruction(self.instruction()?)),
                Kind::Word(w) if w.starts_with('.') => self.body_directive(w, &mut out)?,
                Kind::Word(w) if self.peek_second() == Kind::Mark(b':') => {
                    let line = self.line();
                    self.next();
                    self.next();
                    match self.peek() {
                        Kind::Word(".branchtargets") => {
                            self.next();
                            let mut labels = vec![self.word()?.to_owned()];
                            while self.eat(b',') {
                                labels.push(self.word()?.to_owned());
                            }
                            self.need(b';')?;
                            out.push(Statement::BranchTargets(w.to_owned(), labels));
                        }
                        Kind::Word(".callprototype" | ".calltargets") => {
                            return self.fail("indirect calls are not supported");
                        }
                        _ => out.push(Statement::Label(w.to_owned(), line)),
                    }
                }
                Kind::Word(_) => out.push(Statement::Instruction(self.instruction()?)),
                _ => return self.fail(format!("expected a statement, found {}", self.found())),
            }
        }
        Ok(out)
    }

    fn body_directive(&mut self, word: &str, out: &mut Vec<Statement>) -> Result<(), Error> {
        match word {
            ".loc" => self.loc(),
            ".pragma" => self.pragma(),
            ".section" => self.section(),
            ".reg" => self.registers(out),
            ".param" | ".local" | ".shared" | ".global" | ".const" => {
                out.extend(self.variables(false)?.into_iter().map(Statement::Variable));
                Ok(())
            }
            _ => self.fail(format!("unknown directive `{word}`")),
        }
    }

    fn registers(&mut self, out: &mut Vec<Statement>) -> Result<(), Error> {
        let line = self.line();
        self.next();
        let word = self.word()?;
        if word == ".v2" || word == ".v4" {
            return self.fail("vector registers are not supported");
        }
        let Some(bits) = type_bits(word) else { return self.fail(format!("`{word}` is no type of a register")) };
        loop {
            let name = self.word()?.to_owned();
            let count = if self.eat(b'<') {
                let count = self.integer()?;
                self.need(b'>')?;
                if count > REGISTER_LIMIT {
                    return self.fail(format!("more than {REGISTER_LIMIT} registers"));
                }
                Some(count as u32)
            } else {
                None
            };
            out.push(Statement::Registers { name, count, bits, line });
            if !self.eat(b',') {
                break;
            }
        }
        self.need(b';')
    }

    fn instruction(&mut self) -> Result<Instruction, Error> {
        let start = self.token().start;
        let line = self.line();
        let guard = if self.eat(b'@') {
            let negated = self.eat(b'!');
            Some((self.word()?.to_owned(), negated))
        } else {
            None
        };
        let opcode = self.word()?.to_owned();
        let mut operands = Vec::new();
        if self.peek() != Kind::Mark(b';') {
            loop {
                operands.push(self.operand(0)?);
                if !self.eat(b',') {
                    break;
                }
            }
        }
        let end = self.token().end;
        self.need(b';')?;
        let text = self.source[start..end].split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Instruction { guard, opcode, operands, line, text, location: self.location })
    }

    fn group(&mut self, close: u8, depth: u32) -> Result<Vec<Operand>, Error> {
        self.next();
        let mut out = Vec::new();
        while !self.eat(close) {
            out.push(self.operand(depth + 1)?);
            if self.peek() != Kind::Mark(close) {
                self.need(b',')?;
            }
        }
        Ok(out)
    }

    fn operand(&mut self, depth: u32) -> Result<Operand, Error> {
        if depth > DEPTH_LIMIT {
            return self.fail("operands are nested too deep");
        }
        match self.peek() {
            Kind::Mark(b'{') => Ok(Operand::Vector(self.group(b'}', depth)?)),
            Kind::Mark(b'(') => Ok(Operand::List(self.group(b')', depth)?)),
            Kind::Mark(b'[') => {
                self.next();
                let base = match self.peek() {
                    Kind::Word(w) => {
                        self.next();
                        Operand::Name(w.to_owned())
                    }
                    Kind::Integer(v) => {
                        self.next();
                        Operand::Integer(v)
                    }
                    _ => return self.fail(format!("expected an address, found {}", self.found())),
                };
                let offset = self.signed_offset()?;
                let mut rest = Vec::new();
                while self.eat(b',') {
                    rest.push(self.operand(depth + 1)?);
                }
                self.need(b']')?;
                Ok(Operand::Address(Box::new(base), offset, rest))
            }
            Kind::Mark(b'!') => {
                self.next();
                Ok(Operand::Not(self.word()?.to_owned()))
            }
            Kind::Mark(b'~') => {
                self.next();
                Ok(Operand::Integer(!self.integer()?))
            }
            Kind::Mark(b'-') => {
                self.next();
                match self.next().kind {
                    Kind::Integer(v) => Ok(Operand::Negative(v.wrapping_neg())),
                    Kind::F32(bits) => Ok(Operand::F32(bits ^ 0x8000_0000)),
                    Kind::F64(bits) => Ok(Operand::F64(bits ^ (1 << 63))),
                    _ => self.fail("expected a number after `-`"),
                }
            }
            Kind::Integer(v) => {
                self.next();
                Ok(Operand::Integer(v))
            }
            Kind::F32(bits) => {
                self.next();
                Ok(Operand::F32(bits))
            }
            Kind::F64(bits) => {
                self.next();
                Ok(Operand::F64(bits))
            }
            Kind::Word(w) => {
                self.next();
                if self.eat(b'|') {
                    return Ok(Operand::Pair(w.to_owned(), self.word()?.to_owned()));
                }
                if matches!(self.peek(), Kind::Mark(b'+' | b'-')) {
                    return Ok(Operand::NameOffset(w.to_owned(), self.signed_offset()?));
                }
                Ok(Operand::Name(w.to_owned()))
            }
            _ => self.fail(format!("expected an operand, found {}", self.found())),
        }
    }
}
