//! The cursor over the tokens, and the directives of module scope.

use super::ast::{Module, SourceLocation};
use super::lexer::{Kind, Token, tokens};
use crate::error::Error;

/// Deepest nesting of operands and of `{ … }` scopes.
pub(crate) const DEPTH_LIMIT: u32 = 32;

/// Parses a whole module.
pub(crate) fn module(source: &str) -> Result<Module, Error> {
    let mut p = Parser { source, tokens: tokens(source)?, at: 0, location: None };
    let mut module = Module::default();
    p.module(&mut module)?;
    Ok(module)
}

pub(super) struct Parser<'a> {
    pub(super) source: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    pub(super) location: Option<SourceLocation>,
}

/// Bits of a fundamental type, from its name with the dot.
pub(super) fn type_bits(name: &str) -> Option<u32> {
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
    pub(super) fn token(&self) -> Token<'a> {
        self.tokens[self.at]
    }
    pub(super) fn peek(&self) -> Kind<'a> {
        self.tokens[self.at].kind
    }
    pub(super) fn peek_second(&self) -> Kind<'a> {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
    }
    pub(super) fn line(&self) -> u32 {
        self.tokens[self.at].line
    }
    pub(super) fn next(&mut self) -> Token<'a> {
        let t = self.tokens[self.at];
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        t
    }
    pub(super) fn fail<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error::parse(self.line(), message))
    }
    pub(super) fn found(&self) -> String {
        let t = self.token();
        match t.kind {
            Kind::End => "the end of the source".into(),
            _ => format!("`{}`", &self.source[t.start..t.end]),
        }
    }
    pub(super) fn eat(&mut self, mark: u8) -> bool {
        let hit = self.peek() == Kind::Mark(mark);
        if hit {
            self.next();
        }
        hit
    }
    pub(super) fn need(&mut self, mark: u8) -> Result<(), Error> {
        if self.eat(mark) { Ok(()) } else { self.fail(format!("expected `{}`, found {}", mark as char, self.found())) }
    }
    pub(super) fn word(&mut self) -> Result<&'a str, Error> {
        match self.peek() {
            Kind::Word(w) => {
                self.next();
                Ok(w)
            }
            _ => self.fail(format!("expected a name, found {}", self.found())),
        }
    }
    pub(super) fn integer(&mut self) -> Result<u64, Error> {
        match self.peek() {
            Kind::Integer(v) => {
                self.next();
                Ok(v)
            }
            _ => self.fail(format!("expected an integer, found {}", self.found())),
        }
    }
    pub(super) fn small(&mut self) -> Result<u32, Error> {
        let value = self.integer()?;
        u32::try_from(value).or_else(|_| self.fail(format!("{value} is too large")))
    }

    pub(super) fn module(&mut self, module: &mut Module) -> Result<(), Error> {
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

    pub(super) fn pragma(&mut self) -> Result<(), Error> {
        self.next();
        while let Kind::Text(_) = self.peek() {
            self.next();
            self.eat(b',');
        }
        self.need(b';')
    }

    pub(super) fn file(&mut self, module: &mut Module) -> Result<(), Error> {
        self.next();
        let index = self.small()?;
        let Kind::Text(name) = self.next().kind else { return self.fail("expected a file name") };
        module.files.insert(index, name.to_owned());
        while self.eat(b',') {
            self.integer()?;
        }
        Ok(())
    }

    pub(super) fn loc(&mut self) -> Result<(), Error> {
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

    pub(super) fn section(&mut self) -> Result<(), Error> {
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
    pub(super) fn declaration(&mut self, module: &mut Module) -> Result<(), Error> {
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
}
