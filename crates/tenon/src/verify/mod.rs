//! What `tenon verify` checks of a bundle.
//!
//! - `graph`: dimensions that nothing binds, operators without names, depth of control flow.
//! - `expectations`: `hardware.expect` of the recipe on PTX, and by ptxas on what it becomes.
//! - `numerics`: programs through the simulator against the reference interpreter, at the size of the bucket and, for padded dimensions, at
//!   sizes within it; the first kernel that leaves the tolerance.
//!
//! A model is verified as the bundle that it becomes, so that what is checked is what is served.

mod expectations;
mod graph;
pub(crate) mod numerics;
mod parts;
pub(crate) mod random;

use std::collections::BTreeMap;

use serde::Serialize;
use tenon_bundle::Bundle;
use tenon_ir::Session;
use tenon_recipe::Recipe;
use tenon_target::Target;
use tenon_tensor::Tensor;

pub use expectations::{KernelCheck, check_expectations};
pub use graph::{GraphCheck, check_graph};
pub use numerics::{Errors, NumericCheck, NumericOptions, check_numerics};

use crate::{Diagnostic, Failure};

/// What was found of a bundle.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// What the bundle was made from: model, recipe, graph and compiler, and the number of its parts.
    pub identity: Vec<(String, String)>,
    /// The graph.
    pub graph: Option<GraphCheck>,
    /// The kernels that the recipe expects something of.
    pub kernels: Vec<KernelCheck>,
    /// Programs against the reference.
    pub numerics: Vec<NumericCheck>,
    /// What is refused.
    #[serde(skip)]
    pub refused: Vec<Diagnostic>,
}

/// What is checked beside hashes and the graph.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Seeds of inputs, at the size of each bucket; none: not checked.
    pub numerics: Vec<u64>,
    /// Seeds of inputs and sizes within each padded bucket; none: not checked.
    pub padding: Vec<u64>,
    /// Weights of the model, where it is at hand: a bundle has those that its kernels read, which may have been computed from them.
    pub weights: BTreeMap<String, Tensor>,
}

/// Checks a bundle that was opened, for targets of it.
///
/// # Errors
/// The bundle cannot be read as what it says it is, or has nothing for a target. What is merely refused is in the report.
pub fn verify(
    bundle: &Bundle,
    targets: &[&'static Target],
    options: &Options,
    progress: &dyn Fn(&str),
) -> Result<Report, Failure> {
    let session = Session::new();
    let recipe = recipe_of(bundle)?;
    let manifest = bundle.manifest();
    let mut report = Report {
        identity: vec![
            ("compiler".to_owned(), manifest.compiler.to_string()),
            ("model".to_owned(), manifest.model.sha256.clone()),
            ("recipe".to_owned(), manifest.recipe.sha256.clone()),
            ("graph".to_owned(), manifest.graph.clone()),
            ("parts".to_owned(), manifest.parts.len().to_string()),
        ],
        ..Report::default()
    };
    progress("graph");
    let contract = session.parse_module(bundle.text("graph/contract.mlir")?, "graph/contract.mlir")?;
    let (check, refused) = check_graph(&contract)?;
    report.graph = Some(check);
    report.refused.extend(refused);
    for target in targets {
        // A target that the bundle lacks is refused, not passed for want of kernels.
        bundle.programs(target.name(), &target.architecture.name.to_string())?;
        progress(&format!("kernels {}", target.name()));
        let (kernels, refused) = check_expectations(bundle, &recipe, target)?;
        report.kernels.extend(kernels);
        report.refused.extend(refused);
        for (seeds, padding) in [(&options.numerics, false), (&options.padding, true)] {
            if seeds.is_empty() {
                continue;
            }
            let numeric = NumericOptions { seeds: seeds.clone(), padding, weights: &options.weights };
            let (checks, refused) = check_numerics(bundle, &recipe, target, &contract, &numeric, progress)?;
            report.numerics.extend(checks);
            report.refused.extend(refused);
        }
    }
    Ok(report)
}

/// The recipe that a bundle holds.
///
/// # Errors
/// Its part is no recipe in canonical form.
pub fn recipe_of(bundle: &Bundle) -> Result<Recipe, Failure> {
    Recipe::from_canonical(bundle.text("recipe.json")?).ok_or_else(|| {
        let message = format!("{}: part `recipe.json` is no recipe of this version", bundle.path().display());
        Diagnostic::new("E0048", message).with_help("build the bundle anew").into()
    })
}
