//! Products that share an operand as one product, and what follows on all of its parts as one operator.

use egg::Id;
use tenon_graph_dialect::operators::{Concat, Contract, Elementwise, Function, Slice};
use tenon_graph_dialect::{Dim, DimExpr, Operator, TensorType};
use tenon_recipe::NumericClass;
use tenon_tensor::DType;

use super::shapes::aligned;
use crate::proof::{Dice, Instance};
use crate::rule::{Match, Rule};

/// Most products that become one.
const MOST: usize = 16;

/// `size` elements from `start` on along one axis.
fn part(ty: &TensorType, axis: usize, start: u64, size: u64) -> Slice {
    let mut starts = vec![DimExpr::constant(0); ty.rank()];
    let mut sizes: Vec<DimExpr> = ty.dims.iter().map(|dim| dim.extent.clone()).collect();
    starts[axis] = DimExpr::constant(start as i64);
    sizes[axis] = DimExpr::constant(size as i64);
    Slice { starts, sizes, steps: vec![1; ty.rank()] }
}

/// The axis, start and size of a slice that cuts along one axis alone, without steps.
fn cut(slice: &Slice, input: &TensorType) -> Option<(usize, u64, u64)> {
    let whole =
        |axis: usize| slice.starts[axis].as_constant() == Some(0) && slice.sizes[axis] == input.dims[axis].extent;
    let mut cuts = (0..input.rank()).filter(|axis| !whole(*axis));
    let (axis, None) = (cuts.next()?, cuts.next()) else { return None };
    if slice.steps.iter().any(|step| *step != 1) {
        return None;
    }
    let number = |size: &DimExpr| size.as_constant().and_then(|size| u64::try_from(size).ok());
    Some((axis, number(&slice.starts[axis])?, number(&slice.sizes[axis])?))
}

/// The label that the right operand alone brings into the result, where there is one: its place in the operand and in the result.
fn column(contract: &Contract) -> Option<(usize, usize)> {
    let mut own = contract.rhs.chars().filter(|label| !contract.lhs.contains(*label));
    let (label, None) = (own.next()?, own.next()) else { return None };
    Some((contract.rhs.find(label)?, contract.result.find(label)?))
}

pub(super) const MERGE_CONTRACTIONS: Rule = Rule {
    name: "merge-contractions",
    class: NumericClass::Exact,
    about: "Contractions of one value with several weights are parts of one with the weights joined.",
    root: "graph.contract",
    apply: |found| {
        let Operator::Contract(contract) = found.operator()? else { return None };
        let [lhs, rhs] = found.operands_of()?;
        let (axis, place) = column(&contract)?;
        let weight = found.ty(rhs)?;
        if !found.is_parameter(rhs) || found.is_known(lhs) {
            return None;
        }
        let others = |ty: &TensorType| {
            let mut dims = ty.dims.clone();
            dims.remove(axis);
            (ty.dtype, dims)
        };
        let alike = others(&weight);
        // Looking is free; what takes part is named once all are known.
        let mut siblings: Vec<(Id, Id)> = Vec::new();
        for (operand, class) in found.users(lhs, |view, class| match &view.operation.operator {
            Operator::Contract(other) if *other == contract && view.operands[0] == lhs => {
                Some((view.operands[1], class))
            }
            _ => None,
        }) {
            let fits = found.is_parameter(operand) && found.ty(operand).is_some_and(|ty| others(&ty) == alike);
            if fits && !siblings.iter().any(|(known, _)| *known == operand) {
                siblings.push((operand, class));
            }
        }
        siblings.sort_by_key(|(operand, class)| (*class, *operand));
        if siblings.len() < 2 || siblings.len() > MOST {
            return None;
        }
        let mut start = 0;
        let mut own = None;
        for (operand, _) in &siblings {
            let size = found.ty(*operand)?.dims[axis].known()?;
            if *operand == rhs {
                own = Some((start, size));
            }
            start += size;
        }
        let weights: Vec<Id> = siblings.iter().map(|(operand, _)| *operand).collect();
        let joined = found.add(Concat { axis: axis as i64 }, &weights)?;
        if !found.is_known(joined) {
            return None;
        }
        let product = found.add(contract, &[lhs, joined])?;
        let (start, size) = own?;
        let slice = part(&found.ty(product)?, place, start, size);
        found.alone();
        found.add(slice, &[product])
    },
    instance: |dice| siblings(dice).0,
};

/// Products of one value with several weights.
fn siblings(dice: &mut Dice) -> (Instance, Vec<Option<Id>>) {
    let mut instance = Instance::new();
    let dtype = dice.pick(&[DType::F32, DType::F16, DType::F64]);
    let [b, m, k] = [0; 3].map(|_| dice.number(1, 4));
    let contract = Contract {
        lhs: "bmk".to_owned(),
        rhs: "kn".to_owned(),
        result: dice.pick(&["bmn", "bnm", "nbm"]).to_owned(),
        accumulate: if dtype == DType::F64 { DType::F64 } else { DType::F32 },
        dtype,
    };
    let x = instance.input(dtype, &[b, m, k]);
    let products = (0..dice.number(2, 4))
        .map(|_| {
            let weight = instance.parameter(dtype, &[k, dice.number(1, 5)]);
            instance.op(contract.clone(), &[Some(x), Some(weight)])
        })
        .collect();
    (instance, products)
}

