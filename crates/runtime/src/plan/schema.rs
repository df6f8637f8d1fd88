//! What a plan is made of, in the form in which it is stored.

use serde::{Deserialize, Serialize};
use tenon_tensor::{DType, byte_count};

use crate::plan::{Expr, PlanError};

/// Version of the stored form that this crate reads and writes.
pub const SCHEMA_VERSION: u32 = 1;

/// Longest text that [`LaunchPlan::from_json`] reads, in bytes.
const MAX_JSON_BYTES: usize = 256 << 20;

/// The host side of a compiled bucket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchPlan {
    /// [`SCHEMA_VERSION`].
    pub version: u32,
    /// Name of the program.
    pub name: String,
    /// Size of the device arena that buffers lie in.
    pub arena_bytes: u64,
    /// Size of the pinned host arena that pinned buffers lie in.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pinned_arena_bytes: u64,
    /// Names of extents that expressions may use. Each is the extent of an input's dimension, and known when that input is, or read by a
    /// [`ReadExtent`] step, and known to the steps behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extents: Vec<String>,
    /// What must hold of the extents of a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<Requirement>,
    /// Tensors that the caller gives, in the model's order.
    pub inputs: Vec<TensorSlot>,
    /// Weights and constants, uploaded once.
    pub parameters: Vec<TensorSlot>,
    /// Tensors that the caller gets, in the model's order.
    pub outputs: Vec<TensorSlot>,
    /// Tensors that stay on the device from run to run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<TensorSlot>,
    /// Intermediate values.
    pub buffers: Vec<Buffer>,
    /// What to do, in order.
    pub steps: Vec<Step>,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// A condition on the extents of a run, which is checked as soon as all of them are known: before anything runs, unless one of them is read by
/// a [`ReadExtent`] step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// The text form of a [`tenon_tensor::Condition`] over the plan's extents: `"2*seq <= 512"`.
    pub condition: String,
    /// Why it must hold, for messages.
    pub reason: String,
    /// Nodes of the model that need it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_nodes: Vec<String>,
}

/// A tensor with memory of its own: an input, output, parameter or state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorSlot {
    /// The model's name for it.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Capacity of each dimension; memory is sized by it.
    pub shape: Vec<u64>,
    /// Extent of each dimension; absent: the capacity. Values are dense, row-major by their extents, from the beginning of the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extents: Option<Vec<Expr>>,
}

/// A range of an arena that holds a value from step `first` to step `last`, both included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// A name for messages; need not be unique.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Capacity of each dimension; memory is row-major.
    pub shape: Vec<u64>,
    /// Where it begins in the arena.
    pub offset: u64,
    /// Its size; at least what type and shape ask for.
    pub bytes: u64,
    /// A power of two that divides the offset.
    pub alignment: u64,
    /// Index of the first step that uses it; steps inside a conditional count as that conditional.
    pub first: u32,
    /// Index of the last step that uses it.
    pub last: u32,
    /// Which arena it lies in.
    #[serde(default, skip_serializing_if = "MemoryKind::is_device")]
    pub memory: MemoryKind,
    /// Whether it holds zeros when an instance's first run begins. Kernels leave zeros in it, so that it holds them before each run: it is alive
    /// from the first step to the last, in memory of the device, and shares no byte with another buffer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub zeroed: bool,
}

/// Which memory a buffer lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Memory of the device.
    #[default]
    Device,
    /// Host memory that the device can copy from and to while kernels run.
    Pinned,
}

impl MemoryKind {
    fn is_device(&self) -> bool {
        *self == MemoryKind::Device
    }
}

/// Something to do, in order on its stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Steps of one stream run in order; other streams wait only where an event says so.
    #[serde(default, skip_serializing_if = "is_default_stream")]
    pub stream: u32,
    /// Nodes of the model that it computes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_nodes: Vec<String>,
    /// What it does.
    pub operation: Operation,
}

fn is_default_stream(stream: &u32) -> bool {
    *stream == 0
}

impl Step {
    /// A step on the default stream.
    pub fn new(operation: Operation) -> Self {
        Step { stream: 0, source_nodes: Vec::new(), operation }
    }

