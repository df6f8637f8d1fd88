//! What every refusal becomes.

use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use ariadne::{Config, IndexType, Label, Report, ReportKind, Source};
use serde::Serialize;

/// A text that a diagnostic points into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceText {
    /// Name for messages, as the user gave it.
    pub name: String,
    /// The text.
    pub text: Arc<str>,
    /// Bytes that are meant.
    pub span: Range<usize>,
}

/// A refusal: code, what is wrong, where, what to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable code, `docs/errors/`.
    pub code: String,
    /// What is wrong, what was expected.
    pub message: String,
    /// Names of the model's nodes that it concerns.
    pub nodes: Vec<String>,
    /// What to change.
    pub help: Option<String>,
    /// The place in a text.
    pub source: Option<SourceText>,
}

/// Diagnostics that end a command; never none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub Vec<Diagnostic>);

/// A diagnostic as `--json` prints it, one line each.
#[derive(Serialize)]
struct Machine<'d> {
    code: &'d str,
    message: &'d str,
    nodes: &'d [String],
    help: Option<&'d str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'d str>,
    /// From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// In characters, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
}

impl SourceText {
    /// The span's first line and column, from 1.
    fn position(&self) -> (usize, usize) {
        let before = self.text.get(..self.span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}

impl Diagnostic {
    /// A diagnostic without place or nodes.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Diagnostic { code: code.to_owned(), message: message.into(), nodes: Vec::new(), help: None, source: None }
    }

    /// With what to change.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// With the place in a text.
    pub fn with_source(mut self, name: &str, text: &Arc<str>, span: Range<usize>) -> Self {
        let end = span.end.min(text.len());
        let span = span.start.min(end)..end;
        self.source = Some(SourceText { name: name.to_owned(), text: Arc::clone(text), span });
        self
    }

    /// For people: several lines, ending in a newline.
    pub fn render(&self, color: bool) -> String {
        let mut text = String::new();
        match &self.source {
            Some(source) => text.push_str(&self.report(source, color)),
            None => {
                let (bold, reset) = if color { ("\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "") };
                let _ = writeln!(text, "{bold}error[{}]{reset}: {}", self.code, self.message);
            }
        }
        if !self.nodes.is_empty() && !self.nodes.iter().all(|node| self.message.contains(node.as_str())) {
            let _ = writeln!(text, "  node: {}", self.nodes.join(", "));
        }
        if let Some(help) = &self.help {
            for (index, line) in help.lines().enumerate() {
                let start = if index == 0 { "  help: " } else { "        " };
                let _ = writeln!(text, "{}", format!("{start}{line}").trim_end());
            }
        }
        text
    }

    fn report(&self, source: &SourceText, color: bool) -> String {
        let config = Config::default().with_index_type(IndexType::Byte).with_color(color).with_compact(true);
        let span = (source.name.as_str(), source.span.clone());
        let kind = format!("error[{}]", self.code);
        let report = Report::build(ReportKind::Custom(&kind, ariadne::Color::Red), span.clone())
            .with_config(config)
            .with_message(&self.message)
            .with_label(Label::new(span).with_color(ariadne::Color::Red).with_message("here"))
            .finish();
        let mut bytes = Vec::new();
        match report.write((source.name.as_str(), Source::from(source.text.as_ref())), &mut bytes) {
            // The heading is coloured whatever the configuration says.
            Ok(()) if !color => without_escapes(&String::from_utf8_lossy(&bytes)),
            Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => format!("error[{}]: {}\n", self.code, self.message),
        }
    }

    /// For machines: one line of JSON without its newline.
    pub fn to_json(&self) -> String {
        let position = self.source.as_ref().map(SourceText::position);
        let machine = Machine {
            code: &self.code,
            message: &self.message,
            nodes: &self.nodes,
            help: self.help.as_deref(),
            file: self.source.as_ref().map(|source| source.name.as_str()),
            line: position.map(|(line, _)| line),
            column: position.map(|(_, column)| column),
        };
        serde_json::to_string(&machine).unwrap_or_default()
    }
}

/// The text without terminal escape sequences (`ESC [ … letter`).
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            characters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(character);
        }
    }
    plain
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Failure(vec![diagnostic])
    }
}

/// Errors of libraries become diagnostics by their code, text and help.
macro_rules! coded {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Diagnostic {
            fn from(error: $error) -> Self {
                Diagnostic { help: error.help(), ..Diagnostic::new(error.code(), error.to_string()) }
            }
        }
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Diagnostic::from(error).into()
            }
        }
    )*};
}

