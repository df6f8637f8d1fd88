//! `tenon explain`: what was decided.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde::Serialize;
use tenon_fusion_passes::{Kernels, Relation};
use tenon_ir::Session;
use tenon_pass_manager::nearest;
use tenon_rewrite_passes::{CostModel, KernelCost};
use tenon_runtime::plan::{Operation, Step};

use super::arguments::ModelArguments;
use super::lower::remark_line;
use super::output::{Output, aligned};
use crate::driver::{Driver, Program, Source};
use crate::stage::Stage;
use crate::{Diagnostic, Failure};

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Kernels and launches instead of remarks
    #[arg(long)]
    summary: bool,
    /// Whether two nodes of the model share a kernel, and if not, what stood in the way
    #[arg(long, num_args = 2, value_names = ["NODE", "NODE"], conflicts_with = "summary")]
    pair: Option<Vec<String>>,
    /// Schedules that were weighed for each kernel, and their estimates
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
    /// Microseconds of one launch, by the cost model of the target.
    estimated_us: Option<f64>,
    /// The best of the other groupings of its operators.
    alternative: Option<Alternative>,
}

/// A grouping that was rejected.
#[derive(Serialize, Clone)]
struct Alternative {
    what: String,
    estimated_us: f64,
}

/// How two nodes lie in a bucket.
#[derive(Serialize)]
struct Pair<'a> {
    bucket: Option<String>,
    nodes: [&'a str; 2],
    /// The kernel that computes both.
    kernel: Option<String>,
    /// Those that compute each.
    kernels: [Vec<String>; 2],
    /// What stood in the way.
    reason: Option<String>,
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
    /// What is estimated of copies that run beside kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<Streams>,
}

/// Estimates for a plan whose copies to and from host memory have streams of their own.
#[derive(Serialize)]
struct Streams {
    /// Microseconds of the copies, by the bandwidth of the target's link.
    copies_us: f64,
    /// Microseconds of the whole plan.
    estimated_us: f64,
    /// Microseconds of the whole plan if nothing ran beside anything.
    one_by_one_us: f64,
}

