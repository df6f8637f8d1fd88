//! The benchmark kernels, one row each as Tenon makes it and one as published.

use serde::Serialize;
use tenon_ir::Session;
use tenon_target::{Nvdisasm, Ptxas, Target};

use super::{HEADINGS, aligned, number};
use crate::assembly::{KernelCode, assemble};
use crate::benchmark::{Benchmark, Published, Suite};
use crate::command::output::Output;
use crate::driver::{Driver, Request};
use crate::{Diagnostic, Failure};

/// The benchmark kernels of a target.
#[derive(Serialize)]
struct Report {
    target: &'static str,
    /// CUDA release of ptxas.
    ptxas: String,
    /// Where the published figures are from.
    published: &'static str,
    kernels: Vec<Row>,
    unsupported: Vec<Unsupported>,
}

/// A kernel of Tenon's.
#[derive(Serialize)]
struct Row {
    /// Of the list's kernel; where that takes several kernels, with the kernel's own name behind it.
    name: String,
    #[serde(flatten)]
    code: Figures,
    published: Option<Reference>,
}

#[derive(Serialize)]
struct Figures {
    threads: u32,
    registers: u32,
    spills: u32,
    smem: u32,
    occupancy: f64,
    loop_sass: Option<usize>,
    loop_mma: Option<usize>,
    total_sass: Option<usize>,
}

#[derive(Serialize)]
struct Reference {
    #[serde(flatten)]
    figures: Published,
    occupancy: Option<f64>,
}

#[derive(Serialize)]
struct Unsupported {
    name: &'static str,
    reason: &'static str,
    published: Option<Reference>,
}

impl Figures {
    fn of(code: &KernelCode) -> Self {
        Figures {
            threads: code.threads,
            registers: code.registers,
            spills: code.spills,
            smem: code.smem,
            occupancy: code.occupancy,
            loop_sass: code.loop_sass,
            loop_mma: code.loop_mma,
            total_sass: code.total_sass,
        }
    }
}

fn reference(benchmark: &Benchmark, target: &Target) -> Option<Reference> {
    let figures = benchmark.published(target)?.clone();
    Some(Reference { occupancy: figures.occupancy(target), figures })
}

/// Compiles and assembles the kernels for each target.
///
/// # Errors
/// Of compilation and of the tools; after all figures, kernels that spill or draw a warning.
pub(super) fn run(
    request: &Request,
    ptxas: &Ptxas,
    nvdisasm: Option<&Nvdisasm>,
    output: &Output,
) -> Result<(), Failure> {
    let mut reports = Vec::new();
    let mut faults = Vec::new();
    for target in &request.targets {
        let request = Request { targets: vec![target], ..request.clone() };
        let mut report = Report {
            target: target.name(),
            ptxas: ptxas.release().to_string(),
            published: &Suite::get().source,
            kernels: Vec::new(),
            unsupported: Vec::new(),
        };
        for benchmark in &Suite::get().kernels {
            let session = Session::new();
            let Some(source) = benchmark.source(&session, target)? else {
                let reason = benchmark.unsupported_on(target).unwrap_or_default();
                let published = reference(benchmark, target);
                report.unsupported.push(Unsupported { name: &benchmark.name, reason, published });
                continue;
            };
            output.progress(&format!("{}, {}", benchmark.name, target.name()));
            let mut request = request.clone();
            if let Some(class) = benchmark.rewrites {
                request.recipe.numerics.rewrites = class;
            }
            let mut driver = Driver::new(&session, &request)?;
            for program in driver.programs(&source)? {
                let code = assemble(&program, ptxas, nvdisasm)?;
                let named = |fault: Diagnostic| Diagnostic {
                    message: format!("{}: {}", benchmark.name, fault.message),
                    ..fault
                };
                faults.extend(code.fault.map(named));
                let several = code.kernels.len() > 1;
                for (index, kernel) in code.kernels.iter().enumerate() {
                    let name = match several {
                        true => format!("{}/{}", benchmark.name, kernel.name),
                        false => benchmark.name.clone(),
                    };
                    // Figures are of the whole: they stand beside the last kernel of several.
                    let is_last = index + 1 == code.kernels.len();
                    let published = if is_last { reference(benchmark, target) } else { None };
                    report.kernels.push(Row { name, code: Figures::of(kernel), published });
                }
            }
        }
        if !output.json {
            print(&report, output)?;
        }
        reports.push(report);
    }
    if output.json {
        match reports.as_slice() {
            [report] => output.print_json(report)?,
            several => output.print_json(&several)?,
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(Failure(faults)) }
}

/// Cells of published figures.
fn published(reference: &Reference) -> Vec<String> {
    let Reference { figures, occupancy } = reference;
    vec![
        format!("  published, {}", figures.tile),
        figures.registers.to_string(),
        figures.spills.to_string(),
        figures.smem.to_string(),
        occupancy.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
        number(figures.loop_sass),
        number(figures.loop_mma),
        number(figures.total_sass),
    ]
}

fn print(report: &Report, output: &Output) -> Result<(), Failure> {
    output.print(&format!(
        "benchmark kernels, {}, by ptxas of CUDA {}; published: {}\n",
        report.target, report.ptxas, report.published
    ))?;
    let mut rows = Vec::new();
    for Row { name, code, published: reference } in &report.kernels {
        rows.push(vec![
            name.clone(),
            code.registers.to_string(),
            code.spills.to_string(),
            code.smem.to_string(),
            format!("{:.0} %", code.occupancy * 100.0),
            number(code.loop_sass),
            number(code.loop_mma),
            number(code.total_sass),
        ]);
        rows.extend(reference.as_ref().map(published));
    }
    for Unsupported { name, published: reference, .. } in &report.unsupported {
        rows.push(std::iter::once((*name).to_owned()).chain((0..7).map(|_| "-".to_owned())).collect());
        rows.extend(reference.as_ref().map(published));
    }
    output.print(&aligned(&HEADINGS, &rows))?;
    for Unsupported { name, reason, .. } in &report.unsupported {
        output.print(&format!("not there: {name}: {reason}\n"))?;
    }
    Ok(())
}
