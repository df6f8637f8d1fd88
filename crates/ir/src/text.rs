//! Strings in and out of MLIR, and the checks that text passes before MLIR parses it.

use std::collections::HashMap;
use std::ffi::c_void;

use mlir_sys::{MlirStringCallback, MlirStringRef};

/// Brackets may nest at most this deep in text to be parsed: MLIR's parser recurses.
const MAX_NESTING: usize = 256;
/// Longest text that is parsed.
const MAX_BYTES: usize = 1 << 30;

/// Borrows a string for the duration of an MLIR call.
pub(crate) fn string_ref(text: &str) -> MlirStringRef {
    MlirStringRef { data: text.as_ptr().cast(), length: text.len() }
}

/// Copies a string that MLIR owns.
///
/// # Safety
///
/// `text` must be valid for reading.
pub(crate) unsafe fn read_string(text: MlirStringRef) -> String {
    if text.length == 0 || text.data.is_null() {
        return String::new();
    }
    // SAFETY: by the caller, `data` holds `length` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(text.data.cast::<u8>(), text.length) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs an MLIR printing function and collects what it prints.
pub(crate) fn collect(print: impl FnOnce(MlirStringCallback, *mut c_void)) -> String {
    unsafe extern "C" fn append(text: MlirStringRef, data: *mut c_void) {
        if text.length == 0 {
            return;
        }
        // SAFETY: `data` is the buffer below; MLIR passes a valid string.
        let (buffer, bytes) =
            unsafe { (&mut *(data as *mut Vec<u8>), std::slice::from_raw_parts(text.data.cast::<u8>(), text.length)) };
        buffer.extend_from_slice(bytes);
    }
    let mut buffer: Vec<u8> = Vec::new();
    print(Some(append), (&raw mut buffer).cast());
    String::from_utf8(buffer).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Signs may follow one another at most this often, and an affine map or set be at most so many bytes: both nest without brackets.
const MAX_SIGNS: usize = 64;
const MAX_AFFINE_BYTES: usize = 16 << 10;

/// Whether MLIR's parser can be trusted with this text.
///
/// The parser recurses over brackets, over signs and over the terms of affine expressions, and stops at a NUL byte.
pub(crate) fn check_text(text: &str) -> Result<(), &'static str> {
    if text.len() > MAX_BYTES {
        return Err("it is longer than 1 GiB");
    }
    let bytes = text.as_bytes();
    // Open brackets by kind: one that closes another kind is a syntax error, which must not hide what is open.
    let mut open = [0usize; 4];
    let mut signs = 0;
    // Where an affine map or set began, and the `<` that were open before.
    let mut affine: Option<(usize, usize)> = None;
    let mut names_affine = false;
    let mut in_string = false;
    let mut in_comment = false;
    let mut previous = 0u8;
    for (index, &byte) in bytes.iter().enumerate() {
        let plain = !in_comment && !in_string;
        if plain && byte == b'-' {
            signs += 1;
            if signs > MAX_SIGNS {
                return Err("it holds a long run of signs");
            }
        } else if plain && !byte.is_ascii_whitespace() {
            signs = 0;
        }
        match byte {
            0 => return Err("it holds a NUL byte"),
            b'\n' => {
                in_comment = false;
                in_string = false;
            }
            _ if in_comment => {}
            b'"' if previous != b'\\' => in_string = !in_string,
            _ if in_string => {}
            b'/' if previous == b'/' => in_comment = true,
            b'(' | b'[' | b'{' | b'<' => {
                if byte == b'<' && names_affine && affine.is_none() {
                    affine = Some((index, open[kind(byte)]));
                }
                names_affine = false;
                open[kind(byte)] += 1;
                if open.iter().sum::<usize>() > MAX_NESTING {
                    return Err("its brackets nest deeper than 256");
                }
            }
            // An arrow or a comparison.
            b'>' if previous == b'-' || bytes.get(index + 1) == Some(&b'=') => {}
            b')' | b']' | b'}' | b'>' => {
                let count = &mut open[kind(byte)];
                *count = count.saturating_sub(1);
                affine = affine.filter(|(_, before)| byte != b'>' || *count > *before);
            }
            _ => {}
        }
        if affine.is_some_and(|(start, _)| index - start > MAX_AFFINE_BYTES) {
            return Err("it holds an affine map or set of more than 16 KiB");
        }
        if plain && (bytes[..=index].ends_with(b"affine_map") || bytes[..=index].ends_with(b"affine_set")) {
            names_affine = true;
        }
        previous = if byte == b'\\' && previous == b'\\' { 0 } else { byte };
    }
    check_aliases(text)
}

/// Aliases may name one another at most this deep, and what one stands for may be so many bytes when written out.
const MAX_ALIAS_DEPTH: usize = 64;
const MAX_ALIAS_BYTES: usize = 64 << 20;

/// Whether the `#name = …` and `!name = …` definitions of a text stay small when they are written out, as printing may do. What follows a
/// definition up to the next counts as its body.
fn check_aliases(text: &str) -> Result<(), &'static str> {
    let bytes = text.as_bytes();
    let mut known: HashMap<&str, (usize, usize)> = HashMap::new();
    let mut current: Option<&str> = None;
    let (mut depth, mut size) = (1usize, 0usize);
    let mut rest = 0;
    while let Some(found) = bytes[rest..].iter().position(|byte| matches!(byte, b'#' | b'!' | b'"')) {
        let start = rest + found;
        size = size.saturating_add(found);
        if bytes[start] == b'"' {
            // A string: up to the next quote that is not escaped, or the end of the line.
            let mut end = start + 1;
            while end < bytes.len() && !matches!(bytes[end], b'"' | b'\n') {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            size = size.saturating_add(end - start);
            rest = (end + 1).min(bytes.len());
            continue;
        }
        let length = bytes[start + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
            .count();
        let end = start + 1 + length;
        let name = &text[start..end];
        if text[end..].trim_ascii_start().starts_with('=') {
            if let Some(defined) = current.replace(name) {
                known.insert(defined, (depth, size));
            }
            (depth, size) = (1, 0);
        } else if let Some((inner, bytes)) = known.get(name) {
            depth = depth.max(inner + 1);
            size = size.saturating_add(*bytes);
        }
        if current.is_some() && (depth > MAX_ALIAS_DEPTH || size > MAX_ALIAS_BYTES.max(text.len())) {
            return Err("its aliases name one another too deep, or stand for too much");
        }
        rest = end;
    }
    Ok(())
}

fn kind(bracket: u8) -> usize {
    match bracket {
        b'(' | b')' => 0,
        b'[' | b']' => 1,
        b'{' | b'}' => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_refused() {
        assert!(check_text("module {}").is_ok());
        assert!(check_text("a\0b").is_err());
        assert!(check_text(&"(".repeat(10_000)).is_err());
        assert!(check_text(&format!("\"{}\"", "(".repeat(10_000))).is_ok());
        assert!(check_text("func.func @f() -> (i32) {}").is_ok());
        // Closing another kind of bracket, or comparing, opens no way around the limit.
        assert!(check_text(&"[>".repeat(10_000)).is_err());
        assert!(check_text(&"[affine_set<(d0) : (d0 >= 0)>, ".repeat(10_000)).is_err());
        assert!(check_text(&"affine_set<(d0) : (d0 - 1 >= 0)> ".repeat(10_000)).is_ok());
        assert!(check_text(&format!("affine_map<(d0) -> ({}d0)>", "- ".repeat(10_000))).is_err());
        assert!(check_text(&format!("affine_map<(d0) -> ({}0)>", "d0 floordiv 3 + ".repeat(10_000))).is_err());
        assert!(check_text(&format!("affine_map<(d0) -> (d0)>{}", " ".repeat(100_000))).is_ok());
    }

    #[test]
    fn aliases_are_bounded() {
        let chain = |levels: usize, uses: usize| -> String {
            let definition =
                |level: usize| format!("#a{} = [{}]\n", level + 1, vec![format!("#a{level}"); uses].join(", "));
            std::iter::once("#a0 = [1]\n".to_owned()).chain((0..levels).map(definition)).collect()
        };
        assert!(check_text(&chain(10, 2)).is_ok());
        assert!(check_text(&chain(100, 1)).is_err());
        assert!(check_text(&chain(40, 2)).is_err());
        let locations: String = (0..10_000).map(|index| format!("#loc{index} = loc(\"#x\")\n")).collect();
        assert!(check_text(&locations).is_ok());
    }
}
