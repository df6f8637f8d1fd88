//! LSTM, GRU and plain recurrent layers.
//!
//! The products with the input are taken for all steps at once. The steps are a `graph.recurrence`, whose order of gates is that of ONNX. Those of
//! layers with a projection, and of narrow floats, are written out where they are few, else a loop over slices (`flow.scan`).

use tenon_flow_dialect::{Scan, Schedule, yield_values};
use tenon_graph_builder::Handle;
use tenon_graph_dialect::operators::{
    Activation, ActivationFunction, Concat, Function, Recurrence, RecurrenceKind, RecurrenceOperand,
};
use tenon_graph_dialect::{Operator, TensorType};
use tenon_tensor::DType;

use super::matmul::{contract, linear_of};
use crate::error::OpError;
use crate::import::op::{OpImport, Out, Results};

/// Most steps that are written out.
const MAX_UNROLLED: i64 = 64;

/// Which cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

impl Cell {
    fn gates(self) -> i64 {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
            _ => 1,
        }
    }

    /// The kind of `graph.recurrence`, and for each of its gates the place of PyTorch's: i, f, g, o of an LSTM, r, z, n of a GRU.
    fn kind(self) -> (RecurrenceKind, &'static [i64]) {
        match self {
            Cell::Lstm => (RecurrenceKind::Lstm, &[0, 3, 1, 2]),
            Cell::Gru => (RecurrenceKind::Gru, &[1, 0, 2]),
            Cell::Tanh | Cell::Relu => (RecurrenceKind::Rnn, &[0]),
        }
    }

    fn activations(self) -> Vec<Activation> {
        let functions: &[ActivationFunction] = match self {
            Cell::Lstm => &[ActivationFunction::Sigmoid, ActivationFunction::Tanh, ActivationFunction::Tanh],
            Cell::Gru => &[ActivationFunction::Sigmoid, ActivationFunction::Tanh],
            Cell::Tanh => &[ActivationFunction::Tanh],
            Cell::Relu => &[ActivationFunction::Relu],
        };
        functions.iter().map(|function| Activation { function: *function, alpha: 0.0, beta: 0.0 }).collect()
    }
}

/// Weights of one direction of one layer.
struct Weights {
    input: Handle,
    hidden: Handle,
    input_bias: Option<Handle>,
    hidden_bias: Option<Handle>,
    projection: Option<Handle>,
}

/// One step: the next state (hidden, and for an LSTM the cell) from the products with the input and the state.
fn step(
    op: &mut OpImport<'_, '_, '_>,
    cell: Cell,
    weights: &Weights,
    input: Handle,
    state: &[Handle],
) -> Result<Vec<Handle>, OpError> {
    let hidden = state[0];
    let product = linear_of(op, hidden, weights.hidden, weights.hidden_bias)?;
    let axis = op.rank(input) - 1;
    let size = op.at(input, axis).extent.div_exact(&cell.gates().into());
    let size = size.ok_or_else(|| op.invalid("the gates do not divide the weights"))?;
    let gate = |op: &mut OpImport<'_, '_, '_>, of: Handle, index: i64| -> Result<Handle, OpError> {
        let start = size.mul(&index.into()).ok_or_else(|| op.unsupported("sizes this large"))?;
        Ok(op.slice(of, axis, start, size.clone())?)
    };
    match cell {
        Cell::Lstm => {
            let sum = op.apply(Function::Add, &[input, product])?;
            let mut gates = [sum; 4];
            for (index, slot) in gates.iter_mut().enumerate() {
                let part = gate(op, sum, index as i64)?;
                *slot = op.apply(if index == 2 { Function::Tanh } else { Function::Sigmoid }, &[part])?;
            }
            let [enter, forget, new, leave] = gates;
            let kept = op.apply(Function::Multiply, &[forget, state[1]])?;
            let added = op.apply(Function::Multiply, &[enter, new])?;
            let memory = op.apply(Function::Add, &[kept, added])?;
            let shown = op.apply(Function::Tanh, &[memory])?;
            let mut next = op.apply(Function::Multiply, &[leave, shown])?;
            if let Some(projection) = weights.projection {
                next = contract(op, ["ab", "cb", "ac"], next, projection)?;
            }
            Ok(vec![next, memory])
        }
        Cell::Gru => {
            let mut gates = [input; 2];
            for (index, slot) in gates.iter_mut().enumerate() {
                let (x, h) = (gate(op, input, index as i64)?, gate(op, product, index as i64)?);
                let sum = op.apply(Function::Add, &[x, h])?;
                *slot = op.apply(Function::Sigmoid, &[sum])?;
            }
            let [reset, update] = gates;
            let (x, h) = (gate(op, input, 2)?, gate(op, product, 2)?);
            let damped = op.apply(Function::Multiply, &[reset, h])?;
            let sum = op.apply(Function::Add, &[x, damped])?;
            let new = op.apply(Function::Tanh, &[sum])?;
            // new + update · (hidden - new)
            let span = op.apply(Function::Subtract, &[hidden, new])?;
            let part = op.apply(Function::Multiply, &[update, span])?;
            Ok(vec![op.apply(Function::Add, &[new, part])?])
        }
        Cell::Tanh | Cell::Relu => {
            let sum = op.apply(Function::Add, &[input, product])?;
            if cell == Cell::Tanh {
                return Ok(vec![op.apply(Function::Tanh, &[sum])?]);
            }
            let zero = op.scalar(0.0, op.element(sum))?;
            Ok(vec![op.apply(Function::Max, &[sum, zero])?])
        }
    }
}

