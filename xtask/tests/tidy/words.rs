//! Words that have no place in a finished tree: marks of unfinished work, and paths of one machine.

use crate::{Source, assert_none, sources};

/// Whole words that may not occur; written in two parts each, since this file is searched too.
const WORDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Texts that may not occur, even within a word.
const TEXTS: &[&str] = &[concat!("/wo", "rk/")];

fn violations(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        for (index, line) in source.text.lines().enumerate() {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| WORDS.contains(word));
            let texts = TEXTS.iter().copied().filter(|text| line.contains(text));
            found.extend(words.chain(texts).map(|word| format!("{}:{}: {word}", source.path, index + 1)));
        }
    }
    found
}

#[test]
fn no_forbidden_words() {
    let folders = ["crates", "dialects", "passes", "lowering", "xtask", "docs", "testdata", ".ci", ".cargo"];
    let files = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "Cargo.toml", "rustfmt.toml"];
    let endings = [".rs", ".td", ".cpp", ".h", ".toml", ".md", ".mlir", ".snap", ".ll", ".py", "run"];
    assert_none("words that must not be here", &violations(&sources(&[&folders[..], &files[..]].concat(), &endings)));
}

#[test]
fn a_forbidden_word_is_seen() {
    let text = format!("{0}_LIST E{0}\n// {0}: later\ncd {1}main # framework/\n", WORDS[0], TEXTS[0]);
    let found = violations(&[Source { path: "a.rs".into(), text }]);
    assert_eq!(found, [format!("a.rs:2: {}", WORDS[0]), format!("a.rs:3: {}", TEXTS[0])]);
}
