//! Launch plans, devices that execute them, and instances of compiled models.
//!
//! - [`plan`]: the launch plan as data, its stored form, its validation.
//! - [`device`]: the trait of everything that executes plans, and the embedded simulator.
//! - `bind`: from the shapes of a run's inputs to every number that a plan leaves open.
//! - [`Pool`]: all buckets of a model on a device; a request goes into the cheapest that holds it.
//! - `on_device`: what of a plan is made on a device before it runs.
//! - [`Executable`]: a plan with its PTX and weights. [`Instance`]: an executable on a device, to be run.
//!
//! Invariants: nothing runs before plan, weights and inputs have been found to fit; what a plan may hold and this runtime does not execute
//! is refused by name, never skipped.

mod bind;
pub mod device;
mod error;
mod executable;
mod instance;
mod no_bucket;
mod on_device;
pub mod plan;
mod pool;

pub use device::{Counters, Device, DeviceError, Placement, SimulatorDevice, SimulatorOptions};
pub use error::RuntimeError;
pub use executable::Executable;
pub use instance::{DeviceModules, DeviceParameters, Instance, Memory, RunResult, StepReport};
pub use plan::{LaunchPlan, PlanError};
pub use pool::{Bucket, Pool};
