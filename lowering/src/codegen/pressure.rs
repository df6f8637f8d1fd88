//! How many registers a kernel needs, from its PTX.
//!
//! ptxas allocates registers after it has ordered instructions anew, so two numbers bound what it will need: registers alive at once in the
//! order of the text, and in an order that keeps few of them alive. Both are counted in units of 32 bits; predicates have registers of their own.

use std::collections::HashMap;

/// Longest block, in instructions, that is ordered anew; of a longer one the text's order counts.
const LONGEST_BLOCK: usize = 4096;

/// An instruction: what it writes and reads, and where control goes.
struct Instruction<'t> {
    opcode: &'t str,
    writes: Vec<usize>,
    reads: Vec<usize>,
    /// Label that it branches to.
    target: Option<&'t str>,
    /// Whether control may go on to the next instruction.
    falls_through: bool,
}

impl Instruction<'_> {
    /// Whether other memory operations must stay on their side of it.
    fn is_effect(&self) -> bool {
        const EFFECTS: [&str; 11] =
            ["st", "bar", "barrier", "cp", "red", "atom", "membar", "fence", "shfl", "mbarrier", "wgmma"];
        EFFECTS.contains(&self.base())
    }

    fn is_load(&self) -> bool {
        self.base() == "ld" && !self.opcode.starts_with("ld.param") || self.base() == "ldmatrix"
    }

    fn base(&self) -> &str {
        self.opcode.split('.').next().unwrap_or_default()
    }
}

/// Set of registers.
#[derive(Clone, PartialEq)]
struct Set(Vec<u64>);

impl Set {
    fn new(registers: usize) -> Self {
        Set(vec![0; registers.div_ceil(64)])
    }

    fn contains(&self, register: usize) -> bool {
        self.0[register / 64] & (1 << (register % 64)) != 0
    }

    /// Whether it was not there before.
    fn insert(&mut self, register: usize) -> bool {
        let new = !self.contains(register);
        self.0[register / 64] |= 1 << (register % 64);
        new
    }

    /// Whether it was there.
    fn remove(&mut self, register: usize) -> bool {
        let old = self.contains(register);
        self.0[register / 64] &= !(1 << (register % 64));
        old
    }
}

/// Registers that are alive at a place, and what they take.
struct Live<'w> {
    set: Set,
    widths: &'w [u32],
    units: u32,
    most: u32,
}

impl<'w> Live<'w> {
    fn new(set: Set, widths: &'w [u32]) -> Self {
        let units = (0..widths.len()).filter(|register| set.contains(*register)).map(|register| widths[register]).sum();
        Live { set, widths, units, most: units }
    }

    /// Goes backwards over an instruction.
    fn pass(&mut self, instruction: &Instruction<'_>) {
        for register in &instruction.writes {
            if self.set.remove(*register) {
                self.units -= self.widths[*register];
            }
        }
        let written: u32 = instruction.writes.iter().map(|register| self.widths[*register]).sum();
        self.most = self.most.max(self.units + written);
        for register in &instruction.reads {
            if self.set.insert(*register) {
                self.units += self.widths[*register];
            }
        }
        self.most = self.most.max(self.units);
    }

    /// By how much passing an instruction changes what is alive.
    fn change(&self, instruction: &Instruction<'_>) -> i64 {
        let width = |register: &usize| i64::from(self.widths[*register]);
        let ended: i64 = instruction.writes.iter().filter(|register| self.set.contains(**register)).map(width).sum();
        let begun: i64 = instruction.reads.iter().filter(|register| !self.set.contains(**register)).map(width).sum();
        begun - ended
    }
}

/// A kernel of PTX as blocks of instructions, with what is alive at the end of each.
pub(super) struct Pressure<'t> {
    instructions: Vec<Instruction<'t>>,
    widths: Vec<u32>,
    blocks: Vec<std::ops::Range<usize>>,
    live_out: Vec<Set>,
}

