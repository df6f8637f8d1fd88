//! `graph.recurrence`: a recurrent layer over a sequence, in one direction.

mod activation;
mod cell;
mod steps;

pub use activation::{Activation, ActivationFunction};
pub use cell::{CellCode, CellState};
pub use steps::StepEmitter;

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::attributes::{Attributes, Keyword, keywords, push_flag};
use crate::operators::{attribute_error, dtype_error, shape_error};
use crate::{Dim, ErrorKind, OperatorKind, SemanticError, TensorType};

keywords! {
    /// Which cell a recurrent layer has.
    RecurrenceKind {
        /// One gate: the next state.
        Rnn = "rnn",
        /// Gates z (update), r (reset), h (candidate).
        Gru = "gru",
        /// Gates i (input), o (output), f (forget), c (candidate), and a memory beside the hidden state.
        Lstm = "lstm",
    }
}

impl RecurrenceKind {
    /// Number of gates.
    pub fn gates(self) -> usize {
        match self {
            RecurrenceKind::Rnn => 1,
            RecurrenceKind::Gru => 3,
            RecurrenceKind::Lstm => 4,
        }
    }

    /// Number of activation functions.
    pub fn activations(self) -> usize {
        match self {
            RecurrenceKind::Rnn => 1,
            RecurrenceKind::Gru => 2,
            RecurrenceKind::Lstm => 3,
        }
    }
}

keywords! {
    /// An operand that may be left out.
    RecurrenceOperand {
        /// The first hidden state `[B, H]`; zeros without it.
        Hidden = "hidden",
        /// The first memory of an LSTM `[B, H]`; zeros without it.
        Memory = "memory",
        /// Bias `[H]` of the state's product in gate h of a GRU whose reset comes after that product.
        ResetBias = "reset_bias",
        /// Weights `[3 · H]` of an LSTM's memory in its gates i, o, f.
        Peepholes = "peepholes",
        /// Steps `[B]` that each row has, an integer. Behind them its state stays and its outputs are 0.
        Lengths = "lengths",
    }
}

/// The steps of a recurrent layer one after another: what the inputs give to the gates, `[T, B, G · H]` with all biases but `reset_bias`, then the
/// weights of the hidden state, `[H, G · H]`, then the operands of `optional` in its order.
///
/// Results: the hidden states of all steps `[T, B, H]` in the order of time, the last one `[B, H]`, and the last memory of an LSTM `[B, H]`. All
/// values but the lengths are of one type, f32 or f64.
///
/// Source: ONNX RNN, GRU, LSTM: the equations.
#[derive(Debug, Clone, PartialEq)]
pub struct Recurrence {
    /// The cell.
    pub kind: RecurrenceKind,
    /// Its functions, in the order of ONNX: f; f, g; f, g, h.
    pub activations: Vec<Activation>,
    /// Bound of the magnitude of what gates' functions take.
    pub clip: Option<f64>,
    /// From the last step to the first.
    pub reverse: bool,
    /// The reset gate of a GRU is applied to the state's product instead of the state.
    pub linear_before_reset: bool,
    /// The forget gate of an LSTM is one less the input gate.
    pub couples_gates: bool,
    /// Which optional operands follow, and in which order.
    pub optional: Vec<RecurrenceOperand>,
}

impl Recurrence {
    /// Place of an optional operand.
    pub fn operand(&self, which: RecurrenceOperand) -> Option<usize> {
        self.optional.iter().position(|own| *own == which).map(|place| place + 2)
    }
}

