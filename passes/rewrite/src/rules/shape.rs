//! Reshapes and transposes: composed, removed, moved towards what they read.

use tenon_graph_dialect::operators::{Cast, Dequantize, Elementwise, Function, Quantize, Reshape, Transpose};
use tenon_graph_dialect::{Dim, DimExpr, Operator};
use tenon_recipe::NumericClass;
use tenon_tensor::DType;

use super::shapes::{aligned, operand_dims};
use crate::proof::{Dice, Instance};
use crate::rule::{Match, Rule};
use egg::Id;

const RESHAPE: &str = "graph.reshape";
const TRANSPOSE: &str = "graph.transpose";

fn permutation(operator: Option<Operator>) -> Option<Vec<usize>> {
    match operator? {
        Operator::Transpose(transpose) => transpose.permutation.iter().map(|dim| usize::try_from(*dim).ok()).collect(),
        _ => None,
    }
}

fn sizes(shape: &[u64]) -> Vec<DimExpr> {
    shape.iter().map(|size| DimExpr::constant(*size as i64)).collect()
}

/// A random shape and the same elements under another one.
pub(super) fn two_shapes(dice: &mut Dice) -> (Vec<u64>, Vec<u64>) {
    let fine = dice.shape(4);
    let mut merge = || -> Vec<u64> {
        let mut shape = vec![fine[0]];
        for size in &fine[1..] {
            match shape.last_mut() {
                Some(last) if dice.number(0, 1) == 0 => *last *= size,
                _ => shape.push(*size),
            }
        }
        if dice.number(0, 2) == 0 {
            shape.insert(0, 1);
        }
        shape
    };
    (merge(), merge())
}

pub(super) const TRANSPOSE_OF_TRANSPOSE: Rule = Rule {
    name: "transpose-of-transpose",
    class: NumericClass::Exact,
    about: "A transpose of a transpose is one transpose.",
    root: TRANSPOSE,
    apply: |found| {
        let outer = permutation(found.operator())?;
        let [operand] = found.operands_of()?;
        let (inner, input) = found
            .find(operand, |view| Some((permutation(Some(view.operation.operator.clone()))?, view.operands[0])))?;
        let permutation = outer.iter().map(|dim| inner.get(*dim).map(|dim| *dim as i64)).collect::<Option<Vec<_>>>()?;
        found.add(Transpose { permutation }, &[input])
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let (dtype, shape) = (dice.float(), dice.shape(3));
        let x = instance.input(dtype, &shape);
        let inner = instance.op(Transpose { permutation: dice.permutation(3) }, &[Some(x)]);
        instance.op(Transpose { permutation: dice.permutation(3) }, &[inner]);
        instance
    },
};

pub(super) const RESHAPE_OF_RESHAPE: Rule = Rule {
    name: "reshape-of-reshape",
    class: NumericClass::Exact,
    about: "A reshape of a reshape is one reshape.",
    root: RESHAPE,
    apply: |found| {
        let Operator::Reshape(reshape) = found.operator()? else { return None };
        let [operand] = found.operands_of()?;
        let input = found
            .find(operand, |view| matches!(view.operation.operator, Operator::Reshape(_)).then(|| view.operands[0]))?;
        let result = found.result()?;
        // A reshape whose result an expression alone tells may say less than the two did.
        let same = Reshape { shape: reshape.shape.clone() };
        let types = found.ty(input)?;
        let inferred = tenon_graph_dialect::OperatorKind::infer(&same, &[types]).ok()?;
        (inferred == [result]).then(|| found.add(same, &[input])).flatten()
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let (first, second) = two_shapes(dice);
        let x = instance.input(dice.float(), &first);
        let inner = instance.op(Reshape { shape: sizes(&second) }, &[Some(x)]);
        instance.op(Reshape { shape: sizes(&[first.iter().product()]) }, &[inner]);
        instance
    },
};

pub(super) const NO_RESHAPE: Rule = Rule {
    name: "no-reshape",
    class: NumericClass::Exact,
    about: "A reshape to the shape that its operand has is its operand.",
    root: RESHAPE,
    apply: same_type,
    instance: |dice| {
        let mut instance = Instance::new();
        let shape = dice.shape(3);
        let x = instance.input(dice.float(), &shape);
        instance.op(Reshape { shape: sizes(&shape) }, &[Some(x)]);
        instance
    },
};

fn same_type(found: &mut Match<'_>) -> Option<Id> {
    let [operand] = found.operands_of()?;
    (found.ty(operand) == found.result()).then_some(operand)
}

pub(super) const NO_TRANSPOSE: Rule = Rule {
    name: "no-transpose",
    class: NumericClass::Exact,
    about: "A transpose that keeps the order of dimensions is its operand.",
    root: TRANSPOSE,
    apply: |found| {
        let permutation = permutation(found.operator())?;
        let [operand] = found.operands_of()?;
        permutation.is_sorted().then_some(operand)
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let x = instance.input(dice.float(), &dice.shape(2));
        instance.op(Transpose { permutation: dice.permutation(2) }, &[Some(x)]);
        instance
    },
};

pub(super) const TRANSPOSE_AS_RESHAPE: Rule = Rule {
    name: "transpose-as-reshape",
    class: NumericClass::Exact,
    about: "A transpose that moves nothing but dimensions of one element is a reshape.",
    root: TRANSPOSE,
    apply: |found| {
        let permutation = permutation(found.operator())?;
        let [operand] = found.operands_of()?;
        let input = found.ty(operand)?;
        let moved: Vec<usize> = permutation.into_iter().filter(|dim| !input.dims[*dim].is_one()).collect();
        if !moved.is_sorted() {
            return None;
        }
        let result = found.result()?;
        found.reshape(operand, &result.dims)
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let mut shape = dice.shape(3);
        shape[dice.number(0, 2) as usize] = 1;
        let x = instance.input(dice.float(), &shape);
        instance.op(Transpose { permutation: dice.permutation(3) }, &[Some(x)]);
        instance
    },
};