impl<'t> Pressure<'t> {
    /// Reads the body of the first entry of a text.
    pub(super) fn read(ptx: &'t str) -> Self {
        let body = ptx.split_once(".entry").and_then(|(_, rest)| rest.split_once("\n{")).map_or("", |(_, body)| body);
        let body = body.split("\n}").next().unwrap_or_default();
        let mut reader = Reader::default();
        for line in body.lines() {
            reader.line(line);
        }
        let Reader { instructions, labels, widths, .. } = reader;
        let (blocks, successors) = blocks(&instructions, &labels);
        let mut pressure = Pressure { instructions, widths, blocks, live_out: Vec::new() };
        pressure.live_out = pressure.live_out(&successors);
        pressure
    }

    /// Registers alive behind each block: what any successor reads before it writes it.
    fn live_out(&self, successors: &[Vec<usize>]) -> Vec<Set> {
        let empty = Set::new(self.widths.len());
        let mut live_in = vec![empty.clone(); self.blocks.len()];
        let mut live_out = vec![empty; self.blocks.len()];
        loop {
            let mut changed = false;
            for (block, range) in self.blocks.iter().enumerate().rev() {
                let mut set = live_out[block].clone();
                for successor in &successors[block] {
                    set.0.iter_mut().zip(&live_in[*successor].0).for_each(|(all, new)| *all |= new);
                }
                live_out[block] = set.clone();
                for instruction in self.instructions[range.clone()].iter().rev() {
                    instruction.writes.iter().for_each(|register| {
                        set.remove(*register);
                    });
                    instruction.reads.iter().for_each(|register| {
                        set.insert(*register);
                    });
                }
                if set != live_in[block] {
                    live_in[block] = set;
                    changed = true;
                }
            }
            if !changed {
                return live_out;
            }
        }
    }

    /// Most registers that are alive at once in the order of the text.
    pub(super) fn as_written(&self) -> u32 {
        let most = |(range, out): (&std::ops::Range<usize>, &Set)| self.block_as_written(range, out);
        self.blocks.iter().zip(&self.live_out).map(most).max().unwrap_or(0)
    }

    fn block_as_written(&self, range: &std::ops::Range<usize>, out: &Set) -> u32 {
        let mut live = Live::new(out.clone(), &self.widths);
        self.instructions[range.clone()].iter().rev().for_each(|instruction| live.pass(instruction));
        live.most
    }

    /// Most registers that are alive at once when each block is ordered to keep few of them: memory operations and barriers stay in order,
    /// what they need is computed late.
    pub(super) fn reordered(&self) -> u32 {
        let most = |(range, out): (&std::ops::Range<usize>, &Set)| {
            let written = self.block_as_written(range, out);
            if range.len() > LONGEST_BLOCK { written } else { written.min(self.block_reordered(range, out)) }
        };
        self.blocks.iter().zip(&self.live_out).map(most).max().unwrap_or(0)
    }

    /// Backwards list scheduling: of the instructions whose users are all placed, the one that leaves the fewest registers alive.
    fn block_reordered(&self, range: &std::ops::Range<usize>, out: &Set) -> u32 {
        let code = &self.instructions[range.clone()];
        let before = predecessors(code, self.widths.len());
        let mut followers = vec![0usize; code.len()];
        before.iter().flatten().for_each(|index| followers[*index] += 1);
        let mut ready: Vec<usize> = (0..code.len()).filter(|index| followers[*index] == 0).collect();
        let mut live = Live::new(out.clone(), &self.widths);
        let cost = |live: &Live<'_>, index: usize| {
            (!code[index].is_effect(), live.change(&code[index]), std::cmp::Reverse(index))
        };
        while let Some(at) = (0..ready.len()).min_by_key(|at| cost(&live, ready[*at])) {
            let index = ready.swap_remove(at);
            live.pass(&code[index]);
            for earlier in &before[index] {
                followers[*earlier] -= 1;
                if followers[*earlier] == 0 {
                    ready.push(*earlier);
                }
            }
        }
        live.most
    }
}

