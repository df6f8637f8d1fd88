//! Creating operations. Their regions are made with a block of the right arguments and have no terminator yet: [`yield_values`] ends them.

use tenon_graph_dialect::TensorType;
use tenon_ir::{Block, Builder, IrError, Location, Op, Type, Value};
use tenon_tensor::DType;

use crate::view::Flow;
use crate::{FlowError, FlowErrorKind, If, Loop, Scan, Schedule};

/// Ends a region.
///
/// # Errors
/// A value of another module.
pub fn yield_values<'m>(builder: Builder<'m>, values: &[Value<'m>]) -> Result<Op<'m>, IrError> {
    builder.op("flow.yield").operands(values).build()
}

fn failed(operation: &str) -> impl Fn(IrError) -> FlowError {
    move |error| FlowError::new(FlowErrorKind::Attribute, operation, error.to_string())
}

fn block<'m>(op: Op<'m>, region: usize, arguments: &[Type<'m>]) -> Result<Block<'m>, FlowError> {
    let arguments: Vec<(Type<'_>, Location<'_>)> = arguments.iter().map(|ty| (*ty, op.location())).collect();
    let region = op.region(region).ok_or_else(|| FlowError::new(FlowErrorKind::Entry, &op.name(), "has no region"))?;
    region.append_block(&arguments).map_err(failed(&op.name()))
}

fn types<'m>(values: &[Value<'m>]) -> Vec<Type<'m>> {
    values.iter().map(|value| value.ty()).collect()
}

impl<'m> If<'m> {
    /// A branch with two empty regions.
    ///
    /// # Errors
    /// A value or type of another session.
    pub fn build(
        builder: Builder<'m>,
        condition: Value<'m>,
        results: &[Type<'_>],
        schedule: Schedule,
    ) -> Result<Self, FlowError> {
        let mut op = builder.op("flow.if").operands(&[condition]).results(results).regions(2);
        for (name, attribute) in (Schedule { unroll: None, ..schedule }).attributes(builder.context()) {
            op = op.attribute(name, attribute);
        }
        let op = op.build().map_err(failed("flow.if"))?;
        block(op, 0, &[])?;
        block(op, 1, &[])?;
        match Flow::read(op) {
            Some(Ok(Flow::If(flow))) => Ok(flow),
            Some(Err(error)) => Err(error),
            _ => Err(FlowError::new(FlowErrorKind::Entry, "flow.if", "was not built")),
        }
    }
}

impl<'m> Loop<'m> {
    /// A loop with an empty body whose carried arguments have the types of the results for them.
    ///
    /// # Errors
    /// A value or type of another session; fewer results than carried values.
    #[allow(clippy::too_many_arguments)] // Each is a part of the operation.
    pub fn build(
        builder: Builder<'m>,
        count: Option<Value<'m>>,
        condition: Option<Value<'m>>,
        carried: &[Value<'m>],
        results: &[Type<'m>],
        capacity: Option<u64>,
        schedule: Schedule,
    ) -> Result<Self, FlowError> {
        let name = "flow.loop";
        let inside = results
            .get(..carried.len())
            .ok_or_else(|| FlowError::new(FlowErrorKind::Yield, name, "a carried value has no result"))?;
        let context = builder.context();
        let operands: Vec<_> = count.into_iter().chain(condition).chain(carried.iter().copied()).collect();
        let sizes = [i32::from(count.is_some()), i32::from(condition.is_some()), carried.len() as i32];
        let capacity = capacity.map(|capacity| context.i64(i64::try_from(capacity).unwrap_or(i64::MAX)));
        let mut op = builder
            .op(name)
            .operands(&operands)
            .results(results)
            .regions(1)
            .segments(&sizes)
            .optional_attribute("capacity", capacity);
        for (name, attribute) in schedule.attributes(context) {
            op = op.attribute(name, attribute);
        }
        let op = op.build().map_err(failed(name))?;
        let iteration = scalar(builder, DType::I64)?;
        block(op, 0, &[&[iteration], inside].concat())?;
        match Flow::read(op) {
            Some(Ok(Flow::Loop(flow))) => Ok(flow),
            Some(Err(error)) => Err(error),
            _ => Err(FlowError::new(FlowErrorKind::Entry, name, "was not built")),
        }
    }
}

impl<'m> Scan<'m> {
    /// A loop over slices with an empty body. Axes are those of the inputs and of the scan outputs, directions whether they run from the end.
    ///
    /// # Errors
    /// A value or type of another session; an axis outside its tensor.
    #[allow(clippy::too_many_arguments)] // Each is a part of the operation.
    pub fn build(
        builder: Builder<'m>,
        state: &[Value<'m>],
        scanned: &[Value<'m>],
        results: &[Type<'_>],
        inputs: (&[i64], &[bool]),
        outputs: (&[i64], &[bool]),
        schedule: Schedule,
    ) -> Result<Self, FlowError> {
        let name = "flow.scan";
        let context = builder.context();
        let directions =
            |list: &[bool]| context.i64_array(&list.iter().map(|reverse| i64::from(*reverse)).collect::<Vec<_>>());
        let mut arguments = types(state);
        for (value, axis) in scanned.iter().zip(inputs.0) {
            let wrong = |message: String| FlowError::new(FlowErrorKind::Attribute, name, message);
            let mut ty = TensorType::read(value.ty()).map_err(|error| wrong(error.to_string()))?;
            let axis = usize::try_from(*axis).ok().filter(|axis| *axis < ty.rank());
            ty.dims.remove(axis.ok_or_else(|| wrong(format!("an input axis lies outside {ty}")))?);
            ty.order = None;
            arguments.push(ty.to_type(context).map_err(|error| wrong(error.to_string()))?);
        }
        let mut op = builder
            .op(name)
            .operands(&[state, scanned].concat())
            .results(results)
            .regions(1)
            .segments(&[state.len() as i32, scanned.len() as i32])
            .attribute("input_axes", context.i64_array(inputs.0))
            .attribute("input_directions", directions(inputs.1))
            .attribute("output_axes", context.i64_array(outputs.0))
            .attribute("output_directions", directions(outputs.1));
        for (name, attribute) in schedule.attributes(context) {
            op = op.attribute(name, attribute);
        }
        let op = op.build().map_err(failed(name))?;
        block(op, 0, &arguments)?;
        match Flow::read(op) {
            Some(Ok(Flow::Scan(flow))) => Ok(flow),
            Some(Err(error)) => Err(error),
            _ => Err(FlowError::new(FlowErrorKind::Entry, name, "was not built")),
        }
    }
}

fn scalar(builder: Builder<'_>, dtype: DType) -> Result<Type<'_>, FlowError> {
    let ty = TensorType::fixed(dtype, &[]).to_type(builder.context());
    ty.map_err(|error| FlowError::new(FlowErrorKind::Control, "flow.loop", error.to_string()))
}
