//! Semantic checks of a whole module.

use tenon_graph_dialect::{Dim, TensorType};
use tenon_ir::{Block, Module, Op, Value};
use tenon_tensor::DType;

use crate::view::yielded;
use crate::{Flow, FlowError, FlowErrorKind, If, Loop, Scan};

/// Checks every operation of the flow dialect in a module; finds all errors, in order of the text.
pub fn check(module: &Module<'_>) -> Vec<FlowError> {
    let mut errors = Vec::new();
    for op in module.op().walk() {
        if let Err(error) = check_operation(op) {
            errors.push(FlowError { nodes: op.location().names(), ..error });
        }
    }
    errors
}

/// Checks one operation with its regions, what is nested in them left out; one of another dialect is taken.
///
/// # Errors
/// The rule that it breaks, without its nodes.
pub fn check_operation(op: Op<'_>) -> Result<(), FlowError> {
    match Flow::read(op) {
        None => Ok(()),
        Some(Err(error)) => Err(error),
        Some(Ok(Flow::If(flow))) => check_if(&flow),
        Some(Ok(Flow::Loop(flow))) => check_loop(&flow),
        Some(Ok(Flow::Scan(flow))) => check_scan(&flow),
    }
}

fn read(op: Op<'_>, kind: FlowErrorKind, value: Value<'_>) -> Result<TensorType, FlowError> {
    TensorType::read(value.ty()).map_err(|error| FlowError::new(kind, &op.name(), error.to_string()))
}

/// Whether a value of type `inner` may stand where `outer` is declared.
fn fits(inner: &TensorType, outer: &TensorType) -> bool {
    inner.dtype == outer.dtype
        && inner.rank() == outer.rank()
        && inner.dims.iter().zip(&outer.dims).all(|(inner, outer)| dim_fits(inner, outer))
}

fn dim_fits(inner: &Dim, outer: &Dim) -> bool {
    if outer.known().is_some() {
        return !inner.differs(outer);
    }
    match (inner.capacity, outer.capacity) {
        (Some(inner), Some(outer)) => inner <= outer,
        _ => true,
    }
}

fn scalar(op: Op<'_>, what: &str, value: Value<'_>, dtype: DType, kind: FlowErrorKind) -> Result<(), FlowError> {
    let ty = read(op, kind, value)?;
    if ty.dtype == dtype && ty.rank() == 0 {
        Ok(())
    } else {
        Err(FlowError::new(kind, &op.name(), format!("{what} must be a scalar of {dtype}, not {ty}")))
    }
}