/// For each instruction of a block those that must come before it.
fn predecessors(code: &[Instruction<'_>], registers: usize) -> Vec<Vec<usize>> {
    let mut written: Vec<Option<usize>> = vec![None; registers];
    let mut read: Vec<Vec<usize>> = vec![Vec::new(); registers];
    let mut effect = None;
    let mut loads = Vec::new();
    let mut all = Vec::with_capacity(code.len());
    for (index, instruction) in code.iter().enumerate() {
        let mut before = Vec::new();
        before.extend(instruction.reads.iter().filter_map(|register| written[*register]));
        for register in &instruction.writes {
            before.append(&mut read[*register]);
            before.extend(written[*register]);
        }
        instruction.reads.iter().for_each(|register| read[*register].push(index));
        instruction.writes.iter().for_each(|register| written[*register] = Some(index));
        if instruction.is_effect() {
            before.extend(effect);
            before.append(&mut loads);
            effect = Some(index);
        } else if instruction.is_load() {
            before.extend(effect);
            loads.push(index);
        }
        if instruction.target.is_some() || !instruction.falls_through {
            before.extend(0..index);
        }
        before.sort_unstable();
        before.dedup();
        before.retain(|earlier| *earlier != index);
        all.push(before);
    }
    all
}

/// Ranges of instructions without branches inside, and where control goes from each.
fn blocks(
    instructions: &[Instruction<'_>],
    labels: &HashMap<&str, usize>,
) -> (Vec<std::ops::Range<usize>>, Vec<Vec<usize>>) {
    let target = |instruction: &Instruction<'_>| instruction.target.and_then(|label| labels.get(label)).copied();
    let mut starts = vec![0];
    for (index, instruction) in instructions.iter().enumerate() {
        starts.extend(target(instruction));
        if instruction.target.is_some() || !instruction.falls_through {
            starts.push(index + 1);
        }
    }
    starts.sort_unstable();
    starts.dedup();
    starts.retain(|start| *start < instructions.len());
    let ends = starts.iter().copied().skip(1).chain([instructions.len()]);
    let blocks: Vec<_> = starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect();
    let block_at = |start: usize| starts.binary_search(&start).ok();
    let successors = blocks
        .iter()
        .map(|block| {
            let last = &instructions[block.end - 1];
            let next = if last.falls_through { block_at(block.end) } else { None };
            target(last).and_then(block_at).into_iter().chain(next).collect()
        })
        .collect();
    (blocks, successors)
}

/// Reads lines of PTX as LLVM writes them.
#[derive(Default)]
struct Reader<'t> {
    instructions: Vec<Instruction<'t>>,
    labels: HashMap<&'t str, usize>,
    registers: HashMap<&'t str, usize>,
    /// 32-bit units of each register.
    widths: Vec<u32>,
    /// Whether the last instruction goes on in the next line.
    open: bool,
}

impl<'t> Reader<'t> {
    fn line(&mut self, line: &'t str) {
        let line = line.split("//").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with(['.', '{', '}']) && !self.open {
            return;
        }
        if let Some(label) = line.strip_suffix(':') {
            self.labels.insert(label, self.instructions.len());
            return;
        }
        if self.open {
            // Operands after the first one.
            let reads = self.registers_of(line);
            if let Some(last) = self.instructions.last_mut() {
                if last.writes.is_empty() && last.reads.is_empty() {
                    last.writes = reads
                } else {
                    last.reads.extend(reads)
                }
            }
        } else {
            self.instruction(line);
        }
        self.open = !line.ends_with(';');
    }

    fn instruction(&mut self, line: &'t str) {
        let mut reads = Vec::new();
        let mut rest = line;
        let guarded = line.starts_with('@');
        if guarded {
            let (guard, after) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            reads.extend(self.registers_of(guard));
            rest = after.trim_start();
        }
        let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let opcode = opcode.trim_end_matches(';');
        let (first, others) = split_first(operands);
        let base = opcode.split('.').next().unwrap_or_default();
        let is_branch = base == "bra";
        let writes_first = !first.contains('[') && !matches!(base, "bra" | "bar" | "barrier" | "ret" | "exit" | "cp");
        let mut writes = Vec::new();
        if writes_first {
            writes = self.registers_of(first);
            if guarded || base == "wgmma" {
                // What was there stays where the guard does not hold; accumulators are added to.
                reads.extend(&writes);
            }
        } else {
            reads.extend(self.registers_of(first));
        }
        reads.extend(self.registers_of(others));
        self.instructions.push(Instruction {
            opcode,
            writes,
            reads,
            target: is_branch.then(|| first.trim_end_matches(';').trim()),
            falls_through: guarded || !(is_branch || matches!(base, "ret" | "exit" | "trap")),
        });
    }

    /// Registers that a text names.
    fn registers_of(&mut self, text: &'t str) -> Vec<usize> {
        let mut found = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            let name = &rest[at + 1..];
            let length = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
            let (name, after) = name.split_at(length);
            rest = after;
            let digits = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
            let width = match &name[..digits] {
                _ if digits == name.len() => continue,
                "r" | "rs" | "f" | "h" | "hh" | "b" => 1,
                "rd" | "fd" => 2,
                "rq" => 4,
                "p" => 0,
                _ => continue,
            };
            let next = self.widths.len();
            let index = *self.registers.entry(name).or_insert(next);
            if index == next {
                self.widths.push(width);
            }
            if !found.contains(&index) {
                found.push(index);
            }
        }
        found
    }
}

