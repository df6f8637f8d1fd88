//! Printing.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::{Diagnostic, Failure};

/// How to print.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    /// For machines.
    pub(super) json: bool,
    /// Nothing but results and errors.
    pub(super) quiet: bool,
    /// What is done.
    pub(super) verbose: bool,
}

impl Output {
    /// A result, on standard output.
    ///
    /// A closed pipe is no error: who reads has enough.
    pub(super) fn print(&self, text: &str) -> Result<(), Failure> {
        self.end_progress();
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Diagnostic::new("E0002", format!("standard output: {error}")).into())
            }
            _ => Ok(()),
        }
    }

    /// A result as JSON on standard output.
    pub(super) fn print_json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Diagnostic::new("E0002", format!("standard output: {error}")))?;
        self.print(&format!("{text}\n"))
    }

    /// A note on standard error, unless quiet.
    pub(super) fn note(&self, text: &str) {
        if !self.quiet {
            self.end_progress();
            eprintln!("{text}");
        }
    }

    /// A note on standard error, only if verbose.
    pub(super) fn detail(&self, text: &str) {
        if self.verbose {
            eprintln!("{text}");
        }
    }

    /// What is being done, on standard error: a line each if verbose, else one line that is written over, on a terminal only.
    pub(super) fn progress(&self, text: &str) {
        if self.verbose {
            eprintln!("{text}");
        } else if self.shows_progress() {
            eprint!("\r\u{1b}[K{text}");
        }
    }

    /// Takes the line of progress away.
    pub(super) fn end_progress(&self) {
        if !self.verbose && self.shows_progress() {
            eprint!("\r\u{1b}[K");
        }
    }

    fn shows_progress(&self) -> bool {
        !self.quiet && !self.json && io::stderr().is_terminal()
    }

    /// Errors, on standard error.
    pub(super) fn failure(&self, failure: &Failure) {
        self.end_progress();
        let color = io::stderr().is_terminal();
        for diagnostic in &failure.0 {
            if self.json {
                eprintln!("{}", diagnostic.to_json());
            } else {
                eprint!("{}", diagnostic.render(color));
            }
        }
    }
}

/// Rows under headings, columns aligned; the last one is not padded.
pub(super) fn aligned(headings: &[&str], rows: &[Vec<String>]) -> String {
    let heading: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&heading).chain(rows).collect();
    let width = |column: usize| {
        all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let mut text = String::new();
    for row in all {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            line.push_str(cell);
            let padding = widths.get(column).map_or(0, |width| width.saturating_sub(cell.chars().count()));
            line.extend(std::iter::repeat_n(' ', padding + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["ä".to_owned(), "1".to_owned()], vec!["long".to_owned(), "2".to_owned()]];
        assert_eq!(aligned(&["a", "b"], &rows), "a     b\nä     1\nlong  2\n");
    }
}
