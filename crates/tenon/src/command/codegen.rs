//! `tenon codegen`: models compiled and assembled, and what ptxas made of each kernel. Without a model, the benchmark kernels, beside published
//! figures ([`suite`]).

mod suite;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use tenon_import_onnx::ImportOptions;
use tenon_ir::Session;
use tenon_target::{Nvdisasm, Ptxas, Target};

use super::output::{Output, aligned};
use crate::assembly::{KernelCode, assemble};
use crate::driver::{Driver, Request, Source};
use crate::{Diagnostic, Failure};

#[derive(Args)]
pub(super) struct Arguments {
    /// The models: `.onnx`, `.pt2` of torch.export, or `.mlir` of Tenon's; without any, the benchmark kernels
    models: Vec<PathBuf>,
    /// A GPU (`a100-sxm4-80gb`) or architecture (`sm_80`); may be repeated
    #[arg(long = "target", value_name = "NAME")]
    targets: Vec<String>,
    /// The recipe of all models, a TOML or YAML file
    #[arg(long, value_name = "FILE")]
    recipe: Option<PathBuf>,
    /// Compile models that have this input for this shape of it: `x=1,3,224,224`; may be repeated
    #[arg(long = "shape", value_name = "INPUT=SIZES", value_parser = parse_shape)]
    shapes: Vec<(String, Vec<u64>)>,
}

/// `x=1,3,224,224`; `x=` is a scalar.
fn parse_shape(text: &str) -> Result<(String, Vec<u64>), String> {
    let expected = || "expected INPUT=SIZES, as in x=1,3,224,224".to_owned();
    let (name, sizes) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(expected)?;
    let sizes = sizes.split(',').map(str::trim).filter(|size| !size.is_empty());
    let sizes = sizes.map(|size| size.parse().map_err(|_| expected())).collect::<Result<_, _>>()?;
    Ok((name.to_owned(), sizes))
}

/// Columns of figures of a kernel.
const HEADINGS: [&str; 8] = ["kernel", "registers", "spills", "smem", "occupancy", "loop SASS", "loop MMA", "SASS"];

/// The kernels of a model, target and bucket.
#[derive(Serialize)]
struct Report {
    model: String,
    target: &'static str,
    bucket: Option<String>,
    /// CUDA release of ptxas.
    ptxas: String,
    kernels: Vec<KernelCode>,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let ptxas = Ptxas::locate()?;
    let nvdisasm = Nvdisasm::locate();
    if let Err(error) = &nvdisasm {
        output.note(&format!("no listings: {error}"));
    }
    let nvdisasm = nvdisasm.ok();
    let loaded = arguments.recipe.as_deref().map(super::recipe::load).transpose()?;
    let recipe = loaded.as_ref().map(|loaded| loaded.recipe.clone()).unwrap_or_default();
    let names = if arguments.targets.is_empty() { &recipe.targets } else { &arguments.targets };
    let mut targets: Vec<&'static Target> = names.iter().map(|name| Target::find(name)).collect::<Result<_, _>>()?;
    if targets.is_empty() {
        targets.push(Target::default_target());
    }
    let request = Request {
        recipe,
        targets,
        targets_are_named: !arguments.targets.is_empty(),
        bucket: Default::default(),
        input_shapes: None,
        passes: Default::default(),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    if arguments.models.is_empty() {
        return suite::run(&request, &ptxas, nvdisasm.as_ref(), output);
    }
    let mut reports = Vec::new();
    let mut faults = Vec::new();
    for model in &arguments.models {
        let session = Session::new();
        let shapes: BTreeMap<_, _> = arguments.shapes.iter().cloned().collect();
        let options = ImportOptions { shapes: (!shapes.is_empty()).then_some(shapes), ..ImportOptions::default() };
        let source = Source::model(&session, model, &options, None)?;
        let mut driver = Driver::new(&session, &request)?
            .with_shapes_hint("give the shapes of inputs with --shape, as in `--shape x=1,3,224,224`")
            .with_progress(|text| output.progress(text));
        if let (Some(path), Some(loaded)) = (&arguments.recipe, &loaded) {
            driver = driver.with_recipe_text(path, loaded);
        }
        for program in driver.programs(&source)? {
            let code = assemble(&program, &ptxas, nvdisasm.as_ref())?;
            faults.extend(code.fault.map(|fault| of_model(model, fault)));
            let report = Report {
                model: source.name.clone(),
                target: program.target.name(),
                bucket: program.bucket,
                ptxas: ptxas.release().to_string(),
                kernels: code.kernels,
            };
            if !output.json {
                print(&report, output)?;
            }
            reports.push(report);
        }
    }
    if output.json {
        // One model, bucket and target, the usual case, is one object.
        match reports.as_slice() {
            [report] => output.print_json(report)?,
            several => output.print_json(&several)?,
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(Failure(faults)) }
}

/// The fault, with the model that it was found in.
fn of_model(model: &Path, fault: Diagnostic) -> Diagnostic {
    Diagnostic { message: format!("{}: {}", model.display(), fault.message), ..fault }
}

fn number(number: Option<usize>) -> String {
    number.map_or("-".to_owned(), |number| number.to_string())
}

fn print(report: &Report, output: &Output) -> Result<(), Failure> {
    let bucket = report.bucket.as_deref().map(|bucket| format!(", {bucket}")).unwrap_or_default();
    let count = report.kernels.len();
    output.print(&format!(
        "{}, {}{bucket}: {count} kernels by ptxas of CUDA {}\n",
        report.model, report.target, report.ptxas
    ))?;
    let row = |kernel: &KernelCode| {
        vec![
            kernel.name.clone(),
            kernel.registers.to_string(),
            kernel.spills.to_string(),
            kernel.smem.to_string(),
            format!("{:.0} %", kernel.occupancy * 100.0),
            number(kernel.loop_sass),
            number(kernel.loop_mma),
            number(kernel.total_sass),
        ]
    };
    output.print(&aligned(&HEADINGS, &report.kernels.iter().map(row).collect::<Vec<_>>()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_parsed() {
        assert_eq!(parse_shape("a=b=1, 3").unwrap(), ("a=b".to_owned(), vec![1, 3]));
        assert_eq!(parse_shape("x=").unwrap(), ("x".to_owned(), Vec::new()));
        assert!(parse_shape("=1").is_err() && parse_shape("x").is_err() && parse_shape("x=1,-2").is_err());
    }
}