    /// This step, and those of its bodies, in order.
    pub fn walk(&self) -> Vec<&Step> {
        let bodies: Vec<&Step> = match &self.operation {
            Operation::If(choice) => choice.then.iter().chain(&choice.otherwise).collect(),
            Operation::While(repeat) => repeat.body.iter().collect(),
            _ => Vec::new(),
        };
        std::iter::once(self).chain(bodies.into_iter().flat_map(Step::walk)).collect()
    }
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Runs a kernel.
    Launch(Launch),
    /// Copies memory to memory.
    Copy(Copy),
    /// Fills memory with a byte.
    Memset(Memset),
    /// Marks a point on the stream.
    Event(EventMark),
    /// Lets the stream wait for a mark.
    Wait(EventMark),
    /// Runs a body if a predicate on the device holds.
    If(Conditional),
    /// Runs a body as long as a predicate on the device holds.
    While(Loop),
    /// Calls a function of the host.
    HostCall(HostCall),
    /// Copies a state to memory of this run.
    StateRead(StateTransfer),
    /// Copies memory of this run to a state.
    StateWrite(StateTransfer),
    /// Reads an extent that the device has computed.
    ReadExtent(ReadExtent),
}

impl Operation {
    /// Its name in the stored form.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Launch(_) => "launch",
            Operation::Copy(_) => "copy",
            Operation::Memset(_) => "memset",
            Operation::Event(_) => "event",
            Operation::Wait(_) => "wait",
            Operation::If(_) => "if",
            Operation::While(_) => "while",
            Operation::HostCall(_) => "host_call",
            Operation::StateRead(_) => "state_read",
            Operation::StateWrite(_) => "state_write",
            Operation::ReadExtent(_) => "read_extent",
        }
    }
}

/// A kernel launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Name of the `.entry` in the bucket's PTX.
    pub entry: String,
    /// Blocks along x, y, z.
    pub grid: [Expr; 3],
    /// Threads along x, y, z.
    pub block: [u32; 3],
    /// Shared memory beyond what the entry declares.
    #[serde(default, skip_serializing_if = "is_default_stream")]
    pub dynamic_shared_bytes: u32,
    /// Blocks of a cluster along x, y, z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<[u32; 3]>,
    /// The entry's parameters in order.
    pub arguments: Vec<Argument>,
}

/// Memory that a step uses, by index into the plan's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// One of [`LaunchPlan::buffers`].
    Buffer(u32),
    /// One of [`LaunchPlan::parameters`].
    Parameter(u32),
    /// One of [`LaunchPlan::inputs`].
    Input(u32),
    /// One of [`LaunchPlan::outputs`].
    Output(u32),
}

/// A parameter of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    /// Address of a buffer.
    Buffer(u32),
    /// Address of a weight.
    Parameter(u32),
    /// Address of an input.
    Input(u32),
    /// Address of an output.
    Output(u32),
    /// A number as i64.
    Extent(Expr),
    /// A tensor map, 128 bytes by value.
    TensorMap(TensorMap),
}

impl Argument {
    /// The memory that the argument points to.
    pub fn place(&self) -> Option<Place> {
        match self {
            Argument::Buffer(index) => Some(Place::Buffer(*index)),
            Argument::Parameter(index) => Some(Place::Parameter(*index)),
            Argument::Input(index) => Some(Place::Input(*index)),
            Argument::Output(index) => Some(Place::Output(*index)),
            Argument::TensorMap(map) => Some(map.place),
            Argument::Extent(_) => None,
        }
    }
}

impl From<Place> for Argument {
    fn from(place: Place) -> Self {
        match place {
            Place::Buffer(index) => Argument::Buffer(index),
            Place::Parameter(index) => Argument::Parameter(index),
            Place::Input(index) => Argument::Input(index),
            Place::Output(index) => Argument::Output(index),
        }
    }
}

/// Descriptor of a tiled tensor for the tensor memory accelerator (CUDA driver API, `cuTensorMapEncodeTiled`). It is encoded for each run, since
/// its address, sizes and strides may differ. What a copy reads outside of the tensor is zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorMap {
    /// The tensor's memory.
    pub place: Place,
    /// Element type.
    pub dtype: DType,
    /// Sizes, innermost first.
    pub sizes: Vec<Expr>,
    /// Distances in bytes of neighbours along all dimensions but the innermost.
    pub strides: Vec<Expr>,
    /// Sizes of the box that one instruction moves, innermost first.
    pub tile: Vec<u32>,
    /// Width in bytes of the swizzle in shared memory: 0, 32, 64 or 128; the box has as many bytes along its innermost dimension.
    pub swizzle: u32,
}

impl TensorMap {
    /// Most dimensions.
    pub const MAX_RANK: usize = 5;
    /// Largest size of a box along a dimension.
    pub const MAX_TILE: u32 = 256;
    /// What strides, and the bytes of a box along its innermost dimension, are multiples of.
    pub const ALIGNMENT: u64 = 16;
    /// Bound of strides.
    pub const STRIDE_LIMIT: u64 = 1 << 40;
}

