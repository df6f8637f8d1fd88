//! Computing a bucket in parts, one after another, so that intermediate values of one part alone are alive.

use std::collections::HashMap;

use tenon_graph_dialect::operators::{Concat, Slice};
use tenon_graph_dialect::{DimExpr, Operator, TensorType};
use tenon_ir::{Builder, Module, Value};
use tenon_pass_manager::{PassError, Refusal};

use crate::{Entry, Point, Rows};

/// Most parts of a bucket: each is as many operations as the model has.
pub const MAX_PARTS: u64 = 64;

/// Turns the module of a bucket of one part's size into that of all parts: inputs are cut along the rows, every operation that has rows is there once for each part,
/// part after part, and outputs are the parts one after another. What has no rows is computed once.
///
/// `module` is at stage `bucket` with the dimension at the size of one part; `rows` is what [`Rows::of`] says of the module before; `point` is the bucket that results.
///
/// # Errors
/// A module that `rows` does not describe; a size that does not fit.
pub fn split(module: &Module<'_>, rows: &Rows, parts: u64, point: &Point) -> Result<(), PassError> {
    let entry = Entry::of(module)?;
    let wrong = |what: &str| {
        PassError::from(Refusal::new(
            "E0412",
            format!("the bucket cannot be computed in parts: {what}"),
            "raise the budget",
        ))
    };
    let block = entry.function.region_block(0).ok_or_else(|| wrong("it has no body"))?;
    let body = block.ops();
    let end = block.terminator().ok_or_else(|| wrong("it has no end"))?;
    let outputs = end.operands();
    if body.len() != rows.results.len() + 1 || outputs.len() != rows.outputs.len() || parts > MAX_PARTS {
        return Err(wrong("it is another one"));
    }
    let place = Builder::before(end).ok_or_else(|| wrong("it has no end"))?;
    let types = entry.arguments.iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()?;
    for ((argument, ty), axis) in entry.arguments.iter().zip(&types).zip(&rows.inputs) {
        let Some(axis) = axis else { continue };
        let mut whole = ty.clone();
        let size = whole.dims[*axis].known().and_then(|size| size.checked_mul(parts));
        let size = size.and_then(|size| i64::try_from(size).ok()).ok_or_else(|| wrong("an input is too large"))?;
        whole.dims[*axis] = tenon_graph_dialect::Dim::of(DimExpr::constant(size));
        argument.set_type(whole.to_type(module.context())?);
    }
    let mut of_parts: Vec<Vec<Value<'_>>> = vec![Vec::new(); outputs.len()];
    for part in 0..parts {
        let mut values: HashMap<usize, Value<'_>> = HashMap::new();
        for ((argument, ty), axis) in entry.arguments.iter().zip(&types).zip(&rows.inputs) {
            let Some(axis) = axis else { continue };
            let mut starts = vec![DimExpr::constant(0); ty.rank()];
            let size = ty.dims[*axis].known().unwrap_or(0);
            starts[*axis] = DimExpr::constant((part * size) as i64);
            let sizes = ty.dims.iter().map(|dim| dim.extent.clone()).collect();
            let slice = Operator::from(Slice { starts, sizes, steps: vec![1; ty.rank()] });
            values.insert(argument.key(), slice.build(place, &[*argument])?[0]);
        }
        for (op, results) in body.iter().zip(&rows.results) {
            if results.iter().all(Option::is_none) {
                continue;
            }
            let Some(operator) = Operator::read(*op) else { return Err(wrong("an operation is no operator")) };
            let operands: Vec<_> =
                op.operands().into_iter().map(|value| values.get(&value.key()).copied().unwrap_or(value)).collect();
            let place = place.with_location(op.location());
            for (old, new) in op.results().into_iter().zip(operator?.build(place, &operands)?) {
                values.insert(old.key(), new);
            }
        }
        for ((list, value), axis) in of_parts.iter_mut().zip(&outputs).zip(&rows.outputs) {
            if axis.is_some() {
                list.push(values.get(&value.key()).copied().unwrap_or(*value));
            }
        }
    }
    for (index, (list, axis)) in of_parts.iter().zip(&rows.outputs).enumerate() {
        let Some(axis) = axis else { continue };
        let concat = Operator::from(Concat { axis: *axis as i64 });
        let place = outputs[index].defining_op().map_or(place, |(op, _)| place.with_location(op.location()));
        end.set_operand(index, concat.build(place, list)?[0]);
    }
    for (op, results) in body.iter().zip(&rows.results).rev() {
        if results.iter().any(Option::is_some) {
            op.erase()?;
        }
    }
    let inputs: Vec<_> = entry.arguments.iter().map(|value| value.ty()).collect();
    let results: Vec<_> = end.operands().into_iter().map(Value::ty).collect();
    let context = module.context();
    entry.function.set_attribute("function_type", context.type_attribute(context.function_type(&inputs, &results)))?;
    let sizes: Vec<_> = point.iter().map(|(name, size)| (name.as_str(), context.i64(*size as i64))).collect();
    module.op().set_attribute("graph.bucket", context.dictionary(&sizes))?;
    Ok(())
}
