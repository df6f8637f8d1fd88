//! Arguments that several commands share, and what they become.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use tenon_import_onnx::ImportOptions;
use tenon_ir::Session;
use tenon_recipe::{DimEntry, Loaded, Recipe};
use tenon_shape_passes::Point;
use tenon_target::Target;
use tenon_tensor::{Tensor, read_npy};

use super::output::Output;
use crate::driver::{Driver, Request, Source};
use crate::stage::Stage;
use crate::{Diagnostic, Failure};

/// What is compiled, and for what.
#[derive(Args)]
pub(super) struct ModelArguments {
    /// The model: `.onnx`, `.pt2` of torch.export, or `.mlir` of Tenon's; for run and verify a bundle as well
    #[arg(required_unless_present_any = ["from", "list"])]
    pub(super) model: Option<PathBuf>,
    /// Resume from a dump of `tenon lower` instead of a model
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub(super) from: Option<PathBuf>,
    /// The recipe, a TOML or YAML file
    #[arg(long, value_name = "FILE")]
    pub(super) recipe: Option<PathBuf>,
    /// A GPU (`a100-sxm4-80gb`) or architecture (`sm_80`); may be repeated
    #[arg(long = "target", value_name = "NAME")]
    pub(super) targets: Vec<String>,
    /// Only the buckets with these sizes: `batch=4,seq=64`
    #[arg(long, value_name = "DIM=SIZE,…", value_parser = parse_bucket)]
    pub(super) bucket: Option<Point>,
    /// Compile for exactly the shapes of the given inputs
    #[arg(long, conflicts_with = "from")]
    pub(super) shapes_from_inputs: bool,
    /// An input as a `.npy` file; may be repeated
    #[arg(long = "input", value_name = "NAME=FILE.npy", value_parser = parse_input)]
    pub(super) inputs: Vec<(String, PathBuf)>,
    /// Values of the parameters of a `.mlir` model or dump, a safetensors file
    #[arg(long, value_name = "FILE")]
    pub(super) weights: Option<PathBuf>,
    #[command(flatten)]
    pub(super) passes: PassArguments,
}

/// What else than a recipe gives free dimensions their sizes.
const SHAPES_FROM_INPUTS: &str = "let `tenon recipe init MODEL` write a recipe with sizes that fit, or compile for the shapes of given inputs with --shapes-from-inputs";

/// What a command works on: a model or dump, and what it is compiled for.
pub(super) struct Prepared<'s> {
    pub(super) request: Request,
    pub(super) source: Source<'s>,
    /// The recipe that was named, with its file.
    loaded: Option<(PathBuf, Loaded)>,
    hint: Option<&'static str>,
}

/// How passes run.
#[derive(Args)]
#[command(next_help_heading = "Passes")]
pub(super) struct PassArguments {
    /// Leave a pass out; may be repeated
    #[arg(long = "disable", value_name = "PASS")]
    disable: Vec<String>,
    /// Print the module before a pass (`*`: before all) on standard error
    #[arg(long = "dump-before", value_name = "PASS")]
    dump_before: Vec<String>,
    /// Print the module after a pass (`*`: after all) on standard error
    #[arg(long = "dump-after", value_name = "PASS")]
    dump_after: Vec<String>,
    /// Stop rewriting after so many rewrites
    #[arg(long, value_name = "N")]
    stop_after_rewrite: Option<u64>,
}

/// `NAME=FILE`.
pub(super) fn parse_input(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok((name.to_owned(), PathBuf::from(file))),
        _ => Err("expected NAME=FILE.npy".to_owned()),
    }
}

/// `batch=4,seq=64`.
fn parse_bucket(text: &str) -> Result<Point, String> {
    let part = |part: &str| {
        let (name, size) = part.rsplit_once('=')?;
        Some((name.trim().to_owned(), size.trim().parse().ok()?)).filter(|(name, _)| !name.is_empty())
    };
    text.split(',')
        .map(part)
        .collect::<Option<Point>>()
        .ok_or_else(|| "expected DIM=SIZE,…, as in batch=4,seq=64".to_owned())
}

impl PassArguments {
    /// Whether any of them was given.
    fn is_given(&self) -> bool {
        let lists = [&self.disable, &self.dump_before, &self.dump_after];
        self.stop_after_rewrite.is_some() || lists.iter().any(|list| !list.is_empty())
    }
}

impl ModelArguments {
    /// Refuses what would change kernels beside the recipe: a bundle is named by the recipe's hash, and says what was built by it alone.
    ///
    /// # Errors
    /// E0051: `--disable` or `--stop-after-rewrite` was given.
    pub(super) fn check_by_recipe_alone(&self) -> Result<(), Diagnostic> {
        if self.passes.disable.is_empty() && self.passes.stop_after_rewrite.is_none() {
            return Ok(());
        }
        let message = "a bundle is what its recipe says, not what --disable or --stop-after-rewrite make of it";
        Err(Diagnostic::new("E0051", message)
            .with_help("write `compile.fusion.disable` into the recipe, or look at the stages with `tenon lower`"))
    }
}

