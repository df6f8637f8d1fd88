//! Applying rules until nothing new comes of them.

use tenon_pass_manager::PassContext;

use crate::graph::{Graph, Origin};
use crate::rule::{Match, Rule};

/// Most rounds over all rules.
pub(crate) const MAX_ROUNDS: usize = 10;
/// Nodes that an e-graph may grow to, beside eight for each that it began with.
const MAX_NODES: usize = 20_000;

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// No rule gives anything new.
    Saturated,
    /// The limit on rounds.
    Rounds,
    /// The limit on nodes.
    Nodes,
    /// The compilation's limit on rewrites.
    Rewrites,
}

/// Who may forbid an application, and what the nodes of the model are called that an operator comes from.
pub(crate) struct Watch<'w> {
    pub(crate) context: &'w PassContext,
    pub(crate) names: &'w dyn Fn(&Origin) -> Vec<String>,
}

/// Applies rules, in order, to every operator that they may match; `watch` may forbid any application.
pub(crate) fn saturate(graph: &mut Graph, rules: &[&Rule], watch: Option<&Watch<'_>>) -> Stop {
    let most = MAX_NODES + 8 * graph.len();
    for _ in 0..MAX_ROUNDS {
        let before = (graph.len(), graph.egraph.number_of_classes());
        let mut changed = false;
        for rule in rules {
            let mut classes: Vec<_> =
                graph.egraph.classes_for_op(&rule.root).into_iter().flatten().map(|id| graph.find(id)).collect();
            classes.sort_unstable();
            classes.dedup();
            for class in classes {
                for node in graph.nodes(class) {
                    if node.operation().is_none_or(|operation| operation.operator.name() != rule.root) {
                        continue;
                    }
                    let size = graph.len();
                    let equal = (rule.apply)(&mut Match::new(graph, class, node.clone(), rule.name));
                    let Some(equal) = equal else { continue };
                    if graph.find(equal) != graph.find(class) {
                        if let Some(watch) = watch {
                            if !watch.context.rewrite("equalities found") {
                                graph.rebuild();
                                return Stop::Rewrites;
                            }
                            watch.context.count(rule.name, 1);
                            watch.context.describe(rule.name, || (watch.names)(&graph.origin(&node)));
                        }
                        changed |= graph.unite(class, equal);
                    }
                    changed |= graph.len() != size;
                    if graph.len() > most {
                        graph.rebuild();
                        return Stop::Nodes;
                    }
                }
            }
            graph.rebuild();
        }
        if !changed || before == (graph.len(), graph.egraph.number_of_classes()) {
            return Stop::Saturated;
        }
    }
    Stop::Rounds
}
