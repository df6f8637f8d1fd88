//! `fold-dims`: `graph.dim` of a dimension that is a number becomes a constant.

use tenon_graph_dialect::Operator;
use tenon_graph_dialect::operators::Constant;
use tenon_ir::{Builder, Module};
use tenon_pass_manager::{Pass, PassContext, PassError};
use tenon_tensor::{DType, Tensor};

use crate::support::{operand_types, operators};

/// Turns known extents into constants.
pub struct FoldDims;

impl Pass for FoldDims {
    fn name(&self) -> &'static str {
        "fold-dims"
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        for (op, operator) in operators(module)? {
            let Operator::DimExtent(dim) = operator else { continue };
            let types = operand_types(op)?;
            let axis = if dim.axis < 0 { dim.axis + types[0].rank() as i64 } else { dim.axis };
            let extent = usize::try_from(axis).ok().and_then(|axis| types[0].dims.get(axis)?.known());
            let Some(bytes) = extent.and_then(|extent| i64::try_from(extent).ok()).map(i64::to_le_bytes) else {
                continue;
            };
            let Some(builder) = Builder::before(op) else { continue };
            if !context.rewrite("extents folded") {
                return Ok(());
            }
            let value = Tensor::new(DType::I64, Vec::new(), bytes.to_vec()).expect("a scalar of i64 has eight bytes");
            let results = Operator::from(Constant { value }).build(builder, &[])?;
            op.replace_all_uses(&results);
            op.erase()?;
        }
        Ok(())
    }
}
