//! The semantic checks of all dialects that a pass may produce.

use tenon_ir::Module;

/// A rule of a dialect that a module breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Stable code, `docs/errors/`.
    pub code: &'static str,
    /// What is wrong, with the node.
    pub message: String,
    /// What to change.
    pub help: Option<String>,
    /// Names of the model's nodes that it concerns.
    pub nodes: Vec<String>,
}

/// All findings of the dialects' semantic checks, in order of the text. One line a dialect.
pub fn check(module: &Module<'_>) -> Vec<Finding> {
    let graph = tenon_graph_dialect::check(module).into_iter().map(|error| Finding {
        code: error.code(),
        message: error.to_string(),
        help: error.help(),
        nodes: error.nodes.clone(),
    });
    let flow = tenon_flow_dialect::check(module).into_iter().map(|error| Finding {
        code: error.code(),
        message: error.to_string(),
        help: error.help(),
        nodes: error.nodes.clone(),
    });
    let hw = tenon_hw_dialect::check(module).into_iter().map(|error| Finding {
        code: error.code(),
        message: error.to_string(),
        help: error.help(),
        nodes: Vec::new(),
    });
    graph.chain(flow).chain(hw).collect()
}