coded!(
    tenon_bundle::BundleError,
    tenon_import_onnx::ImportError,
    tenon_import_pt2::Pt2Error,
    tenon_ir::IrError,
    tenon_lowering::LoweringError,
    tenon_lowering::codegen::CodegenError,
    tenon_lowering::expand::ExpandError,
    tenon_lowering::program::ProgramError,
    tenon_ptx_sim::Error,
    tenon_reference::ReferenceError,
    tenon_runtime::RuntimeError,
    tenon_runtime::DeviceError,
    tenon_runtime::PlanError,
    tenon_target::TargetError,
    tenon_tensor::NpyError,
    tenon_tensor::TensorError,
);

impl From<tenon_pass_manager::PassError> for Diagnostic {
    fn from(error: tenon_pass_manager::PassError) -> Self {
        Diagnostic {
            nodes: error.nodes().to_vec(),
            help: error.help(),
            ..Diagnostic::new(error.code(), error.to_string())
        }
    }
}

impl From<tenon_pass_manager::PassError> for Failure {
    fn from(error: tenon_pass_manager::PassError) -> Self {
        Diagnostic::from(error).into()
    }
}

impl Failure {
    /// The faults of a recipe file, with their places.
    pub(crate) fn of_recipe(path: &Path, errors: Vec<tenon_recipe::RecipeError>, text: &str) -> Self {
        let text: Arc<str> = text.into();
        let name = path.display().to_string();
        let diagnostics = errors.into_iter().map(|error| {
            let diagnostic = Diagnostic { help: error.help(), ..Diagnostic::new(error.code(), error.to_string()) };
            match error.span {
                Some(span) => diagnostic.with_source(&name, &text, span),
                None => diagnostic,
            }
        });
        Failure(diagnostics.collect())
    }

    /// An error of reading MLIR text, with the place that MLIR named.
    pub(crate) fn of_mlir(name: &str, text: &Arc<str>, error: tenon_ir::IrError) -> Self {
        let (tenon_ir::IrError::Parse { diagnostics, .. } | tenon_ir::IrError::Verify { diagnostics }) = &error else {
            return error.into();
        };
        let found = diagnostics.iter().find_map(|diagnostic| {
            let mut parts = diagnostic.location.rsplitn(3, ':');
            let (column, line) = (parts.next()?.parse::<usize>().ok()?, parts.next()?.parse::<usize>().ok()?);
            // Places that a `loc` in the text names lie in other files.
            (parts.next()? == "-").then_some((diagnostic.message.clone(), line, column))
        });
        let help = error.help();
        match found {
            Some((message, line, column)) => {
                let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
                let rest = text.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
                let offset = rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(offset, _)| offset);
                let length = rest.get(offset..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
                let span = start + offset..start + offset + length;
                let diagnostic = Diagnostic { help, ..Diagnostic::new(error.code(), message) };
                diagnostic.with_source(name, text, span).into()
            }
            None => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_machines_see_the_place() {
        let text: Arc<str> = "recipe = 1\nname = 3\n".into();
        let diagnostic = Diagnostic::new("E0205", "`name` must be a text")
            .with_source("r.toml", &text, 18..19)
            .with_help("write one");
        let rendered = diagnostic.render(false);
        assert!(!rendered.contains('\u{1b}') && diagnostic.render(true).contains('\u{1b}'));
        for part in ["error[E0205]: `name` must be a text", "r.toml:2:8", "name = 3", "help: write one"] {
            assert!(rendered.contains(part), "{part}: {rendered}");
        }
        assert_eq!(
            diagnostic.to_json(),
            r#"{"code":"E0205","message":"`name` must be a text","nodes":[],"help":"write one","file":"r.toml","line":2,"column":8}"#
        );
    }

    #[test]
    fn nodes_are_named_once() {
        let mut diagnostic = Diagnostic::new("E0501", "node `Conv_1`: no schedule");
        diagnostic.nodes = vec!["Conv_1".to_owned()];
        assert_eq!(diagnostic.render(false), "error[E0501]: node `Conv_1`: no schedule\n");
        diagnostic.message = "no schedule".to_owned();
        assert_eq!(diagnostic.render(false), "error[E0501]: no schedule\n  node: Conv_1\n");
    }

    #[test]
    fn places_outside_the_text_are_cut() {
        let text: Arc<str> = "ä".into();
        let diagnostic = Diagnostic::new("E0401", "m").with_source("f", &text, 5..9);
        assert!(diagnostic.render(false).contains("E0401"));
        assert!(diagnostic.to_json().contains("\"line\":1"));
    }
}