impl ModelArguments {
    /// Refuses what decides how a model is compiled, beside a bundle, which was compiled before.
    ///
    /// # Errors
    ///
    /// E0051 names the option.
    pub(super) fn check_beside_bundle(&self) -> Result<(), Failure> {
        let compiles = [
            ("--weights", self.weights.is_some()),
            ("--bucket", self.bucket.is_some()),
            ("--shapes-from-inputs", self.shapes_from_inputs),
            ("an option of passes", self.passes.is_given()),
        ];
        let Some((option, _)) = compiles.iter().find(|(_, given)| *given) else { return Ok(()) };
        let message = format!("{option} is for models; a bundle was compiled before");
        Err(Diagnostic::new("E0051", message).with_help("leave it out, or name the model").into())
    }

    /// Reads the recipe and the model or dump, and says what is compiled for. A dump of stage `contract` or later brings the clauses of its own
    /// recipe. A run takes the bucket that holds the inputs.
    ///
    /// # Errors
    /// The recipe or the source is refused, or the recipe is another than that of the dump: E0054.
    pub(super) fn prepare<'s>(
        &self,
        session: &'s Session,
        inputs: &BTreeMap<String, Tensor>,
        output: &Output,
        is_run: bool,
    ) -> Result<Prepared<'s>, Failure> {
        // The recipe first: it is read faster than a model.
        let loaded = self.recipe.as_deref().map(super::recipe::load).transpose()?;
        if let (true, Some(path), Some(loaded)) = (self.shapes_from_inputs, &self.recipe, &loaded) {
            check_sizes_once(path, loaded)?;
        }
        let source = self.source(session, inputs, loaded.as_ref(), output)?;
        let recipe = self.effective_recipe(loaded.as_ref(), &source, output)?;
        let request = self.request(recipe, inputs, is_run)?;
        let hint = self.from.is_none().then_some(SHAPES_FROM_INPUTS);
        Ok(Prepared { request, source, loaded: self.recipe.clone().zip(loaded), hint })
    }

    /// The recipe that is compiled by: what a dump holds of its own, else the one named, else the default.
    fn effective_recipe(
        &self,
        loaded: Option<&Loaded>,
        source: &Source<'_>,
        output: &Output,
    ) -> Result<Recipe, Failure> {
        if let Some(attached) = &source.contracted {
            if let Some(loaded) = loaded
                && loaded.recipe.hash() != attached.hash
            {
                let named = self.recipe.as_deref().unwrap_or(Path::new("")).display();
                let message = format!(
                    "`{}` was made by a recipe with the hash {}, and `{named}` has {}",
                    source.name,
                    attached.hash,
                    loaded.recipe.hash()
                );
                let help =
                    "leave out --recipe: the dump holds the clauses that later stages go by; or begin with the model";
                return Err(Diagnostic::new("E0054", message).with_help(help).into());
            }
            output.detail(&format!("the clauses of the dump hold, of the recipe {}", attached.hash));
            return Ok(attached.recipe.clone());
        }
        if let Some(loaded) = loaded {
            if source.stage > Stage::Hw {
                output.note(&format!(
                    "the recipe decides nothing after stage `hw`, and `{}` is at `{}`",
                    source.name, source.stage
                ));
            }
            return Ok(loaded.recipe.clone());
        }
        let recipe = Recipe::default();
        if source.stage <= Stage::Hw {
            let numerics = recipe.numerics;
            output.note(&format!(
                "default recipe: rewrites {}, tolerance {:e} absolute, {:e} relative",
                numerics.rewrites.name(),
                numerics.tolerance.abs,
                numerics.tolerance.rel
            ));
        }
        Ok(recipe)
    }

    /// What is compiled for, by a recipe.
    fn request(&self, mut recipe: Recipe, inputs: &BTreeMap<String, Tensor>, is_run: bool) -> Result<Request, Failure> {
        let shapes = || inputs.iter().map(|(name, tensor)| (name.clone(), shape_of(tensor)));
        if self.shapes_from_inputs {
            // One bucket, whose sizes the inputs give: the importer fixes them, or for a module, which is read as it is, the recipe.
            if self.model.as_ref().is_some_and(|path| path.extension().is_some_and(|ending| ending == "mlir")) {
                for (name, shape) in shapes() {
                    let dims = Some(shape.into_iter().map(DimEntry::Fixed).collect());
                    recipe.inputs.entry(name).or_default().dims = dims;
                }
            }
        }
        let names = if self.targets.is_empty() { &recipe.targets } else { &self.targets };
        let mut targets: Vec<&'static Target> = Vec::new();
        for name in names {
            let target = Target::find(name)?;
            if !targets.iter().any(|known| known.name() == target.name()) {
                targets.push(target);
            }
        }
        if targets.is_empty() {
            targets.push(super::recipe::default_target(&recipe)?);
        }
        Ok(Request {
            recipe,
            targets,
            targets_are_named: !self.targets.is_empty(),
            bucket: self.bucket.clone().unwrap_or_default(),
            input_shapes: is_run.then(|| shapes().collect()),
            passes: tenon_pass_manager::Options {
                disable: self.passes.disable.clone(),
                dump_before: self.passes.dump_before.clone(),
                dump_after: self.passes.dump_after.clone(),
                stop_after_rewrite: self.passes.stop_after_rewrite,
            },
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        })
    }

    /// The name of the model's or dump's file without its ending.
    pub(super) fn stem(&self) -> String {
        let path = self.model.as_ref().or(self.from.as_ref());
        path.and_then(|path| path.file_stem()).map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Inputs as their files have them: types that NumPy lacks still as their bits.
    pub(super) fn read_inputs(&self) -> Result<BTreeMap<String, Tensor>, Failure> {
        let mut inputs = BTreeMap::new();
        for (name, path) in &self.inputs {
            if inputs.insert(name.clone(), read_npy(path)?).is_some() {
                let message = format!("input `{name}` is given twice");
                return Err(Diagnostic::new("E0033", message).with_help("give each input one file").into());
            }
        }
        Ok(inputs)
    }

    /// The model or dump.
    fn source<'s>(
        &self,
        session: &'s Session,
        inputs: &BTreeMap<String, Tensor>,
        loaded: Option<&Loaded>,
        output: &Output,
    ) -> Result<Source<'s>, Failure> {
        let weights = self.weights.as_deref();
        let source = match (&self.from, &self.model) {
            (Some(path), _) => Source::dump(session, path, weights)?,
            (None, Some(path)) => {
                let options = if self.shapes_from_inputs {
                    ImportOptions {
                        shapes: Some(inputs.iter().map(|(name, tensor)| (name.clone(), shape_of(tensor))).collect()),
                        constants: inputs.clone(),
                    }
                } else {
                    ImportOptions::default()
                };
                let recipe = loaded.map_or_else(Recipe::default, |loaded| loaded.recipe.clone());
                Source::model_for(session, path, &options, weights, &recipe)?
            }
            (None, None) => {
                let message = "neither a model nor a dump is named";
                return Err(Diagnostic::new("E0001", message).with_help("name a model, or a dump with --from").into());
            }
        };
        for (name, size) in &source.fixed {
            output.detail(&format!("`{name}` is {size} from the import on: the model cannot be imported with it free"));
        }
        for name in &source.constant_inputs {
            output.note(&format!("input `{name}` decides a shape: its value is compiled in"));
        }
        Ok(source)
    }
}

