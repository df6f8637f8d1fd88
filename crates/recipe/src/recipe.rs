//! The recipe as data: defaults filled in, every clause by its meaning.

use indexmap::IndexMap;
use tenon_tensor::{DType, Overflow, decode_float, encode_float_with};

/// A recipe with defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Its name, for people; part of the hash.
    pub name: String,
    /// Named dimensions, in the order of the file.
    pub dims: IndexMap<String, DimClause>,
    /// How sizes of several dimensions make points of the shape space.
    pub combine: Combine,
    /// Most graphs that are compiled for a target.
    pub max_graphs: usize,
    /// What is promised of inputs, by name.
    pub inputs: IndexMap<String, InputClause>,
    /// The numeric promise.
    pub numerics: Numerics,
    /// What control flow must still do, and where it runs.
    pub control_flow: ControlFlow,
    /// What may be optimised.
    pub compile: Compile,
    /// GPUs or architectures; empty: none is named, the command's default holds.
    pub targets: Vec<String>,
    /// Where it may be deployed.
    pub hardware: Hardware,
    /// Operators of the user's, by name.
    pub custom_ops: IndexMap<String, CustomOp>,
    /// Thresholds of metrics, by the metric's name.
    pub feedback: IndexMap<String, Feedback>,
}

/// Most graphs that a recipe may ask for, and the default of `semantic.max_graphs`.
pub const MAX_GRAPHS: usize = 1024;

/// `[semantic.dims.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DimClause {
    /// Values that it may take. By `combine = "product"` ascending; by `"zip"` in the order of the file.
    pub allowed: Vec<u64>,
    /// Whether a value between them is taken into the next larger one (`between = "pad"`) or refused.
    pub pad: bool,
}

/// `semantic.combine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Combine {
    /// Every combination of sizes.
    #[default]
    Product,
    /// The i-th size of each dimension together.
    Zip,
}

/// `[semantic.inputs.NAME]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InputClause {
    /// Dimensions, outermost first.
    pub dims: Option<Vec<DimEntry>>,
    /// Element type.
    pub dtype: Option<DType>,
    /// Value of elements beyond the request's size.
    pub pad: Option<PadValue>,
}

/// `pad` of an input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PadValue {
    /// An integer.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

impl PadValue {
    /// Whether it is a value of an element type.
    pub fn fits(self, dtype: DType) -> bool {
        match self {
            PadValue::Bool(_) => dtype == DType::Bool,
            PadValue::Float(value) => dtype.is_float() && is_within(value, dtype),
            PadValue::Integer(value) if dtype.is_float() => {
                value.unsigned_abs() <= 1 << 24 && is_within(value as f64, dtype)
            }
            PadValue::Integer(value) if dtype == DType::Bool => (0..=1).contains(&value),
            PadValue::Integer(value) if dtype.is_integer() => {
                let (value, bits) = (i128::from(value), dtype.bits());
                if dtype.is_signed() {
                    (-(1i128 << (bits - 1))..1i128 << (bits - 1)).contains(&value)
                } else {
                    (0..1i128 << bits).contains(&value)
                }
            }
            PadValue::Integer(_) => false,
        }
    }
}

/// Whether a number lies within the finite values of a float type, rounded to it.
fn is_within(value: f64, dtype: DType) -> bool {
    let rounded = |value: f64| decode_float(dtype, encode_float_with(dtype, value, Overflow::Special));
    // A type without infinity and NaN has its largest value in place of a larger number.
    let largest = rounded(f64::INFINITY);
    rounded(value).is_finite() && (!largest.is_finite() || value.abs() <= largest)
}

/// An entry of an input's `dims`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DimEntry {
    /// A number.
    Fixed(u64),
    /// A named dimension.
    Named(String),
}

/// Which rewrites a recipe allows; each class includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumericClass {
    /// Every rounded operation is kept.
    Exact,
    /// Same function of real numbers, other order or grouping.
    Reassociates,
    /// Another function within a stated bound.
    Approximates,
}

/// `[semantic.numerics]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Numerics {
    /// Which rewrites may run.
    pub rewrites: NumericClass,
    /// Type that products of narrow floats are summed in; f32 is the only one.
    pub accumulate: DType,
    /// Promised distance from the reference interpreter.
    pub tolerance: Tolerance,
}

/// Allowed difference: `abs + rel · |expected|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Absolute part.
    pub abs: f64,
    /// Relative part.
    pub rel: f64,
}

/// `[semantic.control_flow]` and `[compile.control_flow]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlFlow {
    /// Which branches must compile.
    pub branches: Branches,
    /// How often a loop is unrolled, by the name of its node.
    pub unroll: IndexMap<String, u64>,
    /// Where control flow runs; absent: the compiler's choice.
    pub policy: Option<ControlFlowPolicy>,
    /// Most branches within branches that become selects.
    pub inline_if_depth: u64,
    /// Whether the host may decide between launches.
    pub host_dispatch: bool,
}

/// `semantic.control_flow.branches`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Branches {
    /// Every branch must compile.
    #[default]
    All,
}

/// `compile.control_flow.policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlFlowPolicy {
    /// Inside kernels.
    Kernel,
    /// As conditional steps of the launch plan.
    Graph,
    /// Between launches, by the host.
    Host,
}

