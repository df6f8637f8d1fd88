//! Which operators share a kernel.
//!
//! A kernel of a family that takes an epilogue goes on with the pointwise operators that follow on a value of the same shape. Of what is
//! left, a pointwise operator takes in the pointwise operators and broadcasts of the same shape that only it needs. Both keep to the rule
//! that every value computed inside, but the results, is used inside only: nothing is computed twice, and no value from outside that a
//! kernel needs can depend on that kernel.

use std::collections::HashMap;

use tenon_graph_dialect::{Operator, SemanticError, TensorType};
use tenon_ir::{Block, Op, Value};

use crate::family::{Family, is_pointwise};

/// Most operators of one kernel.
const MAX_MEMBERS: usize = 64;

/// A kernel to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) family: Family,
    /// Places in the block, ascending; the last one's results are the kernel's.
    pub(crate) members: Vec<usize>,
}

/// An operation of the block.
pub(crate) struct Node<'m> {
    pub(crate) op: Op<'m>,
    /// `None`: not an operator.
    pub(crate) operator: Option<Operator>,
    family: Option<Family>,
    results: Vec<TensorType>,
}

/// The operations of a block and what has been decided.
pub(crate) struct Plan<'m, 'f> {
    pub(crate) nodes: Vec<Node<'m>>,
    places: HashMap<usize, usize>,
    taken: Vec<bool>,
    groups: Vec<Group>,
    /// Lists of nodes that no kernel may hold all of.
    forbidden: &'f [Vec<String>],
}

impl Node<'_> {
    /// Its results for messages.
    pub(crate) fn shown(&self) -> String {
        self.results.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl<'m, 'f> Plan<'m, 'f> {
    /// Reads a block and groups it. Groups are in order of their last members. No group holds operators of all nodes of a list of
    /// `forbidden`.
    pub(crate) fn of(
        block: Block<'m>,
        forbidden: &'f [Vec<String>],
    ) -> Result<(Vec<Node<'m>>, Vec<Group>), SemanticError> {
        let mut nodes = Vec::new();
        let mut places = HashMap::new();
        for (place, op) in block.ops().into_iter().enumerate() {
            places.insert(op.key(), place);
            let read = |values: Vec<Value<'m>>| {
                values.into_iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()
            };
            nodes.push(match Operator::read(op).transpose()? {
                Some(operator) => {
                    let family = Family::of(&operator, &read(op.operands())?);
                    Node { op, operator: Some(operator), family, results: read(op.results())? }
                }
                None => Node { op, operator: None, family: None, results: Vec::new() },
            });
        }
        let taken = vec![false; nodes.len()];
        let mut plan = Plan { nodes, places, taken, groups: Vec::new(), forbidden };
        for place in 0..plan.nodes.len() {
            if plan.nodes[place].family.is_some_and(Family::takes_epilogue) {
                let members = plan.with_epilogue(place);
                plan.take(members, plan.nodes[place].family);
            }
        }
        for place in (0..plan.nodes.len()).rev() {
            if !plan.taken[place] && plan.nodes[place].family.is_some() {
                let members = if plan.is_pointwise(place) { plan.with_producers(place) } else { vec![place] };
                plan.take(members, plan.nodes[place].family);
            }
        }
        let Plan { nodes, mut groups, .. } = plan;
        groups.sort_by_key(|group| group.members.last().copied());
        Ok((nodes, groups))
    }

    fn take(&mut self, members: Vec<usize>, family: Option<Family>) {
        members.iter().for_each(|member| self.taken[*member] = true);
        self.groups.extend(family.map(|family| Group { family, members }));
    }

    /// Whether an operator may join others without what a recipe forbids.
    fn may_join(&self, members: &[usize], place: usize) -> bool {
        if self.forbidden.is_empty() {
            return true;
        }
        let names: Vec<String> =
            members.iter().chain([&place]).flat_map(|member| self.nodes[*member].op.location().names()).collect();
        !self.forbidden.iter().any(|list| list.iter().all(|node| names.contains(node)))
    }

    fn is_pointwise(&self, place: usize) -> bool {
        self.nodes[place].operator.as_ref().is_some_and(is_pointwise)
    }

    fn has_shape_of(&self, place: usize, other: usize) -> bool {
        match (self.nodes[place].results.as_slice(), self.nodes[other].results.as_slice()) {
            ([a], [b]) => a.dims == b.dims && a.order == b.order,
            _ => false,
        }
    }

    /// Places of the operations that use a result; one outside the block counts as `usize::MAX`.
    fn users(&self, place: usize) -> Vec<usize> {
        let results = self.nodes[place].op.results().into_iter();
        results
            .flat_map(Value::users)
            .map(|(op, _)| self.places.get(&op.key()).copied().unwrap_or(usize::MAX))
            .collect()
    }

    /// Places of the operations whose results are operands.
    fn producers(&self, place: usize) -> Vec<usize> {
        let operands = self.nodes[place].op.operands().into_iter();
        operands.filter_map(|value| self.places.get(&value.defining_op()?.0.key()).copied()).collect()
    }

    /// An operator with the longest run of pointwise ones behind it that leaves one value: the last one's.
    fn with_epilogue(&self, anchor: usize) -> Vec<usize> {
        let mut members = vec![anchor];
        let mut complete = 1;
        let mut reach = self.users(anchor).into_iter().filter(|user| *user < self.nodes.len()).max().unwrap_or(anchor);
        let mut place = anchor + 1;
        while place <= reach && members.len() < MAX_MEMBERS {
            let joins = !self.taken[place]
                && self.is_pointwise(place)
                && self.has_shape_of(place, anchor)
                && self.may_join(&members, place)
                && self.producers(place).iter().any(|producer| members.contains(producer));
            if joins {
                members.push(place);
                let users = self.users(place);
                reach = users.iter().copied().filter(|user| *user < self.nodes.len()).fold(reach, usize::max);
                let (_, inner) = members.split_last().expect("the anchor is a member");
                if inner.iter().all(|member| self.users(*member).iter().all(|user| members.contains(user))) {
                    complete = members.len();
                }
            }
            place += 1;
        }
        members.truncate(complete);
        members
    }

    /// A pointwise operator with the pointwise operators and broadcasts that only it needs.
    fn with_producers(&self, root: usize) -> Vec<usize> {
        let mut members = vec![root];
        // An operator is looked at once for each user that has joined, and so also after the last one has.
        let mut candidates = self.producers(root);
        while let Some(place) = candidates.pop() {
            let fits = !self.taken[place]
                && !members.contains(&place)
                && members.len() < MAX_MEMBERS
                && (self.is_pointwise(place) || matches!(self.nodes[place].operator, Some(Operator::Broadcast(_))))
                && self.has_shape_of(place, root)
                && self.may_join(&members, place)
                && self.users(place).iter().all(|user| members.contains(user));
            if fits {
                members.push(place);
                candidates.extend(self.producers(place));
            }
        }
        members.sort_unstable();
        members
    }
}
