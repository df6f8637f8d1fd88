//! Pointwise kernels and data movement: every place computes one element of the result.

use tenon_hw_dialect::TileBuilder;
use tenon_ir::Value;
use tenon_target::Target;

use crate::LoweringError;
use crate::schedule::KernelShape;
use crate::schedule::body::Body;
use crate::schedule::evaluate::{Destination, Evaluator, store};
use crate::schedule::index::{Index, common};
use crate::schedule::places::Places;
use crate::schedule::scalar::memory_type;
use crate::schedule::size::Size;

/// Shape of the launch.
pub(super) fn shape(body: &Body, target: &Target) -> Result<KernelShape, LoweringError> {
    places(body, target).shape(body)
}

/// 128-bit access where rows allow it.
fn places(body: &Body, target: &Target) -> Places {
    let shape = body.shape(body.outputs[0]);
    let bytes = body.outputs.iter().map(|output| memory_type(body.shape(*output).dtype).size() as u32).max();
    let widest = (16 / bytes.unwrap_or(4)).clamp(1, 8);
    let last = shape.sizes.last().copied().unwrap_or(Size::fixed(1));
    Places::new(shape.elements(), last, widest, target.gpu.sms)
}

/// The kernel's code.
pub(super) fn build<'m>(
    builder: TileBuilder<'m>,
    body: &Body,
    target: &Target,
    inputs: &[Value<'m>],
    outputs: &[Value<'m>],
) -> Result<(), LoweringError> {
    let places = places(body, target);
    let elements = body.shape(body.outputs[0]).elements();
    if body.outputs.iter().any(|output| body.shape(*output).elements() != elements) {
        return Err(body.error("results of a map kernel must have one number of elements"));
    }
    let block = places.build(builder, &places.layout()?)?;
    let evaluator = Evaluator::new(body, inputs);
    for (output, target) in Destination::all(body, outputs) {
        let shape = body.shape(output);
        let index = Index::from_linear(&shape.sizes, block.linear.clone(), common(places.vector, elements));
        let value = evaluator.value_at(builder, output, &index, &block.mask)?;
        store(builder, target, &index, &value, &block.mask)?;
    }
    Ok(())
}
