//! `rewrite-graph`: the pass.

use std::collections::BTreeMap;

use egg::Id;
use tenon_ir::Module;
use tenon_pass_manager::{Pass, PassContext, PassError, Property};
use tenon_recipe::NumericClass;

use crate::cost::CostModel;
use crate::derived::cheapest;
use crate::extract::{Choice, Problem};
use crate::language::Node;
use crate::prune::keep_what_runs;
use crate::read::{Read, read};
use crate::rule::Rule;
use crate::rules::{BEFORE_ATTENTION, RULES};
use crate::saturate::{Stop, Watch, saturate};
use crate::write::{Alternative, Picked, write};

/// Which rules a run is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All that the recipe allows.
    All,
    /// Those that show attention as it is written by most: run before attention is looked for.
    BeforeAttention,
}

/// Most alternatives whose cost is worked out for remarks.
const MAX_ALTERNATIVES: usize = 2000;

/// Rewrites the functions of a module by the rules that a recipe allows.
pub struct Rewrite {
    /// Which rules.
    pub scope: Scope,
    /// The widest class of rules that may run.
    pub class: NumericClass,
    /// Rules that do not run, by name.
    pub disable: Vec<String>,
    /// What things cost.
    pub cost: CostModel,
    /// Rules beside those of [`RULES`], of the caller's own.
    pub others: Vec<&'static Rule>,
}

impl Pass for Rewrite {
    fn name(&self) -> &'static str {
        match self.scope {
            Scope::All => "rewrite-graph",
            Scope::BeforeAttention => "recognize-softmax",
        }
    }

    fn needs(&self) -> &'static [Property] {
        &[Property::StaticShapes]
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        let allowed: Vec<&Rule> = RULES
            .iter()
            .chain(self.others.iter().copied())
            .filter(|rule| rule.class <= self.class && !self.disable.iter().any(|name| name == rule.name))
            .filter(|rule| self.scope == Scope::All || BEFORE_ATTENTION.contains(&rule.name))
            .collect();
        for function in module.body().ops().into_iter().filter(|op| op.is("func.func")) {
            let Some(block) = function.region_block(0) else { continue };
            let Some(mut read) = read(block)? else {
                context.remark("left", function.location().names(), "a function with regions is not rewritten");
                continue;
            };
            let ops = &read.ops;
            let names = |origin: &crate::graph::Origin| {
                let ops = origin.sources.iter().filter_map(|place| ops.get(*place as usize));
                ops.flat_map(|op| op.location().names()).collect::<Vec<String>>()
            };
            let stop = saturate(&mut read.graph, &allowed, Some(&Watch { context, names: &names }));
            if self.scope == Scope::BeforeAttention && read.graph.unions == 0 {
                continue;
            }
            context.count("e-nodes", read.graph.len() as u64);
            context.count("e-classes", read.graph.egraph.number_of_classes() as u64);
            let Some(picked) = self.pick(&read, context) else { continue };
            let why = match stop {
                Stop::Saturated => "no rule gave anything new",
                Stop::Rounds => "the limit on rounds was met",
                Stop::Nodes => "the limit on nodes was met",
                Stop::Rewrites => "the limit on rewrites was met",
            };
            context.remark("saturated", Vec::new(), why);
            if picked.is_as_before(&read.graph, &read.roots) {
                continue;
            }
            if !write(&read, &picked, function, &block.arguments(), context)? {
                context.remark("left", Vec::new(), "an operation would have come before what it needs");
            }
        }
        Ok(())
    }
}

impl Rewrite {
    /// The cheapest node of each class that the block needs.
    fn pick(&self, read: &Read<'_>, context: &PassContext) -> Option<Picked> {
        let graph = &read.graph;
        let known = cheapest(graph);
        let classes = graph.classes();
        let places: BTreeMap<Id, usize> = classes.iter().enumerate().map(|(place, class)| (*class, place)).collect();
        let mut nodes: Vec<Vec<Node>> = Vec::with_capacity(classes.len());
        let mut problem = Problem::default();
        for class in &classes {
            // What follows from weights is there when the program runs.
            if graph.is_known(*class) {
                nodes.push(Vec::new());
                problem.classes.push(vec![Choice { cost: 1, children: Vec::new() }]);
                continue;
            }
            let mut own = graph.nodes(*class);
            let before = own.len();
            keep_what_runs(&mut own, graph);
            context.count("e-nodes pruned", (before - own.len()) as u64);
            // Of equal costs, what the function has goes before what rules made.
            own.sort_by_key(|node| graph.origin(node).rules.len());
            let choices = own.iter().map(|node| {
                let children =
                    node.children.iter().filter_map(|child| places.get(&graph.find(*child)).copied()).collect();
                let operands: Vec<_> = node.children.iter().filter_map(|child| graph.ty(*child).cloned()).collect();
                let cost = match (node.operation(), graph.ty(*class)) {
                    (Some(operation), Some(result)) => self.cost.cost(&operation.operator, &operands, result),
                    _ => 0,
                };
                Choice { cost, children }
            });
            problem.classes.push(choices.collect());
            nodes.push(own);
        }
        problem.roots = read
            .roots
            .iter()
            .chain(read.fences.values())
            .filter_map(|id| places.get(&graph.find(*id)).copied())
            .collect();
        problem.roots.sort_unstable();
        problem.roots.dedup();
        let solution = problem.solve()?;
        context.remark(
            "extracted",
            Vec::new(),
            format!(
                "{:.1} us estimated, at least {:.1} us in any way",
                solution.cost as f64 / 1e6,
                solution.lower_bound as f64 / 1e6
            ),
        );
        let needed = problem.order(&solution.choices)?;
        let mut picked = BTreeMap::new();
        let mut alternatives = BTreeMap::new();
        let mut tried = 0;
        for place in needed {
            let Some(node) = solution.choices[place].and_then(|choice| nodes[place].get(choice)) else { continue };
            if !graph.origin(node).rules.is_empty() && tried < MAX_ALTERNATIVES {
                tried += nodes[place].len();
                alternatives.extend(problem.best_alternative(&solution.choices, place).map(|(choice, cost)| {
                    let operator = nodes[place][choice].operation().map_or("", |own| own.operator.name());
                    (classes[place], Alternative { cost: solution.cost, without: cost, operator })
                }));
            }
            picked.insert(classes[place], node.clone());
        }
        let kept = classes.into_iter().filter(|class| graph.is_known(*class)).collect();
        Some(Picked { nodes: picked, known, kept, alternatives })
    }
}
