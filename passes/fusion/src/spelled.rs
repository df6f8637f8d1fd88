//! GELU and normalisations that exporters write as several nodes, by what they compute: for the source patterns `gelu`, `layer_norm` and `rms_norm`.

use tenon_graph_dialect::operators::{Function, ReduceKind};
use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::{Op, Value};

/// Most scalar factors and terms that are looked through.
const MAX_DEPTH: usize = 8;

/// What several operators are together.
pub(crate) struct Spelled<'m> {
    pub(crate) operators: Vec<Op<'m>>,
    /// The operator that gives the value.
    pub(crate) last: Op<'m>,
}

/// Operators that have been looked through.
#[derive(Default)]
struct Seen<'m> {
    ops: Vec<Op<'m>>,
}

fn operator(value: Value<'_>) -> Option<(Op<'_>, Operator)> {
    let (op, _) = value.defining_op()?;
    Some((op, Operator::read(op)?.ok()?))
}

fn function(value: Value<'_>) -> Option<(Op<'_>, Function)> {
    match operator(value)? {
        (op, Operator::Elementwise(elementwise)) => Some((op, elementwise.function)),
        _ => None,
    }
}

fn number(value: Value<'_>) -> Option<f64> {
    match operator(value)? {
        (_, Operator::Constant(constant)) if constant.value.element_count() == 1 => constant.value.get_f64(0),
        _ => None,
    }
}

fn is_about(found: f64, wanted: f64) -> bool {
    // Constants are given in f16 too.
    (found - wanted).abs() <= 1e-3 * wanted.abs()
}

impl<'m> Seen<'m> {
    fn add(&mut self, op: Op<'m>) {
        if !self.ops.contains(&op) {
            self.ops.push(op);
        }
    }

    /// The value behind conversions between floats.
    fn behind_casts(&mut self, mut value: Value<'m>) -> Value<'m> {
        while let Some((op, Operator::Cast(cast))) = operator(value)
            && let Some(input) = op.operand(0)
            && let Ok(ty) = TensorType::read(input.ty())
            && ty.dtype.is_float()
            && cast.dtype.is_float()
        {
            self.add(op);
            value = input;
        }
        value
    }

    /// The operands of a function that a value is.
    fn operands(&mut self, value: Value<'m>, wanted: Function) -> Option<Vec<Value<'m>>> {
        let value = self.behind_casts(value);
        let (op, _) = function(value).filter(|(_, function)| *function == wanted)?;
        self.add(op);
        Some(op.operands())
    }

    /// A value as a number times factors that are no products.
    fn product(&mut self, value: Value<'m>, depth: usize) -> (f64, Vec<Value<'m>>) {
        let value = self.behind_casts(value);
        if let Some(number) = number(value) {
            return (number, Vec::new());
        }
        let (op, function) = match function(value) {
            Some(found) if depth > 0 => found,
            _ => return (1.0, vec![value]),
        };
        match (function, op.operands().as_slice()) {
            (Function::Multiply, [a, b]) => {
                self.add(op);
                let ((left, mut factors), (right, more)) = (self.product(*a, depth - 1), self.product(*b, depth - 1));
                factors.extend(more);
                (left * right, factors)
            }
            (Function::Divide, [a, b]) => match number(*b) {
                Some(divisor) if divisor != 0.0 => {
                    self.add(op);
                    let (number, factors) = self.product(*a, depth - 1);
                    (number / divisor, factors)
                }
                _ => (1.0, vec![value]),
            },
            (Function::Power, [base, exponent]) if [2.0, 3.0].map(Some).contains(&number(*exponent)) => {
                self.add(op);
                let base = self.behind_casts(*base);
                (1.0, vec![base; number(*exponent).map_or(0, |count| count as usize)])
            }
            _ => (1.0, vec![value]),
        }
    }

    /// A sum of a number and a value.
    fn plus(&mut self, value: Value<'m>) -> Option<(f64, Value<'m>)> {
        let operands = self.operands(value, Function::Add)?;
        let [a, b] = operands[..] else { return None };
        match (number(a), number(b)) {
            (Some(number), None) => Some((number, b)),
            (None, Some(number)) => Some((number, a)),
            _ => None,
        }
    }

    /// Whether a value is what GELU multiplies half of `x` by: 1 + erf(x / √2), or the approximation by tanh.
    fn is_gate(&mut self, value: Value<'m>, x: Value<'m>) -> bool {
        let Some((1.0, inner)) = self.plus(value) else { return false };
        if let Some(operands) = self.operands(inner, Function::Erf) {
            let (factor, rest) = self.product(operands[0], MAX_DEPTH);
            return rest == [x] && is_about(factor, std::f64::consts::FRAC_1_SQRT_2);
        }
        let Some(operands) = self.operands(inner, Function::Tanh) else { return false };
        let (factor, rest) = self.product(operands[0], MAX_DEPTH);
        // tanh(c (x + a x³)), or with x taken out: tanh(c x (1 + a x²)).
        let (sum, inside) = match rest[..] {
            [sum] => (sum, 1),
            [a, b] if a == x => (b, 0),
            [a, b] if b == x => (a, 0),
            _ => return false,
        };
        let Some(terms) = self.operands(sum, Function::Add) else { return false };
        let products: Vec<_> = terms.iter().map(|term| self.product(*term, MAX_DEPTH)).collect();
        let linear = products.iter().any(|(number, rest)| *number == 1.0 && *rest == vec![x; inside]);
        let cubic = products.iter().any(|(number, rest)| is_about(*number, 0.044715) && *rest == vec![x; inside + 2]);
        linear && cubic && is_about(factor, (2.0 / std::f64::consts::PI).sqrt())
    }
}

/// The GELU that an operator gives, as several of them.
pub(crate) fn gelu<'m>(last: Op<'m>) -> Option<Spelled<'m>> {
    let mut seen = Seen::default();
    let value = last.result(0)?;
    function(value).filter(|(_, function)| *function == Function::Multiply)?;
    let (factor, factors) = seen.product(value, MAX_DEPTH);
    let [a, b] = factors[..] else { return None };
    let found = is_about(factor, 0.5) && (seen.is_gate(b, a) || seen.is_gate(a, b));
    found.then_some(Spelled { operators: seen.ops, last })
}