/// A copy of one place to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copy {
    /// Read.
    pub source: Place,
    /// Written.
    pub target: Place,
    /// A number: the size of the target; the source has as many or more. An expression: the bytes that the value has by its extents, from the beginning of both.
    pub bytes: Expr,
}

/// A fill of one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memset {
    /// Written.
    pub target: Place,
    /// The value of each byte.
    pub byte: u8,
    /// A number: the size of the place. An expression: the bytes that the value has by its extents.
    pub bytes: Expr,
}

/// A mark on a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventMark {
    /// Number of the mark.
    pub event: u32,
}

/// Bodies that a predicate chooses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditional {
    /// One byte: 0 is false.
    pub predicate: Place,
    /// Whether the host reads the byte, and not the device.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host: bool,
    /// Runs if it holds.
    pub then: Vec<Step>,
    /// Runs if it does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<Step>,
}

/// A body that runs while a predicate holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// One byte: 0 ends the loop; the body writes it.
    pub predicate: Place,
    /// Whether the host reads the byte, and not the device.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host: bool,
    /// Runs while it holds.
    pub body: Vec<Step>,
    /// More rounds than this are an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// A call of a function of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCall {
    /// Name under which the host registered it.
    pub callee: String,
    /// Read.
    pub reads: Vec<Place>,
    /// Written.
    pub writes: Vec<Place>,
}

/// A copy between a state and a place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateTransfer {
    /// Index into [`LaunchPlan::states`].
    pub state: u32,
    /// Memory of this run.
    pub place: Place,
}

/// A copy of one i64 to the host, which is the value of an extent from there on. The host waits for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadExtent {
    /// Name of the extent, one of [`LaunchPlan::extents`]; no input has it, and no other step reads it.
    pub name: String,
    /// The largest value that it may have; the least is 0.
    pub capacity: u64,
    /// Memory of one i64.
    pub source: Place,
}

impl TensorSlot {
    /// A slot of fixed shape.
    pub fn new(name: impl Into<String>, dtype: DType, shape: &[u64]) -> Self {
        TensorSlot { name: name.into(), dtype, shape: shape.to_vec(), extents: None }
    }

    /// Bytes of its memory; `None` when they overflow.
    pub fn bytes(&self) -> Option<u64> {
        tensor_bytes(self.dtype, &self.shape)
    }
}

/// Bytes of a row-major tensor; `None` when they overflow.
pub(crate) fn tensor_bytes(dtype: DType, shape: &[u64]) -> Option<u64> {
    let shape = shape.iter().map(|size| usize::try_from(*size).ok()).collect::<Option<Vec<_>>>()?;
    byte_count(dtype, &shape).map(|bytes| bytes as u64)
}

impl LaunchPlan {
    /// An empty plan.
    pub fn new(name: impl Into<String>) -> Self {
        LaunchPlan {
            version: SCHEMA_VERSION,
            name: name.into(),
            arena_bytes: 0,
            pinned_arena_bytes: 0,
            extents: Vec::new(),
            requirements: Vec::new(),
            inputs: Vec::new(),
            parameters: Vec::new(),
            outputs: Vec::new(),
            states: Vec::new(),
            buffers: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// The stored form.
    pub fn to_json(&self) -> Result<String, PlanError> {
        serde_json::to_string(self).map_err(|error| PlanError::Text(error.to_string()))
    }

    /// Reads and validates the stored form.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        if text.len() > MAX_JSON_BYTES {
            return Err(PlanError::Text(format!("{} bytes are more than a plan may have", text.len())));
        }
        let Versioned { version } = serde_json::from_str(text).map_err(|error| PlanError::Text(error.to_string()))?;
        if version != SCHEMA_VERSION {
            return Err(PlanError::Version(version));
        }
        let plan: LaunchPlan = serde_json::from_str(text).map_err(|error| PlanError::Text(error.to_string()))?;
        plan.validate()?;
        Ok(plan)
    }

    /// Launches, copies (those of extents to the host too) and fills of one run, those inside conditionals left out.
    pub fn launch_count(&self) -> usize {
        let counts = |step: &&Step| {
            matches!(
                step.operation,
                Operation::Launch(_) | Operation::Copy(_) | Operation::Memset(_) | Operation::ReadExtent(_)
            )
        };
        self.steps.iter().filter(counts).count()
    }
}
