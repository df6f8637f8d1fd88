//! Softmax and normalisations by what they compute, whatever operators spell them.

use egg::Id;
use tenon_graph_dialect::Operator;
use tenon_graph_dialect::operators::{Elementwise, Function, Normalize, NormalizeKind, Reduce, ReduceKind, Softmax};
use tenon_recipe::NumericClass;
use tenon_tensor::DType;

use super::algebra::{is, operands, with_known};
use crate::proof::{Dice, Instance};
use crate::rule::{Match, Rule};

const ELEMENTWISE: &str = "graph.elementwise";

/// What a value is a reduction of, over which axes (ascending), where its rank is kept.
fn reduced(found: &mut Match<'_>, id: Id, kind: ReduceKind) -> Option<(Vec<i64>, Id)> {
    let (axes, input) = found.find(id, |view| match &view.operation.operator {
        Operator::Reduce(reduce) if reduce.kind == kind && reduce.keep_dims => {
            Some((reduce.axes.clone(), view.operands[0]))
        }
        _ => None,
    })?;
    let rank = found.ty(input)?.rank() as i64;
    let mut axes: Vec<i64> = axes.into_iter().map(|axis| if axis < 0 { axis + rank } else { axis }).collect();
    axes.sort_unstable();
    Some((axes, input))
}

/// What a value is the square of.
fn squared(found: &mut Match<'_>, id: Id) -> Option<Id> {
    if let Some(factors) = operands(found, id, Function::Multiply)
        && factors[0] == factors[1]
    {
        return Some(factors[0]);
    }
    let power = operands(found, id, Function::Power)?;
    (found.constant(power[1]) == Some(2.0)).then_some(power[0])
}

/// x and t of x / √t, however it is written.
fn over_root(found: &mut Match<'_>) -> Option<(Id, Id)> {
    let [a, b] = found.operands_of()?;
    if is(found, Function::Divide).is_some() {
        return Some((a, *operands(found, b, Function::Sqrt)?.first()?));
    }
    is(found, Function::Multiply)?;
    for (x, factor) in [(a, b), (b, a)] {
        if let Some(inner) = operands(found, factor, Function::Rsqrt) {
            return Some((x, inner[0]));
        }
        if let Some(root) = operands(found, factor, Function::Reciprocal)
            && let Some(inner) = operands(found, root[0], Function::Sqrt)
        {
            return Some((x, inner[0]));
        }
    }
    None
}

fn normalization(found: &mut Match<'_>) -> Option<Id> {
    let (x, sum) = over_root(found)?;
    let terms = operands(found, sum, Function::Add)?;
    let (mean_square, epsilon) = match (found.constant(terms[0]), found.constant(terms[1])) {
        (None, Some(epsilon)) => (terms[0], epsilon),
        (Some(epsilon), None) => (terms[1], epsilon),
        _ => return None,
    };
    let (axes, square) = reduced(found, mean_square, ReduceKind::Mean)?;
    if squared(found, square)? != x || found.ty(x) != found.result() {
        return None;
    }
    if let Some(difference) = operands(found, x, Function::Subtract)
        && let Some((of, input)) = reduced(found, difference[1], ReduceKind::Mean)
        && of == axes
        && input == difference[0]
    {
        return found.add(Normalize { kind: NormalizeKind::Layer, axes, epsilon }, &[input]);
    }
    found.add(Normalize { kind: NormalizeKind::Rms, axes, epsilon }, &[x])
}

/// x / √(mean(x²) + ε), of x or of x - mean(x), in one of its spellings.
fn spelled(dice: &mut Dice, instance: &mut Instance, centred: bool) -> (Option<Id>, Vec<u64>, DType) {
    let (dtype, shape) = (dice.pick(&[DType::F32, DType::F64]), dice.shape(3));
    let mut x = Some(instance.input(dtype, &shape));
    let axes = dice.pick(&[vec![2], vec![-1], vec![1, 2]]);
    let mean = Reduce { kind: ReduceKind::Mean, axes, keep_dims: true };
    if centred {
        let average = instance.op(mean.clone(), &[x]);
        x = instance.op(Elementwise { function: Function::Subtract }, &[x, average]);
    }
    let two = instance.scalar(2.0, dtype);
    let square = if dice.number(0, 1) == 0 {
        instance.op(Elementwise { function: Function::Multiply }, &[x, x])
    } else {
        instance.op(Elementwise { function: Function::Power }, &[x, two])
    };
    let average = instance.op(mean, &[square]);
    let epsilon = instance.scalar(1e-3, dtype);
    let sum = instance.op(Elementwise { function: Function::Add }, &[average, epsilon]);
    let result = match dice.number(0, 2) {
        0 => {
            let root = instance.op(Elementwise { function: Function::Sqrt }, &[sum]);
            instance.op(Elementwise { function: Function::Divide }, &[x, root])
        }
        1 => {
            let factor = instance.op(Elementwise { function: Function::Rsqrt }, &[sum]);
            instance.op(Elementwise { function: Function::Multiply }, &[x, factor])
        }
        _ => {
            let root = instance.op(Elementwise { function: Function::Sqrt }, &[sum]);
            let factor = instance.op(Elementwise { function: Function::Reciprocal }, &[root]);
            instance.op(Elementwise { function: Function::Multiply }, &[factor, x])
        }
    };
    (result, shape, dtype)
}

