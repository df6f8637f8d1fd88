//! The largest value of every bucket fits the activation budget, by shapes alone.

use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::{Module, Op, Value};
use tenon_recipe::OverBudget;
use tenon_shape_passes::{Point, ShapeSpace};

use super::{Contracted, Validator};
use crate::driver::bucket_label;
use crate::{Diagnostic, Failure};

/// Refuses a bucket in which a single intermediate value is larger than the whole budget, before anything is compiled. Results of
/// contractions and convolutions are looked at: whatever is fused, each is in memory once, as itself or as what a chain of elementwise
/// operators makes of it. The memory plan is held against the budget after compilation.
pub struct ActivationBudget;

impl Validator for ActivationBudget {
    fn name(&self) -> &'static str {
        "activation-budget"
    }

    fn about(&self) -> &'static str {
        "no single value of a bucket is larger than the activation budget"
    }

    fn validate(&self, contracted: &Contracted<'_>) -> Result<Vec<Diagnostic>, Failure> {
        let Some(budget) = contracted.recipe.hardware.activation_budget else { return Ok(Vec::new()) };
        // In parts, no value is as large as its bucket.
        if contracted.recipe.hardware.over_budget == OverBudget::Stream {
            return Ok(Vec::new());
        }
        let points = ShapeSpace::read(contracted.module)?.points();
        let mut refused = Vec::new();
        for point in &points {
            if let Some((op, ty, bytes)) = largest(contracted.module, point)
                && bytes > u128::from(budget)
            {
                let bucket = bucket_label(point).map(|label| format!(" of bucket {label}")).unwrap_or_default();
                let message = format!(
                    "a value {ty}{bucket} takes {bytes} bytes, and `hardware.activation_budget` is {budget} for all together"
                );
                let help = "allow smaller sizes in `semantic.dims`, or raise the budget";
                let diagnostic = Diagnostic::new("E0226", message).with_help(help);
                refused.push(Diagnostic { nodes: op.location().names(), ..diagnostic });
            }
        }
        Ok(refused)
    }
}

/// The largest result of a contraction or convolution that is no output of the model, with its bytes at a point.
fn largest<'m>(module: &'m Module<'_>, point: &Point) -> Option<(Op<'m>, TensorType, u128)> {
    let mut largest: Option<(Op<'m>, TensorType, u128)> = None;
    for op in module.op().walk() {
        let Some(Ok(Operator::Contract(_) | Operator::Convolution(_))) = Operator::read(op) else { continue };
        let Some(value) = op.result(0) else { continue };
        let Some((ty, bytes)) = materialized(value, point) else { continue };
        if largest.as_ref().is_none_or(|(_, _, most)| bytes > *most) {
            largest = Some((op, ty, bytes));
        }
    }
    largest
}

/// What a value is in memory as: itself, or the narrowest of the elementwise results that only it leads to; none for an output.
fn materialized(value: Value<'_>, point: &Point) -> Option<(TensorType, u128)> {
    let mut value = value;
    let mut ty = TensorType::read(value.ty()).ok()?;
    let mut bytes = bytes_at(&ty, point)?;
    loop {
        let users = value.users();
        if users.iter().any(|(op, _)| op.is("func.return")) {
            return None;
        }
        let [(user, _)] = users.as_slice() else { return Some((ty, bytes)) };
        if !matches!(Operator::read(*user), Some(Ok(Operator::Elementwise(_) | Operator::Cast(_)))) {
            return Some((ty, bytes));
        }
        let next = user.result(0)?;
        let next_ty = TensorType::read(next.ty()).ok()?;
        let next_bytes = bytes_at(&next_ty, point)?;
        if next_bytes < bytes {
            (ty, bytes) = (next_ty, next_bytes);
        }
        value = next;
    }
}

fn bytes_at(ty: &TensorType, point: &Point) -> Option<u128> {
    let lookup = |name: &str| {
        let (_, size) = point.iter().find(|(known, _)| known == name)?;
        Some(tenon_graph_dialect::DimExpr::constant(i64::try_from(*size).ok()?))
    };
    let mut elements: u128 = 1;
    for dim in &ty.dims {
        let size = dim.extent.substitute(&lookup)?.as_constant()?;
        elements = elements.checked_mul(u128::try_from(size).ok()?)?;
    }
    Some((elements * u128::from(ty.dtype.bits())).div_ceil(8))
}
