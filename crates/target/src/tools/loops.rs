//! Natural loops of a kernel in SASS.
//!
//! Code that ptxas moved out of line jumps back without being a loop, so loops are those of the flow graph: an edge to a block that
//! dominates its origin, with all blocks that reach the origin without passing that block.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use crate::TargetError;

use super::listing::SassInstruction;

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Address of its first instruction to be executed.
    pub header: u64,
    /// 1 for a loop in no other, 2 for one in one other, ….
    pub depth: usize,
    /// Instructions in it without NOPs, those of loops in it included.
    pub instructions: usize,
    /// The addresses that belong to it, in order.
    pub blocks: Vec<Range<u64>>,
}

/// The address that a branch with these operands, labels resolved, goes to.
pub(super) fn target(operands: &str) -> Option<u64> {
    let last = operands.rsplit(',').next()?.trim();
    u64::from_str_radix(last.strip_prefix("0x")?, 16).ok()
}

/// Most members of all loops of a kernel together; deep nests of loops take the square of their depth.
const MEMBERS: usize = 1 << 22;

/// How often an instruction of a loop is expected to be executed for one of the code around it.
const ITERATIONS: f64 = 8.0;

/// Instructions that a matrix instruction counts as: it keeps its unit busy for as long as others issue, and those of a warpgroup for longer.
const MATRIX: usize = 16;

/// The loop with the most expected executions of its own instructions, those of loops in it left out and matrix instructions counted as many; of equals, the
/// first by address.
/// Loops that only spin until a barrier is passed are none: how often they turn says nothing of the kernel.
pub(super) fn hottest(instructions: &[SassInstruction]) -> Result<Option<Loop>, TargetError> {
    let graph = Graph::new(instructions);
    let mut loops = graph.loops()?;
    loops.retain(|(_, body)| !graph.is_wait(body));
    let mut depths = vec![0; graph.blocks.len()];
    for block in loops.iter().flat_map(|(_, body)| body) {
        depths[*block] += 1;
    }
    let weight = |header: usize, body: &BTreeSet<usize>| {
        let own = body.iter().filter(|block| depths[**block] == depths[header]);
        let own: usize = own.map(|block| graph.weight(*block)).sum();
        own as f64 * ITERATIONS.powi(i32::try_from(depths[header]).unwrap_or(i32::MAX))
    };
    let mut best: Option<(f64, usize, &BTreeSet<usize>)> = None;
    for (header, body) in &loops {
        let weight = weight(*header, body);
        if best.is_none_or(|(heaviest, ..)| weight > heaviest) {
            best = Some((weight, *header, body));
        }
    }
    let Some((_, header, body)) = best else { return Ok(None) };
    Ok(Some(Loop {
        header: graph.instructions[graph.blocks[header].start].address,
        depth: depths[header],
        instructions: body.iter().map(|block| graph.length(*block)).sum(),
        blocks: body.iter().map(|block| graph.addresses(*block)).collect(),
    }))
}

struct Graph<'i> {
    instructions: &'i [SassInstruction],
    /// Ranges of indices into `instructions`, in order.
    blocks: Vec<Range<usize>>,
    successors: Vec<Vec<usize>>,
}

/// Where control goes after an instruction.
struct Flow {
    targets: Vec<u64>,
    falls_through: bool,
}

