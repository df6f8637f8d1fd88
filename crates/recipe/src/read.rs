//! From TOML with spans to a recipe.

use std::ops::Range;
use std::path::Path;

use tenon_tensor::DType;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::RecipeErrorKind::{Format, Syntax, UnknownKey, Unreadable, Unsupported, Value, Version};
use crate::schema::{Key, ROOT};
use crate::{DimClause, DimEntry, InputClause, NumericClass, Recipe, RecipeError, Tolerance};

type Errors = Vec<RecipeError>;
type Node<'t> = Spanned<DeValue<'t>>;

/// Longest recipe that is read.
const MAX_BYTES: u64 = 1 << 20;
/// Largest size of a dimension.
const MAX_SIZE: u64 = 1 << 40;

impl Recipe {
    /// Reads a recipe file and gives its text too, which spans of errors refer to.
    ///
    /// # Errors
    /// All faults that were found, with the text as far as it could be read.
    pub fn load(path: &Path) -> Result<(Recipe, String), (Errors, String)> {
        let fail = |error: RecipeError| (vec![error], String::new());
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        if ending.as_deref() != Some("toml") {
            let yaml = matches!(ending.as_deref(), Some("yaml" | "yml"));
            let what =
                if yaml { "YAML recipes are not supported in this version" } else { "a recipe is a `.toml` file" };
            let error = RecipeError::new(Format, None, format!("{}: {what}", path.display()));
            return Err(fail(error.help_with("write the recipe as TOML, with the file ending `.toml`")));
        }
        let unreadable =
            |reason: String| fail(RecipeError::new(Unreadable, None, format!("{}: {reason}", path.display())));
        let size = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
        if size > MAX_BYTES {
            return Err(unreadable(format!("{size} bytes are too many for a recipe")));
        }
        let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
        match Recipe::parse(&text) {
            Ok(recipe) => Ok((recipe, text)),
            Err(errors) => Err((errors, text)),
        }
    }

    /// Reads a recipe from TOML.
    ///
    /// # Errors
    /// All faults that were found, in order of the text; never none.
    pub fn parse(text: &str) -> Result<Recipe, Errors> {
        let table = DeTable::parse(text).map_err(|error| {
            vec![
                RecipeError::new(Syntax, error.span(), error.message().to_owned())
                    .help_with("correct the TOML; https://toml.io has the syntax"),
            ]
        })?;
        let mut reader = Reader { errors: Vec::new() };
        reader.check_keys(table.get_ref(), &ROOT, "");
        let recipe = reader.recipe(table.get_ref());
        let mut errors = reader.errors;
        errors.sort_by_key(|error| error.span.as_ref().map_or(0, |span| span.start));
        if errors.is_empty() { Ok(recipe) } else { Err(errors) }
    }
}

/// Collects faults while it reads.
struct Reader {
    errors: Errors,
}

