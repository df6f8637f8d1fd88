//! Placement of control flow.
//!
//! One pass, [`PlaceControlFlow`]. Behind it every branch and loop that is left says where it runs (`placement`) and how many are around it
//! (`depth`), and has the form that the launch plan executes; branches whose placement is `kernel` are gone: both sides run, and results are
//! selected. What was decided for each operation of the model stands in the module's attribute `flow.placements` ([`placements`]).
//!
//! By `compile.control_flow.policy`: `kernel` makes every branch a selection and refuses what cannot be one; `graph` and `host` make every
//! operation a conditional step of the launch plan, decided by the device or, with `host_dispatch = "allow"`, by the host; without a policy,
//! branches that compute little become selections, and the device decides the rest. `inline_if_depth` bounds how many selections are made
//! within one another. Recurrent layers are kernels that hold the loop over their steps, or are written out ([`recurrence`]). By `semantic.control_flow.unroll` a round of a loop runs its body several times. Where a size is computed inside a branch or loop, the launch plan cannot know it: refused.

mod branch;
mod emit;
mod recurrence;
mod repeat;
mod scan;
mod unroll;

use std::collections::{HashMap, HashSet};

use tenon_flow_dialect::{Flow, Placement, Schedule, depth, is_control_flow};
use tenon_graph_dialect::operators::SetDimensionSize;
use tenon_graph_dialect::{Operator, OperatorKind};
use tenon_ir::{Attribute, Module, Op};
use tenon_pass_manager::{Pass, PassContext, PassError, Property, Refusal};
use tenon_recipe::{ControlFlowPolicy, Recipe};

/// Attribute of a module: what was decided.
const PLACEMENTS: &str = "flow.placements";

/// What was decided for an operation of control flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Nodes of the model that it came from.
    pub nodes: Vec<String>,
    /// `flow.if`, `flow.loop`, `flow.scan`, `graph.recurrence`.
    pub operation: String,
    /// Operations of control flow around it.
    pub depth: u64,
    /// `kernel`, `graph`, `host`.
    pub placement: String,
}

/// What [`PlaceControlFlow`] decided, in order of the text; empty for a module without control flow.
pub fn placements(module: &Module<'_>) -> Vec<Placed> {
    let list = module.op().attribute(PLACEMENTS).and_then(Attribute::as_array).unwrap_or_default();
    let read = |entry: Attribute<'_>| {
        let text = |name: &str| entry.get(name).and_then(Attribute::as_string);
        let nodes = entry.get("nodes").and_then(Attribute::as_array)?;
        Some(Placed {
            nodes: nodes.into_iter().filter_map(Attribute::as_string).collect(),
            operation: text("operation")?,
            depth: u64::try_from(entry.get("depth")?.as_integer()?).ok()?,
            placement: text("placement")?,
        })
    };
    list.into_iter().filter_map(read).collect()
}

/// Decides where each operation of control flow runs.
pub struct PlaceControlFlow {
    /// The recipe.
    pub recipe: Recipe,
}

impl Pass for PlaceControlFlow {
    fn name(&self) -> &'static str {
        "place-control-flow"
    }

    fn needs(&self) -> &'static [Property] {
        &[Property::StaticShapes]
    }

    fn is_required(&self) -> bool {
        true
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        let ops = module.op().walk();
        if let Some(op) = ops.iter().find(|op| matches!(op.name().split_once('.'), Some(("scf" | "cf", _)))) {
            let help = "write branches and loops with the flow dialect";
            return Err(Refusal::new("E0411", format!("`{}` has no placement", op.name()), help).at(*op).into());
        }
        if let Some(op) = ops.iter().find(|op| op.is(SetDimensionSize::NAME) && depth(**op) > 0) {
            let message = "a size that is computed inside a branch or loop is not known to the launch plan";
            let help = "move what computes it out of the branch or loop, or give it a fixed size";
            return Err(Refusal::new("E0411", message, help).at(*op).into());
        }
        let layers = self.recurrences(&ops, context)?;
        let flows: Vec<Op<'_>> = ops.into_iter().filter(|op| is_control_flow(*op)).collect();
        self.unrolled_loops_exist(&flows)?;
        if flows.is_empty() && layers.is_empty() {
            return Ok(());
        }
        let mut placed = Vec::with_capacity(flows.len());
        // Selections within one another that a selection would hold, by the operation around them.
        let mut selected: HashMap<usize, u64> = HashMap::new();
        // From the innermost ones outwards: what is inside decides what the operation itself can be.
        for op in flows.into_iter().rev() {
            let mut record = Placed {
                nodes: op.location().names(),
                operation: op.name(),
                depth: depth(op),
                placement: String::new(),
            };
            let placement = self.place(op, &mut selected)?;
            record.placement = placement.name().to_owned();
            context.count(if placement == Placement::Kernel { "selections" } else { "conditional steps" }, 1);
            let message = format!("`{}` at depth {}: {}", record.operation, record.depth, record.placement);
            context.remark("placed", record.nodes.clone(), message);
            placed.push(record);
        }
        placed.reverse();
        placed.extend(layers);
        write(module, &placed)
    }
}