impl<'i> Graph<'i> {
    fn new(instructions: &'i [SassInstruction]) -> Self {
        // Where the threads of a convergence barrier meet, by its name.
        let mut meetings: HashMap<&str, Vec<u64>> = HashMap::new();
        for instruction in instructions.iter().filter(|instruction| instruction.family() == "BSSY") {
            if let (Some(barrier), Some(address)) =
                (instruction.operands.split(',').next(), target(&instruction.operands))
            {
                meetings.entry(barrier.trim()).or_default().push(address);
            }
        }
        let flows: Vec<Option<Flow>> = instructions.iter().map(|instruction| flow(instruction, &meetings)).collect();
        let index: HashMap<u64, usize> =
            instructions.iter().enumerate().map(|(index, instruction)| (instruction.address, index)).collect();
        let mut starts: BTreeSet<usize> = BTreeSet::from([0]);
        for (at, flow) in flows.iter().enumerate() {
            if let Some(flow) = flow {
                starts.insert(at + 1);
                starts.extend(flow.targets.iter().filter_map(|address| index.get(address)));
            }
        }
        starts.retain(|start| *start < instructions.len());
        let starts: Vec<usize> = starts.into_iter().collect();
        let ends = starts.iter().copied().skip(1).chain([instructions.len()]);
        let blocks: Vec<Range<usize>> = starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect();
        let block_at = |instruction: usize| starts.binary_search(&instruction).ok();
        let successors = blocks.iter().map(|block| {
            let next = block_at(block.end);
            match &flows[block.end - 1] {
                None => next.into_iter().collect(),
                Some(flow) => {
                    let targets = flow.targets.iter().filter_map(|address| block_at(*index.get(address)?));
                    targets.chain(next.filter(|_| flow.falls_through)).collect()
                }
            }
        });
        let successors = successors.collect();
        Graph { instructions, blocks, successors }
    }

    /// Instructions of a block without NOPs.
    fn length(&self, block: usize) -> usize {
        self.instructions[self.blocks[block].clone()].iter().filter(|instruction| instruction.family() != "NOP").count()
    }

    /// What the instructions of a block count as.
    fn weight(&self, block: usize) -> usize {
        let instructions = &self.instructions[self.blocks[block].clone()];
        let matrix = instructions.iter().filter(|instruction| instruction.is_matrix()).count();
        self.length(block) + matrix * (MATRIX - 1)
    }

    /// Whether a loop does nothing but try a barrier in shared memory, or sleep, until it may pass.
    fn is_wait(&self, body: &BTreeSet<usize>) -> bool {
        const MOST: usize = 16;
        let tries = |block: &usize| {
            let mut instructions = self.instructions[self.blocks[*block].clone()].iter();
            instructions.any(|instruction| {
                instruction.opcode.starts_with("SYNCS.PHASECHK") || instruction.family() == "NANOSLEEP"
            })
        };
        body.iter().map(|block| self.length(*block)).sum::<usize>() <= MOST && body.iter().any(tries)
    }

    fn addresses(&self, block: usize) -> Range<u64> {
        let Range { start, end } = self.blocks[block];
        self.instructions[start].address..self.instructions[end - 1].address + 1
    }

    /// The blocks that control reaches from the first, in reverse postorder.
    fn order(&self) -> Vec<usize> {
        let mut seen = vec![false; self.blocks.len()];
        let mut postorder = Vec::new();
        let mut stack = Vec::new();
        if !self.blocks.is_empty() {
            seen[0] = true;
            stack.push((0, 0));
        }
        while let Some((block, next)) = stack.pop() {
            match self.successors[block].get(next) {
                Some(&successor) => {
                    stack.push((block, next + 1));
                    if !std::mem::replace(&mut seen[successor], true) {
                        stack.push((successor, 0));
                    }
                }
                None => postorder.push(block),
            }
        }
        postorder.reverse();
        postorder
    }

