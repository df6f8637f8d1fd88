//! From a bundle to what the runtime executes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenon_bundle::{Bundle, Identity, ProgramRecord, read_weights};
use tenon_runtime::{Bucket, Device, Executable, LaunchPlan, Pool};
use tenon_target::Target;
use tenon_tensor::{DimExpr, Tensor};

use super::compiler;
use crate::Failure;
use crate::driver::point_cost;

/// A program of a bundle, checked and ready.
pub struct LoadedProgram {
    /// What the bundle says of it.
    pub record: ProgramRecord,
    /// What runs.
    pub executable: Arc<Executable>,
    /// The dimensions of inputs as expressions over named ones.
    dims: BTreeMap<String, Vec<String>>,
}

impl LoadedProgram {
    /// The named dimensions that no input has: the most that the program may count itself.
    pub fn counts(&self) -> impl Iterator<Item = (&String, u64)> {
        let of_inputs: BTreeSet<String> =
            self.dims.values().flatten().filter_map(|text| Some(DimExpr::parse(text)?.symbols())).flatten().collect();
        let bucket = self.record.bucket.iter();
        bucket.filter(move |(name, _)| !of_inputs.contains(*name)).map(|(name, size)| (name, *size))
    }
}

/// The programs of a bundle for a target, and the weights by the keys that they name.
///
/// # Errors
/// The bundle was built by another compiler, has nothing for the target, or holds a plan that does not fit its kernels and weights.
pub fn load(bundle: &Bundle, target: &Target) -> Result<(Vec<LoadedProgram>, BTreeMap<String, Tensor>), Failure> {
    bundle.check(&Identity { compiler: Some(compiler()), ..Identity::default() })?;
    let weights = read_weights(bundle)?;
    let architecture = target.architecture.name.to_string();
    let mut programs = Vec::new();
    // Programs share the text of a kernel as they share its part.
    let mut texts: BTreeMap<&str, Arc<str>> = BTreeMap::new();
    for record in bundle.programs(target.name(), &architecture)? {
        let plan = LaunchPlan::from_json(bundle.text(&record.plan)?)?;
        let mut modules = Vec::new();
        for kernel in &record.kernels {
            let text = match texts.get(kernel.part.as_str()) {
                Some(text) => Arc::clone(text),
                None => {
                    let text: Arc<str> = bundle.text(&kernel.part)?.into();
                    texts.insert(&kernel.part, Arc::clone(&text));
                    text
                }
            };
            modules.push(text);
        }
        let parameters =
            record.parameters.iter().filter_map(|(name, key)| Some((name.clone(), weights.get(key)?.clone())));
        let executable = Executable::new(plan, modules, parameters)?;
        let dims = bundle.manifest().inputs.clone();
        programs.push(LoadedProgram { record: record.clone(), executable: Arc::new(executable), dims });
    }
    Ok((programs, weights))
}

/// First values of the buffers that the model keeps between runs, by name.
pub fn states(bundle: &Bundle, weights: &BTreeMap<String, Tensor>) -> BTreeMap<String, Tensor> {
    let states = bundle.manifest().states.iter();
    states.filter_map(|(name, key)| Some((name.clone(), weights.get(key)?.clone()))).collect()
}

/// The programs on a device, each request going into the cheapest bucket that holds it.
///
/// # Errors
/// The device cannot take the weights.
pub fn pool(
    device: Arc<dyn Device>,
    programs: &[LoadedProgram],
    weights: &BTreeMap<String, Tensor>,
) -> Result<Pool, Failure> {
    let bucket = |program: &LoadedProgram| {
        let point = program.record.bucket.iter().map(|(name, size)| (name.clone(), *size)).collect();
        Bucket {
            name: program.record.label().unwrap_or_else(|| "all".to_owned()),
            sizes: program.record.bucket.clone(),
            dims: program.dims.clone(),
            counts: program.counts().map(|(_, most)| most).collect(),
            cost: point_cost(&point).0,
            executable: Arc::clone(&program.executable),
            parameters: program.record.parameters.clone(),
        }
    };
    Ok(Pool::new(device, programs.iter().map(bucket).collect(), weights)?)
}