/// The layer normalisation that an operator gives, as several of them: with scale and bias, where they follow.
pub(crate) fn layer_norm<'m>(last: Op<'m>) -> Option<Spelled<'m>> {
    normalization(last, true)
}

/// The normalisation by the root of the mean square that an operator gives, as several of them: with scale, where it follows.
pub(crate) fn rms_norm<'m>(last: Op<'m>) -> Option<Spelled<'m>> {
    normalization(last, false)
}

/// x / √(mean(x²) + ε), of x - mean(x) where it is centred and of another x where it is not.
fn normalization<'m>(last: Op<'m>, centred: bool) -> Option<Spelled<'m>> {
    let mut seen = Seen::default();
    let value = last.result(0)?;
    let (_, is) = function(value)?;
    let operands = last.operands();
    let [a, b] = operands[..] else { return None };
    let (difference, sum) = match is {
        Function::Divide => (a, seen.operands(b, Function::Sqrt)?[0]),
        Function::Multiply => {
            let [(x, root), (other_x, other_root)] = [(a, b), (b, a)];
            match seen.root(root) {
                Some(sum) => (x, sum),
                None => (other_x, seen.root(other_root)?),
            }
        }
        _ => return None,
    };
    seen.add(last);
    let (_, mean_square) = seen.plus(sum)?;
    let square = seen.mean(mean_square)?;
    let difference = seen.behind_casts(difference);
    let squared = match (seen.operands(square, Function::Multiply), seen.operands(square, Function::Power)) {
        (Some(factors), _) => factors.iter().all(|factor| seen.behind_casts(*factor) == difference),
        (_, Some(power)) => seen.behind_casts(power[0]) == difference && number(power[1]) == Some(2.0),
        _ => false,
    };
    let from_mean = from_own_mean(difference);
    if !squared || from_mean.is_some() != centred {
        return None;
    }
    for op in from_mean.into_iter().flatten() {
        seen.add(op);
    }
    let mut last = last;
    let weights: &[Function] = if centred { &[Function::Multiply, Function::Add] } else { &[Function::Multiply] };
    for wanted in weights.iter().copied() {
        let users = last.result(0)?.users();
        let [(user, place)] = users[..] else { break };
        let weight = user.operand(1 - place.min(1));
        let is_weight = weight.and_then(Value::defining_op).is_some_and(|(op, _)| op.is("graph.get_parameter"));
        if !is_weight || function(user.result(0)?).is_none_or(|(_, function)| function != wanted) {
            break;
        }
        seen.add(user);
        last = user;
    }
    Some(Spelled { operators: seen.ops, last })
}

/// The operators by which a value is a difference from its own mean.
fn from_own_mean<'m>(value: Value<'m>) -> Option<Vec<Op<'m>>> {
    let mut seen = Seen::default();
    let parts = seen.operands(value, Function::Subtract)?;
    let [x, average] = parts[..] else { return None };
    (seen.mean(average)? == x).then_some(seen.ops)
}

impl<'m> Seen<'m> {
    /// t of 1 / √t.
    fn root(&mut self, value: Value<'m>) -> Option<Value<'m>> {
        if let Some(operands) = self.operands(value, Function::Rsqrt) {
            return operands.first().copied();
        }
        let inner = *self.operands(value, Function::Reciprocal)?.first()?;
        self.operands(inner, Function::Sqrt)?.first().copied()
    }

    /// What a value is the mean of.
    fn mean(&mut self, value: Value<'m>) -> Option<Value<'m>> {
        match operator(value)? {
            (op, Operator::Reduce(reduce)) if reduce.kind == ReduceKind::Mean => {
                self.add(op);
                op.operand(0)
            }
            _ => None,
        }
    }
}
