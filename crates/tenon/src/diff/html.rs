//! Differences as a page that needs nothing else: no script, no font, no other file.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use super::bundle::BundleDiff;
use super::graph::{Aspect, Change, ChangeKind, GraphDiff, GraphRow};

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8884; --add: #2da44e33; --gone: #cf222e33; --other: #bf870033; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .5rem; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 600; } code { font: 12px/1.4 ui-monospace, monospace; }
.added td:last-child, .key .added { background: var(--add); } .removed td:first-child, .key .removed { background: var(--gone); }
.changed td, .key .changed { background: var(--other); } .key span { padding: 0 .4rem; margin-right: .6rem; }
.small { font-size: 12px; opacity: .75; } .facts td:first-child { width: 16rem; }
";

/// A page of two graphs side by side.
pub fn page_of_graphs(names: (&str, &str), before: &[GraphRow], after: &[GraphRow], diff: &GraphDiff) -> String {
    let mut body = String::new();
    graphs(&mut body, names, before, after, diff);
    page(names, &body)
}

/// A page of two bundles; `graphs` gives the rows of each program that both have, in the order of the diff.
pub fn page_of_bundles(
    names: (&str, &str),
    diff: &BundleDiff,
    rows: &[Option<(Vec<GraphRow>, Vec<GraphRow>)>],
) -> String {
    let mut body = String::new();
    if diff.is_empty() {
        body.push_str("<p>The bundles hold the same.</p>");
    }
    let facts: Vec<_> = diff.identity.iter().chain(&diff.recipe).collect();
    if !facts.is_empty() {
        let _ = write!(
            body,
            "<h2>Made from and by</h2><table class=facts><tr><th><th>{}<th>{}</tr>",
            escaped(names.0),
            escaped(names.1)
        );
        for fact in facts {
            let cell = |text: &str| format!("<td><code>{}</code>", escaped(text));
            let _ = write!(
                body,
                "<tr class=changed>{}{}{}</tr>",
                cell(&fact.clause),
                cell(&fact.before),
                cell(&fact.after)
            );
        }
        body.push_str("</table>");
    }
    for (program, rows) in diff.programs.iter().zip(rows) {
        let bucket = program.bucket.as_ref().map(|bucket| format!(", {bucket}")).unwrap_or_default();
        let _ = write!(body, "<h2>{}{}</h2>", escaped(&program.target), escaped(&bucket));
        if let Some(kind) = program.only {
            let which = if kind == ChangeKind::Added { names.1 } else { names.0 };
            let _ = write!(body, "<p>Only in {}.</p>", escaped(which));
            continue;
        }
        if let (Some((a, b)), Some((c, d))) = (program.launches, program.arena_bytes) {
            let _ = write!(
                body,
                "<p>{a} launches and {c} bytes of intermediate values; {b} and {d}. {} kernels are the same.</p>",
                program.same_kernels
            );
        }
        if !program.kernels.is_empty() {
            let why: Vec<_> = program.because.iter().map(|reason| escaped(reason)).collect();
            let _ = write!(
                body,
                "<p>Kernels differ, because {}.</p><table><tr><th>kernel<th>kernel<th>nodes<th>what differs</tr>",
                why.join("; ")
            );
            for kernel in &program.kernels {
                let cell = |text: &Option<String>| text.as_deref().map(escaped).unwrap_or_default();
                let _ = write!(
                    body,
                    "<tr class={}><td><code>{}</code><td><code>{}</code><td>{}<td>{}</tr>",
                    class(kernel.kind),
                    cell(&kernel.before),
                    cell(&kernel.after),
                    escaped(&kernel.nodes.join(", ")),
                    escaped(&kernel.aspects.join(", "))
                );
            }
            body.push_str("</table>");
        }
        if let Some((before, after)) = rows {
            graphs(&mut body, names, before, after, &program.graph);
        }
    }
    page(names, &body)
}

fn page(names: (&str, &str), body: &str) -> String {
    let (a, b) = (escaped(names.0), escaped(names.1));
    format!(
        "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>{a} and {b}</title><style>{STYLE}</style>\n\
         <h1>{a} and {b}</h1><p class=key><span class=removed>only in the first</span><span class=added>only in the second</span><span class=changed>different</span></p>\n{body}\n</html>\n"
    )
}

/// Both graphs in one table, what belongs together in one row.
fn graphs(body: &mut String, names: (&str, &str), before: &[GraphRow], after: &[GraphRow], diff: &GraphDiff) {
    let _ = write!(
        body,
        "<p>{} operators are the same, {} are not.</p><table><tr><th>{}<th>{}</tr>",
        diff.same,
        diff.changes.len(),
        escaped(names.0),
        escaped(names.1)
    );
    let changed: HashMap<usize, &Change> =
        diff.changes.iter().filter_map(|change| Some((change.before?, change))).collect();
    let added: HashSet<usize> = diff
        .changes
        .iter()
        .filter(|change| change.kind == ChangeKind::Added)
        .filter_map(|change| change.after)
        .collect();
    let mut next = 0;
    let mut row = |class: &str, left: Option<&GraphRow>, right: Option<&GraphRow>, aspects: &[Aspect]| {
        let _ =
            write!(body, "<tr class={class}><td>{}<td>{}</tr>", cell(left, aspects, true), cell(right, aspects, false));
    };
    let come = |next: &mut usize, row: &mut dyn FnMut(&str, Option<&GraphRow>, Option<&GraphRow>, &[Aspect])| {
        while added.contains(next) {
            row("added", None, after.get(*next), &[]);
            *next += 1;
        }
    };
    for (place, left) in before.iter().enumerate() {
        let change = changed.get(&place);
        if let Some(Change { kind: ChangeKind::Removed, .. }) = change {
            row("removed", Some(left), None, &[]);
            continue;
        }
        come(&mut next, &mut row);
        match change {
            Some(change) => {
                row("changed", Some(left), change.after.and_then(|other| after.get(other)), &change.aspects)
            }
            None => row("same", Some(left), after.get(next), &[]),
        }
        next += 1;
    }
    come(&mut next, &mut row);
    body.push_str("</table>");
}

fn cell(row: Option<&GraphRow>, aspects: &[Aspect], before: bool) -> String {
    let Some(row) = row else { return String::new() };
    let kernel = row.kernel.as_deref().map(|kernel| format!(" in {kernel}")).unwrap_or_default();
    let types = format!("{} → {}", row.operands.join(", "), row.results.join(", "));
    let mut text =
        format!("<b>{}</b> <span class=small>{}{}</span>", escaped(&row.title()), escaped(&types), escaped(&kernel));
    for aspect in aspects {
        let value = if before { &aspect.before } else { &aspect.after };
        let _ = write!(text, "<br><code>{}: {}</code>", escaped(&aspect.aspect), escaped(value));
    }
    text
}

fn class(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "added",
        ChangeKind::Removed => "removed",
        ChangeKind::Changed => "changed",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
