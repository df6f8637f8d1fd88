//! Unrolling by the recipe: a round of a loop runs its body several times, each time but the first under the condition that the one before
//! left.

use std::collections::HashMap;

use tenon_flow_dialect::{Flow, If, Loop, Schedule, yield_values};
use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::{Block, Builder, Op, Value};
use tenon_pass_manager::{PassError, Refusal};

/// Values of the original by their keys, and what stands for them in the copy; others stand for themselves.
type Copies<'m> = HashMap<usize, Value<'m>>;

/// Lets a loop in the form of the launch plan run its body `times` times a round.
pub(crate) fn unroll(op: Op<'_>, times: u64, schedule: Schedule) -> Result<(), PassError> {
    let Some(Flow::Loop(repeat)) = Flow::read(op).transpose()? else { return Ok(()) };
    let refuse = |message: String| {
        let help = "change `semantic.control_flow.unroll`, or the number of iterations that is allowed";
        PassError::from(Refusal::new("E0411", message, help).at(op))
    };
    if let Some(most) = repeat.capacity {
        if most % times != 0 {
            let message =
                format!("the loop runs at most {most} times, which is no multiple of its unrolling by {times}");
            return Err(refuse(message));
        }
        let rounds = i64::try_from(most / times).unwrap_or(i64::MAX);
        op.set_attribute("capacity", op.context().i64(rounds))?;
    }
    let missing = || refuse("a loop whose body does not end".to_owned());
    let end = repeat.body.terminator().ok_or_else(missing)?;
    let originals: Vec<Op<'_>> = repeat.body.ops().into_iter().filter(|inner| *inner != end).collect();
    let arguments = repeat.body.arguments();
    let mut given = end.operands();
    let inside = Schedule { unroll: None, depth: schedule.depth.map(|depth| depth + 1), ..schedule };
    for _ in 1..times {
        let at = Builder::before(end).ok_or_else(missing)?.with_location(op.location());
        let condition = *given.first().ok_or_else(missing)?;
        let types: Vec<_> = given.iter().map(|value| value.ty()).collect();
        let again = If::build(at, condition, &types, inside)?;
        let carried = arguments.iter().skip(1).zip(&given[1..]);
        let mut copies: Copies<'_> = carried.map(|(argument, value)| (argument.key(), *value)).collect();
        let body = at.in_block(again.then_body);
        originals.iter().try_for_each(|original| copy(*original, body, &mut copies))?;
        yield_values(body, &mapped(&end.operands(), &copies))?;
        yield_values(at.in_block(again.else_body), &given)?;
        given = again.op.results();
    }
    yield_values(Builder::before(end).ok_or_else(missing)?.with_location(op.location()), &given)?;
    end.erase()?;
    Schedule { unroll: Some(times), ..schedule }.write(op)?;
    Ok(())
}

fn mapped<'m>(values: &[Value<'m>], copies: &Copies<'m>) -> Vec<Value<'m>> {
    values.iter().map(|value| copies.get(&value.key()).copied().unwrap_or(*value)).collect()
}

/// Builds an operation again.
fn copy<'m>(op: Op<'m>, at: Builder<'m>, copies: &mut Copies<'m>) -> Result<(), PassError> {
    let at = at.with_location(op.location());
    let operands = mapped(&op.operands(), copies);
    let results = if let Some(operator) = Operator::read(op).transpose()? {
        let types: Vec<TensorType> = op.result_types().into_iter().map(TensorType::read).collect::<Result<_, _>>()?;
        operator.build_as(at, &operands, &types)?
    } else if let Some(flow) = Flow::read(op).transpose()? {
        copy_flow(&flow, &operands, at, copies)?.results()
    } else {
        let parameter = op.attribute("parameter").filter(|_| op.is("graph.get_parameter"));
        let unknown = || {
            let help = "remove the loop from `semantic.control_flow.unroll`";
            Refusal::new("E0411", format!("`{}` cannot be written out again", op.name()), help).at(op)
        };
        let parameter = parameter.ok_or_else(unknown)?;
        at.op("graph.get_parameter").attribute("parameter", parameter).results(&op.result_types()).build()?.results()
    };
    copies.extend(op.results().iter().map(|value| value.key()).zip(results));
    Ok(())
}

fn copy_flow<'m>(
    flow: &Flow<'m>,
    operands: &[Value<'m>],
    at: Builder<'m>,
    copies: &mut Copies<'m>,
) -> Result<Op<'m>, PassError> {
    let op = flow.op();
    let types = op.result_types();
    // The branch of the copy is around it too.
    let schedule = Schedule { depth: flow.schedule().depth.map(|depth| depth + 1), ..flow.schedule() };
    let (new, bodies) = match flow {
        Flow::If(branch) => {
            let condition = mapped(&[branch.condition], copies)[0];
            let new = If::build(at, condition, &types, schedule)?;
            (new.op, vec![new.then_body, new.else_body])
        }
        Flow::Loop(repeat) => {
            let mut operands = operands.iter().copied();
            let count = repeat.count.and_then(|_| operands.next());
            let condition = repeat.condition.and_then(|_| operands.next());
            let carried: Vec<_> = operands.collect();
            let new = Loop::build(at, count, condition, &carried, &types, repeat.capacity, schedule)?;
            (new.op, vec![new.body])
        }
        Flow::Scan(_) => {
            let help = "remove the loop from `semantic.control_flow.unroll`";
            return Err(Refusal::new("E0411", "a scan cannot be written out again", help).at(op).into());
        }
    };
    for (old, new) in flow.bodies().into_iter().zip(bodies) {
        copy_body(old, at.in_block(new), copies)?;
    }
    Ok(new)
}

fn copy_body<'m>(body: Block<'m>, at: Builder<'m>, copies: &mut Copies<'m>) -> Result<(), PassError> {
    copies.extend(body.arguments().iter().map(|value| value.key()).zip(at.block().arguments()));
    for op in body.ops() {
        match op.is("flow.yield") {
            true => drop(yield_values(at.with_location(op.location()), &mapped(&op.operands(), copies))?),
            false => copy(op, at, copies)?,
        }
    }
    Ok(())
}
