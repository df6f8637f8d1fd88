//! RNN, GRU and LSTM.
//!
//! The product of all inputs with their weights is one contraction before the first step; the steps are a `graph.recurrence` a direction. Where a
//! row of the batch is shorter than the sequence its state stays as it is and its outputs are 0: so the reverse direction of a row begins at its
//! last valid step, and the last state of a row without steps is its first one. Narrow floats are computed in f32 and rounded once, in the outputs. Steps with quantised weights are written out.

mod activation;
mod direction;
mod quantized;

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Activation, Recurrence, RecurrenceKind};
use tenon_tensor::DType;

use super::sequence::stack;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, accumulator};
use activation::activations;
use direction::{Direction, Weights, run};

pub(super) use quantized::dynamic_quantize_lstm;

/// RNN.
pub(super) fn rnn(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=6)?;
    recurrent(op, RecurrenceKind::Rnn)
}

/// GRU.
pub(super) fn gru(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=6)?;
    recurrent(op, RecurrenceKind::Gru)
}

/// LSTM.
pub(super) fn lstm(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=8)?;
    recurrent(op, RecurrenceKind::Lstm)
}

fn recurrent(op: &mut OpImport<'_, '_, '_>, kind: RecurrenceKind) -> Outputs {
    let (weights, hidden) = (op.input(1)?, op.input(2)?);
    let layer = Layer::read(op, kind, weights)?;
    let mut directions = Vec::with_capacity(layer.directions);
    for direction in 0..layer.directions {
        let input = op.element(weights, 0, direction as i64)?;
        let state = op.element(hidden, 0, direction as i64)?;
        let (input, state) = (op.cast(input, layer.dtype)?, op.cast(state, layer.dtype)?);
        // ONNX stores both with the gates first.
        let input = op.transpose(input, vec![1, 0])?;
        let state = op.transpose(state, vec![1, 0])?;
        directions.push(Weights::Float { input, state });
    }
    layer.outputs(op, directions)
}

/// What the nodes of all kinds have in common, read.
struct Layer {
    kind: RecurrenceKind,
    /// Element type of the inputs and outputs.
    own: DType,
    /// Type that is computed in.
    dtype: DType,
    directions: usize,
    reverse_first: bool,
    batch_first: bool,
    /// `[steps, batch, inputs]`.
    x: Handle,
    batch: DimExpr,
    hidden: i64,
    activations: Vec<Activation>,
    clip: Option<f32>,
    linear_before_reset: bool,
    couples_gates: bool,
}

impl Layer {
    fn read(op: &mut OpImport<'_, '_, '_>, kind: RecurrenceKind, weights: Handle) -> Result<Layer, ImportError> {
        let direction = op.node.string_or("direction", "forward")?.to_ascii_lowercase();
        let (directions, reverse_first) = match direction.as_str() {
            "forward" => (1, false),
            "reverse" => (1, true),
            "bidirectional" => (2, false),
            other => {
                return Err(op.node.attribute_error(
                    "direction",
                    "forward, reverse or bidirectional",
                    format!("is {other:?}"),
                ));
            }
        };
        let batch_first = op.since >= 14 && op.node.flag_or("layout", false)?;
        let mut x = op.input(0)?;
        if op.rank(x) != 3 || op.rank(weights) != 3 || op.rank(op.input(2)?) != 3 {
            return Err(op.invalid("X, W and R must have three dimensions"));
        }
        if batch_first {
            x = op.transpose(x, vec![1, 0, 2])?;
        }
        let batch = op.dim(x, 1).extent.clone();
        let own = op.dtype(x);
        let dtype = accumulator(own);
        let x = op.cast(x, dtype)?;
        let hidden = op.node.int("hidden_size")?;
        let hidden = match hidden {
            Some(size) => size,
            None => {
                let r = op.input(2)?;
                // R is [directions, gates · hidden, hidden]; that of quantised layers is transposed.
                let axis = if op.node.domain().is_empty() { 2 } else { 1 };
                op.fixed_dim(r, axis, "a recurrence")?
            }
        };
        let shape = |axis: usize| op.dim(weights, axis).known().and_then(|size| i64::try_from(size).ok());
        let gates = if op.node.domain().is_empty() { shape(1) } else { shape(2) };
        let expected = hidden.checked_mul(kind.gates() as i64);
        if hidden < 1 || shape(0) != Some(directions as i64) || gates != expected {
            return Err(op.invalid(format!(
                "W is {} for {directions} directions, {} gates and a hidden size of {hidden}",
                op.ty(weights),
                kind.gates()
            )));
        }
        let clip = op.node.float("clip")?.filter(|clip| *clip > 0.0);
        let linear_before_reset = kind == RecurrenceKind::Gru && op.node.flag_or("linear_before_reset", false)?;
        let couples_gates = kind == RecurrenceKind::Lstm && op.node.flag_or("input_forget", false)?;
        let activations = activations(op, kind, directions)?;
        Ok(Layer {
            kind,
            own,
            dtype,
            directions,
            reverse_first,
            batch_first,
            x,
            batch,
            hidden,
            activations,
            clip,
            linear_before_reset,
            couples_gates,
        })
    }

