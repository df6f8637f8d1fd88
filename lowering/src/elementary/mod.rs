//! Elementary functions of Tenon's own: what operations without an instruction become.
//!
//! No library of the device's vendor is linked. Each function is written once as data and read twice: on the host, where its error is
//! measured over the whole range of f32, and into MLIR. Values of f16 and bf16 are computed in f32 and rounded once. Some functions exist
//! in f64 too ([`double`]).

mod double;
mod emit;
mod error_function;
mod exponential;
mod expression;
mod host;
mod hyperbolic;
mod inverse;
mod logarithm;
mod power;
mod remainder;
mod trigonometric;

use std::sync::LazyLock;

use tenon_ir::{Builder, IrError, Module, Op, Value};
use tenon_tensor::DType;

use expression::{F, Function, Graph};

/// A function with its operation and its bound.
pub struct Elementary {
    /// Name of the operation.
    pub operation: &'static str,
    /// Number of arguments.
    pub arity: usize,
    /// The greatest error of the f32 function, in units in the last place of the correctly rounded result, over all arguments.
    pub max_ulp: f64,
    function: Function,
    /// The f64 function, with its greatest error over the arguments tried.
    double: Option<(f64, Function)>,
}

/// How a function of one or two arguments is made.
enum Maker {
    One(for<'g> fn(&'g Graph, F<'g>) -> F<'g>),
    Two(for<'g> fn(&'g Graph, F<'g>, F<'g>) -> F<'g>),
}

/// Every function: its operation, its bound, how it is made.
const TABLE: [(&str, f64, Maker); 25] = [
    ("arith.remf", 0.0, Maker::Two(remainder::remf)),
    ("math.acos", 2.0, Maker::One(inverse::acos)),
    ("math.acosh", 2.5, Maker::One(hyperbolic::acosh)),
    ("math.asin", 2.5, Maker::One(inverse::asin)),
    ("math.asinh", 3.0, Maker::One(hyperbolic::asinh)),
    ("math.atan", 2.0, Maker::One(inverse::atan)),
    ("math.atan2", 2.0, Maker::Two(inverse::atan2)),
    ("math.atanh", 3.0, Maker::One(hyperbolic::atanh)),
    ("math.cbrt", 1.0, Maker::One(power::cbrt)),
    ("math.cos", 3.0, Maker::One(trigonometric::cos)),
    ("math.cosh", 2.0, Maker::One(hyperbolic::cosh)),
    ("math.erf", 2.0, Maker::One(error_function::erf)),
    ("math.exp", 1.0, Maker::One(exponential::exp)),
    ("math.exp2", 1.0, Maker::One(exponential::exp2)),
    ("math.expm1", 2.0, Maker::One(exponential::expm1)),
    ("math.log", 1.0, Maker::One(logarithm::log)),
    ("math.log10", 2.0, Maker::One(logarithm::log10)),
    ("math.log1p", 2.0, Maker::One(logarithm::log1p)),
    ("math.log2", 2.0, Maker::One(logarithm::log2)),
    ("math.powf", 2.0, Maker::Two(power::powf)),
    ("math.rsqrt", 2.0, Maker::One(power::rsqrt)),
    ("math.sin", 3.0, Maker::One(trigonometric::sin)),
    ("math.sinh", 2.0, Maker::One(hyperbolic::sinh)),
    ("math.tan", 4.0, Maker::One(trigonometric::tan)),
    ("math.tanh", 2.0, Maker::One(hyperbolic::tanh)),
];

static FUNCTIONS: LazyLock<Vec<Elementary>> = LazyLock::new(|| {
    let all = TABLE.into_iter().map(|(operation, max_ulp, maker)| {
        let (arity, function) = match maker {
            Maker::One(make) => (1, Graph::function(1, |g, x| make(g, x[0]))),
            Maker::Two(make) => (2, Graph::function(2, |g, x| make(g, x[0], x[1]))),
        };
        Elementary { operation, arity, max_ulp, function, double: double::of(operation) }
    });
    all.collect()
});