impl<'s> Prepared<'s> {
    /// A driver that shows the places of the recipe's clauses.
    ///
    /// # Errors
    /// An option or clause names a pass that does not exist or cannot be left out.
    pub(super) fn driver<'o>(&'o self, session: &'s Session) -> Result<Driver<'s, 'o>, Failure> {
        let mut driver = Driver::new(session, &self.request)?;
        if let Some((path, loaded)) = &self.loaded {
            driver = driver.with_recipe_text(path, loaded);
        }
        Ok(match self.hint {
            Some(hint) => driver.with_shapes_hint(hint),
            None => driver,
        })
    }
}

/// Refuses a recipe that says which sizes there are, beside inputs that say it.
fn check_sizes_once(path: &Path, loaded: &Loaded) -> Result<(), Failure> {
    let Recipe { dims, inputs, .. } = &loaded.recipe;
    let clause = dims.keys().map(|name| format!("semantic.dims.{name}")).next();
    let clause = clause.or_else(|| {
        let mut sized = inputs.iter().filter(|(_, clause)| clause.dims.is_some());
        sized.next().map(|(name, _)| format!("semantic.inputs.{name}.dims"))
    });
    let Some(clause) = clause else { return Ok(()) };
    let message = format!(
        "--shapes-from-inputs compiles for the shapes of the inputs, and `{clause}` of the recipe says which sizes there are"
    );
    let help =
        "leave out --shapes-from-inputs, and the bucket that holds the inputs is taken; or name a recipe without sizes";
    let diagnostic = Diagnostic::new("E0055", message).with_help(help);
    let place = loaded.clauses.iter().find(|(known, _)| **known == clause || known.starts_with(&format!("{clause}.")));
    Err(match place {
        Some((_, span)) => {
            diagnostic.with_source(&path.display().to_string(), &loaded.text.as_str().into(), span.clone())
        }
        None => diagnostic,
    }
    .into())
}

fn shape_of(tensor: &Tensor) -> Vec<u64> {
    tensor.shape().iter().map(|size| *size as u64).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn inputs_and_buckets_are_parsed() {
        assert_eq!(parse_input("a=b=c.npy").unwrap(), ("a".to_owned(), PathBuf::from("b=c.npy")));
        assert!(parse_input("a").is_err() && parse_input("=b").is_err() && parse_input("a=").is_err());
        assert_eq!(parse_bucket("batch=4,seq=64").unwrap(), [("batch".to_owned(), 4), ("seq".to_owned(), 64)]);
        assert!(parse_bucket("batch").is_err() && parse_bucket("=4").is_err() && parse_bucket("a=-1").is_err());
    }
}
