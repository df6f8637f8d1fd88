//! MLIR bytecode: how operations go from one session to another.

use std::ffi::c_void;

use mlir_sys::{MlirStringRef, mlirOperationWriteBytecode};

use crate::Op;

/// An operation as bytecode. Only [`Op::bytecode`] makes one: MLIR does not check bytecode as it checks text.
#[derive(Clone)]
pub struct Bytecode(Vec<u8>);

impl Bytecode {
    /// The bytes. They depend on nothing but the operation, so that a hash of them is a key of its content.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Size in bytes: a measure of how much there is to compile.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

impl std::fmt::Debug for Bytecode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of bytecode", self.0.len())
    }
}

impl Op<'_> {
    /// The operation and all that is inside it, with locations, to be read by another session, on another thread.
    pub fn bytecode(self) -> Bytecode {
        unsafe extern "C" fn append(text: MlirStringRef, data: *mut c_void) {
            if text.length > 0 {
                // SAFETY: `data` is the buffer below; MLIR passes valid bytes.
                let (buffer, bytes) = unsafe {
                    (&mut *(data as *mut Vec<u8>), std::slice::from_raw_parts(text.data.cast::<u8>(), text.length))
                };
                buffer.extend_from_slice(bytes);
            }
        }
        let mut buffer: Vec<u8> = Vec::new();
        // SAFETY: the operation is alive; the callback is called before this returns.
        unsafe { mlirOperationWriteBytecode(self.to_raw(), Some(append), (&raw mut buffer).cast()) };
        Bytecode(buffer)
    }
}
