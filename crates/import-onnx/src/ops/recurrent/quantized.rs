//! LSTM with integer weights: `com.microsoft.DynamicQuantizeLSTM`.
//!
//! Inputs of all steps are quantised together, the hidden state at every step, as DynamicQuantizeLinear does; sums are exact in i32.
//! Source: ONNX Runtime, contrib operators, `DynamicQuantizeLSTM`.

use tenon_graph_dialect::operators::{Contract, Function};
use tenon_tensor::DType;

use super::super::quantize::dynamic_of;
use super::Layer;
use super::cell::{Kind, StateProduct};
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

/// Products of the state, quantised anew at each step.
pub(super) struct QuantizedProduct {
    pub(super) weight: Quantized,
    pub(super) hidden: i64,
    pub(super) gates: usize,
}

impl StateProduct for QuantizedProduct {
    fn of(
        &mut self,
        op: &mut OpImport<'_, '_, '_>,
        state: Handle,
        first: usize,
        last: usize,
    ) -> Result<Handle, ImportError> {
        let weight = match (first, last) {
            (0, last) if last == self.gates => self.weight,
            _ => self.weight.columns(op, first as i64 * self.hidden, (last - first) as i64 * self.hidden)?,
        };
        weight.product(op, state)
    }
}

/// DynamicQuantizeLSTM: the weights' last dimension is that of the gates.
pub(in super::super) fn dynamic_quantize_lstm(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(12..=12)?;
    let layer = Layer::read(op, Kind::Lstm, op.input(1)?)?;
    let mut directions = Vec::with_capacity(layer.directions);
    for direction in 0..layer.directions as i64 {
        let input = Quantized::read(op, 1, 8, direction)?;
        let state = Quantized::read(op, 2, 10, direction)?;
        directions.push(Weights::Quantized { input, state });
    }
    layer.outputs(op, directions)
}