    /// Loops by header, in order of addresses: the union of the natural loops of its back edges.
    fn loops(&self) -> Result<Vec<(usize, BTreeSet<usize>)>, TargetError> {
        let order = self.order();
        let mut position = vec![usize::MAX; self.blocks.len()];
        for (at, block) in order.iter().enumerate() {
            position[*block] = at;
        }
        let mut predecessors = vec![Vec::new(); self.blocks.len()];
        for &block in &order {
            for &successor in &self.successors[block] {
                predecessors[successor].push(block);
            }
        }
        let dominator = dominators(&order, &position, &predecessors);
        let dominates = |above: usize, mut below: usize| loop {
            if above == below {
                return true;
            }
            if dominator[below] == below {
                return false;
            }
            below = dominator[below];
        };
        let mut loops: Vec<(usize, BTreeSet<usize>)> = Vec::new();
        let mut members = 0;
        for header in 0..self.blocks.len() {
            let origins = predecessors[header].iter().copied().filter(|&origin| dominates(header, origin));
            let mut pending: Vec<usize> = origins.collect();
            if pending.is_empty() {
                continue;
            }
            let mut body = BTreeSet::from([header]);
            while let Some(block) = pending.pop() {
                if body.insert(block) {
                    pending.extend(&predecessors[block]);
                }
            }
            members += body.len();
            if members > MEMBERS {
                let (limit, unit) = (MEMBERS as u64, "blocks");
                return Err(TargetError::TooLarge { what: "the loops of a kernel, together,", limit, unit });
            }
            loops.push((header, body));
        }
        Ok(loops)
    }
}

/// The immediate dominator of each block that is reached; the first block's is itself. Cooper, Harvey and Kennedy, "A Simple, Fast
/// Dominance Algorithm".
fn dominators(order: &[usize], position: &[usize], predecessors: &[Vec<usize>]) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let mut dominator = vec![NONE; position.len()];
    let Some(&first) = order.first() else { return dominator };
    dominator[first] = first;
    let mut changed = true;
    while changed {
        changed = false;
        for &block in &order[1..] {
            let mut new = NONE;
            for &predecessor in predecessors[block].iter().filter(|predecessor| dominator[**predecessor] != NONE) {
                new = if new == NONE { predecessor } else { common(new, predecessor, &dominator, position) };
            }
            changed |= dominator[block] != new;
            dominator[block] = new;
        }
    }
    dominator
}

/// The nearest block that dominates both.
fn common(mut a: usize, mut b: usize, dominator: &[usize], position: &[usize]) -> usize {
    while a != b {
        if position[a] > position[b] {
            a = dominator[a];
        } else {
            b = dominator[b];
        }
    }
    a
}

