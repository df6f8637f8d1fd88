//! The runner.

use std::time::{Duration, Instant};

use tenon_ir::{Module, PrintOptions};

use crate::{LastRewrite, Pass, PassContext, PassError, Remark, check};

/// When a dump is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpPoint {
    /// Before the pass.
    Before,
    /// After the pass.
    After,
}

/// Receives dumps: number of the pass in this run, its name, the point, the module's text.
pub type Dump<'o> = dyn FnMut(usize, &str, DumpPoint, &str) + 'o;

/// What a run does beside running passes.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Passes that do not run.
    pub disable: Vec<String>,
    /// Passes whose module is dumped before them; `*` is all.
    pub dump_before: Vec<String>,
    /// Passes whose module is dumped after them; `*` is all.
    pub dump_after: Vec<String>,
    /// Stop rewriting after this many rewrites.
    pub stop_after_rewrite: Option<u64>,
}

/// Time that a pass took.
#[derive(Debug, Clone)]
pub struct Timing {
    /// The pass.
    pub pass: &'static str,
    /// Its own time.
    pub run: Duration,
    /// Time of verifying and checking what it left.
    pub verify: Duration,
}

/// What was observed of all passes so far.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Times, in order of running.
    pub timings: Vec<Timing>,
    /// Counters: pass, counter, value.
    pub counters: Vec<(&'static str, &'static str, u64)>,
    /// Remarks in order.
    pub remarks: Vec<Remark>,
    /// Number of rewrites done.
    pub rewrites: u64,
    /// The last rewrite that [`Options::stop_after_rewrite`] allows, if there were that many.
    pub last_rewrite: Option<LastRewrite>,
}

/// Runs passes under the same options and collects what they report.
pub struct Runner<'o> {
    options: Options,
    context: PassContext,
    timings: Vec<Timing>,
    dump: Option<Box<Dump<'o>>>,
}

/// The candidate most similar to a name, if one is similar at all.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let scored = candidates.into_iter().map(|candidate| (strsim::osa_distance(name, candidate), candidate));
    let (distance, candidate) = scored.min()?;
    // A third of the longer name, so that a short word is not proposed for any other.
    let length = name.chars().count().max(candidate.chars().count());
    (distance < length && distance <= length.div_ceil(3).max(1)).then_some(candidate)
}

impl<'o> Runner<'o> {
    /// A runner that knows passes by name: each name with whether later stages depend on it.
    ///
    /// # Errors
    /// An option that names no pass, or disables one that is required.
    pub fn new(options: Options, known: &[(&'static str, bool)]) -> Result<Self, PassError> {
        let dumps = options.dump_before.iter().chain(&options.dump_after).filter(|name| *name != "*");
        for name in options.disable.iter().chain(dumps) {
            if !known.iter().any(|(pass, _)| pass == name) {
                return Err(PassError::Unknown {
                    name: name.clone(),
                    nearest: nearest(name, known.iter().map(|(pass, _)| *pass)).map(str::to_owned),
                    valid: known.iter().map(|(pass, _)| (*pass).to_owned()).collect(),
                });
            }
        }
        if let Some(name) =
            options.disable.iter().find(|name| known.iter().any(|(pass, required)| pass == name && *required))
        {
            return Err(PassError::Required { name: name.clone() });
        }
        let context = PassContext::new(options.stop_after_rewrite);
        Ok(Runner { options, context, timings: Vec::new(), dump: None })
    }

    /// Hands dumps to a function.
    pub fn with_dump(mut self, dump: impl FnMut(usize, &str, DumpPoint, &str) + 'o) -> Self {
        self.dump = Some(Box::new(dump));
        self
    }

    /// Runs passes in order on a module.
    ///
    /// # Errors
    /// A pass refuses, lacks what it needs, or leaves a module that does not verify.
    pub fn run(&mut self, passes: &[Box<dyn Pass>], module: &mut Module<'_>) -> Result<(), PassError> {
        for pass in passes {
            self.run_pass(pass.as_ref(), module)?;
        }
        Ok(())
    }

    /// Runs one pass.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_pass(&mut self, pass: &dyn Pass, module: &mut Module<'_>) -> Result<(), PassError> {
        let name = pass.name();
        if self.options.disable.iter().any(|disabled| disabled == name) {
            return Ok(());
        }
        for property in pass.needs() {
            if let Some(detail) = property.missing(module) {
                return Err(PassError::Needs { pass: name, property: *property, detail });
            }
        }
        let number = self.timings.len();
        self.dump(number, name, DumpPoint::Before, module);
        self.context.enter(name);
        let start = Instant::now();
        pass.run(module, &self.context)?;
        let run = start.elapsed();
        let start = Instant::now();
        verify(module, || format!("after pass `{name}`"))?;
        self.timings.push(Timing { pass: name, run, verify: start.elapsed() });
        self.dump(number, name, DumpPoint::After, module);
        Ok(())
    }

    fn dump(&mut self, number: usize, name: &str, point: DumpPoint, module: &Module<'_>) {
        let wanted = match point {
            DumpPoint::Before => &self.options.dump_before,
            DumpPoint::After => &self.options.dump_after,
        };
        if let Some(dump) = &mut self.dump
            && wanted.iter().any(|wanted| wanted == name || wanted == "*")
        {
            dump(number, name, point, &module.print(PrintOptions { locations: true, generic: false }));
        }
    }

    /// What was observed so far.
    pub fn report(&self) -> Report {
        Report {
            timings: self.timings.clone(),
            counters: self.context.counters(),
            remarks: self.context.remarks(),
            rewrites: self.context.rewrites(),
            last_rewrite: self.context.last_rewrite(),
        }
    }
}

/// Checks a module by MLIR's verifier and the dialects' semantic checks; `when` says at which point, for the message.
///
/// # Errors
/// The first finding, with the number of others.
pub fn verify(module: &Module<'_>, when: impl Fn() -> String) -> Result<(), PassError> {
    module.verify().map_err(|error| PassError::Broken { when: when(), detail: error.to_string() })?;
    let findings = check(module);
    if let Some(first) = findings.first() {
        let more = if findings.len() > 1 { format!(", and {} more", findings.len() - 1) } else { String::new() };
        return Err(PassError::Broken { when: when(), detail: format!("{} ({}){more}", first.message, first.code) });
    }
    Ok(())
}
