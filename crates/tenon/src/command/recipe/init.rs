//! A recipe to start from, for a model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use tenon_import_onnx::{ImportOptions, Model};
use tenon_ir::Session;
use tenon_recipe::{Format, Recipe};
use tenon_shape_passes::{Entry, Port, bounds_of_counts, ranges, suggested_size, toml_key};
use tenon_tensor::DType;

use super::CHECKED;
use crate::command::output::Output;
use crate::driver::{Driver, Request, Source};
use crate::{Diagnostic, Failure};

const TITLE: &str =
    "# The contract under which this model is compiled and served; docs/recipes.md explains every clause.";
const SIZES: [&str; 2] = [
    "# Sizes that are compiled ahead. `between: pad` takes a size between them into the next larger graph, which computes on exactly the",
    "# elements that are there; `align: 8, max: 512` may replace `allowed`.",
];
const NO_SIZES: &str = "# The model has no free dimension: one graph is compiled.";
const FOUND: &str = "# With smaller ones the model is refused, or an output has no elements.";
const COMBINE: &str = "# product: every combination of sizes; zip: the i-th size of each dimension together";
const MAX_GRAPHS: &str = "# a larger shape space is refused";
const REWRITES: &str = "# exact | reassociates | approximates";
const TOLERANCE: &str = "# against the reference interpreter";
const ATTENTION: &str = "# auto | unfused | flash";
const TARGETS: &str = "# `tenon targets` lists them";

/// Sizes that are tried for all free dimensions at once.
const UNIFORM: [i64; 9] = [2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Most free dimensions of which every combination of the sizes 1 and 2 is tried.
const MAX_COMBINED: usize = 5;

/// What a recipe says of a model.
struct Contents {
    name: String,
    /// Free dimensions, each with a size to begin with and a comment on what else it may be.
    free: Vec<(String, i64, String)>,
    /// Whether other sizes than these were refused.
    is_found: bool,
    inputs: Vec<Input>,
}

/// An input as a recipe writes it.
struct Input {
    name: String,
    /// Entries for names and sizes, or expressions over names of other inputs.
    dims: Result<Vec<String>, String>,
    dtype: DType,
}

/// A commented recipe that fits a model, as `recipe check` sees it: every free dimension has a clause, every input is written out.
///
/// Sizes begin with the least that the model says, or 1. Where these do not fit together, or leave an output without elements, larger ones are tried; of
/// what fits, each is made as small as it can be beside the others.
///
/// # Errors
/// The model is refused with all of them; the refusal is that of the first.
pub(super) fn recipe_for(session: &Session, path: &Path, format: Format, output: &Output) -> Result<String, Failure> {
    let mut model = ModelSizes::read(session, path)?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    // A name has no character that cannot be seen.
    let name: String = stem.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
    let mut contents = Contents {
        name: if name.is_empty() { "model".to_owned() } else { name },
        free: std::mem::take(&mut model.free),
        is_found: false,
        inputs: std::mem::take(&mut model.inputs),
    };
    let first = model.check(&contents);
    if !matches!(first, Ok(true)) {
        output.progress("looking for sizes that fit");
        let is_found = !contents.free.is_empty() && find_sizes(&mut contents, &model);
        output.end_progress();
        if let (false, Err(refused)) = (is_found, first) {
            return Err(with_clause(refused, &contents));
        }
    }
    let mut text = String::new();
    let written = match format {
        Format::Toml => contents.toml(&mut text),
        Format::Yaml => contents.yaml(&mut text),
    };
    // Writing into a text does not fail.
    debug_assert!(written.is_ok());
    Ok(text)
}

/// Looks for sizes with which the model is not refused, and makes them small; whether there are any.
fn find_sizes(contents: &mut Contents, model: &ModelSizes<'_>) -> bool {
    let least: Vec<i64> = contents.free.iter().map(|(_, size, _)| *size).collect();
    let uniform = UNIFORM.iter().map(|size| least.iter().map(|least| *size.max(least)).collect());
    let count = if least.len() <= MAX_COMBINED { 1usize << least.len() } else { 0 };
    let combined = (1..count).map(|chosen| {
        least.iter().enumerate().map(|(index, least)| least + i64::from(chosen >> index & 1 == 1)).collect()
    });
    let candidates: Vec<Vec<i64>> = uniform.chain(combined).collect();
    let set = |contents: &mut Contents, sizes: &[i64]| {
        contents.free.iter_mut().zip(sizes).for_each(|((_, own, _), size)| *own = *size);
    };
    let fits = |contents: &mut Contents, sizes: &[i64]| {
        set(contents, sizes);
        matches!(model.check(contents), Ok(true))
    };
    let Some(mut sizes) = candidates.into_iter().find(|sizes| fits(contents, sizes)) else {
        set(contents, &least);
        return false;
    };
    for index in 0..sizes.len() {
        let largest = sizes[index];
        let smaller = [1].into_iter().chain(UNIFORM).filter(|size| (least[index]..largest).contains(size));
        for size in smaller {
            sizes[index] = size;
            if fits(contents, &sizes) {
                break;
            }
            sizes[index] = largest;
        }
    }
    set(contents, &sizes);
    contents.is_found = true;
    true
}

/// The refusal of a model with the clauses that decide its sizes.
fn with_clause(mut refused: Failure, contents: &Contents) -> Failure {
    let names: Vec<_> = contents.free.iter().map(|(name, ..)| format!("`semantic.dims.{name}`")).collect();
    if let (Some(diagnostic), false) = (refused.0.first_mut(), names.is_empty()) {
        let said = diagnostic.help.take().map(|help| format!("{help}; ")).unwrap_or_default();
        diagnostic.help = Some(format!(
            "{said}no size up to {} was found that fits: write a recipe that allows the one size that each free dimension has ({}), and `tenon recipe check` \
             says what is left",
            UNIFORM.iter().max().unwrap_or(&1),
            names.join(", ")
        ));
    }
    refused
}

/// A model and what it leaves free.
struct ModelSizes<'s> {
    session: &'s Session,
    path: &'s Path,
    /// The model with its dimensions free, where it can be imported so.
    source: Option<Source<'s>>,
    free: Vec<(String, i64, String)>,
    inputs: Vec<Input>,
}

