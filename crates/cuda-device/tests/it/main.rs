//! The CUDA device: against the driver of the machine where there is one, and against a library in its place that checks every call
//! (`fake-driver`). Each test that needs that library runs itself once more in a process of its own, whose loader finds it first.
#![allow(clippy::unwrap_used)]

mod child;
mod device;
mod failures;
mod gpu;
mod plans;
mod running;
mod tensor_maps;
mod zeroed;
