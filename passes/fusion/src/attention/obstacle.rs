//! What keeps a softmax between two products from being attention.

use std::collections::{BTreeMap, VecDeque};

use tenon_graph_dialect::Operator;
use tenon_graph_dialect::operators::{Contract, Function, Softmax};
use tenon_ir::{Op, Value};

use super::matching::{HIDES, is_used_once, number, scaled, ty};

/// Most operators between a product and a softmax that are looked at.
const MOST_STEPS: usize = 64;

/// The operator that stands in the way, and why.
pub(super) struct Obstacle<'m> {
    pub(super) op: Op<'m>,
    pub(super) reason: String,
}

/// Whether an operator gives scalar functions or other places of what it reads.
fn passes_on(operator: &Operator) -> bool {
    matches!(
        operator,
        Operator::Elementwise(_)
            | Operator::Cast(_)
            | Operator::Reshape(_)
            | Operator::Transpose(_)
            | Operator::Broadcast(_)
            | Operator::Slice(_)
    )
}

/// The operators on a shortest way back from a value to one that is wanted, which comes last.
fn way_back<'m>(from: Value<'m>, wanted: impl Fn(&Operator) -> bool) -> Option<Vec<Op<'m>>> {
    let (start, _) = from.defining_op()?;
    let mut before: BTreeMap<usize, Option<Op<'m>>> = BTreeMap::from([(start.key(), None)]);
    let mut queue = VecDeque::from([start]);
    while let Some(op) = queue.pop_front() {
        let Some(Ok(operator)) = Operator::read(op) else { continue };
        if wanted(&operator) {
            let mut way = vec![op];
            while let Some(Some(previous)) = way.last().and_then(|last| before.get(&last.key())) {
                way.push(*previous);
            }
            way.reverse();
            return Some(way);
        }
        if !passes_on(&operator) || before.len() > MOST_STEPS {
            continue;
        }
        for (next, _) in op.operands().into_iter().filter_map(Value::defining_op) {
            if !before.contains_key(&next.key()) {
                before.insert(next.key(), Some(op));
                queue.push_back(next);
            }
        }
    }
    None
}

fn is_softmax(operator: &Operator) -> bool {
    matches!(operator, Operator::Softmax(Softmax { log: false, .. }))
}

/// Where a product reads what a softmax gives of another product's result, and that is not read as attention: what stands in the way.
pub(super) fn find<'m>(last: Op<'m>, product: &Contract) -> Option<Obstacle<'m>> {
    let (weights, softmax, scores, first) = last.operands().into_iter().find_map(|operand| {
        let mut weights = way_back(operand, is_softmax)?;
        let softmax = weights.pop()?;
        let mut scores = way_back(softmax.operand(0)?, |operator| matches!(operator, Operator::Contract(_)))?;
        let first = scores.pop()?;
        Some((weights, softmax, scores, first))
    })?;
    let found = |op: Op<'m>, reason: String| Some(Obstacle { op, reason });
    for op in &weights {
        if !matches!(Operator::read(*op), Some(Ok(Operator::Cast(cast))) if cast.dtype.is_float()) {
            return found(*op, "it stands between softmax and product".to_owned());
        }
    }
    let axis = match Operator::read(softmax) {
        Some(Ok(Operator::Softmax(softmax))) => softmax.axis,
        _ => return None,
    };
    let rank = ty(softmax.result(0)?)?.rank() as i64;
    if axis != -1 && axis != rank - 1 {
        return found(softmax, format!("it goes over dimension {axis}, which is not the last"));
    }
    for op in weights.iter().chain([&softmax]).chain(&scores).chain([&first]) {
        if op.results().into_iter().any(|value| !is_used_once(value)) {
            return found(*op, "its result is read elsewhere too, and must be in memory".to_owned());
        }
    }
    for op in scores {
        if let Some(reason) = changes_scores(op) {
            return found(op, reason);
        }
    }
    let types: Vec<String> = last.operands().into_iter().filter_map(ty).map(|ty| ty.to_string()).collect();
    let labels = format!("\"{},{}->{}\"", product.lhs, product.rhs, product.result);
    let wanted = "the products do not have the dimensions of attention, operands of one type, and masks of f16, bf16 or f32 that the scores cover";
    found(last, format!("{wanted}: the last one is {labels} of {}", types.join(" and ")))
}

/// Why an operator between product and softmax is neither a scale nor a mask.
fn changes_scores(op: Op<'_>) -> Option<String> {
    let operator = Operator::read(op)?.ok()?;
    let elementwise = match &operator {
        Operator::Elementwise(elementwise) => elementwise,
        Operator::Cast(cast) if cast.dtype.is_float() => return None,
        _ => return Some(format!("`{}` is neither a scale nor a mask of scores", operator.name())),
    };
    match (elementwise.function, op.operands().as_slice()) {
        (Function::Add, _) => None,
        (Function::Multiply | Function::Divide, _) => match scaled(op, elementwise) {
            Some((_, factor)) if factor > 0.0 => None,
            Some((_, factor)) => Some(format!("a scale of {factor} behind a mask would turn what the mask hides")),
            None => Some("it multiplies scores by what is no number".to_owned()),
        },
        (Function::Select, [_, a, b]) => match number(*a).or(number(*b)) {
            Some(number) if number <= HIDES => None,
            Some(number) => Some(format!(
                "it puts {number} in place of scores, which does not hide a key as a mask that is added does: scores may be as low, and a query \
                 that sees no key would weigh keys by what it hides; -∞ or the least number of f32 hides"
            )),
            None => Some("it chooses between scores and other values".to_owned()),
        },
        (function, _) => Some(format!("`{}` is neither a scale nor a mask of scores", function.name())),
    }
}
