//! What each case should give: a text with one line a case, in the order of names.
//!
//! `NAME passed` or `NAME refused CODE`; empty lines and what follows a `#` at the start of a line are left out. There is no line for a
//! case that fails, since a wrong value is never expected.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use super::{CaseResult, Outcome, Verdict};
use crate::driver::write_file;
use crate::{Diagnostic, Failure};

/// Expected results by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expectations {
    /// `None`: passed; else the code of the refusal.
    cases: BTreeMap<String, Option<String>>,
}

/// A case whose result is not the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deviation {
    /// Name of the case.
    pub name: String,
    /// In words: what it gave and what was expected.
    pub reason: String,
}

impl Expectations {
    /// Reads a file.
    ///
    /// # Errors
    /// `E0001`: the file cannot be read. `E0042`: a line is none of the two kinds, or a name comes twice.
    pub fn load(path: &Path) -> Result<Expectations, Failure> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::from(Diagnostic::new("E0001", format!("{name}: {error}"))))?;
        Expectations::parse(&name, &text)
    }

    /// Reads a text; `name` is that of its file.
    ///
    /// # Errors
    /// As [`Expectations::load`].
    pub fn parse(name: &str, text: &str) -> Result<Expectations, Failure> {
        let mut cases = BTreeMap::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let span = start..start + line.trim_end().len();
            start += line.len();
            let damaged = |message: String| {
                let help = "a line is `NAME passed` or `NAME refused CODE`; a wrong value is never expected";
                let text: Arc<str> = text.into();
                Failure::from(Diagnostic::new("E0042", message).with_source(name, &text, span.clone()).with_help(help))
            };
            let words: Vec<&str> = line.split_whitespace().collect();
            let (case, code) = match words[..] {
                [] => continue,
                [first, ..] if first.starts_with('#') => continue,
                [case, "passed"] => (case, None),
                [case, "refused", code] if is_code(code) => (case, Some(code.to_owned())),
                _ => return Err(damaged("this line says neither passed nor refused by a code".to_owned())),
            };
            if cases.insert(case.to_owned(), code).is_some() {
                return Err(damaged(format!("`{case}` is listed twice")));
            }
        }
        Ok(Expectations { cases })
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "# Results of the ONNX backend tests, one line a case. Written by `tenon conformance onnx … --bless`.\n",
        );
        for (name, code) in &self.cases {
            let _ = match code {
                None => writeln!(text, "{name} passed"),
                Some(code) => writeln!(text, "{name} refused {code}"),
            };
        }
        text
    }

    /// Writes the file; it appears whole or not at all.
    ///
    /// # Errors
    /// `E0002`: the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        write_file(
            path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")),
            &name,
            self.text().as_bytes(),
        )
    }

    /// Takes results as expected from now on. A case that failed is expected to do nothing: its line goes. With `is_whole`, results
    /// are those of the whole tree, and cases that are not in it go too.
    pub fn bless(&mut self, results: &[CaseResult], is_whole: bool) {
        if is_whole {
            self.cases.clear();
        }
        for result in results {
            match &result.verdict {
                Verdict { outcome: Outcome::Passed, .. } => self.cases.insert(result.name.clone(), None),
                Verdict { outcome: Outcome::Refused, code, .. } => {
                    self.cases.insert(result.name.clone(), Some(code.clone().unwrap_or_default()))
                }
                Verdict { outcome: Outcome::Failed, .. } => self.cases.remove(&result.name),
            };
        }
    }

    /// Results that are not the expected ones, passes included, and with `is_whole` cases that are expected and not there.
    pub fn deviations(&self, results: &[CaseResult], is_whole: bool) -> Vec<Deviation> {
        let words = |code: &Option<String>| match code {
            None => "passed".to_owned(),
            Some(code) => format!("refused {code}"),
        };
        let mut found = Vec::new();
        for CaseResult { name, verdict, .. } in results {
            let given = match verdict.outcome {
                Outcome::Passed => Some(None),
                Outcome::Refused => Some(Some(verdict.code.clone().unwrap_or_default())),
                Outcome::Failed => None,
            };
            let expected = self.cases.get(name);
            if given.is_some() && given.as_ref() == expected {
                continue;
            }
            let given = given.map_or_else(|| "failed".to_owned(), |code| words(&code));
            let expected = expected.map_or_else(|| "not listed".to_owned(), |code| format!("expected {}", words(code)));
            let detail = verdict.detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
            found.push(Deviation { name: name.clone(), reason: format!("{given}, {expected}{detail}") });
        }
        if is_whole {
            let names: BTreeSet<&str> = results.iter().map(|result| result.name.as_str()).collect();
            let missing = self.cases.iter().filter(|(name, _)| !names.contains(name.as_str()));
            found.extend(missing.map(|(name, code)| Deviation {
                name: name.clone(),
                reason: format!("not there, expected {}", words(code)),
            }));
        }
        found
    }
}

fn is_code(text: &str) -> bool {
    text.len() == 5 && text.starts_with('E') && text[1..].bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn result(name: &str, outcome: Outcome, code: Option<&str>) -> CaseResult {
        let verdict = Verdict { outcome, code: code.map(str::to_owned), detail: None };
        CaseResult { name: name.to_owned(), operator: "Abs".to_owned(), verdict }
    }

    fn read(text: &str) -> Expectations {
        Expectations::parse("e.txt", text).unwrap()
    }

    #[test]
    fn blessed_results_are_what_is_expected() {
        let results = [
            result("b", Outcome::Refused, Some("E0501")),
            result("a", Outcome::Passed, None),
            result("c", Outcome::Failed, None),
        ];
        let mut expectations = read("# a remark\n\ngone passed\nc passed\n");
        expectations.bless(&results, false);
        assert_eq!(expectations, read("a passed\nb refused E0501\ngone passed\n"));
        expectations.bless(&results, true);
        assert_eq!(expectations, read("a passed\nb refused E0501\n"));
        assert_eq!(read(&expectations.text()), expectations);
        let deviations = expectations.deviations(&results, true);
        assert_eq!(deviations.len(), 1, "a failed case deviates whatever is blessed: {deviations:?}");
        assert_eq!(deviations[0].reason, "failed, not listed");
    }

    #[test]
    fn every_deviation_is_seen() {
        let expectations = read("a passed\nb refused E0501\nc refused E0501\nd passed\n");
        let results = [
            result("a", Outcome::Refused, Some("E0130")),
            result("b", Outcome::Passed, None),
            result("c", Outcome::Refused, Some("E0130")),
            result("e", Outcome::Passed, None),
        ];
        let reasons = |is_whole| {
            let found = expectations.deviations(&results, is_whole).into_iter();
            found.map(|deviation| format!("{}: {}", deviation.name, deviation.reason)).collect::<Vec<_>>()
        };
        let some = [
            "a: refused E0130, expected passed",
            "b: passed, expected refused E0501",
            "c: refused E0130, expected refused E0501",
            "e: passed, not listed",
        ];
        assert_eq!(reasons(false), some);
        assert_eq!(reasons(true)[4..], ["d: not there, expected passed"]);
    }

    #[test]
    fn other_lines_are_refused() {
        for text in [
            "a failed\n",
            "a refused\n",
            "a refused 501\n",
            "a\n",
            "a passed E0501\n",
            "x passed\na passed\na passed\n",
        ] {
            let diagnostic = &Expectations::parse("e.txt", text).unwrap_err().0[0];
            assert_eq!(diagnostic.code, "E0042", "{text}");
            assert!(diagnostic.render(false).contains("e.txt:"), "{}", diagnostic.render(false));
        }
    }
}
