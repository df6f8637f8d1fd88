//! Conv and ConvTranspose.

use tenon_graph_dialect::operators::{Convolution, Function};

use super::padding::{AutoPad, Geometry, split};
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, accumulator};

/// The spatial shape of a weight.
pub(super) fn kernel_of(op: &OpImport<'_, '_, '_>, weight: Handle) -> Result<Vec<i64>, ImportError> {
    op.rank_at_least(weight, 3)?;
    (2..op.rank(weight)).map(|axis| op.fixed_dim(weight, axis, "a convolution")).collect()
}

/// Adds a bias of one number a channel.
fn add_bias(op: &mut OpImport<'_, '_, '_>, result: Handle) -> Outputs {
    let Some(bias) = op.optional(2)? else { return Ok(vec![result]) };
    let bias = op.along_axis(bias, 1, op.rank(result))?;
    Ok(vec![op.apply(Function::Add, &[result, bias])?])
}

/// Conv.
pub(super) fn conv(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=3)?;
    let (x, weight) = (op.input(0)?, op.input(1)?);
    let mut geometry = Geometry::read(op, x, Some(kernel_of(op, weight)?), true)?;
    geometry.resolve(op, &op.ty(x).dims[2..])?;
    let x = geometry.pad_free(op, x, 0.0)?;
    let dtype = op.dtype(x);
    let spatial = geometry.kernel.len();
    let convolution = Convolution {
        accumulate: accumulator(dtype),
        dtype,
        strides: geometry.strides,
        dilations: geometry.dilations,
        pad_begin: geometry.begin,
        pad_end: geometry.end,
        groups: op.node.int_or("group", 1)?,
        transposed: false,
        output_padding: vec![0; spatial],
    };
    let result = op.emit(convolution, &[x, weight])?;
    add_bias(op, result)
}

/// ConvTranspose. SAME padding makes the output the input times the stride; `output_shape` sets it, and the padding follows.
pub(super) fn conv_transpose(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=3)?;
    let (x, weight) = (op.input(0)?, op.input(1)?);
    let mut geometry = Geometry::read(op, x, Some(kernel_of(op, weight)?), true)?;
    let spatial = geometry.kernel.len();
    let mut output_padding = op.node.ints("output_padding")?.map_or_else(|| vec![0; spatial], <[i64]>::to_vec);
    if output_padding.len() != spatial || output_padding.iter().any(|extra| !(0..=1 << 31).contains(extra)) {
        return Err(op.node.attribute_error(
            "output_padding",
            "a number a spatial dimension",
            format!("is {output_padding:?}"),
        ));
    }
    let output_shape = op.node.ints("output_shape")?;
    if let Some(shape) =
        output_shape.filter(|shape| shape.len() != spatial || shape.iter().any(|size| !(0..=1 << 40).contains(size)))
    {
        return Err(op.node.attribute_error("output_shape", "a number a spatial dimension", format!("is {shape:?}")));
    }
    for index in 0..spatial {
        let (stride, reach) = (geometry.strides[index], geometry.reach(index));
        let total = match (output_shape, geometry.auto_pad) {
            (Some(shape), _) => {
                let size = op.fixed_dim(x, index + 2, "`output_shape`")?;
                let natural =
                    (size - 1).checked_mul(stride).and_then(|span| span.checked_add(reach + output_padding[index]));
                natural
                    .and_then(|natural| natural.checked_sub(shape[index]))
                    .ok_or_else(|| op.invalid("the output is too large"))?
            }
            (None, AutoPad::SameUpper | AutoPad::SameLower) => reach + output_padding[index] - stride,
            _ => continue,
        };
        // Where the output is larger than what the kernel reaches, the rest is at the end.
        output_padding[index] += (-total).max(0);
        (geometry.begin[index], geometry.end[index]) = match geometry.auto_pad {
            // Without SAME_UPPER the begin takes the odd cell.
            AutoPad::SameUpper => split(total.max(0), AutoPad::SameUpper),
            _ => split(total.max(0), AutoPad::SameLower),
        };
    }
    let dtype = op.dtype(x);
    let convolution = Convolution {
        accumulate: accumulator(dtype),
        dtype,
        strides: geometry.strides,
        dilations: geometry.dilations,
        pad_begin: geometry.begin,
        pad_end: geometry.end,
        groups: op.node.int_or("group", 1)?,
        transposed: true,
        output_padding,
    };
    let result = op.emit(convolution, &[x, weight])?;
    add_bias(op, result)
}
