//! A recipe to start from, for a model.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use tenon_shape_passes::{Entry, toml_key};

use crate::driver::Source;
use crate::{Diagnostic, Failure};

/// A commented recipe that fits a model: every free dimension has a clause, every input is written out.
pub(super) fn recipe_for(source: &Source<'_>, path: &Path) -> Result<String, Failure> {
    let module = source.module().ok_or_else(|| {
        let message = format!("`{}` is at stage `{}`, which holds no graph", source.name, source.stage);
        Diagnostic::new("E0006", message).with_help("name a model")
    })?;
    let entry = Entry::of(module)?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "# The contract under which this model is compiled and served; docs/recipes.md explains every clause."
    );
    let _ = writeln!(text, "recipe = 1");
    let _ = writeln!(text, "name = {}\n", quoted(if stem.is_empty() { "model" } else { &stem }));
    let free: BTreeSet<String> =
        entry.inputs.iter().flat_map(|port| &port.ty.dims).flat_map(|dim| dim.extent.symbols()).collect();
    if free.is_empty() {
        let _ = writeln!(text, "# The model has no free dimension: one graph is compiled.\n");
    } else {
        let _ = writeln!(
            text,
            "# Sizes that are compiled ahead. `between = \"pad\"` takes a size between them into the next larger graph, which computes on"
        );
        let _ = writeln!(text, "# exactly the elements that are there; `align = 8, max = 512` may replace `allowed`.");
        let _ = writeln!(text, "[semantic.dims]");
        for name in &free {
            let _ = writeln!(text, "{} = {{ allowed = [1], between = \"reject\" }}", toml_key(name));
        }
        let _ = writeln!(text, "\n[semantic]");
        let _ = writeln!(
            text,
            "combine = \"product\"  # every combination of sizes; \"zip\": the i-th size of each dimension together"
        );
        let _ = writeln!(text, "max_graphs = 16      # a larger shape space is refused\n");
    }
    for port in &entry.inputs {
        let dims: Vec<_> = port.ty.dims.iter().map(|dim| dim.extent.clone()).collect();
        let _ = writeln!(text, "[semantic.inputs.{}]", toml_key(&port.name));
        let plain = dims.iter().all(|dim| dim.as_symbol().is_some() || dim.as_constant().is_some());
        if plain {
            let entries: Vec<_> =
                dims.iter().map(|dim| dim.as_symbol().map_or_else(|| dim.to_string(), quoted)).collect();
            let _ = writeln!(text, "dims = [{}]", entries.join(", "));
        } else {
            let shown: Vec<_> = dims.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "# dims follow from others: {}", shown.join(", "));
        }
        let _ = writeln!(text, "dtype = {}\n", quoted(port.ty.dtype.name()));
    }
    text.push_str(CLAUSES);
    Ok(text)
}

/// Clauses whose defaults are written out, so that they can be seen and changed.
const CLAUSES: &str = r#"[semantic.numerics]
rewrites = "reassociates"            # exact | reassociates | approximates
tolerance = { abs = 1e-4, rel = 1e-3 }  # against the reference interpreter

[compile.attention]
implementation = "auto"              # auto | unfused | flash

[hardware]
targets = ["a100-sxm4-80gb"]         # `tenon targets` lists them
"#;

/// A text as a TOML string.
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
