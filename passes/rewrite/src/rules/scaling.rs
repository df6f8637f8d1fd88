//! Factors behind convolutions and contractions, as factors of their weights.

use tenon_graph_dialect::operators::{Contract, Convolution, Elementwise, Function};
use tenon_graph_dialect::{Dim, Operator};
use tenon_recipe::NumericClass;
use tenon_tensor::DType;

use super::algebra::{is, with_known};
use super::shapes::aligned;
use crate::proof::Instance;
use crate::rule::Rule;

pub(super) const INTO_CONVOLUTION: Rule = Rule {
    name: "scale-into-convolution",
    class: NumericClass::Reassociates,
    about: "A convolution times a known factor of each channel is one with its known weights scaled.",
    root: "graph.elementwise",
    apply: |found| {
        is(found, Function::Multiply)?;
        let (product, factor) = with_known(found, &found.operands())?;
        let (convolution, operands) = found.find(product, |view| match &view.operation.operator {
            Operator::Convolution(convolution) if !convolution.transposed => {
                Some((convolution.clone(), view.operands.clone()))
            }
            _ => None,
        })?;
        let [x, weight] = <[_; 2]>::try_from(operands).ok()?;
        let (result, ty) = (found.result()?, found.ty(factor)?);
        if !found.is_known(weight) || found.ty(weight)?.dtype != ty.dtype || found.ty(product)? != result {
            return None;
        }
        let dims = aligned(&ty, result.rank())?;
        if dims.iter().enumerate().any(|(axis, dim)| axis != 1 && !dim.is_one()) {
            return None;
        }
        let mut shape = vec![Dim::fixed(1); result.rank()];
        shape[0] = dims[1].clone();
        let factor = found.reshape(factor, &shape)?;
        let scaled = found.function(Function::Multiply, &[weight, factor])?;
        found.add(convolution, &[x, scaled])
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let groups = dice.number(1, 2);
        let (channels, outputs) = (groups * dice.number(1, 3), groups * dice.number(1, 3));
        let x = instance.input(DType::F32, &[1, channels, 5, 5]);
        let weight = instance.parameter(DType::F32, &[outputs, channels / groups, 3, 3]);
        let convolution = Convolution {
            accumulate: DType::F32,
            dtype: DType::F32,
            strides: vec![1, 2],
            dilations: vec![1, 1],
            pad_begin: vec![1, 0],
            pad_end: vec![1, 0],
            groups: groups as i64,
            transposed: false,
            output_padding: vec![0, 0],
        };
        let product = instance.op(convolution, &[Some(x), Some(weight)]);
        let factor = dice.pick(&[vec![1, outputs, 1, 1], vec![outputs, 1, 1], vec![1], vec![]]);
        let factor = instance.parameter(DType::F32, &factor);
        instance.op(Elementwise { function: Function::Multiply }, &[product, Some(factor)]);
        instance
    },
};

pub(super) const INTO_CONTRACTION: Rule = Rule {
    name: "scale-into-contraction",
    class: NumericClass::Reassociates,
    about: "A contraction with a weight, times a known factor along dimensions of the weight, is one with the weight scaled.",
    root: "graph.elementwise",
    apply: |found| {
        is(found, Function::Multiply)?;
        let (product, factor) = with_known(found, &found.operands())?;
        let (contract, operands) = found.find(product, |view| match &view.operation.operator {
            Operator::Contract(contract) => Some((contract.clone(), view.operands.clone())),
            _ => None,
        })?;
        let [x, weight] = <[_; 2]>::try_from(operands).ok()?;
        let (result, ty) = (found.result()?, found.ty(factor)?);
        if !found.is_known(weight) || found.ty(weight)?.dtype != ty.dtype || found.ty(product)? != result {
            return None;
        }
        let dims = aligned(&ty, result.rank())?;
        // The factor's dimensions, in the order of the weight's labels.
        let mut places = Vec::new();
        let mut shape = vec![Dim::fixed(1); found.ty(weight)?.rank()];
        for (label, dim) in contract.result.chars().zip(dims) {
            if !dim.is_one() {
                let place = contract.rhs.find(label).filter(|_| !contract.lhs.contains(label))?;
                shape[place] = dim;
                places.push(place);
            }
        }
        if !places.is_sorted() {
            return None;
        }
        let factor = found.reshape(factor, &shape)?;
        let scaled = found.function(Function::Multiply, &[weight, factor])?;
        found.add(contract, &[x, scaled])
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let [m, k, n] = [0; 3].map(|_| dice.number(1, 5));
        let transposed = dice.number(0, 1) == 0;
        let contract = Contract {
            lhs: "mk".to_owned(),
            rhs: if transposed { "nk" } else { "kn" }.to_owned(),
            result: "mn".to_owned(),
            accumulate: DType::F32,
            dtype: DType::F32,
        };
        let x = instance.input(DType::F32, &[m, k]);
        let weight = instance.parameter(DType::F32, &if transposed { [n, k] } else { [k, n] });
        let product = instance.op(contract, &[Some(x), Some(weight)]);
        let factor = dice.pick(&[vec![n], vec![1, n], vec![], vec![1]]);
        let factor = instance.parameter(DType::F32, &factor);
        instance.op(Elementwise { function: Function::Multiply }, &[Some(factor), product]);
        instance
    },
};
