//! `tenon explain`: what was decided.

use clap::Args;
use serde::Serialize;
use tenon_ir::Session;
use tenon_runtime::plan::{Operation, Step};

use super::arguments::ModelArguments;
use super::lower::remark_line;
use super::output::{Output, aligned};
use crate::driver::Program;
use crate::{Diagnostic, Failure};

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Kernels and launches instead of remarks
    #[arg(long)]
    summary: bool,
    /// Schedules that were considered
    #[arg(long)]
    schedules: bool,
    #[arg(long, hide = true)]
    list: bool,
}

/// A kernel of the summary.
#[derive(Serialize)]
struct Kernel {
    name: String,
    family: String,
    /// How often it is launched.
    count: usize,
    source_nodes: Vec<String>,
    /// Rules that made its operators.
    rules: Vec<String>,
    /// No cost model yet.
    estimated_us: Option<f64>,
}

#[derive(Serialize)]
struct Summary {
    model: String,
    recipe_hash: String,
    target: &'static str,
    bucket: Option<String>,
    /// Launches, copies and fills together, those of all branches and of one round of each loop.
    launches: usize,
    /// Branches and loops of the launch plan.
    #[serde(skip_serializing_if = "is_zero")]
    conditionals: usize,
    kernels: Vec<Kernel>,
    copies: usize,
    memsets: usize,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    if arguments.schedules {
        let help = "`tenon lower --stage hw` shows the schedules that were chosen";
        return Err(Diagnostic::new("E0005", "`tenon explain --schedules` is not part of this version")
            .with_help(help)
            .into());
    }
    let session = Session::new();
    let inputs = arguments.model.read_inputs()?;
    let prepared = arguments.model.prepare(&session, &inputs, output, false)?;
    let mut driver = prepared.driver(&session)?.with_progress(|text| output.progress(text));
    let source = &prepared.source;
    if !arguments.summary {
        driver.modules(source, crate::stage::Stage::Fuse)?;
        let remarks = driver.report().remarks;
        if output.json {
            return output.print_json(&remarks);
        }
        return remarks.iter().try_for_each(|remark| output.print(&format!("{}\n", remark_line(remark))));
    }
    let programs = driver.programs(source)?;
    let hash = source.contracted.as_ref().map_or_else(|| prepared.request.recipe.hash(), |dump| dump.hash.clone());
    let summaries: Vec<_> = programs.into_iter().map(|program| summary(program, &source.name, &hash)).collect();
    if output.json {
        // One bucket and one target, the usual case, is one object.
        return match summaries.as_slice() {
            [summary] => output.print_json(summary),
            several => output.print_json(&several),
        };
    }
    for summary in summaries {
        let bucket = summary.bucket.map(|bucket| format!(", {bucket}")).unwrap_or_default();
        output.print(&format!(
            "{}, {}{bucket}: {} launches, {} of them copies and {} fills{}\n",
            summary.model,
            summary.target,
            summary.launches,
            summary.copies,
            summary.memsets,
            match summary.conditionals {
                0 => String::new(),
                count => format!("; {count} branches and loops, one round of each counted"),
            }
        ))?;
        let row = |kernel: Kernel| {
            let (nodes, rules) = (kernel.source_nodes.join(", "), kernel.rules.join(", "));
            vec![kernel.name, kernel.family, kernel.count.to_string(), nodes, rules]
        };
        output.print(&aligned(
            &["kernel", "family", "launches", "nodes", "rules"],
            &summary.kernels.into_iter().map(row).collect::<Vec<_>>(),
        ))?;
    }
    Ok(())
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn summary(program: Program, model: &str, hash: &str) -> Summary {
    let mut kernels: Vec<Kernel> = Vec::new();
    let (mut copies, mut memsets) = (0, 0);
    let mut conditionals = 0;
    let mut pending: Vec<&Step> = program.plan.steps.iter().rev().collect();
    while let Some(step) = pending.pop() {
        match &step.operation {
            Operation::Launch(launch) => match kernels.iter_mut().find(|kernel| kernel.name == launch.entry) {
                Some(kernel) => {
                    kernel.count += 1;
                    kernel.source_nodes.extend(step.source_nodes.iter().cloned());
                }
                None => {
                    let family = program.kernels.iter().find(|kernel| kernel.name == launch.entry);
                    kernels.push(Kernel {
                        name: launch.entry.clone(),
                        family: family.map(|kernel| kernel.family.clone()).unwrap_or_default(),
                        count: 1,
                        source_nodes: step.source_nodes.clone(),
                        rules: family.map(|kernel| kernel.rules.clone()).unwrap_or_default(),
                        estimated_us: None,
                    });
                }
            },
            Operation::Copy(_) | Operation::ReadExtent(_) => copies += 1,
            Operation::Memset(_) => memsets += 1,
            Operation::If(choice) => {
                conditionals += 1;
                pending.extend(choice.then.iter().chain(&choice.otherwise).rev());
            }
            Operation::While(repeat) => {
                conditionals += 1;
                pending.extend(repeat.body.iter().rev());
            }
            _ => {}
        }
    }
    Summary {
        model: model.to_owned(),
        recipe_hash: hash.to_owned(),
        target: program.target.name(),
        bucket: program.bucket,
        launches: kernels.iter().map(|kernel| kernel.count).sum::<usize>() + copies + memsets,
        conditionals,
        kernels,
        copies,
        memsets,
    }
}