impl PlaceControlFlow {
    /// Refuses a recipe that unrolls what is no loop any more.
    fn unrolled_loops_exist(&self, flows: &[Op<'_>]) -> Result<(), PassError> {
        let loops = flows.iter().filter(|op| !op.is("flow.if"));
        let names: HashSet<String> = loops.flat_map(|op| op.location().names()).collect();
        let Some(name) = self.recipe.control_flow.unroll.keys().find(|name| !names.contains(*name)) else {
            return Ok(());
        };
        let message = format!(
            "`semantic.control_flow.unroll.{name}`: no node of this name is a loop whose iterations are counted while the model runs"
        );
        let help = "remove it, or correct the name; loops of known length are written out entirely";
        Err(Refusal::new("E0234", message, help).into())
    }

    /// Places the recurrent layers; gives those that are kernels.
    fn recurrences(&self, ops: &[Op<'_>], context: &PassContext) -> Result<Vec<Placed>, PassError> {
        let mut placed = Vec::new();
        for op in ops {
            let Some(Operator::Recurrence(layer)) = Operator::read(*op).transpose()? else { continue };
            let record = Placed {
                nodes: op.location().names(),
                operation: op.name(),
                depth: depth(*op),
                placement: Placement::Kernel.name().to_owned(),
            };
            let is_kernel = recurrence::place(*op, &layer, self.recipe.control_flow.policy)?;
            context.count(if is_kernel { "recurrent kernels" } else { "recurrent layers written out" }, 1);
            let placement = if is_kernel { "one kernel" } else { "step by step" };
            context.remark("placed", record.nodes.clone(), format!("`{}`: {placement}", record.operation));
            placed.extend(is_kernel.then_some(record));
        }
        Ok(placed)
    }

    /// How often the recipe unrolls a loop.
    fn unroll_count(&self, nodes: &[String]) -> u64 {
        let counts = &self.recipe.control_flow.unroll;
        nodes.iter().find_map(|node| counts.get(node)).copied().unwrap_or(1)
    }

    fn place(&self, op: Op<'_>, selected: &mut HashMap<usize, u64>) -> Result<Placement, PassError> {
        let clauses = &self.recipe.control_flow;
        let policy = clauses.policy;
        let (around, nodes) = (depth(op), op.location().names());
        let mut flow = Flow::read(op).transpose()?;
        let in_plan = policy != Some(ControlFlowPolicy::Kernel);
        if let Some(Flow::Scan(scan)) = &flow
            && in_plan
        {
            flow = Flow::read(scan::as_loop(scan)?).transpose()?;
        }
        let refuse = |message: String, help: &str| Err(PassError::from(Refusal::new("E0411", message, help).at(op)));
        if policy == Some(ControlFlowPolicy::Host) && !clauses.host_dispatch {
            return refuse(
                "`compile.control_flow.policy` is `host`, and `compile.control_flow.host_dispatch` forbids it"
                    .to_owned(),
                "write `host_dispatch = \"allow\"`, or another policy",
            );
        }
        let step = if policy == Some(ControlFlowPolicy::Host) { Placement::Host } else { Placement::Graph };
        let schedule = Schedule { placement: Some(step), depth: Some(around), ..flow_schedule(flow.as_ref()) };
        match flow {
            Some(Flow::If(branch)) => {
                let inner = selected.get(&op.key()).copied().unwrap_or(0);
                let obstacle = match branch::obstacle(&branch)? {
                    None if inner >= clauses.inline_if_depth => Some(format!(
                        "it would be selection number {} within one another, `compile.control_flow.inline_if_depth` allows {}",
                        inner + 1,
                        clauses.inline_if_depth
                    )),
                    found => found,
                };
                let wanted = match policy {
                    Some(ControlFlowPolicy::Kernel) => true,
                    None => branch::is_cheap(&branch)?,
                    Some(_) => false,
                };
                match obstacle {
                    None if wanted => {
                        if let Some(around) = op.parent() {
                            let most = selected.entry(around.key()).or_default();
                            *most = (*most).max(inner + 1);
                        }
                        branch::select(&branch)?;
                        Ok(Placement::Kernel)
                    }
                    Some(reason) if !in_plan => refuse(
                        format!("`compile.control_flow.policy` is `kernel`, and the branch cannot become a selection: {reason}"),
                        "write `policy = \"graph\"`, or change what stands in the way",
                    ),
                    _ => {
                        schedule.write(op)?;
                        Ok(step)
                    }
                }
            }
            Some(Flow::Loop(_) | Flow::Scan(_)) if !in_plan => refuse(
                "`compile.control_flow.policy` is `kernel`, and no kernel holds a loop whose iterations are counted while it runs".to_owned(),
                "write `policy = \"graph\"`, or export the model with a fixed number of iterations, which are written out",
            ),
            Some(Flow::Loop(repeat)) => {
                let repeat = repeat::normalise(&repeat, schedule)?;
                let times = self.unroll_count(&nodes);
                if times > 1 {
                    unroll::unroll(repeat, times, schedule)?;
                }
                Ok(step)
            }
            Some(Flow::Scan(_)) | None => refuse(format!("`{}` has no placement", op.name()), "write a loop"),
        }
    }
}

fn flow_schedule(flow: Option<&Flow<'_>>) -> Schedule {
    flow.map(Flow::schedule).unwrap_or_default()
}

fn write(module: &Module<'_>, placed: &[Placed]) -> Result<(), PassError> {
    let context = module.context();
    let entries: Vec<_> = placed
        .iter()
        .map(|placed| {
            let nodes: Vec<_> = placed.nodes.iter().map(|node| context.string(node)).collect();
            context.dictionary(&[
                ("nodes", context.array(&nodes)),
                ("operation", context.string(&placed.operation)),
                ("depth", context.i64(i64::try_from(placed.depth).unwrap_or(i64::MAX))),
                ("placement", context.string(&placed.placement)),
            ])
        })
        .collect();
    module.op().set_attribute(PLACEMENTS, context.array(&entries))?;
    Ok(())
}
