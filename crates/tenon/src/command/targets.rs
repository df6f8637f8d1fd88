//! `tenon targets`: what can be compiled for.

use serde::Serialize;
use tenon_target::Target;

use super::output::{Output, aligned};
use crate::Failure;

#[derive(Serialize)]
struct Row {
    name: &'static str,
    product: &'static str,
    architecture: &'static str,
    ptx: String,
    sms: u32,
    memory_bytes: u64,
    memory_bytes_per_second: f64,
    is_default: bool,
}

pub(super) fn run(output: &Output) -> Result<(), Failure> {
    let rows: Vec<Row> = Target::all()
        .iter()
        .map(|target| Row {
            name: target.name(),
            product: &target.gpu.product,
            architecture: &target.architecture.llvm.processor,
            ptx: target.architecture.ptx_version().to_string(),
            sms: target.gpu.sms,
            memory_bytes: target.gpu.memory.bytes,
            memory_bytes_per_second: target.gpu.memory.bandwidth,
            is_default: target.name() == Target::default_target().name(),
        })
        .collect();
    if output.json {
        return output.print_json(&rows);
    }
    let cells: Vec<Vec<String>> = rows
        .into_iter()
        .map(|row| {
            vec![
                if row.is_default { format!("{} (default)", row.name) } else { row.name.to_owned() },
                row.architecture.to_owned(),
                row.ptx,
                row.sms.to_string(),
                format!("{:.0} GB", row.memory_bytes as f64 / 1e9),
                format!("{:.0} GB/s", row.memory_bytes_per_second / 1e9),
                row.product.to_owned(),
            ]
        })
        .collect();
    output.print(&aligned(&["target", "architecture", "PTX", "SMs", "memory", "bandwidth", "product"], &cells))
}
