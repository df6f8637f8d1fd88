//! Programs against the reference interpreter.
//!
//! Inputs come from seeds. A program runs through its PTX on the simulator; the reference runs the graph of stage `contract` at the same
//! sizes, every operator rounding to its type. Of a padded dimension the size is that of the bucket, or with `padding` any that the bucket is
//! the cheapest for: what a padded run gives must be what the unpadded graph gives. Where an output leaves the tolerance, kernels are compared one by one,
//! and the first that does is named.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tenon_bundle::Bundle;
use tenon_ir::{Module, Session};
use tenon_pass_manager::{Pass, PassContext};
use tenon_recipe::{Recipe, Tolerance};
use tenon_reference::{Interpreter, Mode, run_function};
use tenon_runtime::plan::Operation;
use tenon_runtime::{Instance, SimulatorDevice, SimulatorOptions};
use tenon_shape_passes::{Bucket as AtPoint, Entry, Point, ShapeSpace};
use tenon_target::Target;
use tenon_tensor::Tensor;

use super::parts::{self, Part};
use super::random::{Random, tensor};
use crate::bundle::{LoadedProgram, load, states};
use crate::{Diagnostic, Failure};

/// How programs are compared.
#[derive(Debug, Clone)]
pub struct NumericOptions<'a> {
    /// Seeds of inputs.
    pub seeds: Vec<u64>,
    /// At sizes within padded buckets, instead of those of the buckets.
    pub padding: bool,
    /// Weights of the model, beside those of the bundle.
    pub weights: &'a BTreeMap<String, Tensor>,
}

/// A program that was compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NumericCheck {
    /// The target.
    pub target: String,
    /// The bucket.
    pub bucket: Option<String>,
    /// The sizes of named dimensions that it ran with.
    pub sizes: BTreeMap<String, u64>,
    /// The seed.
    pub seed: u64,
    /// The error of each output.
    pub outputs: Vec<Errors>,
    /// The first kernel that leaves the tolerance, with its nodes, where an output does.
    pub first_kernel: Option<String>,
}

/// How far a value is from the reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Errors {
    /// The value.
    pub name: String,
    /// Elements.
    pub elements: usize,
    /// Largest absolute error.
    pub largest: f64,
    /// Mean absolute error.
    pub mean: f64,
    /// Absolute error that half of the elements stay within.
    pub median: f64,
    /// Absolute error that 99 of 100 elements stay within.
    pub percentile_99: f64,
    /// Largest error as a part of what the tolerance allows; more than 1 is refused.
    pub of_tolerance: f64,
}

