//! `docs/recipes.md` has a row for every clause of the schema, with its default and a test that there is.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use serde_json::Value;
use tenon_recipe::Recipe;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Paths of the schema's clauses; names of the user's are `NAME`.
fn clauses(schema: &Value, path: &str, found: &mut Vec<String>) {
    let named = schema["additionalProperties"].is_object();
    match (schema["properties"].as_object(), named) {
        (Some(properties), _) => {
            for (key, below) in properties {
                clauses(below, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, found);
            }
        }
        (None, true) => clauses(&schema["additionalProperties"], &format!("{path}.NAME"), found),
        (None, false) => found.push(path.to_owned()),
    }
}

/// Texts of all Rust sources below a folder.
fn sources(folder: &Path, found: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_clause_has_a_default_and_a_test_in_which_it_bites() {
    let page = std::fs::read_to_string(root().join("docs/recipes.md")).unwrap();
    let start = page.find("| clause | default | test |").unwrap();
    let rows: Vec<Vec<&str>> = page[start..]
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let mut found = Vec::new();
    clauses(&Recipe::json_schema(), "", &mut found);
    assert!(found.len() > 40, "{found:?}");
    let covers = |row: &[&str], clause: &str| {
        let named = row[0].trim_matches('`');
        named.strip_suffix('*').map_or(named == clause, |start| clause.starts_with(start))
    };
    for clause in &found {
        assert!(rows.iter().any(|row| covers(row, clause)), "`{clause}` has no row in docs/recipes.md");
    }
    let mut text = String::new();
    for folder in ["crates/tenon", "crates/recipe"] {
        sources(&root().join(folder), &mut text);
    }
    for row in &rows {
        assert!(row.len() == 3 && !row[1].is_empty(), "{row:?}");
        assert!(found.iter().any(|clause| covers(row, clause)), "{} is no clause", row[0]);
        let tests: Vec<&str> = row[2].split(", ").map(|name| name.trim_matches('`')).collect();
        for test in tests {
            assert!(text.contains(&format!("fn {test}(")), "there is no test `{test}` for {}", row[0]);
        }
    }
}
