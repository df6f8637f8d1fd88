//! If, Loop and Scan. Where what they do is known, the branch taken, or the iterations one after another, are imported in the node's place;
//! else If and Loop become operations of the flow dialect (`branch`, `repeat`).

mod branch;
mod counters;
mod repeat;
mod settled;

use tenon_tensor::{DType, Tensor};

use super::sequence::stack;
use crate::error::ImportError;
use crate::graph::Graph;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// The outputs of the branch that a constant condition chooses, or a branch of the flow dialect.
pub(super) fn branch(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let then = op.node.required("then_branch", op.node.graph("then_branch")?)?;
    let other = op.node.required("else_branch", op.node.graph("else_branch")?)?;
    let condition = op.input(0)?;
    let Some(known) = op.importer.builder.tensor(condition).cloned() else {
        return branch::branch(op, condition, then, other);
    };
    let taken = truth(op, &known)?;
    op.importer.inner_graph(if taken { then } else { other }, &[], &op.node.site)
}

/// The only element of a tensor as a truth value.
fn truth(op: &OpImport<'_, '_, '_>, tensor: &Tensor) -> Result<bool, ImportError> {
    match tensor.get_i64(0).filter(|_| tensor.element_count() == 1) {
        Some(value) => Ok(value != 0),
        None => Err(op.invalid("the condition must be one truth value")),
    }
}

/// What an iteration of a loop gives.
struct Iteration {
    goes_on: Handle,
    carried: Vec<Handle>,
    elements: Vec<Handle>,
}

fn iteration(
    op: &mut OpImport<'_, '_, '_>,
    body: &Graph,
    number: u64,
    goes_on: Handle,
    carried: &[Handle],
) -> Result<Iteration, ImportError> {
    // Exporters declare the number as a scalar or as a list of one; readers take either.
    let declared = body.inputs.first().and_then(|input| input.tensor().ok()?.dims.as_ref().map(Vec::len));
    let shape = vec![1; declared.unwrap_or(0).min(1)];
    let number = Tensor::from_i64(shape, &[number as i64]).map_err(|error| op.invalid(error.to_string()))?;
    let number = op.importer.builder.constant(number);
    let inputs: Vec<Handle> = [number, goes_on].into_iter().chain(carried.iter().copied()).collect();
    let outputs = op.importer.inner_graph(body, &inputs, &op.node.site)?;
    match outputs.split_first() {
        Some((goes_on, rest)) if rest.len() >= carried.len() => {
            let (carried, elements) = rest.split_at(carried.len());
            Ok(Iteration { goes_on: *goes_on, carried: carried.to_vec(), elements: elements.to_vec() })
        }
        _ => Err(op.invalid(format!("its body gives {} values for {} carried ones", outputs.len(), carried.len()))),
    }
}

