//! `group-kernels`: every operator that computes goes into a kernel.

use tenon_ir::Module;
use tenon_pass_manager::{Pass, PassContext, PassError, Property, Refusal};

use crate::build::build;
use crate::patterns::{FORBID, REQUIRE, places};
use crate::plan::{Group, Node, Plan};

/// Forms kernels.
pub struct GroupKernels;

impl Pass for GroupKernels {
    fn name(&self) -> &'static str {
        "group-kernels"
    }

    fn needs(&self) -> &'static [Property] {
        &[Property::StaticShapes, Property::NoControlFlow]
    }

    fn is_required(&self) -> bool {
        true
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        let mut index = 0;
        let forbidden = places(module, FORBID);
        let required = places(module, REQUIRE);
        // No group reaches over the border of a branch or loop.
        let (mut nodes, mut groups) = (Vec::new(), Vec::new());
        for block in tenon_flow_dialect::blocks(module) {
            let (own, found) = Plan::of(block, &forbidden)?;
            let before = nodes.len();
            nodes.extend(own);
            groups.extend(found.into_iter().map(|group| Group {
                members: group.members.into_iter().map(|member| before + member).collect(),
                outputs: group.outputs.into_iter().map(|output| before + output).collect(),
                at: before + group.at,
                ..group
            }));
        }
        for place in &required {
            require(place, &nodes, &groups)?;
        }
        for group in &groups {
            build(index, group, &nodes, context)?;
            index += 1;
        }
        Ok(())
    }
}

/// Refuses a grouping in which nodes that a recipe wants in one kernel are in several, and says what stood in the way.
fn require(place: &[String], nodes: &[Node<'_>], groups: &[Group]) -> Result<(), PassError> {
    let names = |group: &Group| -> Vec<String> {
        group.members.iter().flat_map(|member| nodes[*member].op.location().names()).collect()
    };
    let named: Vec<Vec<String>> = groups.iter().map(names).collect();
    // Kernels that were formed before, of attention.
    let formed = nodes.iter().filter(|node| node.op.is("graph.kernel")).map(|node| node.op.location().names());
    if named.iter().cloned().chain(formed).any(|names| place.iter().all(|node| names.contains(node))) {
        return Ok(());
    }
    let whole = place.join(", ");
    let help = "remove the sequence from `compile.fusion.require`, or change what stands in the way";
    let refuse = |reason: String| {
        let message = format!("`compile.fusion.require` wants {whole} in one kernel: {reason}");
        let refusal = Refusal::new("E0233", message, help);
        Err(Refusal { nodes: place.to_vec(), ..refusal }.into())
    };
    let group_of = |node: &String| (0..groups.len()).find(|index| named[*index].contains(node));
    for pair in place.windows(2) {
        let [first, second] = pair else { continue };
        let (Some(a), Some(b)) = (group_of(first), group_of(second)) else {
            let gone = if group_of(first).is_none() { first } else { second };
            return refuse(format!("nothing of {gone} is left to compute"));
        };
        if a == b {
            continue;
        }
        let last = groups[a].members.last().map(|member| &nodes[*member]);
        let users = last.map_or(0, |node| node.op.results().into_iter().map(|value| value.users().len()).sum());
        let types =
            |group: usize| groups[group].members.last().map(|member| nodes[*member].shown()).unwrap_or_default();
        let families = (groups[a].family.name(), groups[b].family.name());
        return refuse(if users > 1 {
            format!("what {first} gives is read at {users} places, so that it must be in memory")
        } else if types(a) != types(b) {
            format!("{first} gives {}, and the kernel of {second} gives {}", types(a), types(b))
        } else {
            format!("a kernel of family `{}` does not go on with one of family `{}`", families.0, families.1)
        });
    }
    refuse("they are in several kernels".to_owned())
}