impl Elementary {
    /// Every function, by name.
    pub fn all() -> &'static [Elementary] {
        &FUNCTIONS
    }

    /// The function of an operation.
    pub fn of(operation: &str) -> Option<&'static Elementary> {
        FUNCTIONS.iter().find(|function| function.operation == operation)
    }

    /// The value that the device computes, bit for bit (of NaN, some NaN). `arguments` are [`Self::arity`] values.
    pub fn evaluate(&self, arguments: &[f32]) -> f32 {
        let bits: Vec<u64> = arguments.iter().map(|argument| u64::from(argument.to_bits())).collect();
        f32::from_bits(host::evaluate(&self.function, &bits, &mut Vec::new()) as u32)
    }

    /// The same in f64, where the function exists.
    pub fn evaluate_f64(&self, arguments: &[f64]) -> Option<f64> {
        let (_, function) = self.double.as_ref()?;
        let bits: Vec<u64> = arguments.iter().map(|argument| argument.to_bits()).collect();
        Some(f64::from_bits(host::evaluate(function, &bits, &mut Vec::new())))
    }

    /// The greatest error of the f64 function, in units in the last place, where the function exists.
    pub fn max_ulp_f64(&self) -> Option<f64> {
        Some(self.double.as_ref()?.0)
    }

    /// The values for many arguments of a function of one.
    pub fn evaluate_all(&self, arguments: impl IntoIterator<Item = f32>, mut each: impl FnMut(f32, f32)) {
        let mut room = Vec::new();
        for argument in arguments {
            let bits = host::evaluate(&self.function, &[u64::from(argument.to_bits())], &mut room);
            each(argument, f32::from_bits(bits as u32));
        }
    }

    fn emit<'m>(&self, at: Builder<'m>, arguments: &[Value<'m>]) -> Result<Value<'m>, IrError> {
        emit::emit(&self.function, at, arguments)
    }

    fn emit_f64<'m>(&self, at: Builder<'m>, arguments: &[Value<'m>]) -> Option<Result<Value<'m>, IrError>> {
        let (_, function) = self.double.as_ref()?;
        Some(emit::emit(function, at, arguments))
    }
}

/// An operation that cannot be replaced.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ElementaryError {
    /// MLIR refused what was built.
    #[error(transparent)]
    Ir(#[from] IrError),
    /// The element type has no such function.
    #[error("`{operation}` on {element}: the function exists for f32, f16 and bf16{}", from(nodes))]
    Element {
        /// The operation.
        operation: String,
        /// The type that it was asked for.
        element: String,
        /// Nodes of the model that it comes from.
        nodes: Vec<String>,
    },
}

fn from(nodes: &[String]) -> String {
    if nodes.is_empty() { String::new() } else { format!(" (from {})", nodes.join(", ")) }
}

impl ElementaryError {
    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            ElementaryError::Ir(error) => error.code(),
            ElementaryError::Element { .. } => "E0516",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        match self {
            ElementaryError::Ir(error) => error.help(),
            ElementaryError::Element { .. } => Some("convert to f32 before the function and back after it".to_owned()),
        }
    }
}

/// Replaces every operation of the module that is an elementary function by its code.
pub fn replace(module: &Module<'_>) -> Result<(), ElementaryError> {
    for op in module.op().walk() {
        if let Some(function) = Elementary::of(&op.name()) {
            replace_one(op, function)?;
        }
    }
    Ok(())
}

fn replace_one<'m>(op: Op<'m>, function: &Elementary) -> Result<(), ElementaryError> {
    let refuse =
        |element: String| Err(ElementaryError::Element { operation: op.name(), element, nodes: op.location().names() });
    let (Some(result), Some(at)) = (op.result(0), Builder::before(op)) else {
        return refuse("nothing".to_owned());
    };
    let context = at.context();
    let single = context.f32_type();
    let value = match result.ty().dtype() {
        Some(DType::F32) => function.emit(at, &op.operands())?,
        Some(DType::F16 | DType::BF16) => {
            let wide = op
                .operands()
                .into_iter()
                .map(|value| at.op("arith.extf").operands(&[value]).results(&[single]).value())
                .collect::<Result<Vec<_>, _>>()?;
            let value = function.emit(at, &wide)?;
            at.op("arith.truncf").operands(&[value]).results(&[result.ty()]).value()?
        }
        Some(DType::F64) => match function.emit_f64(at, &op.operands()) {
            Some(value) => value?,
            None => return refuse(result.ty().to_string()),
        },
        _ => return refuse(result.ty().to_string()),
    };
    op.replace_all_uses(&[value]);
    op.erase()?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
