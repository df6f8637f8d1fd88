//! Strings in and out of MLIR, and the checks that text passes before MLIR parses it.

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

/// Whether MLIR's parser can be trusted with this text.
pub(crate) fn check_text(text: &str) -> Result<(), &'static str> {
    if text.len() > MAX_BYTES {
        return Err("it is longer than 1 GiB");
    }
    let mut depth = 0usize;
    let mut in_string = false;
    let mut in_comment = false;
    let mut previous = 0u8;
    for &byte in text.as_bytes() {
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
                depth += 1;
                if depth > MAX_NESTING {
                    return Err("its brackets nest deeper than 256");
                }
            }
            b'>' if previous == b'-' => {}
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        previous = if byte == b'\\' && previous == b'\\' { 0 } else { byte };
    }
    Ok(())
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
    }
}
