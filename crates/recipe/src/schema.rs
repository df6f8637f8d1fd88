//! The tree of all keys that a recipe may have.

use Key::{Enforced, Named, Open, Refused, Table};

/// What may stand at a key.
pub(crate) enum Key {
    /// A value that this version enforces; what it may be is checked where it is read.
    Enforced,
    /// A clause of the schema that this version does not enforce.
    Refused,
    /// A table of given keys.
    Table(&'static [(&'static str, Key)]),
    /// A table whose keys are names of the user's, each with the same content.
    Named(&'static Key),
    /// An unenforced table whose keys and values are not looked at.
    Open,
}

/// The root of a recipe.
pub(crate) const ROOT: Key = Table(&[
    ("recipe", Enforced),
    ("name", Enforced),
    (
        "semantic",
        Table(&[
            (
                "dims",
                Named(&Table(&[
                    ("allowed", Enforced),
                    ("between", Enforced),
                    ("beyond", Enforced),
                    ("align", Refused),
                    ("max", Refused),
                ])),
            ),
            ("combine", Refused),
            ("max_graphs", Refused),
            ("inputs", Named(&Table(&[("dims", Enforced), ("dtype", Enforced), ("pad", Refused)]))),
            (
                "numerics",
                Table(&[
                    ("rewrites", Enforced),
                    ("accumulate", Enforced),
                    ("rounding", Enforced),
                    ("tolerance", Table(&[("abs", Enforced), ("rel", Enforced)])),
                ]),
            ),
            ("control_flow", Table(&[("branches", Refused), ("unroll", Open)])),
        ]),
    ),
    (
        "compile",
        Table(&[
            ("fusion", Table(&[("require", Refused), ("forbid", Refused), ("disable", Refused)])),
            ("layout", Table(&[("conv", Refused)])),
            ("quantization", Table(&[("fake_quant", Refused)])),
            ("attention", Table(&[("implementation", Refused)])),
            ("control_flow", Table(&[("policy", Refused), ("inline_if_depth", Refused), ("host_dispatch", Refused)])),
        ]),
    ),
    (
        "hardware",
        Table(&[
            ("targets", Enforced),
            ("activation_budget", Refused),
            ("over_budget", Refused),
            ("pinned_inputs", Refused),
            ("collectives", Refused),
            ("expect", Named(&Table(&[("instructions", Open), ("spills", Refused), ("min_occupancy", Refused)]))),
            ("kernels", Named(&Table(&[("version", Refused), ("sha256", Refused)]))),
        ]),
    ),
    (
        "custom_ops",
        Named(&Table(&[("version", Refused), ("shape", Refused), ("library", Refused), ("sha256", Refused)])),
    ),
    (
        "feedback",
        Named(&Table(&[
            ("warn_below", Refused),
            ("error_below", Refused),
            ("warn_above", Refused),
            ("error_above", Refused),
            ("try", Refused),
        ])),
    ),
]);
