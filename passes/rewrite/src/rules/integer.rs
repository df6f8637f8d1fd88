//! Products of dequantised values as products of integers.

use egg::Id;
use tenon_graph_dialect::operators::{Cast, Contract, Dequantize, Elementwise, Function, Reduce, ReduceKind};
use tenon_graph_dialect::{Dim, Operator};
use tenon_recipe::NumericClass;
use tenon_tensor::DType;

use super::shapes::aligned;
use crate::proof::{Dice, Instance};
use crate::rule::{Match, Rule};

/// Most terms of a sum of products of differences of bytes, each of at most 255, that stays within i32.
const MOST_TERMS: u64 = (1 << 31) / (255 * 255);

fn is_byte(dtype: DType) -> bool {
    matches!(dtype, DType::I8 | DType::U8)
}

/// Bytes that one scale and zero point are for: the bytes, the scale and the zero point.
fn dequantized(found: &mut Match<'_>, id: Id) -> Option<[Id; 3]> {
    let operands = found.find(id, |view| match &view.operation.operator {
        Operator::Dequantize(dequantize) if dequantize.block_size == 0 && dequantize.dtype == DType::F32 => {
            Some(view.operands.clone())
        }
        _ => None,
    })?;
    let [bytes, scale, zero] = <[Id; 3]>::try_from(operands).ok()?;
    let (value, scale_type) = (found.ty(bytes)?, found.ty(scale)?);
    let one = scale_type.dims.iter().all(Dim::is_one) && scale_type.dtype == DType::F32;
    (is_byte(value.dtype) && one).then_some([bytes, scale, zero])
}

/// A weight of bytes times scales: the bytes, and the scales.
fn scaled(found: &mut Match<'_>, id: Id) -> Option<[Id; 2]> {
    let operands = found.find(id, |view| match &view.operation.operator {
        Operator::Elementwise(Elementwise { function: Function::Multiply }) => Some(view.operands.clone()),
        _ => None,
    })?;
    let [a, b] = <[Id; 2]>::try_from(operands).ok()?;
    [(a, b), (b, a)].into_iter().find_map(|(wide, scale)| {
        let cast = found.find(wide, |view| match &view.operation.operator {
            Operator::Cast(Cast { dtype: DType::F32, .. }) => Some(view.operands[0]),
            _ => None,
        })?;
        let fits = is_byte(found.ty(cast)?.dtype) && found.is_known(cast) && found.is_known(scale);
        // The bytes span the weight.
        (fits && found.ty(cast)?.dims == found.ty(id)?.dims).then_some([cast, scale])
    })
}

/// A value with dimensions named by `labels`, which are those of `result` or 1, in the order of `result`.
fn along(found: &mut Match<'_>, id: Id, labels: &str, result: &str) -> Option<Id> {
    let dims = aligned(&found.ty(id)?, labels.chars().count())?;
    let mut places = Vec::new();
    let mut shape = vec![Dim::fixed(1); result.chars().count()];
    for (label, dim) in labels.chars().zip(dims) {
        if !dim.is_one() {
            let place = result.find(label)?;
            shape[place] = dim;
            places.push(place);
        }
    }
    if !places.is_sorted() {
        return None;
    }
    found.reshape(id, &shape)
}

pub(super) const INTEGER_PRODUCT: Rule = Rule {
    name: "integer-product",
    class: NumericClass::Reassociates,
    about: "A contraction of a dequantised value with bytes times scales is one of bytes in i32, less what the zero point adds, times the scales.",
    root: "graph.contract",
    apply: |found| {
        let Operator::Contract(contract) = found.operator()? else { return None };
        if contract.dtype != DType::F32 || contract.accumulate != DType::F32 {
            return None;
        }
        let operands = found.operands_of::<2>()?;
        let labels = [contract.lhs.clone(), contract.rhs.clone()];
        (0..2).find_map(|weight| {
            let value = 1 - weight;
            let [bytes, scale, zero] = dequantized(found, operands[value])?;
            let [weights, scales] = scaled(found, operands[weight])?;
            let ty = found.ty(weights)?;
            let summed: Vec<i64> = (0..ty.rank() as i64)
                .filter(|axis| {
                    labels[weight].chars().nth(*axis as usize).is_some_and(|label| !contract.result.contains(label))
                })
                .collect();
            let terms =
                summed.iter().try_fold(1u64, |terms, axis| terms.checked_mul(ty.dims[*axis as usize].capacity?));
            if terms? > MOST_TERMS {
                return None;
            }
            let scales = along(found, scales, &labels[weight], &contract.result)?;
            let scale = found.reshape(scale, &[])?;
            let mut pair = [bytes; 2];
            pair[weight] = weights;
            let integers = Contract { accumulate: DType::I32, dtype: DType::I32, ..contract.clone() };
            let total = found.add(integers, &pair)?;
            let wide = Cast { dtype: DType::I32, saturate: false };
            let wide_weights = found.add(wide.clone(), &[weights])?;
            let sums = found.add(Reduce { kind: ReduceKind::Sum, axes: summed, keep_dims: true }, &[wide_weights])?;
            let sums = along(found, sums, &labels[weight], &contract.result)?;
            let zero = found.reshape(zero, &[])?;
            let zero = found.add(wide, &[zero])?;
            let excess = found.function(Function::Multiply, &[sums, zero])?;
            let centred = found.function(Function::Subtract, &[total, excess])?;
            let centred = found.add(Cast { dtype: DType::F32, saturate: false }, &[centred])?;
            let factor = found.function(Function::Multiply, &[scales, scale])?;
            found.function(Function::Multiply, &[centred, factor])
        })
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let [b, m, k, n] = [0; 4].map(|_| dice.number(1, 5));
        let dtype = dice.pick(&[DType::I8, DType::U8]);
        let x = instance.input(dtype, &[b, m, k]);
        let shape = dice.pick(&[vec![], vec![1]]);
        let (scale, zero) = (instance.parameter(DType::F32, &shape), instance.parameter(dtype, &shape));
        let value =
            instance.op(Dequantize { dtype: DType::F32, axis: 0, block_size: 0 }, &[Some(x), Some(scale), Some(zero)]);
        let (labels, shape, scales) = dice.pick(&[
            ("kn", vec![k, n], vec![n]),
            ("nk", vec![n, k], vec![n, 1]),
            ("kn", vec![k, n], vec![]),
            ("kn", vec![k, n], vec![k, 1]),
        ]);
        let weight = weight(dice, &mut instance, &shape, &scales);
        let result = dice.pick(&["bmn", "bnm"]);
        let contract = |lhs: &str, rhs: &str| Contract {
            lhs: lhs.to_owned(),
            rhs: rhs.to_owned(),
            result: result.to_owned(),
            accumulate: DType::F32,
            dtype: DType::F32,
        };
        if dice.number(0, 2) == 0 {
            instance.op(contract(labels, "bmk"), &[weight, value]);
        } else {
            instance.op(contract("bmk", labels), &[value, weight]);
        }
        instance
    },
};

/// A weight of bytes times scales.
fn weight(dice: &mut Dice, instance: &mut Instance, shape: &[u64], scales: &[u64]) -> Option<Id> {
    let bytes = instance.parameter(dice.pick(&[DType::I8, DType::I8, DType::U8]), shape);
    let scales = instance.parameter(DType::F32, scales);
    let wide = instance.op(Cast { dtype: DType::F32, saturate: false }, &[Some(bytes)]);
    instance.op(Elementwise { function: Function::Multiply }, &[wide, Some(scales)])
}
