//! Recurrent layers: one kernel that holds the loop over the steps, or the steps one after another.
//!
//! A block of the kernel has a row of the batch and reads all weights of the hidden state at every step. Where nobody asked for it, the kernel
//! is taken where that is less work than the launches of a step.

use tenon_graph_dialect::operators::{Recurrence, StepEmitter};
use tenon_graph_dialect::{Operator, SemanticError, TensorType};
use tenon_ir::{Builder, Op, Value};
use tenon_pass_manager::{PassError, Refusal};
use tenon_recipe::ControlFlowPolicy;

use crate::emit::Emit;

/// Most hidden units of a kernel: a block holds a number of each gate for all of them.
const MOST_UNITS: u64 = 1024;
/// Most bytes of weights where nobody asked for a kernel. A multiprocessor reads some 64 bytes a clock from the second-level cache: 1 MiB takes it
/// 16 thousand clocks, as long as some four launches.
const MOST_BYTES: u64 = 1 << 20;
/// Most steps that are written out.
const MOST_STEPS: u64 = 1 << 14;

/// Places a recurrent layer; true if it stays one kernel.
pub(crate) fn place(op: Op<'_>, layer: &Recurrence, policy: Option<ControlFlowPolicy>) -> Result<bool, PassError> {
    let operands = op.operands();
    let types = operands.iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()?;
    let units = types.get(1).and_then(|weights| weights.dims.first()?.known()).unwrap_or(u64::MAX);
    let bytes = types.get(1).and_then(TensorType::element_capacity).unwrap_or(u64::MAX);
    let bytes = bytes.saturating_mul(types.first().map_or(4, |ty| ty.dtype.size() as u64));
    let steps = types.first().and_then(|x| x.dims.first()?.known());
    let holds = units <= MOST_UNITS;
    let is_kernel = match policy {
        Some(ControlFlowPolicy::Kernel) => holds,
        // A length that each request has of its own cannot be written out.
        None => holds && (bytes <= MOST_BYTES || steps.is_none_or(|steps| steps > MOST_STEPS)),
        Some(_) => false,
    };
    if is_kernel {
        return Ok(true);
    }
    if steps.is_none_or(|steps| steps > MOST_STEPS) {
        let length = types.first().and_then(|x| x.dims.first()).map_or_else(String::new, ToString::to_string);
        let reason = if holds {
            "`compile.control_flow.policy` allows no kernel".to_owned()
        } else {
            format!("a kernel holds at most {MOST_UNITS} hidden units, not {units}")
        };
        let (why, sizes) = match steps {
            None => ("each request has its own number of them", "no `between = \"pad\"`"),
            Some(_) => ("there are too many", "smaller ones"),
        };
        let message = format!(
            "the {length} steps of a recurrent layer cannot be written out, since {why} (at most {MOST_STEPS} fixed ones are), and {reason}"
        );
        let policy = if holds { "write `policy = \"kernel\"`, or " } else { "" };
        let help = format!("{policy}give the length of the sequence {sizes} in the recipe");
        return Err(Refusal::new("E0411", message, help).at(op).into());
    }
    let Some(at) = Builder::before(op) else { return Ok(false) };
    let mut steps = Operators { emit: Emit { at: at.with_location(op.location()) } };
    let results = layer.write_out(&mut steps, &operands, &types)?;
    op.replace_all_uses(&results);
    op.erase()?;
    Ok(false)
}

/// Steps as operations.
struct Operators<'m> {
    emit: Emit<'m>,
}

impl<'m> StepEmitter for Operators<'m> {
    type Value = Value<'m>;
    type Error = SemanticError;

    fn emit(
        &mut self,
        operator: Operator,
        operands: &[Value<'m>],
        ty: Option<&TensorType>,
    ) -> Result<Value<'m>, SemanticError> {
        match ty {
            Some(ty) => self.emit.build(operator, operands, ty.clone()),
            None => self.emit.infer(operator, operands),
        }
    }
}
