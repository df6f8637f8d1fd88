//! The table of clauses. A clause becomes enforced by its line here, once something enforces it.

use super::Kind::{
    Bool, Bytes, Choice, DType, Dims, Integer, Named, Number, Scalar, Sequences, Sha256, Sizes, Table, Text, Texts,
    Version,
};
use super::Status::{Enforced, Refused};
use super::{Key, Kind, MAX_SIZE, Status, Word};

const fn key(name: &'static str, kind: Kind, status: Status, about: &'static str) -> Key {
    Key { name, kind, status, about }
}

const fn word(word: &'static str) -> Word {
    Word { word, status: Enforced }
}

const fn refused(word: &'static str, reason: &'static str) -> Word {
    Word { word, status: Refused(reason) }
}

/// What is not there yet.
const NO_EXTERNAL: &str = "there are no external kernels";
const NO_CUSTOM: &str = "there are no custom operators";
const NO_METRICS: &str = "metrics do not come back into the graph yet";

/// The root of a recipe.
pub(crate) const ROOT: Kind = Table(&[
    key("recipe", Version, Enforced, "Version of the recipe's schema: 1."),
    key("name", Text, Enforced, "A name for people; part of the hash."),
    key("semantic", Table(SEMANTIC), Enforced, "What the model must still mean."),
    key("compile", Table(COMPILE), Enforced, "What may be optimised."),
    key("hardware", Table(HARDWARE), Enforced, "Where it may be deployed."),
    key("custom_ops", Named(&Table(CUSTOM_OP)), Enforced, "Operators of the user's, by name."),
    key("feedback", Named(&Table(FEEDBACK)), Enforced, "Thresholds of metrics, by the metric's name."),
]);

const SEMANTIC: &[Key] = &[
    key("dims", Named(&Table(DIM)), Enforced, "Named dimensions and the sizes that each may have."),
    key(
        "combine",
        Choice(&[word("product"), word("zip")]),
        Enforced,
        "product (default): every combination of allowed sizes is compiled. zip: the i-th size of each dimension together.",
    ),
    key(
        "max_graphs",
        Integer(1, 1024),
        Enforced,
        "Most graphs that are compiled for a target; a larger shape space is refused. Default 1024.",
    ),
    key("inputs", Named(&Table(INPUT)), Enforced, "What is promised of inputs, by the model's name for each."),
    key("numerics", Table(NUMERICS), Enforced, "The numeric promise."),
    key("control_flow", Table(SEMANTIC_CONTROL_FLOW), Enforced, "What control flow must still do."),
];

const DIM: &[Key] = &[
    key("allowed", Sizes, Enforced, "The sizes that are compiled."),
    key("align", Integer(1, MAX_SIZE), Enforced, "Instead of `allowed`: every multiple of this up to `max`."),
    key("max", Integer(1, MAX_SIZE), Enforced, "The largest size, with `align`; a multiple of it."),
    key(
        "between",
        Choice(&[word("reject"), word("pad")]),
        Enforced,
        "A size between two allowed ones: refused (reject, default), or taken into the next larger one (pad).",
    ),
    key(
        "beyond",
        Choice(&[word("reject")]),
        Enforced,
        "A size beyond the largest one: refused, since nothing compiles at run time.",
    ),
];

const INPUT: &[Key] = &[
    key("dims", Dims, Enforced, "Dimensions, outermost first: names of `semantic.dims`, or sizes."),
    key("dtype", DType, Enforced, "Element type."),
    key("pad", Scalar, Enforced, "Value of elements beyond the request's size, of an input with a padded dimension."),
];

const NUMERICS: &[Key] = &[
    key(
        "rewrites",
        Choice(&[word("exact"), word("reassociates"), word("approximates")]),
        Enforced,
        "Which rewrites may run; each class includes those before it. Default reassociates.",
    ),
    key(
        "accumulate",
        Choice(&[
            word("f32"),
            refused("f16", "products are summed in f32"),
            refused("bf16", "products are summed in f32"),
            refused("f64", "products are summed in f32"),
        ]),
        Enforced,
        "Type that products of narrow floats are summed in.",
    ),
    key(
        "rounding",
        Choice(&[word("nearest"), refused("stochastic", "no kernel rounds stochastically")]),
        Enforced,
        "How results are rounded.",
    ),
    key(
        "tolerance",
        Table(TOLERANCE),
        Enforced,
        "Promised distance from the reference interpreter: abs + rel * |expected|.",
    ),
];

const TOLERANCE: &[Key] = &[
    key("abs", Number(0.0, f64::MAX), Enforced, "Absolute part; default 1e-4."),
    key("rel", Number(0.0, f64::MAX), Enforced, "Relative part; default 1e-3."),
];

const SEMANTIC_CONTROL_FLOW: &[Key] = &[
    key("branches", Choice(&[word("all")]), Enforced, "all: every branch must compile."),
    key(
        "unroll",
        Named(&Integer(1, 65536)),
        Enforced,
        "How often a round of a loop runs its body, by the name of its node; for loops whose iterations are counted while the model runs.",
    ),
];

