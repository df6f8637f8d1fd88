//! The recipe as data.

use indexmap::IndexMap;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tenon_tensor::DType;

/// A recipe with defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Its name, for people; part of the hash.
    pub name: String,
    /// Named dimensions, in the order of the file.
    pub dims: IndexMap<String, DimClause>,
    /// What is promised of inputs, by name.
    pub inputs: IndexMap<String, InputClause>,
    /// The numeric promise.
    pub numerics: Numerics,
    /// GPUs or architectures; empty: none is named, the command's default holds.
    pub targets: Vec<String>,
}

/// `[semantic.dims.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DimClause {
    /// Values that it may take, ascending.
    pub allowed: Vec<u64>,
    /// Whether a value between them is taken into the next larger one (`between = "pad"`) or refused.
    pub pad: bool,
}

/// `[semantic.inputs.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InputClause {
    /// Dimensions, outermost first.
    pub dims: Option<Vec<DimEntry>>,
    /// Element type.
    pub dtype: Option<DType>,
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

impl NumericClass {
    /// All classes, weakest freedom first.
    pub const ALL: [NumericClass; 3] = [NumericClass::Exact, NumericClass::Reassociates, NumericClass::Approximates];

    /// The word in recipes and dumps.
    pub fn name(self) -> &'static str {
        match self {
            NumericClass::Exact => "exact",
            NumericClass::Reassociates => "reassociates",
            NumericClass::Approximates => "approximates",
        }
    }
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

impl Default for Numerics {
    fn default() -> Self {
        Numerics {
            rewrites: NumericClass::Reassociates,
            accumulate: DType::F32,
            tolerance: Tolerance { abs: 1e-4, rel: 1e-3 },
        }
    }
}

impl Default for Recipe {
    /// The recipe that holds when none is given.
    fn default() -> Self {
        Recipe {
            name: "default".to_owned(),
            dims: IndexMap::new(),
            inputs: IndexMap::new(),
            numerics: Numerics::default(),
            targets: Vec::new(),
        }
    }
}

// The canonical form: maps sorted by key, fields in alphabetical order, every default written out.
#[derive(Serialize)]
struct Canonical<'r> {
    hardware: CanonicalHardware<'r>,
    name: &'r str,
    recipe: u32,
    semantic: CanonicalSemantic<'r>,
}

#[derive(Serialize)]
struct CanonicalHardware<'r> {
    targets: &'r [String],
}

#[derive(Serialize)]
struct CanonicalSemantic<'r> {
    dims: std::collections::BTreeMap<&'r str, CanonicalDim<'r>>,
    inputs: std::collections::BTreeMap<&'r str, CanonicalInput<'r>>,
    numerics: CanonicalNumerics,
}

#[derive(Serialize)]
struct CanonicalDim<'r> {
    allowed: &'r [u64],
    between: &'static str,
    beyond: &'static str,
}

#[derive(Serialize)]
struct CanonicalInput<'r> {
    dims: Option<Vec<CanonicalEntry<'r>>>,
    dtype: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum CanonicalEntry<'r> {
    Fixed(u64),
    Named(&'r str),
}

#[derive(Serialize)]
struct CanonicalNumerics {
    accumulate: &'static str,
    rewrites: &'static str,
    rounding: &'static str,
    tolerance: CanonicalTolerance,
}

#[derive(Serialize)]
struct CanonicalTolerance {
    abs: f64,
    rel: f64,
}

impl Recipe {
    /// The recipe as JSON with sorted keys, no spaces and every default written out.
    pub fn canonical_json(&self) -> String {
        let entry = |entry| match entry {
            &DimEntry::Fixed(size) => CanonicalEntry::Fixed(size),
            DimEntry::Named(name) => CanonicalEntry::Named(name),
        };
        let form = Canonical {
            hardware: CanonicalHardware { targets: &self.targets },
            name: &self.name,
            recipe: 1,
            semantic: CanonicalSemantic {
                dims: self
                    .dims
                    .iter()
                    .map(|(name, clause)| {
                        let between = if clause.pad { "pad" } else { "reject" };
                        (name.as_str(), CanonicalDim { allowed: &clause.allowed, between, beyond: "reject" })
                    })
                    .collect(),
                inputs: self
                    .inputs
                    .iter()
                    .map(|(name, clause)| {
                        let dims = clause.dims.as_ref().map(|dims| dims.iter().map(entry).collect());
                        (name.as_str(), CanonicalInput { dims, dtype: clause.dtype.map(DType::name) })
                    })
                    .collect(),
                numerics: CanonicalNumerics {
                    accumulate: self.numerics.accumulate.name(),
                    rewrites: self.numerics.rewrites.name(),
                    rounding: "nearest",
                    tolerance: CanonicalTolerance {
                        abs: self.numerics.tolerance.abs,
                        rel: self.numerics.tolerance.rel,
                    },
                },
            },
        };
        serde_json::to_string(&form).expect("the form holds only strings, integers and finite floats")
    }

    /// SHA-256 of the canonical form, in hexadecimal.
    pub fn hash(&self) -> String {
        Sha256::digest(self.canonical_json().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_form_of_the_default() {
        assert_eq!(
            Recipe::default().canonical_json(),
            r#"{"hardware":{"targets":[]},"name":"default","recipe":1,"semantic":{"dims":{},"inputs":{},"numerics":{"accumulate":"f32","rewrites":"reassociates","rounding":"nearest","tolerance":{"abs":0.0001,"rel":0.001}}}}"#
        );
        assert_eq!(Recipe::default().hash().len(), 64);
    }
}
