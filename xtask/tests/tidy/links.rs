//! Links of the guides to files of the checkout lead somewhere.

use crate::{Source, assert_none, root, sources};

/// Links whose file `exists` denies; web addresses and places within a page are not looked at.
fn violations(pages: &[Source], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for page in pages {
        let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for link in page.text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            let file = link.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !exists(&format!("{folder}/{file}")) {
                found.push(format!("{}: {link}", page.path));
            }
        }
    }
    found
}

#[test]
fn links_lead_somewhere() {
    let pages = sources(&["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs", "testdata"], &[".md"]);
    assert_none("links to nothing", &violations(&pages, |path| root().join(path.trim_start_matches('/')).exists()));
}

#[test]
fn a_broken_link_is_seen() {
    let text = "[a](b.md) [c](d.md#e) [f](#g) [h](https://example.org/i)";
    let page = Source { path: "docs/x.md".into(), text: text.into() };
    assert_eq!(violations(&[page], |path| path == "docs/b.md"), ["docs/x.md: d.md#e"]);
}
