//! The first rewrite after which a graph leaves the numeric promise.
//!
//! Rewrites of a compilation have an order: those of cleanup passes, of attention, and the equalities that the rules of the e-graph find. A compilation that stops
//! after any number of them gives a graph that the reference interpreter runs; it is held against the graph of stage `contract` with the tolerance of the
//! recipe. Bisection over the number finds a rewrite before which the check passes and after which it fails: the first one, where the check goes on failing
//! once it does. An equality may be declared well before extraction makes use of it, so the rules are tried too: those without which everything passes.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde::Serialize;
use tenon_ir::{Module, Session};
use tenon_pass_manager::Report;
use tenon_reference::{Mode, run_function};
use tenon_rewrite_passes::{RULES, Rule};
use tenon_shape_passes::Entry;
use tenon_tensor::Tensor;

use crate::driver::{Driver, Request, Source};
use crate::passes::is_rule;
use crate::stage::Stage;
use crate::verify::Errors;
use crate::verify::numerics::at_sizes;
use crate::verify::random::tensor;
use crate::{Diagnostic, Failure};

/// What is bisected.
pub struct Subject<'a, 's> {
    /// The session of the source.
    pub session: &'s Session,
    /// The model, at stage `import` or `contract`.
    pub source: &'a Source<'s>,
    /// Recipe, buckets, rules that do not run. Its clauses on what must be fused do not hold here: they fail where rewriting stops early.
    pub request: &'a Request,
    /// Rules beside those of the pass.
    pub rules: &'a [&'static Rule],
    /// Inputs by name; others are random.
    pub inputs: &'a BTreeMap<String, Tensor>,
    /// Seeds of the random ones.
    pub seeds: &'a [u64],
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bisection {
    /// Rewrites of the whole compilation.
    pub rewrites: u64,
    /// Compilations that were checked.
    pub checks: u64,
    /// The rewrite that breaks the promise; `None` where everything keeps it.
    pub first: Option<FirstFailure>,
}

/// A rewrite after which the check fails, and before which it passes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FirstFailure {
    /// Its number, from 1; 0: the check fails without any rewrite.
    pub rewrite: u64,
    /// The pass that did it.
    pub pass: Option<String>,
    /// What the pass counts it as.
    pub counter: Option<&'static str>,
    /// The rule, of a pass that has several.
    pub rule: Option<&'static str>,
    /// Nodes of the model.
    pub nodes: Vec<String>,
    /// The output that leaves the tolerance, after this rewrite.
    pub output: Errors,
    /// Its bucket.
    pub bucket: Option<String>,
    /// Seed of the inputs.
    pub seed: u64,
    /// Rules without any one of which the check passes after all rewrites.
    pub suspects: Vec<&'static str>,
}

/// Inputs of a bucket by one seed, and what the graph gives without rewrites.
struct Expected {
    seed: u64,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

/// An output out of tolerance.
struct Failing {
    output: Errors,
    bucket: Option<String>,
    seed: u64,
}

impl<'s> Subject<'_, 's> {
    /// Bisects, and says which compilation is being checked.
    ///
    /// # Errors
    /// The model is refused, or the interpreter does not run it; an input of another name, type or shape than the model's.
    pub fn bisect(&self, progress: &dyn Fn(&str)) -> Result<Bisection, Failure> {
        let expected = self.expected()?;
        let checks = Cell::new(0);
        let check = |limit: Option<u64>, without: Option<&str>| {
            checks.set(checks.get() + 1);
            match (limit, without) {
                (_, Some(rule)) => progress(&format!("check without `{rule}`")),
                (Some(limit), _) => progress(&format!("check after {limit} rewrites")),
                (None, None) => progress("check after all rewrites"),
            }
            self.check(&expected, limit, without)
        };
        let (all, report) = check(None, None)?;
        let rewrites = report.rewrites;
        let Some(mut failing) = all else { return Ok(Bisection { rewrites, checks: checks.get(), first: None }) };
        if let (Some(failing), _) = check(Some(0), None)? {
            let first = first_failure(0, &Report::default(), failing, Vec::new());
            return Ok(Bisection { rewrites, checks: checks.get(), first: Some(first) });
        }
        let (mut passes, mut fails) = (0, rewrites);
        while fails - passes > 1 {
            let middle = passes + (fails - passes) / 2;
            match check(Some(middle), None)?.0 {
                Some(found) => (fails, failing) = (middle, found),
                None => passes = middle,
            }
        }
        // The same compilation once more, which says what its last rewrite was.
        let (_, at_first) = self.modules(Stage::Fuse, Some(fails), None)?;
        let mut suspects = Vec::new();
        for rule in RULES.iter().chain(self.rules.iter().copied()) {
            let applied = at_first.counters.iter().any(|(_, counter, count)| *counter == rule.name && *count > 0);
            if applied && check(None, Some(rule.name))?.0.is_none() {
                suspects.push(rule.name);
            }
        }
        let first = first_failure(fails, &at_first, failing, suspects);
        Ok(Bisection { rewrites, checks: checks.get(), first: Some(first) })
    }

