//! Errors of running a model.

use tenon_tensor::{DType, TensorError};

use crate::device::DeviceError;
use crate::plan::PlanError;

/// A model that cannot be run, or whose run failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuntimeError {
    /// The launch plan is wrong or not supported.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No bucket holds a request.
    #[error("no bucket holds inputs of these shapes: {shapes}; {reason}")]
    NoBucket {
        /// The shapes given.
        shapes: String,
        /// The dimensions that no bucket takes, or the nearest bucket with what keeps it from holding them.
        reason: String,
        /// The buckets that there are.
        buckets: String,
    },
    /// A weight is missing or is not the one that the plan was made for.
    #[error("weight `{name}`: expected {expected}, found {found}")]
    Parameter {
        /// Name of the weight.
        name: String,
        /// Type and shape of the plan.
        expected: String,
        /// What there is.
        found: String,
    },
    /// No PTX module has an entry that the plan launches.
    #[error("step {step} launches `{entry}`, which none of the {modules} PTX modules defines")]
    Entry {
        /// Step of the plan.
        step: usize,
        /// Name of the entry.
        entry: String,
        /// Number of modules searched.
        modules: usize,
    },
    /// A loop that does not end.
    #[error("step {step} (`while`{}) has run {limit} rounds and would go on", nodes(source_nodes))]
    Rounds {
        /// Step of the plan.
        step: usize,
        /// Nodes of the model that it computes.
        source_nodes: Vec<String>,
        /// The most rounds that it may run.
        limit: u64,
    },
    /// An input that the model needs is not given.
    #[error("input `{name}` is missing: expected {expected}")]
    MissingInput {
        /// Name of the input.
        name: String,
        /// Type and shape.
        expected: String,
    },
    /// An input that the model does not have is given.
    #[error("the model has no input `{name}`; it has {known}")]
    UnknownInput {
        /// The name given.
        name: String,
        /// The model's inputs.
        known: String,
    },
    /// An input is given twice.
    #[error("input `{name}` is given twice")]
    DuplicateInput {
        /// Name of the input.
        name: String,
    },
    /// An input has another element type.
    #[error("input `{name}` must be {expected}, found {found}")]
    InputDType {
        /// Name of the input.
        name: String,
        /// Element type of the model.
        expected: DType,
        /// Element type given.
        found: DType,
    },
    /// An input has another rank.
    #[error("input `{name}` must have {rank} dimensions ({expected}), found {} ({found:?})", found.len())]
    InputRank {
        /// Name of the input.
        name: String,
        /// Rank of the model.
        rank: usize,
        /// Shape of the model.
        expected: String,
        /// Shape given.
        found: Vec<usize>,
    },
    /// An input has another size along a dimension.
    #[error("dimension {dimension} of input `{name}` must be {wanted}, found {} (shape {found:?}, expected {expected})", found[*dimension])]
    InputShape {
        /// Name of the input.
        name: String,
        /// The first dimension that differs.
        dimension: usize,
        /// Its size in the model.
        wanted: u64,
        /// Shape of the model.
        expected: String,
        /// Shape given.
        found: Vec<usize>,
    },
    /// A dimension of an input is larger than the model was compiled for.
    #[error("{place} is {found}, above the capacity {capacity} of `{extent}`")]
    ExtentCapacity {
        /// Which dimension of which input.
        place: String,
        /// Its extent in the plan.
        extent: String,
        /// The largest size.
        capacity: u64,
        /// Size given.
        found: u64,
    },
    /// Dimensions of inputs that must agree do not.
    #[error("{place} is {found}, but `{extent}` is {expected}: {because}")]
    ExtentConflict {
        /// Which dimension of which input.
        place: String,
        /// Its extent in the plan.
        extent: String,
        /// The extent's value.
        expected: i64,
        /// Where that comes from.
        because: String,
        /// Size given.
        found: i64,
    },
    /// An expression of the plan has no usable value for the extents of a run.
    #[error("{place}: `{expression}` is {value}; {reason}")]
    Size {
        /// Where it stands.
        place: String,
        /// The expression.
        expression: String,
        /// Its value, and for which extents.
        value: String,
        /// What it must be.
        reason: String,
    },
    /// A condition of the model does not hold for the extents of a run.
    #[error("{}`{condition}` must hold and is {values}: {reason}", prefix(source_nodes))]
    Requirement {
        /// The condition.
        condition: String,
        /// Both sides, and for which extents.
        values: String,
        /// Why it must hold.
        reason: String,
        /// Nodes of the model that need it.
        source_nodes: Vec<String>,
    },
    /// What a kernel wrote to an output is no value of its type.
    #[error("output `{name}`: {source}")]
    Output {
        /// Name of the output.
        name: String,
        /// What is wrong with it.
        source: TensorError,
    },
    /// The device refused memory or a module before anything ran.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A step failed.
    #[error("step {step} ({what}{}): {source}", nodes(source_nodes))]
    Step {
        /// Step of the plan.
        step: usize,
        /// What the step does: the entry, or `copy`.
        what: String,
        /// Nodes of the model that it computes.
        source_nodes: Vec<String>,
        /// Why it failed.
        source: Box<DeviceError>,
    },
}

