//! Attention that is written out: a product, scale and masks, a softmax, a product.
//!
//! What is read is the meaning: the first product sums over one dimension and leaves two that its operands do not share, queries and keys; softmax goes
//! over the keys; the second product sums over them. Operands may lie in any order, be scaled before or after the product, and stand behind conversions
//! between floats. Nothing is matched whose scores or weights are read elsewhere.

use tenon_graph_dialect::operators::{
    Attention, Cast, Constant, Contract, Elementwise, Function, Reshape, Softmax, Transpose, broadcast_dims,
};
use tenon_graph_dialect::{Dim, DimExpr, Operator, OperatorKind, SemanticError, TensorType};
use tenon_ir::{Builder, Op, Value};
use tenon_tensor::{DType, Tensor};

/// A constant that hides as well as -∞ does: no score reaches it.
pub(super) const HIDES: f64 = -1e30;
/// Most masks whose sum is made.
const MOST_MASKS: usize = 4;

/// An attention that was found, with operands as they lie.
pub(super) struct Found<'m> {
    /// The operators that it stands for.
    pub(super) ops: Vec<Op<'m>>,
    /// Types of the operands of the attention to be.
    pub(super) types: Vec<TensorType>,
    scale: f64,
    q: Operand<'m>,
    k: Operand<'m>,
    v: Operand<'m>,
    masks: Vec<Mask<'m>>,
    /// Order of the result's dimensions, of batch dimensions, queries and width.
    result: Vec<usize>,
    batch: usize,
}

/// A value, and the order in which batch dimensions, positions and depth are its dimensions.
#[derive(Clone)]
struct Operand<'m> {
    value: Value<'m>,
    order: Vec<usize>,
}

#[derive(Clone, Copy)]
enum Mask<'m> {
    /// Numbers to add, times a factor.
    Added(Value<'m>, f64),
    /// The number that stands for a score where the truth value is not `seen`.
    Hidden { condition: Value<'m>, seen: bool, number: f64 },
}

/// The scores before softmax.
struct Scores<'m> {
    product: Op<'m>,
    contract: Contract,
    factor: f64,
    masks: Vec<Mask<'m>>,
    ops: Vec<Op<'m>>,
}

pub(super) fn ty(value: Value<'_>) -> Option<TensorType> {
    TensorType::read(value.ty()).ok()
}

fn producer(value: Value<'_>) -> Option<(Op<'_>, Operator)> {
    let (op, _) = value.defining_op()?;
    Some((op, Operator::read(op)?.ok()?))
}

/// The number that a literal of one element is.
pub(super) fn number(value: Value<'_>) -> Option<f64> {
    match producer(value)? {
        (_, Operator::Constant(constant)) if constant.value.element_count() == 1 => constant.value.get_f64(0),
        _ => None,
    }
}

/// A value multiplied by a number, as both.
pub(super) fn scaled<'m>(op: Op<'m>, elementwise: &Elementwise) -> Option<(Value<'m>, f64)> {
    let [a, b] = <[Value<'m>; 2]>::try_from(op.operands()).ok()?;
    let (value, factor) = match elementwise.function {
        Function::Multiply => match (number(a), number(b)) {
            (_, Some(factor)) => (a, factor),
            (Some(factor), _) => (b, factor),
            _ => return None,
        },
        Function::Divide => (a, 1.0 / number(b)?),
        _ => return None,
    };
    let same = ty(value)?.dims == ty(op.result(0)?)?.dims;
    (same && factor.is_finite()).then_some((value, factor))
}

impl Scores<'_> {
    /// Multiplies the scores and what is added to them. -∞ must stay what it is, so that a factor is positive where there are masks.
    fn scale(&mut self, factor: f64) -> Option<()> {
        self.factor *= factor;
        if self.masks.is_empty() {
            return Some(());
        }
        for mask in &mut self.masks {
            match mask {
                Mask::Added(_, own) => *own *= factor,
                // As the type that scores are in has it: the least number may become -∞.
                Mask::Hidden { number, .. } => *number = f64::from((*number * factor) as f32),
            }
        }
        let hides = |mask: &Mask<'_>| {
            matches!(mask, Mask::Added(..)) || matches!(mask, Mask::Hidden { number, .. } if *number <= HIDES)
        };
        (factor > 0.0 && self.masks.iter().all(hides)).then_some(())
    }
}

