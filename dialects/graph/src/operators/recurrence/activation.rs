//! Activation functions of recurrent layers.
//!
//! Source: ONNX LSTM: the functions with their parameters.

use crate::operators::Function;
use crate::operators::attributes::keywords;

use super::cell::CellCode;

keywords! {
    /// A function of one number; α and β are its parameters.
    ActivationFunction {
        /// α · x + β
        Affine = "affine",
        /// x above 0, else α · (eˣ - 1)
        Elu = "elu",
        /// max(0, min(1, α · x + β))
        HardSigmoid = "hard_sigmoid",
        /// x from 0 on, else α · x
        LeakyRelu = "leaky_relu",
        /// max(0, x)
        Relu = "relu",
        /// α · tanh(β · x)
        ScaledTanh = "scaled_tanh",
        /// 1 / (1 + e⁻ˣ)
        Sigmoid = "sigmoid",
        /// ln(1 + eˣ)
        Softplus = "softplus",
        /// x / (1 + |x|)
        Softsign = "softsign",
        /// tanh(x)
        Tanh = "tanh",
        /// x above α, else 0
        ThresholdedRelu = "thresholded_relu",
    }
}

/// A function with its parameters, 0 where it has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Activation {
    /// The function.
    pub function: ActivationFunction,
    /// α
    pub alpha: f64,
    /// β
    pub beta: f64,
}

impl Activation {
    /// The function applied to a value.
    ///
    /// # Errors
    /// Those of the code that computes.
    pub fn apply<C: CellCode>(self, code: &mut C, x: &C::Value) -> Result<C::Value, C::Error> {
        let x = x.clone();
        match self.function {
            ActivationFunction::Sigmoid => code.apply(Function::Sigmoid, &[x]),
            ActivationFunction::Tanh => code.apply(Function::Tanh, &[x]),
            ActivationFunction::Relu => {
                let zero = code.number(0.0)?;
                code.apply(Function::Max, &[x, zero])
            }
            ActivationFunction::Affine => self.line(code, x),
            ActivationFunction::LeakyRelu => {
                let (alpha, zero) = (code.number(self.alpha)?, code.number(0.0)?);
                let scaled = code.apply(Function::Multiply, &[x.clone(), alpha])?;
                let negative = code.apply(Function::Less, &[x.clone(), zero])?;
                code.apply(Function::Select, &[negative, scaled, x])
            }
            ActivationFunction::ThresholdedRelu => {
                let (alpha, zero) = (code.number(self.alpha)?, code.number(0.0)?);
                let above = code.apply(Function::Greater, &[x.clone(), alpha])?;
                code.apply(Function::Select, &[above, x, zero])
            }
            ActivationFunction::ScaledTanh => {
                let (alpha, beta) = (code.number(self.alpha)?, code.number(self.beta)?);
                let scaled = code.apply(Function::Multiply, &[x, beta])?;
                let curve = code.apply(Function::Tanh, &[scaled])?;
                code.apply(Function::Multiply, &[curve, alpha])
            }
            ActivationFunction::HardSigmoid => {
                let (zero, one) = (code.number(0.0)?, code.number(1.0)?);
                let line = self.line(code, x)?;
                let below = code.apply(Function::Min, &[line, one])?;
                code.apply(Function::Max, &[below, zero])
            }
            ActivationFunction::Elu => {
                let (alpha, zero) = (code.number(self.alpha)?, code.number(0.0)?);
                let curve = code.apply(Function::Expm1, &[x.clone()])?;
                let scaled = code.apply(Function::Multiply, &[curve, alpha])?;
                let negative = code.apply(Function::Less, &[x.clone(), zero])?;
                code.apply(Function::Select, &[negative, scaled, x])
            }
            ActivationFunction::Softsign => {
                let one = code.number(1.0)?;
                let size = code.apply(Function::Abs, &[x.clone()])?;
                let divisor = code.apply(Function::Add, &[size, one])?;
                code.apply(Function::Divide, &[x, divisor])
            }
            ActivationFunction::Softplus => {
                // max(x, 0) + ln(1 + e^-|x|), which does not overflow.
                let zero = code.number(0.0)?;
                let size = code.apply(Function::Abs, &[x.clone()])?;
                let negated = code.apply(Function::Negate, &[size])?;
                let small = code.apply(Function::Exp, &[negated])?;
                let rest = code.apply(Function::Log1p, &[small])?;
                let above = code.apply(Function::Max, &[x, zero])?;
                code.apply(Function::Add, &[above, rest])
            }
        }
    }

    /// α · x + β
    fn line<C: CellCode>(self, code: &mut C, x: C::Value) -> Result<C::Value, C::Error> {
        let (alpha, beta) = (code.number(self.alpha)?, code.number(self.beta)?);
        let scaled = code.apply(Function::Multiply, &[x, alpha])?;
        code.apply(Function::Add, &[scaled, beta])
    }
}
