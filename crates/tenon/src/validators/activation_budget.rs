//! The largest value of every bucket fits the activation budget, by shapes alone.

use std::collections::{HashMap, HashSet};

use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::{Module, Op, Value};
use tenon_recipe::{AttentionImplementation, NumericClass, OverBudget};
use tenon_shape_passes::{Point, ShapeSpace};

use super::{Contracted, Validator};
use crate::driver::bucket_label;
use crate::{Diagnostic, Failure};

/// Refuses a bucket in which a single intermediate value is larger than the whole budget, before anything is compiled. Results of
/// contractions and convolutions are looked at: whatever is fused, each is in memory once before another product, reduction or gather reads
/// it, as itself or as what elementwise and moving operators make of it. Scores that a kernel of attention may keep in registers do not count,
/// so that nothing is refused which the memory plan would allow; that is held against the budget after compilation.
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
        let fuses_attention = contracted.recipe.compile.attention != AttentionImplementation::Unfused
            && contracted.recipe.numerics.rewrites >= NumericClass::Reassociates;
        let products = Products::of(contracted.module, fuses_attention);
        let points = ShapeSpace::read(contracted.module)?.points();
        let mut refused = Vec::new();
        for point in &points {
            if let Some((op, (ty, bytes))) = products.largest(point)
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

/// What an operation does with its operands, as far as memory goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// A kernel that computes an operand may go on with it.
    GoesOn,
    /// As [`GoesOn`](Reads::GoesOn), and it may be nothing but another view of the operand.
    View,
    /// It reads them from memory.
    Memory,
    /// So it does, but for scores that a kernel of attention keeps in registers.
    Scores,
    /// It is no operator: outputs of the model and of bodies have memory of their own.
    Ends,
}

/// A value in memory: type, and bytes at a point.
type InMemory = (TensorType, u128);

/// The operations of a module, and which of them matter to the budget.
struct Products<'m> {
    /// In order of the text, so that users come behind.
    ops: Vec<Op<'m>>,
    reads: HashMap<usize, Reads>,
    /// Products of what depends on inputs; those of weights alone are computed ahead.
    products: HashSet<usize>,
}

impl<'m> Products<'m> {
    fn of(module: &'m Module<'_>, fuses_attention: bool) -> Self {
        let ops = module.op().walk();
        let mut reads = HashMap::new();
        let mut products = HashSet::new();
        let mut of_weights = HashSet::new();
        for op in &ops {
            let operator = Operator::read(*op).and_then(Result::ok);
            reads.insert(op.key(), operator.as_ref().map_or(Reads::Ends, how_it_reads));
            let mut operands = op.operands().into_iter();
            let is_of_weight =
                |value: Value<'_>| value.defining_op().is_some_and(|(op, _)| of_weights.contains(&op.key()));
            let is_weight = op.is("graph.get_parameter") || matches!(operator, Some(Operator::Constant(_)));
            if is_weight || operator.is_some() && op.operand_count() > 0 && operands.all(is_of_weight) {
                of_weights.insert(op.key());
            } else if operator.is_some_and(|operator| is_product(*op, &operator)) {
                products.insert(op.key());
            }
        }
        let mut found = Products { ops, reads, products };
        if fuses_attention {
            found.find_scores();
        }
        found
    }

    fn reads(&self, op: Op<'_>) -> Reads {
        self.reads.get(&op.key()).copied().unwrap_or(Reads::Ends)
    }

    /// Softmax whose result a product reads, perhaps behind operators that a kernel goes on with, as attention has it.
    fn find_scores(&mut self) {
        let mut towards_product = HashSet::new();
        for op in self.ops.iter().rev() {
            let users = op.results().into_iter().flat_map(Value::users);
            let leads = |(user, _): (Op<'_>, usize)| user.is("graph.contract") || towards_product.contains(&user.key());
            let leads = users.into_iter().any(leads);
            match self.reads(*op) {
                Reads::GoesOn | Reads::View if leads => {
                    towards_product.insert(op.key());
                }
                Reads::Memory if leads && op.is("graph.softmax") => {
                    self.reads.insert(op.key(), Reads::Scores);
                }
                _ => {}
            }
        }
    }

    /// The largest value in memory that a product's result becomes at a point.
    fn largest(&self, point: &Point) -> Option<(Op<'m>, InMemory)> {
        let mut known: HashMap<(usize, usize), Option<InMemory>> = HashMap::new();
        let mut largest: Option<(Op<'m>, InMemory)> = None;
        for op in self.ops.iter().rev() {
            for (index, value) in op.results().into_iter().enumerate() {
                let found = self.in_memory(value, point, &known);
                if let (Some(found), true) = (&found, self.products.contains(&op.key()))
                    && largest.as_ref().is_none_or(|(_, (_, most))| found.1 >= *most)
                {
                    largest = Some((*op, found.clone()));
                }
                known.insert((op.key(), index), found);
            }
        }
        largest
    }

    /// What a value is in the arena as, at least: towards each user the narrowest of the values on the way to the first operator that reads from
    /// memory, and of these the largest. None where it may never be there.
    fn in_memory(
        &self,
        value: Value<'_>,
        point: &Point,
        known: &HashMap<(usize, usize), Option<InMemory>>,
    ) -> Option<InMemory> {
        let ty = TensorType::read(value.ty()).ok()?;
        let bytes = bytes_at(&ty, point)?;
        let mut most: Option<InMemory> = None;
        for (user, _) in value.users() {
            let reads = self.reads(user);
            let there = match reads {
                Reads::GoesOn | Reads::View => {
                    let next = known.get(&(user.key(), 0)).cloned().flatten();
                    // What a view of it is in the memory of an output, it is there itself.
                    if next.is_none() && reads == Reads::View {
                        return None;
                    }
                    next.map(|next| if next.1 < bytes { next } else { (ty.clone(), bytes) })
                }
                Reads::Memory => Some((ty.clone(), bytes)),
                Reads::Scores => None,
                Reads::Ends => return None,
            };
            if let Some(there) = there
                && most.as_ref().is_none_or(|(_, most)| there.1 > *most)
            {
                most = Some(there);
            }
        }
        most
    }
}

/// Whether it is computed by a kernel of its own; a convolution of one filter a channel may be computed inside that of its user.
fn is_product(op: Op<'_>, operator: &Operator) -> bool {
    match operator {
        Operator::Contract(_) => true,
        Operator::Convolution(convolution) => {
            let weight = op.operand(1).and_then(|weight| TensorType::read(weight.ty()).ok());
            let filters = weight.and_then(|weight| weight.dims.get(1)?.known());
            convolution.transposed || convolution.groups == 1 || filters != Some(1)
        }
        _ => false,
    }
}

fn how_it_reads(operator: &Operator) -> Reads {
    match operator {
        Operator::Reshape(_) | Operator::Transpose(_) | Operator::Slice(_) | Operator::SetDimensionSize(_) => {
            Reads::View
        }
        Operator::Elementwise(_)
        | Operator::Cast(_)
        | Operator::Bitcast(_)
        | Operator::Quantize(_)
        | Operator::Dequantize(_)
        | Operator::Broadcast(_)
        | Operator::Pad(_)
        | Operator::Concat(_) => Reads::GoesOn,
        _ => Reads::Memory,
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
