//! What a module can be, as passes need it.
//!
//! A property is read off the module itself, so that a module resumed from a dump is judged as one that was just made.

use std::fmt;

use tenon_graph_dialect::TensorType;
use tenon_ir::{Module, Op};

/// Something that holds of a whole module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Property {
    /// A recipe was applied: `graph.numerics` and `graph.shape_space` are there.
    Contracted,
    /// Every dimension of every tensor has a capacity.
    StaticShapes,
    /// Every operation of control flow has a place where it runs.
    NoControlFlow,
    /// Every operator that computes lies in a `graph.kernel`.
    Kernels,
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Property::Contracted => "a recipe was applied to",
            Property::StaticShapes => "has no dimension without a largest size",
            Property::NoControlFlow => "has no control flow left to place",
            Property::Kernels => "is divided into kernels",
        })
    }
}

impl Property {
    /// Where to begin to have it.
    pub(crate) fn help(self) -> &'static str {
        match self {
            Property::Contracted => "begin at stage `contract`",
            Property::StaticShapes => "begin at stage `bucket`",
            Property::NoControlFlow => "begin at stage `flow`",
            Property::Kernels => "begin at stage `fuse`",
        }
    }

    /// The first place where a module lacks it; `None` if it has it.
    pub fn missing(self, module: &Module<'_>) -> Option<String> {
        let top = module.op();
        match self {
            Property::Contracted => ["graph.numerics", "graph.shape_space"]
                .into_iter()
                .find(|name| top.attribute(name).is_none())
                .map(|name| format!("it has no attribute `{name}`")),
            Property::StaticShapes => top.walk().into_iter().find_map(symbolic),
            Property::NoControlFlow => top.walk().into_iter().find(|op| is_unplaced(*op)).map(describe),
            Property::Kernels => top.walk().into_iter().find_map(|op| {
                let computes = tenon_graph_dialect::Operator::NAMES.iter().any(|name| op.is(name))
                    && !op.is("graph.constant")
                    && !op.is("graph.reshape")
                    && !(op.is("graph.concat") && tenon_graph_dialect::is_written_in_parts(op));
                let outside = op
                    .parent()
                    .is_some_and(|parent| parent.is("func.func") || tenon_flow_dialect::is_control_flow(parent));
                (computes && outside).then(|| describe(op))
            }),
        }
    }
}

/// Whether an operation directs control, and nothing says where: one of the dialects scf and cf, or of flow without a placement.
fn is_unplaced(op: Op<'_>) -> bool {
    match tenon_flow_dialect::is_control_flow(op) {
        true => op.attribute("placement").is_none(),
        false => matches!(op.name().split_once('.'), Some(("scf" | "cf", _))),
    }
}

fn describe(op: Op<'_>) -> String {
    let names = op.location().names();
    if names.is_empty() {
        format!("there is a `{}`", op.name())
    } else {
        format!("`{}` of node `{}`", op.name(), names.join("`, `"))
    }
}

fn symbolic(op: Op<'_>) -> Option<String> {
    let arguments = op.region_block(0).map(|block| block.arguments()).unwrap_or_default();
    op.results().into_iter().chain(arguments).find_map(|value| {
        let ty = TensorType::read(value.ty()).ok()?;
        ty.capacities().is_none().then(|| format!("{} has a value {ty}", describe(op)))
    })
}
