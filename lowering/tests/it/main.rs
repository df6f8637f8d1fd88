//! Tile programs taken down to PTX: golden text, acceptance by ptxas, and values.
#![allow(clippy::unwrap_used)]

mod arrive;
mod assemble;
mod errors;
mod extents;
mod families;
mod golden;
mod graph_kernels;
mod kernels;
mod layouts;
mod planted;
mod support;
mod targets;
mod values;
