//! PTX text to a syntax tree.
//!
//! - Never panics and never recurses deeper than [`parser::DEPTH_LIMIT`].
//! - Debug sections are skipped; `.loc` and `.file` are kept so that faults can name the source.
//! - Opcodes and their modifiers are not looked at here.

pub(crate) mod ast;
mod function;
mod instruction;
mod lexer;
mod parser;
mod variable;

pub(crate) use parser::module;
