//! Launch plans, devices that execute them, and instances of compiled models.
//!
//! - [`plan`]: the launch plan as data, its stored form, its validation.
pub mod plan;

pub use plan::{LaunchPlan, PlanError};