    /// The modules of a stage with a limit on rewrites, each with its bucket, by a compilation of their own.
    fn modules(
        &self,
        stage: Stage,
        limit: Option<u64>,
        without: Option<&str>,
    ) -> Result<(Modules<'s>, Report), Failure> {
        let mut request = self.request.clone();
        request.passes.stop_after_rewrite = limit;
        request.passes.disable.extend(without.filter(|rule| is_rule(rule)).map(str::to_owned));
        request.recipe.compile.require.clear();
        let own: Vec<&'static Rule> = self.rules.iter().copied().filter(|rule| without != Some(rule.name)).collect();
        let mut driver = Driver::new(self.session, &request)?.with_rules(&own);
        let modules = driver.modules_at_points(self.source, stage)?;
        Ok((modules, driver.report()))
    }

    fn weight(&self, name: &str) -> Option<Tensor> {
        self.source.weights.get(name).cloned()
    }

    /// What each bucket gives at its sizes, in order of buckets.
    fn expected(&self) -> Result<Vec<Vec<Expected>>, Failure> {
        let (contract, _) = self.modules(Stage::Contract, Some(0), None)?;
        let (buckets, _) = self.modules(Stage::Bucket, Some(0), None)?;
        let Some((_, _, contract)) = contract.into_iter().next() else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for (_, point, _) in &buckets {
            let module = at_sizes(&contract, point)?;
            let mut of_bucket = Vec::new();
            for seed in self.seeds {
                let inputs = self.inputs(&module, *seed)?;
                let outputs = run_function(&module, "main", &inputs, &|name| self.weight(name), Mode::Typed)?;
                of_bucket.push(Expected { seed: *seed, inputs, outputs });
            }
            all.push(of_bucket);
        }
        Ok(all)
    }

    /// Inputs as given, those that are kept between runs as they begin, others by the seed.
    fn inputs(&self, module: &Module<'_>, seed: u64) -> Result<Vec<Tensor>, Failure> {
        let ports = Entry::of(module)?.inputs;
        if let Some(name) = self
            .inputs
            .keys()
            .find(|name| ports.iter().all(|port| port.name != **name) && !self.source.constant_inputs.contains(name))
        {
            let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
            let message = format!("the model has no input `{name}`");
            return Err(Diagnostic::new("E0711", message)
                .with_help(format!("its inputs are {}", names.join(", ")))
                .into());
        }
        let mut tensors = Vec::with_capacity(ports.len());
        for port in &ports {
            let shape: Vec<usize> =
                port.ty.known_shape().unwrap_or_default().into_iter().map(|size| size as usize).collect();
            let state = || self.source.states.contains(&port.name).then(|| self.weight(&port.name)).flatten();
            let given = self.inputs.get(&port.name).cloned().or_else(state);
            tensors.push(match given {
                Some(given) if given.dtype() == port.ty.dtype && given.shape() == shape => given,
                Some(given) => {
                    let found = format!("{} {:?}", given.dtype(), given.shape());
                    let message = format!("input `{}` is {found} instead of {}", port.name, port.ty);
                    let code = match given.dtype() == port.ty.dtype {
                        false => "E0713",
                        true if given.shape().len() != shape.len() => "E0714",
                        true => "E0715",
                    };
                    let help = "give it as the bucket has it, or leave it out: inputs by seeds fit every bucket";
                    return Err(Diagnostic::new(code, message).with_help(help).into());
                }
                None => tensor(port.ty.dtype, &shape, seed, &port.name)?,
            });
        }
        Ok(tensors)
    }

    /// The first output that is out of tolerance after `limit` rewrites, or without a rule.
    fn check(
        &self,
        expected: &[Vec<Expected>],
        limit: Option<u64>,
        without: Option<&str>,
    ) -> Result<(Option<Failing>, Report), Failure> {
        let (modules, report) = self.modules(Stage::Fuse, limit, without)?;
        let tolerance = self.request.recipe.numerics.tolerance;
        for ((bucket, point, module), expected) in modules.into_iter().zip(expected) {
            let module = at_sizes(&module, &point)?;
            let names: Vec<_> = Entry::of(&module)?.outputs.into_iter().map(|port| port.name).collect();
            for Expected { seed, inputs, outputs } in expected {
                let actual = run_function(&module, "main", inputs, &|name| self.weight(name), Mode::Typed)?;
                for ((name, actual), expected) in names.iter().zip(&actual).zip(outputs) {
                    let output = Errors::of(name, actual, expected, tolerance)?;
                    if !output.is_within() {
                        return Ok((Some(Failing { output, bucket, seed: *seed }), report));
                    }
                }
            }
        }
        Ok((None, report))
    }
}

/// Modules, each with its bucket's label and sizes.
type Modules<'s> = Vec<(Option<String>, tenon_shape_passes::Point, Module<'s>)>;

fn first_failure(rewrite: u64, report: &Report, failing: Failing, suspects: Vec<&'static str>) -> FirstFailure {
    let last = report.last_rewrite.clone();
    FirstFailure {
        rewrite,
        pass: last.as_ref().map(|last| last.pass.clone()),
        counter: last.as_ref().map(|last| last.counter),
        rule: last.as_ref().and_then(|last| last.rule),
        nodes: last.map(|last| last.nodes).unwrap_or_default(),
        output: failing.output,
        bucket: failing.bucket,
        seed: failing.seed,
        suspects,
    }
}
