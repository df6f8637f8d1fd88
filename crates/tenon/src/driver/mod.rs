//! From a model or a dump through the stages.
//!
//! - [`Source`]: what compilation begins with: a model that was imported, or a dump of any stage.
//! - [`Driver::lower`]: takes it through the stages and hands out dumps of those that are wanted.
//! - [`Driver::programs`]: compiles it to [`Program`]s, which the runtime executes.
//!
//! Invariants: every MLIR dump parses back to the same text; files appear whole or not at all; a module is lowered stage by stage in the
//! order of the table, each by the function that resuming from a dump uses too.

mod backend;
mod bucket;
mod budget;
mod dump;
mod kernels;
mod program;
#[cfg(any(test, feature = "remote-store"))]
mod remote_store;
mod source;
mod store;
mod stream;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenon_ir::{Module, PrintOptions, Session};
use tenon_pass_manager::{Options, Report, Runner};
use tenon_recipe::{Loaded, Recipe};
use tenon_rewrite_passes::Rule;
use tenon_shape_passes::{Point, ShapeSpace};
use tenon_target::Target;
use tenon_tensor::Tensor;

pub use dump::{Dump, Header, write_file};
pub use kernels::{KernelTime, SharedKernel, StoreLookup};
pub use program::{GraphKernel, Program};
#[cfg(feature = "remote-store")]
pub use remote_store::RemoteStore;
pub use source::Source;
pub use store::{FolderStore, KernelKey, KernelStore, Miss};

pub(crate) use bucket::{cost as point_cost, label as bucket_label};

use crate::stage::Stage;
use crate::validators::{Contracted, VALIDATORS, Validator, validate};
use crate::{Diagnostic, Failure, passes};

/// What is compiled for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The recipe.
    pub recipe: Recipe,
    /// Targets, at least one.
    pub targets: Vec<&'static Target>,
    /// Whether the user named the targets.
    pub targets_are_named: bool,
    /// Which buckets; all where it is empty.
    pub bucket: Point,
    /// Shapes of the inputs of a run, by name: only the bucket that holds them.
    pub input_shapes: Option<Vec<(String, Vec<u64>)>>,
    /// How passes run.
    pub passes: Options,
    /// Threads that compile kernels.
    pub threads: usize,
}

impl Request {
    /// Everything of a recipe, for the default target.
    pub fn of(recipe: Recipe) -> Request {
        Request {
            recipe,
            targets: vec![Target::default_target()],
            targets_are_named: false,
            bucket: Point::new(),
            input_shapes: None,
            passes: Options::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// What a stage works on.
pub(crate) enum Content<'s> {
    /// A module of MLIR.
    Module(Module<'s>),
    /// LLVM IR of each kernel, optimised.
    Llvm(Vec<(String, tenon_ir::llvm::LlvmModule)>),
    /// PTX or SASS.
    Text(String),
}

/// A module, or its text, at one stage.
pub(crate) struct Unit<'s> {
    pub(crate) stage: Stage,
    pub(crate) content: Content<'s>,
    /// `batch=4,seq=64`; `None` where there is one bucket without names, and before there are buckets.
    pub(crate) bucket: Option<String>,
    pub(crate) target: Option<&'static Target>,
    /// Its sizes by name, as far as they are known: a dump from `bucket` on has them as its label alone.
    pub(crate) point: Point,
    /// Literals of the graph that became parameters of the program, from stage `hw` on.
    pub(crate) literals: Vec<(String, Tensor)>,
}

/// Time that a stage took, with its dumps left out; of the stages from `gpu` to `ptx`, where kernels are compiled side by side, the sum over
/// kernels.
#[derive(Debug, Clone)]
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// The bucket.
    pub bucket: Option<String>,
    /// The target's name.
    pub target: Option<&'static str>,
    /// How long it took.
    pub time: Duration,
}

/// Is told what is being done.
type Progress<'o> = dyn FnMut(&str) + 'o;

/// Compiles.
pub struct Driver<'s, 'o> {
    session: &'s Session,
    request: &'o Request,
    runner: Runner<'o>,
    times: Vec<StageTime>,
    notes: Vec<String>,
    library: kernels::Library,
    progress: Option<Box<Progress<'o>>>,
    validators: Vec<&'o dyn Validator>,
    recipe_text: Option<RecipeText>,
    /// Buckets over the budget that parts do not help, by label, with the reason.
    unsplit: BTreeMap<Option<String>, String>,
    /// Rules that do not run; passes that do not are the runner's.
    disabled_rules: Vec<String>,
    shapes_hint: Option<&'static str>,
    other_rules: Vec<&'static Rule>,
}

/// Where the clauses of the recipe stand in its file.
struct RecipeText {
    name: String,
    text: Arc<str>,
    clauses: BTreeMap<String, Range<usize>>,
}

impl<'s, 'o> Driver<'s, 'o> {
    /// A driver for one request.
    ///
    /// # Errors
    /// The request names a pass that does not exist or cannot be disabled.
    pub fn new(session: &'s Session, request: &'o Request) -> Result<Self, Failure> {
        let mut options = request.passes.clone();
        options.disable.extend(request.recipe.compile.disable.iter().cloned());
        let (disabled_rules, disabled) = options.disable.drain(..).partition(|name| passes::is_rule(name));
        options.disable = disabled;
        let runner = Runner::new(options, &passes::names())?;
        Ok(Driver {
            session,
            request,
            runner,
            times: Vec::new(),
            notes: Vec::new(),
            library: Default::default(),
            progress: None,
            validators: VALIDATORS.to_vec(),
            recipe_text: None,
            unsplit: BTreeMap::new(),
            disabled_rules,
            shapes_hint: None,
            other_rules: Vec::new(),
        })
    }

