//! `tenon run BUNDLE`: run what was built before; nothing compiles.

use std::path::Path;
use std::time::Instant;

use tenon_bundle::{Bundle, Identity};
use tenon_runtime::SimulatorOptions;
use tenon_target::Target;

use super::output::Output;
use super::run::{Arguments, at_bound, typed_inputs};
use super::run_report::Report;
use crate::bundle::{load, pool, states};
use crate::{Diagnostic, Failure};

/// The target to run for: the one named, else the only one of the bundle, else the default.
pub(super) fn target_of(bundle: &Bundle, named: &[String]) -> Result<&'static Target, Failure> {
    match named {
        [name] => Ok(Target::find(name)?),
        [] => match bundle.manifest().targets.as_slice() {
            [only] => Ok(Target::find(&only.name)?),
            several => {
                let default = Target::default_target();
                let names: Vec<&str> = several.iter().map(|target| target.name.as_str()).collect();
                let has_default = names.iter().any(|name| {
                    Target::find(name).is_ok_and(|target| target.architecture.name == default.architecture.name)
                });
                if has_default {
                    return Ok(default);
                }
                let message = format!("a run has one target, and the bundle is for {}", names.join(", "));
                Err(Diagnostic::new("E0036", message).with_help("name one with --target").into())
            }
        },
        several => {
            let message = format!("a run has one target, not {}", several.join(", "));
            Err(Diagnostic::new("E0036", message).with_help("name one with --target").into())
        }
    }
}

pub(super) fn run(path: &Path, arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let seed = arguments.seed.unwrap_or(0);
    let model = &arguments.model;
    model.check_beside_bundle()?;
    arguments.device.check_options(&[("--seed", arguments.seed.is_some()), ("--counters", arguments.counters)])?;
    let device = arguments.device.open(SimulatorOptions { seed, ..SimulatorOptions::default() })?;
    let start = Instant::now();
    let bundle = Bundle::open(path)?;
    let named = match &model.recipe {
        Some(recipe) => Some(super::recipe::load(recipe)?.recipe.hash()),
        None => arguments.recipe_hash.clone(),
    };
    bundle.check(&Identity { recipe: named, ..Identity::default() })?;
    let target = target_of(&bundle, &model.targets)?;
    device.check_target(&target.architecture.name.to_string())?;
    let (programs, weights) = load(&bundle, target)?;
    let device_name = arguments.device.describe(device.as_ref());
    let raw = model.read_inputs()?;
    let Some(first) = programs.first() else {
        let message = format!("{}: the bundle has no program", path.display());
        return Err(Diagnostic::new("E0048", message).with_help("build the bundle anew").into());
    };
    let inputs = typed_inputs(&model.inputs, raw, first.executable.plan(), &[])?;
    let mut pool = pool(device, &programs, &weights)?;
    for (name, first) in states(&bundle, &weights) {
        pool.keep(name, first);
    }
    let index = pool.choose(&inputs)?;
    pool.instance(index)?;
    let loaded = start.elapsed();
    let start = Instant::now();
    output.progress("running");
    let bucket = &pool.buckets()[index].sizes;
    let program = programs.iter().find(|program| program.record.bucket == *bucket);
    let counts: Vec<_> =
        program.iter().flat_map(|program| program.counts()).map(|(name, most)| (name.clone(), most)).collect();
    let (index, result) = pool.run(&inputs).map_err(|error| at_bound(error, &counts))?;
    output.end_progress();
    let ran = start.elapsed();
    let has_buckets = programs.iter().any(|program| !program.record.bucket.is_empty());
    let bucket = has_buckets.then(|| pool.buckets()[index].name.clone());
    let report = Report {
        source: path.display().to_string(),
        target: target.name(),
        bucket,
        device: device_name,
        constant_inputs: &[],
        prepared: "loaded",
        preparing: loaded,
        running: ran,
    };
    report.print(&result, arguments, output)
}
