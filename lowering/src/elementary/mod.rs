//! Elementary functions of Tenon's own: what operations without an instruction become.
//!
//! No library of the device's vendor is linked. Each function is written once as data and read twice: on the host, where its error is
//! measured over the whole range of its type, and into MLIR. Functions exist in f32 and in f64 ([`double`]); values of f16 and bf16 are
//! computed in f32 and rounded once; where a function has a form for that, schedules mark the operation `fastmath<afn>`, which is also
//! how they ask for the approximate instructions that they correct themselves. Bounds of all are in
//! [`Elementary::bounds`] and `docs/elementary-functions.md`.

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
mod table;
mod trigonometric;

use std::sync::LazyLock;

use tenon_ir::{Builder, IrError, Module, Op};
use tenon_tensor::DType;

use expression::Function;
use table::Definition;

/// A function with its operation and its bounds.
pub struct Elementary {
    /// Name of the operation.
    pub operation: &'static str,
    /// Number of arguments.
    pub arity: usize,
    /// The greatest errors.
    pub bounds: Bounds,
    single: Function,
    double: Function,
    /// In f32, for results that are rounded to 16 bits, where that is less work.
    for_16_bits: Option<Function>,
    /// In f32, for arguments that are not above 0 ([`NONPOSITIVE`]), where that is less work.
    of_nonpositive: Option<Function>,
}

/// Attribute of an operation whose argument is not above 0 and whose result is added to 1 or more: a result below 2^-126 may be 0.
pub const NONPOSITIVE: &str = "hw.nonpositive";

/// Operations of f32 with `fastmath<afn>` that are one instruction of the device, in terms of its last operand. Source: PTX ISA, "ex2", "rcp",
/// "rsqrt": at most 2 ulp, 1 ulp and 2^-22.9; subnormal numbers are 0.
const INSTRUCTIONS: [(&str, &str); 3] =
    [("math.exp2", "ex2.approx.ftz.f32"), ("arith.divf", "rcp.approx.ftz.f32"), ("math.rsqrt", "rsqrt.approx.ftz.f32")];

/// The greatest error of a function over all arguments, in each element type: units in the last place between what it gives and the exact
/// value. 0.5 is correct rounding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// In f32.
    pub f32: f64,
    /// In f64.
    pub f64: f64,
    /// In f16.
    pub f16: f64,
    /// In bf16.
    pub bf16: f64,
}

impl Bounds {
    /// f16 and bf16 round the value of f32, whose last place is 2^-13 and 2^-16 of theirs, or less.
    fn of(single: f64, double: f64) -> Self {
        let rounded = |places: i32| if single == 0.0 { 0.0 } else { 0.5 + single / 2f64.powi(places) };
        Bounds { f32: single, f64: double, f16: rounded(13), bf16: rounded(16) }
    }
}

/// Every function of f32.
fn definitions() -> impl Iterator<Item = Definition> {
    let exponentials = exponential::FUNCTIONS.into_iter().chain(logarithm::FUNCTIONS).chain(power::FUNCTIONS);
    let circular = trigonometric::FUNCTIONS.into_iter().chain(inverse::FUNCTIONS).chain(hyperbolic::FUNCTIONS);
    exponentials.chain(circular).chain(error_function::FUNCTIONS).chain(remainder::FUNCTIONS)
}

static FUNCTIONS: LazyLock<Vec<Elementary>> = LazyLock::new(|| {
    let mut all: Vec<Elementary> = definitions()
        .filter_map(|single| {
            let double = double::definitions().find(|double| double.operation == single.operation)?;
            let mut bounds = Bounds::of(single.max_ulp, double.max_ulp);
            let mut for_16_bits = None;
            let of_nonpositive = (single.operation == "math.exp")
                .then(|| expression::Graph::function(1, |g, x| exponential::exp_of_nonpositive(g, x[0])));
            if single.operation == "math.erf" {
                (bounds.f16, bounds.bf16) = (0.51, 0.501);
                for_16_bits = Some(expression::Graph::function(1, |g, x| error_function::erf_for_16_bits(g, x[0])));
            }
            Some(Elementary {
                operation: single.operation,
                arity: single.arity(),
                bounds,
                single: single.function(),
                double: double.function(),
                for_16_bits,
                of_nonpositive,
            })
        })
        .collect();
    all.sort_by_key(|function| function.operation);
    all
});

