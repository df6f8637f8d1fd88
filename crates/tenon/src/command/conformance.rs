//! `tenon conformance`: run a test suite and compare the results with those expected.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use regex::Regex;
use serde::Serialize;
use tenon_target::Target;

use super::output::{Output, aligned};
use crate::conformance::{
    CaseResult, Deviation, Expectations, Limits, Outcome, Settings, find_cases, run_cases, sample,
};
use crate::{Diagnostic, Failure};

#[derive(Subcommand)]
pub(super) enum Suite {
    /// The ONNX backend tests: folders with `model.onnx` and `test_data_set_N`.
    ///
    /// Each case is compiled for exactly the shapes of its inputs and runs as PTX on the simulator with all checks on, in a process of its
    /// own. It passes if every output has the recorded element type and shape, and every element the recorded value: floats within
    /// 1e-7 + 1e-3 · |recorded| as in ONNX's own runner (f16 and bf16: two ULP, 2⁻⁹ and 2⁻⁶, in place of 1e-3; floats of 8 bits and less,
    /// integers and booleans exactly), NaN and infinities only where they are recorded. It is refused if a code says before it runs that something is not
    /// supported. Everything else has failed: another value, a check of the simulator, a fault of the compiler, a crash, no end.
    ///
    /// Exit status 1 if a case failed or, with --expect, gave another result than the file says, an unexpected pass included.
    Onnx(Arguments),
}

#[derive(Args)]
pub(super) struct Arguments {
    /// The tree: every folder in it with a `model.onnx` is a case
    folder: PathBuf,
    /// Only cases in whose names this regular expression is found
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// A GPU (`a100-sxm4-80gb`) or architecture (`sm_80`)
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Only so many cases, chosen by --seed
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Chooses the sample, and the order of warps and blocks
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Processes that run cases at a time; as many as there are processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Results expected, a line a case: `NAME passed` or `NAME refused CODE`
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Write the results to the file of --expect; a failed case gets no line
    #[arg(long, requires = "expect")]
    bless: bool,
    /// Seconds that a case may take
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86400))]
    limit: u64,
    /// Warp instructions that a launch may take
    #[arg(long, value_name = "N", default_value_t = 200_000_000)]
    instruction_budget: u64,
}

#[derive(Serialize)]
struct Machine<'r> {
    passed: usize,
    failed: usize,
    refused: usize,
    cases: &'r [CaseResult],
}

pub(super) fn run(suite: &Suite, output: &Output) -> Result<(), Failure> {
    let Suite::Onnx(arguments) = suite;
    let expectations = match &arguments.expect {
        Some(path) if !arguments.bless || path.exists() => Some(Expectations::load(path)?),
        Some(_) => Some(Expectations::default()),
        None => None,
    };
    let target = match &arguments.target {
        Some(name) => Target::find(name)?,
        None => Target::default_target(),
    };
    let mut cases = find_cases(&arguments.folder)?;
    let is_whole = arguments.filter.is_none() && arguments.sample.is_none();
    if let Some(filter) = &arguments.filter {
        cases.retain(|case| filter.is_match(&case.name));
    }
    if let Some(count) = arguments.sample {
        cases = sample(cases, count, arguments.seed);
    }
    if cases.is_empty() {
        let message = format!("no case of {} is left to run", arguments.folder.display());
        return Err(Diagnostic::new("E0040", message).with_help("correct --filter or --sample").into());
    }
    let settings = Settings { target, instruction_budget: arguments.instruction_budget, seed: arguments.seed };
    let mut limits = Limits { time: Duration::from_secs(arguments.limit), ..Limits::default() };
    if let Some(jobs) = arguments.jobs {
        limits.jobs = usize::from(jobs);
    }
    let progress = |done: usize, result: &CaseResult| {
        let verdict = &result.verdict;
        let code = verdict.code.as_deref().map(|code| format!(" {code}")).unwrap_or_default();
        let detail = verdict.detail.as_deref().filter(|_| output.verbose).map(|detail| format!(": {detail}"));
        let detail = detail.unwrap_or_default();
        output.progress(&format!("{done}/{} {} {}{code}{detail}", cases.len(), result.name, verdict.outcome.name()));
    };
    let results = run_cases(&cases, &settings, &limits, &progress)?;
    output.end_progress();
    print(&results, target, output)?;
    conclude(&results, expectations, arguments, is_whole, output)
}

/// Compares with what is expected, or writes it.
fn conclude(
    results: &[CaseResult],
    expectations: Option<Expectations>,
    arguments: &Arguments,
    is_whole: bool,
    output: &Output,
) -> Result<(), Failure> {
    let failed = results.iter().filter(|result| result.verdict.outcome == Outcome::Failed).map(|result| Deviation {
        name: result.name.clone(),
        reason: format!("failed: {}", result.verdict.detail.as_deref().unwrap_or_default()),
    });
    let deviations: Vec<Deviation> = match (expectations, &arguments.expect) {
        (Some(mut expectations), Some(path)) if arguments.bless => {
            expectations.bless(results, is_whole);
            expectations.save(path)?;
            output.note(&format!("{} is what is expected now", path.display()));
            failed.collect()
        }
        (Some(expectations), _) => expectations.deviations(results, is_whole),
        (None, _) => failed.collect(),
    };
    if deviations.is_empty() {
        return Ok(());
    }
    Err(unexpected(&deviations, arguments.expect.as_deref()).into())
}

fn unexpected(deviations: &[Deviation], file: Option<&Path>) -> Diagnostic {
    const SHOWN: usize = 30;
    let mut lines: Vec<String> =
        deviations.iter().take(SHOWN).map(|deviation| format!("{}: {}", deviation.name, deviation.reason)).collect();
    if deviations.len() > SHOWN {
        lines.push(format!("and {} more", deviations.len() - SHOWN));
    }
    let count = if deviations.len() == 1 { "1 case is".to_owned() } else { format!("{} cases are", deviations.len()) };
    let message = format!("{count} not as expected\n  {}", lines.join("\n  "));
    let help = match file {
        Some(file) => format!("correct what fails; if the rest is meant, write {} with --bless", file.display()),
        None => "a case that fails is a fault of the compiler or of the tree".to_owned(),
    };
    Diagnostic::new("E0041", message).with_help(help)
}

fn print(results: &[CaseResult], target: &Target, output: &Output) -> Result<(), Failure> {
    let count = |outcome| results.iter().filter(|result| result.verdict.outcome == outcome).count();
    let (passed, failed, refused) = (count(Outcome::Passed), count(Outcome::Failed), count(Outcome::Refused));
    if output.json {
        return output.print_json(&Machine { passed, failed, refused, cases: results });
    }
    let mut operators: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
    for result in results {
        operators.entry(&result.operator).or_default()[result.verdict.outcome as usize] += 1;
        if let (Outcome::Refused, Some(code)) = (result.verdict.outcome, &result.verdict.code) {
            *codes.entry(code).or_default() += 1;
        }
    }
    let rows: Vec<Vec<String>> = operators
        .iter()
        .map(|(name, counts)| std::iter::once((*name).to_owned()).chain(counts.iter().map(usize::to_string)).collect())
        .collect();
    let mut text = aligned(&["operator", "passed", "failed", "refused"], &rows);
    let codes: Vec<String> = codes.iter().map(|(code, count)| format!("{code} {count}")).collect();
    if !codes.is_empty() {
        text.push_str(&format!("refused by code: {}\n", codes.join(", ")));
    }
    text.push_str(&format!("{passed} passed, {failed} failed, {refused} refused on {}\n", target.name()));
    output.print(&text)
}
