//! Transposes and reshapes around contractions, as labels.

use egg::Id;
use tenon_graph_dialect::operators::{Contract, Reshape, Transpose};
use tenon_graph_dialect::{Dim, DimExpr, Operator};
use tenon_recipe::NumericClass;
use tenon_tensor::DType;

use super::shapes::groups;
use crate::proof::{Dice, Instance};
use crate::rule::{Match, Rule};

const CONTRACT: &str = "graph.contract";

/// A product of random sizes, its operands and its sizes by label `b`, `m`, `k`, `n`.
fn product(dice: &mut Dice, instance: &mut Instance) -> (Contract, Id, Id) {
    let dtype = dice.pick(&[DType::F32, DType::F16, DType::F64]);
    let [b, m, k, n] = [0; 4].map(|_| dice.number(1, 4));
    let batched = dice.number(0, 1) == 0;
    let accumulate = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let contract = Contract {
        lhs: "bmk".to_owned(),
        rhs: if batched { "bkn" } else { "kn" }.to_owned(),
        result: "bmn".to_owned(),
        accumulate,
        dtype,
    };
    let lhs = instance.input(dtype, &[b, m, k]);
    let rhs = if batched { instance.input(dtype, &[b, k, n]) } else { instance.parameter(dtype, &[k, n]) };
    (contract, lhs, rhs)
}

/// Labels in the order of another operand: what was `labels[i]` before the transpose.
fn relabel(labels: &str, permutation: &[i64]) -> Option<String> {
    let labels: Vec<char> = labels.chars().collect();
    let mut before = vec![None; labels.len()];
    for (place, from) in permutation.iter().enumerate() {
        *before.get_mut(usize::try_from(*from).ok()?)? = labels.get(place).copied();
    }
    before.into_iter().collect()
}

/// Reads an operand through a transpose.
fn through_transpose(found: &mut Match<'_>, side: usize) -> Option<Id> {
    let Operator::Contract(mut contract) = found.operator()? else { return None };
    let mut operands = found.operands();
    let (permutation, input) = found.find(*operands.get(side)?, |view| match &view.operation.operator {
        Operator::Transpose(transpose) => Some((transpose.permutation.clone(), view.operands[0])),
        _ => None,
    })?;
    let labels = if side == 0 { &mut contract.lhs } else { &mut contract.rhs };
    *labels = relabel(labels, &permutation)?;
    operands[side] = input;
    found.add(contract, &operands)
}

/// A product with one operand behind a transpose.
fn transposed(dice: &mut Dice, side: usize) -> Instance {
    let mut instance = Instance::new();
    let (mut contract, lhs, rhs) = product(dice, &mut instance);
    let mut operands = [Some(lhs), Some(rhs)];
    let labels = if side == 0 { &mut contract.lhs } else { &mut contract.rhs };
    let permutation = dice.permutation(labels.len());
    *labels = permutation.iter().filter_map(|dim| labels.chars().nth(*dim as usize)).collect();
    operands[side] = instance.op(Transpose { permutation }, &[operands[side]]);
    instance.op(contract, &operands);
    instance
}

pub(super) const TRANSPOSED_LEFT: Rule = Rule {
    name: "contraction-of-transposed-left",
    class: NumericClass::Exact,
    about: "A contraction reads a transposed left operand by other labels.",
    root: CONTRACT,
    apply: |found| through_transpose(found, 0),
    instance: |dice| transposed(dice, 0),
};

pub(super) const TRANSPOSED_RIGHT: Rule = Rule {
    name: "contraction-of-transposed-right",
    class: NumericClass::Exact,
    about: "A contraction reads a transposed right operand by other labels.",
    root: CONTRACT,
    apply: |found| through_transpose(found, 1),
    instance: |dice| transposed(dice, 1),
};

/// The contraction that a value is.
fn contraction(found: &mut Match<'_>, id: Id) -> Option<(Contract, Vec<Id>)> {
    found.find(id, |view| match &view.operation.operator {
        Operator::Contract(contract) => Some((contract.clone(), view.operands.clone())),
        _ => None,
    })
}

