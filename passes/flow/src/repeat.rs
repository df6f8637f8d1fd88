//! Loops in the form that launch plans execute: a condition, no trip count, no iteration number, no scan outputs.
//!
//! What the form lacks is carried: the iteration number as an i64, each scan output as a tensor of its full size into which every iteration
//! writes its element. Behind the elements a scan output holds zeros.

use tenon_flow_dialect::{Loop, Schedule, yield_values};
use tenon_graph_dialect::operators::Function;
use tenon_graph_dialect::{Dim, TensorType};
use tenon_ir::{Builder, Op, Value};
use tenon_pass_manager::{PassError, Refusal};
use tenon_tensor::DType;

use crate::emit::Emit;

/// The loop in this form; the same one where it has it.
pub(crate) fn normalise<'m>(repeat: &Loop<'m>, schedule: Schedule) -> Result<Op<'m>, PassError> {
    let op = repeat.op;
    let arguments = repeat.body.arguments();
    let outputs = repeat.scan_outputs();
    let uses_number = arguments.first().is_some_and(|number| number.has_users());
    if repeat.count.is_none() && !uses_number && outputs.is_empty() {
        schedule.write(op)?;
        return Ok(op);
    }
    let broken = || PassError::from(Refusal::new("E0411", "a loop without a body", "correct the module").at(op));
    let at = Builder::before(op).ok_or_else(broken)?.with_location(op.location());
    let emit = Emit { at };
    let zero = emit.scalar(0.0, DType::I64)?;
    let first = match (repeat.count, repeat.condition) {
        (None, Some(condition)) => condition,
        (Some(count), condition) => {
            let some = emit.apply(Function::Less, &[zero, count])?;
            match condition {
                Some(condition) => emit.apply(Function::And, &[condition, some])?,
                None => some,
            }
        }
        (None, None) => return Err(broken()),
    };
    let mut carried = vec![zero];
    carried.extend(&repeat.carried);
    for output in &outputs {
        let ty = TensorType::read(output.ty())?;
        carried.push(emit.fill(0.0, ty.dtype, &ty.dims)?);
    }
    let types: Vec<_> = [zero.ty()].into_iter().chain(op.result_types()).collect();
    let new = Loop::build(at, None, Some(first), &carried, &types, repeat.capacity.or(bound(&outputs)?), schedule)?;
    let inside = new.body.arguments();
    let (number, inside) = (inside[1], &inside[2..]);
    for (old, new) in arguments.iter().zip([&[number], inside].concat()) {
        old.replace_all_uses(new);
    }
    let end = repeat.body.terminator().ok_or_else(broken)?;
    let emit = Emit { at: Builder::before(end).ok_or_else(broken)?.with_location(op.location()) };
    let one = emit.scalar(1.0, DType::I64)?;
    let next = emit.apply(Function::Add, &[number, one])?;
    let condition = match (repeat.count, repeat.next_condition()) {
        (None, Some(condition)) => condition,
        (Some(count), condition) => {
            let more = emit.apply(Function::Less, &[next, count])?;
            match condition {
                Some(condition) => emit.apply(Function::And, &[condition, more])?,
                None => more,
            }
        }
        (None, None) => return Err(broken()),
    };
    let mut yielded = vec![condition, next];
    yielded.extend(repeat.next_carried());
    for (element, whole) in repeat.elements().into_iter().zip(&inside[repeat.carried.len()..]) {
        yielded.push(written(emit, number, element, *whole)?);
    }
    let end_of_new = yield_values(at.in_block(new.body), &yielded)?;
    for inner in repeat.body.ops() {
        if inner != end {
            inner.move_before(end_of_new);
        }
    }
    end.erase()?;
    op.replace_all_uses(&new.op.results()[1..]);
    op.erase()?;
    Ok(new.op)
}

/// The least number of elements that a scan output has place for.
fn bound(outputs: &[Value<'_>]) -> Result<Option<u64>, PassError> {
    let mut least: Option<u64> = None;
    for output in outputs {
        let size = TensorType::read(output.ty())?.dims.first().and_then(|dim| dim.capacity);
        least = [least, size].into_iter().flatten().min();
    }
    Ok(least)
}

/// A tensor with an element at a place of dimension 0.
fn written<'m>(emit: Emit<'m>, place: Value<'m>, element: Value<'m>, whole: Value<'m>) -> Result<Value<'m>, PassError> {
    let dims = TensorType::read(whole.ty())?.dims;
    let one = || Dim::fixed(1);
    let column: Vec<Dim> = dims.iter().take(1).cloned().chain(dims.iter().skip(1).map(|_| one())).collect();
    let row: Vec<Dim> = [one()].into_iter().chain(dims.into_iter().skip(1)).collect();
    let here = emit.apply(Function::Equal, &[emit.index(column)?, place])?;
    Ok(emit.apply(Function::Select, &[here, emit.reshape(element, row)?, whole])?)
}
