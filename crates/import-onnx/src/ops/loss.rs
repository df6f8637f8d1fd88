//! Losses of classification: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Gather, GatherKind, ReduceKind, Softmax};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// How the losses of the places become the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduction {
    None,
    Mean,
    Sum,
}

/// The type that losses are computed in: sums and quotients of narrow floats would be rounded at every step.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// NegativeLogLikelihoodLoss: input `[N, C, d…]`, classes `[N, d…]`, weights of classes `[C]`.
pub(super) fn negative_log_likelihood(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=3)?;
    let x = op.input(0)?;
    let dtype = op.dtype(x);
    let x = op.cast(x, wide(dtype))?;
    let loss = loss(op, x)?;
    Ok(vec![op.cast(loss, dtype)?])
}

/// SoftmaxCrossEntropyLoss: the same of the logarithm of the softmax over the classes, which is the second output.
pub(super) fn softmax_cross_entropy(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=3)?;
    let scores = op.input(0)?;
    let dtype = op.dtype(scores);
    op.rank_at_least(scores, 2)?;
    let scores = op.cast(scores, wide(dtype))?;
    let logarithms = op.emit(Softmax { axis: 1, log: true }, &[scores])?;
    let loss = loss(op, logarithms)?;
    Ok(vec![op.cast(loss, dtype)?, op.cast(logarithms, dtype)?])
}

/// The loss of logarithms of probabilities, with the classes and weights that are the node's inputs 1 and 2. Places of the class
/// `ignore_index` have neither loss nor weight; the mean is over weights.
fn loss(op: &mut OpImport<'_, '_, '_>, x: Handle) -> Result<Handle, ImportError> {
    let reduction = match op.node.string_or("reduction", "mean")? {
        "none" => Reduction::None,
        "mean" => Reduction::Mean,
        "sum" => Reduction::Sum,
        other => return Err(op.node.attribute_error("reduction", "none, mean or sum", format!("is {other:?}"))),
    };
    let ignored_class = op.node.int("ignore_index")?;
    let rank = op.rank_at_least(x, 2)?;
    let dtype = op.dtype(x);
    let classes = op.input(1)?;
    if !op.dtype(classes).is_integer() || op.rank(classes) != rank - 1 {
        return Err(op.invalid(format!("the classes, {}, do not fit {}", op.ty(classes), op.ty(x))));
    }
    let classes = op.cast(classes, DType::I64)?;
    let zero = op.scalar(0.0, dtype)?;
    let mut places = classes;
    let mut ignored = None;
    if let Some(class) = ignored_class {
        let class = op.integers(&[class])?;
        let class = op.as_scalar(class)?;
        let hit = op.apply(Function::Equal, &[classes, class])?;
        let first = op.scalar(0.0, DType::I64)?;
        // An ignored class need not be one that the input has.
        places = op.apply(Function::Select, &[hit, first, classes])?;
        ignored = Some(hit);
    }

    let shape = op.extents(classes);
    let mut with_class = shape.clone();
    with_class.insert(1, DimExpr::constant(1));
    let picked = op.reshape(places, with_class)?;
    let picked = op.emit(Gather { kind: GatherKind::Elements, axis: 1, batch_dims: 0 }, &[x, picked])?;
    let picked = op.reshape(picked, shape.clone())?;
    let mut losses = op.apply(Function::Negate, &[picked])?;
    let mut weights = match op.optional(2)? {
        Some(weights) => {
            if op.rank(weights) != 1 || op.dim(weights, 0).differs(op.dim(x, 1)) {
                return Err(op.invalid(format!("the weights, {}, do not fit {}", op.ty(weights), op.ty(x))));
            }
            let weights = op.cast(weights, dtype)?;
            Some(op.emit(Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, &[weights, places])?)
        }
        None => None,
    };
    if let Some(weights) = weights {
        losses = op.apply(Function::Multiply, &[losses, weights])?;
    }
    if let Some(ignored) = ignored {
        losses = op.apply(Function::Select, &[ignored, zero, losses])?;
        let one = op.scalar(1.0, dtype)?;
        weights = Some(op.apply(Function::Select, &[ignored, zero, weights.unwrap_or(one)])?);
    }
    let axes: Vec<usize> = (0..shape.len()).collect();
    match (reduction, weights) {
        (Reduction::None, _) => Ok(losses),
        (Reduction::Sum, _) => op.reduce(ReduceKind::Sum, losses, &axes, false),
        (Reduction::Mean, None) => op.reduce(ReduceKind::Mean, losses, &axes, false),
        (Reduction::Mean, Some(weights)) => {
            let total = op.reduce(ReduceKind::Sum, losses, &axes, false)?;
            let weight = op.reduce(ReduceKind::Sum, weights, &axes, false)?;
            op.apply(Function::Divide, &[total, weight])
        }
    }
}
