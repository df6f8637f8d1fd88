//! Modules of PTX that hold instructions of the table, to see what an assembler takes.

use super::{Emission, FragmentScheme, Instruction, Instructions, MatrixInstruction, Requirements};
use crate::Architecture;
use tenon_tensor::DType;

/// An instruction with registers for its operands.
#[derive(Clone, Debug)]
pub struct Probe<'i> {
    /// The row's name.
    pub name: &'i str,
    /// What an architecture must be to have it.
    pub requirements: Requirements<'i>,
    /// The instruction, in one line of PTX.
    text: String,
}

impl Instructions {
    /// Every row of the table, with registers for its operands.
    pub fn probes(&self) -> impl Iterator<Item = Probe<'_>> {
        let matrix = self.matrix.iter().map(|row| (row.name.as_str(), row.requirements(), row.probe()));
        let other = self.other.iter().map(|row| (row.name.as_str(), row.requirements(), row.probe()));
        matrix.chain(other).map(|(name, requirements, text)| Probe { name, requirements, text })
    }
}

impl Instruction {
    fn probe(&self) -> String {
        match &self.emission {
            Emission::Inline(constraints) => with_operands(&self.ptx, constraints),
            _ => self.ptx.clone(),
        }
    }
}

impl MatrixInstruction {
    fn probe(&self) -> String {
        let accumulator = |first: u32| registers(self.c, self.c_registers(), false, first);
        let operand = |dtype, count, first| registers(dtype, count, true, first);
        let ptx = self.ptx.replace("$adesc", "%rd2").replace("$bdesc", "%rd3").replace("$d", &accumulator(0));
        if self.fragments == FragmentScheme::Wgmma {
            return ptx;
        }
        let ptx = ptx.replace("$a", &operand(self.a, self.a_registers(), 0));
        let ptx = ptx.replace("$b", &operand(self.b, self.b_registers(), 16));
        ptx.replace("$c", &accumulator(32))
    }
}

/// A list of `count` 32-bit registers' worth of registers that hold `dtype`.
fn registers(dtype: DType, count: u32, operand: bool, first: u32) -> String {
    let (class, count) = match dtype {
        DType::F64 => ("fd", count / 2),
        DType::F32 if !operand => ("f", count),
        _ => ("r", count),
    };
    let list: Vec<String> = (first..first + count).map(|index| format!("%{class}{index}")).collect();
    format!("{{{}}}", list.join(", "))
}

/// Inline PTX with a register for each operand of its constraints.
fn with_operands(ptx: &str, constraints: &str) -> String {
    let mut text = ptx.to_owned();
    for (index, constraint) in constraints.split(',').enumerate().collect::<Vec<_>>().into_iter().rev() {
        let class = match constraint.trim_start_matches('=') {
            "f" => "f",
            "l" => "rd",
            "d" => "fd",
            "h" => "h",
            _ => "r",
        };
        text = text.replace(&format!("${index}"), &format!("%{class}{}", index + 1));
    }
    text
}

impl Probe<'_> {
    /// A module of PTX for `architecture` with a kernel for each of `probes`, and the number of the line that each instruction is in,
    /// the first line being 1. Whether the architecture has them is not looked at.
    pub fn module(architecture: &Architecture, probes: &[Probe<'_>]) -> (String, Vec<u32>) {
        let (version, target) = (architecture.ptx_version(), architecture.name);
        let mut ptx = format!(
            ".version {version}\n.target {target}\n.address_size 64\n.extern .shared .align 128 .b8 shared[];\n"
        );
        let mut lines = Vec::new();
        for (index, probe) in probes.iter().enumerate() {
            ptx += &format!(".visible .entry probe{index}(.param .u64 pointer)\n{PROLOGUE}");
            lines.push(u32::try_from(ptx.lines().count()).unwrap_or(u32::MAX).saturating_add(1));
            ptx += &format!("  {}\n  ret;\n}}\n", probe.text);
        }
        (ptx, lines)
    }
}

/// What the probes of the table take for granted.
const PROLOGUE: &str = "{
  .reg .pred %p<64>;
  .reg .b16 %h<64>;
  .reg .b32 %r<256>;
  .reg .f32 %f<256>;
  .reg .b64 %rd<64>;
  .reg .f64 %fd<64>;
  ld.param.u64 %rd0, [pointer];
  cvta.to.global.u64 %rd1, %rd0;
  mov.u32 %r0, shared;
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_beyond_the_ninth_are_not_mistaken() {
        let constraints = ["=f", "r", "r", "r", "r", "r", "r", "r", "r", "r", "l"].join(",");
        assert_eq!(with_operands("x $0, $1, [$10];", &constraints), "x %f1, %r2, [%rd11];");
    }

    #[test]
    fn lines_are_those_of_the_instructions() {
        let architecture = Architecture::find("sm_80").expect("it is in the table");
        let probes: Vec<Probe<'_>> = Instructions::table().probes().take(3).collect();
        let (ptx, lines) = Probe::module(architecture, &probes);
        for (probe, line) in probes.iter().zip(lines) {
            assert_eq!(ptx.lines().nth(line as usize - 1).map(str::trim), Some(probe.text.as_str()));
            assert!(!probe.text.contains('$'), "{}", probe.text);
        }
    }

    #[test]
    fn fragments_become_lists() {
        assert_eq!(registers(DType::F64, 4, false, 32), "{%fd32, %fd33}");
        assert_eq!(registers(DType::F32, 2, false, 0), "{%f0, %f1}");
        assert_eq!(registers(DType::F32, 2, true, 0), "{%r0, %r1}");
        assert_eq!(registers(DType::F64, 2, true, 0), "{%fd0}");
    }
}