/// Bounds of the operators that are made of elementary functions and instructions, in f32 and f64, by the function's name in the
/// graph dialect: the remainder moved to the divisor's side, `1/x`, `1/√x`, `1/(1 + e⁻ˣ)`; and of the square root, an instruction.
pub const COMPOSED: [(&str, f64, f64); 5] =
    [("modulo", 0.5, 0.5), ("reciprocal", 0.5, 0.5), ("rsqrt", 1.5, 1.5), ("sigmoid", 2.5, 2.5), ("sqrt", 0.5, 0.5)];

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
        f32::from_bits(host::evaluate(&self.single, &bits, &mut Vec::new()) as u32)
    }

    /// The same in f64.
    pub fn evaluate_f64(&self, arguments: &[f64]) -> f64 {
        let bits: Vec<u64> = arguments.iter().map(|argument| argument.to_bits()).collect();
        f64::from_bits(host::evaluate(&self.double, &bits, &mut Vec::new()))
    }

    /// The values for many arguments of a function of one.
    pub fn evaluate_all(&self, arguments: impl IntoIterator<Item = f32>, mut each: impl FnMut(f32, f32)) {
        let mut room = Vec::new();
        for argument in arguments {
            let bits = host::evaluate(&self.single, &[u64::from(argument.to_bits())], &mut room);
            each(argument, f32::from_bits(bits as u32));
        }
    }
}

/// Bounds by the name of the graph dialect's function, which is that of the operation for all but a few.
pub fn bounds_of(function: &str) -> Option<Bounds> {
    let operation = match function {
        "remainder" => "arith.remf".to_owned(),
        "power" => "math.powf".to_owned(),
        other => format!("math.{other}"),
    };
    let composed = COMPOSED.iter().find(|(name, ..)| *name == function);
    composed
        .map(|(_, single, double)| Bounds::of(*single, *double))
        .or_else(|| Elementary::of(&operation).map(|elementary| elementary.bounds))
}

/// An operation that cannot be replaced.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ElementaryError {
    /// MLIR refused what was built.
    #[error(transparent)]
    Ir(#[from] IrError),
    /// The element type has no such function.
    #[error("`{operation}` on {element}: the function exists for f16, bf16, f32 and f64{}", from(nodes))]
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
        let name = op.name();
        let instruction = INSTRUCTIONS.iter().find(|(operation, _)| *operation == name);
        if let Some((_, instruction)) = instruction
            && op.result(0).and_then(|result| result.ty().dtype()) == Some(DType::F32)
            && is_approximate(op)
        {
            replace_by_instruction(op, instruction)?;
        } else if let Some(function) = Elementary::of(&name) {
            replace_one(op, function)?;
        }
    }
    Ok(())
}

/// Whether an approximation was asked for (`fastmath<afn>`): what it is rounded to has 16 bits.
fn is_approximate(op: Op<'_>) -> bool {
    op.attribute("fastmath").is_some_and(|flags| flags.to_string().contains("afn"))
}

/// A function of the last operand by an instruction; a quotient is the dividend times it.
fn replace_by_instruction(op: Op<'_>, instruction: &str) -> Result<(), ElementaryError> {
    let operands = op.operands();
    let (Some(at), Some(argument)) = (Builder::before(op), operands.last()) else { return Ok(()) };
    let context = at.context();
    let mut value = at
        .op("llvm.inline_asm")
        .operands(&[*argument])
        .attribute("asm_string", context.string(&format!("{instruction} $0, $1;")))
        .attribute("constraints", context.string("=f,f"))
        .results(&[context.f32_type()])
        .value()?;
    if let [dividend, _] = operands.as_slice() {
        value = at.op("arith.mulf").operands(&[*dividend, value]).results(&[context.f32_type()]).value()?;
    }
    op.replace_all_uses(&[value]);
    op.erase()?;
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
        Some(DType::F32) if is_approximate(op) && function.for_16_bits.is_some() => {
            emit::emit(function.for_16_bits.as_ref().unwrap_or(&function.single), at, &op.operands())?
        }
        Some(DType::F32) if op.attribute(NONPOSITIVE).is_some() => {
            emit::emit(function.of_nonpositive.as_ref().unwrap_or(&function.single), at, &op.operands())?
        }
        Some(DType::F32) => emit::emit(&function.single, at, &op.operands())?,
        Some(DType::F16 | DType::BF16) => {
            let wide = op
                .operands()
                .into_iter()
                .map(|value| at.op("arith.extf").operands(&[value]).results(&[single]).value())
                .collect::<Result<Vec<_>, _>>()?;
            let value = emit::emit(&function.single, at, &wide)?;
            at.op("arith.truncf").operands(&[value]).results(&[result.ty()]).value()?
        }
        Some(DType::F64) => emit::emit(&function.double, at, &op.operands())?,
        _ => return refuse(result.ty().to_string()),
    };
    op.replace_all_uses(&[value]);
    op.erase()?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