/// The last carried values, then the scan outputs. A loop whose trip count and conditions are constants is written out, any other becomes
/// one of the flow dialect.
pub(super) fn repeat(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let body = op.node.required("body", op.node.graph("body")?)?;
    let (count, condition) = (op.optional(0)?, op.optional(1)?);
    let mut carried = Vec::new();
    for index in 2..op.node.inputs.len() {
        let value = op.any(index)?;
        carried.push(value.ok_or_else(|| op.invalid(format!("input number {index} is missing")))?);
    }
    let is_constant = |handle: Option<Handle>| handle.is_none_or(|value| op.importer.builder.tensor(value).is_some());
    let undecided = match (is_constant(count), is_constant(condition)) {
        (false, _) => op.node.input(0).map(str::to_owned),
        (_, false) => op.node.input(1).map(str::to_owned),
        _ => settled::unsettled(op, body, &carried),
    };
    if let Some(value) = undecided {
        return repeat::repeat(op, body, repeat::Control { count, condition, value }, &carried);
    }
    let limit = match count {
        Some(_) => u64::try_from(op.known_int(0, "the number of iterations")?).unwrap_or(0),
        None => u64::MAX,
    };
    let mut runs = match condition {
        Some(_) => truth(op, &op.known_tensor(1, "whether the loop runs")?)?,
        None => true,
    };
    let count = carried.len();
    let mut goes_on = op.literal(DType::Bool, &[], &[1.0])?;
    let mut elements: Vec<Vec<Handle>> = Vec::new();
    let mut number = 0;
    while runs && number < limit {
        let done = iteration(op, body, number, goes_on, &carried)?;
        carried = done.carried;
        elements.push(done.elements);
        number += 1;
        goes_on = done.goes_on;
        let Some(next) = op.importer.builder.tensor(goes_on).cloned() else {
            if number == limit {
                break;
            }
            return Err(ImportError::NotKnown {
                site: Box::new(op.node.site.clone()),
                value: body.outputs[0].name.clone(),
                what: "the number of iterations",
            });
        };
        runs = truth(op, &next)?;
    }
    let scanned = op.node.outputs.len().saturating_sub(count);
    let mut outputs = carried.clone();
    if scanned > 0 && elements.is_empty() {
        // What no iteration gives has the type that an iteration would give; it is imported for that, and nothing uses it.
        let unused = iteration(op, body, 0, goes_on, &carried)?;
        for element in unused.elements {
            outputs.push(stack(op, &[element], 0, false)?);
            if let Some(whole) = outputs.last_mut() {
                *whole = op.slice(*whole, 0, 0.into(), 0.into())?;
            }
        }
        return Ok(outputs);
    }
    for index in 0..scanned {
        let list: Option<Vec<Handle>> = elements.iter().map(|all| all.get(index).copied()).collect();
        let list = list.ok_or_else(|| op.invalid("it has more outputs than its body gives"))?;
        outputs.push(stack(op, &list, 0, false)?);
    }
    Ok(outputs)
}

/// A scan over a known number of slices: the last state, then the scan outputs.
pub(super) fn scan(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let body = op.node.required("body", op.node.graph("body")?)?;
    let scanned = op.node.required("num_scan_inputs", op.node.int("num_scan_inputs")?)?;
    if op.since == 8 {
        return batched_scan(op, body, scanned);
    }
    let given = op.node.inputs.len();
    let scanned = usize::try_from(scanned).ok().filter(|count| (1..=given).contains(count));
    let scanned = scanned.ok_or_else(|| op.invalid("`num_scan_inputs` is not the number of inputs or less"))?;
    let mut inputs = op.inputs()?;
    let xs = inputs.split_off(given - scanned);
    let outputs = body.outputs.len().saturating_sub(inputs.len());
    let axes = |op: &OpImport<'_, '_, '_>, name: &str, count: usize| -> Result<Vec<i64>, ImportError> {
        let list = op.node.ints(name)?.map_or_else(|| vec![0; count], <[i64]>::to_vec);
        if list.len() == count { Ok(list) } else { Err(op.invalid(format!("`{name}` must have {count} entries"))) }
    };
    let input_axes = axes(op, "scan_input_axes", scanned)?;
    let input_reversed = axes(op, "scan_input_directions", scanned)?;
    let output_axes = axes(op, "scan_output_axes", outputs)?;
    let output_reversed = axes(op, "scan_output_directions", outputs)?;
    let mut slices = Vec::with_capacity(scanned);
    for (index, x) in xs.iter().enumerate() {
        let axis = op.axis(input_axes[index], op.rank(*x))?;
        slices.push(Slices { value: *x, axis, reversed: input_reversed[index] != 0 });
    }
    let (state, lists) = scan_over(op, body, inputs, &slices, outputs)?;
    let mut results = state;
    for (index, mut list) in lists.into_iter().enumerate() {
        if output_reversed[index] != 0 {
            list.reverse();
        }
        let rank = list.first().map_or(0, |element| op.rank(*element)) + 1;
        let axis = op.axis(output_axes[index], rank)?;
        results.push(stack(op, &list, axis, false)?);
    }
    Ok(results)
}

