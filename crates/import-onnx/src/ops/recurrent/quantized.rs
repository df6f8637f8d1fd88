//! LSTM with integer weights: `com.microsoft.DynamicQuantizeLSTM`.
//!
//! Inputs of all steps are quantised together, the hidden state at every step, as DynamicQuantizeLinear does; sums are exact in i32.
//! Source: ONNX Runtime, contrib operators, `DynamicQuantizeLSTM`.

use tenon_graph_dialect::operators::{CellCode, Contract, Function, RecurrenceKind};
use tenon_tensor::DType;

use super::super::quantize::dynamic_of;
use super::Layer;
use super::direction::Weights;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// A matrix of integers `[inputs, columns]` with its zero point taken off, and its scale: a scalar or a list along the columns.
#[derive(Clone, Copy)]
pub(super) struct Quantized {
    weight: Handle,
    scale: Handle,
}

impl Quantized {
    /// A direction's part of inputs `weight`, `scale`, `scale + 1`.
    fn read(
        op: &mut OpImport<'_, '_, '_>,
        weight: usize,
        scale: usize,
        direction: i64,
    ) -> Result<Quantized, ImportError> {
        let part = |op: &mut OpImport<'_, '_, '_>, index: usize| {
            let value = op.input(index)?;
            op.element(value, 0, direction)
        };
        let weight = part(op, weight)?;
        if op.dtype(weight).bits() != 8 || !op.dtype(weight).is_integer() {
            return Err(op.invalid(format!("weights must be of 8-bit integers, not {}", op.dtype(weight))));
        }
        let (scale, zero) = (part(op, scale)?, part(op, scale + 1)?);
        let (weight, zero) = (op.cast(weight, DType::I32)?, op.cast(zero, DType::I32)?);
        Ok(Quantized { weight: op.apply(Function::Subtract, &[weight, zero])?, scale })
    }

    /// Columns `start` to `start + size`.
    fn columns(self, op: &mut OpImport<'_, '_, '_>, start: i64, size: i64) -> Result<Quantized, ImportError> {
        let weight = op.slice(self.weight, 1, start.into(), size.into())?;
        let scale =
            if op.rank(self.scale) == 0 { self.scale } else { op.slice(self.scale, 0, start.into(), size.into())? };
        Ok(Quantized { weight, scale })
    }

    /// A value, quantised as a whole, times the matrix.
    pub(super) fn product(self, op: &mut OpImport<'_, '_, '_>, x: Handle) -> Result<Handle, ImportError> {
        let [quantized, scale, zero] = dynamic_of(op, x)?;
        let (quantized, zero) = (op.cast(quantized, DType::I32)?, op.cast(zero, DType::I32)?);
        let centred = op.apply(Function::Subtract, &[quantized, zero])?;
        let labels = if op.rank(x) == 3 { ("smk", "smn") } else { ("mk", "mn") };
        let contract = Contract {
            lhs: labels.0.to_owned(),
            rhs: "kn".to_owned(),
            result: labels.1.to_owned(),
            accumulate: DType::I32,
            dtype: DType::I32,
        };
        let sums = op.emit(contract, &[centred, self.weight])?;
        let sums = op.cast(sums, op.dtype(x))?;
        let factor = op.apply(Function::Multiply, &[scale, self.scale])?;
        op.apply(Function::Multiply, &[sums, factor])
    }
}

/// A step with products of the state, quantised anew at each step.
pub(super) struct QuantizedSteps<'o, 'i, 'n, 'm> {
    pub(super) op: &'o mut OpImport<'i, 'n, 'm>,
    /// What the step's input gives to all gates.
    pub(super) x: Handle,
    pub(super) weights: Quantized,
    pub(super) peepholes: Option<Handle>,
    pub(super) units: i64,
    pub(super) gates: usize,
    pub(super) dtype: DType,
}

impl QuantizedSteps<'_, '_, '_, '_> {
    /// A gate's part of a value that has several.
    fn part(&mut self, value: Handle, place: usize) -> Result<Handle, ImportError> {
        let axis = self.op.rank(value) - 1;
        self.op.slice(value, axis, (place as i64 * self.units).into(), self.units.into())
    }
}

impl CellCode for QuantizedSteps<'_, '_, '_, '_> {
    type Value = Handle;
    type Error = ImportError;

    fn apply(&mut self, function: Function, operands: &[Handle]) -> Result<Handle, ImportError> {
        self.op.apply(function, operands)
    }

    fn number(&mut self, value: f64) -> Result<Handle, ImportError> {
        self.op.scalar(value, self.dtype)
    }

    fn input(&mut self, gate: usize) -> Result<Handle, ImportError> {
        self.part(self.x, gate)
    }

    fn products(&mut self, state: &Handle, first: usize, last: usize) -> Result<Vec<Handle>, ImportError> {
        let weights = match (first, last) {
            (0, last) if last == self.gates => self.weights,
            _ => self.weights.columns(self.op, first as i64 * self.units, (last - first) as i64 * self.units)?,
        };
        let product = weights.product(self.op, *state)?;
        (0..last - first).map(|gate| self.part(product, gate)).collect()
    }

    fn reset_bias(&mut self) -> Result<Option<Handle>, ImportError> {
        Ok(None)
    }

    fn peephole(&mut self, gate: usize) -> Result<Option<Handle>, ImportError> {
        self.peepholes.map(|weights| self.part(weights, gate)).transpose()
    }
}

/// DynamicQuantizeLSTM: the weights' last dimension is that of the gates.
pub(in super::super) fn dynamic_quantize_lstm(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(12..=12)?;
    let layer = Layer::read(op, RecurrenceKind::Lstm, op.input(1)?)?;
    let mut directions = Vec::with_capacity(layer.directions);
    for direction in 0..layer.directions as i64 {
        let input = Quantized::read(op, 1, 8, direction)?;
        let state = Quantized::read(op, 2, 10, direction)?;
        directions.push(Weights::Quantized { input, state });
    }
    layer.outputs(op, directions)
}