/// A direction of a layer over `[steps, batch, features]`: all hidden states in order of time, and the last state.
fn direction(
    op: &mut OpImport<'_, '_, '_>,
    cell: Cell,
    weights: &Weights,
    x: Handle,
    state: Vec<Handle>,
    reverse: bool,
) -> Result<(Handle, Vec<Handle>), OpError> {
    if weights.projection.is_none() && matches!(op.element(x), DType::F32 | DType::F64) {
        return kept(op, cell, weights, x, &state, reverse);
    }
    let products = linear_of(op, x, weights.input, weights.input_bias)?;
    let steps = op.at(products, 0).known().and_then(|steps| i64::try_from(steps).ok());
    let Some(steps) = steps.filter(|steps| (1..=MAX_UNROLLED).contains(steps)) else {
        return scan(op, cell, weights, products, state, reverse);
    };
    let shape = op.extents(products);
    let mut state = state;
    let mut shown = vec![None; steps as usize];
    let order: Vec<i64> = if reverse { (0..steps).rev().collect() } else { (0..steps).collect() };
    for time in order {
        let slice = op.slice(products, 0, time.into(), 1.into())?;
        let slice = op.reshape(slice, shape[1..].to_vec())?;
        state = step(op, cell, weights, slice, &state)?;
        let row = [1.into()].into_iter().chain(op.extents(state[0])).collect();
        shown[time as usize] = Some(op.reshape(state[0], row)?);
    }
    let parts: Vec<Handle> = shown.into_iter().flatten().collect();
    let all = match parts.as_slice() {
        [only] => *only,
        parts => op.emit_one(Concat { axis: 0 }, parts)?,
    };
    Ok((all, state))
}

