//! `bucket`: one point of the shape space.

use std::collections::BTreeSet;

use tenon_graph_dialect::operators::SetDimensionSize;
use tenon_graph_dialect::{Dim, DimExpr, OperatorKind, Requirement, TensorType};
use tenon_ir::Module;
use tenon_pass_manager::{Pass, PassContext, PassError, Property, Refusal};

use crate::Point;
use crate::space::padded_names;
use crate::substitute::substitute;

/// Makes every dimension a number, or, where the recipe pads, a capacity with an extent that is known at launch. The module becomes the one of this point; `graph.bucket` says which.
pub struct Bucket {
    /// Sizes of the named dimensions.
    pub point: Point,
}

impl Pass for Bucket {
    fn name(&self) -> &'static str {
        "bucket"
    }

    fn needs(&self) -> &'static [Property] {
        &[Property::Contracted]
    }

    fn is_required(&self) -> bool {
        true
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        let padded = padded_names(module)?;
        let computed = computed_names(module)?;
        let size = |name: &str| {
            let (_, size) = self.point.iter().find(|(known, _)| known == name)?;
            i64::try_from(*size).ok()
        };
        let fixed = |name: &str| if padded.iter().any(|padded| padded == name) { None } else { size(name) };
        let found = substitute(module, &|name| fixed(name).map(DimExpr::constant), &size)?;
        let requirements: Vec<_> = Requirement::read_all(module.op())?.into_iter().chain(found).collect();
        context.count("conditions on extents", requirements.len() as u64);
        Requirement::write_all(module.op(), &requirements)?;
        // What is left depends on values that are known only when the model runs.
        for op in module.op().walk() {
            let arguments = op.region_block(0).map(|block| block.arguments()).unwrap_or_default();
            for value in op.results().into_iter().chain(arguments) {
                let Ok(ty) = TensorType::read(value.ty()) else { continue };
                let is_bound = |dim: &Dim| {
                    let symbols = dim.extent.symbols();
                    let is_known = |symbol: &String| padded.contains(symbol) || computed.contains(symbol);
                    dim.capacity.is_some() && symbols.iter().all(is_known)
                };
                if !ty.dims.iter().all(is_bound) {
                    let refusal = Refusal::new(
                        "E0414",
                        format!("`{}` has a value {ty}, whose size is not known before the model runs", op.name()),
                        "sizes that depend on values are not supported in this version",
                    );
                    return Err(refusal.at(op).into());
                }
            }
        }
        let sizes: Vec<_> =
            self.point.iter().map(|(name, size)| (name.as_str(), module.context().i64(*size as i64))).collect();
        let bucket = module.context().dictionary(&sizes);
        module.op().set_attribute("graph.bucket", bucket)?;
        module.op().remove_attribute("graph.shape_space");
        module.op().remove_attribute("graph.combine");
        context.count("dimensions fixed", self.point.len() as u64);
        Ok(())
    }
}

/// Names of extents that the module computes itself.
fn computed_names(module: &Module<'_>) -> Result<BTreeSet<String>, PassError> {
    let mut names = BTreeSet::new();
    for op in module.op().walk().into_iter().filter(|op| op.is(SetDimensionSize::NAME)) {
        let name = SetDimensionSize::read(op)?.extent.to_string();
        if !names.insert(name.clone()) {
            let refusal = Refusal::new(
                "E0414",
                format!("two operations compute the extent `{name}`"),
                "give each computed extent a name of its own",
            );
            return Err(refusal.at(op).into());
        }
    }
    Ok(names)
}
