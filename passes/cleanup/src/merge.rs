//! `merge-identical`: operators that compute the same from the same, and constants that are the same.
//!
//! Each body of a branch or loop is looked at for itself. Not MLIR's `cse`: that one forgets where the merged operators came from.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tenon_graph_dialect::Operator;
use tenon_ir::{Module, Op};
use tenon_pass_manager::{Pass, PassContext, PassError};

/// Keeps the first of identical operators.
pub struct MergeIdentical;

/// What an operator computes: equal for operators that compute the same from the same.
#[derive(PartialEq, Eq, Hash)]
struct Content {
    name: String,
    operands: Vec<usize>,
    results: Vec<usize>,
    attributes: Vec<(String, usize)>,
}

impl Pass for MergeIdentical {
    fn name(&self) -> &'static str {
        "merge-identical"
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        for block in tenon_flow_dialect::blocks(module) {
            let mut seen: HashMap<Content, Op<'_>> = HashMap::new();
            for op in block.ops() {
                let is_leaf = op.is("graph.get_parameter") || op.is("graph.constant");
                if !is_leaf && !Operator::NAMES.iter().any(|name| op.is(name)) {
                    continue;
                }
                let operands = op.operands().into_iter().map(|value| value.key()).collect();
                let results = op.result_types().into_iter().map(|ty| ty.key()).collect();
                // Attributes are unique in a session, so that their keys stand for their contents.
                let attributes = op.attributes().into_iter().map(|(name, value)| (name, value.key())).collect();
                let first = match seen.entry(Content { name: op.name(), operands, results, attributes }) {
                    Entry::Occupied(first) => *first.get(),
                    Entry::Vacant(place) => {
                        place.insert(op);
                        continue;
                    }
                };
                if !context.rewrite("operators merged") {
                    return Ok(());
                }
                if !is_leaf {
                    let both = op.context().fused_location(&[first.location(), op.location()]);
                    context.remark("merged", both.names(), format!("the same `{}` of the same operands", op.name()));
                    first.set_location(both);
                }
                op.replace_all_uses(&first.results());
                op.erase()?;
            }
        }
        Ok(())
    }
}
