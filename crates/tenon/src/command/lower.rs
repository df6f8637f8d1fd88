//! `tenon lower`: print or write stages.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tenon_ir::Session;
use tenon_pass_manager::Remark;

use super::arguments::ModelArguments;
use super::output::{Output, aligned};
use crate::Failure;
use crate::driver::{Driver, write_file};
use crate::stage::{STAGES, Stage};

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// The stage to print; `ptx` without this
    #[arg(long, value_name = "STAGE", conflicts_with = "all")]
    stage: Option<Stage>,
    /// All stages, each into a file of the folder named by -o
    #[arg(long, requires = "output")]
    all: bool,
    /// Write into this folder instead of printing
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// List the stages
    #[arg(long)]
    list: bool,
    /// Print how long stages, passes and kernels took, on standard error
    #[arg(long)]
    timings: bool,
    /// Print what passes counted, on standard error
    #[arg(long)]
    statistics: bool,
    /// Print what passes did, on standard error
    #[arg(long)]
    remarks: bool,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    if arguments.list {
        return list(output);
    }
    let session = Session::new();
    let inputs = arguments.model.read_inputs()?;
    let prepared = arguments.model.prepare(&session, &inputs, output, false)?;
    let mut driver = prepared
        .driver(&session)?
        .with_progress(|text| output.progress(text))
        .with_pass_dumps(|number, pass, point, text| eprintln!("// {point} pass {number}: {pass}\n{text}"));
    let source = &prepared.source;
    let wanted: Vec<Stage> = match arguments.stage {
        Some(stage) => vec![stage],
        None if arguments.all => STAGES.iter().map(|info| info.stage).filter(|stage| *stage >= source.stage).collect(),
        None => vec![Stage::Ptx],
    };
    let mut written = Vec::new();
    driver.lower(source, &wanted, arguments.all, &mut |dump| match &arguments.output {
        Some(folder) => {
            write_file(folder, &dump.file_name, dump.text.as_bytes())?;
            output.detail(&format!("wrote {}", folder.join(&dump.file_name).display()));
            written.push(dump.file_name);
            Ok(())
        }
        None => output.print(&dump.text),
    })?;
    output.end_progress();
    for note in driver.notes() {
        output.note(note);
    }
    report(arguments, &driver, output)?;
    if let Some(folder) = &arguments.output {
        if output.json {
            return output.print_json(&written);
        }
        output.note(&format!("{} files in {}", written.len(), folder.display()));
    }
    Ok(())
}

fn list(output: &Output) -> Result<(), Failure> {
    if output.json {
        #[derive(Serialize)]
        struct Row {
            number: usize,
            stage: &'static str,
            extension: &'static str,
            dialects: &'static str,
            holds: &'static str,
        }
        let rows = STAGES.iter().map(|info| Row {
            number: info.stage.number(),
            stage: info.name,
            extension: info.extension,
            dialects: info.dialects,
            holds: info.holds,
        });
        return output.print_json(&rows.collect::<Vec<_>>());
    }
    let row = |info: &crate::stage::StageInfo| {
        vec![
            format!("{:02}", info.stage.number()),
            info.name.to_owned(),
            info.dialects.to_owned(),
            info.holds.to_owned(),
        ]
    };
    output.print(&aligned(&["", "stage", "dialects", "holds"], &STAGES.iter().map(row).collect::<Vec<_>>()))
}

