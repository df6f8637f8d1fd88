//! What no schedule of any target runs is pruned before extraction.
//!
//! These are the refusals of `lowering/src/schedule` that depend on an operator and its types alone. A rule may find an operator equal that is refused
//! there; it is then no choice, unless its class has nothing else, and the refusal says what the model asks for.

use tenon_graph_dialect::{Operator, TensorType};
use tenon_tensor::{DType, NumberKind};

use crate::graph::Graph;
use crate::language::Node;

/// Most operands of a concatenation that is one kernel.
const MAX_CONCAT: usize = 512;
/// Most rows, columns or terms of a product: indices along one of its axes are numbers of 32 bits.
const MAX_AXIS: u64 = 1 << 31;

/// Removes the nodes of a class that no schedule runs, where others are left.
pub(crate) fn keep_what_runs(nodes: &mut Vec<Node>, graph: &Graph) {
    let runs: Vec<bool> = nodes.iter().map(|node| runs(node, graph)).collect();
    if runs.contains(&true) {
        let mut runs = runs.into_iter();
        nodes.retain(|_| runs.next() == Some(true));
    }
}

fn runs(node: &Node, graph: &Graph) -> bool {
    let Some(operation) = node.operation() else { return true };
    let operands: Option<Vec<&TensorType>> = node.children.iter().map(|child| graph.ty(*child)).collect();
    match (operands, operation.results.first()) {
        (Some(operands), Some(result)) => schedule_exists(&operation.operator, &operands, result),
        _ => true,
    }
}

/// Whether a family of kernels takes the operator on operands of such types.
fn schedule_exists(operator: &Operator, operands: &[&TensorType], result: &TensorType) -> bool {
    let is_complex = |ty: &TensorType| ty.dtype.kind() == NumberKind::Complex;
    if operands.iter().copied().chain([result]).any(is_complex) {
        return false;
    }
    // Elements that a product takes as they are.
    let plain =
        |ty: &TensorType| ty.dtype == DType::Bool || ty.dtype.bits() >= if ty.dtype.is_float() { 16 } else { 8 };
    match operator {
        Operator::Contract(contract) => {
            let axes = |wanted: &dyn Fn(char) -> bool| {
                let size = |(label, dim): (char, &tenon_graph_dialect::Dim)| {
                    wanted(label).then_some(dim.capacity.unwrap_or(1))
                };
                let product = |labels: &str, ty: &TensorType| {
                    labels.chars().zip(&ty.dims).filter_map(size).fold(1u64, u64::saturating_mul)
                };
                [(&contract.lhs, operands[0]), (&contract.rhs, operands[1])].map(|(labels, ty)| product(labels, ty))
            };
            let summed = contract.summed();
            let both = |label: char| contract.lhs.contains(label) && contract.rhs.contains(label);
            let [rows, columns] = axes(&|label| !both(label) && !summed.contains(&label));
            let [terms, _] = axes(&|label| summed.contains(&label));
            operands.iter().all(|ty| plain(ty)) && [rows, columns, terms].iter().all(|size| *size < MAX_AXIS)
        }
        Operator::Convolution(convolution) => {
            let channels = |ty: &&TensorType| ty.dims.get(1).is_some_and(|dim| dim.known().is_some());
            (convolution.groups > 1 || operands.iter().all(|ty| plain(ty))) && operands.iter().take(2).all(channels)
        }
        Operator::Concat(_) => operands.len() <= MAX_CONCAT,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use tenon_graph_dialect::operators::{Cast, Contract};

    use super::*;
    use crate::graph::Origin;

    fn product(graph: &mut Graph, dtype: DType) -> egg::Id {
        let narrow = [[4, 8], [8, 4]].map(|shape| graph.input(shape[0] as u32, TensorType::fixed(dtype, &shape)));
        let contract = Contract {
            lhs: "mk".to_owned(),
            rhs: "kn".to_owned(),
            result: "mn".to_owned(),
            accumulate: DType::F32,
            dtype: DType::F32,
        };
        graph.add_as(contract.into(), vec![TensorType::fixed(DType::F32, &[4, 4])], &narrow, Origin::default())
    }

    #[test]
    fn a_product_of_packed_numbers_is_no_choice_unless_it_is_the_last() {
        let mut graph = Graph::default();
        let packed = product(&mut graph, DType::F8E4M3FN);
        let mut alone = graph.nodes(packed);
        keep_what_runs(&mut alone, &graph);
        assert_eq!(alone.len(), 1, "the last of a class stays");
        let other = graph.input(9, TensorType::fixed(DType::F16, &[4, 4]));
        let other = graph.add(Cast { dtype: DType::F32, saturate: false }, &[other]).expect("a cast of a float");
        assert!(graph.unite(packed, other));
        graph.rebuild();
        let mut both = graph.nodes(packed);
        assert_eq!(both.len(), 2);
        keep_what_runs(&mut both, &graph);
        let names: Vec<_> = both.iter().filter_map(|node| Some(node.operation()?.operator.name())).collect();
        assert_eq!(names, ["graph.cast"]);
    }

    #[test]
    fn a_product_of_halves_is_one() {
        let mut graph = Graph::default();
        let id = product(&mut graph, DType::F16);
        assert!(runs(&graph.nodes(id)[0], &graph));
    }
}
