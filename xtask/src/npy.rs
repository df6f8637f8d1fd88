//! Reads `.npy` files of 32-bit floats: NumPy format 1.0 and 2.0, little-endian, C order.

use crate::error::{Error, Result};
use std::fs;
use std::path::Path;

/// A dense array of f32 in C order.
#[derive(Debug, PartialEq)]
pub struct Array {
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// As many elements as the product of the dimensions.
    pub data: Vec<f32>,
}

/// Reads the file at `path`.
pub fn read(path: &Path) -> Result<Array> {
    let bytes = fs::read(path).map_err(|error| Error::file(path, error))?;
    parse(&bytes).map_err(|reason| Error::file(path, reason))
}

fn parse(bytes: &[u8]) -> std::result::Result<Array, &'static str> {
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or("not an .npy file")?;
    let (length, rest) = match rest {
        [1, 0, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2, 0, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        _ => return Err("not of .npy format 1.0 or 2.0"),
    };
    let (header, data) = rest.split_at_checked(length).ok_or("the header is cut short")?;
    let header = std::str::from_utf8(header).map_err(|_| "the header is no text")?;
    if value_of(header, "descr").is_none_or(|descr| !descr.starts_with("'<f4'")) {
        return Err("the elements are not little-endian f32");
    }
    if value_of(header, "fortran_order").is_none_or(|order| !order.starts_with("False")) {
        return Err("the order is not C");
    }
    let shape = value_of(header, "shape").and_then(|text| text.strip_prefix('(')?.split_once(')'));
    let mut dimensions = Vec::new();
    for word in shape.ok_or("the header has no shape")?.0.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        dimensions.push(word.parse::<usize>().map_err(|_| "a dimension is no number")?);
    }
    let bytes_of_shape = dimensions.iter().try_fold(4usize, |product, dimension| product.checked_mul(*dimension));
    if bytes_of_shape != Some(data.len()) {
        return Err("the data are not as long as the shape says");
    }
    let data = data.chunks_exact(4).map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])).collect();
    Ok(Array { shape: dimensions, data })
}

/// What follows `'KEY':` in the header, which is a Python dictionary.
fn value_of<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let (_, value) = header.split_once(&format!("'{key}':"))?;
    Some(value.trim_start())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn file(version: u8, header: &str, data: &[f32]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY".to_vec();
        bytes.extend([version, 0]);
        match version {
            1 => bytes.extend((header.len() as u16).to_le_bytes()),
            _ => bytes.extend((header.len() as u32).to_le_bytes()),
        }
        bytes.extend(header.as_bytes());
        bytes.extend(data.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    #[test]
    fn shapes_and_versions() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
        let data = [1.0, -2.0, 0.5, f32::INFINITY, 0.0, 3.0];
        for version in [1, 2] {
            assert_eq!(parse(&file(version, header, &data)), Ok(Array { shape: vec![2, 3], data: data.to_vec() }));
        }
        let scalar = header.replace("(2, 3)", "()");
        assert_eq!(parse(&file(1, &scalar, &[7.0])), Ok(Array { shape: vec![], data: vec![7.0] }));
        let empty = header.replace("(2, 3)", "(0,)");
        assert_eq!(parse(&file(1, &empty, &[])), Ok(Array { shape: vec![0], data: vec![] }));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
        let good = file(1, header, &[1.0, 2.0]);
        assert!(parse(&good).is_ok());
        for length in 0..good.len() {
            assert!(parse(&good[..length]).is_err(), "cut to {length} bytes");
        }
        for (from, to) in [
            ("<f4", "<f8"),
            ("False", "True"),
            ("(2,)", "(3,)"),
            ("(2,)", "(-2,)"),
            ("(2,)", "(4611686018427387905, 2)"),
        ] {
            assert!(parse(&file(1, &header.replace(from, to), &[1.0, 2.0])).is_err(), "{to}");
        }
    }
}
