//! Modules of PTX with one instruction, to see what an assembler takes.

use super::{FragmentScheme, Instruction, MatrixInstruction};
use crate::Architecture;
use tenon_tensor::DType;

impl Instruction {
    /// A module of PTX for `architecture` whose kernel `probe` holds the instruction, whether the architecture has it or not.
    pub fn probe(&self, architecture: &Architecture) -> String {
        let ptx = match &self.emission {
            super::Emission::Inline(constraints) => with_operands(&self.ptx, constraints),
            _ => self.ptx.clone(),
        };
        module(architecture, &ptx)
    }
}

impl MatrixInstruction {
    /// A module of PTX for `architecture` whose kernel `probe` holds the instruction, whether the architecture has it or not.
    pub fn probe(&self, architecture: &Architecture) -> String {
        let accumulator = |first: u32| registers(self.c, self.c_registers(), false, first);
        let operand = |dtype, count, first| registers(dtype, count, true, first);
        let mut ptx = self.ptx.replace("$adesc", "%rd2").replace("$bdesc", "%rd3");
        ptx = ptx.replace("$d", &accumulator(0));
        if self.fragments != FragmentScheme::Wgmma {
            ptx = ptx.replace("$a", &operand(self.a, self.a_registers(), 0));
            ptx = ptx.replace("$b", &operand(self.b, self.b_registers(), 16));
            ptx = ptx.replace("$c", &accumulator(32));
        }
        module(architecture, &ptx)
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

fn module(architecture: &Architecture, body: &str) -> String {
    format!(
        ".version {version}
.target {target}
.address_size 64
.extern .shared .align 128 .b8 shared[];
.visible .entry probe(.param .u64 pointer)
{{
  .reg .pred %p<64>;
  .reg .b16 %h<64>;
  .reg .b32 %r<256>;
  .reg .f32 %f<256>;
  .reg .b64 %rd<64>;
  .reg .f64 %fd<64>;
  ld.param.u64 %rd0, [pointer];
  cvta.to.global.u64 %rd1, %rd0;
  mov.u32 %r0, shared;
  {body}
  ret;
}}
",
        version = architecture.ptx_version(),
        target = architecture.name,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_beyond_the_ninth_are_not_mistaken() {
        let constraints = ["=f", "r", "r", "r", "r", "r", "r", "r", "r", "r", "l"].join(",");
        assert_eq!(with_operands("x $0, $1, [$10];", &constraints), "x %f1, %r2, [%rd11];");
    }

    #[test]
    fn fragments_become_lists() {
        assert_eq!(registers(DType::F64, 4, false, 32), "{%fd32, %fd33}");
        assert_eq!(registers(DType::F32, 2, false, 0), "{%f0, %f1}");
        assert_eq!(registers(DType::F32, 2, true, 0), "{%r0, %r1}");
        assert_eq!(registers(DType::F64, 2, true, 0), "{%fd0}");
    }
}
