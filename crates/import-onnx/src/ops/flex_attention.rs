//! FlexAttention: attention whose scores and probabilities go through graphs of the model's own.
//!
//! Source: operator set `ai.onnx.preview`, version 1.

use tenon_graph_dialect::operators::{Contract, Function, Softmax};
use tenon_tensor::DType;

use super::cast::type_attribute;
use super::heads::default_scale;
use crate::error::ImportError;
use crate::graph::Graph;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, accumulator};

/// A value through a graph of one input and one output, which keeps its type.
fn modified(op: &mut OpImport<'_, '_, '_>, graph: Option<&Graph>, x: Handle) -> Result<Handle, ImportError> {
    let Some(graph) = graph else { return Ok(x) };
    if graph.inputs.len() != 1 || graph.outputs.len() != 1 {
        return Err(op.invalid("a graph that modifies scores has one input and one output"));
    }
    let result = op.importer.inner_graph(graph, &[x], &op.node.site)?;
    match result.as_slice() {
        [result] if op.ty(*result) == op.ty(x) => Ok(*result),
        _ => Err(op.invalid("a graph that modifies scores keeps their type and shape")),
    }
}

/// `prob_mod(softmax(score_mod(q kᵀ · scale))) v`.
pub(super) fn flex_attention(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=3)?;
    let (mut query, mut key, value) = (op.input(0)?, op.input(1)?, op.input(2)?);
    if [query, key, value].iter().any(|x| op.rank(*x) != 4) {
        return Err(op.invalid("queries, keys and values have four dimensions"));
    }
    let dtype = op.dtype(query);
    let compute = match type_attribute(op, "softmax_precision")? {
        Some(found) if !found.is_float() || found.bits() < 16 => {
            return Err(op.node.attribute_error("softmax_precision", "f16, bf16, f32 or f64", format!("is {found}")));
        }
        Some(found) => found,
        None if dtype == DType::F64 => DType::F64,
        None => DType::F32,
    };
    let (score_graph, probability_graph) = (op.node.graph("score_mod")?, op.node.graph("prob_mod")?);
    let scale = match op.node.float("scale")? {
        Some(scale) => f64::from(scale),
        None => default_scale(op, query)?,
    };
    let (query_heads, heads) =
        (op.fixed_dim(query, 1, "attention with heads")?, op.fixed_dim(key, 1, "attention with heads")?);
    if heads < 1 || query_heads % heads != 0 {
        return Err(op.invalid(format!("{query_heads} heads of queries for {heads} of keys")));
    }
    // Both factors take the root of the scale, so that narrow floats do not overflow.
    let root = op.scalar(scale.sqrt(), dtype)?;
    for factor in [&mut query, &mut key] {
        *factor = op.apply(Function::Multiply, &[*factor, root])?;
    }
    // Heads of queries that share a head of keys stand next to each other.
    let dims = op.extents(query);
    let (length, keys) = (dims[2].clone(), op.extents(key)[2].clone());
    let apart = vec![dims[0].clone(), heads.into(), (query_heads / heads).into(), length.clone(), dims[3].clone()];
    let query = op.reshape(query, apart.clone())?;
    let mut contract = |labels: [&str; 3], a: Handle, b: Handle, dtype: DType| {
        let [lhs, rhs, result] = labels.map(str::to_owned);
        op.emit(Contract { lhs, rhs, result, accumulate: accumulator(dtype), dtype }, &[a, b])
    };
    let scores = contract(["bhgle", "bhse", "bhgls"], query, key, dtype)?;
    let scores = op.reshape(scores, vec![dims[0].clone(), query_heads.into(), length.clone(), keys.clone()])?;
    let scores = op.cast(scores, compute)?;
    let scores = modified(op, score_graph, scores)?;
    let probabilities = op.emit(Softmax { axis: 3, log: false }, &[scores])?;
    let probabilities = modified(op, probability_graph, probabilities)?;
    let mut split = apart;
    split[4] = keys;
    let probabilities = op.reshape(probabilities, split)?;
    let wide = op.cast(value, compute)?;
    let contract = Contract {
        lhs: "bhgls".to_owned(),
        rhs: "bhse".to_owned(),
        result: "bhgle".to_owned(),
        accumulate: accumulator(compute),
        dtype: compute,
    };
    let result = op.emit(contract, &[probabilities, wide])?;
    let size = op.extents(value)[3].clone();
    let result = op.reshape(result, vec![dims[0].clone(), query_heads.into(), length, size])?;
    Ok(vec![op.cast(result, dtype)?])
}