impl Errors {
    /// Compares a value with the reference: `abs + rel · |expected|` is allowed. Equal infinities and two NaN agree.
    pub(crate) fn of(name: &str, actual: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Result<Errors, Failure> {
        if actual.shape() != expected.shape() {
            let infinite = f64::INFINITY;
            return Ok(Errors {
                name: name.to_owned(),
                elements: 0,
                largest: infinite,
                mean: infinite,
                median: infinite,
                percentile_99: infinite,
                of_tolerance: infinite,
            });
        }
        let mut of_tolerance: f64 = 0.0;
        let mut errors = Vec::with_capacity(actual.element_count());
        for (actual, expected) in actual.iter_f64()?.zip(expected.iter_f64()?) {
            let same = actual == expected || actual.is_nan() && expected.is_nan();
            let error = if same { 0.0 } else { (actual - expected).abs() };
            let error = if error.is_nan() { f64::INFINITY } else { error };
            let allowed = tolerance.abs + tolerance.rel * expected.abs();
            let part = if error == 0.0 {
                0.0
            } else if error.is_infinite() {
                f64::INFINITY
            } else {
                error / allowed
            };
            of_tolerance = of_tolerance.max(part);
            errors.push(error);
        }
        let mean = if errors.is_empty() { 0.0 } else { errors.iter().sum::<f64>() / errors.len() as f64 };
        errors.sort_by(f64::total_cmp);
        let at = |part: usize| {
            errors.get((errors.len() * part / 100).min(errors.len().saturating_sub(1))).copied().unwrap_or(0.0)
        };
        Ok(Errors {
            name: name.to_owned(),
            elements: errors.len(),
            largest: errors.last().copied().unwrap_or(0.0),
            mean,
            median: at(50),
            percentile_99: at(99),
            of_tolerance,
        })
    }

    /// Whether the tolerance allows it.
    pub fn is_within(&self) -> bool {
        self.of_tolerance <= 1.0
    }
}

/// Runs all programs of a bundle for a target.
///
/// # Errors
/// A program does not run, or the reference does not compute the graph.
pub fn check_numerics(
    bundle: &Bundle,
    recipe: &Recipe,
    target: &'static Target,
    contract: &Module<'_>,
    options: &NumericOptions<'_>,
    progress: &dyn Fn(&str),
) -> Result<(Vec<NumericCheck>, Vec<Diagnostic>), Failure> {
    let (programs, weights) = load(bundle, target)?;
    let space = ShapeSpace::read(contract)?;
    let states = states(bundle, &weights);
    let (mut checks, mut refused) = (Vec::new(), Vec::new());
    for program in &programs {
        let point: Point = program.record.bucket.iter().map(|(name, size)| (name.clone(), *size)).collect();
        if options.padding && !point.iter().any(|(name, _)| space.is_padded(name)) {
            continue;
        }
        let own = program.record.parameters.iter().filter_map(|(name, key)| Some((name.as_str(), weights.get(key)?)));
        let of_model = options.weights.iter().map(|(name, value)| (name.as_str(), value));
        let values: BTreeMap<&str, &Tensor> = of_model.chain(own).collect();
        for seed in &options.seeds {
            let sizes = if options.padding {
                within(&space, &point, *seed, &|sizes| holds(program, sizes))
            } else {
                point.clone()
            };
            let label = crate::driver::bucket_label(&sizes).unwrap_or_default();
            progress(&format!("numerics {} {label} seed {seed}", target.name()));
            let subject =
                Subject { bundle, program, values: &values, states: &states, contract, sizes: &sizes, seed: *seed };
            let (mut check, inputs) = subject.compare(target, recipe.numerics.tolerance)?;
            if let Some(worst) = check.outputs.iter().find(|errors| !errors.is_within()) {
                let culprit = subject.first_kernel(&inputs, recipe.numerics.tolerance)?;
                let bucket = program.record.label().map(|label| format!(" of bucket {label}")).unwrap_or_default();
                let at = if label.is_empty() { String::new() } else { format!(" at {label}") };
                let message = format!(
                    "output `{}`{bucket}{at} for {} is {:e} from the reference, {:.1} times what the recipe allows (seed {seed})",
                    worst.name,
                    target.name(),
                    worst.largest,
                    worst.of_tolerance
                );
                let help = match &culprit {
                    Some((kernel, _)) => format!("the first kernel that leaves the tolerance is `{kernel}`"),
                    None => "no kernel alone leaves the tolerance, or the plan's launches are not the graph's kernels one by one".to_owned(),
                };
                let code = if options.padding { "E0245" } else { "E0244" };
                let nodes = culprit.as_ref().map(|(_, nodes)| nodes.clone()).unwrap_or_default();
                refused.push(Diagnostic { nodes, ..Diagnostic::new(code, message).with_help(help) });
                check.first_kernel = culprit.map(|(kernel, _)| kernel);
            }
            checks.push(check);
        }
    }
    Ok((checks, refused))
}

/// How many times sizes are drawn that fulfil a program's conditions.
const DRAWS: usize = 256;

/// Sizes that a padded bucket is taken for: above the next smaller one, at most its own, and such that they fit; those of the bucket where none
/// are found.
fn within(space: &ShapeSpace, point: &Point, seed: u64, fits: &dyn Fn(&Point) -> bool) -> Point {
    let mut random: BTreeMap<&str, Random> =
        point.iter().map(|(name, _)| (name.as_str(), Random::new(seed, name))).collect();
    let mut draw = || -> Point {
        let size = |(name, most): &(String, u64)| {
            let axis = space.axes().iter().find(|axis| axis.name == *name);
            let below = axis.and_then(|axis| axis.sizes.iter().filter(|size| *size < most).max()).copied().unwrap_or(0);
            match random.get_mut(name.as_str()).filter(|_| space.is_padded(name)) {
                Some(random) => (name.clone(), random.size(below + 1, *most)),
                None => (name.clone(), *most),
            }
        };
        point.iter().map(size).collect()
    };
    (0..DRAWS).map(|_| draw()).find(fits).unwrap_or_else(|| point.clone())
}

/// Whether a program's conditions hold at sizes.
fn holds(program: &LoadedProgram, sizes: &Point) -> bool {
    let extents = sizes.iter().filter_map(|(name, size)| Some((name.clone(), i64::try_from(*size).ok()?)));
    program.executable.check_requirements(&extents.collect()).is_ok()
}

/// A program at sizes, with inputs of a seed.
struct Subject<'a> {
    bundle: &'a Bundle,
    program: &'a LoadedProgram,
    values: &'a BTreeMap<&'a str, &'a Tensor>,
    /// First values of the buffers that the model keeps.
    states: &'a BTreeMap<String, Tensor>,
    contract: &'a Module<'a>,
    sizes: &'a Point,
    seed: u64,
}

