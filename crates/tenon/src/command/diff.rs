//! `tenon diff`: what differs between two bundles, or two graphs.

use std::path::{Path, PathBuf};

use clap::Args;
use tenon_bundle::Bundle;
use tenon_import_onnx::ImportOptions;
use tenon_ir::Session;

use super::output::{Output, aligned};
use crate::diff::{
    BundleDiff, ChangeKind, GraphDiff, GraphRow, diff_bundles, diff_graphs, page_of_bundles, page_of_graphs, rows,
};
use crate::driver::{Source, write_file};
use crate::{Diagnostic, Failure};

#[derive(Args)]
pub(super) struct Arguments {
    /// A bundle, a model, or a dump of a stage up to `fuse`
    before: PathBuf,
    /// Another one of the same kind
    after: PathBuf,
    /// Write a page with both side by side into this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let (before, after) = (arguments.before.as_path(), arguments.after.as_path());
    match (Bundle::is_one(before), Bundle::is_one(after)) {
        (true, true) => bundles(arguments, output),
        (false, false) => graphs(arguments, output),
        _ => {
            let message = "a bundle and a graph cannot be compared";
            Err(Diagnostic::new("E0052", message).with_help("name two bundles, or two models or dumps").into())
        }
    }
}

fn shown(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn write_page(path: &Path, page: &str, output: &Output) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    write_file(folder, &shown(path), page.as_bytes())?;
    output.note(&format!("wrote {}", path.display()));
    Ok(())
}

fn graphs(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let read = |path: &Path| -> Result<Vec<GraphRow>, Failure> {
        let session = Session::new();
        let source = if path.extension().is_some_and(|ending| ending == "onnx") {
            Source::model(&session, path, &ImportOptions::default(), None)?
        } else {
            Source::dump(&session, path, None)
                .or_else(|_| Source::model(&session, path, &ImportOptions::default(), None))?
        };
        let module = source.module().ok_or_else(|| {
            let message = format!("`{}` is at stage `{}`, which holds no graph", source.name, source.stage);
            Diagnostic::new("E0006", message).with_help("name a model, or a dump of a stage up to `fuse`")
        })?;
        Ok(rows(module))
    };
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    let diff = diff_graphs(&before, &after);
    let (a, b) = (shown(&arguments.before), shown(&arguments.after));
    if let Some(path) = &arguments.html {
        write_page(path, &page_of_graphs((&a, &b), &before, &after, &diff), output)?;
    }
    if output.json { output.print_json(&diff) } else { output.print(&graph_text(&diff)) }
}

fn graph_text(diff: &GraphDiff) -> String {
    if diff.changes.is_empty() {
        return format!("the graphs are the same: {} operators\n", diff.same);
    }
    let mut text = format!("{} operators are the same, {} are not\n", diff.same, diff.changes.len());
    for change in &diff.changes {
        text.push_str(&format!("{} {}\n", sign(change.kind), change.operator));
        for aspect in &change.aspects {
            text.push_str(&format!("    {}: {} -> {}\n", aspect.aspect, aspect.before, aspect.after));
        }
    }
    text
}

fn sign(kind: ChangeKind) -> char {
    match kind {
        ChangeKind::Added => '+',
        ChangeKind::Removed => '-',
        ChangeKind::Changed => '~',
    }
}

fn bundles(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let (before, after) = (Bundle::open(&arguments.before)?, Bundle::open(&arguments.after)?);
    let diff = diff_bundles(&before, &after)?;
    if let Some(path) = &arguments.html {
        let session = Session::new();
        let rows_of = |bundle: &Bundle, target: &str, bucket: &Option<String>| -> Result<Vec<GraphRow>, Failure> {
            let mut programs = bundle.manifest().programs.iter();
            let Some(program) = programs.find(|program| program.target == target && program.label() == *bucket) else {
                return Ok(Vec::new());
            };
            Ok(rows(&session.parse_module(bundle.text(&program.graph)?, &program.graph)?))
        };
        let mut both = Vec::new();
        for program in &diff.programs {
            both.push(match program.only {
                Some(_) => None,
                None => Some((
                    rows_of(&before, &program.target, &program.bucket)?,
                    rows_of(&after, &program.target, &program.bucket)?,
                )),
            });
        }
        let names = (shown(&arguments.before), shown(&arguments.after));
        write_page(path, &page_of_bundles((&names.0, &names.1), &diff, &both), output)?;
    }
    if output.json { output.print_json(&diff) } else { output.print(&bundle_text(&diff)) }
}

fn bundle_text(diff: &BundleDiff) -> String {
    if diff.is_empty() {
        return "the bundles hold the same\n".to_owned();
    }
    let mut text = String::new();
    let facts: Vec<_> = diff
        .identity
        .iter()
        .chain(&diff.recipe)
        .map(|fact| vec![fact.clause.clone(), fact.before.clone(), fact.after.clone()])
        .collect();
    if !facts.is_empty() {
        text.push_str(&aligned(&["", "before", "after"], &facts));
    }
    for program in &diff.programs {
        let bucket = program.bucket.as_ref().map(|bucket| format!(", {bucket}")).unwrap_or_default();
        let name = format!("{}{bucket}", program.target);
        if let Some(kind) = program.only {
            text.push_str(&format!("{} {name}\n", sign(kind)));
            continue;
        }
        let Some(((a, b), (c, d))) = program.launches.zip(program.arena_bytes) else { continue };
        text.push_str(&format!(
            "{name}: {} kernels are the same, {} are not; launches {a} -> {b}, intermediate values {c} -> {d} bytes\n",
            program.same_kernels,
            program.kernels.len()
        ));
        for kernel in &program.kernels {
            let entries: Vec<_> = [&kernel.before, &kernel.after].into_iter().flatten().cloned().collect();
            let what =
                if kernel.aspects.is_empty() { String::new() } else { format!(": {}", kernel.aspects.join(", ")) };
            text.push_str(&format!(
                "  {} {} [{}]{what}\n",
                sign(kernel.kind),
                entries.join(" -> "),
                kernel.nodes.join(", ")
            ));
        }
        for reason in &program.because {
            text.push_str(&format!("    because {reason}\n"));
        }
    }
    text
}
