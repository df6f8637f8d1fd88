//! Scalar arithmetic with weights, so that what follows from weights alone is computed ahead.
//!
//! Only in f32 and f64, whose range leaves room for another order.

use egg::Id;
use tenon_graph_dialect::Operator;
use tenon_graph_dialect::operators::{Elementwise, Function};
use tenon_recipe::NumericClass;
use tenon_tensor::DType;

use crate::proof::{Dice, Instance};
use crate::rule::{Match, Rule};

const ELEMENTWISE: &str = "graph.elementwise";

/// Whether the matched operator is a function of floats with room.
pub(super) fn is(found: &Match<'_>, function: Function) -> Option<()> {
    let Operator::Elementwise(own) = found.operator()? else { return None };
    let wide = matches!(found.result()?.dtype, DType::F32 | DType::F64);
    (own.function == function && wide).then_some(())
}

/// An operand that is not known and one that is, of a function that does not mind their order.
pub(super) fn with_known(found: &Match<'_>, operands: &[Id]) -> Option<(Id, Id)> {
    match operands {
        [x, known] if !found.is_known(*x) && found.is_known(*known) => Some((*x, *known)),
        [known, x] if !found.is_known(*x) && found.is_known(*known) => Some((*x, *known)),
        _ => None,
    }
}

/// Operands of the function that a value is.
pub(super) fn operands(found: &mut Match<'_>, id: Id, function: Function) -> Option<Vec<Id>> {
    found.find(id, |view| match &view.operation.operator {
        Operator::Elementwise(own) if own.function == function => Some(view.operands.clone()),
        _ => None,
    })
}

/// The value, where it has the matched operator's type.
fn typed(found: &Match<'_>, id: Id) -> Option<Id> {
    (found.ty(id) == found.result()).then_some(id)
}

/// A value and weights of one type.
fn values(dice: &mut Dice, instance: &mut Instance, weights: usize) -> (Id, Vec<Id>) {
    let (dtype, shape) = (dice.pick(&[DType::F32, DType::F64]), dice.shape(3));
    let x = instance.input(dtype, &shape);
    let known = (0..weights).map(|_| instance.parameter(dtype, &shape[dice.number(0, 3) as usize..])).collect();
    (x, known)
}

fn pair(dice: &mut Dice, x: Option<Id>, known: Id) -> [Option<Id>; 2] {
    if dice.number(0, 1) == 0 { [x, Some(known)] } else { [Some(known), x] }
}

pub(super) const SUBTRACT_KNOWN: Rule = Rule {
    name: "subtract-known",
    class: NumericClass::Exact,
    about: "x - a, with a known, is x + (-a).",
    root: ELEMENTWISE,
    apply: |found| {
        is(found, Function::Subtract)?;
        let [x, known] = found.operands_of()?;
        if found.is_known(x) || !found.is_known(known) {
            return None;
        }
        let negative = found.function(Function::Negate, &[known])?;
        found.function(Function::Add, &[x, negative])
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let (x, known) = values(dice, &mut instance, 1);
        instance.op(Elementwise { function: Function::Subtract }, &[Some(x), Some(known[0])]);
        instance
    },
};

pub(super) const DIVIDE_KNOWN: Rule = Rule {
    name: "divide-known",
    class: NumericClass::Reassociates,
    about: "x / a, with a known, is x * (1 / a).",
    root: ELEMENTWISE,
    apply: |found| {
        is(found, Function::Divide)?;
        let [x, known] = found.operands_of()?;
        if found.is_known(x) || !found.is_known(known) {
            return None;
        }
        let reciprocal = found.function(Function::Reciprocal, &[known])?;
        found.function(Function::Multiply, &[x, reciprocal])
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let (x, known) = values(dice, &mut instance, 1);
        instance.op(Elementwise { function: Function::Divide }, &[Some(x), Some(known[0])]);
        instance
    },
};

/// (x ∘ a) ∘ b as x ∘ (a ∘ b).
fn associate(found: &mut Match<'_>, function: Function) -> Option<Id> {
    is(found, function)?;
    let (inner, b) = with_known(found, &found.operands())?;
    let inner = operands(found, inner, function)?;
    let (x, a) = with_known(found, &inner)?;
    let known = found.function(function, &[a, b])?;
    if !found.is_known(known) {
        return None;
    }
    let new = found.function(function, &[x, known])?;
    typed(found, new)
}

fn nested(dice: &mut Dice, inner: Function, outer: Function) -> Instance {
    let mut instance = Instance::new();
    let (x, known) = values(dice, &mut instance, 2);
    let operands = pair(dice, Some(x), known[0]);
    let first = instance.op(Elementwise { function: inner }, &operands);
    let operands = pair(dice, first, known[1]);
    instance.op(Elementwise { function: outer }, &operands);
    instance
}

pub(super) const SUM_OF_SUMS: Rule = Rule {
    name: "sum-of-sums",
    class: NumericClass::Reassociates,
    about: "(x + a) + b, with a and b known, is x + (a + b).",
    root: ELEMENTWISE,
    apply: |found| associate(found, Function::Add),
    instance: |dice| nested(dice, Function::Add, Function::Add),
};

pub(super) const PRODUCT_OF_PRODUCTS: Rule = Rule {
    name: "product-of-products",
    class: NumericClass::Reassociates,
    about: "(x * a) * b, with a and b known, is x * (a * b).",
    root: ELEMENTWISE,
    apply: |found| associate(found, Function::Multiply),
    instance: |dice| nested(dice, Function::Multiply, Function::Multiply),
};

pub(super) const DISTRIBUTE: Rule = Rule {
    name: "distribute-known",
    class: NumericClass::Reassociates,
    about: "(x + a) * b, with a and b known, is x * b + a * b.",
    root: ELEMENTWISE,
    apply: |found| {
        is(found, Function::Multiply)?;
        let (sum, b) = with_known(found, &found.operands())?;
        let sum = operands(found, sum, Function::Add)?;
        let (x, a) = with_known(found, &sum)?;
        let known = found.function(Function::Multiply, &[a, b])?;
        if !found.is_known(known) {
            return None;
        }
        let scaled = found.function(Function::Multiply, &[x, b])?;
        let new = found.function(Function::Add, &[scaled, known])?;
        typed(found, new)
    },
    instance: |dice| nested(dice, Function::Add, Function::Multiply),
};
