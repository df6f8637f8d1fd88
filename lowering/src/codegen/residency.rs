//! How many blocks of a kernel share a multiprocessor: the bound that ptxas keeps when it allocates registers.
//!
//! Left alone, ptxas trades a few spilled registers for occupancy. `.minnctapersm` (PTX ISA, "Performance-Tuning Directives") states what a kernel
//! needs instead: at most the blocks that its grid gives each multiprocessor, and no more than registers hold without spills.

use tenon_target::{Architecture, BlockResources};

use super::pressure::Pressure;

const DIRECTIVE: &str = ".minnctapersm ";

/// Registers beside those that a kernel's PTX names: a stack pointer, what is lost to the alignment of vectors, copies, and what ptxas takes to
/// unroll a loop. A quarter and twelve more is what no kernel of the tested networks exceeds on any architecture.
fn with_reserve(registers: u32) -> u32 {
    registers + registers / 4 + 12
}

/// Registers that each thread may have where so many blocks share a multiprocessor.
fn registers_for(architecture: &Architecture, threads: u32, blocks: u32) -> u32 {
    let holds = |registers: &u32| {
        let block = BlockResources { threads, registers_per_thread: *registers, shared_memory: 0 };
        architecture.occupancy(&block).is_ok_and(|occupancy| occupancy.blocks >= blocks)
    };
    (1..=architecture.limits.registers_per_thread).rev().find(holds).unwrap_or(0)
}

/// The PTX of one kernel, whose `.minnctapersm` says how many blocks its grid and shared memory allow, with the number that its registers
/// allow too. Kernels whose registers never limit the number of blocks need no directive.
pub(super) fn fit(ptx: String, processor: &str) -> String {
    let Ok(architecture) = Architecture::find(processor) else { return ptx };
    let (Some(wanted), Some(threads)) = (number_after(&ptx, DIRECTIVE), number_after(&ptx, ".reqntid ")) else {
        return ptx;
    };
    let pressure = Pressure::read(&ptx);
    let most = architecture.limits.registers_per_thread;
    let mut need = with_reserve(pressure.as_written()).min(most);
    let limits = &architecture.limits;
    let least = limits.registers_per_sm / (limits.warps_per_sm * 32);
    let blocks = if need <= least {
        None
    } else {
        if registers_for(architecture, threads, wanted) < need {
            need = need.min(with_reserve(pressure.reordered()));
        }
        Some((1..=wanted).rev().find(|blocks| registers_for(architecture, threads, *blocks) >= need).unwrap_or(1))
    };
    let mut text = String::with_capacity(ptx.len());
    for line in ptx.split_inclusive('\n') {
        match (line.starts_with(DIRECTIVE), blocks) {
            (false, _) => text.push_str(line),
            (true, None) => {}
            (true, Some(blocks)) => text.push_str(&format!("{DIRECTIVE}{blocks}\n")),
        }
    }
    text
}

/// The number at the start of what follows `directive` at the start of a line.
fn number_after(ptx: &str, directive: &str) -> Option<u32> {
    let rest = ptx.lines().find_map(|line| line.strip_prefix(directive))?;
    let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A kernel of 128 threads that has `words` values alive at once.
    fn kernel(wanted: u32, words: u32) -> String {
        let loads: String = (1..=words).map(|n| format!("\tld.shared.b32 %r{n}, [{n}];\n")).collect();
        let stores: String = (1..=words).map(|n| format!("\tst.shared.b32 [{n}], %r{n};\n")).collect();
        format!(
            ".visible .entry k()\n.reqntid 128, 1, 1\n.minnctapersm {wanted}\n{{\n{loads}\tbar.sync 0;\n{stores}\tret;\n}}\n"
        )
    }

    fn fitted(wanted: u32, words: u32) -> Option<u32> {
        number_after(&fit(kernel(wanted, words), "sm_80"), DIRECTIVE)
    }

    #[test]
    fn small_kernels_need_no_directive() {
        assert_eq!(fitted(16, 10), None);
        let text = kernel(16, 10);
        assert_eq!(fit(text.clone(), "sm_80"), text.replace(".minnctapersm 16\n", ""));
    }

    #[test]
    fn a_small_grid_leaves_each_thread_its_registers() {
        assert_eq!(fitted(1, 100), Some(1));
        assert_eq!(fitted(2, 200), Some(2));
    }

    #[test]
    fn registers_limit_the_blocks_of_a_large_grid() {
        // 64 + 28 registers, in units of 8: 65536 / (96 * 128) = 5.3 blocks.
        assert_eq!(fitted(16, 64), Some(5));
        // 100 + 37, in units of 8: 65536 / (144 * 128) = 3.6.
        assert_eq!(fitted(16, 100), Some(3));
        assert_eq!(fitted(16, 250), Some(2));
    }

    #[test]
    fn registers_are_those_of_the_occupancy_calculator() {
        let ampere = Architecture::find("sm_80").unwrap();
        assert_eq!([1, 2, 4, 8, 16].map(|blocks| registers_for(ampere, 128, blocks)), [255, 255, 128, 64, 32]);
        assert_eq!(registers_for(ampere, 1024, 1), 64);
    }
}
