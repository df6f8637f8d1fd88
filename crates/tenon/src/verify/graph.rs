//! The graph of a bundle: everything that later stages and people rely on is there.

use std::collections::BTreeSet;

use serde::Serialize;
use tenon_graph_dialect::operators::SetDimensionSize;
use tenon_graph_dialect::{Operator, OperatorKind, TensorType};
use tenon_ir::{Module, Op};
use tenon_shape_passes::ShapeSpace;

use crate::{Diagnostic, Failure};

/// What the graph is like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GraphCheck {
    /// Operators.
    pub operators: usize,
    /// Named dimensions that the shape space binds.
    pub dimensions: Vec<String>,
    /// Most branches and loops within one another.
    pub control_flow_depth: usize,
}

/// Looks at a module after stage `contract`.
///
/// # Errors
/// The module has no shape space.
pub fn check_graph(module: &Module<'_>) -> Result<(GraphCheck, Vec<Diagnostic>), Failure> {
    let mut refused: Vec<Diagnostic> = tenon_pass_manager::check(module)
        .into_iter()
        .map(|found| Diagnostic { nodes: found.nodes, help: found.help, ..Diagnostic::new(found.code, found.message) })
        .collect();
    let space = ShapeSpace::read(module)?;
    let bound: BTreeSet<&str> = space.axes().iter().map(|axis| axis.name.as_str()).collect();
    let mut check =
        GraphCheck { operators: 0, dimensions: bound.iter().map(ToString::to_string).collect(), control_flow_depth: 0 };
    // Extents that the program computes bind their names themselves.
    let cuts = module.op().walk().into_iter().filter(|op| op.is(SetDimensionSize::NAME));
    let computed: BTreeSet<String> =
        cuts.filter_map(|op| Some(SetDimensionSize::read(op).ok()?.extent.to_string())).collect();
    let mut unbound: BTreeSet<String> = BTreeSet::new();
    for attribute in ["graph.numerics", "graph.recipe", "graph.model"] {
        if module.op().attribute(attribute).is_none() && attribute != "graph.model" {
            let message = format!("the graph does not say `{attribute}`");
            refused.push(Diagnostic::new("E0242", message).with_help("build the bundle anew from the model"));
        }
    }
    for op in module.op().walk() {
        check.control_flow_depth = check.control_flow_depth.max(depth(op));
        let Some(Ok(operator)) = Operator::read(op) else { continue };
        check.operators += 1;
        if op.location().names().is_empty() && !matches!(operator, Operator::Constant(_)) {
            let message =
                format!("an operator `{}` does not say which node of the model it comes from", operator.name());
            refused.push(Diagnostic::new("E0242", message).with_help("name it by a location: loc(\"Conv_0\")"));
        }
        for value in op.results() {
            let Ok(ty) = TensorType::read(value.ty()) else { continue };
            for symbol in ty.dims.iter().flat_map(|dim| dim.extent.symbols()) {
                if !bound.contains(symbol.as_str()) && !computed.contains(&symbol) && unbound.insert(symbol.clone()) {
                    let message = format!("no clause of the recipe binds the dimension `{symbol}` of a value {ty}");
                    let help = format!(
                        "add `{} = {{ allowed = [1] }}` to `[semantic.dims]`",
                        tenon_shape_passes::toml_key(&symbol)
                    );
                    let diagnostic = Diagnostic::new("E0241", message).with_help(help);
                    refused.push(Diagnostic { nodes: op.location().names(), ..diagnostic });
                }
            }
        }
    }
    Ok((check, refused))
}

/// Branches and loops around an operation, itself included.
fn depth(op: Op<'_>) -> usize {
    let mut depth = 0;
    let mut at = Some(op);
    while let Some(op) = at {
        if op.name().starts_with("flow.") && op.region_count() > 0 {
            depth += 1;
        }
        at = op.parent();
    }
    depth
}