/// A tensor that is taken apart along an axis.
struct Slices {
    value: Handle,
    axis: usize,
    reversed: bool,
}

/// The last state, and the slices of each scan output in the order of the iterations.
fn scan_over(
    op: &mut OpImport<'_, '_, '_>,
    body: &Graph,
    mut state: Vec<Handle>,
    inputs: &[Slices],
    outputs: usize,
) -> Result<(Vec<Handle>, Vec<Vec<Handle>>), ImportError> {
    let mut length = None;
    for input in inputs {
        let own = op.fixed_dim(input.value, input.axis, "a scan")?;
        if *length.get_or_insert(own) != own {
            return Err(op.invalid(format!("scanned dimensions differ: {own} and another")));
        }
    }
    let length = length.unwrap_or(0);
    if length == 0 && outputs > 0 {
        return Err(op.unsupported("a scan over no slices"));
    }
    let mut lists = vec![Vec::new(); outputs];
    for step in 0..length {
        let mut values = state.clone();
        for input in inputs {
            let at = if input.reversed { length - 1 - step } else { step };
            values.push(op.element(input.value, input.axis, at)?);
        }
        let results = op.importer.inner_graph(body, &values, &op.node.site)?;
        if results.len() != state.len() + outputs {
            return Err(op.invalid(format!("its body gives {} values", results.len())));
        }
        let (next, elements) = results.split_at(state.len());
        state = next.to_vec();
        lists.iter_mut().zip(elements).for_each(|(list, element)| list.push(*element));
    }
    Ok((state, lists))
}

/// Version 8: all inputs have a batch dimension first, then scanned ones the dimension that they are taken apart along.
fn batched_scan(op: &mut OpImport<'_, '_, '_>, body: &Graph, scanned: i64) -> Outputs {
    if op.optional(0)?.is_some() {
        return Err(op.unsupported("`sequence_lens`"));
    }
    let mut inputs = (1..op.node.inputs.len()).map(|index| op.input(index)).collect::<Result<Vec<_>, _>>()?;
    let given = inputs.len();
    let scanned = usize::try_from(scanned).ok().filter(|count| (1..=given).contains(count));
    let scanned = scanned.ok_or_else(|| op.invalid("`num_scan_inputs` is not the number of inputs or less"))?;
    let xs = inputs.split_off(given - scanned);
    let outputs = body.outputs.len().saturating_sub(inputs.len());
    let reversed = op.node.ints("directions")?.map_or_else(|| vec![0; scanned], <[i64]>::to_vec);
    if reversed.len() != scanned {
        return Err(op.invalid(format!("`directions` must have {scanned} entries")));
    }
    op.rank_at_least(xs[0], 2)?;
    let batch = op.fixed_dim(xs[0], 0, "a scan")?;
    let mut results: Vec<Vec<Handle>> = vec![Vec::new(); inputs.len() + outputs];
    for row in 0..batch {
        let state = inputs.iter().map(|state| op.element(*state, 0, row)).collect::<Result<Vec<_>, _>>()?;
        let mut slices = Vec::with_capacity(scanned);
        for (x, reversed) in xs.iter().zip(&reversed) {
            slices.push(Slices { value: op.element(*x, 0, row)?, axis: 0, reversed: *reversed != 0 });
        }
        let (state, lists) = scan_over(op, body, state, &slices, outputs)?;
        let stacked = lists.iter().map(|list| stack(op, list, 0, false)).collect::<Result<Vec<_>, _>>()?;
        results.iter_mut().zip(state.into_iter().chain(stacked)).for_each(|(list, value)| list.push(value));
    }
    if batch == 0 {
        return Err(op.unsupported("a scan over an empty batch"));
    }
    results.iter().map(|list| stack(op, list, 0, false)).collect()
}
