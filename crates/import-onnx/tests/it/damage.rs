//! Damaged files: refused by code or read, never a panic.

use crate::common::*;
use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use tenon_import_onnx::Model;

fn read_bytes(bytes: Vec<u8>) -> Result<Model, String> {
    Model::decode(Bytes::from(bytes), None).map_err(|error| {
        assert!(error.code().starts_with("E01"));
        assert!(error.help().is_some());
        error.to_string()
    })
}

#[test]
fn the_undamaged_model_is_read() {
    assert!(read_bytes(rich_model().encode_to_vec()).is_ok());
}

#[test]
fn every_truncation() {
    let bytes = rich_model().encode_to_vec();
    let whole = (0..bytes.len()).filter(|&length| read_bytes(bytes[..length].to_vec()).is_ok()).count();
    // Only cuts between the last fields of the outermost message, which are optional, leave a model.
    assert!(whole < 10, "{whole} truncations were read");
}

#[test]
fn every_flipped_bit() {
    let bytes = rich_model().encode_to_vec();
    let mut refused = 0;
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        refused += usize::from(read_bytes(damaged).is_err());
    }
    // The rest are changes of text, weights and optional fields.
    assert!(refused > bytes.len() * 2, "{refused} of {}", bytes.len() * 8);
}

proptest! {
    #[test]
    fn spliced_bytes(position in 0usize..2000, removed in 0usize..20, inserted in proptest::collection::vec(any::<u8>(), 0..20)) {
        let mut bytes = rich_model().encode_to_vec();
        let start = position % bytes.len();
        let end = (start + removed).min(bytes.len());
        bytes.splice(start..end, inserted);
        let _ = read_bytes(bytes);
    }

    #[test]
    fn noise(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_bytes(bytes);
    }
}