/// Operators that are applied to each element; quantising and its inverse are where one scale is for all.
fn pointwise(operator: &Operator) -> bool {
    match operator {
        Operator::Elementwise(_) | Operator::Cast(_) => true,
        Operator::Quantize(quantize) => quantize.block_size == 0,
        Operator::Dequantize(dequantize) => dequantize.block_size == 0,
        _ => false,
    }
}

/// The operands of a scalar function, unless they are scales along an axis.
fn of_each_element(found: &Match<'_>, operator: &Operator, operands: &[Id]) -> Option<()> {
    if matches!(operator, Operator::Quantize(_) | Operator::Dequantize(_)) {
        let is_one = |id: &Id| found.ty(*id).is_some_and(|ty| ty.dims.iter().all(Dim::is_one));
        return operands[1..].iter().all(is_one).then_some(());
    }
    Some(())
}

pub(super) const RESHAPE_OF_ELEMENTWISE: Rule = Rule {
    name: "reshape-of-elementwise",
    class: NumericClass::Exact,
    about: "A reshape of a scalar function, or of quantising by one scale, is the function of reshapes, where every operand spans whole runs of dimensions.",
    root: RESHAPE,
    apply: |found| {
        let [operand] = found.operands_of()?;
        let (from, to) = (found.ty(operand)?.dims, found.result()?.dims);
        let (operator, operands) = found.find(operand, |view| {
            pointwise(&view.operation.operator).then(|| (view.operation.operator.clone(), view.operands.clone()))
        })?;
        of_each_element(found, &operator, &operands)?;
        let mut moved = Vec::with_capacity(operands.len());
        for operand in operands {
            let dims = operand_dims(&found.ty(operand)?, &from, &to)?;
            moved.push(found.reshape(operand, &dims)?);
        }
        keep_type(found, operator, &moved)
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let dtype = dice.float();
        let (first, second) = two_shapes(dice);
        let x = instance.input(dtype, &first);
        let y = instance.parameter(dtype, &first[dice.number(0, first.len() as u64) as usize..]);
        let sum = instance.op(Elementwise { function: Function::Add }, &[Some(x), Some(y)]);
        let cast = instance.op(Cast { dtype: DType::F32, saturate: false }, &[sum]);
        let quantized = quantized(dice, &mut instance, sum);
        let inner = dice.pick(&[sum, cast, quantized[0], quantized[1]]);
        instance.op(Reshape { shape: sizes(&second) }, &[inner]);
        instance
    },
};

/// The operator on other operands, where it gives the type of what was matched.
fn keep_type(found: &mut Match<'_>, operator: Operator, operands: &[Id]) -> Option<Id> {
    let types = operands.iter().map(|id| found.ty(*id)).collect::<Option<Vec<_>>>()?;
    let results = operator.infer(&types).ok()?;
    (results == [found.result()?]).then(|| found.add(operator, operands)).flatten()
}

pub(super) const TRANSPOSE_OF_ELEMENTWISE: Rule = Rule {
    name: "transpose-of-elementwise",
    class: NumericClass::Exact,
    about: "A transpose of a scalar function, or of quantising by one scale, is the function of transposes.",
    root: TRANSPOSE,
    apply: |found| {
        let order = permutation(found.operator())?;
        let [operand] = found.operands_of()?;
        let (operator, operands) = found.find(operand, |view| {
            pointwise(&view.operation.operator).then(|| (view.operation.operator.clone(), view.operands.clone()))
        })?;
        of_each_element(found, &operator, &operands)?;
        let mut moved = Vec::with_capacity(operands.len());
        for operand in operands {
            let ty = found.ty(operand)?;
            if ty.dims.iter().all(Dim::is_one) {
                moved.push(if ty.rank() == 0 { operand } else { found.reshape(operand, &[])? });
                continue;
            }
            let aligned = aligned(&ty, order.len())?;
            let operand = found.reshape(operand, &aligned)?;
            moved
                .push(found.add(Transpose { permutation: order.iter().map(|dim| *dim as i64).collect() }, &[operand])?);
        }
        keep_type(found, operator, &moved)
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let dtype = dice.float();
        let shape = dice.shape(3);
        let x = instance.input(dtype, &shape);
        let y = instance.parameter(dtype, &shape[dice.number(0, 3) as usize..]);
        let product = instance.op(Elementwise { function: Function::Multiply }, &[Some(x), Some(y)]);
        let quantized = quantized(dice, &mut instance, product);
        let inner = dice.pick(&[product, quantized[0], quantized[1]]);
        instance.op(Transpose { permutation: dice.permutation(3) }, &[inner]);
        instance
    },
};

/// A value quantised, and that brought back: by one scale, or by those of an axis, which do not move.
fn quantized(dice: &mut Dice, instance: &mut Instance, value: Option<Id>) -> [Option<Id>; 2] {
    let size = dice.pick(&[vec![], vec![1], vec![3]]);
    let (scale, zero) = (instance.parameter(DType::F32, &size), instance.parameter(DType::I8, &size));
    let parameters = [Some(scale), Some(zero)];
    let value = instance.op(Cast { dtype: DType::F32, saturate: false }, &[value]);
    let narrow =
        instance.op(Quantize { dtype: DType::I8, axis: 1, block_size: 0 }, &[value, parameters[0], parameters[1]]);
    let wide =
        instance.op(Dequantize { dtype: DType::F32, axis: 1, block_size: 0 }, &[narrow, parameters[0], parameters[1]]);
    [narrow, wide]
}
