//! `remove-dead`: operators whose results nothing uses, and parameters that nothing reads.

use std::collections::BTreeSet;

use tenon_graph_dialect::operators::SetDimensionSize;
use tenon_graph_dialect::{Operator, OperatorKind};
use tenon_ir::Module;
use tenon_pass_manager::{Pass, PassContext, PassError};

/// Removes what nothing uses.
pub struct RemoveDead;

impl Pass for RemoveDead {
    fn name(&self) -> &'static str {
        "remove-dead"
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        // Users come after what they use, so one walk from the end finds everything.
        for op in module.op().walk().into_iter().rev() {
            // The name that an extent gets is used by types, which are no users.
            let named = op.is(SetDimensionSize::NAME);
            let flows = tenon_flow_dialect::is_control_flow(op);
            let pure =
                flows || op.is("graph.get_parameter") || (!named && Operator::NAMES.iter().any(|name| op.is(name)));
            if pure && !op.has_users() && context.rewrite("operators removed") {
                context.remark("removed", op.location().names(), format!("nothing uses the result of `{}`", op.name()));
                op.erase()?;
            }
        }
        let read: BTreeSet<String> = module
            .op()
            .walk()
            .into_iter()
            .filter_map(|op| op.attribute("parameter").and_then(|parameter| parameter.as_symbol()))
            .collect();
        for op in module.body().ops() {
            let name = op.string("sym_name").unwrap_or_default();
            let is_parameter = op.is("graph.parameter") || op.is("graph.derived_parameter");
            if is_parameter && !read.contains(&name) && context.rewrite("parameters removed") {
                context.remark("removed", Vec::new(), format!("nothing reads parameter `@{name}`"));
                op.erase()?;
            }
        }
        Ok(())
    }
}