pub(super) fn is_used_once(value: Value<'_>) -> bool {
    value.users().len() == 1
}

/// Scores that softmax reads, from its side.
fn scores<'m>(value: Value<'m>) -> Option<Scores<'m>> {
    if !is_used_once(value) {
        return None;
    }
    let (op, operator) = producer(value)?;
    let mut found = match operator {
        Operator::Contract(contract) => {
            Scores { product: op, contract, factor: 1.0, masks: Vec::new(), ops: Vec::new() }
        }
        Operator::Cast(cast) => {
            let input = op.operand(0)?;
            let floats = [cast.dtype, ty(input)?.dtype].iter().all(|dtype| dtype.is_float() && dtype.bits() >= 16);
            floats.then(|| scores(input)).flatten()?
        }
        Operator::Elementwise(elementwise) => match (elementwise.function, op.operands().as_slice()) {
            (Function::Multiply | Function::Divide, _) => {
                let (inner, factor) = scaled(op, &elementwise)?;
                let mut found = scores(inner)?;
                found.scale(factor)?;
                found
            }
            (Function::Add, [a, b]) => {
                let (inner, mask) = match scores(*a) {
                    Some(inner) => (inner, *b),
                    None => (scores(*b)?, *a),
                };
                let mut found = inner;
                found.masks.push(Mask::Added(mask, 1.0));
                found
            }
            (Function::Select, [condition, a, b]) => {
                let (inner, seen, number) = match (number(*a), number(*b)) {
                    (None, Some(number)) => (*a, true, number),
                    (Some(number), None) => (*b, false, number),
                    _ => return None,
                };
                if number > HIDES || number.is_nan() {
                    return None;
                }
                let mut found = scores(inner)?;
                found.masks.push(Mask::Hidden { condition: *condition, seen, number });
                found
            }
            _ => return None,
        },
        _ => return None,
    };
    // Masks must leave the scores their shape.
    if ty(found.product.result(0)?)?.dims != ty(value)?.dims {
        return None;
    }
    found.ops.push(op);
    Some(found)
}

/// The softmax over the last dimension that weights are.
fn softmax<'m>(value: Value<'m>) -> Option<(Op<'m>, Vec<Op<'m>>)> {
    if !is_used_once(value) {
        return None;
    }
    match producer(value)? {
        (op, Operator::Softmax(Softmax { axis, log: false })) => {
            let rank = ty(value)?.rank() as i64;
            (axis == -1 || axis == rank - 1).then_some((op, vec![op]))
        }
        (op, Operator::Cast(cast)) if cast.dtype.is_float() => {
            let (found, mut ops) = softmax(op.operand(0)?)?;
            ops.push(op);
            Some((found, ops))
        }
        _ => None,
    }
}

/// Where each of `wanted` stands in `labels`, which holds nothing else.
fn order(labels: &str, wanted: &[char]) -> Option<Vec<usize>> {
    let found: Option<Vec<usize>> = wanted.iter().map(|label| labels.chars().position(|own| own == *label)).collect();
    found.filter(|found| found.len() == labels.chars().count())
}

/// An operand of the first product without the factors and transpositions that it stands behind.
fn stripped<'m>(mut operand: Operand<'m>, factor: &mut f64, ops: &mut Vec<Op<'m>>) -> Operand<'m> {
    while let Some((op, operator)) = producer(operand.value) {
        match operator {
            Operator::Transpose(transpose) => {
                let Some(input) = op.operand(0) else { break };
                let order = operand.order.iter().map(|dim| transpose.permutation[*dim] as usize).collect();
                operand = Operand { value: input, order };
            }
            Operator::Elementwise(elementwise) => {
                let Some((input, own)) = scaled(op, &elementwise) else { break };
                *factor *= own;
                operand.value = input;
                ops.push(op);
            }
            _ => break,
        }
    }
    operand
}

