//! Diagnostics that MLIR emits, as owned values.

use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex};

use mlir_sys::{
    MlirContext, MlirDiagnostic, MlirDiagnosticSeverity_MlirDiagnosticError as SEVERITY_ERROR,
    MlirDiagnosticSeverity_MlirDiagnosticNote as SEVERITY_NOTE,
    MlirDiagnosticSeverity_MlirDiagnosticWarning as SEVERITY_WARNING, MlirLogicalResult,
    mlirContextAttachDiagnosticHandler, mlirDiagnosticGetLocation, mlirDiagnosticGetNote, mlirDiagnosticGetNumNotes,
    mlirDiagnosticGetSeverity, mlirDiagnosticPrint, mlirLocationPrint,
};

use crate::text::collect;

/// How grave a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The operation failed.
    Error,
    /// Suspicious, but done.
    Warning,
    /// Belongs to another diagnostic.
    Note,
    /// Information.
    Remark,
}

/// One diagnostic with its notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How grave it is.
    pub severity: Severity,
    /// Location in MLIR's spelling without `loc(…)`.
    pub location: String,
    /// The message.
    pub message: String,
    /// Notes attached to it.
    pub notes: Vec<Diagnostic>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.location != "unknown" && !self.location.is_empty() {
            write!(f, "{}: ", self.location)?;
        }
        f.write_str(&self.message)?;
        for note in &self.notes {
            write!(f, " (note: {note})")?;
        }
        Ok(())
    }
}

/// Where a session's handler leaves what it hears.
pub(crate) type Sink = Arc<Mutex<Vec<Diagnostic>>>;

/// At most this many diagnostics are kept between two calls of `take`.
const LIMIT: usize = 64;

pub(crate) fn attach(context: MlirContext, sink: &Sink) {
    unsafe extern "C" fn handle(diagnostic: MlirDiagnostic, data: *mut c_void) -> MlirLogicalResult {
        // SAFETY: `data` is the box leaked below; it lives as long as the handler is attached.
        let sink = unsafe { &*(data as *const Sink) };
        let owned = read(diagnostic, 0);
        if let Ok(mut list) = sink.lock()
            && list.len() < LIMIT
        {
            list.push(owned);
        }
        MlirLogicalResult { value: 1 }
    }
    unsafe extern "C" fn destroy(data: *mut c_void) {
        // SAFETY: called once by MLIR, with the pointer made by `Box::into_raw` below.
        drop(unsafe { Box::from_raw(data as *mut Sink) });
    }
    let data = Box::into_raw(Box::new(Arc::clone(sink)));
    // SAFETY: the context is alive; `data` is freed by `destroy`.
    unsafe { mlirContextAttachDiagnosticHandler(context, Some(handle), data.cast(), Some(destroy)) };
}

fn read(diagnostic: MlirDiagnostic, depth: u32) -> Diagnostic {
    // SAFETY: the diagnostic is valid for the duration of the handler's call, and so are its notes and location.
    unsafe {
        #[allow(non_upper_case_globals)]
        let severity = match mlirDiagnosticGetSeverity(diagnostic) {
            SEVERITY_ERROR => Severity::Error,
            SEVERITY_WARNING => Severity::Warning,
            SEVERITY_NOTE => Severity::Note,
            _ => Severity::Remark,
        };
        let message = collect(|callback, data| mlirDiagnosticPrint(diagnostic, callback, data));
        let location = mlirDiagnosticGetLocation(diagnostic);
        let location = collect(|callback, data| mlirLocationPrint(location, callback, data));
        let location =
            location.strip_prefix("loc(").and_then(|l| l.strip_suffix(')')).unwrap_or(&location).replace('"', "");
        let notes = if depth < 2 {
            (0..mlirDiagnosticGetNumNotes(diagnostic))
                .map(|index| read(mlirDiagnosticGetNote(diagnostic, index), depth + 1))
                .collect()
        } else {
            Vec::new()
        };
        Diagnostic { severity, location, message, notes }
    }
}
