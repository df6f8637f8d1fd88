//! `tenon sim`: run any PTX on the simulator.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use tenon_ptx_sim::{Argument, Counters, Device, DevicePointer, LaunchConfig, Module};
use tenon_tensor::{DType, Tensor, byte_count, encode_float, read_npy, write_npy};

use super::output::{Output, aligned};
use crate::{Diagnostic, Failure};

/// Longest PTX file that is read, in bytes.
const MAX_BYTES: u64 = 256 << 20;

#[derive(Args)]
pub(super) struct Arguments {
    /// The PTX
    file: PathBuf,
    /// The kernel; may be left out if there is one
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Blocks along x, y, z
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1", value_parser = parse_size)]
    grid: [u32; 3],
    /// Threads of a block along x, y, z
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1", value_parser = parse_size)]
    block: [u32; 3],
    /// Bytes of dynamic shared memory
    #[arg(long, value_name = "N", default_value_t = 0)]
    smem: u32,
    /// An argument, in order: `i32:5`, `f32:0.125`, `null`, `in:FILE.npy`, `out:FILE.npy:DTYPE:SHAPE` (as in `f32:4x8`), `inout:FILE.npy`
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true, value_parser = Given::from_str)]
    arguments: Vec<Given>,
    /// Print what the simulator counted
    #[arg(long)]
    counters: bool,
    /// Seed of the order of warps and blocks
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Only parse and decode
    #[arg(long)]
    check: bool,
}

/// An argument as given.
#[derive(Debug, Clone, PartialEq)]
enum Given {
    Scalar(Argument),
    Null,
    In(PathBuf),
    Out(PathBuf, DType, Vec<usize>),
    InOut(PathBuf),
}

impl FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "null" {
            return Ok(Given::Null);
        }
        let (kind, rest) = text.split_once(':').ok_or("expected KIND:VALUE, or null")?;
        let number = |reason: &dyn std::fmt::Display| format!("`{rest}` is no {kind}: {reason}");
        macro_rules! scalar {
            ($variant:ident, $ty:ty) => {
                rest.parse::<$ty>()
                    .map(|value| Given::Scalar(Argument::$variant(value)))
                    .map_err(|error| number(&error))
            };
        }
        match kind {
            "i8" => scalar!(I8, i8),
            "u8" | "ui8" => scalar!(U8, u8),
            "i16" => scalar!(I16, i16),
            "u16" | "ui16" => scalar!(U16, u16),
            "i32" => scalar!(I32, i32),
            "u32" | "ui32" => scalar!(U32, u32),
            "i64" => scalar!(I64, i64),
            "u64" | "ui64" => scalar!(U64, u64),
            "f32" => scalar!(F32, f32),
            "f64" => scalar!(F64, f64),
            "f16" | "bf16" => {
                let dtype = if kind == "f16" { DType::F16 } else { DType::BF16 };
                let value = rest.parse::<f64>().map_err(|error| number(&error))?;
                Ok(Given::Scalar(Argument::F16Bits(encode_float(dtype, value) as u16)))
            }
            "in" if !rest.is_empty() => Ok(Given::In(rest.into())),
            "inout" if !rest.is_empty() => Ok(Given::InOut(rest.into())),
            "out" => {
                let mut parts = rest.rsplitn(3, ':');
                let (Some(shape), Some(dtype), Some(file)) = (parts.next(), parts.next(), parts.next()) else {
                    return Err("expected out:FILE.npy:DTYPE:SHAPE".to_owned());
                };
                let dtype = dtype.parse::<DType>().map_err(|error| error.to_string())?;
                let sizes = shape.split(['x', ',']).map(str::trim).filter(|size| !size.is_empty());
                let shape = sizes.map(|size| size.parse::<usize>()).collect::<Result<Vec<_>, _>>();
                let shape = shape.map_err(|_| format!("`{}` is no shape, as 4x8 is", parts_shape(rest)))?;
                byte_count(dtype, &shape).ok_or("the shape is too large")?;
                Ok(Given::Out(file.into(), dtype, shape))
            }
            _ => Err(format!(
                "`{kind}` is no kind of argument: i8 to i64, u8 to u64, f16, bf16, f32, f64, null, in, out, inout"
            )),
        }
    }
}

fn parts_shape(rest: &str) -> &str {
    rest.rsplit(':').next().unwrap_or_default()
}

/// One to three sizes.
fn parse_size(text: &str) -> Result<[u32; 3], String> {
    let sizes = text.split(',').map(|size| size.trim().parse::<u32>()).collect::<Result<Vec<_>, _>>();
    let sizes = sizes.map_err(|error| error.to_string())?;
    match sizes[..] {
        [x] => Ok([x, 1, 1]),
        [x, y] => Ok([x, y, 1]),
        [x, y, z] => Ok([x, y, z]),
        _ => Err("expected one to three numbers, as in 4,2".to_owned()),
    }
}

