//! Why a plan is refused.

use crate::plan::SCHEMA_VERSION;

/// A plan that cannot be read or must not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The text is no plan.
    #[error("the launch plan cannot be read: {0}")]
    Text(String),
    /// Another version of the stored form.
    #[error("the launch plan has schema version {0}, this runtime reads version {SCHEMA_VERSION}")]
    Version(u32),
    /// An index, name, number or size that does not fit.
    #[error("{place} of the launch plan: {message}")]
    Structure {
        /// Which entry of the plan.
        place: String,
        /// What is wrong.
        message: String,
    },
    /// Memory outside the arena, misaligned, shared by two values, or used outside its lifetime.
    #[error("{place} of the launch plan: {message}")]
    Memory {
        /// Which entry of the plan.
        place: String,
        /// What is wrong.
        message: String,
    },
    /// Something that plans may hold and this runtime does not execute.
    #[error("{place} of the launch plan: {feature} is not supported by this runtime")]
    Unsupported {
        /// Which entry of the plan.
        place: String,
        /// What is not supported, by its name in the schema.
        feature: String,
    },
}

impl PlanError {
    pub(crate) fn structure(place: impl Into<String>, message: impl Into<String>) -> Self {
        PlanError::Structure { place: place.into(), message: message.into() }
    }

    pub(crate) fn memory(place: impl Into<String>, message: impl Into<String>) -> Self {
        PlanError::Memory { place: place.into(), message: message.into() }
    }

    pub(crate) fn unsupported(place: impl Into<String>, feature: impl Into<String>) -> Self {
        PlanError::Unsupported { place: place.into(), feature: feature.into() }
    }

    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            PlanError::Text(_) => "E0701",
            PlanError::Version(_) => "E0702",
            PlanError::Structure { .. } => "E0703",
            PlanError::Memory { .. } => "E0704",
            PlanError::Unsupported { .. } => "E0705",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        Some(
            match self {
                PlanError::Text(_) | PlanError::Structure { .. } | PlanError::Memory { .. } => {
                    "build the plan anew from the model; it was edited or damaged"
                }
                PlanError::Version(_) => "build the plan anew with the version of tenon that runs it",
                PlanError::Unsupported { .. } => {
                    "compile the model without control flow on the host, or use a newer runtime"
                }
            }
            .to_owned(),
        )
    }
}