/// What `--timings`, `--statistics` and `--remarks` print.
fn report(arguments: &Arguments, driver: &Driver<'_, '_>, output: &Output) -> Result<(), Failure> {
    let report = driver.report();
    if output.json && (arguments.timings || arguments.statistics || arguments.remarks) {
        #[derive(Serialize)]
        struct Times<'r> {
            stage: &'static str,
            bucket: Option<&'r str>,
            target: Option<&'static str>,
            milliseconds: f64,
        }
        #[derive(Serialize)]
        struct Passes {
            pass: &'static str,
            run_milliseconds: f64,
            verify_milliseconds: f64,
        }
        #[derive(Serialize)]
        struct Kernels<'r> {
            kernel: &'r str,
            target: &'static str,
            gpu_milliseconds: f64,
            nvvm_milliseconds: f64,
            llvm_milliseconds: f64,
            ptx_milliseconds: f64,
        }
        #[derive(Serialize)]
        struct Machine<'r> {
            stages: Vec<Times<'r>>,
            kernels: Vec<Kernels<'r>>,
            passes: Vec<Passes>,
            statistics: &'r [(&'static str, &'static str, u64)],
            remarks: &'r [Remark],
        }
        let stages = driver.times().iter().map(|time| Times {
            stage: time.stage.name(),
            bucket: time.bucket.as_deref(),
            target: time.target,
            milliseconds: milliseconds(time.time),
        });
        let passes = report.timings.iter().map(|timing| Passes {
            pass: timing.pass,
            run_milliseconds: milliseconds(timing.run),
            verify_milliseconds: milliseconds(timing.verify),
        });
        let kernels = driver.kernel_times().iter().map(|kernel| Kernels {
            kernel: &kernel.name,
            target: kernel.target,
            gpu_milliseconds: milliseconds(kernel.times.gpu),
            nvvm_milliseconds: milliseconds(kernel.times.nvvm),
            llvm_milliseconds: milliseconds(kernel.times.llvm),
            ptx_milliseconds: milliseconds(kernel.times.ptx),
        });
        let machine = Machine {
            stages: stages.collect(),
            kernels: kernels.collect(),
            passes: passes.collect(),
            statistics: &report.counters,
            remarks: &report.remarks,
        };
        eprintln!("{}", serde_json::to_string(&machine).unwrap_or_default());
        return Ok(());
    }
    if arguments.timings {
        let rows: Vec<_> = driver
            .times()
            .iter()
            .map(|time| {
                let place = [time.bucket.as_deref(), time.target].into_iter().flatten().collect::<Vec<_>>().join(" ");
                vec![time.stage.name().to_owned(), format!("{:.1}", milliseconds(time.time)), place]
            })
            .collect();
        eprint!("{}", aligned(&["stage", "ms", ""], &rows));
        let passes: Vec<_> = report
            .timings
            .iter()
            .map(|timing| {
                let number = |time| format!("{:.1}", milliseconds(time));
                vec![timing.pass.to_owned(), number(timing.run), number(timing.verify)]
            })
            .collect();
        eprint!("{}", aligned(&["pass", "ms", "verify ms"], &passes));
        let mut kernels: Vec<_> = driver.kernel_times().iter().collect();
        kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.times.total()));
        let kernels: Vec<_> = kernels
            .iter()
            .map(|kernel| {
                let times = kernel.times;
                let mut row = vec![kernel.name.clone()];
                row.extend(
                    [times.gpu, times.nvvm, times.llvm, times.ptx].map(|time| format!("{:.1}", milliseconds(time))),
                );
                row.push(kernel.target.to_owned());
                row
            })
            .collect();
        if !kernels.is_empty() {
            eprint!("{}", aligned(&["kernel", "gpu ms", "nvvm ms", "llvm ms", "ptx ms", ""], &kernels));
        }
    }
    if arguments.statistics {
        let row = |(pass, counter, value): &(&str, &str, u64)| {
            vec![(*pass).to_owned(), value.to_string(), (*counter).to_owned()]
        };
        eprint!("{}", aligned(&["pass", "", ""], &report.counters.iter().map(row).collect::<Vec<_>>()));
    }
    if arguments.remarks {
        for remark in &report.remarks {
            eprintln!("{}", remark_line(remark));
        }
    }
    Ok(())
}

fn milliseconds(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A remark as a line.
pub(super) fn remark_line(remark: &Remark) -> String {
    let nodes = if remark.nodes.is_empty() { String::new() } else { format!(" [{}]", remark.nodes.join(", ")) };
    format!("{}: {}: {}{nodes}", remark.pass, remark.kind, remark.message)
}