fn all_fit(
    op: Op<'_>,
    kind: FlowErrorKind,
    what: &str,
    inner: &[Value<'_>],
    outer: &[Value<'_>],
) -> Result<(), FlowError> {
    for (index, (inner, outer)) in inner.iter().zip(outer).enumerate() {
        let (inner, outer) = (read(op, kind, *inner)?, read(op, kind, *outer)?);
        if !fits(&inner, &outer) {
            return Err(FlowError::new(
                kind,
                &op.name(),
                format!("{what} {index} is {inner} on one side and {outer} on the other"),
            ));
        }
    }
    Ok(())
}

fn count(op: Op<'_>, kind: FlowErrorKind, what: &str, found: usize, expected: usize) -> Result<(), FlowError> {
    if found == expected {
        Ok(())
    } else {
        Err(FlowError::new(kind, &op.name(), format!("{what} must be {expected}, not {found}")))
    }
}

fn yields<'m>(op: Op<'m>, body: Block<'m>, expected: usize) -> Result<Vec<Value<'m>>, FlowError> {
    let values = yielded(body)
        .ok_or_else(|| FlowError::new(FlowErrorKind::Yield, &op.name(), "a region must end in flow.yield"))?;
    count(op, FlowErrorKind::Yield, "the number of yielded values", values.len(), expected)?;
    Ok(values)
}

fn check_if(flow: &If<'_>) -> Result<(), FlowError> {
    scalar(flow.op, "the condition", flow.condition, DType::Bool, FlowErrorKind::Control)?;
    let results = flow.op.results();
    for body in [flow.then_body, flow.else_body] {
        let values = yields(flow.op, body, results.len())?;
        all_fit(flow.op, FlowErrorKind::Yield, "result", &values, &results)?;
    }
    Ok(())
}

fn check_loop(flow: &Loop<'_>) -> Result<(), FlowError> {
    let op = flow.op;
    if let Some(count) = flow.count {
        scalar(op, "the trip count", count, DType::I64, FlowErrorKind::Control)?;
    }
    if let Some(condition) = flow.condition {
        scalar(op, "the condition", condition, DType::Bool, FlowErrorKind::Control)?;
    }
    if flow.count.is_none() && flow.condition.is_none() {
        return Err(FlowError::new(FlowErrorKind::Unbounded, &op.name(), "has neither a trip count nor a condition"));
    }
    let arguments = flow.body.arguments();
    count(op, FlowErrorKind::Entry, "the number of arguments of the body", arguments.len(), flow.carried.len() + 1)?;
    scalar(op, "the iteration number", arguments[0], DType::I64, FlowErrorKind::Entry)?;
    all_fit(op, FlowErrorKind::Entry, "carried value", &flow.carried, &arguments[1..])?;
    let results = op.results();
    if results.len() < flow.carried.len() {
        return Err(FlowError::new(FlowErrorKind::Yield, &op.name(), "every carried value must have a result"));
    }
    let with_condition = usize::from(flow.condition.is_some());
    let values = yields(op, flow.body, results.len() + with_condition)?;
    if with_condition == 1 {
        scalar(op, "the first yielded value", values[0], DType::Bool, FlowErrorKind::Yield)?;
    }
    let (next, elements) = values[with_condition..].split_at(flow.carried.len());
    // A carried value goes back into the body, and out after the last iteration; where there is none, the first value goes out.
    all_fit(op, FlowErrorKind::Yield, "carried value", next, &arguments[1..])?;
    all_fit(op, FlowErrorKind::Yield, "carried value", next, &results)?;
    all_fit(op, FlowErrorKind::Yield, "carried value", &flow.carried, &results)?;
    for (element, output) in elements.iter().zip(&results[flow.carried.len()..]) {
        let first = stacked(op, *element, *output, 0)?;
        // A symbol gets its capacity with the bucket.
        if let (Some(capacity), Some(size)) = (flow.capacity, first.capacity)
            && capacity != size
        {
            return Err(FlowError::new(
                FlowErrorKind::Attribute,
                &op.name(),
                format!("`capacity` is {capacity}, the first dimension of a scan output {first}"),
            ));
        }
    }
    Ok(())
}

/// Checks a scan output against its element; gives the dimension along which elements are stacked.
fn stacked(op: Op<'_>, element: Value<'_>, output: Value<'_>, axis: usize) -> Result<Dim, FlowError> {
    let (inner, outer) = (read(op, FlowErrorKind::Yield, element)?, read(op, FlowErrorKind::Yield, output)?);
    let mut slice = outer.clone();
    if axis < slice.rank() {
        let dim = slice.dims.remove(axis);
        if fits(&inner, &slice) {
            return Ok(dim);
        }
    }
    Err(FlowError::new(
        FlowErrorKind::Yield,
        &op.name(),
        format!("a scan output of {outer} cannot take elements of {inner} along dimension {axis}"),
    ))
}

fn check_scan(flow: &Scan<'_>) -> Result<(), FlowError> {
    let op = flow.op;
    let results = op.results();
    let arguments = flow.body.arguments();
    let state = flow.state.len();
    if results.len() < state {
        return Err(FlowError::new(FlowErrorKind::Yield, &op.name(), "every state must have a result"));
    }
    let outputs = &results[state..];
    for (name, found, expected) in [
        ("input_axes", flow.input_axes.len(), flow.scanned.len()),
        ("input_directions", flow.input_reversed.len(), flow.scanned.len()),
        ("output_axes", flow.output_axes.len(), outputs.len()),
        ("output_directions", flow.output_reversed.len(), outputs.len()),
    ] {
        count(op, FlowErrorKind::Attribute, &format!("the number of entries of `{name}`"), found, expected)?;
    }
    if flow.scanned.is_empty() {
        return Err(FlowError::new(FlowErrorKind::Unbounded, &op.name(), "scans no tensor"));
    }
    count(
        op,
        FlowErrorKind::Entry,
        "the number of arguments of the body",
        arguments.len(),
        state + flow.scanned.len(),
    )?;
    all_fit(op, FlowErrorKind::Entry, "state", &flow.state, &arguments)?;
    let mut length: Option<Dim> = None;
    let mut agrees = |dim: &Dim| match &length {
        Some(length) => !length.differs(dim),
        None => {
            length = Some(dim.clone());
            true
        }
    };
    for ((value, axis), argument) in flow.scanned.iter().zip(&flow.input_axes).zip(&arguments[state..]) {
        let mut slice = read(op, FlowErrorKind::Entry, *value)?;
        let index = usize::try_from(*axis).ok().filter(|index| *index < slice.rank());
        let index = index.ok_or_else(|| {
            FlowError::new(FlowErrorKind::Attribute, &op.name(), format!("input axis {axis} lies outside {slice}"))
        })?;
        let dim = slice.dims.remove(index);
        let argument = read(op, FlowErrorKind::Entry, *argument)?;
        if !fits(&slice, &argument) {
            return Err(FlowError::new(
                FlowErrorKind::Entry,
                &op.name(),
                format!("a slice is {slice}, its argument {argument}"),
            ));
        }
        if !agrees(&dim) {
            return Err(FlowError::new(
                FlowErrorKind::Entry,
                &op.name(),
                format!("scanned dimensions differ: one is {dim}"),
            ));
        }
    }
    let values = yields(op, flow.body, results.len())?;
    all_fit(op, FlowErrorKind::Yield, "state", &values[..state], &arguments)?;
    all_fit(op, FlowErrorKind::Yield, "state", &values[..state], &results)?;
    all_fit(op, FlowErrorKind::Yield, "state", &flow.state, &results)?;
    for ((element, output), axis) in values[state..].iter().zip(outputs).zip(&flow.output_axes) {
        let index = usize::try_from(*axis).map_err(|_| {
            FlowError::new(FlowErrorKind::Attribute, &op.name(), format!("output axis {axis} is negative"))
        })?;
        let dim = stacked(op, *element, *output, index)?;
        if !agrees(&dim) {
            return Err(FlowError::new(
                FlowErrorKind::Yield,
                &op.name(),
                format!("scanned dimensions differ: that of an output is {dim}"),
            ));
        }
    }
    Ok(())
}