/// The slice that a value is, and what of.
fn slice_of(found: &mut Match<'_>, id: Id) -> Option<(Slice, Id)> {
    found.find(id, |view| match &view.operation.operator {
        Operator::Slice(slice) => Some((slice.clone(), view.operands[0])),
        _ => None,
    })
}

pub(super) const MERGE_ELEMENTWISE: Rule = Rule {
    name: "merge-elementwise",
    class: NumericClass::Exact,
    about: "A scalar function of every part of a value and a weight each is the parts of the function of the value and the weights joined.",
    root: "graph.elementwise",
    apply: |found| {
        let Operator::Elementwise(elementwise) = found.operator()? else { return None };
        let operands = found.operands_of::<2>()?;
        let side = operands.iter().position(|id| !found.is_known(*id))?;
        let (sliced, own) = (operands[side], operands[1 - side]);
        // Of a commutative function each part may stand on either side.
        let commutes =
            matches!(elementwise.function, Function::Add | Function::Multiply | Function::Max | Function::Min);
        if !found.is_known(own) {
            return None;
        }
        let (slice, whole) = slice_of(found, sliced)?;
        let ty = found.ty(whole)?;
        let (axis, start, size) = cut(&slice, &ty)?;
        // The parts of the whole, in order, each with the weight that it is combined with.
        let mut parts: Vec<(u64, u64, Id)> = found.users(whole, |view, class| match &view.operation.operator {
            Operator::Slice(slice) => {
                let (own, start, size) = cut(slice, &ty)?;
                (own == axis).then_some((start, size, class))
            }
            _ => None,
        });
        parts.sort_unstable();
        parts.dedup();
        let mut weights = Vec::new();
        let mut end = 0;
        for (start, size, class) in &parts {
            if *start != end {
                return None;
            }
            end += size;
            let mut others = found.users(*class, |view, _| match &view.operation.operator {
                Operator::Elementwise(other) if *other == elementwise => {
                    let is_read = |at: &usize| view.operands[*at] == *class && (*at == side || commutes);
                    (0..2).find(is_read).map(|at| view.operands[1 - at])
                }
                _ => None,
            });
            others.retain(|other| found.is_known(*other));
            let weight = if *class == sliced { own } else { *others.first()? };
            weights.push(spread(found, weight, &ty, axis, *size)?);
        }
        if ty.dims[axis].known() != Some(end) || weights.len() < 2 {
            return None;
        }
        let rest = |found: &Match<'_>, id: Id| {
            let mut dims = found.ty(id).map(|ty| ty.dims).unwrap_or_default();
            dims.remove(axis);
            dims
        };
        let first = rest(found, weights[0]);
        if weights.iter().any(|weight| rest(found, *weight) != first) {
            return None;
        }
        let joined = found.add(Concat { axis: axis as i64 }, &weights)?;
        let mut operands = [whole; 2];
        // One order, so that all parts are of one value.
        operands[if commutes { 1 } else { 1 - side }] = joined;
        let combined = found.add(elementwise, &operands)?;
        if !found.is_known(joined) || found.ty(combined)?.dims != ty.dims {
            return None;
        }
        let slice = part(&found.ty(combined)?, axis, start, size);
        found.alone();
        found.add(slice, &[combined])
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let dtype = dice.float();
        let (rows, mut start) = (dice.number(1, 3), 0);
        let sizes: Vec<u64> = (0..dice.number(2, 4)).map(|_| dice.number(1, 4)).collect();
        let whole = instance.input(dtype, &[rows, sizes.iter().sum(), 2]);
        let function = dice.pick(&[Function::Add, Function::Multiply, Function::Subtract]);
        let mut swap = dice.number(0, 1) == 0;
        let weight_rows = dice.pick(&[1, rows]);
        for size in sizes {
            let slice = Slice {
                starts: [0, start, 0].map(|start| DimExpr::constant(start as i64)).to_vec(),
                sizes: [rows, size, 2].map(|size| DimExpr::constant(size as i64)).to_vec(),
                steps: vec![1; 3],
            };
            start += size;
            let slice = instance.op(slice, &[Some(whole)]);
            let weight = Some(instance.parameter(dtype, &[weight_rows, size, 1]));
            if function != Function::Subtract {
                swap = dice.number(0, 1) == 0;
            }
            let operands = if swap { [weight, slice] } else { [slice, weight] };
            instance.op(Elementwise { function }, &operands);
        }
        instance
    },
};

/// A weight with all dimensions and `size` elements along an axis, so that it can be joined to others.
fn spread(found: &mut Match<'_>, weight: Id, whole: &TensorType, axis: usize, size: u64) -> Option<Id> {
    let mut dims = aligned(&found.ty(weight)?, whole.rank())?;
    let weight = found.reshape(weight, &dims)?;
    if dims[axis].known() == Some(size) {
        return Some(weight);
    }
    dims[axis] = Dim::fixed(size);
    let shape = dims.iter().map(|dim| dim.extent.clone()).collect();
    found.add(tenon_graph_dialect::operators::Broadcast { shape }, &[weight])
}
