//! A recipe to start from, for a model.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use tenon_recipe::Format;
use tenon_shape_passes::{Entry, Port, ranges, suggested_size, toml_key};

use crate::driver::Source;
use crate::{Diagnostic, Failure};

const TITLE: &str =
    "# The contract under which this model is compiled and served; docs/recipes.md explains every clause.";
const SIZES: [&str; 2] = [
    "# Sizes that are compiled ahead. `between: pad` takes a size between them into the next larger graph, which computes on exactly the",
    "# elements that are there; `align: 8, max: 512` may replace `allowed`.",
];
const NO_SIZES: &str = "# The model has no free dimension: one graph is compiled.";
const COMBINE: &str = "# product: every combination of sizes; zip: the i-th size of each dimension together";
const MAX_GRAPHS: &str = "# a larger shape space is refused";
const REWRITES: &str = "# exact | reassociates | approximates";
const TOLERANCE: &str = "# against the reference interpreter";
const ATTENTION: &str = "# auto | unfused | flash";
const TARGETS: &str = "# `tenon targets` lists them";

/// What a recipe says of a model.
struct Contents<'e> {
    name: String,
    /// Free dimensions, each with a size to begin with and a comment on what else it may be.
    free: Vec<(String, i64, String)>,
    inputs: &'e [Port],
}

/// A commented recipe that fits a model: every free dimension has a clause, every input is written out.
pub(super) fn recipe_for(source: &Source<'_>, path: &Path, format: Format) -> Result<String, Failure> {
    let module = source.module().ok_or_else(|| {
        let message = format!("`{}` is at stage `{}`, which holds no graph", source.name, source.stage);
        Diagnostic::new("E0006", message).with_help("name a model")
    })?;
    let entry = Entry::of(module)?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    // A name has no character that cannot be seen.
    let name: String = stem.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
    let free: BTreeSet<String> =
        entry.inputs.iter().flat_map(|port| &port.ty.dims).flat_map(|dim| dim.extent.symbols()).collect();
    let ranges = ranges(module);
    let suggested = |name: String| {
        let (size, note) = suggested_size(&ranges, &name);
        (name, size, note)
    };
    let free = free.into_iter().map(suggested).collect();
    let contents =
        Contents { name: if name.is_empty() { "model".to_owned() } else { name }, free, inputs: &entry.inputs };
    let mut text = String::new();
    let written = match format {
        Format::Toml => contents.toml(&mut text),
        Format::Yaml => contents.yaml(&mut text),
    };
    // Writing into a text does not fail.
    debug_assert!(written.is_ok());
    Ok(text)
}

/// What the `dims` of an input are: entries for names and sizes, or expressions over names of other inputs.
fn dims(port: &Port) -> Result<Vec<String>, String> {
    let dims: Vec<_> = port.ty.dims.iter().map(|dim| dim.extent.clone()).collect();
    if dims.iter().all(|dim| dim.as_symbol().is_some() || dim.as_constant().is_some()) {
        Ok(dims.iter().map(|dim| dim.as_symbol().map_or_else(|| dim.to_string(), quoted)).collect())
    } else {
        Err(dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    }
}

impl Contents<'_> {
    fn toml(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "{TITLE}\nrecipe = 1\nname = {}\n", quoted(&self.name))?;
        if self.free.is_empty() {
            writeln!(text, "{NO_SIZES}\n")?;
        } else {
            // The comments name keys and values alike in both languages.
            writeln!(text, "{}\n{}\n[semantic.dims]", SIZES[0], SIZES[1])?;
            for (name, size, note) in &self.free {
                writeln!(text, "{} = {{ allowed = [{size}], between = \"reject\" }}{note}", toml_key(name))?;
            }
            writeln!(text, "\n[semantic]\ncombine = \"product\"  {COMBINE}\nmax_graphs = 16      {MAX_GRAPHS}\n")?;
        }
        for port in self.inputs {
            writeln!(text, "[semantic.inputs.{}]", toml_key(&port.name))?;
            match dims(port) {
                Ok(entries) => writeln!(text, "dims = [{}]", entries.join(", "))?,
                Err(shown) => writeln!(text, "# dims follow from others: {shown}")?,
            }
            writeln!(text, "dtype = {}\n", quoted(port.ty.dtype.name()))?;
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
            writeln!(text, "  {}\n  {}\n  dims:", SIZES[0], SIZES[1])?;
            for (name, size, note) in &self.free {
                writeln!(text, "    {}: {{ allowed: [{size}], between: reject }}{note}", quoted(name))?;
            }
            writeln!(text, "  combine: product  {COMBINE}\n  max_graphs: 16    {MAX_GRAPHS}\n")?;
        }
        if !self.inputs.is_empty() {
            writeln!(text, "  inputs:")?;
        }
        for port in self.inputs {
            writeln!(text, "    {}:", quoted(&port.name))?;
            match dims(port) {
                Ok(entries) => writeln!(text, "      dims: [{}]", entries.join(", "))?,
                Err(shown) => writeln!(text, "      # dims follow from others: {shown}")?,
            }
            writeln!(text, "      dtype: {}", port.ty.dtype.name())?;
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
