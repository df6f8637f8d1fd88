//! Archives that are cut, changed or made up are refused by code; nothing panics.

use std::sync::OnceLock;

use proptest::prelude::*;
use tenon_import_pt2::{ImportOptions, Program, Pt2Error, import_program};
use tenon_ir::Session;

use crate::testdata;

fn original() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| std::fs::read(testdata().join("shared/model.pt2")).unwrap())
}

fn import(bytes: Vec<u8>) -> Result<(), Pt2Error> {
    let program = Program::decode(bytes.into())?;
    let session = Session::new();
    import_program(&session, &program, "m.pt2", &ImportOptions::default()).map(|_| ())
}

fn is_coded(result: Result<(), Pt2Error>) -> bool {
    match result {
        Ok(()) => true,
        Err(error) => {
            error.code().starts_with('E')
                && !error.to_string().is_empty()
                && error.help().is_none_or(|help| !help.is_empty())
        }
    }
}

/// Where `model.json` lies in the archive.
fn model_range() -> std::ops::Range<usize> {
    let bytes = original();
    let start = bytes.windows(17).position(|window| window == b"{\"graph_module\":{").unwrap();
    let end = start
        + bytes[start..].windows(4).position(|window| window == b"PK\x03\x04" || window == b"PK\x01\x02").unwrap();
    start..end
}

/// Writes the checksum that the program has into the archive's directory, so that what is changed in it is read.
fn sign(bytes: &mut [u8]) {
    let range = model_range();
    let checksum = crc32fast::hash(&bytes[range.clone()]).to_le_bytes();
    let name = b"/models/model.json";
    let at = (range.end..bytes.len()).find(|at| bytes[*at..].starts_with(name)).unwrap();
    let record = (range.end..at).rev().find(|at| bytes[*at..].starts_with(b"PK\x01\x02")).unwrap();
    bytes[record + 16..record + 20].copy_from_slice(&checksum);
}

#[test]
fn the_original_is_fine() {
    import(original().to_vec()).unwrap();
}

#[test]
fn every_cut_is_refused() {
    let bytes = original();
    // The end of the file, where the directory is, byte by byte; elsewhere in steps.
    let near_end = bytes.len().saturating_sub(2200)..bytes.len();
    for length in (0..bytes.len()).step_by(997).chain(near_end) {
        let error = Program::decode(bytes[..length].to_vec().into()).err();
        assert!(error.is_some_and(|error| error.code() == "E0161"), "cut at {length}");
    }
}

#[test]
fn changed_texts_are_coded() {
    // Each of these is a part of the program that an importer relies on.
    let text = String::from_utf8(original()[model_range()].to_vec()).unwrap();
    let changes = [
        ("\"major\":8", "\"major\":9", "E0165"),
        ("\"buffer_name\":\"part\"", "\"buffer_name\":\"parz\"", "E0169"),
        ("\"parameter_name\":\"table.weight\"", "\"parameter_name\":\"table.weighs\"", "E0169"),
        ("torch.ops.aten.embedding.default", "torch.ops.aten.embeddinx.default", "E0171"),
        ("torch.ops.aten.embedding.default", "torch.ops.mine.embedding.default", "E0172"),
        ("\"nodes\":", "\"nodez\":", "E0164"),
    ];
    for (from, to, code) in changes {
        assert!(text.contains(from), "{from}");
        let mut bytes = original().to_vec();
        bytes[model_range()].copy_from_slice(text.replacen(from, to, 1).as_bytes());
        sign(&mut bytes);
        let error = import(bytes).unwrap_err();
        assert_eq!(error.code(), code, "{to}: {error}");
    }
}

/// A letter of a text that nothing else notices.
#[test]
fn the_checksum_of_what_is_parsed_is_checked() {
    let text = original()[model_range()].to_vec();
    let at = text.windows(15).position(|window| window == b"\"torch_version\"").unwrap() + 18;
    let mut bytes = original().to_vec();
    bytes[model_range().start + at] ^= 1;
    let error = import(bytes.clone()).unwrap_err();
    assert_eq!(error.code(), "E0161", "{error}");
    assert!(error.to_string().contains("`models/model.json` has the checksum"), "{error}");
    sign(&mut bytes);
    import(bytes).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_are_coded(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5)) {
        let mut bytes = original().to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        prop_assert!(is_coded(import(bytes)));
    }

    /// Numbers and names of the program exchanged: sizes, strides, kinds and uses that contradict each other.
    #[test]
    fn changed_programs_are_coded(picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4)) {
        let range = model_range();
        let mut bytes = original().to_vec();
        let text = bytes[range.clone()].to_vec();
        let digits: Vec<usize> = (0..text.len()).filter(|place| text[*place].is_ascii_digit()).collect();
        for (from, to) in picks {
            let (from, to) = (digits[from.index(digits.len())], digits[to.index(digits.len())]);
            bytes[range.start + to] = text[from];
        }
        sign(&mut bytes);
        prop_assert!(is_coded(import(bytes)));
    }

    #[test]
    fn directories_are_coded(changes in prop::collection::vec((0usize..2000, any::<u8>()), 1..6)) {
        let mut bytes = original().to_vec();
        let length = bytes.len();
        for (place, byte) in changes {
            bytes[length - 1 - place.min(length - 1)] = byte;
        }
        prop_assert!(is_coded(import(bytes)));
    }

    #[test]
    fn noise_is_coded(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(is_coded(import(bytes)));
    }
}