/// The first operand, and the others.
fn split_first(operands: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, c) in operands.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' if depth == 0 => return (&operands[..at], &operands[at + 1..]),
            _ => {}
        }
    }
    (operands, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(body: &str) -> String {
        format!(
            ".visible .entry k(\n\t.param .u64 k_param_0\n)\n.reqntid 128\n{{\n\t.reg .b32 %r<9>;\n{body}\n\tret;\n}}\n"
        )
    }

    #[test]
    fn registers_alive_at_once_are_counted_in_words() {
        let text = kernel(
            "\tld.param.b64 %rd1, [k_param_0];\n\tld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];\n\tadd.s32 %r5, %r1, %r2;\n\
             \tadd.s32 %r6, %r3, %r4;\n\tadd.s32 %r7, %r5, %r6;\n\tst.global.b32 [%rd1], %r7;",
        );
        // The address of two words, and the four words that were loaded.
        assert_eq!(Pressure::read(&text).as_written(), 6);
    }

    #[test]
    fn values_that_pass_through_a_loop_are_alive_in_it() {
        let text = kernel(
            "\tmov.b32 %r1, 0;\n\tmov.b32 %r2, 1;\n\tmov.b32 %r3, 2;\n$L__BB0_1:\n\tadd.s32 %r1, %r1, 1;\n\
             \tsetp.lt.s32 %p1, %r1, 9;\n\t@%p1 bra $L__BB0_1;\n\tadd.s32 %r4, %r2, %r3;\n\tst.shared.b32 [%r1], %r4;",
        );
        let pressure = Pressure::read(&text);
        assert_eq!((pressure.as_written(), pressure.reordered()), (3, 3));
    }

    #[test]
    fn loads_move_to_where_they_are_used() {
        let loads: String = (1..=16).map(|n| format!("\tld.shared.b32 %r{n}, [%r100+{n}];\n")).collect();
        let sums: String = (1..=16).map(|n| format!("\tadd.s32 %r{}, %r{}, %r{n};\n", 50 + n, 49 + n)).collect();
        let text =
            kernel(&format!("\tmov.b32 %r100, 0;\n\tmov.b32 %r50, 0;\n{loads}{sums}\tst.shared.b32 [%r100], %r66;"));
        let pressure = Pressure::read(&text);
        assert_eq!(pressure.as_written(), 18);
        // Address, sum and one operand.
        assert_eq!(pressure.reordered(), 3);
    }

    #[test]
    fn loads_do_not_pass_a_barrier() {
        let loads: String = (1..=16).map(|n| format!("\tld.shared.b32 %r{n}, [%r100+{n}];\n")).collect();
        let stores: String = (1..=16).map(|n| format!("\tst.shared.b32 [%r100+{n}], %r{n};\n")).collect();
        let text = kernel(&format!("\tmov.b32 %r100, 0;\n{loads}\tbar.sync 0;\n{stores}"));
        assert_eq!(Pressure::read(&text).reordered(), 17);
    }

    #[test]
    fn instructions_over_several_lines_and_guards_are_read() {
        let text = kernel(
            "\tmov.b32 %r9, 0;\n\tmma.sync.aligned.m8n8k4\n\t\t{%r1, %r2},\n\t\t{%r3}, {%r4},\n\t\t{%r5, %r6};\n\
             \t@%p1 mov.b32 %r1, %r9;\n\tst.shared.v2.b32 [%r9], {%r1, %r2};",
        );
        // Before the product: what it reads, and the address.
        assert_eq!(Pressure::read(&text).as_written(), 5);
    }
}
