//! Functions: header, parameters, body and the directives within it.

use super::ast::{Function, Statement, Variable};
use super::lexer::Kind;
use super::parser::{DEPTH_LIMIT, Parser, type_bits};
use crate::error::Error;

/// Most registers one declaration may name.
const REGISTER_LIMIT: u64 = 1 << 20;

impl Parser<'_> {
    pub(super) fn function(&mut self) -> Result<Function, Error> {
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
            cluster: None,
            body: None,
        };
        loop {
            match self.peek() {
                Kind::Word(".reqntid") => function.required_threads = Some(self.triple()?),
                Kind::Word(".maxntid") => function.maximum_threads = Some(self.triple()?),
                Kind::Word(".reqnctapercluster") => function.cluster = Some(self.triple()?),
                Kind::Word(".pragma") => self.pragma()?,
                Kind::Word(
                    ".minnctapersm"
                    | ".maxnctapersm"
                    | ".maxnreg"
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

    pub(super) fn triple(&mut self) -> Result<[u32; 3], Error> {
        self.next();
        let mut out = [1; 3];
        for (i, value) in out.iter_mut().enumerate() {
            if i == 0 || self.eat(b',') {
                *value = self.small()?;
            }
        }
        Ok(out)
    }

    pub(super) fn parameters(&mut self) -> Result<Vec<Variable>, Error> {
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

    pub(super) fn body(&mut self) -> Result<Vec<Statement>, Error> {
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

    pub(super) fn body_directive(&mut self, word: &str, out: &mut Vec<Statement>) -> Result<(), Error> {
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

    pub(super) fn registers(&mut self, out: &mut Vec<Statement>) -> Result<(), Error> {
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
}