impl Streams {
    /// Of a plan with several streams; nothing where a kernel has no estimate, or the target no link.
    fn of(program: &Program, costs: &Costs) -> Option<Self> {
        let (plan, link) = (&program.plan, program.target.gpu.links.pcie);
        if !plan.has_streams() || link <= 0.0 {
            return None;
        }
        let us = |step: &Step| match &step.operation {
            Operation::Launch(launch) => {
                costs.get(&(program.bucket.clone(), program.target.name(), launch.entry.clone())).map(|cost| cost.us)
            }
            Operation::Copy(copy) if step.stream != 0 => Some(copy.bytes.as_number()? as f64 / link * 1e6),
            _ => Some(0.0),
        };
        let all: Vec<f64> = plan.steps.iter().map(us).collect::<Option<_>>()?;
        let timeline = plan.timeline(|index, _| all[index]);
        let copies = plan.steps.iter().zip(&all).filter(|(step, _)| step.stream != 0);
        let copies_us = copies.map(|(_, us)| us).sum();
        Some(Streams { copies_us, estimated_us: timeline.end, one_by_one_us: timeline.sum })
    }
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let session = Session::new();
    let inputs = arguments.model.read_inputs()?;
    let prepared = arguments.model.prepare(&session, &inputs, output, false)?;
    let request = &prepared.request;
    let mut driver = prepared.driver(&session)?.with_progress(|text| output.progress(text));
    let source = &prepared.source;
    if arguments.schedules {
        return super::schedules::print(&mut driver, source, &request.targets, output);
    }
    if let Some([first, second]) = arguments.pair.as_deref() {
        return pair(&mut driver, source, [first.as_str(), second.as_str()], output);
    }
    if !arguments.summary {
        driver.modules(source, Stage::Fuse)?;
        let remarks = driver.report().remarks;
        if output.json {
            return output.print_json(&remarks);
        }
        return remarks.iter().try_for_each(|remark| output.print(&format!("{}\n", remark_line(remark))));
    }
    let mut costs = Costs::new();
    let models: Vec<_> = request.targets.iter().map(|target| (target.name(), CostModel::of(target))).collect();
    let programs =
        driver.programs_and(source, &mut |stage, bucket, module| {
            if stage == Stage::Fuse {
                let bucket = bucket.map(str::to_owned);
                for op in module.op().walk().into_iter().filter(|op| op.is("graph.kernel")) {
                    let name = op.string("sym_name").unwrap_or_default();
                    costs.extend(models.iter().filter_map(|(target, model)| {
                        Some(((bucket.clone(), *target, name.clone()), model.kernel(op)?))
                    }));
                }
            }
            Ok(())
        })?;
    let hash = source.contracted.as_ref().map_or_else(|| request.recipe.hash(), |dump| dump.hash.clone());
    let summaries: Vec<_> = programs.into_iter().map(|program| summary(program, &source.name, &hash, &costs)).collect();
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
        if let Some(Streams { copies_us, estimated_us, one_by_one_us }) = summary.streams {
            output.print(&format!(
                "copies to and from host memory take about {copies_us:.2} us beside kernels: {estimated_us:.2} us in all, {one_by_one_us:.2} us one by one\n"
            ))?;
        }
        let row = |kernel: Kernel| {
            let (nodes, rules) = (kernel.source_nodes.join(", "), kernel.rules.join(", "));
            let us = kernel.estimated_us.map_or("-".to_owned(), |us| format!("{us:.2}"));
            let other =
                kernel.alternative.map_or("-".to_owned(), |other| format!("{:.2}: {}", other.estimated_us, other.what));
            vec![kernel.name, kernel.family, kernel.count.to_string(), us, other, nodes, rules]
        };
        output.print(&aligned(
            &["kernel", "family", "launches", "us", "best alternative, us", "nodes", "rules"],
            &summary.kernels.into_iter().map(row).collect::<Vec<_>>(),
        ))?;
    }
    Ok(())
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Says how two nodes lie.
fn pair<'s>(
    driver: &mut Driver<'s, '_>,
    source: &Source<'s>,
    nodes: [&str; 2],
    output: &Output,
) -> Result<(), Failure> {
    let mut known = BTreeSet::new();
    for (_, module) in driver.modules(source, source.stage)? {
        known.extend(module.op().walk().into_iter().flat_map(|op| op.location().names()));
    }
    if let Some(node) = nodes.iter().find(|node| !known.contains(**node)) {
        let nearest = nearest(node, known.iter().map(String::as_str));
        let help = match nearest {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "`tenon table` lists the nodes of a model".to_owned(),
        };
        return Err(Diagnostic::new("E0057", format!("no operator comes from a node `{node}`")).with_help(help).into());
    }
    let modules = driver.modules(source, Stage::Fuse)?;
    let mut pairs = Vec::new();
    for (bucket, module) in &modules {
        let kernels = Kernels::of(module);
        let of_node = || nodes.map(|node| kernels.of_node(node));
        let (kernel, reason) = match kernels.relation(nodes[0], nodes[1]) {
            Relation::Together { kernel } => (Some(kernel), None),
            Relation::Apart { reason, .. } => (None, Some(reason)),
        };
        pairs.push(Pair { bucket: bucket.clone(), nodes, kernel, kernels: of_node(), reason });
    }
    if output.json {
        return match pairs.as_slice() {
            [pair] => output.print_json(pair),
            several => output.print_json(&several),
        };
    }
    for pair in pairs {
        let bucket = pair.bucket.map(|bucket| format!("{bucket}: ")).unwrap_or_default();
        let [first, second] = pair.nodes;
        let place = |kernels: &[String]| match kernels {
            [] => "in no kernel".to_owned(),
            kernels => format!("in {}", kernels.join(", ")),
        };
        output.print(&match (pair.kernel, pair.reason) {
            (Some(kernel), _) => format!("{bucket}{first} and {second} share kernel {kernel}\n"),
            (None, reason) => format!(
                "{bucket}{first} ({}) and {second} ({}) share no kernel: {}\n",
                place(&pair.kernels[0]),
                place(&pair.kernels[1]),
                reason.unwrap_or_default()
            ),
        })?;
    }
    Ok(())
}

/// Costs of kernels by bucket, target and name.
type Costs = BTreeMap<(Option<String>, &'static str, String), KernelCost>;

fn summary(program: Program, model: &str, hash: &str, costs: &Costs) -> Summary {
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
                    let cost = costs.get(&(program.bucket.clone(), program.target.name(), launch.entry.clone()));
                    let family = program.kernels.iter().find(|kernel| kernel.name == launch.entry);
                    kernels.push(Kernel {
                        name: launch.entry.clone(),
                        family: family.map(|kernel| kernel.family.clone()).unwrap_or_default(),
                        count: 1,
                        source_nodes: step.source_nodes.clone(),
                        rules: family.map(|kernel| kernel.rules.clone()).unwrap_or_default(),
                        estimated_us: cost.map(|cost| cost.us),
                        alternative: cost
                            .and_then(|cost| cost.alternative.as_ref())
                            .map(|other| Alternative { what: other.what.clone(), estimated_us: other.us }),
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
    let streams = Streams::of(&program, costs);
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
        streams,
    }
}
