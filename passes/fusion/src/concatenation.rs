//! Concatenations that need no kernel: whoever computes a part writes it where it lies in the whole.
//!
//! A concatenation can be written in parts where each operand is the result of a kernel that nothing else reads, perhaps reshaped. That costs no
//! launch, and no element is moved again. The other way is a kernel of its own that takes in the maps that compute its operands: better where there
//! are two of them or more, since each would be a launch by itself, or one where what follows takes in that kernel anyway.

use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::Value;

use crate::family::{Family, is_pointwise};
use crate::plan::{Plan, SMALL, is_movement};

/// Elements that the whole must stay below: kernels that write in parts count them in 32 bits.
const TOO_LARGE: u64 = 1 << 31;

impl Plan<'_, '_> {
    /// Decides which concatenations are written in parts. Kernels that take epilogues have been formed, and no others.
    pub(crate) fn write_in_parts(&mut self) {
        for place in 0..self.nodes.len() {
            if !self.taken[place] && self.is_concat(place) && self.can_be_written_in_parts(place) {
                self.taken[place] = true;
                self.in_parts[place] = true;
            }
        }
    }

    pub(crate) fn is_concat(&self, place: usize) -> bool {
        matches!(self.nodes[place].operator, Some(Operator::Concat(_)))
    }

    fn can_be_written_in_parts(&self, place: usize) -> bool {
        let node = &self.nodes[place];
        let row_major = |ty: &TensorType| ty.order.as_ref().is_none_or(|order| order.is_sorted());
        let fits =
            node.results.iter().all(|ty| row_major(ty) && ty.element_capacity().is_some_and(|count| count < TOO_LARGE));
        let operands = node.op.operands();
        if !fits || operands.len() < 2 {
            return false;
        }
        let mut maps = 0;
        for operand in operands {
            let Some(writer) = self.writer(operand) else { return false };
            let group = self.groups.iter().find(|group| group.members.contains(&writer));
            if !self.may_join(group.map_or(&[writer][..], |group| &group.members[..]), place) {
                return false;
            }
            let node = &self.nodes[writer];
            // What no kernel has taken yet would join one of the concatenation's own.
            let is_map = !self.taken[writer] && node.family == Some(Family::Map);
            let joins = is_map && !self.is_heavy(writer) && !self.keeps_more(writer);
            maps += usize::from(joins);
        }
        maps < if self.is_read_by_map(place) { 1 } else { 2 }
    }

    /// Whether the kernel of what reads a value, and nothing else does, would compute it there.
    fn is_read_by_map(&self, place: usize) -> bool {
        let users = self.users(place);
        let Some(first) = users.first().copied().filter(|first| *first < self.nodes.len()) else { return false };
        let joins = match (&self.nodes[first].operator, self.nodes[first].family) {
            (Some(Operator::Reshape(_)), _) => self.is_read_by_map(first),
            // It may be written in parts itself.
            (Some(Operator::Concat(_)), _) => false,
            (Some(operator), Some(Family::Map)) => {
                !self.taken[first] && (is_movement(operator) || is_pointwise(operator))
            }
            (Some(_), Some(Family::Reduce)) => true,
            _ => false,
        };
        joins && users.iter().all(|user| *user == first)
    }

    /// The operation whose kernel can write a value into a concatenation, the only one that reads it.
    fn writer(&self, operand: Value<'_>) -> Option<usize> {
        let mut value = operand;
        loop {
            let [_] = value.users()[..] else { return None };
            let (op, _) = value.defining_op()?;
            let place = *self.places.get(&op.key())?;
            let node = &self.nodes[place];
            match (&node.operator, op.operand(0)) {
                (Some(Operator::Reshape(_)), Some(base)) if !self.taken[place] => value = base,
                // A kernel that was formed before.
                (None, _) => return op.is("graph.kernel").then_some(place),
                _ if self.in_parts[place] => return Some(place),
                // The steps of a recurrence read what earlier ones wrote.
                _ => return node.family.is_some_and(|family| family != Family::Recurrence).then_some(place),
            }
        }
    }

    /// Whether an operator costs too much to be computed where its element is not the one that is taken.
    pub(crate) fn is_heavy(&self, place: usize) -> bool {
        let loops = matches!(
            self.nodes[place].operator,
            Some(Operator::Window(_) | Operator::Convolution(_) | Operator::Resize(_))
        );
        let count = self.nodes[place].results.iter().map(|ty| ty.element_capacity().unwrap_or(u64::MAX)).max();
        loops && count.is_none_or(|count| count > SMALL)
    }

    /// Whether taking a part of a value later, in the kernel of a concatenation, would keep much more in memory until then: nothing else reads
    /// that value.
    pub(crate) fn keeps_more(&self, place: usize) -> bool {
        let node = &self.nodes[place];
        let (Some(Operator::Slice(_)), Some(operand)) = (&node.operator, node.op.operand(0)) else { return false };
        let elements = |ty: &TensorType| ty.element_capacity().unwrap_or(u64::MAX);
        let own = node.results.iter().map(elements).max().unwrap_or(0);
        let all = TensorType::read(operand.ty()).map_or(u64::MAX, |ty| elements(&ty));
        operand.defining_op().is_some() && operand.users().len() == 1 && all > own.saturating_mul(2)
    }

    /// The concatenations that a result is written into, the innermost first.
    pub(crate) fn wholes(&self, place: usize) -> Vec<usize> {
        let mut found = Vec::new();
        for result in self.nodes[place].op.results() {
            let mut value = result;
            while let [(user, _)] = value.users()[..]
                && let Some(reader) = self.places.get(&user.key())
                && let Some(next) = user.result(0)
            {
                if self.in_parts[*reader] {
                    found.push(*reader);
                } else if !matches!(self.nodes[*reader].operator, Some(Operator::Reshape(_))) || self.taken[*reader] {
                    break;
                }
                value = next;
            }
        }
        found
    }
}