impl OperatorKind for Recurrence {
    const NAME: &'static str = "graph.recurrence";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        let words = |name: &str| -> Result<Vec<String>, SemanticError> {
            let list = op.attribute(name).and_then(Attribute::as_array);
            let list = list.and_then(|list| list.into_iter().map(Attribute::as_string).collect());
            list.ok_or_else(|| attribute_error(Self::NAME, format!("attribute `{name}` must be an array of strings")))
        };
        let parameters = attributes.floats("parameters")?.unwrap_or_default();
        let parameter = |place: usize| parameters.get(place).copied().unwrap_or(0.0);
        let functions = words("activations")?;
        let activations = functions.iter().enumerate().map(|(place, name)| {
            let function = word(ActivationFunction::ALL, name)?;
            Ok(Activation { function, alpha: parameter(2 * place), beta: parameter(2 * place + 1) })
        });
        Ok(Recurrence {
            kind: attributes.keyword("kind")?,
            activations: activations.collect::<Result<_, SemanticError>>()?,
            clip: if attributes.flag("clip") { Some(attributes.float("clip")?) } else { None },
            reverse: attributes.flag("reverse"),
            linear_before_reset: attributes.flag("linear_before_reset"),
            couples_gates: attributes.flag("couples_gates"),
            optional: words("optional")?
                .iter()
                .map(|name| word(RecurrenceOperand::ALL, name))
                .collect::<Result<_, _>>()?,
        })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let functions: Vec<_> = self.activations.iter().map(|own| context.string(own.function.name())).collect();
        let optional: Vec<_> = self.optional.iter().map(|operand| context.string(operand.name())).collect();
        let mut list = vec![
            ("kind", context.string(self.kind.name())),
            ("activations", context.array(&functions)),
            ("optional", context.array(&optional)),
        ];
        let parameters: Vec<f64> = self.activations.iter().flat_map(|own| [own.alpha, own.beta]).collect();
        if parameters.iter().any(|parameter| *parameter != 0.0) {
            list.push(("parameters", context.f64_array(&parameters)));
        }
        list.extend(self.clip.map(|clip| ("clip", context.f64(clip))));
        push_flag(&mut list, "reverse", self.reverse, context);
        push_flag(&mut list, "linear_before_reset", self.linear_before_reset, context);
        push_flag(&mut list, "couples_gates", self.couples_gates, context);
        list
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let count = 2 + self.optional.len();
        if operands.len() != count {
            let message = format!("takes {count} operands, not {}", operands.len());
            return Err(SemanticError::new(ErrorKind::Arity, Self::NAME, message));
        }
        if self.activations.len() != self.kind.activations() {
            let message = format!("{} has {} activation functions", self.kind.name(), self.kind.activations());
            return Err(attribute_error(Self::NAME, message));
        }
        if self.clip.is_some_and(|clip| clip.is_nan() || clip < 0.0) {
            return Err(attribute_error(Self::NAME, "`clip` must not be negative"));
        }
        let belongs = |operand: RecurrenceOperand| match operand {
            RecurrenceOperand::Memory | RecurrenceOperand::Peepholes => self.kind == RecurrenceKind::Lstm,
            RecurrenceOperand::ResetBias => self.kind == RecurrenceKind::Gru && self.linear_before_reset,
            RecurrenceOperand::Hidden | RecurrenceOperand::Lengths => true,
        };
        for (place, operand) in self.optional.iter().enumerate() {
            if !belongs(*operand) || self.optional[..place].contains(operand) {
                let message = format!("operand `{}` does not belong to this {}", operand.name(), self.kind.name());
                return Err(attribute_error(Self::NAME, message));
            }
        }
        let (x, weights) = (&operands[0], &operands[1]);
        if ![DType::F32, DType::F64].contains(&x.dtype) {
            return Err(dtype_error(Self::NAME, "the input", "f32 or f64", x.dtype));
        }
        let gates = self.kind.gates() as u64;
        let hidden = weights.dims.first().and_then(Dim::known).filter(|_| weights.rank() == 2);
        let Some((hidden, whole)) = hidden.and_then(|hidden| Some((hidden, hidden.checked_mul(gates)?))) else {
            return Err(shape_error(Self::NAME, format!("the weights are {weights}, not [hidden, {gates} · hidden]")));
        };
        if x.rank() != 3 || x.dims[2].known() != Some(whole) || weights.dims[1].known() != Some(whole) || hidden == 0 {
            return Err(shape_error(
                Self::NAME,
                format!("{x} and weights {weights} do not fit {gates} gates of a hidden size of {hidden}"),
            ));
        }
        let batch = &x.dims[1];
        for (operand, ty) in self.optional.iter().zip(&operands[2..]) {
            let expected = match operand {
                RecurrenceOperand::Hidden | RecurrenceOperand::Memory => vec![batch.clone(), Dim::fixed(hidden)],
                RecurrenceOperand::ResetBias => vec![Dim::fixed(hidden)],
                RecurrenceOperand::Peepholes => vec![Dim::fixed(3 * hidden)],
                RecurrenceOperand::Lengths => vec![batch.clone()],
            };
            let fits = ty.rank() == expected.len() && !ty.dims.iter().zip(&expected).any(|(own, dim)| own.differs(dim));
            if !fits {
                let expected: Vec<_> = expected.iter().map(ToString::to_string).collect();
                let message = format!("operand `{}` is {ty}, not of [{}]", operand.name(), expected.join(", "));
                return Err(shape_error(Self::NAME, message));
            }
            let is_number = match operand {
                RecurrenceOperand::Lengths => ty.dtype.is_integer() && ty.dtype != DType::Bool,
                _ => ty.dtype == x.dtype,
            };
            if !is_number {
                let expected = if *operand == RecurrenceOperand::Lengths { "an integer" } else { "that of the input" };
                return Err(dtype_error(Self::NAME, operand.name(), expected, ty.dtype));
            }
        }
        if weights.dtype != x.dtype {
            return Err(dtype_error(Self::NAME, "the weights", "that of the input", weights.dtype));
        }
        let state = TensorType::new(x.dtype, vec![batch.clone(), Dim::fixed(hidden)]);
        let sequence = TensorType::new(x.dtype, vec![x.dims[0].clone(), batch.clone(), Dim::fixed(hidden)]);
        let mut results = vec![sequence, state.clone()];
        if self.kind == RecurrenceKind::Lstm {
            results.push(state);
        }
        Ok(results)
    }
}

