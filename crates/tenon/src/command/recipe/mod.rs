//! `tenon recipe`: recipes themselves.

mod init;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use tenon_fusion_passes::PATTERNS;
use tenon_import_onnx::ImportOptions;
use tenon_ir::Session;
use tenon_recipe::{Format, Loaded, Recipe};
use tenon_target::Target;

use super::output::{Output, aligned};
use crate::driver::{Driver, Request, Source};
use crate::stage::Stage;
use crate::{Diagnostic, Failure};

/// How far a model is lowered to check a recipe: control flow is placed, so that every bucket has been inferred anew, and nothing is scheduled yet.
const CHECKED: Stage = Stage::Flow;

#[derive(Subcommand)]
pub(super) enum Recipes {
    /// Write a commented recipe to start from.
    Init(Init),
    /// Check a recipe, and that it fits a model, without compiling.
    Check(Check),
    /// Print the hash of a recipe.
    Hash(File),
    /// Print the JSON Schema of recipes, for editors.
    Schema,
    /// List the source patterns that `compile.fusion` may name.
    Patterns,
    /// Say what two recipes have differently.
    Diff(Diff),
}

#[derive(Args)]
pub(super) struct Init {
    /// The model: `.onnx`, `.pt2` of torch.export, or `.mlir` of Tenon's
    model: PathBuf,
    /// Write into this file instead of standard output; as TOML (`.toml`) or YAML (`.yaml`, `.yml`) by its ending
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct Check {
    /// The recipe, a TOML or YAML file
    recipe: PathBuf,
    /// The model that it must fit
    model: Option<PathBuf>,
    /// Hold it against these targets instead of its own; may be repeated
    #[arg(long = "target", value_name = "NAME")]
    targets: Vec<String>,
}

#[derive(Args)]
pub(super) struct File {
    /// The recipe, a TOML or YAML file
    recipe: PathBuf,
    /// Print what is hashed too
    #[arg(long)]
    canonical: bool,
}

#[derive(Args)]
pub(super) struct Diff {
    /// A recipe
    before: PathBuf,
    /// Another one
    after: PathBuf,
}

pub(super) fn run(command: &Recipes, output: &Output) -> Result<(), Failure> {
    match command {
        Recipes::Init(arguments) => init(arguments, output),
        Recipes::Check(arguments) => check(arguments, output),
        Recipes::Hash(arguments) => hash(arguments, output),
        Recipes::Schema => output.print_json(&Recipe::json_schema()),
        Recipes::Patterns => patterns(output),
        Recipes::Diff(arguments) => diff(arguments, output),
    }
}

fn patterns(output: &Output) -> Result<(), Failure> {
    if output.json {
        let row =
            |pattern: &tenon_fusion_passes::Pattern| serde_json::json!({"name": pattern.name, "about": pattern.about});
        return output.print_json(&PATTERNS.iter().map(row).collect::<Vec<_>>());
    }
    let rows: Vec<_> = PATTERNS.iter().map(|row| vec![row.name.to_owned(), row.about.to_owned()]).collect();
    output.print(&aligned(&["pattern", "a node of the model that is"], &rows))
}

/// Reads a recipe, or says all that is wrong with it.
pub(super) fn load(path: &Path) -> Result<Loaded, Failure> {
    let loaded = Recipe::load(path).map_err(|(errors, text)| Failure::of_recipe(path, errors, &text))?;
    let listed: Vec<&'static Target> =
        loaded.recipe.targets.iter().filter_map(|name| Target::find(name).ok()).collect();
    for name in loaded.recipe.hardware.expect.keys() {
        let mut diagnostic = match Target::find(name) {
            Err(error) => Diagnostic::from(error),
            // Nothing would ever be held against it.
            Ok(_) if !listed.is_empty() && !listed.iter().any(|target| is_named(target, name)) => {
                let message =
                    format!("`hardware.targets` has none of that name: it has {}", loaded.recipe.targets.join(", "));
                Diagnostic::new("E0207", message)
                    .with_help(format!("add \"{name}\" to `targets`, or remove what is expected of it"))
            }
            Ok(_) => continue,
        };
        diagnostic.message = format!("`hardware.expect.{name}`: {}", diagnostic.message);
        let place = loaded.clauses.iter().find(|(clause, _)| clause.starts_with(&format!("hardware.expect.{name}")));
        return Err(match place {
            Some((_, span)) => {
                diagnostic.with_source(&path.display().to_string(), &loaded.text.as_str().into(), span.clone())
            }
            None => diagnostic,
        }
        .into());
    }
    Ok(loaded)
}

/// What is compiled for where neither a recipe nor the command names a target.
///
/// # Errors
/// E0207: the recipe expects something of another target, which nothing would be held against.
pub(super) fn default_target(recipe: &Recipe) -> Result<&'static Target, Failure> {
    let default = Target::default_target();
    match recipe.hardware.expect.keys().find(|name| !is_named(default, name)) {
        None => Ok(default),
        Some(name) => {
            let message = format!(
                "`hardware.expect.{name}`: neither `hardware.targets` nor `--target` names a target, and the default is {}",
                default.name()
            );
            Err(Diagnostic::new("E0207", message).with_help(format!("write `hardware.targets = [\"{name}\"]`")).into())
        }
    }
}