pub(super) const TRANSPOSED_RESULT: Rule = Rule {
    name: "transpose-of-contraction",
    class: NumericClass::Exact,
    about: "A contraction writes a transposed result by other labels.",
    root: "graph.transpose",
    apply: |found| {
        let Operator::Transpose(transpose) = found.operator()? else { return None };
        let [operand] = found.operands_of()?;
        let (contract, operands) = contraction(found, operand)?;
        let result = transpose
            .permutation
            .iter()
            .map(|dim| contract.result.chars().nth(*dim as usize))
            .collect::<Option<_>>()?;
        found.add(Contract { result, ..contract }, &operands)
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let (contract, lhs, rhs) = product(dice, &mut instance);
        let product = instance.op(contract, &[Some(lhs), Some(rhs)]);
        instance.op(Transpose { permutation: dice.permutation(3) }, &[product]);
        instance
    },
};

pub(super) const RESHAPED_RESULT: Rule = Rule {
    name: "reshape-of-contraction",
    class: NumericClass::Exact,
    about: "A contraction whose result is split into more dimensions is one of operands that are split alike.",
    root: "graph.reshape",
    apply: |found| {
        let [operand] = found.operands_of()?;
        let (from, to) = (found.ty(operand)?.dims, found.result()?.dims);
        let (contract, operands) = contraction(found, operand)?;
        let parts = splits(&from, &to)?;
        let mut unused = ('a'..='z').chain('A'..='Z').filter(|label| {
            ![&contract.lhs, &contract.rhs, &contract.result].into_iter().any(|labels| labels.contains(*label))
        });
        let (mut new, mut sides) = (contract.clone(), Vec::new());
        new.result.clear();
        let mut names: Vec<(char, String)> = Vec::new();
        for (label, part) in contract.result.chars().zip(&parts) {
            let own = match part.len() {
                1 => label.to_string(),
                count => unused.by_ref().take(count).collect(),
            };
            if own.chars().count() != part.len() {
                return None;
            }
            new.result.push_str(&own);
            names.push((label, own));
        }
        for (labels, operand) in [&contract.lhs, &contract.rhs].into_iter().zip(operands) {
            let (mut own, mut dims) = (String::new(), Vec::new());
            for (label, dim) in labels.chars().zip(found.ty(operand)?.dims) {
                match names.iter().position(|(name, _)| *name == label) {
                    // A dimension of one element that is repeated is no part of the split.
                    Some(place) if dim != from[place] => return None,
                    Some(place) => {
                        own.push_str(&names[place].1);
                        dims.extend_from_slice(&to[parts[place].clone()]);
                    }
                    None => {
                        own.push(label);
                        dims.push(dim);
                    }
                }
            }
            sides.push((own, found.reshape(operand, &dims)?));
        }
        let [(lhs, left), (rhs, right)] = <[_; 2]>::try_from(sides).ok()?;
        found.add(Contract { lhs, rhs, ..new }, &[left, right])
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let [m, n, o, k] = [0; 4].map(|_| dice.number(1, 4));
        let contract = Contract {
            lhs: "mk".to_owned(),
            rhs: "kn".to_owned(),
            result: "mn".to_owned(),
            accumulate: DType::F32,
            dtype: DType::F32,
        };
        let (lhs, rhs) = (instance.input(DType::F32, &[m, k]), instance.parameter(DType::F32, &[k, n * o]));
        let product = instance.op(contract, &[Some(lhs), Some(rhs)]);
        let shape = dice.pick(&[vec![1, m, n * o], vec![m, n, o], vec![1, m, n, o], vec![m, 1, n * o]]);
        instance.op(Reshape { shape: shape.iter().map(|size| DimExpr::constant(*size as i64)).collect() }, &[product]);
        instance
    },
};

/// The dimensions that each dimension of a shape becomes, where none are put together. Ones that stand alone go with a neighbour.
fn splits(from: &[Dim], to: &[Dim]) -> Option<Vec<std::ops::Range<usize>>> {
    let mut parts: Vec<std::ops::Range<usize>> = Vec::new();
    let mut open = 0;
    for (before, after) in groups(from, to)? {
        match before.len() {
            0 => {
                if let Some(last) = parts.last_mut() {
                    last.end = after.end;
                    open = after.end;
                }
            }
            1 if after.len() == 0 => return None,
            1 => {
                parts.push(open..after.end);
                open = after.end;
            }
            _ => return None,
        }
    }
    (parts.len() == from.len() && open == to.len()).then_some(parts)
}
