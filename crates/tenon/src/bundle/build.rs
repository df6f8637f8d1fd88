//! From a model and a recipe to the content of a bundle.
//!
//! What is written follows from the model's content, the recipe, the targets and the compiler alone: no path, no time, no order of threads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tenon_bundle::{
    CustomOpRecord, KernelRecord, Manifest, ModelRecord, Part, ProgramRecord, RecipeRecord, TargetRecord, Weights,
    Writer, file_name,
};
use tenon_ir::{Module, PrintOptions};
use tenon_runtime::plan::{Launch, Operation, Step};
use tenon_shape_passes::{Entry, Port};
use tenon_tensor::Tensor;

use super::compiler;
use crate::driver::{Driver, Program, Source};
use crate::stage::Stage;
use crate::{Diagnostic, Failure};

/// A bundle that is not written yet.
pub struct Built {
    /// What it says of itself; the list of parts is made when it is written.
    pub manifest: Manifest,
    /// Its parts.
    pub parts: Vec<Part>,
}

impl Built {
    /// The name of its file.
    pub fn file_name(&self) -> String {
        file_name(&self.manifest.model.name, &self.manifest.recipe.sha256, &self.manifest.compiler.tenon)
    }

    /// Writes it into a folder, whole or not at all.
    ///
    /// # Errors
    /// The folder or file cannot be written.
    pub fn write(self, folder: &Path) -> Result<PathBuf, Failure> {
        let name = self.file_name();
        Ok(Writer::new(self.manifest, self.parts).write(folder, &name)?)
    }
}

/// Compiles all buckets for all targets of the driver's request.
///
/// # Errors
/// Anything that a stage refuses; a source that is no model.
pub fn build<'s>(driver: &mut Driver<'s, '_>, source: &Source<'s>, model: &str) -> Result<Built, Failure> {
    if source.stage != Stage::Import {
        let message = format!("`{}` is at stage `{}`; a bundle is built from a model", source.name, source.stage);
        return Err(Diagnostic::new("E0006", message)
            .with_help("name the model, or its dump of stage `import`")
            .into());
    }
    let mut texts = Texts::default();
    let programs = driver.programs_and(source, &mut |stage, bucket, module| texts.take(stage, bucket, module))?;
    let recipe = &driver.request().recipe;
    let mut parts = Vec::new();
    let mut named = BTreeSet::new();
    let mut weights = Weights::default();
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    let mut records = Vec::new();
    let mut add = |part: Part| {
        if named.insert(part.name.clone()) {
            parts.push(part);
        }
    };
    add(Part::new("recipe.json", recipe.canonical_json()));
    add(Part::new("graph/contract.mlir", texts.contract.clone()));
    for program in &programs {
        let label = program.bucket.clone().unwrap_or_else(|| "all".to_owned());
        let graph = format!("graph/{label}/fuse.mlir");
        let text = texts.fused.get(&program.bucket.clone().unwrap_or_default()).cloned().unwrap_or_default();
        add(Part::new(graph.clone(), text));
        let (plan, kernels) = with_shared_kernels(program);
        for (part, ptx) in kernels.iter().map(|(record, ptx)| (&record.part, ptx)) {
            add(Part::new(part.clone(), ptx.to_string()));
        }
        let plan_part = format!("plan/{}/{label}.json", program.target.name());
        add(Part::new(plan_part.clone(), plan.to_json()?));
        let mut parameters = BTreeMap::new();
        for slot in &plan.parameters {
            let literal = program.literals.iter().find(|(name, _)| *name == slot.name).map(|(_, tensor)| tensor);
            let key = match (literal, keys.get(&slot.name)) {
                (Some(tensor), _) => weights.add(tensor),
                (None, Some(key)) => key.clone(),
                (None, None) => {
                    let tensor =
                        source.weights.get(&slot.name).ok_or_else(|| missing(&slot.name, &slot.to_string()))?;
                    let key = weights.add(tensor);
                    keys.insert(slot.name.clone(), key.clone());
                    key
                }
            };
            parameters.insert(slot.name.clone(), key);
        }
        records.push(ProgramRecord {
            target: program.target.name().to_owned(),
            bucket: program.point.iter().cloned().collect(),
            plan: plan_part,
            graph,
            kernels: kernels.into_iter().map(|(record, _)| record).collect(),
            parameters,
        });
    }
    let mut states = BTreeMap::new();
    for name in &source.states {
        let first = source.weights.get(name).ok_or_else(|| missing(name, "the first value of a buffer"))?;
        states.insert(name.clone(), weights.add(first));
    }
    let targets = driver.request().targets.iter().map(|target| TargetRecord {
        name: target.name().to_owned(),
        architecture: target.architecture.name.to_string(),
        ptx_version: target.architecture.ptx_version().to_string(),
    });
    let text_of = |value: &Option<String>| value.clone().unwrap_or_default();
    let custom_ops = recipe.custom_ops.iter().map(|(name, op)| CustomOpRecord {
        name: name.clone(),
        version: text_of(&op.version),
        sha256: text_of(&op.sha256),
    });
    let mut custom_ops: Vec<_> = custom_ops.collect();
    custom_ops.sort_by(|a, b| a.name.cmp(&b.name));
    let manifest = Manifest {
        compiler: compiler(),
        model: ModelRecord { name: model.to_owned(), sha256: model_hash(&texts.import, &source.weights) },
        recipe: RecipeRecord { name: recipe.name.clone(), sha256: recipe.hash() },
        graph: tenon_bundle::sha256(&texts.contract),
        custom_ops,
        targets: targets.collect(),
        programs: records,
        inputs: texts.inputs,
        states,
        weights: weights.records(),
        parts: Vec::new(),
    };
    let mut parts = parts;
    parts.push(weights.part());
    Ok(Built { manifest, parts })
}