/// Whether `hardware.expect` means a target by a name: that of the GPU, or that of its architecture.
fn is_named(target: &Target, name: &str) -> bool {
    target.name() == name || target.architecture.llvm.processor == name
}

fn init(arguments: &Init, output: &Output) -> Result<(), Failure> {
    let session = Session::new();
    let format = match &arguments.output {
        None => Format::Toml,
        Some(path) => {
            let ending = path.extension().map(|ending| ending.to_string_lossy().into_owned()).unwrap_or_default();
            Format::of_ending(&ending).ok_or_else(|| {
                let message = format!("{}: a recipe is a `.toml`, `.yaml` or `.yml` file", path.display());
                Diagnostic::new("E0201", message).with_help("name a file with the ending of its format")
            })?
        }
    };
    let text = init::recipe_for(&session, &arguments.model, format, output)?;
    match &arguments.output {
        None => output.print(&text),
        Some(path) if path.exists() => {
            let message = format!("{}: the file exists", path.display());
            Err(Diagnostic::new("E0002", message).with_help("name another file, or remove this one").into())
        }
        Some(path) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            crate::driver::write_file(folder, &name, text.as_bytes())?;
            output.note(&format!("wrote {}", path.display()));
            Ok(())
        }
    }
}

/// Targets of a recipe, or those named instead.
fn targets(recipe: &Recipe, named: &[String]) -> Result<Vec<&'static Target>, Failure> {
    let names = if named.is_empty() { &recipe.targets } else { named };
    let mut targets = names.iter().map(|name| Target::find(name)).collect::<Result<Vec<_>, _>>()?;
    if targets.is_empty() {
        targets.push(default_target(recipe)?);
    }
    Ok(targets)
}

fn check(arguments: &Check, output: &Output) -> Result<(), Failure> {
    let loaded = load(&arguments.recipe)?;
    let recipe = loaded.recipe.clone();
    let targets = targets(&recipe, &arguments.targets)?;
    let points = match &arguments.model {
        None => None,
        Some(model) => {
            let session = Session::new();
            let source = Source::model_for(&session, model, &ImportOptions::default(), None, &recipe)?;
            let request = Request { targets: targets.clone(), ..Request::of(recipe.clone()) };
            let mut driver = Driver::new(&session, &request)?.with_recipe_text(&arguments.recipe, &loaded);
            Some(driver.check(&source, CHECKED)?)
        }
    };
    let names: Vec<_> = targets.iter().map(|target| target.name()).collect();
    if output.json {
        return output.print_json(&serde_json::json!({
            "recipe": recipe.name, "hash": recipe.hash(), "targets": names, "graphs": points,
        }));
    }
    let fits = match (&arguments.model, points) {
        (Some(model), Some(points)) => {
            let graphs = if points == 1 { "graph" } else { "graphs" };
            let each = if names.len() == 1 { "" } else { "each of " };
            format!("; it fits {}: {points} {graphs} for {each}{}", model.display(), names.join(", "))
        }
        _ => String::new(),
    };
    output.print(&format!("{}: the recipe `{}` is valid{fits}\n", arguments.recipe.display(), recipe.name))
}

fn hash(arguments: &File, output: &Output) -> Result<(), Failure> {
    let recipe = load(&arguments.recipe)?.recipe;
    if output.json {
        return output.print_json(&serde_json::json!({"hash": recipe.hash(), "canonical": recipe.form()}));
    }
    let canonical = if arguments.canonical { format!("{}\n", recipe.canonical_json()) } else { String::new() };
    output.print(&format!("{}\n{canonical}", recipe.hash()))
}

fn diff(arguments: &Diff, output: &Output) -> Result<(), Failure> {
    let (before, after) = (load(&arguments.before)?.recipe, load(&arguments.after)?.recipe);
    let differences = before.differences(&after);
    if output.json {
        return output.print_json(&differences);
    }
    if differences.is_empty() {
        return output.print("the recipes say the same\n");
    }
    let rows: Vec<_> = differences.into_iter().map(|row| vec![row.clause, row.before, row.after]).collect();
    output.print(&aligned(&["clause", "before", "after"], &rows))
}