/// Where control goes, of an instruction after which a block ends.
fn flow(instruction: &SassInstruction, meetings: &HashMap<&str, Vec<u64>>) -> Option<Flow> {
    let always = instruction.predicate.as_deref().is_none_or(|predicate| matches!(predicate, "@PT" | "@UPT"));
    let operands = instruction.operands.as_str();
    match instruction.family() {
        // `BRA.DIV UR4, 0x10` and `BRA.U UP0, 0x10` have their condition among the operands.
        "BRA" => {
            let falls_through = !always || operands.contains(',');
            Some(Flow { targets: target(operands).into_iter().collect(), falls_through })
        }
        "BSYNC" => {
            let targets = meetings.get(operands.trim()).cloned().unwrap_or_default();
            let falls_through = !always || targets.is_empty();
            Some(Flow { targets, falls_through })
        }
        // Branches to computed addresses are not followed; ptxas emits them for `brx` and calls alone.
        "EXIT" | "RET" | "BRX" | "BRXU" | "JMP" | "JMX" | "JMXU" | "KILL" => {
            Some(Flow { targets: Vec::new(), falls_through: !always })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Instructions at addresses 0x0, 0x10, …; operands of branches are resolved.
    fn program(lines: &[&str]) -> Vec<SassInstruction> {
        let instruction = |(index, line): (usize, &&str)| {
            let (predicate, rest) = match line.strip_prefix('@') {
                Some(_) => line.split_once(' ').map(|(predicate, rest)| (Some(predicate.to_owned()), rest)).unwrap(),
                None => (None, *line),
            };
            let (opcode, operands) = rest.split_once(' ').unwrap_or((rest, ""));
            SassInstruction {
                address: index as u64 * 16,
                predicate,
                opcode: opcode.to_owned(),
                operands: operands.to_owned(),
            }
        };
        lines.iter().enumerate().map(instruction).collect()
    }

    fn found(lines: &[&str]) -> Option<(u64, usize, usize)> {
        hottest(&program(lines)).unwrap().map(|found| (found.header, found.depth, found.instructions))
    }

    #[test]
    fn no_loop() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&["MOV", "@P0 EXIT", "EXIT", "BRA 0x30"]), None, "padding is not reached");
    }

    #[test]
    fn the_inner_of_two_loops() {
        let lines = ["MOV", "MOV", "FFMA", "FFMA", "@P0 BRA 0x20", "@P1 BRA 0x10", "EXIT"];
        assert_eq!(found(&lines), Some((0x20, 2, 3)));
    }

    #[test]
    fn a_spinning_wait_is_not_the_hottest_loop() {
        // 0x10 is the main loop; 0x20 waits; its second try lies out of line at 0x1b0 and comes back.
        let mut lines = vec!["MOV", "MOV", "SYNCS.PHASECHK P0, [UR4]", "@!P0 BRA 0x1c0"];
        lines.extend(["HGMMA"; 20]);
        lines.extend(["@P1 BRA 0x10", "EXIT", "NOP", "NOP", "BRA 0x20"]);
        let main = hottest(&program(&lines)).unwrap().unwrap();
        // 24 instructions in line and the branch back; NOPs are not reached.
        assert_eq!((main.header, main.depth, main.instructions), (0x10, 1, 25));
        assert_eq!(main.blocks.iter().filter(|block| block.contains(&0x1c0)).count(), 1);
    }

    #[test]
    fn a_loop_of_matrix_instructions_before_a_longer_one() {
        // 0x10 multiplies; 0x50 writes the result and has more instructions.
        let lines = ["MOV", "HGMMA", "HGMMA", "IADD3", "@P0 BRA 0x10"];
        let mut lines = lines.to_vec();
        lines.extend(["STG"; 20]);
        lines.extend(["@P1 BRA 0x50", "EXIT"]);
        assert_eq!(found(&lines), Some((0x10, 1, 4)));
        // Fused multiply-adds of CUDA cores are no matrix instructions.
        let plain: Vec<&str> = lines.iter().map(|line| if *line == "HGMMA" { "FFMA" } else { *line }).collect();
        assert_eq!(found(&plain), Some((0x50, 1, 21)));
    }

    #[test]
    fn code_out_of_line_is_no_loop() {
        assert_eq!(found(&["MOV", "@P0 BRA 0x40", "MOV", "EXIT", "MOV", "BRA 0x20"]), None);
    }

    #[test]
    fn conditions_among_the_operands() {
        assert_eq!(found(&["MOV", "FFMA", "BRA.U UP0, 0x10", "EXIT"]), Some((0x10, 1, 2)));
        // Without the way on, the exit would not be reached and the loop would be endless all the same.
        assert_eq!(found(&["MOV", "FFMA", "BRA.DIV UR4, 0x40", "@P0 BRA 0x10", "EXIT"]), Some((0x10, 1, 3)));
    }

    #[test]
    fn convergence_barriers_lead_to_where_threads_meet() {
        // BSYNC at 0x30 goes on at 0x50, which branches back: the loop holds both.
        let lines = ["BSSY B0, 0x50", "@P0 BRA 0x40", "MOV", "BSYNC B0", "BSYNC B0", "@P1 BRA 0x0", "EXIT"];
        assert_eq!(found(&lines), Some((0x0, 1, 6)));
    }

    #[test]
    fn absurd_nests_are_refused() {
        // Each branch goes back to its counterpart from the start: 4000 loops, one in the other.
        let depth = 4000;
        let mut lines = vec!["MOV".to_owned(); depth];
        lines.extend((0..depth).rev().map(|header| format!("@P0 BRA {:#x}", header * 16)));
        lines.push("EXIT".to_owned());
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(hottest(&program(&lines)).unwrap_err().code(), "E0615");
    }

    #[test]
    fn two_back_edges_to_one_header_are_one_loop() {
        assert_eq!(found(&["MOV", "FFMA", "@P0 BRA 0x10", "FADD", "@P1 BRA 0x10", "EXIT"]), Some((0x10, 1, 4)));
    }
}
