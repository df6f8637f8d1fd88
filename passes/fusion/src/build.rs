//! Making a `graph.kernel` of a group.

use std::collections::{BTreeSet, HashMap};

use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::{Builder, Location, Op, Value};
use tenon_pass_manager::{PassContext, PassError};
use tenon_recipe::NumericClass;

use crate::family::{Family, short_name};
use crate::plan::{Group, Node};

/// Longest list of operators in a kernel's name.
const MAX_NAME: usize = 48;

/// `k{index}_{family}_{operators}`.
fn name(index: usize, group: &Group, nodes: &[Node<'_>]) -> String {
    let family = group.family.name();
    let mut list = String::new();
    for operator in group.members.iter().filter_map(|member| nodes[*member].operator.as_ref()) {
        let short = short_name(operator);
        if list.is_empty() && short == family {
            continue;
        }
        if list.len() + short.len() >= MAX_NAME {
            break;
        }
        list.push('_');
        list.push_str(&short);
    }
    format!("k{index}_{family}{list}")
}

/// A literal of one element, which is written into kernels.
fn scalar_constant<'m>(value: Value<'m>) -> Option<(Op<'m>, Operator)> {
    let (op, _) = value.defining_op()?;
    if !op.is("graph.constant") {
        return None;
    }
    let ty = TensorType::read(value.ty()).ok()?;
    (ty.element_capacity() == Some(1)).then_some((op, Operator::read(op)?.ok()?))
}

/// Whether an operator of the kernel reads the value from memory only: products have no operands that the kernel computes.
fn is_read_from_memory(members: &[(Op<'_>, &Operator)], value: Value<'_>) -> bool {
    let is_product = |operator: &Operator| matches!(operator, Operator::Contract(_) | Operator::Convolution(_));
    members.iter().any(|(op, operator)| is_product(operator) && op.operands().contains(&value))
}

/// Rules that made the operators of a kernel, each once.
fn rules(members: &[(Op<'_>, &Operator)]) -> BTreeSet<String> {
    let lists = members.iter().filter_map(|(op, _)| op.attribute("rules")?.as_array());
    lists.flatten().filter_map(|rule| rule.as_string()).collect()
}

/// Puts a group's operators into a kernel.
pub(crate) fn build(
    index: usize,
    group: &Group,
    nodes: &[Node<'_>],
    class: NumericClass,
    context: &PassContext,
) -> Result<(), PassError> {
    let members: Vec<(Op<'_>, &Operator)> = group
        .members
        .iter()
        .filter_map(|member| Some((nodes[*member].op, nodes[*member].operator.as_ref()?)))
        .collect();
    let at = nodes[group.at].op;
    let Some(builder) = Builder::before(at) else { return Ok(()) };
    let ir = at.context();
    // Writing a part of a concatenation is that node's work too.
    let wholes = group.wholes.iter().map(|place| nodes[*place].op.location());
    let locations: Vec<Location<'_>> = members.iter().map(|(op, _)| op.location()).chain(wholes).collect();
    let location = ir.fused_location(&locations);

    let mut inside: HashMap<usize, Value<'_>> = HashMap::new();
    let mut operands = Vec::new();
    let mut literals = Vec::new();
    for value in members.iter().flat_map(|(op, _)| op.operands()) {
        let is_member = value.defining_op().is_some_and(|(op, _)| members.iter().any(|(member, _)| *member == op));
        if is_member || operands.contains(&value) || literals.iter().any(|(literal, _, _)| *literal == value) {
            continue;
        }
        match scalar_constant(value).filter(|_| !is_read_from_memory(&members, value)) {
            Some((op, operator)) => literals.push((value, op, operator)),
            None => operands.push(value),
        }
    }

    let name = name(index, group, nodes);
    let outputs: Vec<Value<'_>> = group.outputs.iter().flat_map(|place| nodes[*place].op.results()).collect();
    let types: Vec<_> = outputs.iter().map(|value| value.ty()).collect();
    let rules = rules(&members);
    let rules: Vec<_> = rules.iter().map(|rule| ir.string(rule)).collect();
    // Schedules of products have a choice; those of other families compute operators as they are.
    let is_product = matches!(group.family, Family::Contract | Family::Convolution);
    let class = if is_product { class } else { NumericClass::Exact };
    let kernel = builder
        .with_location(location)
        .op("graph.kernel")
        .operands(&operands)
        .results(&types)
        .attribute("sym_name", ir.string(&name))
        .attribute("family", ir.string(group.family.name()))
        .attribute("rules", ir.array(&rules))
        .attribute("numeric_class", ir.string(class.name()))
        .regions(1)
        .build()?;
    let arguments: Vec<_> = operands.iter().map(|value| (value.ty(), location)).collect();
    let region = kernel.region(0).expect("the operation was built with a region");
    let block = region.append_block(&arguments)?;
    let body = Builder::at_end(block).expect("the block is in the kernel");
    for (operand, argument) in operands.iter().zip(block.arguments()) {
        inside.insert(operand.key(), argument);
    }
    for (value, op, operator) in &literals {
        let copy = operator.build(body.with_location(op.location()), &[])?;
        inside.extend(copy.into_iter().map(|copy| (value.key(), copy)));
    }
    for (op, operator) in &members {
        let operands: Vec<_> = op.operands().iter().filter_map(|value| inside.get(&value.key()).copied()).collect();
        let results =
            op.results().into_iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()?;
        let copies = operator.build_as(body.with_location(op.location()), &operands, &results)?;
        inside.extend(op.results().iter().map(|value| value.key()).zip(copies));
    }
    let yielded: Vec<_> = outputs.iter().filter_map(|value| inside.get(&value.key()).copied()).collect();
    body.with_location(location).op("graph.yield").operands(&yielded).build()?;

    let mut results = kernel.results().into_iter();
    for place in &group.outputs {
        let op = nodes[*place].op;
        op.replace_all_uses(&results.by_ref().take(op.result_count()).collect::<Vec<_>>());
    }
    for (op, _) in members.iter().rev() {
        op.erase()?;
    }
    for (_, op, _) in literals {
        if !op.has_users() {
            op.erase()?;
        }
    }
    context.count("kernels", 1);
    context.count("operators in kernels", members.len() as u64);
    context.remark("kernel", location.names(), format!("`{name}` of {} operators", members.len()));
    Ok(())
}
