//! Tile programs taken down to PTX: golden text, acceptance by ptxas, and values.
#![allow(clippy::unwrap_used)]

mod assemble;
mod graph_kernels;
mod kernels;
mod layouts;
mod support;
