//! `hardware.expect`: what must and must not be in the kernels of a target.
//!
//! Instructions are looked for in the PTX; one written in capitals (`HMMA`) in what ptxas makes of it, as nvdisasm lists it. Spills and
//! occupancy are what ptxas says. A tool that an expectation needs and that is not there is an error: an expectation is never skipped.

use std::collections::BTreeMap;

use serde::Serialize;
use tenon_bundle::{Bundle, KernelRecord};
use tenon_recipe::{Expectation, Recipe};
use tenon_runtime::LaunchPlan;
use tenon_runtime::plan::Launch;
use tenon_target::{BlockResources, Nvdisasm, Ptxas, Target};

use crate::bundle::each_launch;
use crate::{Diagnostic, Failure};

/// A kernel that something is expected of.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelCheck {
    /// The target.
    pub target: String,
    /// Its entry.
    pub kernel: String,
    /// Its family.
    pub family: String,
    /// Registers of a thread, by ptxas.
    pub registers: Option<u32>,
    /// Bytes spilled, by ptxas.
    pub spills: Option<u32>,
    /// Share of a multiprocessor's warps, by ptxas and the target's limits.
    pub occupancy: Option<f64>,
}

/// Families that people know by another name.
const ALSO: &[(&str, &str)] =
    &[("matmul", "contract"), ("gemm", "contract"), ("conv", "convolution"), ("elementwise", "map")];

/// Whether a name of the recipe means a kernel: its family, or a word of its name.
fn means(name: &str, kernel: &KernelRecord) -> bool {
    let family = ALSO.iter().find(|(also, _)| *also == name).map_or(name, |(_, family)| family);
    kernel.family == family || kernel.entry.split('_').any(|word| word == name)
}

/// Holds the kernels of a target against the expectations for it, by its name or its architecture.
///
/// # Errors
/// A tool that is needed is missing or refuses the PTX; the bundle has nothing for the target.
pub fn check_expectations(
    bundle: &Bundle,
    recipe: &Recipe,
    target: &'static Target,
) -> Result<(Vec<KernelCheck>, Vec<Diagnostic>), Failure> {
    let names = [target.name(), &target.architecture.llvm.processor];
    let expected: Vec<&Expectation> = recipe
        .hardware
        .expect
        .iter()
        .filter(|(name, _)| names.contains(&name.as_str()))
        .map(|(_, expect)| expect)
        .collect();
    let (mut checks, mut refused) = (Vec::new(), Vec::new());
    if expected.is_empty() {
        return Ok((checks, refused));
    }
    let architecture = target.architecture.name.to_string();
    let mut kernels: BTreeMap<&str, (&KernelRecord, Launch)> = BTreeMap::new();
    for program in bundle.programs(target.name(), &architecture)? {
        let mut plan = LaunchPlan::from_json(bundle.text(&program.plan)?)?;
        each_launch(&mut plan.steps, &mut |launch, _| {
            if let Some(kernel) = program.kernels.iter().find(|kernel| kernel.entry == launch.entry) {
                kernels.entry(&kernel.entry).or_insert((kernel, launch.clone()));
            }
        });
    }
    for expectation in expected {
        let required = expectation.instructions.keys().chain(expectation.forbidden_instructions.keys());
        for name in required {
            if !kernels.values().any(|(kernel, _)| means(name, kernel)) {
                let mut families: Vec<_> = kernels.values().map(|(kernel, _)| kernel.family.as_str()).collect();
                families.sort_unstable();
                families.dedup();
                let message = format!("`hardware.expect` names kernels `{name}`, and {} has none", target.name());
                let help = format!("families of its kernels are {}", families.join(", "));
                refused.push(Diagnostic::new("E0240", message).with_help(help));
            }
        }
        for (kernel, launch) in kernels.values() {
            let ptx = bundle.text(&kernel.part)?;
            let mut measured = Measured { target, kernel, ptx, assembled: None };
            refused.extend(measured.instructions(expectation)?);
            let check = measured.resources(expectation, launch, &mut refused)?;
            checks.push(check);
        }
    }
    Ok((checks, refused))
}

/// A kernel with what the tools say of it, asked for when it is needed.
struct Measured<'a> {
    target: &'static Target,
    kernel: &'a KernelRecord,
    ptx: &'a str,
    assembled: Option<tenon_target::Assembly>,
}