/// A kernel as `--check` reports it.
#[derive(Serialize)]
struct EntryRow {
    entry: String,
    parameters: usize,
    instructions: usize,
    static_shared_bytes: u32,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let module = Module::parse(&read(&arguments.file)?)?;
    if arguments.check {
        return check(&module, output);
    }
    let entries: Vec<_> = module.entries().map(|entry| entry.name().to_owned()).collect();
    let entry = match (&arguments.entry, entries.as_slice()) {
        (Some(entry), _) => entry.clone(),
        (None, [only]) => only.clone(),
        (None, _) => {
            let message = format!("{} has {} kernels: {}", arguments.file.display(), entries.len(), entries.join(", "));
            return Err(Diagnostic::new("E0803", message).with_help("name one with --entry").into());
        }
    };
    let mut device = Device::new();
    let mut passed = Vec::new();
    let mut written: Vec<(&Path, DType, Vec<usize>, DevicePointer)> = Vec::new();
    for given in &arguments.arguments {
        passed.push(match given {
            Given::Scalar(argument) => argument.clone(),
            Given::Null => Argument::Pointer(0),
            Given::In(path) => Argument::from(upload(&mut device, &read_npy(path)?)?),
            Given::InOut(path) => {
                let tensor = read_npy(path)?;
                let pointer = upload(&mut device, &tensor)?;
                written.push((path, tensor.dtype(), tensor.shape().to_vec(), pointer));
                Argument::from(pointer)
            }
            Given::Out(path, dtype, shape) => {
                let bytes = byte_count(*dtype, shape).unwrap_or(0);
                let pointer = device.allocate(bytes as u64)?;
                written.push((path, *dtype, shape.clone(), pointer));
                Argument::from(pointer)
            }
        });
    }
    let config = LaunchConfig {
        grid: arguments.grid,
        block: arguments.block,
        dynamic_shared_bytes: arguments.smem,
        seed: arguments.seed,
        ..LaunchConfig::default()
    };
    let counters = device.launch(&module, &entry, &config, &passed)?;
    for (path, dtype, shape, pointer) in written {
        let bytes = byte_count(dtype, &shape).unwrap_or(0) as u64;
        let data = device.read(pointer, 0, bytes)?;
        write_npy(path, &Tensor::new(dtype, shape, data)?)?;
    }
    if arguments.counters {
        return if output.json { output.print_json(&counters) } else { output.print(&counters_text(&counters)) };
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Failure> {
    let wrong = |reason: String| Failure::from(Diagnostic::new("E0001", format!("{}: {reason}", path.display())));
    let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if size > MAX_BYTES {
        return Err(wrong(format!("{size} bytes are more than a PTX file may have")));
    }
    std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))
}

fn upload(device: &mut Device, tensor: &Tensor) -> Result<DevicePointer, Failure> {
    let pointer = device.allocate(tensor.bytes().len() as u64)?;
    device.write(pointer, 0, tensor.bytes())?;
    Ok(pointer)
}

fn check(module: &Module, output: &Output) -> Result<(), Failure> {
    let rows: Vec<_> = module
        .entries()
        .map(|entry| EntryRow {
            entry: entry.name().to_owned(),
            parameters: entry.parameters().len(),
            instructions: entry.instruction_count(),
            static_shared_bytes: entry.static_shared_bytes(),
        })
        .collect();
    if output.json {
        return output.print_json(&rows);
    }
    let row = |row: &EntryRow| {
        let numbers = [row.parameters.to_string(), row.instructions.to_string(), row.static_shared_bytes.to_string()];
        std::iter::once(row.entry.clone()).chain(numbers).collect()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    output.print(&aligned(&["entry", "parameters", "instructions", "static shared bytes"], &rows))
}

fn counters_text(counters: &Counters) -> String {
    let rows = [
        ("warp instructions", counters.warp_instructions.to_string()),
        ("lane instructions", counters.lane_instructions.to_string()),
        ("global requests", counters.global_requests.to_string()),
        ("global sectors", counters.global_sectors.to_string()),
        ("shared requests", counters.shared_requests.to_string()),
        ("shared wavefronts lost to bank conflicts", counters.shared_extra_wavefronts.to_string()),
        ("mma multiply-accumulates", counters.mma_macs.to_string()),
        ("barrier waits", counters.barrier_waits.to_string()),
        ("bytes of asynchronous copies", counters.async_copy_bytes.to_string()),
        ("L2 hit rate", format!("{:.3}", counters.l2_hit_rate())),
    ];
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    let opcodes: Vec<_> =
        counters.instructions.iter().map(|(opcode, count)| vec![opcode.clone(), count.to_string()]).collect();
    format!("{}{}", aligned(&["counter", "value"], &rows), aligned(&["opcode", "warp instructions"], &opcodes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed() {
        let parse = |text: &str| text.parse::<Given>();
        assert_eq!(parse("i32:-5").unwrap(), Given::Scalar(Argument::I32(-5)));
        assert_eq!(parse("f32:0.125").unwrap(), Given::Scalar(Argument::F32(0.125)));
        // 1.5 in f16: sign 0, exponent 15, mantissa 1000000000.
        assert_eq!(parse("f16:1.5").unwrap(), Given::Scalar(Argument::F16Bits(0x3e00)));
        assert_eq!(parse("null").unwrap(), Given::Null);
        assert_eq!(parse("out:a:b.npy:f16:4x8").unwrap(), Given::Out("a:b.npy".into(), DType::F16, vec![4, 8]));
        assert_eq!(parse("out:a.npy:f32:").unwrap(), Given::Out("a.npy".into(), DType::F32, vec![]));
        for wrong in
            ["", "i32", "i32:x", "i8:300", "out:a.npy:f32", "out:a.npy:q7:4", "out:a.npy:f32:4y8", "in:", "ptr:3"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_size("3").unwrap(), [3, 1, 1]);
        assert_eq!(parse_size("3,4,5").unwrap(), [3, 4, 5]);
        assert!(parse_size("1,2,3,4").is_err() && parse_size("").is_err());
    }
}