/// The same as one operator.
fn kept(
    op: &mut OpImport<'_, '_, '_>,
    cell: Cell,
    weights: &Weights,
    x: Handle,
    state: &[Handle],
    reverse: bool,
) -> Result<(Handle, Vec<Handle>), OpError> {
    let (kind, order) = cell.kind();
    let size = op.at(weights.hidden, 1).extent.clone();
    // Parts of a weight along its first dimension, by the gates of the operator.
    let ordered = |op: &mut OpImport<'_, '_, '_>, weight: Handle| -> Result<Handle, OpError> {
        if order.len() == 1 {
            return Ok(weight);
        }
        let mut parts = Vec::with_capacity(order.len());
        for place in order {
            let start = size.mul(&(*place).into()).ok_or_else(|| op.unsupported("sizes this large"))?;
            parts.push(op.slice(weight, 0, start, size.clone())?);
        }
        Ok(op.emit_one(Concat { axis: 0 }, &parts)?)
    };
    let input = ordered(op, weights.input)?;
    let input_bias = weights.input_bias.map(|bias| ordered(op, bias)).transpose()?;
    let hidden = ordered(op, weights.hidden)?;
    let hidden = op.transpose(hidden, vec![1, 0])?;
    let mut products = linear_of(op, x, input, input_bias)?;
    let mut optional = vec![RecurrenceOperand::Hidden];
    let mut operands = vec![state[0]];
    if let (Cell::Lstm, Some(memory)) = (cell, state.get(1)) {
        optional.push(RecurrenceOperand::Memory);
        operands.push(*memory);
    }
    if let Some(bias) = weights.hidden_bias {
        let mut bias = ordered(op, bias)?;
        if cell == Cell::Gru {
            // That of the candidate is added to the product that the reset gate is applied to.
            let two = size.add(&size).ok_or_else(|| op.unsupported("sizes this large"))?;
            optional.push(RecurrenceOperand::ResetBias);
            operands.push(op.slice(bias, 0, two.clone(), size.clone())?);
            let first = op.slice(bias, 0, 0.into(), two)?;
            let zero = op.scalar(0.0, op.element(x))?;
            let zeros = op.broadcast(zero, vec![size.clone()])?;
            bias = op.emit_one(Concat { axis: 0 }, &[first, zeros])?;
        }
        products = op.apply(Function::Add, &[products, bias])?;
    }
    let recurrence = Recurrence {
        kind,
        activations: cell.activations(),
        clip: None,
        reverse,
        linear_before_reset: cell == Cell::Gru,
        couples_gates: false,
        optional,
    };
    let operands: Vec<Handle> = [products, hidden].into_iter().chain(operands).collect();
    let mut results = op.importer.builder.emit(&Operator::from(recurrence), &operands)?;
    let last = results.split_off(1);
    Ok((results[0], last))
}

/// The same as a loop over slices.
fn scan(
    op: &mut OpImport<'_, '_, '_>,
    cell: Cell,
    weights: &Weights,
    products: Handle,
    state: Vec<Handle>,
    reverse: bool,
) -> Result<(Handle, Vec<Handle>), OpError> {
    let builder = &mut op.importer.builder;
    let context = builder.context();
    let mut results = Vec::new();
    let mut operands = Vec::new();
    for value in &state {
        results.push(builder.ty(*value).to_type(context)?);
        operands.push(builder.materialise(*value)?);
    }
    // Weights become operations before the loop, not in each of its rounds.
    for weight in [Some(weights.hidden), weights.hidden_bias, weights.projection].into_iter().flatten() {
        builder.materialise(weight)?;
    }
    let steps = builder.ty(products).dims[0].clone();
    let hidden = builder.ty(state[0]).clone();
    let all = TensorType::new(hidden.dtype, [steps].into_iter().chain(hidden.dims).collect());
    results.push(all.to_type(context)?);
    let scanned = builder.materialise(products)?;
    let flow = Scan::build(
        builder.builder(),
        &operands,
        &[scanned],
        &results,
        (&[0], &[reverse]),
        (&[0], &[reverse]),
        Schedule::default(),
    )?;
    let arguments = builder.enter(flow.body)?;
    let Some((slice, carried)) = arguments.split_last() else { return Err(op.invalid("the loop has no arguments")) };
    let next = step(op, cell, weights, *slice, carried);
    let builder = &mut op.importer.builder;
    let yielded = next.and_then(|next| {
        let values: Vec<Handle> = next.iter().chain(&next[..1]).copied().collect();
        let values = values.into_iter().map(|value| builder.materialise(value)).collect::<Result<Vec<_>, _>>()?;
        yield_values(builder.builder(), &values).map_err(crate::error::Pt2Error::Ir)?;
        Ok(())
    });
    builder.leave();
    yielded?;
    let mut results =
        flow.op.results().into_iter().map(|value| builder.computed(value)).collect::<Result<Vec<_>, _>>()?;
    let all = results.pop().ok_or_else(|| OpError::Arguments("the loop has no result".to_owned()))?;
    Ok((all, results))
}

