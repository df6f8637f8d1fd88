//! CausalConvWithState: a depthwise convolution over time that sees the past alone.

use tenon_graph_dialect::operators::{Concat, Convolution, Function};
use tenon_tensor::DType;

use crate::import::node::{OpImport, Outputs, accumulator};

/// The result and the last elements of the sequence, which the next call takes as its past.
pub(super) fn causal_conv_with_state(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=4)?;
    let (x, weight) = (op.input(0)?, op.input(1)?);
    if op.rank(x) != 3 || op.rank(weight) != 3 {
        return Err(op.invalid("input and weight must be of rank 3"));
    }
    let activation = match op.node.string_or("activation", "none")? {
        "none" => false,
        "silu" | "swish" => true,
        other => return Err(op.node.attribute_error("activation", "none, silu or swish", format!("is {other:?}"))),
    };
    let dtype = op.dtype(x);
    let channels = op.fixed_dim(x, 1, "a convolution")?;
    let past = op.fixed_dim(weight, 2, "a convolution")? - 1;
    if past < 0 {
        return Err(op.invalid("the kernel is empty"));
    }
    let dims = op.extents(x);
    let state = match op.optional(3)? {
        Some(state) => state,
        None => {
            let zero = op.scalar(0.0, dtype)?;
            op.broadcast(zero, vec![dims[0].clone(), dims[1].clone(), past.into()])?
        }
    };
    let whole = if past == 0 { x } else { op.emit(Concat { axis: 2 }, &[state, x])? };
    let convolution = Convolution {
        accumulate: accumulator(dtype),
        dtype,
        strides: vec![1],
        dilations: vec![1],
        pad_begin: vec![0],
        pad_end: vec![0],
        groups: channels,
        transposed: false,
        output_padding: vec![0],
    };
    let mut result = op.emit(convolution, &[whole, weight])?;
    if let Some(bias) = op.optional(2)? {
        let bias = op.along_axis(bias, 1, 3)?;
        result = op.apply(Function::Add, &[result, bias])?;
    }
    if activation {
        let wide = op.cast(result, if dtype == DType::F64 { DType::F64 } else { DType::F32 })?;
        let gate = op.apply(Function::Sigmoid, &[wide])?;
        let gated = op.apply(Function::Multiply, &[wide, gate])?;
        result = op.cast(gated, dtype)?;
    }
    let present = op.slice(whole, 2, dims[2].clone(), past.into())?;
    Ok(vec![result, present])
}
