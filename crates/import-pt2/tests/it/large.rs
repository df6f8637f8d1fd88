//! A large archive is imported without reading its weights.

use std::io::{Seek, SeekFrom, Write};
use std::time::Instant;

use tenon_import_pt2::{ImportOptions, Program, import_program};
use tenon_ir::Session;

use crate::refusals::{add_node, program_of};

/// Elements of the weight: 100 Mi, 400 MiB in f32.
const COUNT: u64 = 100 << 20;

/// Kilobytes of the process in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// An entry of a ZIP file at the end of what is written so far; the directory's record of it is given back. Without data, a hole of `size`.
fn entry(file: &mut std::fs::File, name: &str, data: &[u8], size: u64) -> Vec<u8> {
    let offset = file.stream_position().unwrap() as u32;
    let sizes = [size as u32, size as u32].map(u32::to_le_bytes).concat();
    let name_length = (name.len() as u16).to_le_bytes();
    // That of the weight is not computed, and need not be right: checking it would read all of it.
    let checksum = crc32fast::hash(data).to_le_bytes();
    let fixed = b"PK\x03\x04\x0a\0\0\0\0\0\0\0\0\0".as_slice();
    let start = [fixed, &checksum, &sizes, &name_length, &[0, 0], name.as_bytes()].concat();
    file.write_all(&start).unwrap();
    file.write_all(data).unwrap();
    file.seek(SeekFrom::Current((size - data.len() as u64) as i64)).unwrap();
    let fixed = b"PK\x01\x02\x0a\0\x0a\0\0\0\0\0\0\0\0\0".as_slice();
    [fixed, &checksum, &sizes, &name_length, &[0; 12], &offset.to_le_bytes(), name.as_bytes()].concat()
}

#[test]
fn weights_stay_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.pt2");
    let meta = format!(
        r#"{{"dtype":7,"sizes":[{{"as_int":{COUNT}}}],"strides":[{{"as_int":1}}],"storage_offset":{{"as_int":0}},"layout":7}}"#
    );
    let config =
        format!(r#"{{"config":{{"weight":{{"path_name":"weight_0","use_pickle":false,"tensor_meta":{meta}}}}}}}"#);
    let model = program_of(&add_node(), "", &meta);
    let mut file = std::fs::File::create(&path).unwrap();
    let mut directory = Vec::new();
    directory.extend(entry(&mut file, "m/archive_format", b"pt2", 3));
    directory.extend(entry(&mut file, "m/models/model.json", model.as_bytes(), model.len() as u64));
    // A hole in the file, which takes no space on the disk; as mapped memory it is like any other data.
    directory.extend(entry(&mut file, "m/data/weights/weight_0", &[], 4 * COUNT));
    directory.extend(entry(
        &mut file,
        "m/data/weights/model_weights_config.json",
        config.as_bytes(),
        config.len() as u64,
    ));
    let start = file.stream_position().unwrap() as u32;
    file.write_all(&directory).unwrap();
    let end = [
        b"PK\x05\x06\0\0\0\0\x04\0\x04\0".as_slice(),
        &(directory.len() as u32).to_le_bytes(),
        &start.to_le_bytes(),
        &[0, 0],
    ]
    .concat();
    file.write_all(&end).unwrap();
    drop(file);

    let session = Session::new();
    let before = resident();
    let clock = Instant::now();
    let program = Program::load(&path).unwrap();
    let imported = import_program(&session, &program, "large.pt2", &ImportOptions::default()).unwrap();
    let seconds = clock.elapsed().as_secs_f64();
    let grown = resident().saturating_sub(before);
    assert_eq!(imported.weights["weight"].bytes().len() as u64, 4 * COUNT);
    println!("{seconds:.3} s, {grown} KiB more in memory");
    assert!(seconds < 1.0, "{seconds} s");
    assert!(grown < 32 << 10, "{grown} KiB");
}