/// An attention whose last operator is the product `last`.
pub(super) fn find<'m>(last: Op<'m>, product: &Contract) -> Option<Found<'m>> {
    let [left, right] = <[Value<'m>; 2]>::try_from(last.operands()).ok()?;
    let sides = [(left, &product.lhs, right, &product.rhs), (right, &product.rhs, left, &product.lhs)];
    sides.into_iter().find_map(|(weights, labels, values, value_labels)| {
        let (softmax, mut ops) = softmax(weights)?;
        let labels: Vec<char> = labels.chars().collect();
        let [batch @ .., query, key] = labels.as_slice() else { return None };
        if product.summed() != [*key] || batch.len() > 2 || value_labels.contains(*query) {
            return None;
        }
        let width = value_labels.chars().find(|label| label != key && !batch.contains(label))?;
        let v = Operand { value: values, order: order(value_labels, &[batch, &[*key, width]].concat())? };
        let result = order(&product.result, &[batch, &[*query, width]].concat())?;

        let scores = scores(softmax.operand(0)?)?;
        let first = &scores.contract;
        let own: Vec<char> = first.result.chars().collect();
        let [own_batch @ .., query, key] = own.as_slice() else { return None };
        let [depth] = <[char; 1]>::try_from(first.summed()).ok()?;
        let [left, right] = <[Value<'m>; 2]>::try_from(scores.product.operands()).ok()?;
        let (q, q_labels, k, k_labels) = match first.lhs.contains(*query) {
            true => (left, &first.lhs, right, &first.rhs),
            false => (right, &first.rhs, left, &first.lhs),
        };
        let q = Operand { value: q, order: order(q_labels, &[own_batch, &[*query, depth]].concat())? };
        let k = Operand { value: k, order: order(k_labels, &[own_batch, &[*key, depth]].concat())? };
        let mut scale = scores.factor;
        ops.extend(&scores.ops);
        let (q, k) = (stripped(q, &mut scale, &mut ops), stripped(k, &mut scale, &mut ops));
        ops.push(last);
        let dtype = ty(q.value)?.dtype;
        let alike =
            [k.value, v.value, last.result(0)?].into_iter().all(|value| ty(value).is_some_and(|ty| ty.dtype == dtype));
        if !alike || scores.masks.len() > MOST_MASKS {
            return None;
        }
        let masks = scores.masks.clone();
        let mut found = Found { ops, types: Vec::new(), scale, q, k, v, masks, result, batch: batch.len() };
        found.types = found.read_types()?;
        let attention = found.attention();
        attention_fits(&attention, &found.types).then_some(found)
    })
}

fn attention_fits(attention: &Attention, types: &[TensorType]) -> bool {
    attention.infer(types).is_ok()
}

impl<'m> Found<'m> {
    fn attention(&self) -> Attention {
        Attention { scale: self.scale, softcap: None, causal: None, plain_softmax: !self.masks.is_empty() }
    }

    /// Dimensions of an operand in the order of attention, of rank 4.
    fn dims(&self, operand: &Operand<'m>) -> Option<Vec<Dim>> {
        let own = ty(operand.value)?.dims;
        let mut dims = vec![Dim::fixed(1); 2 - self.batch];
        for dim in &operand.order {
            dims.push(own.get(*dim)?.clone());
        }
        Some(dims)
    }

    fn read_types(&self) -> Option<Vec<TensorType>> {
        let mut types = Vec::new();
        for operand in [&self.q, &self.k, &self.v] {
            types.push(TensorType::new(ty(operand.value)?.dtype, self.dims(operand)?));
        }
        let mut masks = Vec::new();
        for mask in &self.masks {
            let (Mask::Added(value, _) | Mask::Hidden { condition: value, .. }) = mask;
            masks.push(ty(*value)?);
        }
        if !masks.is_empty() {
            // Of several the sum is made, which has the dimensions of all.
            let shapes: Vec<&[Dim]> = masks.iter().map(|mask| mask.dims.as_slice()).collect();
            let dims = broadcast_dims(Attention::NAME, &shapes).ok()?;
            let is_number = self.masks.iter().all(|mask| matches!(mask, Mask::Added(..)));
            let is_float = |mask: &TensorType| matches!(mask.dtype, DType::F16 | DType::BF16 | DType::F32);
            if is_number && !masks.iter().all(is_float) {
                return None;
            }
            types.push(TensorType::new(self.mask_type(), dims));
        }
        Some(types)
    }

    /// Truth values as they are where they are all there is and hide entirely; else numbers.
    fn mask_type(&self) -> DType {
        match self.masks.as_slice() {
            [Mask::Hidden { number: f64::NEG_INFINITY, .. }] => DType::Bool,
            _ => DType::F32,
        }
    }

    /// Builds the attention before its last product, and what reads that reads it.
    pub(super) fn replace(&self, last: Op<'m>) -> Result<Op<'m>, SemanticError> {
        let at = Builder::before(last).expect("a product is in a block");
        let at = at
            .with_location(last.context().fused_location(&self.ops.iter().map(|op| op.location()).collect::<Vec<_>>()));
        let emit = |operator: Operator, operands: &[Value<'m>]| -> Result<Value<'m>, SemanticError> {
            Ok(operator.build(at, operands)?[0])
        };
        let mut operands = Vec::new();
        for operand in [&self.q, &self.k, &self.v] {
            let mut value = operand.value;
            if !operand.order.is_sorted() {
                let permutation = operand.order.iter().map(|dim| *dim as i64).collect();
                value = emit(Transpose { permutation }.into(), &[value])?;
            }
            if self.batch < 2 {
                let dims = TensorType::read(value.ty())?.dims;
                let ones = std::iter::repeat_n(DimExpr::constant(1), 2 - self.batch);
                let shape = ones.chain(dims.iter().map(|dim| dim.extent.clone())).collect();
                value = emit(Reshape { shape }.into(), &[value])?;
            }
            operands.push(value);
        }
        operands.extend(self.mask(&emit)?);
        let attention = emit(self.attention().into(), &operands)?;
        let op = attention.defining_op().map(|(op, _)| op).expect("it was just built");

        let mut value = attention;
        if self.batch < 2 {
            let dims = TensorType::read(value.ty())?.dims;
            let shape = dims[2 - self.batch..].iter().map(|dim| dim.extent.clone()).collect();
            value = emit(Reshape { shape }.into(), &[value])?;
        }
        if !self.result.is_sorted() {
            // Dimension `result[i]` of what is wanted is dimension i of what there is.
            let mut permutation = vec![0; self.result.len()];
            for (own, place) in self.result.iter().enumerate() {
                permutation[*place] = own as i64;
            }
            value = emit(Transpose { permutation }.into(), &[value])?;
        }
        last.replace_all_uses(&[value]);
        Ok(op)
    }

    fn mask(
        &self,
        emit: &dyn Fn(Operator, &[Value<'m>]) -> Result<Value<'m>, SemanticError>,
    ) -> Result<Option<Value<'m>>, SemanticError> {
        let apply = |function: Function, operands: &[Value<'m>]| emit(Elementwise { function }.into(), operands);
        if self.mask_type() == DType::Bool {
            let Some(Mask::Hidden { condition, seen, .. }) = self.masks.first() else { return Ok(None) };
            return Ok(Some(if *seen { *condition } else { apply(Function::Not, &[*condition])? }));
        }
        let scalar = |value: f64| {
            let tensor = Tensor::from_f64s(DType::F32, Vec::new(), &[value]).expect("f32 holds one number");
            emit(Constant { value: tensor }.into(), &[])
        };
        let mut sum: Option<Value<'m>> = None;
        for mask in &self.masks {
            let value = match mask {
                Mask::Added(value, factor) => {
                    let wide = match TensorType::read(value.ty())?.dtype {
                        DType::F32 => *value,
                        _ => emit(Cast { dtype: DType::F32, saturate: false }.into(), &[*value])?,
                    };
                    if *factor == 1.0 { wide } else { apply(Function::Multiply, &[wide, scalar(*factor)?])? }
                }
                Mask::Hidden { condition, seen, number } => {
                    // A choice comes in place of what was added before it: two of the least number must not be -∞.
                    let (shown, hidden) = (sum.take().map_or_else(|| scalar(0.0), Ok)?, scalar(*number)?);
                    let (a, b) = if *seen { (shown, hidden) } else { (hidden, shown) };
                    apply(Function::Select, &[*condition, a, b])?
                }
            };
            sum = Some(match sum {
                None => value,
                Some(sum) => apply(Function::Add, &[sum, value])?,
            });
        }
        Ok(sum)
    }
}
