//! Locations: where in the model an operation comes from.

use std::fmt;
use std::marker::PhantomData;

use mlir_sys::*;

use crate::Context;
use crate::text::{collect, read_string};

/// A location; unique in its session.
#[derive(Clone, Copy)]
pub struct Location<'s> {
    raw: MlirLocation,
    _session: PhantomData<&'s ()>,
}

#[allow(clippy::undocumented_unsafe_blocks)] // One reason for all: the location is alive for 's, and its kind is asked first.
impl<'s> Location<'s> {
    pub(crate) unsafe fn from_raw(raw: MlirLocation) -> Self {
        Location { raw, _session: PhantomData }
    }

    pub(crate) fn to_raw(self) -> MlirLocation {
        self.raw
    }

    /// The context it belongs to.
    pub fn context(self) -> Context<'s> {
        unsafe { Context::from_raw(mlirLocationGetContext(self.raw)) }
    }

    /// Names of the source nodes in it, in order, without repetition.
    pub fn names(self) -> Vec<String> {
        let mut names = Vec::new();
        self.collect_names(&mut names, 0);
        names
    }

    fn collect_names(self, names: &mut Vec<String>, depth: u32) {
        if depth > 64 {
            return;
        }
        unsafe {
            if mlirLocationIsAName(self.raw) {
                let name = read_string(mlirIdentifierStr(mlirLocationNameGetName(self.raw)));
                if !names.contains(&name) {
                    names.push(name);
                }
            } else if mlirLocationIsAFused(self.raw) {
                let mut parts =
                    vec![MlirLocation { ptr: std::ptr::null() }; mlirLocationFusedGetNumLocations(self.raw) as usize];
                mlirLocationFusedGetLocations(self.raw, parts.as_mut_ptr());
                for part in parts {
                    Location::from_raw(part).collect_names(names, depth + 1);
                }
            }
        }
    }
}

impl PartialEq for Location<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.raw.ptr == other.raw.ptr
    }
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the location is alive.
        f.write_str(&collect(|callback, data| unsafe { mlirLocationPrint(self.raw, callback, data) }))
    }
}

impl fmt::Debug for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