/// A graph with every named dimension a number.
pub(crate) fn at_sizes<'s>(module: &Module<'s>, sizes: &Point) -> Result<Module<'s>, Failure> {
    let mut copy = module.duplicate();
    copy.op().remove_attribute("graph.padded");
    AtPoint { point: sizes.clone() }.run(&mut copy, &PassContext::new(None))?;
    // The bundle holds the weights that kernels read; what nothing reads is not asked for.
    tenon_cleanup_passes::RemoveDead.run(&mut copy, &PassContext::new(None))?;
    Ok(copy)
}

impl Subject<'_> {
    fn parameter(&self, name: &str) -> Option<Tensor> {
        self.values.get(name).map(|tensor| (*tensor).clone())
    }

    /// Whether every weight that a graph declares is at hand.
    fn is_complete(&self, module: &Module<'_>) -> bool {
        let declared = module.body().ops().into_iter().filter(|op| op.is("graph.parameter"));
        declared.filter_map(|op| op.string("sym_name")).all(|name| self.values.contains_key(name.as_str()))
    }

    fn device(&self) -> Arc<SimulatorDevice> {
        Arc::new(SimulatorDevice::new(SimulatorOptions { seed: self.seed, ..SimulatorOptions::default() }))
    }

    /// Inputs, and what a graph gives on them.
    fn reference(&self, module: &Module<'_>) -> Result<(Vec<(String, Tensor)>, Vec<Tensor>), Failure> {
        let mut inputs = Vec::new();
        for port in &Entry::of(module)?.inputs {
            let shape = port.ty.known_shape().unwrap_or_default();
            let shape: Vec<usize> = shape.iter().map(|size| usize::try_from(*size).unwrap_or(usize::MAX)).collect();
            // A buffer that the model keeps begins with the value that the bundle has.
            let first = self.states.get(&port.name).cloned();
            let value = match first.filter(|first| first.shape() == shape) {
                Some(first) => first,
                None => tensor(port.ty.dtype, &shape, self.seed, &port.name)?,
            };
            inputs.push((port.name.clone(), value));
        }
        let tensors: Vec<Tensor> = inputs.iter().map(|(_, tensor)| tensor.clone()).collect();
        let expected = run_function(module, "main", &tensors, &|name| self.parameter(name), Mode::Typed)?;
        Ok((inputs, expected))
    }

    fn compare(&self, target: &Target, tolerance: Tolerance) -> Result<(NumericCheck, Vec<(String, Tensor)>), Failure> {
        let module = at_sizes(self.contract, self.sizes)?;
        // Without the model, a bundle has no weights that others were computed from: the reference is the graph that has the others.
        let (inputs, expected) = if self.is_complete(&module) {
            self.reference(&module)?
        } else {
            let session = Session::new();
            let graph = &self.program.record.graph;
            let fused = session.parse_module(self.bundle.text(graph)?, graph)?;
            self.reference(&at_sizes(&fused, self.sizes)?)?
        };
        let mut instance = Instance::new(self.device(), Arc::clone(&self.program.executable))?;
        let (kept, given): (Vec<_>, Vec<_>) =
            inputs.iter().cloned().partition(|(name, _)| self.states.contains_key(name));
        for (name, first) in kept {
            instance.keep(name, first);
        }
        let result = instance.run(&given)?;
        let mut outputs = Vec::new();
        for ((name, actual), expected) in result.outputs.iter().zip(&expected) {
            outputs.push(Errors::of(name, actual, expected, tolerance)?);
            // What the next run takes is what this one gave.
            if let Some(kept) = instance.kept().get(name) {
                outputs.push(Errors::of(&format!("{name} (kept)"), kept, expected, tolerance)?);
            }
        }
        let check = NumericCheck {
            target: target.name().to_owned(),
            bucket: self.program.record.label(),
            sizes: self.sizes.iter().cloned().collect(),
            seed: self.seed,
            outputs,
            first_kernel: None,
        };
        Ok((check, inputs))
    }

    /// The first kernel of which a result leaves the tolerance, with its nodes: the reference runs the grouped graph, and each launch is
    /// held against the kernel that it came from.
    fn first_kernel(
        &self,
        inputs: &[(String, Tensor)],
        tolerance: Tolerance,
    ) -> Result<Option<(String, Vec<String>)>, Failure> {
        let session = Session::new();
        let graph = &self.program.record.graph;
        let fused = session.parse_module(self.bundle.text(graph)?, graph)?;
        let module = at_sizes(&fused, self.sizes)?;
        let tensors: Vec<Tensor> = inputs.iter().map(|(_, tensor)| tensor.clone()).collect();
        let expected: RefCell<Vec<(Vec<String>, Vec<(Tensor, Vec<Part>)>)>> = RefCell::new(Vec::new());
        let lookup = |name: &str| self.parameter(name);
        let mut interpreter = Interpreter::new(&module, &lookup, Mode::Typed).observe(|op, index, value| {
            if op.is("graph.kernel") {
                let mut expected = expected.borrow_mut();
                if index == 0 {
                    expected.push((op.location().names(), Vec::new()));
                }
                if let Some((_, values)) = expected.last_mut() {
                    values.push((value.clone(), parts::of(op, index)));
                }
            }
        });
        interpreter.run("main", &tensors)?;
        drop(interpreter);
        let kernels: Vec<_> = expected
            .into_inner()
            .into_iter()
            .filter(|(_, values)| values.iter().any(|(value, _)| value.element_count() > 0))
            .collect();
        let plan = self.program.executable.plan();
        let launches: Vec<usize> = (0..plan.steps.len())
            .filter(|index| matches!(plan.steps[*index].operation, Operation::Launch(_)))
            .collect();
        let agree = launches.len() == kernels.len()
            && launches.iter().zip(&kernels).all(|(step, (nodes, _))| plan.steps[*step].source_nodes == *nodes);
        if !agree {
            return Ok(None);
        }
        let mut found: Option<(String, Vec<String>)> = None;
        let mut failed: Option<Failure> = None;
        let mut instance = Instance::new(self.device(), Arc::clone(&self.program.executable))?;
        instance.run_observed(inputs, &mut |step, memory| {
            let Some(place) = launches.iter().position(|launch| *launch == step) else { return Ok(()) };
            let Operation::Launch(launch) = &plan.steps[step].operation else { return Ok(()) };
            if found.is_some() || failed.is_some() {
                return Ok(());
            }
            let (nodes, values) = &kernels[place];
            let places: Vec<_> = launch.arguments.iter().filter_map(tenon_runtime::plan::Argument::place).collect();
            let results = places.iter().skip(places.len().saturating_sub(values.len()));
            for ((value, parts), place) in values.iter().zip(results) {
                let size = value.dtype().size();
                let bytes = memory.read(*place, parts::bytes(parts, value.bytes().len()))?;
                let bytes = parts::cut(parts, bytes, size);
                let compared = Tensor::new(value.dtype(), value.shape().to_vec(), bytes)
                    .map_err(Failure::from)
                    .and_then(|actual| Errors::of(&launch.entry, &actual, value, tolerance));
                match compared {
                    Ok(errors) if errors.is_within() => {}
                    Ok(_) => found = Some((launch.entry.clone(), nodes.clone())),
                    Err(failure) => failed = Some(failure),
                }
            }
            Ok(())
        })?;
        match failed {
            Some(failure) => Err(failure),
            None => Ok(found),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_held_against_the_tolerance() {
        let tensor = |values: &[f32]| Tensor::from_f32(vec![values.len()], values).unwrap();
        let tolerance = Tolerance { abs: 0.5, rel: 0.0 };
        let of = |a: &[f32], b: &[f32]| Errors::of("y", &tensor(a), &tensor(b), tolerance).unwrap();
        let errors = of(&[1.0, 2.25, 3.0, 4.0], &[1.0, 2.0, 3.0, 4.5]);
        assert_eq!((errors.largest, errors.mean, errors.of_tolerance), (0.5, 0.1875, 1.0));
        assert!(errors.is_within() && !of(&[0.0], &[0.75]).is_within());
        assert!(of(&[f32::NAN, f32::INFINITY], &[f32::NAN, f32::INFINITY]).is_within());
        assert!(!of(&[f32::NAN], &[0.0]).is_within() && !of(&[f32::INFINITY], &[0.0]).is_within());
        assert!(!of(&[0.0], &[0.0, 0.0]).is_within());
        let exact = Tolerance { abs: 0.0, rel: 0.0 };
        assert!(Errors::of("y", &tensor(&[1.0]), &tensor(&[1.0]), exact).unwrap().is_within());
        assert!(!Errors::of("y", &tensor(&[1.0]), &tensor(&[1.5]), exact).unwrap().is_within());
    }

    #[test]
    fn sizes_lie_between_the_next_smaller_bucket_and_its_own() {
        let axis = |name: &str, padded| tenon_shape_passes::Axis { name: name.into(), sizes: vec![4, 16], padded };
        let space = ShapeSpace::new(vec![axis("n", true), axis("m", false)]);
        for seed in 0..200 {
            let sizes = within(&space, &vec![("m".into(), 4), ("n".into(), 16)], seed, &|_| true);
            assert!(sizes[0].1 == 4 && (5..=16).contains(&sizes[1].1), "{sizes:?}");
            assert!((1..=4).contains(&within(&space, &vec![("n".into(), 4)], seed, &|_| true)[0].1));
            assert_eq!(within(&space, &vec![("n".into(), 16)], seed, &|sizes| sizes[0].1 == 7)[0].1, 7);
        }
    }
}
