//! `graph.concat` of many operands as concatenations of concatenations.
//!
//! A kernel has a pointer for each operand, and every place of its result tries each of them: beyond some number it is both too large for
//! a launch (4096 bytes of arguments; CUDA C++ Programming Guide, "`__global__` Function Parameters") and slower than another pass over memory.

use tenon_graph_dialect::SemanticError;
use tenon_graph_dialect::operators::Concat;
use tenon_ir::Value;

use crate::emit::Emit;

/// Most operands of one kernel.
const MOST: usize = 128;

/// `None` for as many operands as one kernel takes.
pub(crate) fn decompose<'m>(
    concat: &Concat,
    emit: Emit<'m>,
    operands: &[Value<'m>],
) -> Option<Result<Vec<Value<'m>>, SemanticError>> {
    if operands.len() <= MOST {
        return None;
    }
    let run = || {
        let mut operands = operands.to_vec();
        while operands.len() > MOST {
            let chunks = operands.len().div_ceil(MOST);
            let size = operands.len().div_ceil(chunks);
            operands = operands.chunks(size).map(|chunk| emit.op(concat.clone(), chunk)).collect::<Result<_, _>>()?;
        }
        Ok(vec![emit.op(concat.clone(), &operands)?])
    };
    Some(run())
}
