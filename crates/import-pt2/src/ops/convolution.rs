//! Convolutions of any rank.

use tenon_graph_builder::{Handle, accumulator};
use tenon_graph_dialect::operators::{Convolution, Function, Pad, PadMode};

use crate::error::OpError;
use crate::import::op::{OpImport, Results, one};

/// A bias of one number a channel.
fn add_bias(op: &mut OpImport<'_, '_, '_>, result: Handle, bias: Option<Handle>) -> Result<Handle, OpError> {
    let Some(bias) = bias else { return Ok(result) };
    let mut shape = op.extents(bias);
    shape.resize(op.rank(result) - 1, 1.into());
    let bias = op.reshape(bias, shape)?;
    Ok(op.apply(Function::Add, &[result, bias])?)
}

/// conv1d to conv3d, their transposes, and `convolution`. An operand without batch gets one of 1.
pub(super) fn convolution(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (mut x, weight) = (op.tensor("input")?, op.tensor("weight")?);
    let bias = op.optional_tensor("bias")?;
    let rank = op.rank(weight);
    if rank < 3 {
        return Err(op.invalid(format!("the weight {} has no spatial dimension", op.ty(weight))));
    }
    let spatial = rank - 2;
    let without_batch = op.rank(x) + 1 == rank;
    if without_batch {
        let shape = [1.into()].into_iter().chain(op.extents(x)).collect();
        x = op.reshape(x, shape)?;
    }
    let transposed = match op.has("transposed") {
        true => op.flag("transposed")?,
        false => op.name.contains("transpose"),
    };
    let strides = op.spread("stride", spatial)?;
    let dilations = op.spread("dilation", spatial)?;
    let mut output_padding = vec![0; spatial];
    if transposed && op.has("output_padding") {
        output_padding = op.spread("output_padding", spatial)?;
    }
    let kernel: Vec<i64> = (2..rank).map(|axis| op.fixed(weight, axis, "a convolution")).collect::<Result<_, _>>()?;
    let (mut begin, mut end) = (vec![0; spatial], vec![0; spatial]);
    if op.overload == "padding" {
        match op.text("padding")?.as_str() {
            "valid" => {}
            "same" => {
                for index in 0..spatial {
                    let total = dilations[index]
                        .checked_mul(kernel[index] - 1)
                        .ok_or_else(|| op.invalid("a window too large"))?;
                    (begin[index], end[index]) = (total / 2, total - total / 2);
                }
            }
            other => return Err(op.invalid(format!("`padding` is {other:?}"))),
        }
    } else {
        begin = op.spread("padding", spatial)?;
        end = begin.clone();
    }
    let dtype = op.element(x);
    let convolution = Convolution {
        accumulate: accumulator(dtype),
        dtype,
        strides,
        dilations,
        pad_begin: begin,
        pad_end: end,
        groups: op.int("groups")?,
        transposed,
        output_padding,
    };
    let result = op.emit_one(convolution, &[x, weight])?;
    let result = add_bias(op, result, bias)?;
    if without_batch {
        let shape = op.extents(result)[1..].to_vec();
        return one(op.reshape(result, shape)?);
    }
    one(result)
}

/// Windows of an image as columns, each of all channels.
pub(super) fn columns(op: &mut OpImport<'_, '_, '_>) -> Results {
    use tenon_graph_dialect::operators::{Gather, GatherKind, Iota};
    use tenon_tensor::DType;
    let x = op.tensor("self")?;
    if op.rank(x) != 4 {
        return Err(op.unsupported("im2col without batch"));
    }
    let [kernel, dilation, padding, stride] =
        ["kernel_size", "dilation", "padding", "stride"].map(|name| op.spread(name, 2));
    let (kernel, dilation, padding, stride) = (kernel?, dilation?, padding?, stride?);
    let pads = |pad: &[i64]| vec![0.into(), 0.into(), pad[0].into(), pad[1].into()];
    let zero = op.scalar(0.0, op.element(x))?;
    let mut value =
        op.emit_one(Pad { mode: PadMode::Constant, low: pads(&padding), high: pads(&padding) }, &[x, zero])?;
    // Each spatial dimension becomes (window, place): [N, C, oh, kh, ow, kw].
    for index in 0..2 {
        let axis = 2 + 2 * index;
        let extent = op.fixed(value, axis, "im2col")?;
        let count = (extent - dilation[index] * (kernel[index] - 1) - 1) / stride[index].max(1) + 1;
        let window = op.emit_one(Iota { dtype: DType::I64, shape: vec![count.into(), 1.into()], axis: 0 }, &[])?;
        let inside = op.emit_one(Iota { dtype: DType::I64, shape: vec![kernel[index].into()], axis: 0 }, &[])?;
        let (step, reach) = (
            op.symbolic(DType::I64, &[], vec![stride[index].into()]),
            op.symbolic(DType::I64, &[], vec![dilation[index].into()]),
        );
        let begin = op.apply(Function::Multiply, &[window, step])?;
        let offset = op.apply(Function::Multiply, &[inside, reach])?;
        let places = op.apply(Function::Add, &[begin, offset])?;
        value = op.emit_one(Gather { kind: GatherKind::Take, axis: axis as i64, batch_dims: 0 }, &[value, places])?;
    }
    let value = op.transpose(value, vec![0, 1, 3, 5, 2, 4])?;
    let dims = op.extents(value);
    let merge = |dims: &[tenon_graph_dialect::DimExpr]| {
        tenon_graph_builder::product(dims).ok_or_else(|| OpError::Option("sizes this large".to_owned()))
    };
    let shape = vec![dims[0].clone(), merge(&dims[1..4])?, merge(&dims[4..])?];
    one(op.reshape(value, shape)?)
}