impl<'s> ModelSizes<'s> {
    fn read(session: &'s Session, path: &'s Path) -> Result<Self, Failure> {
        let source = match Source::model(session, path, &ImportOptions::default(), None) {
            Ok(source) => source,
            Err(refused) => return ModelSizes::fixed(session, path).ok_or(refused),
        };
        let module = source.module().ok_or_else(|| {
            let message = format!("`{}` is at stage `{}`, which holds no graph", source.name, source.stage);
            Diagnostic::new("E0006", message).with_help("name a model")
        })?;
        let entry = Entry::of(module)?;
        let symbols = entry.inputs.iter().flat_map(|port| &port.ty.dims).flat_map(|dim| dim.extent.symbols());
        let ranges = ranges(module);
        let free: BTreeSet<String> = symbols.collect();
        let mut free: Vec<_> = free
            .into_iter()
            .map(|name| {
                let (size, note) = suggested_size(&ranges, &name);
                (name, size, note)
            })
            .collect();
        let counts = bounds_of_counts(module)?;
        free.extend(counts.into_iter().map(|(name, what)| (name, 1, format!("  # most {what}"))));
        let input = |port: &Port| Input { name: port.name.clone(), dims: dims(port), dtype: port.ty.dtype };
        let inputs = entry.inputs.iter().map(input).collect();
        drop(entry);
        Ok(ModelSizes { session, path, source: Some(source), free, inputs })
    }

    /// A model that can be imported with sizes alone; nothing where it leaves nothing free.
    fn fixed(session: &'s Session, path: &'s Path) -> Option<Self> {
        let is_onnx = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("onnx"));
        let model = is_onnx.then(|| Model::load(path).ok()).flatten()?;
        let free: Vec<_> = model.free_dimensions().into_iter().map(|name| (name, 1, String::new())).collect();
        let types: BTreeMap<&str, DType> = model
            .graph
            .inputs
            .iter()
            .filter_map(|input| Some((input.name.as_str(), input.value_type.element_type().ok()??)))
            .collect();
        let entry = |dim: String| if dim.parse::<u64>().is_ok() { dim } else { quoted(&dim) };
        let input = |(name, dims): (String, Vec<String>)| {
            let dtype = types.get(name.as_str()).copied()?;
            Some(Input { name, dims: Ok(dims.into_iter().map(entry).collect()), dtype })
        };
        let inputs = model.input_dimensions().into_iter().filter_map(input).collect();
        (!free.is_empty()).then_some(ModelSizes { session, path, source: None, free, inputs })
    }

    /// What `recipe check` says of a recipe; where it fits, whether every output has elements.
    fn check(&self, contents: &Contents) -> Result<bool, Failure> {
        let mut text = String::new();
        let written = contents.toml(&mut text);
        debug_assert!(written.is_ok());
        let recipe = Recipe::parse(&text).map_err(|errors| Failure::of_recipe(self.path, errors, &text))?;
        let request = Request::of(recipe.clone());
        let mut driver = Driver::new(self.session, &request)?;
        let modules = match &self.source {
            Some(source) => driver.modules(source, CHECKED)?,
            None => {
                let options = ImportOptions::default();
                driver.modules(&Source::model_for(self.session, self.path, &options, None, &recipe)?, CHECKED)?
            }
        };
        let mut has_elements = true;
        for (_, module) in &modules {
            let shapes = Entry::of(module)?.outputs.into_iter().filter_map(|port| port.ty.known_shape());
            has_elements &= shapes.into_iter().all(|shape| !shape.contains(&0));
        }
        Ok(has_elements)
    }
}