/// `[compile]`, but for control flow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compile {
    /// Sequences of source patterns that must be one kernel.
    pub require: Vec<Vec<String>>,
    /// Sequences of source patterns that must not be one kernel.
    pub forbid: Vec<Vec<String>>,
    /// Passes and rules that do not run.
    pub disable: Vec<String>,
    /// Layout of convolutions.
    pub conv_layout: ConvLayout,
    /// What becomes of fake quantisation.
    pub fake_quant: FakeQuant,
    /// How attention is computed.
    pub attention: AttentionImplementation,
}

/// `compile.layout.conv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConvLayout {
    /// The compiler's choice.
    #[default]
    Auto,
    /// Channels before space.
    Nchw,
    /// Channels innermost.
    Nhwc,
}

/// `compile.quantization.fake_quant`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FakeQuant {
    /// As the model says.
    #[default]
    Keep,
    /// Computed in integers.
    Int8,
}

/// `compile.attention.implementation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttentionImplementation {
    /// The compiler's choice.
    #[default]
    Auto,
    /// One kernel, scores never in memory.
    Flash,
    /// Products and a softmax of their own.
    Unfused,
}

/// `[hardware]`, but for the targets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hardware {
    /// Most bytes of intermediate values of a bucket.
    pub activation_budget: Option<u64>,
    /// What happens to a bucket over the budget.
    pub over_budget: OverBudget,
    /// Whether inputs lie in pinned host memory.
    pub pinned_inputs: bool,
    /// Library of collective operations.
    pub collectives: Collectives,
    /// What must hold of the kernels of a target.
    pub expect: IndexMap<String, Expectation>,
    /// Locks of external kernels.
    pub kernels: IndexMap<String, KernelLock>,
}

/// `hardware.over_budget`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OverBudget {
    /// The bucket is refused.
    #[default]
    Error,
    /// Values are split along a dimension.
    Stream,
    /// Values wait in host memory.
    Offload,
}

/// `hardware.collectives`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Collectives {
    /// None.
    #[default]
    None,
    /// NVIDIA's library.
    Nccl,
}

/// `[hardware.expect.TARGET]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expectation {
    /// Instructions that must occur, by family of kernels.
    pub instructions: IndexMap<String, Vec<String>>,
    /// Instructions that must not occur, by family of kernels.
    pub forbidden_instructions: IndexMap<String, Vec<String>>,
    /// Most bytes that a kernel spills.
    pub spills: Option<u64>,
    /// Least share of a multiprocessor's warps, 0 to 1.
    pub min_occupancy: Option<f64>,
}

/// `[hardware.kernels.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelLock {
    /// Version of the kernel's interface.
    pub version: Option<String>,
    /// Hash of its file.
    pub sha256: Option<String>,
}

/// `[custom_ops.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CustomOp {
    /// Version of the operator's interface.
    pub version: Option<String>,
    /// Shapes of operands and results.
    pub shape: Option<String>,
    /// File with its code.
    pub library: Option<String>,
    /// Hash of that file.
    pub sha256: Option<String>,
}

/// `[feedback.METRIC]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Feedback {
    /// A warning below this.
    pub warn_below: Option<f64>,
    /// An error below this.
    pub error_below: Option<f64>,
    /// A warning above this.
    pub warn_above: Option<f64>,
    /// An error above this.
    pub error_above: Option<f64>,
    /// What is tried then.
    pub attempts: Vec<String>,
}

/// Enums that recipes write as words.
macro_rules! words {
    ($($name:ident { $($variant:ident = $word:literal),+ $(,)? })+) => {$(
        impl $name {
            /// All, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word in recipes and dumps.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// By the word.
            pub fn of_name(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$variant),)+ _ => None }
            }
        }
    )+};
}

words! {
    Combine { Product = "product", Zip = "zip" }
    NumericClass { Exact = "exact", Reassociates = "reassociates", Approximates = "approximates" }
    Branches { All = "all" }
    ControlFlowPolicy { Kernel = "kernel", Graph = "graph", Host = "host" }
    ConvLayout { Auto = "auto", Nchw = "nchw", Nhwc = "nhwc" }
    FakeQuant { Keep = "keep", Int8 = "int8" }
    AttentionImplementation { Auto = "auto", Flash = "flash", Unfused = "unfused" }
    OverBudget { Error = "error", Stream = "stream", Offload = "offload" }
    Collectives { None = "none", Nccl = "nccl" }
}

impl Default for Numerics {
    fn default() -> Self {
        Numerics {
            rewrites: NumericClass::Reassociates,
            accumulate: DType::F32,
            tolerance: Tolerance { abs: 1e-4, rel: 1e-3 },
        }
    }
}

impl Default for ControlFlow {
    fn default() -> Self {
        ControlFlow {
            branches: Branches::All,
            unroll: IndexMap::new(),
            policy: None,
            inline_if_depth: 2,
            host_dispatch: false,
        }
    }
}

impl Default for Recipe {
    /// The recipe that holds when none is given.
    fn default() -> Self {
        Recipe {
            name: "default".to_owned(),
            dims: IndexMap::new(),
            combine: Combine::Product,
            max_graphs: MAX_GRAPHS,
            inputs: IndexMap::new(),
            numerics: Numerics::default(),
            control_flow: ControlFlow::default(),
            compile: Compile::default(),
            targets: Vec::new(),
            hardware: Hardware::default(),
            custom_ops: IndexMap::new(),
            feedback: IndexMap::new(),
        }
    }
}