    /// Part `direction` of an optional input, in the type that is computed in.
    fn part(
        &self,
        op: &mut OpImport<'_, '_, '_>,
        index: usize,
        direction: usize,
        axis: usize,
        shape: &[DimExpr],
    ) -> Result<Option<Handle>, ImportError> {
        let Some(value) = op.optional(index)? else { return Ok(None) };
        let part = op.element(value, axis, direction as i64)?;
        if op.extents(part) != shape {
            let shape: Vec<_> = shape.iter().map(ToString::to_string).collect();
            return Err(op.invalid(format!(
                "input number {index} is {}, where each direction has [{}]",
                op.ty(value),
                shape.join(", ")
            )));
        }
        Ok(Some(op.cast(part, self.dtype)?))
    }

    /// How many steps each row of the batch has; `None` where every row has all.
    fn lengths(&self, op: &mut OpImport<'_, '_, '_>) -> Result<Option<Handle>, ImportError> {
        let Some(lengths) = op.optional(4)? else { return Ok(None) };
        let extent = op.dim(self.x, 0).extent.clone();
        let steps = extent.as_constant();
        if let Some(tensor) = op.importer.builder.tensor(lengths).filter(|tensor| tensor.dtype().is_integer()) {
            let list: Vec<i64> = (0..tensor.element_count()).filter_map(|index| tensor.get_i64(index)).collect();
            let outside = |length: &&i64| **length < 0 || steps.is_some_and(|steps| **length > steps);
            if let Some(length) = list.iter().find(outside) {
                return Err(
                    op.invalid(format!("`sequence_lens` has {length}, and the sequences have 0 to {extent} steps"))
                );
            }
            if let (None, Some(most)) = (steps, list.into_iter().max()) {
                op.require_at_least(most, extent, "no sequence is longer than the input")?;
            }
        }
        let all = |tensor: &tenon_tensor::Tensor| {
            let has_all = |length: i64| steps.is_some_and(|steps| length >= steps);
            (0..tensor.element_count()).all(|index| tensor.get_i64(index).is_some_and(has_all))
        };
        if op.importer.builder.tensor(lengths).is_some_and(all) {
            return Ok(None);
        }
        op.reshape(lengths, vec![self.batch.clone()]).map(Some)
    }

    /// Runs all directions; outputs in the node's layout.
    fn outputs(&self, op: &mut OpImport<'_, '_, '_>, weights: Vec<Weights>) -> Outputs {
        let lengths = self.lengths(op)?;
        let state_axis = usize::from(self.batch_first);
        let state_shape = [self.batch.clone(), DimExpr::constant(self.hidden)];
        let gates = self.kind.gates() as i64;
        let (mut sequences, mut hiddens, mut cells) = (Vec::new(), Vec::new(), Vec::new());
        for (number, weights) in weights.into_iter().enumerate() {
            let bias = self.part(op, 3, number, 0, &[DimExpr::constant(2 * gates * self.hidden)])?;
            let hidden = self.part(op, 5, number, state_axis, &state_shape)?;
            let (mut memory, mut peepholes) = (None, None);
            if self.kind == RecurrenceKind::Lstm {
                memory = self.part(op, 6, number, state_axis, &state_shape)?;
                peepholes = self.part(op, 7, number, 0, &[DimExpr::constant(3 * self.hidden)])?;
            }
            let count = self.kind.activations();
            let recurrence = Recurrence {
                kind: self.kind,
                activations: self.activations[number * count..(number + 1) * count].to_vec(),
                clip: self.clip.map(f64::from),
                reverse: self.reverse_first || number == 1,
                linear_before_reset: self.linear_before_reset,
                couples_gates: self.couples_gates,
                optional: Vec::new(),
            };
            let direction = Direction {
                recurrence,
                units: self.hidden,
                batch: self.batch.clone(),
                dtype: self.dtype,
                weights,
                bias,
                hidden,
                memory,
                peepholes,
                lengths,
            };
            let done = run(op, self.x, direction)?;
            sequences.push(done.sequence);
            hiddens.push(done.hidden);
            cells.extend(done.memory);
        }
        let mut outputs = Vec::new();
        // Y is [steps, directions, batch, hidden], or with the batch first [batch, steps, directions, hidden].
        let whole = stack(op, &sequences, 1, false)?;
        let whole = op.cast(whole, self.own)?;
        outputs.push(if self.batch_first { op.transpose(whole, vec![2, 0, 1, 3])? } else { whole });
        for list in [hiddens, cells] {
            if !list.is_empty() {
                let state = stack(op, &list, state_axis, false)?;
                outputs.push(op.cast(state, self.own)?);
            }
        }
        Ok(outputs)
    }
}