pub(super) const NORMALIZATION: Rule = Rule {
    name: "normalization",
    class: NumericClass::Reassociates,
    about: "x / sqrt(mean(x^2) + e) is a normalisation, of layers where x is a difference from its own mean.",
    root: ELEMENTWISE,
    apply: normalization,
    instance: |dice| {
        let mut instance = Instance::new();
        let centred = dice.number(0, 1) == 0;
        spelled(dice, &mut instance, centred);
        instance
    },
};

/// The normalisation that a value is, where it has so many operands.
fn normalized(found: &mut Match<'_>, id: Id, count: usize) -> Option<(Normalize, Vec<Id>)> {
    found.find(id, |view| match &view.operation.operator {
        Operator::Normalize(normalize) if view.operands.len() == count => {
            Some((normalize.clone(), view.operands.clone()))
        }
        _ => None,
    })
}

/// A normalisation with the known operand behind it as one of its own.
fn with_operand(found: &mut Match<'_>, function: Function, count: usize) -> Option<Id> {
    is(found, function)?;
    let (normal, known) = with_known(found, &found.operands())?;
    let (normalize, mut operands) = normalized(found, normal, count)?;
    operands.push(known);
    if found.ty(normal) != found.result() {
        return None;
    }
    found.add(normalize, &operands)
}

fn with_weights(dice: &mut Dice, weights: usize) -> Instance {
    let mut instance = Instance::new();
    let (dtype, shape) = (dice.pick(&[DType::F32, DType::F64]), dice.shape(3));
    let x = instance.input(dtype, &shape);
    let kind = dice.pick(&[NormalizeKind::Layer, NormalizeKind::Rms]);
    let mut operands = vec![Some(x)];
    for _ in 1..weights {
        operands.push(Some(instance.parameter(dtype, &shape[2..])));
    }
    let normal = instance.op(Normalize { kind, axes: vec![2], epsilon: 1e-2 }, &operands);
    let known = Some(instance.parameter(dtype, &shape[2..]));
    let function = if weights == 1 { Function::Multiply } else { Function::Add };
    instance.op(Elementwise { function }, &[normal, known]);
    instance
}

pub(super) const SCALE_OF_NORMALIZATION: Rule = Rule {
    name: "scale-of-normalization",
    class: NumericClass::Reassociates,
    about: "A normalisation times a known scale is one with a scale.",
    root: ELEMENTWISE,
    apply: |found| with_operand(found, Function::Multiply, 1),
    instance: |dice| with_weights(dice, 1),
};

pub(super) const BIAS_OF_NORMALIZATION: Rule = Rule {
    name: "bias-of-normalization",
    class: NumericClass::Reassociates,
    about: "A normalisation with a scale plus a known bias is one with a bias.",
    root: ELEMENTWISE,
    apply: |found| with_operand(found, Function::Add, 2),
    instance: |dice| with_weights(dice, 2),
};

pub(super) const SOFTMAX: Rule = Rule {
    name: "softmax",
    class: NumericClass::Reassociates,
    about: "exp(x - max(x)) / sum(exp(x - max(x))) along one axis is a softmax.",
    root: ELEMENTWISE,
    apply: |found| {
        is(found, Function::Divide)?;
        let [exponential, sum] = found.operands_of()?;
        let (axes, summed) = reduced(found, sum, ReduceKind::Sum)?;
        let [axis] = axes[..] else { return None };
        let difference = operands(found, exponential, Function::Exp)?;
        let difference = operands(found, difference[0], Function::Subtract)?;
        let (of, input) = reduced(found, difference[1], ReduceKind::Max)?;
        if summed != exponential || of != [axis] || input != difference[0] || found.ty(input) != found.result() {
            return None;
        }
        found.add(Softmax { axis, log: false }, &[input])
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let (dtype, shape) = (dice.pick(&[DType::F32, DType::F64]), dice.shape(3));
        let x = Some(instance.input(dtype, &shape));
        let axes = vec![dice.number(0, 3) as i64 - 1];
        let most = instance.op(Reduce { kind: ReduceKind::Max, axes: axes.clone(), keep_dims: true }, &[x]);
        let difference = instance.op(Elementwise { function: Function::Subtract }, &[x, most]);
        let exponential = instance.op(Elementwise { function: Function::Exp }, &[difference]);
        let sum = instance.op(Reduce { kind: ReduceKind::Sum, axes, keep_dims: true }, &[exponential]);
        instance.op(Elementwise { function: Function::Divide }, &[exponential, sum]);
        instance
    },
};