fn nodes(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(", node `{}`", names.join("`, `")) }
}

fn prefix(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("node `{}`: ", names.join("`, `")) }
}

impl RuntimeError {
    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            RuntimeError::Plan(error) => error.code(),
            RuntimeError::NoBucket { .. } => "E0723",
            RuntimeError::Parameter { .. } => "E0706",
            RuntimeError::Entry { .. } => "E0707",
            RuntimeError::Rounds { .. } => "E0708",
            RuntimeError::MissingInput { .. } => "E0710",
            RuntimeError::UnknownInput { .. } => "E0711",
            RuntimeError::DuplicateInput { .. } => "E0712",
            RuntimeError::InputDType { .. } => "E0713",
            RuntimeError::InputRank { .. } => "E0714",
            RuntimeError::InputShape { .. } => "E0715",
            RuntimeError::Output { .. } => "E0716",
            RuntimeError::ExtentCapacity { .. } => "E0717",
            RuntimeError::ExtentConflict { .. } => "E0718",
            RuntimeError::Size { .. } => "E0719",
            RuntimeError::Requirement { .. } => "E0724",
            RuntimeError::Device(error) => error.code(),
            RuntimeError::Step { source, .. } => source.code(),
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        match self {
            RuntimeError::Plan(error) => error.help(),
            RuntimeError::Parameter { found, .. } if found == "nothing" => Some(
                "give the model's weights: `--weights FILE.safetensors` for a `.mlir` model or dump, which holds none itself".to_owned(),
            ),
            RuntimeError::Parameter { .. } => Some(
                "give the weights of the model that the plan was built from, with `--weights` where the model is a `.mlir` file".to_owned(),
            ),
            RuntimeError::Entry { .. } => Some("run the plan with the PTX that was built with it".to_owned()),
            RuntimeError::Rounds { .. } => {
                Some("give inputs for which the loop ends, or export the model with a larger trip count".to_owned())
            }
            RuntimeError::MissingInput { name, .. } => Some(format!("give it: `--input {name}=FILE.npy`")),
            RuntimeError::UnknownInput { .. } => Some("use the names that the model gives its inputs".to_owned()),
            RuntimeError::DuplicateInput { .. } => Some("give each input once".to_owned()),
            RuntimeError::InputDType { expected, .. } => Some(format!("convert the file to {expected}")),
            RuntimeError::InputRank { .. } | RuntimeError::InputShape { .. } => Some(
                "give a tensor of the expected shape, or compile the model for this one: `tenon run MODEL --shapes-from-inputs`, or a bundle of a recipe that allows it"
                    .to_owned(),
            ),
            RuntimeError::ExtentCapacity { .. } => {
                Some("give a smaller tensor, or compile the model with a bucket that this one fits".to_owned())
            }
            RuntimeError::ExtentConflict { .. } => Some("give tensors whose shapes agree".to_owned()),
            RuntimeError::Size { .. } => {
                Some("build the plan anew from the model, or give inputs of other sizes".to_owned())
            }
            RuntimeError::Requirement { .. } => {
                Some("give inputs of sizes, or values, for which the model is defined".to_owned())
            }
            RuntimeError::NoBucket { buckets, .. } => {
                Some(format!("give inputs that fit a bucket ({buckets}), or build with other sizes in the recipe"))
            }
            RuntimeError::Output { .. } => Some("report this as an error of tenon, with the model".to_owned()),
            RuntimeError::Device(error) => error.help(),
            RuntimeError::Step { source, .. } => source.help(),
        }
    }
}
