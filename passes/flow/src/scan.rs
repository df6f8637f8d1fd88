//! Scans as loops with a trip count: every iteration reads its slices by index, and scan outputs are stacked along their first dimension
//! before they get the order that the scan gives them.

use tenon_flow_dialect::{Loop, Scan, Schedule, yield_values};
use tenon_graph_dialect::operators::Function;
use tenon_graph_dialect::{Dim, TensorType};
use tenon_ir::{Builder, Op, Value};
use tenon_pass_manager::{PassError, Refusal};
use tenon_tensor::DType;

use crate::emit::Emit;

/// The loop in the place of a scan.
pub(crate) fn as_loop<'m>(scan: &Scan<'m>) -> Result<Op<'m>, PassError> {
    let op = scan.op;
    let refuse = |message: &str| {
        let help = "give the scan a fixed number of slices, or write a loop";
        PassError::from(Refusal::new("E0411", message, help).at(op))
    };
    let axes = |list: &[i64]| list.iter().map(|axis| usize::try_from(*axis).unwrap_or(usize::MAX)).collect::<Vec<_>>();
    let (inputs, outputs) = (axes(&scan.input_axes), axes(&scan.output_axes));
    let first = scan.scanned.first().zip(inputs.first()).ok_or_else(|| refuse("a scan over nothing"))?;
    let scanned = TensorType::read(first.0.ty())?.dims.get(*first.1).cloned();
    let length = scanned.as_ref().and_then(Dim::known).ok_or_else(|| {
        let length = scanned.map_or_else(String::new, |dim| dim.to_string());
        let message =
            format!("a scan over {length} slices: each request has its own number of them, and a scan has a fixed one");
        let help = "give the scanned dimension sizes without `between = \"pad\"` in the recipe, or write a loop";
        PassError::from(Refusal::new("E0411", message, help).at(op))
    })?;
    let at = Builder::before(op).ok_or_else(|| refuse("a scan in no block"))?.with_location(op.location());
    let emit = Emit { at };
    let count = emit.scalar(length as f64, DType::I64)?;
    let states = scan.state.len();
    let results = op.results();
    let mut types: Vec<_> = results.iter().take(states).map(|value| value.ty()).collect();
    for (result, axis) in results[states..].iter().zip(&outputs) {
        let mut ty = TensorType::read(result.ty())?;
        if *axis >= ty.rank() {
            return Err(refuse("an output axis outside its tensor"));
        }
        let dim = ty.dims.remove(*axis);
        ty.dims.insert(0, dim);
        types.push(TensorType::new(ty.dtype, ty.dims).to_type(op.context())?);
    }
    let new = Loop::build(at, Some(count), None, &scan.state, &types, None, Schedule::default())?;
    let end = scan.body.terminator().ok_or_else(|| refuse("a scan whose body does not end"))?;
    let yielded = end.operands();
    let inside = at.in_block(new.body);
    let last = yield_values(inside, &[])?;
    let body =
        Emit { at: Builder::before(last).ok_or_else(|| refuse("a loop without a body"))?.with_location(op.location()) };
    let arguments = new.body.arguments();
    let mut entering: Vec<Value<'m>> = arguments[1..].to_vec();
    for ((value, axis), reversed) in scan.scanned.iter().zip(&inputs).zip(&scan.input_reversed) {
        let place = if *reversed { from_end(body, arguments[0], length)? } else { arguments[0] };
        entering.push(body.take(*value, place, *axis)?);
    }
    for (old, new) in scan.body.arguments().into_iter().zip(&entering) {
        old.replace_all_uses(*new);
    }
    for inner in scan.body.ops() {
        if inner != end {
            inner.move_before(last);
        }
    }
    // What was yielded may be an argument, which is replaced by now.
    let yielded: Vec<Value<'m>> = end.operands().into_iter().take(yielded.len()).collect();
    yield_values(inside, &yielded)?;
    last.erase()?;
    end.erase()?;
    let mut given = new.op.results();
    for ((value, axis), reversed) in given[states..].iter_mut().zip(&outputs).zip(&scan.output_reversed) {
        if *reversed {
            let places = emit.index(vec![Dim::fixed(length)])?;
            *value = emit.take(*value, from_end(emit, places, length)?, 0)?;
        }
        *value = emit.first_to(*value, *axis)?;
    }
    op.replace_all_uses(&given);
    op.erase()?;
    Ok(new.op)
}

/// Places counted from the end.
fn from_end<'m>(emit: Emit<'m>, places: Value<'m>, length: u64) -> Result<Value<'m>, PassError> {
    let last = emit.scalar(length as f64 - 1.0, DType::I64)?;
    Ok(emit.apply(Function::Subtract, &[last, places])?)
}
