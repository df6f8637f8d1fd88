//! Every error code of the sources has a page `docs/errors/CODE.md`, and every page is of a code that exists.

use crate::tokens::{Token, tokens};
use crate::{Source, assert_none, sources};
use std::collections::{BTreeMap, BTreeSet};

fn is_code(text: &str) -> bool {
    text.len() == 5 && text.starts_with('E') && text[1..].bytes().all(|byte| byte.is_ascii_digit())
}

/// The codes that are string literals of their own in `sources`, with the first file of each.
fn codes(sources: &[Source]) -> BTreeMap<String, String> {
    let mut codes = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        for (line, token) in tokens(&source.text) {
            if let Token::Text(text) = token
                && is_code(&text)
            {
                codes.entry(text).or_insert_with(|| format!("{}:{line}", source.path));
            }
        }
    }
    codes
}

/// `pages` are the files of `docs/errors`; those whose name is no code, such as an index, are not looked at.
fn violations(sources: &[Source], pages: &[Source]) -> Vec<String> {
    let codes = codes(sources);
    let mut documented = BTreeSet::new();
    let mut found = Vec::new();
    for page in pages {
        let name = page.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".md");
        if !is_code(name) {
            continue;
        }
        documented.insert(name.to_string());
        if !codes.contains_key(name) {
            found.push(format!("{}: no source has the code \"{name}\"", page.path));
        }
        if !page.text.starts_with(&format!("# {name}: ")) {
            found.push(format!("{}: the first line is not `# {name}: TITLE`", page.path));
        }
    }
    let missing = codes.iter().filter(|(code, _)| !documented.contains(*code));
    found.extend(missing.map(|(code, place)| format!("{place}: \"{code}\" has no page docs/errors/{code}.md")));
    found
}

#[test]
fn codes_and_pages_match() {
    let sources_of_crates = sources(&["crates", "dialects", "passes", "lowering"], &[".rs"]);
    assert_none("error codes and their pages", &violations(&sources_of_crates, &sources(&["docs/errors"], &[".md"])));
}

#[test]
fn a_code_without_a_page_and_a_page_without_a_code_are_seen() {
    let code = Source {
        path: "crates/a/src/error.rs".into(),
        text: "fn f() { (\"E0001\", \"E0002\", \"not E0003\") }".into(),
    };
    let page = |name: &str, text: &str| Source { path: format!("docs/errors/{name}.md"), text: text.into() };
    let pages = [page("E0001", "# E0001: ok\n"), page("E0004", "# E0005: wrong\n"), page("README", "")];
    let found = violations(&[code], &pages);
    assert_eq!(
        found,
        [
            "docs/errors/E0004.md: no source has the code \"E0004\"",
            "docs/errors/E0004.md: the first line is not `# E0004: TITLE`",
            "crates/a/src/error.rs:1: \"E0002\" has no page docs/errors/E0002.md",
        ]
    );
}
