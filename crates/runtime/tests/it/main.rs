//! Plans on the simulator and on devices that check what reaches them.
#![allow(clippy::unwrap_used)]

mod conditionals;
mod execution;
mod extents;
mod random_plans;
mod read_extent;
mod requirements;
mod tensor_maps;
mod zeroed;
