//! `tenon verify`: check a bundle, or the bundle that a model becomes.

use std::collections::BTreeMap;

use clap::Args;
use tenon_bundle::{Bundle, Identity};
use tenon_ir::Session;
use tenon_target::Target;

use super::arguments::ModelArguments;
use super::output::{Output, aligned};
use crate::bundle::{build, compiler};
use crate::verify::{Options, Report, verify};
use crate::{Diagnostic, Failure};

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Run every bucket on the simulator and compare with the reference interpreter
    #[arg(long)]
    numerics: bool,
    /// Run padded buckets at sizes within them and compare with the unpadded graph
    #[arg(long)]
    padding: bool,
    /// How many seeds `--numerics` and `--padding` take inputs from
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    #[arg(long, hide = true)]
    list: bool,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let model = &arguments.model;
    let path = model.model.clone().unwrap_or_default();
    let recipe = model.recipe.as_deref().map(super::recipe::load).transpose()?;
    // A model is checked as what it becomes, in a folder that goes when this is done.
    let folder =
        tempfile::tempdir().map_err(|error| Diagnostic::new("E0002", format!("a temporary folder: {error}")))?;
    let mut weights = BTreeMap::new();
    let bundle = if model.model.is_some() && Bundle::is_one(&path) {
        model.check_beside_bundle()?;
        let bundle = Bundle::open(&path)?;
        let recipe = recipe.map(|loaded| loaded.recipe.hash());
        bundle.check(&Identity { compiler: Some(compiler()), recipe, ..Identity::default() })?;
        bundle
    } else {
        let session = Session::new();
        let inputs = model.read_inputs()?;
        let prepared = model.prepare(&session, &inputs, output, false)?;
        let mut driver = prepared.driver(&session)?.with_progress(|text| output.progress(text));
        let source = &prepared.source;
        let file = build(&mut driver, source, &model.stem())?.write(folder.path())?;
        weights.extend(source.weights.iter().map(|(name, tensor)| (name.clone(), tensor.clone())));
        Bundle::open(&file)?
    };
    let names: Vec<&str> = match model.targets.as_slice() {
        [] => bundle.manifest().targets.iter().map(|target| target.name.as_str()).collect(),
        named => named.iter().map(String::as_str).collect(),
    };
    let targets = names.into_iter().map(Target::find).collect::<Result<Vec<_>, _>>()?;
    let seeds = |wanted: bool| if wanted { (0..arguments.seeds).collect() } else { Vec::new() };
    let options = Options { numerics: seeds(arguments.numerics), padding: seeds(arguments.padding), weights };
    let report = verify(&bundle, &targets, &options, &|text| output.progress(text))?;
    output.end_progress();
    if output.json {
        output.print_json(&report)?;
    } else {
        output.print(&text(&report))?;
    }
    if report.refused.is_empty() { Ok(()) } else { Err(Failure(report.refused)) }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for (what, value) in &report.identity {
        text.push_str(&format!("{what}: {value}\n"));
    }
    if let Some(graph) = &report.graph {
        let dimensions = if graph.dimensions.is_empty() { "none".to_owned() } else { graph.dimensions.join(", ") };
        text.push_str(&format!(
            "graph: {} operators, free dimensions {dimensions}, control flow {} deep\n",
            graph.operators, graph.control_flow_depth
        ));
    }
    let shown = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
    let rows: Vec<_> = report
        .kernels
        .iter()
        .map(|kernel| {
            let occupancy = kernel.occupancy.map_or("-".to_owned(), |occupancy| format!("{occupancy:.2}"));
            let (registers, spills) = (shown(kernel.registers), shown(kernel.spills));
            vec![kernel.kernel.clone(), kernel.family.clone(), registers, spills, occupancy, kernel.target.clone()]
        })
        .collect();
    if !rows.is_empty() {
        text.push_str(&aligned(&["kernel", "family", "registers", "spills", "occupancy", "target"], &rows));
    }
    let mut rows = Vec::new();
    for check in &report.numerics {
        let sizes: Vec<_> = check.sizes.iter().map(|(name, size)| format!("{name}={size}")).collect();
        for errors in &check.outputs {
            let number = |value: f64| format!("{value:.2e}");
            rows.push(vec![
                errors.name.clone(),
                sizes.join(","),
                check.seed.to_string(),
                number(errors.largest),
                number(errors.percentile_99),
                number(errors.median),
                number(errors.mean),
                format!("{:.3}", errors.of_tolerance),
                check.target.clone(),
            ]);
        }
    }
    if !rows.is_empty() {
        let headings = ["output", "sizes", "seed", "largest", "99 %", "median", "mean", "of tolerance", "target"];
        text.push_str(&aligned(&headings, &rows));
    }
    text
}
