//! Compiled programs: what the runtime executes.

use indexmap::IndexMap;
use tenon_ir::Module;
use tenon_lowering::program::launch_plan;
use tenon_rewrite_passes::evaluate_derived;
use tenon_runtime::{Executable, LaunchPlan};
use tenon_shape_passes::Point;
use tenon_target::Target;
use tenon_tensor::Tensor;

use crate::driver::kernels::SharedKernel;
use crate::driver::{Content, Driver, Source, Unit, budget};
use crate::stage::Stage;
use crate::{Diagnostic, Failure};

/// One bucket for one target.
pub struct Program {
    /// The bucket.
    pub bucket: Option<String>,
    /// The target.
    pub target: &'static Target,
    /// The host side.
    pub plan: LaunchPlan,
    /// PTX of all kernels.
    pub ptx: String,
    /// Parameters of the plan that are no weights of the model: literals of the graph, and what was computed ahead from weights.
    pub literals: Vec<(String, Tensor)>,
    /// Kernels of the `fuse` stage: name, family, source nodes, in order.
    pub kernels: Vec<GraphKernel>,
    /// The kernels one by one, as all programs of the build share them.
    pub shared: Vec<SharedKernel>,
    /// The point of the shape space, by the names of its dimensions.
    pub point: Point,
}

/// A kernel as the `fuse` stage has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphKernel {
    /// Its name.
    pub name: String,
    /// Its family.
    pub family: String,
    /// Nodes of the model that it computes.
    pub source_nodes: Vec<String>,
    /// Rules that made its operators.
    pub rules: Vec<String>,
}

impl Program {
    /// The program with its weights.
    ///
    /// # Errors
    /// A weight that is missing or of another type; a plan that the runtime does not execute.
    pub fn executable(self, weights: &IndexMap<String, Tensor>) -> Result<Executable, Failure> {
        let weights = weights.iter().map(|(name, tensor)| (name.clone(), tensor.clone()));
        // A program without kernels has no PTX to load.
        let modules = if self.ptx.trim().is_empty() { Vec::new() } else { vec![self.ptx] };
        Ok(Executable::new(self.plan, modules, weights.chain(self.literals))?)
    }
}

impl<'s> Driver<'s, '_> {
    /// Compiles every bucket that the request asks for, for every target.
    ///
    /// # Errors
    /// Anything that a stage refuses; a source after stage `hw`, which has no host side any more.
    pub fn programs(&mut self, source: &Source<'s>) -> Result<Vec<Program>, Failure> {
        self.programs_and(source, &mut |_, _, _| Ok(()))
    }

    /// [`programs`](Self::programs), and shows the modules up to stage `fuse` to a function, each with its stage and bucket.
    ///
    /// # Errors
    /// As [`programs`](Self::programs), and what the function refuses.
    pub fn programs_and(
        &mut self,
        source: &Source<'s>,
        show: &mut dyn FnMut(Stage, Option<&str>, &Module<'s>) -> Result<(), Failure>,
    ) -> Result<Vec<Program>, Failure> {
        if source.stage > Stage::Fuse {
            let message =
                format!("`{}` is at stage `{}`, which does not hold all of a program", source.name, source.stage);
            return Err(Diagnostic::new("E0006", message)
                .with_help("run the model or a dump of stage `fuse` or earlier")
                .into());
        }
        let mut programs = Vec::new();
        let mut kernels = Vec::new();
        let mut derived = Vec::new();
        let unit = self.unit(source)?;
        self.visit(
            unit,
            false,
            &mut |driver, unit| {
                if let Content::Module(module) = &unit.content {
                    if unit.stage <= Stage::Fuse {
                        show(unit.stage, unit.bucket.as_deref(), module)?;
                    }
                    match unit.stage {
                        Stage::Fuse => {
                            kernels = graph_kernels(module);
                            derived = evaluate_derived(module, &|name| source.weights.get(name).cloned())?;
                        }
                        Stage::Hw => {
                            let target = unit.target.unwrap_or(driver.request.targets[0]);
                            let kernels = kernels.clone();
                            programs.push(driver.compile(module, unit, target, kernels, &derived)?);
                            return Ok(false);
                        }
                        _ => {}
                    }
                }
                Ok(true)
            },
            false,
        )?;
        Ok(programs)
    }

    fn compile(
        &mut self,
        module: &Module<'_>,
        unit: &Unit<'_>,
        target: &'static Target,
        kernels: Vec<GraphKernel>,
        derived: &[(String, Tensor)],
    ) -> Result<Program, Failure> {
        let bucket = unit.bucket.clone();
        let compiled = self.ptx(module, &bucket, target)?;
        let plan = launch_plan(module, &compiled.infos)?;
        let unsplit = self.unsplit.get(&bucket).map(String::as_str);
        let plan = budget::keep(plan, &self.request.recipe, bucket.as_deref(), unsplit);
        let plan = plan.map_err(|failure| self.at_clause(failure))?;
        let ptx = compiled.ptx;
        let literals = unit.literals.iter().chain(derived).cloned().collect();
        let point = unit.point.clone();
        Ok(Program { bucket, target, plan, ptx, literals, kernels, shared: compiled.shared, point })
    }
}

/// Kernels of a module of the `fuse` stage.
pub(crate) fn graph_kernels(module: &Module<'_>) -> Vec<GraphKernel> {
    let kernels = module.op().walk().into_iter().filter(|op| op.is("graph.kernel"));
    kernels
        .map(|op| GraphKernel {
            name: op.string("sym_name").unwrap_or_default(),
            family: op.string("family").unwrap_or_default(),
            source_nodes: op.location().names(),
            rules: op
                .attribute("rules")
                .and_then(|rules| rules.as_array())
                .into_iter()
                .flatten()
                .filter_map(|rule| rule.as_string())
                .collect(),
        })
        .collect()
}