/// What the `dims` of an input are.
fn dims(port: &Port) -> Result<Vec<String>, String> {
    let dims: Vec<_> = port.ty.dims.iter().map(|dim| dim.extent.clone()).collect();
    if dims.iter().all(|dim| dim.as_symbol().is_some() || dim.as_constant().is_some()) {
        Ok(dims.iter().map(|dim| dim.as_symbol().map_or_else(|| dim.to_string(), quoted)).collect())
    } else {
        Err(dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    }
}

impl Contents {
    fn toml(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "{TITLE}\nrecipe = 1\nname = {}\n", quoted(&self.name))?;
        if self.free.is_empty() {
            writeln!(text, "{NO_SIZES}\n")?;
        } else {
            // The comments name keys and values alike in both languages.
            writeln!(text, "{}\n{}", SIZES[0], SIZES[1])?;
            if self.is_found {
                writeln!(text, "{FOUND}")?;
            }
            writeln!(text, "[semantic.dims]")?;
            for (name, size, note) in &self.free {
                writeln!(text, "{} = {{ allowed = [{size}], between = \"reject\" }}{note}", toml_key(name))?;
            }
            writeln!(text, "\n[semantic]\ncombine = \"product\"  {COMBINE}\nmax_graphs = 16      {MAX_GRAPHS}\n")?;
        }
        for port in &self.inputs {
            writeln!(text, "[semantic.inputs.{}]", toml_key(&port.name))?;
            match &port.dims {
                Ok(entries) => writeln!(text, "dims = [{}]", entries.join(", "))?,
                Err(shown) => writeln!(text, "# dims follow from others: {shown}")?,
            }
            writeln!(text, "dtype = {}\n", quoted(port.dtype.name()))?;
        }
        writeln!(text, "[semantic.numerics]\nrewrites = \"reassociates\"            {REWRITES}")?;
        writeln!(text, "tolerance = {{ abs = 1e-4, rel = 1e-3 }}  {TOLERANCE}\n")?;
        writeln!(text, "[compile.attention]\nimplementation = \"auto\"              {ATTENTION}\n")?;
        writeln!(text, "[hardware]\ntargets = [\"a100-sxm4-80gb\"]         {TARGETS}")
    }

    fn yaml(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "{TITLE}\nrecipe: 1\nname: {}\n\nsemantic:", quoted(&self.name))?;
        if self.free.is_empty() {
            writeln!(text, "  {NO_SIZES}\n")?;
        } else {
            writeln!(text, "  {}\n  {}", SIZES[0], SIZES[1])?;
            if self.is_found {
                writeln!(text, "  {FOUND}")?;
            }
            writeln!(text, "  dims:")?;
            for (name, size, note) in &self.free {
                writeln!(text, "    {}: {{ allowed: [{size}], between: reject }}{note}", quoted(name))?;
            }
            writeln!(text, "  combine: product  {COMBINE}\n  max_graphs: 16    {MAX_GRAPHS}\n")?;
        }
        if !self.inputs.is_empty() {
            writeln!(text, "  inputs:")?;
        }
        for port in &self.inputs {
            writeln!(text, "    {}:", quoted(&port.name))?;
            match &port.dims {
                Ok(entries) => writeln!(text, "      dims: [{}]", entries.join(", "))?,
                Err(shown) => writeln!(text, "      # dims follow from others: {shown}")?,
            }
            writeln!(text, "      dtype: {}", port.dtype.name())?;
        }
        writeln!(text, "\n  numerics:\n    rewrites: reassociates             {REWRITES}")?;
        writeln!(text, "    tolerance: {{ abs: 1e-4, rel: 1e-3 }}  {TOLERANCE}\n")?;
        writeln!(text, "compile:\n  attention:\n    implementation: auto               {ATTENTION}\n")?;
        writeln!(text, "hardware:\n  targets: [a100-sxm4-80gb]            {TARGETS}")
    }
}

/// A text as a string of TOML and of YAML alike.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            character if character.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(character));
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
