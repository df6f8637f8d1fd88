//! Pointwise kernels and data movement: every place computes one element of the result.

use tenon_hw_dialect::{IntegerPredicate, TileBuilder};
use tenon_ir::Value;
use tenon_layout::TileLayout;
use tenon_target::Target;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::body::Body;
use crate::schedule::evaluate::{Evaluator, store};
use crate::schedule::index::{Index, common};
use crate::schedule::scalar::memory_type;
use crate::schedule::size::{Size, is_wide, offset_type};
use crate::schedule::{KernelShape, parts};

const WARPS: u32 = 4;

/// Threads, elements and blocks of a pointwise kernel.
pub(super) struct MapPlan {
    /// Elements that one block computes.
    block: u32,
    /// Registers in a row that are consecutive elements.
    vector: u32,
}

impl MapPlan {
    fn new(elements: Size, last: Size, widest: u32, sms: u32) -> Self {
        // 128-bit access where rows allow it; small tensors spread over more blocks instead, one for each SM.
        let wanted = (16 / widest).clamp(1, 8);
        let mut vector = common(wanted, last);
        while vector > 1 && elements.capacity_u32() / (WARPS * 32 * vector) < sms {
            vector /= 2;
        }
        MapPlan { block: WARPS * 32 * vector, vector }
    }
}

/// Shape of the launch.
pub(super) fn shape(body: &Body, target: &Target) -> Result<KernelShape, LoweringError> {
    let plan = plan(body, target);
    let elements = body.shape(body.outputs[0]).elements();
    Ok(KernelShape::line(WARPS, parts(elements, plan.block, body)?))
}

fn plan(body: &Body, target: &Target) -> MapPlan {
    let shape = body.shape(body.outputs[0]);
    let widest =
        body.outputs.iter().map(|output| memory_type(body.shape(*output).dtype).size() as u32).max().unwrap_or(4);
    MapPlan::new(shape.elements(), *shape.sizes.last().unwrap_or(&Size::fixed(1)), widest, target.gpu.sms)
}

/// The kernel's code.
pub(super) fn build<'m>(
    builder: TileBuilder<'m>,
    body: &Body,
    target: &Target,
    inputs: &[Value<'m>],
    outputs: &[Value<'m>],
) -> Result<(), LoweringError> {
    let plan = plan(body, target);
    let first = body.shape(body.outputs[0]).clone();
    if body.outputs.iter().any(|output| body.shape(*output).elements() != first.elements()) {
        return Err(body.error("results of a map kernel must have one number of elements"));
    }
    let layout = TileLayout::contiguous(&[plan.block], &[0], plan.vector, WARPS)?;
    let iota = builder.iota(0, &layout)?;
    let block = builder.program_id(0)?;
    let elements = first.elements();
    let wide = is_wide(&first.sizes);
    let start = Size::from(plan.block).scale_to(builder.scalar(), block, wide)?;
    let tiles = builder.map(&[&iota], &layout, &[offset_type(wide), DType::Bool], |code, values| {
        let place = if wide { code.convert("arith.extsi", values[0], DType::I64)? } else { values[0] };
        let linear = code.add(place, start)?;
        let end = if wide { elements.wide_value(code)? } else { elements.value(code)? };
        Ok(vec![linear, code.compare_int(IntegerPredicate::UnsignedLess, linear, end)?])
    })?;
    let mask = (!elements.is_multiple_of(plan.block)).then(|| tiles[1].clone());
    let evaluator = Evaluator::new(body, inputs);
    for (output, pointer) in body.outputs.iter().zip(outputs) {
        let shape = body.shape(*output);
        let index = Index::from_linear(&shape.sizes, tiles[0].clone(), common(plan.vector, elements));
        let value = evaluator.value_at(builder, *output, &index, &mask)?;
        store(builder, *pointer, shape.dtype, &index, &value, &mask)?;
    }
    Ok(())
}