impl Measured<'_> {
    fn assembly(&mut self) -> Result<&tenon_target::Assembly, Failure> {
        if self.assembled.is_none() {
            self.assembled = Some(Ptxas::locate()?.assemble(self.ptx, self.target)?);
        }
        Ok(self.assembled.as_ref().expect("it was just made"))
    }

    /// Whether an instruction occurs: in capitals one of SASS, else one of PTX, whole or up to a full stop.
    fn has(&mut self, instruction: &str) -> Result<bool, Failure> {
        if instruction.starts_with(|first: char| first.is_ascii_uppercase()) {
            let target = self.target;
            let cubin = self.assembly()?.cubin.clone();
            let listings = Nvdisasm::locate()?.disassemble(&cubin, target)?;
            return Ok(listings.iter().any(|listing| listing.count(instruction) > 0));
        }
        Ok(self.ptx.lines().any(|line| opcode(line).is_some_and(|opcode| begins(opcode, instruction))))
    }

    fn instructions(&mut self, expectation: &Expectation) -> Result<Vec<Diagnostic>, Failure> {
        let mut refused = Vec::new();
        for (lists, wanted) in [(&expectation.instructions, true), (&expectation.forbidden_instructions, false)] {
            for (_, list) in lists.iter().filter(|(name, _)| means(name, self.kernel)) {
                for instruction in list {
                    if self.has(instruction)? != wanted {
                        let what = if wanted { "has no" } else { "has a forbidden" };
                        refused.push(self.refusal(
                            &format!("{what} `{instruction}`"),
                            "change `hardware.expect`, or the types and sizes that decide the schedule",
                        ));
                    }
                }
            }
        }
        Ok(refused)
    }

    fn resources(
        &mut self,
        expectation: &Expectation,
        launch: &Launch,
        refused: &mut Vec<Diagnostic>,
    ) -> Result<KernelCheck, Failure> {
        let mut check = KernelCheck {
            target: self.target.name().to_owned(),
            kernel: self.kernel.entry.clone(),
            family: self.kernel.family.clone(),
            registers: None,
            spills: None,
            occupancy: None,
        };
        if expectation.spills.is_none() && expectation.min_occupancy.is_none() {
            return Ok(check);
        }
        let entry = self.kernel.entry.clone();
        let target = self.target;
        let figures = self.assembly()?.kernel(&entry).cloned();
        let Some(figures) = figures else {
            refused.push(self.refusal("is not in what ptxas reports", "report this as a fault of Tenon"));
            return Ok(check);
        };
        let spills = figures.spill_stores + figures.spill_loads;
        let resources = BlockResources {
            threads: launch.block.iter().product(),
            registers_per_thread: figures.registers,
            shared_memory: figures.shared_memory + launch.dynamic_shared_bytes,
        };
        let occupancy = target.architecture.occupancy(&resources)?.fraction;
        (check.registers, check.spills, check.occupancy) = (Some(figures.registers), Some(spills), Some(occupancy));
        if let Some(most) = expectation.spills
            && u64::from(spills) > most
        {
            refused.push(self.refusal(
                &format!("spills {spills} bytes, at most {most} are allowed"),
                "raise `spills`, or change what the kernel computes",
            ));
        }
        if let Some(least) = expectation.min_occupancy
            && occupancy < least
        {
            refused.push(self.refusal(
                &format!("has an occupancy of {occupancy:.3}, at least {least} is expected"),
                "lower `min_occupancy`, or change what the kernel computes",
            ));
        }
        Ok(check)
    }

    fn refusal(&self, what: &str, help: &str) -> Diagnostic {
        let message =
            format!("kernel `{}` ({}) for {} {what}", self.kernel.entry, self.kernel.family, self.target.name());
        let diagnostic = Diagnostic::new("E0243", message).with_help(help);
        Diagnostic { nodes: self.kernel.source_nodes.clone(), ..diagnostic }
    }
}

/// The opcode of a line of PTX; none for labels, directives and braces.
fn opcode(line: &str) -> Option<&str> {
    let line = line.trim_start().trim_start_matches(['{', ' ', '\t']);
    let line = match line.strip_prefix('@') {
        Some(rest) => rest.split_once(char::is_whitespace)?.1.trim_start(),
        None => line,
    };
    let opcode = line.split(|c: char| c.is_whitespace() || c == ';').next()?;
    opcode.starts_with(|first: char| first.is_ascii_lowercase()).then_some(opcode)
}

/// Whether an opcode is an instruction, or begins with it and a full stop.
fn begins(opcode: &str, instruction: &str) -> bool {
    opcode.strip_prefix(instruction).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_of_lines() {
        assert_eq!(
            opcode("\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1}, {%r2};"),
            Some("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
        );
        assert_eq!(opcode("\t@%p1 bra \t$L__BB0_2;"), Some("bra"));
        assert_eq!(opcode("\t@!%p1 ld.global.f32 %f1, [%rd1];"), Some("ld.global.f32"));
        assert_eq!(opcode("\t{ cvt.f32.f16 %f1, %rs1; }"), Some("cvt.f32.f16"));
        assert_eq!(opcode("\tret;"), Some("ret"));
        for line in ["", "$L__BB0_2:", ".visible .entry k(", "// mma.sync", "\t.reg .pred %p<2>;"] {
            assert_eq!(opcode(line), None, "{line}");
        }
        assert!(begins("shfl.sync.bfly.b32", "shfl.sync") && begins("ret", "ret"));
        assert!(!begins("mma.sync", "mm") && !begins("mma", "mma.sync"));
    }

    #[test]
    fn names_mean_families_and_words() {
        let kernel = |entry: &str, family: &str| KernelRecord {
            entry: entry.into(),
            part: String::new(),
            family: family.into(),
            source_nodes: Vec::new(),
        };
        assert!(means("matmul", &kernel("k0_contract_ab", "contract")) && means("contract", &kernel("k0", "contract")));
        assert!(
            means("softmax", &kernel("k1_reduce_softmax_0123", "reduce"))
                && !means("soft", &kernel("k1_reduce_softmax", "reduce"))
        );
    }
}
