//! What a kernel costs on a target, and what the best other grouping of its operators would.
//!
//! A launch, and the larger of the time of the bytes that it reads and writes and the time of its multiplications. The alternative to a kernel of several
//! operators is two kernels, divided where that costs least; the alternative to attention is its two products and the softmax between them.

use std::collections::BTreeSet;

use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::{Op, Value};

use crate::cost::CostModel;

/// Estimate of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelCost {
    /// Microseconds.
    pub us: f64,
    /// The best of the groupings that were rejected, where there are several operators.
    pub alternative: Option<Alternative>,
}

/// A grouping that was rejected.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// What it is.
    pub what: String,
    /// Microseconds of all its kernels together.
    pub us: f64,
}

/// An operator of a kernel.
struct Member<'m> {
    op: Op<'m>,
    operator: Operator,
    operands: Vec<TensorType>,
    result: TensorType,
}

fn ty(value: Value<'_>) -> Option<TensorType> {
    TensorType::read(value.ty()).ok()
}

fn bytes(ty: &TensorType) -> f64 {
    ty.element_capacity().unwrap_or(1) as f64 * ty.dtype.size() as f64
}

/// Whether an operator is part of a kernel without a launch of its own.
fn is_free(operator: &Operator) -> bool {
    matches!(operator, Operator::Constant(_) | Operator::Reshape(_) | Operator::SetDimensionSize(_))
}

/// Whether an operator reads of its first operand only the elements that it gives.
fn picks(operator: &Operator) -> bool {
    matches!(operator, Operator::Gather(_) | Operator::Slice(_))
}

impl CostModel {
    /// The cost of a `graph.kernel`; `None` of another operation, or of one with a type that cannot be read.
    pub fn kernel(&self, kernel: Op<'_>) -> Option<KernelCost> {
        if !kernel.is("graph.kernel") {
            return None;
        }
        let mut members = Vec::new();
        for op in kernel.region_block(0)?.ops() {
            let Some(operator) = Operator::read(op) else { continue };
            let operands = op.operands().into_iter().map(ty).collect::<Option<Vec<_>>>()?;
            members.push(Member { op, operator: operator.ok()?, operands, result: ty(op.result(0)?)? });
        }
        let us = self.part(&members) / 1e6;
        let attention = members.iter().find(|member| matches!(member.operator, Operator::Attention(_)));
        let alternative = match attention {
            Some(attention) => self.unfused(attention),
            None => self.divided(&members),
        };
        Some(KernelCost { us, alternative })
    }

    /// Picoseconds of some of a kernel's operators as a kernel of their own.
    fn part(&self, members: &[Member<'_>]) -> f64 {
        let inside: BTreeSet<usize> = members.iter().map(|member| member.op.key()).collect();
        let mut moved = 0.0;
        let mut read: Vec<(Value<'_>, f64)> = Vec::new();
        for member in members {
            for (index, value) in member.op.operands().into_iter().enumerate() {
                let giver = value.defining_op().map(|(op, _)| op);
                if giver.is_some_and(|op| inside.contains(&op.key()) || op.is("graph.constant")) {
                    continue;
                }
                let whole = bytes(&member.operands[index]);
                let own = if index == 0 && picks(&member.operator) { whole.min(bytes(&member.result)) } else { whole };
                match read.iter_mut().find(|(known, _)| *known == value) {
                    Some((_, most)) => *most = most.max(own),
                    None => read.push((value, own)),
                }
            }
            for value in member.op.results() {
                let leaves = value.users().iter().any(|(user, _)| !inside.contains(&user.key()));
                if leaves && !matches!(member.operator, Operator::Constant(_)) {
                    moved += ty(value).map_or(0.0, |ty| bytes(&ty));
                }
            }
        }
        moved += read.iter().map(|(_, bytes)| bytes).sum::<f64>();
        let work: f64 =
            members.iter().map(|member| self.work(&member.operator, &member.operands, &member.result)).sum();
        self.launch + (moved * self.byte).max(work)
    }

    /// The best division into two kernels.
    fn divided(&self, members: &[Member<'_>]) -> Option<Alternative> {
        let computes = |part: &[Member<'_>]| part.iter().any(|member| !is_free(&member.operator));
        let mut best: Option<Alternative> = None;
        for at in 1..members.len() {
            let (first, second) = members.split_at(at);
            if is_free(&second[0].operator) || !computes(first) {
                continue;
            }
            let us = (self.part(first) + self.part(second)) / 1e6;
            if best.as_ref().is_none_or(|best| us < best.us) {
                let node = second[0].op.location().names().into_iter().next();
                let node = node.map(|node| format!(" of {node}")).unwrap_or_default();
                let what = format!("two kernels, the second from `{}`{node} on", second[0].operator.name());
                best = Some(Alternative { what, us });
            }
        }
        best
    }

    /// Attention as two products and a softmax, which keep the scores in memory.
    fn unfused(&self, attention: &Member<'_>) -> Option<Alternative> {
        let [q, k, v, ..] = attention.operands.as_slice() else { return None };
        let size = |ty: &TensorType, axis: usize| ty.dims.get(axis).and_then(|dim| dim.capacity).unwrap_or(1) as f64;
        let scores = size(q, 0) * size(q, 1) * size(q, 2) * size(k, 2) * q.dtype.size() as f64;
        let mask = attention.operands.get(3).map_or(0.0, bytes);
        let moved = [bytes(q) + bytes(k) + mask + scores, 2.0 * scores, scores + bytes(v) + bytes(&attention.result)];
        let work = self.work(&attention.operator, &attention.operands, &attention.result) / 2.0;
        let times = moved.iter().zip([work, 0.0, work]);
        let all: f64 = times.map(|(moved, work)| self.launch + (moved * self.byte).max(work)).sum();
        Some(Alternative { what: "two products and a softmax, with the scores in memory".to_owned(), us: all / 1e6 })
    }
}
