//! Where operators of a module stand.

use tenon_ir::{Block, Module, Op};

/// The names of operations with regions.
pub(crate) const REGION_OPS: [&str; 3] = ["flow.if", "flow.loop", "flow.scan"];

/// Whether an operation is one of the dialect's with regions.
pub fn is_control_flow(op: Op<'_>) -> bool {
    REGION_OPS.iter().any(|name| op.is(name))
}

/// Blocks whose operators run one after another: bodies of functions, and those of control flow in them. A block stands before those
/// inside it.
pub fn blocks<'m>(module: &'m Module<'_>) -> Vec<Block<'m>> {
    let functions = module.body().ops().into_iter().filter(|op| op.is("func.func"));
    let mut found: Vec<Block<'m>> = functions.filter_map(|function| function.region_block(0)).collect();
    let mut next = 0;
    while let Some(block) = found.get(next).copied() {
        let inside = block.ops().into_iter().filter(|op| is_control_flow(*op));
        let bodies = inside.flat_map(|op| (0..op.region_count()).filter_map(move |region| op.region_block(region)));
        let bodies: Vec<Block<'m>> = bodies.collect();
        found.splice(next + 1..next + 1, bodies);
        next += 1;
    }
    found
}

/// Number of operations of control flow around an operation.
pub fn depth(op: Op<'_>) -> u64 {
    let mut depth = 0;
    let mut parent = op.parent();
    while let Some(around) = parent {
        depth += u64::from(is_control_flow(around));
        parent = around.parent();
    }
    depth
}
