//! What compilation begins with.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use tenon_import_onnx::{FixedDimensions, ImportOptions, Imported, Model, import_loaded, import_model};
use tenon_ir::{Attribute, Module, Session};
use tenon_recipe::{DimClause, DimEntry, Recipe};
use tenon_shape_passes::{Attached, Point};
use tenon_target::Target;
use tenon_tensor::Tensor;

use crate::driver::{Content, Header, backend, bucket};
use crate::stage::Stage;
use crate::{Diagnostic, Failure, read_weights};

/// Longest dump that is read, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// A model or a dump, read.
pub struct Source<'s> {
    /// The stage that it is at.
    pub stage: Stage,
    /// The file, as the user named it.
    pub name: String,
    /// Values of the parameters, as far as they were given.
    pub weights: IndexMap<String, Tensor>,
    /// Inputs whose given value decided a shape, and which became constants.
    pub constant_inputs: Vec<String>,
    /// Inputs that a run gives under the same name, and that are kept between runs; their first values are among the weights.
    pub states: Vec<String>,
    /// Dimensions that became numbers when the model was imported, which it could not be with them free, as the recipe allows one size of each.
    pub fixed: BTreeMap<String, u64>,
    /// What a dump of stage `contract` or later says of the recipe that was applied to it.
    pub contracted: Option<Attached>,
    pub(super) bucket: Option<String>,
    pub(super) point: Point,
    pub(super) target: Option<&'static Target>,
    body: Body<'s>,
}

enum Body<'s> {
    Module(Module<'s>),
    Text(String),
}

impl<'s> Source<'s> {
    /// Reads a model: ONNX (`.onnx`), an archive of torch.export (`.pt2`), or a module of Tenon's (`.mlir`), at stage `import` unless it says another.
    ///
    /// # Errors
    /// The file cannot be read, is of another kind, or is refused by its importer.
    pub fn model(
        session: &'s Session,
        path: &Path,
        options: &ImportOptions,
        weights: Option<&Path>,
    ) -> Result<Source<'s>, Failure> {
        Source::model_for(session, path, options, weights, &Recipe::default())
    }

    /// As [`Source::model`]. An ONNX model that cannot be imported with its dimensions free is imported with those as numbers of which the recipe allows
    /// one size.
    ///
    /// # Errors
    /// As [`Source::model`].
    pub fn model_for(
        session: &'s Session,
        path: &Path,
        options: &ImportOptions,
        weights: Option<&Path>,
        recipe: &Recipe,
    ) -> Result<Source<'s>, Failure> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        match ending.as_str() {
            "onnx" if weights.is_some() => {
                let message = "an ONNX model brings its own weights";
                Err(Diagnostic::new("E0032", message).with_help("leave out --weights").into())
            }
            "onnx" => {
                let (imported, fixed) = match import_model(session, path, options) {
                    Ok(imported) => (imported, BTreeMap::new()),
                    Err(free) => import_fixed(session, path, options, recipe).unwrap_or_else(|| Err(free.into()))?,
                };
                Ok(Source {
                    fixed,
                    stage: Stage::Import,
                    name: path.display().to_string(),
                    weights: imported.weights,
                    constant_inputs: imported.constant_inputs,
                    states: Vec::new(),
                    contracted: None,
                    bucket: None,
                    point: Point::new(),
                    target: None,
                    body: Body::Module(imported.module),
                })
            }
            "pt2" if weights.is_some() => {
                let message = "an archive of torch.export brings its own weights";
                Err(Diagnostic::new("E0032", message).with_help("leave out --weights").into())
            }
            "pt2" => {
                let options = tenon_import_pt2::ImportOptions { shapes: options.shapes.clone() };
                let imported = tenon_import_pt2::import_archive(session, path, &options)?;
                Ok(Source {
                    stage: Stage::Import,
                    name: path.display().to_string(),
                    weights: imported.weights,
                    constant_inputs: Vec::new(),
                    states: imported.states,
                    contracted: None,
                    bucket: None,
                    point: Point::new(),
                    target: None,
                    fixed: BTreeMap::new(),
                    body: Body::Module(imported.module),
                })
            }
            "mlir" => Source::text(session, path, weights, Some(Stage::Import)),
            _ => {
                let message = format!("{}: a model is a `.onnx`, `.pt2` or `.mlir` file", path.display());
                Err(Diagnostic::new("E0007", message)
                    .with_help("name a model, or resume from another dump with --from")
                    .into())
            }
        }
    }

    /// Reads a dump of any stage.
    ///
    /// # Errors
    /// The file cannot be read, does not say its stage, or is no text of that stage.
    pub fn dump(session: &'s Session, path: &Path, weights: Option<&Path>) -> Result<Source<'s>, Failure> {
        Source::text(session, path, weights, None)
    }

    fn text(
        session: &'s Session,
        path: &Path,
        weights: Option<&Path>,
        default: Option<Stage>,
    ) -> Result<Source<'s>, Failure> {
        let name = path.display().to_string();
        let unreadable =
            |error: &dyn std::fmt::Display| Failure::from(Diagnostic::new("E0001", format!("{name}: {error}")));
        let size = std::fs::metadata(path).map_err(|error| unreadable(&error))?.len();
        if size > MAX_BYTES {
            return Err(unreadable(&format!("{size} bytes are more than a dump may have")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(&error))?;
        let header = Header::parse(&text).map_err(|reason| {
            let message = format!("{name}: the first line names a stage that does not exist");
            Diagnostic::new("E0003", message).with_help(reason)
        })?;
        let stage = header.stage.or_else(|| Header::stage_of_name(path)).or(default).ok_or_else(|| {
            let message = format!("{name}: neither its first line nor its name says which stage it is of");
            Diagnostic::new("E0004", message).with_help("write `// tenon stage: NAME` as the first line")
        })?;
        let weights = weights.map(read_weights).transpose()?.unwrap_or_default();
        Source::parsed(session, name, text, stage, header, weights)
    }

    /// A graph that Tenon brings itself, at stage `import`.
    pub(crate) fn of_graph(session: &'s Session, name: &str, text: &str) -> Result<Source<'s>, Failure> {
        let header = Header::default();
        Source::parsed(session, name.to_owned(), text.to_owned(), Stage::Import, header, IndexMap::new())
    }

    fn parsed(
        session: &'s Session,
        name: String,
        text: String,
        stage: Stage,
        header: Header,
        weights: IndexMap<String, Tensor>,
    ) -> Result<Source<'s>, Failure> {
        let target = header.target.as_deref().map(Target::find).transpose()?;
        let mut source = Source {
            stage,
            weights,
            constant_inputs: Vec::new(),
            states: Vec::new(),
            contracted: None,
            bucket: header.bucket,
            point: Point::new(),
            target,
            fixed: BTreeMap::new(),
            body: Body::Text(String::new()),
            name,
        };
        if stage.is_mlir() {
            let shared: Arc<str> = text.into();
            let module = session.parse_module(&shared, &source.name);
            let module = module.map_err(|error| Failure::of_mlir(&source.name, &shared, error))?;
            if let Some(found) = tenon_pass_manager::check(&module).into_iter().next() {
                let diagnostic =
                    Diagnostic { nodes: found.nodes, help: found.help, ..Diagnostic::new(found.code, found.message) };
                return Err(diagnostic.into());
            }
            if stage > Stage::Import {
                source.contracted = tenon_shape_passes::attached(&module)?;
            }
            if let Some(sizes) = module.op().attribute("graph.bucket").and_then(Attribute::as_dictionary) {
                let point = sizes
                    .iter()
                    .filter_map(|(name, size)| Some((name.clone(), u64::try_from(size.as_integer()?).ok()?)));
                source.point = point.collect();
                source.bucket = bucket::label(&source.point);
            }
            source.body = Body::Module(module);
        } else {
            source.body = Body::Text(text);
        }
        Ok(source)
    }

    /// The module, where the source is one.
    pub fn module(&self) -> Option<&Module<'s>> {
        match &self.body {
            Body::Module(module) => Some(module),
            Body::Text(_) => None,
        }
    }

    /// A copy to be lowered.
    pub(super) fn content(&self) -> Result<Content<'s>, Failure> {
        Ok(match &self.body {
            Body::Module(module) => Content::Module(module.duplicate()),
            Body::Text(text) if self.stage == Stage::Llvm => Content::Llvm(backend::parse_llvm(text)?),
            // The header is written anew with the next dump.
            Body::Text(text) => Content::Text(without_header(text)),
        })
    }
}