const COMPILE: &[Key] = &[
    key("fusion", Table(FUSION), Enforced, "Which operators share kernels."),
    key("layout", Table(LAYOUT), Enforced, "Order of dimensions in memory."),
    key("quantization", Table(QUANTIZATION), Enforced, "What becomes of quantisation nodes."),
    key("attention", Table(ATTENTION), Enforced, "How attention is computed."),
    key("control_flow", Table(CONTROL_FLOW), Enforced, "Where control flow runs."),
];

const FUSION: &[Key] = &[
    key("require", Sequences, Enforced, "Sequences of source patterns that must be one kernel."),
    key("forbid", Sequences, Enforced, "Sequences of source patterns that must not be one kernel."),
    key("disable", Texts, Enforced, "Passes and rules that do not run, by name."),
];

const LAYOUT: &[Key] = &[key(
    "conv",
    Choice(&[word("auto"), word("nchw"), refused("nhwc", "convolutions keep the model's layout")]),
    Enforced,
    "Layout of convolutions; auto (default) is the compiler's choice.",
)];

const QUANTIZATION: &[Key] = &[key(
    "fake_quant",
    Choice(&[word("keep"), refused("int8", "fake quantisation does not become integer kernels yet")]),
    Enforced,
    "keep (default): quantise and dequantise as the model says. int8: compute in integers.",
)];

const ATTENTION: &[Key] = &[key(
    "implementation",
    Choice(&[word("auto"), word("unfused"), word("flash")]),
    Enforced,
    "An implementation that is not available is an error, never a fallback. Default auto.",
)];

const CONTROL_FLOW: &[Key] = &[
    key(
        "policy",
        Choice(&[word("kernel"), word("graph"), word("host")]),
        Enforced,
        "Where control flow runs: inside kernels, in the launch plan, or by the host. Absent: the compiler's choice of the first two.",
    ),
    key(
        "inline_if_depth",
        Integer(0, 64),
        Enforced,
        "Most branches within branches that become selections. Default 2.",
    ),
    key(
        "host_dispatch",
        Choice(&[word("forbid"), word("allow")]),
        Enforced,
        "Whether the host may decide between launches, as the policy host wants. Default forbid.",
    ),
];

const HARDWARE: &[Key] = &[
    key("targets", Texts, Enforced, "GPUs or architectures; the command line may name others."),
    key("activation_budget", Bytes, Enforced, "Most memory for intermediate values of a bucket."),
    key(
        "over_budget",
        Choice(&[word("error"), word("offload"), word("stream")]),
        Enforced,
        "What happens to a bucket over the budget. Default error.",
    ),
    key("pinned_inputs", Bool, Enforced, "Whether inputs lie in pinned host memory. Default false."),
    key(
        "collectives",
        Choice(&[word("none"), refused("nccl", "a plan has one device")]),
        Enforced,
        "Library of collective operations. Default none.",
    ),
    key("expect", Named(&Table(EXPECT)), Enforced, "What must hold of the kernels of a target, by its name."),
    key("kernels", Named(&Table(KERNEL_LOCK)), Enforced, "Locks of external kernels."),
];

const EXPECT: &[Key] = &[
    key("instructions", Named(&Texts), Enforced, "Instructions that must occur, by family of kernels."),
    key("forbidden_instructions", Named(&Texts), Enforced, "Instructions that must not occur, by family of kernels."),
    key("spills", Integer(0, 1 << 20), Enforced, "Most bytes of registers that a kernel spills."),
    key(
        "min_occupancy",
        Number(0.0, 1.0),
        Enforced,
        "Least share of a multiprocessor's warps that each kernel can keep.",
    ),
];

const KERNEL_LOCK: &[Key] = &[
    key("version", Text, Refused(NO_EXTERNAL), "Version of the kernel's interface."),
    key("sha256", Sha256, Refused(NO_EXTERNAL), "Hash of the kernel's file."),
];

const CUSTOM_OP: &[Key] = &[
    key("version", Text, Refused(NO_CUSTOM), "Version of the operator's interface."),
    key("shape", Text, Refused(NO_CUSTOM), "Shapes of operands and results: `B,C,H,W ; B,O,H,W -> B,K,H,W`."),
    key("library", Text, Refused(NO_CUSTOM), "File with its code."),
    key("sha256", Sha256, Refused(NO_CUSTOM), "Hash of that file."),
];

const FEEDBACK: &[Key] = &[
    key("warn_below", Number(-f64::MAX, f64::MAX), Refused(NO_METRICS), "A warning below this."),
    key("error_below", Number(-f64::MAX, f64::MAX), Refused(NO_METRICS), "An error below this."),
    key("warn_above", Number(-f64::MAX, f64::MAX), Refused(NO_METRICS), "A warning above this."),
    key("error_above", Number(-f64::MAX, f64::MAX), Refused(NO_METRICS), "An error above this."),
    key("try", Texts, Refused(NO_METRICS), "What is tried then."),
];