fn missing(name: &str, expected: &str) -> Failure {
    let error = tenon_runtime::RuntimeError::Parameter {
        name: name.to_owned(),
        expected: expected.to_owned(),
        found: "nothing".to_owned(),
    };
    error.into()
}

/// Texts of the stages that a bundle keeps.
#[derive(Default)]
struct Texts {
    import: String,
    contract: String,
    fused: BTreeMap<String, String>,
    /// Dimensions of the inputs that have named ones, with the recipe applied.
    inputs: BTreeMap<String, Vec<String>>,
}

impl Texts {
    fn take(&mut self, stage: Stage, bucket: Option<&str>, module: &Module<'_>) -> Result<(), Failure> {
        let text = || module.print(PrintOptions { locations: true, generic: false });
        match stage {
            Stage::Import => self.import = text(),
            Stage::Contract => {
                self.contract = text();
                let has_names = |port: &&Port| port.ty.dims.iter().any(|dim| dim.extent.as_constant().is_none());
                for port in Entry::of(module)?.inputs.iter().filter(has_names) {
                    let dims = port.ty.dims.iter().map(|dim| dim.extent.to_string());
                    self.inputs.insert(port.name.clone(), dims.collect());
                }
            }
            Stage::Fuse => {
                self.fused.insert(bucket.unwrap_or_default().to_owned(), text());
            }
            _ => {}
        }
        Ok(())
    }
}

/// Hash of a model: its graph as it was read, and every weight.
pub(crate) fn model_hash<'w>(graph: &str, weights: impl IntoIterator<Item = (&'w String, &'w Tensor)>) -> String {
    let mut keys = Weights::default();
    let keys: BTreeMap<&String, String> = weights.into_iter().map(|(name, tensor)| (name, keys.add(tensor))).collect();
    let mut digest = Sha256::new();
    let mut piece = |bytes: &[u8]| {
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    piece(graph.as_bytes());
    for (name, key) in keys {
        piece(name.as_bytes());
        piece(key.as_bytes());
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The plan of a program with the names of entries that all programs share, and its kernels with their PTX.
fn with_shared_kernels(program: &Program) -> (tenon_runtime::LaunchPlan, Vec<(KernelRecord, std::sync::Arc<str>)>) {
    let mut plan = program.plan.clone();
    let mut kernels: Vec<(KernelRecord, std::sync::Arc<str>)> = Vec::new();
    let processor = &program.target.architecture.llvm.processor;
    each_launch(&mut plan.steps, &mut |launch, nodes| {
        let Some(shared) = program.shared.iter().find(|shared| shared.name == launch.entry) else { return };
        let family = program.kernels.iter().find(|kernel| kernel.name == launch.entry);
        launch.entry.clone_from(&shared.entry);
        let nodes = nodes.iter();
        match kernels.iter_mut().find(|(record, _)| record.entry == shared.entry) {
            Some((record, _)) => record.source_nodes.extend(nodes.cloned()),
            None => {
                let record = KernelRecord {
                    entry: shared.entry.clone(),
                    part: format!("ptx/{processor}/{}.ptx", shared.entry),
                    family: family.map(|kernel| kernel.family.clone()).unwrap_or_default(),
                    source_nodes: nodes.cloned().collect(),
                };
                kernels.push((record, std::sync::Arc::clone(&shared.ptx)));
            }
        }
    });
    (plan, kernels)
}

/// Shows every launch of some steps with its step's nodes, those in the bodies of conditionals and loops too.
pub(crate) fn each_launch(steps: &mut [Step], visit: &mut dyn FnMut(&mut Launch, &[String])) {
    for step in steps {
        match &mut step.operation {
            Operation::Launch(launch) => visit(launch, &step.source_nodes),
            Operation::If(conditional) => {
                each_launch(&mut conditional.then, visit);
                each_launch(&mut conditional.otherwise, visit);
            }
            Operation::While(repeat) => each_launch(&mut repeat.body, visit),
            _ => {}
        }
    }
}
