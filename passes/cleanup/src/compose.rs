//! `compose-shape-ops`: two transposes or two reshapes in a row become one; a transpose that moves no element becomes a reshape.

use tenon_graph_dialect::operators::{Reshape, Transpose};
use tenon_graph_dialect::{DimExpr, Operator, TensorType};
use tenon_ir::{Builder, Module, Op, Value};
use tenon_pass_manager::{Pass, PassContext, PassError};

use crate::support::{operand_types, operators, producer};

/// Composes shape operators.
pub struct ComposeShapeOps;

/// What replaces an operator: another one, on another operand.
fn composed<'m>(op: Op<'m>, operator: &Operator, types: &[TensorType]) -> Option<(Operator, Value<'m>)> {
    let input = op.operand(0)?;
    match operator {
        Operator::Transpose(outer) => {
            if let Some((inner_op, Operator::Transpose(inner))) = producer(input) {
                let permutation: Option<Vec<i64>> = outer
                    .permutation
                    .iter()
                    .map(|index| inner.permutation.get(usize::try_from(*index).ok()?).copied())
                    .collect();
                return Some((Transpose { permutation: permutation? }.into(), inner_op.operand(0)?));
            }
            // Dimensions of one element may move freely; the others keep their order.
            let moving: Vec<i64> = outer
                .permutation
                .iter()
                .copied()
                .filter(|index| !types[0].dims.get(*index as usize).is_some_and(|dim| dim.is_one()))
                .collect();
            if moving.is_sorted() {
                let dims = outer
                    .permutation
                    .iter()
                    .map(|index| types[0].dims.get(*index as usize).map(|dim| dim.extent.clone()));
                return Some((Reshape { shape: dims.collect::<Option<Vec<DimExpr>>>()? }.into(), input));
            }
            None
        }
        Operator::Reshape(outer) => match producer(input)? {
            (inner_op, Operator::Reshape(_)) => Some((outer.clone().into(), inner_op.operand(0)?)),
            _ => None,
        },
        _ => None,
    }
}

impl Pass for ComposeShapeOps {
    fn name(&self) -> &'static str {
        "compose-shape-ops"
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        for (op, operator) in operators(module)? {
            let types = operand_types(op)?;
            // An inner operator was itself composed before, as operators are visited in order: a chain of any length becomes one.
            let Some((operator, operand)) = composed(op, &operator, &types) else { continue };
            let Some(builder) = Builder::before(op) else { continue };
            let nodes = [
                op.operand(0).and_then(|value| value.defining_op()).map(|(inner, _)| inner.location()),
                Some(op.location()),
            ];
            let location = op.context().fused_location(&nodes.into_iter().flatten().collect::<Vec<_>>());
            let is_transpose = op.is("graph.transpose");
            let results = operator.infer(&[TensorType::read(operand.ty())?])?;
            let old =
                op.results().into_iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()?;
            if results != old || !context.rewrite("operators composed") {
                continue;
            }
            context.remark(
                "composed",
                location.names(),
                if is_transpose { "transposes as one operator" } else { "reshapes as one" },
            );
            let new = operator.build_as(builder.with_location(location), &[operand], &results)?;
            op.replace_all_uses(&new);
            op.erase()?;
        }
        Ok(())
    }
}