    /// Rewrites by rules of the caller's too, behind those of the pass.
    pub fn with_rules(mut self, rules: &[&'static Rule]) -> Self {
        self.other_rules.extend(rules);
        self
    }

    /// Hands the dumps before and after passes to a function.
    pub fn with_pass_dumps(mut self, mut dump: impl FnMut(usize, &str, &str, &str) + 'o) -> Self {
        self.runner = self.runner.with_dump(move |number, name, point, text| {
            let point = if point == tenon_pass_manager::DumpPoint::Before { "before" } else { "after" };
            dump(number, name, point, text);
        });
        self
    }

    /// Holds the contracted graph against a rule of the caller's too.
    pub fn with_validator(mut self, validator: &'o dyn Validator) -> Self {
        self.validators.push(validator);
        self
    }

    /// Lets refusals that concern a clause of the recipe show its place.
    pub fn with_recipe_text(mut self, path: &Path, loaded: &Loaded) -> Self {
        self.recipe_text = Some(RecipeText {
            name: path.display().to_string(),
            text: loaded.text.as_str().into(),
            clauses: loaded.clauses.clone(),
        });
        self
    }

    /// Lets a refusal of free dimensions (E0223) say what else than a recipe gives them sizes.
    pub fn with_shapes_hint(mut self, hint: &'static str) -> Self {
        self.shapes_hint = Some(hint);
        self
    }

    /// Looks for compiled kernels in a store first, and keeps there what is compiled.
    pub fn with_store(mut self, store: Arc<dyn KernelStore>) -> Self {
        self.library.use_store(store);
        self
    }

    /// What the store had of each kernel that it was asked for.
    pub fn store_lookups(&self) -> &[StoreLookup] {
        self.library.lookups()
    }

    /// Tells a function what is being done, before each stage.
    pub fn with_progress(mut self, progress: impl FnMut(&str) + 'o) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// What is compiled for.
    pub fn request(&self) -> &'o Request {
        self.request
    }

    /// What passes reported.
    pub fn report(&self) -> Report {
        self.runner.report()
    }

    /// Times of stages.
    pub fn times(&self) -> &[StageTime] {
        &self.times
    }

    /// Times of the kernels that were compiled side by side, one entry a compilation.
    pub fn kernel_times(&self) -> &[KernelTime] {
        self.library.times()
    }

    /// Remarks of the driver itself: stages that were left out, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Goes through the stages up to the last one wanted, and hands out dumps of those that are wanted.
    ///
    /// With `tools_optional`, a `sass` stage whose tools are missing is left out, with a note.
    ///
    /// # Errors
    /// Anything that a stage refuses; a wanted stage before that of the source.
    pub fn lower(
        &mut self,
        source: &Source<'s>,
        wanted: &[Stage],
        tools_optional: bool,
        sink: &mut dyn FnMut(Dump) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (Some(first), Some(last)) = (wanted.iter().min(), wanted.iter().max()) else { return Ok(()) };
        if *first < source.stage {
            let message = format!("`{}` is at stage `{}`, after `{first}`", source.name, source.stage);
            let help = format!("ask for `{}` or a later stage, or begin with the model", source.stage);
            return Err(Diagnostic::new("E0006", message).with_help(help).into());
        }
        let unit = self.unit(source)?;
        let between = |stage: &Stage| (Stage::Gpu..Stage::Ptx).contains(stage);
        let direct = *last >= Stage::Ptx && !wanted.iter().any(between);
        self.visit(
            unit,
            direct,
            &mut |driver, unit| {
                if wanted.contains(&unit.stage) {
                    sink(driver.dump(unit)?)?;
                }
                Ok(unit.stage < *last)
            },
            tools_optional,
        )
    }

    /// The modules of a stage up to `fuse`, each with its bucket.
    ///
    /// # Errors
    /// Anything that a stage refuses; a source after that stage.
    pub fn modules(&mut self, source: &Source<'s>, stage: Stage) -> Result<Vec<(Option<String>, Module<'s>)>, Failure> {
        let modules = self.modules_at_points(source, stage)?;
        Ok(modules.into_iter().map(|(bucket, _, module)| (bucket, module)).collect())
    }

    /// [`modules`](Self::modules), each with the sizes of its bucket too.
    pub(crate) fn modules_at_points(
        &mut self,
        source: &Source<'s>,
        stage: Stage,
    ) -> Result<Vec<(Option<String>, Point, Module<'s>)>, Failure> {
        if stage < source.stage {
            let message = format!("`{}` is at stage `{}`, after `{stage}`", source.name, source.stage);
            return Err(Diagnostic::new("E0006", message).with_help("begin with the model or an earlier dump").into());
        }
        let mut modules = Vec::new();
        self.each_module(source, stage, &mut |bucket, point, module| {
            modules.push((bucket.map(str::to_owned), point.clone(), module.duplicate()));
        })?;
        Ok(modules)
    }

    /// How many modules a stage up to `fuse` has; none is kept.
    ///
    /// # Errors
    /// As [`modules`](Self::modules).
    pub fn check(&mut self, source: &Source<'s>, stage: Stage) -> Result<usize, Failure> {
        let mut count = 0;
        self.each_module(source, stage, &mut |_, _, _| count += 1)?;
        Ok(count)
    }

    fn each_module(
        &mut self,
        source: &Source<'s>,
        stage: Stage,
        show: &mut dyn FnMut(Option<&str>, &Point, &Module<'s>),
    ) -> Result<(), Failure> {
        let unit = self.unit(source)?;
        self.visit(
            unit,
            false,
            &mut |_, unit| {
                if let (true, Content::Module(module)) = (unit.stage == stage, &unit.content) {
                    show(unit.bucket.as_deref(), &unit.point, module);
                }
                Ok(unit.stage < stage)
            },
            false,
        )
    }

    /// The source as a unit of its own.
    fn unit(&self, source: &Source<'s>) -> Result<Unit<'s>, Failure> {
        let target = source.target.or_else(|| (source.stage >= Stage::Hw).then(|| self.request.targets[0]));
        if let Some(target) = source.target
            && self.request.targets_are_named
            && !self.request.targets.iter().any(|named| named.architecture.name == target.architecture.name)
        {
            let message = format!("`{}` was lowered for {}", source.name, target.name());
            return Err(Diagnostic::new("E0038", message).with_help("begin at stage `fuse` for another target").into());
        }
        Ok(Unit {
            stage: source.stage,
            content: source.content()?,
            bucket: source.bucket.clone(),
            target,
            point: source.point.clone(),
            literals: Vec::new(),
        })
    }

    /// Depth first: `visit` sees each unit and says whether to go on from it. With `direct`, stages between `hw` and `ptx` are not made for a
    /// whole module, but kernel by kernel.
    fn visit(
        &mut self,
        unit: Unit<'s>,
        direct: bool,
        visit: &mut dyn FnMut(&mut Self, &Unit<'s>) -> Result<bool, Failure>,
        tools_optional: bool,
    ) -> Result<(), Failure> {
        let mut pending = vec![unit];
        while let Some(unit) = pending.pop() {
            if !visit(self, &unit)? {
                continue;
            }
            let is_ptx = unit.stage == Stage::Ptx;
            match self.advance(unit, direct) {
                Ok(units) => pending.extend(units.into_iter().rev()),
                Err(Failure(diagnostics)) if is_ptx && tools_optional && diagnostics.iter().all(is_missing_tool) => {
                    let reasons: Vec<_> = diagnostics.iter().map(|d| format!("{} ({})", d.message, d.code)).collect();
                    let note = format!("stage `sass` is left out: {}", reasons.join("; "));
                    if !self.notes.contains(&note) {
                        self.notes.push(note);
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// The unit at the next stage: several where a stage makes one for each bucket or target.
    fn advance(&mut self, unit: Unit<'s>, direct: bool) -> Result<Vec<Unit<'s>>, Failure> {
        let Some(next) = unit.stage.next() else { return Ok(Vec::new()) };
        let Unit { content, bucket, target, literals, point, .. } = unit;
        match (next, content) {
            (Stage::Bucket, Content::Module(module)) => {
                let points = bucket::chosen(&ShapeSpace::read(&module)?, &module, self.request)?;
                let mut units = Vec::with_capacity(points.len());
                for point in points {
                    let label = bucket::label(&point);
                    let mut copy = module.duplicate();
                    let copy = self
                        .run_passes(next, &point, &mut copy, &label)
                        .and_then(|()| self.in_parts(&module, &point, copy, &label))
                        .map_err(|failure| self.at_clause(of_bucket(failure, label.as_deref())))?;
                    units.push(Unit {
                        stage: next,
                        content: Content::Module(copy),
                        bucket: label,
                        target,
                        point,
                        literals: Vec::new(),
                    });
                }
                Ok(units)
            }
            (Stage::Contract | Stage::Flow | Stage::Fuse, Content::Module(mut module)) => {
                self.run_passes(next, &Point::new(), &mut module, &bucket)
                    .map_err(|failure| self.at_clause(of_bucket(self.hinted(failure), bucket.as_deref())))?;
                if next == Stage::Contract {
                    let (recipe, targets) = (&self.request.recipe, self.request.targets.as_slice());
                    let contracted = Contracted { recipe, module: &module, targets };
                    validate(self.validators.iter().copied(), &contracted)
                        .map_err(|failure| self.at_clause(failure))?;
                }
                Ok(vec![Unit { stage: next, content: Content::Module(module), bucket, target, point, literals }])
            }
            (Stage::Hw, Content::Module(module)) => {
                let mut units = Vec::new();
                for target in self.request.targets.clone() {
                    let (lowered, literals) = self
                        .timed(next, &bucket, Some(target), |driver| backend::to_hw(driver.session, &module, target))
                        .map_err(|failure| of_bucket(failure, bucket.as_deref()))?;
                    let content = Content::Module(lowered);
                    let (bucket, point) = (bucket.clone(), point.clone());
                    units.push(Unit { stage: next, content, bucket, target: Some(target), point, literals });
                }
                Ok(units)
            }
            (Stage::Gpu, Content::Module(module)) if direct => {
                let target = target.unwrap_or(self.request.targets[0]);
                let content = Content::Text(self.ptx(&module, &bucket, target)?.ptx);
                Ok(vec![Unit { stage: Stage::Ptx, content, bucket, target: Some(target), point, literals }])
            }
            (_, content) => {
                let target = target.unwrap_or(self.request.targets[0]);
                let content = self.timed(next, &bucket, Some(target), |driver| {
                    backend::advance(driver.session, next, content, target)
                })?;
                Ok(vec![Unit { stage: next, content, bucket, target: Some(target), point, literals }])
            }
        }
    }

    /// Says of free dimensions what else gives them sizes.
    fn hinted(&self, mut failure: Failure) -> Failure {
        if let Some(hint) = self.shapes_hint {
            for diagnostic in failure.0.iter_mut().filter(|diagnostic| diagnostic.code == "E0223") {
                let help = diagnostic.help.take().unwrap_or_default();
                diagnostic.help = Some(format!("{help}\n\nor {hint}"));
            }
        }
        failure
    }

    /// Gives refusals the place of the clause that they name, where they have none: the longest path that stands in the text.
    fn at_clause(&self, failure: Failure) -> Failure {
        let Some(recipe) = &self.recipe_text else { return failure };
        let place = |diagnostic: Diagnostic| {
            let texts = [Some(diagnostic.message.as_str()), diagnostic.help.as_deref()];
            let named = |clause: &&String| {
                let quoted = [format!("`{clause}`"), format!("`[{clause}]`"), format!("`{clause} = ")];
                texts.iter().flatten().any(|text| quoted.iter().any(|quoted| text.contains(quoted)))
            };
            match recipe.clauses.keys().filter(named).max_by_key(|clause| clause.len()) {
                Some(clause) if diagnostic.source.is_none() => {
                    diagnostic.with_source(&recipe.name, &recipe.text, recipe.clauses[clause].clone())
                }
                _ => diagnostic,
            }
        };
        Failure(failure.0.into_iter().map(place).collect())
    }

    /// PTX of a module of stage `hw`, kernel by kernel.
    fn ptx(
        &mut self,
        module: &Module<'_>,
        bucket: &Option<String>,
        target: &'static Target,
    ) -> Result<kernels::Compiled, Failure> {
        self.tell(Stage::Ptx, bucket, Some(target));
        let compiled = self.library.compile(self.session, module, target, self.request.threads)?;
        let times = compiled.times;
        for (stage, time) in
            [(Stage::Gpu, times.gpu), (Stage::Nvvm, times.nvvm), (Stage::Llvm, times.llvm), (Stage::Ptx, times.ptx)]
        {
            self.times.push(StageTime { stage, bucket: bucket.clone(), target: Some(target.name()), time });
        }
        Ok(compiled)
    }

    /// Says what is done next.
    fn tell(&mut self, stage: Stage, bucket: &Option<String>, target: Option<&'static Target>) {
        if let Some(progress) = &mut self.progress {
            let place =
                [bucket.as_deref(), target.map(Target::name)].into_iter().flatten().map(|part| format!(" {part}"));
            progress(&format!("{stage}{}", place.collect::<String>()));
        }
    }

    fn run_passes(
        &mut self,
        stage: Stage,
        point: &Point,
        module: &mut Module<'s>,
        bucket: &Option<String>,
    ) -> Result<(), Failure> {
        let settings = passes::Settings {
            recipe: &self.request.recipe,
            point,
            target: self.request.targets[0],
            disabled_rules: &self.disabled_rules,
            other_rules: &self.other_rules,
        };
        let passes = passes::passes(stage, &settings);
        self.timed(stage, bucket, None, |driver| Ok(driver.runner.run(&passes, module)?))
    }

    fn timed<T>(
        &mut self,
        stage: Stage,
        bucket: &Option<String>,
        target: Option<&'static Target>,
        run: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.tell(stage, bucket, target);
        let target = target.map(Target::name);
        let start = Instant::now();
        let result = run(self)?;
        self.times.push(StageTime { stage, bucket: bucket.clone(), target, time: start.elapsed() });
        Ok(result)
    }

    /// The unit as text, checked to parse back to itself.
    fn dump(&self, unit: &Unit<'s>) -> Result<Dump, Failure> {
        let body = match &unit.content {
            Content::Module(module) => module.print(PrintOptions { locations: true, generic: false }),
            Content::Llvm(kernels) => backend::llvm_text(kernels),
            Content::Text(text) => text.clone(),
        };
        let dump = Dump::new(unit, body, &self.request.targets);
        dump.check(self.session)?;
        Ok(dump)
    }
}

/// Refusals of a bucket, which name it.
fn of_bucket(mut failure: Failure, bucket: Option<&str>) -> Failure {
    if let Some(bucket) = bucket {
        for diagnostic in failure.0.iter_mut().filter(|diagnostic| !diagnostic.message.contains(bucket)) {
            diagnostic.message = format!("bucket {bucket}: {}", diagnostic.message);
            if diagnostic.code == "E0303" {
                let help = diagnostic.help.take().map(|help| format!("{help}; ")).unwrap_or_default();
                diagnostic.help = Some(format!(
                    "{help}or allow other sizes in `semantic.dims` of the recipe (`tenon recipe init` looks for the smallest that fit)"
                ));
            }
        }
    }
    failure
}

/// Whether a tool could not be found, as against one that refused.
fn is_missing_tool(diagnostic: &Diagnostic) -> bool {
    diagnostic.code == backend::TOOL_MISSING
}