impl Reader {
    /// Reports keys that the schema lacks and clauses that are not enforced.
    fn check_keys(&mut self, table: &DeTable<'_>, schema: &Key, path: &str) {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let below = match schema {
                Key::Table(keys) => match keys.iter().find(|(known, _)| *known == name) {
                    Some((_, below)) => below,
                    None => {
                        self.unknown(key.span(), name, &full, keys);
                        continue;
                    }
                },
                Key::Named(below) => below,
                Key::Enforced | Key::Refused | Key::Open => continue,
            };
            match (below, value.get_ref()) {
                (Key::Refused | Key::Open, _) => self.unsupported(key.span(), &format!("clause `{full}`")),
                (Key::Enforced, _) => {}
                (Key::Table(_) | Key::Named(_), DeValue::Table(inner)) => self.check_keys(inner, below, &full),
                (Key::Table(_) | Key::Named(_), _) => self.wrong(value, &full, "a table"),
            }
        }
    }

    fn unknown(&mut self, span: Range<usize>, name: &str, full: &str, keys: &[(&'static str, Key)]) {
        let scored = keys.iter().map(|(known, _)| (strsim::osa_distance(name, known), *known));
        let nearest = scored.min().filter(|(distance, _)| *distance <= 3);
        let names: Vec<_> = keys.iter().map(|(known, _)| *known).collect();
        let help = match nearest {
            Some((_, known)) => format!("did you mean `{known}`?"),
            None => format!("keys here are {}", names.join(", ")),
        };
        self.errors.push(RecipeError::new(UnknownKey, Some(span), format!("unknown key `{full}`")).help_with(help));
    }

    fn unsupported(&mut self, span: Range<usize>, what: &str) {
        let error = RecipeError::new(Unsupported, Some(span), format!("{what} is not supported in this version"));
        self.errors.push(error.help_with("remove it: a clause that nothing enforces would promise nothing"));
    }

    fn wrong(&mut self, value: &Node<'_>, path: &str, expected: &str) {
        let found = match value.get_ref() {
            DeValue::String(text) => format!("\"{text}\""),
            other => other.type_str().to_owned(),
        };
        let error = RecipeError::new(Value, Some(value.span()), format!("`{path}` must be {expected}, not {found}"));
        self.errors.push(error.help_with(format!("write {expected}")));
    }

    fn recipe(&mut self, root: &DeTable<'_>) -> Recipe {
        let mut recipe = Recipe::default();
        match root.get("recipe") {
            Some(version) if integer(version) == Some(1) => {}
            Some(version) => {
                let error = RecipeError::new(
                    Version,
                    Some(version.span()),
                    "this version of Tenon reads recipes of schema version 1",
                );
                self.errors.push(error.help_with("write `recipe = 1`"));
            }
            None => {
                let error = RecipeError::new(Version, None, "the recipe does not say its schema version");
                self.errors.push(error.help_with("begin the file with `recipe = 1`"));
            }
        }
        if let Some(name) = root.get("name") {
            match name.get_ref() {
                DeValue::String(text) if !text.is_empty() => recipe.name = text.to_string(),
                _ => self.wrong(name, "name", "a text that is not empty"),
            }
        }
        if let Some(semantic) = table(root, "semantic") {
            for (name, clause) in in_order(table(semantic, "dims")) {
                self.dim(&mut recipe, name.get_ref(), clause);
            }
            for (name, clause) in in_order(table(semantic, "inputs")) {
                self.input(&mut recipe, name.get_ref(), clause);
            }
            if let Some(numerics) = table(semantic, "numerics") {
                self.numerics(&mut recipe, numerics);
            }
        }
        if let Some(targets) = table(root, "hardware").and_then(|hardware| hardware.get("targets")) {
            self.targets(&mut recipe, targets);
        }
        recipe
    }

    fn dim(&mut self, recipe: &mut Recipe, name: &str, clause: &Node<'_>) {
        let path = format!("semantic.dims.{name}");
        let DeValue::Table(clause_table) = clause.get_ref() else { return };
        let mut pad = false;
        for key in ["between", "beyond"] {
            if let Some(value) = clause_table.get(key) {
                match value.get_ref() {
                    DeValue::String(word) if word == "reject" => {}
                    DeValue::String(word) if word == "pad" && key == "between" => pad = true,
                    _ => {
                        let expected = if key == "between" { "\"pad\" or \"reject\"" } else { "\"reject\"" };
                        self.wrong(value, &format!("{path}.{key}"), expected);
                    }
                }
            }
        }
        let Some(allowed) = clause_table.get("allowed") else {
            let error =
                RecipeError::new(Value, Some(clause.span()), format!("`{path}` does not say which values it allows"));
            self.errors.push(error.help_with(format!("write `{path} = {{ allowed = [1, 4] }}`")));
            return;
        };
        let expected = "a list of different positive integers";
        let DeValue::Array(list) = allowed.get_ref() else {
            return self.wrong(allowed, &format!("{path}.allowed"), expected);
        };
        let mut values = Vec::new();
        for entry in list {
            match integer(entry).and_then(|value| u64::try_from(value).ok()) {
                Some(value) if (1..=MAX_SIZE).contains(&value) && !values.contains(&value) => values.push(value),
                _ => return self.wrong(entry, &format!("{path}.allowed"), expected),
            }
        }
        if values.is_empty() {
            return self.wrong(allowed, &format!("{path}.allowed"), expected);
        }
        values.sort_unstable();
        recipe.dims.insert(name.to_owned(), DimClause { allowed: values, pad });
    }

    fn input(&mut self, recipe: &mut Recipe, name: &str, clause: &Node<'_>) {
        let path = format!("semantic.inputs.{name}");
        let DeValue::Table(clause) = clause.get_ref() else { return };
        let mut read = InputClause::default();
        if let Some(dims) = clause.get("dims") {
            let expected = "a list of names and sizes";
            let DeValue::Array(list) = dims.get_ref() else {
                return self.wrong(dims, &format!("{path}.dims"), expected);
            };
            let mut entries = Vec::new();
            for entry in list {
                match entry.get_ref() {
                    DeValue::String(name) if !name.is_empty() => entries.push(DimEntry::Named(name.to_string())),
                    DeValue::Integer(_) => match integer(entry).and_then(|size| u64::try_from(size).ok()) {
                        Some(size) if size <= MAX_SIZE => entries.push(DimEntry::Fixed(size)),
                        _ => return self.wrong(entry, &format!("{path}.dims"), expected),
                    },
                    _ => return self.wrong(entry, &format!("{path}.dims"), expected),
                }
            }
            read.dims = Some(entries);
        }
        if let Some(dtype) = clause.get("dtype") {
            match dtype.get_ref().as_str().and_then(|word| word.parse::<DType>().ok()) {
                Some(parsed) => read.dtype = Some(parsed),
                None => {
                    let names: Vec<_> = DType::all().map(DType::name).collect();
                    self.wrong(dtype, &format!("{path}.dtype"), &format!("one of {}", names.join(", ")));
                }
            }
        }
        recipe.inputs.insert(name.to_owned(), read);
    }

    fn numerics(&mut self, recipe: &mut Recipe, clause: &DeTable<'_>) {
        if let Some(value) = clause.get("rewrites") {
            match NumericClass::ALL.into_iter().find(|class| value.get_ref().as_str() == Some(class.name())) {
                Some(class) => recipe.numerics.rewrites = class,
                None => self.wrong(value, "semantic.numerics.rewrites", "one of exact, reassociates, approximates"),
            }
        }
        if let Some(value) = clause.get("accumulate") {
            match value.get_ref().as_str() {
                Some("f32") => {}
                Some(word) if word.parse::<DType>().is_ok_and(DType::is_float) => {
                    self.unsupported(value.span(), &format!("`semantic.numerics.accumulate = \"{word}\"`"));
                }
                _ => self.wrong(value, "semantic.numerics.accumulate", "\"f32\""),
            }
        }
        if let Some(value) = clause.get("rounding") {
            match value.get_ref().as_str() {
                Some("nearest") => {}
                Some("stochastic") => self.unsupported(value.span(), "`semantic.numerics.rounding = \"stochastic\"`"),
                _ => self.wrong(value, "semantic.numerics.rounding", "\"nearest\""),
            }
        }
        if let Some(tolerance) = table(clause, "tolerance") {
            let mut number = |key: &str, slot: &mut f64| {
                if let Some(value) = tolerance.get(key) {
                    match float(value) {
                        Some(number) if number.is_finite() && number >= 0.0 => *slot = number,
                        _ => self.wrong(
                            value,
                            &format!("semantic.numerics.tolerance.{key}"),
                            "a number that is not negative",
                        ),
                    }
                }
            };
            let Tolerance { mut abs, mut rel } = recipe.numerics.tolerance;
            number("abs", &mut abs);
            number("rel", &mut rel);
            recipe.numerics.tolerance = Tolerance { abs, rel };
        }
    }

    fn targets(&mut self, recipe: &mut Recipe, targets: &Node<'_>) {
        let expected = "a list of different names of GPUs or architectures";
        let DeValue::Array(list) = targets.get_ref() else { return self.wrong(targets, "hardware.targets", expected) };
        for entry in list {
            match entry.get_ref() {
                DeValue::String(name) if !recipe.targets.iter().any(|known| *known == **name) => {
                    recipe.targets.push(name.to_string());
                }
                _ => self.wrong(entry, "hardware.targets", expected),
            }
        }
    }
}

fn table<'t, 'i>(parent: &'t DeTable<'i>, key: &str) -> Option<&'t DeTable<'i>> {
    parent.get(key).and_then(|value| value.get_ref().as_table())
}

/// Entries of a table in the order of the file.
fn in_order<'t, 'i>(table: Option<&'t DeTable<'i>>) -> Vec<(&'t Spanned<std::borrow::Cow<'i, str>>, &'t Node<'i>)> {
    let mut entries: Vec<_> = table.into_iter().flat_map(|table| table.iter()).collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn integer(value: &Node<'_>) -> Option<i64> {
    let value = value.get_ref().as_integer()?;
    i64::from_str_radix(value.as_str(), value.radix()).ok()
}

fn float(value: &Node<'_>) -> Option<f64> {
    match value.get_ref() {
        DeValue::Float(number) => number.as_str().parse().ok(),
        DeValue::Integer(_) => integer(value).map(|number| number as f64),
        _ => None,
    }
}
