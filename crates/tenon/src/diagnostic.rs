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

    /// The text with its first line of the span cut to what a terminal shows, and the span in it; none where nothing need be cut.
    ///
    /// Lines before are kept as empty ones, so that the line keeps its number. Control characters, which a terminal would obey, are replaced.
    fn excerpt(&self) -> Option<(String, Range<usize>)> {
        let start = self.text.get(..self.span.start)?.rfind('\n').map_or(0, |place| place + 1);
        let rest = self.text.get(start..)?;
        let line = rest.split('\n').next()?;
        let last = self.text.get(..self.span.end)?.rfind('\n').map_or(0, |place| place + 1);
        let last_line = self.text.get(last..)?.split('\n').next()?;
        let is_shown = |line: &str| {
            line.len() <= LONGEST_LINE && !line.trim_end_matches('\r').chars().any(|c| c.is_control() && c != '\t')
        };
        if is_shown(line) && is_shown(last_line) {
            return None;
        }
        let seen = |text: &str| text.replace(|c: char| c.is_control() && c != '\t', "\u{fffd}");
        let (before, from) = line.split_at_checked(self.span.start - start)?;
        let length = (self.span.end - self.span.start).min(from.len());
        let meant = from.get(..length)?;
        let skipped = before.chars().count().saturating_sub(CONTEXT);
        let mut text = "\n".repeat(self.text.get(..start)?.matches('\n').count());
        text.push_str(if skipped > 0 { "…" } else { "" });
        text.push_str(&seen(&before.chars().skip(skipped).collect::<String>()));
        let begin = text.len();
        text.push_str(&seen(&meant.chars().take(CONTEXT).collect::<String>()));
        let end = text.len();
        let after = from.get(length..)?;
        let left = CONTEXT.saturating_sub(meant.chars().count());
        text.push_str(&seen(&after.chars().take(left).collect::<String>()));
        if meant.chars().nth(CONTEXT).is_some() || after.chars().nth(left).is_some() {
            text.push('…');
        }
        Some((text, begin..end))
    }
}

/// Longest line of a text that is shown whole, in bytes.
const LONGEST_LINE: usize = 240;
/// Characters of a longer one that are shown before its place, and from there on.
const CONTEXT: usize = 80;
/// Longest message that people see; machines get all of it.
const LONGEST_MESSAGE: usize = 4000;

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
        // The end of the text is shown behind its last line.
        let last = text.trim_end_matches(['\n', '\r']).len();
        let end = span.end.min(text.len());
        let span = span.start.min(end).min(last)..end;
        self.source = Some(SourceText { name: name.to_owned(), text: Arc::clone(text), span });
        self
    }

    /// For people: several lines, ending in a newline.
    pub fn render(&self, color: bool) -> String {
        let mut text = String::new();
        let message = match self.message.char_indices().nth(LONGEST_MESSAGE) {
            Some((end, _)) => format!("{}… (`--json` shows all of it)", &self.message[..end]),
            None => self.message.clone(),
        };
        match &self.source {
            Some(source) => text.push_str(&self.report(source, &message, color)),
            None => {
                let (bold, reset) = if color { ("\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "") };
                let _ = writeln!(text, "{bold}error[{}]{reset}: {message}", self.code);
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

    fn report(&self, source: &SourceText, message: &str, color: bool) -> String {
        let config = Config::default().with_index_type(IndexType::Byte).with_color(color).with_compact(true);
        let excerpt = source.excerpt();
        let (shown, place) = match &excerpt {
            Some((text, place)) => (text.as_str(), place.clone()),
            None => (source.text.as_ref(), source.span.clone()),
        };
        let span = (source.name.as_str(), place.clone());
        let kind = format!("error[{}]", self.code);
        let report = Report::build(ReportKind::Custom(&kind, ariadne::Color::Red), span.clone())
            .with_config(config)
            .with_message(message)
            .with_label(Label::new(span).with_color(ariadne::Color::Red).with_message("here"))
            .finish();
        let mut bytes = Vec::new();
        let text = match report.write((source.name.as_str(), Source::from(shown)), &mut bytes) {
            // The heading is coloured whatever the configuration says.
            Ok(()) if !color => without_escapes(&String::from_utf8_lossy(&bytes)),
            Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => return format!("error[{}]: {message}\n", self.code),
        };
        if excerpt.is_none() {
            return text;
        }
        // The column is that of the file.
        let (line, column) = source.position();
        let (_, in_excerpt) = SourceText { name: String::new(), text: shown.into(), span: place }.position();
        let name = &source.name;
        text.replacen(&format!("{name}:{line}:{in_excerpt}"), &format!("{name}:{line}:{column}"), 1)
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
    fn long_lines_are_cut_around_the_place_and_control_characters_are_not_obeyed() {
        let long = |length: usize| "x".repeat(length);
        let line = format!("first\n{} = {{ wrong = 1 }} # {}\nlast", long(5000), long(100_000));
        let start = line.find("wrong").expect("it is there");
        let diagnostic =
            Diagnostic::new("E0203", "unknown key").with_source("r.toml", &line.as_str().into(), start..start + 5);
        for color in [false, true] {
            let rendered = diagnostic.render(color);
            let plain = without_escapes(&rendered);
            assert!(plain.len() < 1500 && rendered.len() < 6000, "{} {}", plain.len(), rendered.len());
            // Line and column are those of the file: 5000 characters and ` = { ` before it.
            assert!(plain.contains("r.toml:2:5006") && plain.contains("= { "), "{plain}");
        }
        assert!(diagnostic.render(false).contains("= { wrong = 1 } # xxx"), "{}", diagnostic.render(false));
        assert!(diagnostic.to_json().contains("\"line\":2,\"column\":5006"));
        // A place that is longer than what is shown, and one over several lines.
        for span in [6..line.len(), 0..line.len()] {
            let rendered =
                Diagnostic::new("E0202", "m").with_source("r.toml", &line.as_str().into(), span).render(false);
            assert!(rendered.len() < 1500, "{}", rendered.len());
        }
        let text: Arc<str> = "a = 'b\u{1b}[2Jc\u{7}'".into();
        let rendered = Diagnostic::new("E0205", "m").with_source("r.toml", &text, 0..1).render(true);
        assert!(
            !rendered.contains("\u{1b}[2J") && !rendered.contains('\u{7}') && rendered.contains("a"),
            "{rendered:?}"
        );
        let rendered = Diagnostic::new("E0205", long(100_000)).render(false);
        assert!(rendered.len() < 5000 && rendered.contains("--json"), "{}", rendered.len());
    }

    #[test]
    fn places_outside_the_text_are_cut() {
        let text: Arc<str> = "ä".into();
        let diagnostic = Diagnostic::new("E0401", "m").with_source("f", &text, 5..9);
        assert!(diagnostic.render(false).contains("E0401"));
        assert!(diagnostic.to_json().contains("\"line\":1"));
    }
}