/// Imports with the sizes that a recipe leaves no choice of; nothing where it has none that the model leaves free.
#[allow(clippy::type_complexity)]
fn import_fixed<'s>(
    session: &'s Session,
    path: &Path,
    options: &ImportOptions,
    recipe: &Recipe,
) -> Option<Result<(Imported<'s>, BTreeMap<String, u64>), Failure>> {
    let sizes = only_sizes(recipe);
    if options.shapes.is_some() || sizes.is_empty() {
        return None;
    }
    let mut model = Model::load(path).ok()?;
    let fixed = model.fix_dimensions(&sizes);
    if fixed.is_empty() {
        return None;
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let imported = import_loaded(session, &model, &name, options).map_err(Failure::from).and_then(|imported| {
        tenon_shape_passes::write_fixed(&imported.module, &fixed)?;
        Ok((imported, fixed))
    });
    Some(imported)
}

/// Dimensions of which a recipe allows one size.
fn only_sizes(recipe: &Recipe) -> FixedDimensions {
    let only = |name: &String| match recipe.dims.get(name) {
        Some(DimClause { allowed, pad: false, .. }) if allowed.len() == 1 => Some(allowed[0]),
        _ => None,
    };
    let size = |entry: &DimEntry| match entry {
        DimEntry::Fixed(size) => Some(*size),
        DimEntry::Named(name) => only(name),
    };
    let inputs = recipe.inputs.iter().filter_map(|(name, clause)| {
        let dims = clause.dims.as_ref()?;
        Some((name.clone(), dims.iter().map(size).collect()))
    });
    let names = recipe.dims.keys().filter_map(|name| Some((name.clone(), only(name)?)));
    FixedDimensions { inputs: inputs.collect(), names: names.collect() }
}

fn without_header(text: &str) -> String {
    let is_header =
        |line: &&str| ["// tenon stage: ", "// target: ", "// bucket: "].iter().any(|start| line.starts_with(start));
    let length: usize = text.split_inclusive('\n').take_while(is_header).map(str::len).sum();
    text[length..].to_owned()
}