/// `lstm.input`, `gru.input`, `rnn_tanh.input` and `rnn_relu.input`.
pub(super) fn layers(op: &mut OpImport<'_, '_, '_>) -> Results {
    if op.overload != "input" {
        return Err(op.unsupported("packed sequences"));
    }
    let cell = match op.name {
        "lstm" => Cell::Lstm,
        "gru" => Cell::Gru,
        "rnn_relu" => Cell::Relu,
        _ => Cell::Tanh,
    };
    if op.flag("train")? && op.float("dropout")? > 0.0 {
        return Err(op.unsupported("dropout in training"));
    }
    let mut x = op.tensor("input")?;
    let batch_first = op.flag("batch_first")?;
    let without_batch = op.rank(x) == 2;
    if without_batch {
        let mut shape = op.extents(x);
        shape.insert(1, 1.into());
        x = op.reshape(x, shape)?;
    } else if batch_first {
        x = op.transpose(x, vec![1, 0, 2])?;
    }
    let states = match cell {
        Cell::Lstm => op.tensors("hx")?,
        _ => vec![op.tensor("hx")?],
    };
    let parameters = op.tensors("params")?;
    let (has_biases, bidirectional) = (op.flag("has_biases")?, op.flag("bidirectional")?);
    let layers = op.int("num_layers")?;
    let directions = if bidirectional { 2 } else { 1 };
    let each = parameters.len() / usize::try_from(layers.max(1)).unwrap_or(1) / directions;
    let plain = if has_biases { 4 } else { 2 };
    if !(1..=1024).contains(&layers)
        || (each != plain && each != plain + 1)
        || each * directions * layers as usize != parameters.len()
    {
        return Err(op.invalid(format!("{} weights for {layers} layers", parameters.len())));
    }
    if states.len() != if cell == Cell::Lstm { 2 } else { 1 } {
        return Err(op.invalid("the first states are not as many as the cell has"));
    }
    let mut last: Vec<Vec<Handle>> = vec![Vec::new(); states.len()];
    let mut weights = parameters.chunks(each);
    for layer in 0..layers {
        let mut outputs = Vec::new();
        for side in 0..directions as i64 {
            let list = weights.next().unwrap_or_default();
            let bias = |index: usize| if has_biases { list.get(index).copied() } else { None };
            let set = Weights {
                input: list[0],
                hidden: list[1],
                input_bias: bias(2),
                hidden_bias: bias(3),
                projection: if each > plain { list.last().copied() } else { None },
            };
            let mut first = Vec::new();
            for state in &states {
                let index = layer * directions as i64 + side;
                let mut state = *state;
                if op.rank(state) == 2 {
                    let mut shape = op.extents(state);
                    shape.insert(1, 1.into());
                    state = op.reshape(state, shape)?;
                }
                let slice = op.slice(state, 0, index.into(), 1.into())?;
                let shape = op.extents(slice)[1..].to_vec();
                first.push(op.reshape(slice, shape)?);
            }
            let (all, end) = direction(op, cell, &set, x, first, side == 1)?;
            outputs.push(all);
            for (list, state) in last.iter_mut().zip(end) {
                let row = [1.into()].into_iter().chain(op.extents(state)).collect();
                list.push(op.reshape(state, row)?);
            }
        }
        x = match outputs.as_slice() {
            [only] => *only,
            outputs => op.emit_one(Concat { axis: 2 }, outputs)?,
        };
    }
    if without_batch {
        let mut shape = op.extents(x);
        shape.remove(1);
        x = op.reshape(x, shape)?;
    } else if batch_first {
        x = op.transpose(x, vec![1, 0, 2])?;
    }
    let mut outs = vec![Out::New(x)];
    for list in last {
        let mut state = match list.as_slice() {
            [only] => *only,
            list => op.emit_one(Concat { axis: 0 }, list)?,
        };
        if without_batch {
            let mut shape = op.extents(state);
            shape.remove(1);
            state = op.reshape(state, shape)?;
        }
        outs.push(Out::New(state));
    }
    Ok(outs)
}