fn word<T: Keyword>(all: &[T], name: &str) -> Result<T, SemanticError> {
    let found = all.iter().find(|value| value.word() == name).copied();
    found.ok_or_else(|| {
        let words: Vec<_> = all.iter().map(|value| value.word()).collect();
        attribute_error(Recurrence::NAME, format!("`{name}` is none of {}", words.join(", ")))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn gru(optional: &[RecurrenceOperand]) -> Recurrence {
        let own = |function| Activation { function, alpha: 0.0, beta: 0.0 };
        Recurrence {
            kind: RecurrenceKind::Gru,
            activations: vec![own(ActivationFunction::Sigmoid), own(ActivationFunction::Tanh)],
            clip: None,
            reverse: false,
            linear_before_reset: true,
            couples_gates: false,
            optional: optional.to_vec(),
        }
    }

    #[test]
    fn operands_fit_together() {
        let t = |dtype, shape: &[u64]| TensorType::fixed(dtype, shape);
        let (x, weights) = (t(DType::F32, &[5, 2, 12]), t(DType::F32, &[4, 12]));
        let infer = |optional: &[RecurrenceOperand], more: &[TensorType]| {
            let operands = [&[x.clone(), weights.clone()], more].concat();
            gru(optional).infer(&operands).map_err(|error| error.code())
        };
        use RecurrenceOperand::*;
        let results = vec![t(DType::F32, &[5, 2, 4]), t(DType::F32, &[2, 4])];
        assert_eq!(infer(&[], &[]), Ok(results.clone()));
        let all = [t(DType::I32, &[2]), t(DType::F32, &[4]), t(DType::F32, &[2, 4])];
        assert_eq!(infer(&[Lengths, ResetBias, Hidden], &all), Ok(results));
        assert_eq!(infer(&[Hidden], &[]), Err("E0301"));
        assert_eq!(infer(&[Hidden], &[t(DType::F32, &[3, 4])]), Err("E0303"));
        assert_eq!(infer(&[Hidden], &[t(DType::F64, &[2, 4])]), Err("E0302"));
        assert_eq!(infer(&[Lengths], &[t(DType::F32, &[2])]), Err("E0302"));
        // A GRU has no memory, and an operand stands once.
        assert_eq!(infer(&[Memory], &[t(DType::F32, &[2, 4])]), Err("E0304"));
        let twice = [t(DType::F32, &[2, 4]), t(DType::F32, &[2, 4])];
        assert_eq!(infer(&[Hidden, Hidden], &twice), Err("E0304"));
        let narrow = [t(DType::F16, &[5, 2, 12]), t(DType::F16, &[4, 12])];
        assert_eq!(gru(&[]).infer(&narrow).unwrap_err().code(), "E0302");
        let odd = [t(DType::F32, &[5, 2, 11]), t(DType::F32, &[4, 12])];
        assert_eq!(gru(&[]).infer(&odd).unwrap_err().code(), "E0303");
    }
}
