//! `tenon run BUNDLE`: run what was built before; nothing compiles.

use std::path::Path;
use std::time::Instant;

use tenon_bundle::{Bundle, Identity};
use tenon_runtime::SimulatorOptions;
use tenon_target::Target;

use super::device::DeviceName;
use super::output::Output;
use super::run::{Arguments, Machine, by_kernel, counters_text, total, typed_inputs, write_outputs};
use crate::bundle::{load, pool};
use crate::{Diagnostic, Failure};

/// The target to run for: the one named, else the only one of the bundle, else the default.
pub(super) fn target_of(bundle: &Bundle, named: &[String]) -> Result<&'static Target, Failure> {
    match named {
        [name] => Ok(Target::find(name)?),
        [] => match bundle.manifest().targets.as_slice() {
            [only] => Ok(Target::find(&only.name)?),
            _ => Ok(Target::default_target()),
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
    let compiles = [
        ("--weights", model.weights.is_some()),
        ("--bucket", model.bucket.is_some()),
        ("--shapes-from-inputs", model.shapes_from_inputs),
    ];
    if let Some((option, _)) = compiles.iter().find(|(_, given)| *given) {
        let message = format!("{option} is for models; a bundle was compiled before");
        return Err(Diagnostic::new("E0051", message).with_help("leave it out, or name the model").into());
    }
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
    let index = pool.choose(&inputs)?;
    pool.instance(index)?;
    let loaded = start.elapsed();
    let start = Instant::now();
    output.progress("running");
    let (index, result) = pool.run(&inputs)?;
    output.end_progress();
    let ran = start.elapsed();
    let outputs = write_outputs(&result, arguments.output.as_deref())?;
    let has_buckets = programs.iter().any(|program| !program.record.bucket.is_empty());
    let bucket = has_buckets.then(|| pool.buckets()[index].name.clone());
    if output.json {
        return output.print_json(&Machine {
            target: target.name(),
            bucket,
            device: device_name,
            seed: (arguments.device == DeviceName::Simulator).then_some(seed),
            launches: result.launches,
            extents: result.extents.clone(),
            constant_inputs: Vec::new(),
            compile_seconds: loaded.as_secs_f64(),
            run_seconds: ran.as_secs_f64(),
            outputs,
            counters: arguments.counters.then(|| total(&result)),
            kernels: arguments.counters.then(|| by_kernel(&result)),
        });
    }
    let bucket = bucket.map(|bucket| format!(", bucket {bucket}")).unwrap_or_default();
    output.print(&format!(
        "{} for {}{bucket}: loaded in {:.2} s, {} launches on {} in {:.2} s\n",
        path.display(),
        target.name(),
        loaded.as_secs_f64(),
        result.launches,
        if arguments.device == DeviceName::Simulator { "the simulator" } else { &device_name },
        ran.as_secs_f64()
    ))?;
    if arguments.counters {
        output.print(&counters_text(&result))?;
    }
    for row in outputs {
        let file = row.file.map(|file| format!(" in {}", file.display())).unwrap_or_default();
        output.print(&format!("output {}: {}{:?}{file}\n", row.name, row.dtype, row.shape))?;
    }
    Ok(())
}
