//! Parameters of ATen operators and their defaults, from the table that `generate_schemas.py` writes.
//!
//! Archives leave arguments out that have their default, so every argument is looked up here where the node does not give it.

/// One line an operator, in order of the names: `aten::linear(Tensor input, Tensor weight, Tensor? bias=None)`.
const TABLE: &str = include_str!("schemas.txt");

/// A parameter of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// Type as the schema writes it, `SymInt[2]`.
    pub ty: &'static str,
    pub name: &'static str,
    /// Default as the schema writes it, `[1, 1]`.
    pub default: Option<&'static str>,
}

/// The parameters of `aten::conv2d.padding`; `None`: the table has no such operator.
pub(crate) fn find(name: &str) -> Option<Vec<Parameter>> {
    let lines = lines();
    let key = |line: &&'static str| line.split_once('(').map_or(*line, |(name, _)| name);
    let index = lines.binary_search_by(|line| key(line).cmp(name)).ok()?;
    let (_, rest) = lines[index].split_once('(')?;
    Some(split(rest.strip_suffix(')')?).into_iter().filter_map(parameter).collect())
}

fn lines() -> &'static [&'static str] {
    static LINES: std::sync::OnceLock<Vec<&'static str>> = std::sync::OnceLock::new();
    LINES.get_or_init(|| TABLE.lines().collect())
}

/// Divides at the commas outside of brackets and quotes.
fn split(list: &'static str) -> Vec<&'static str> {
    let (mut depth, mut quoted, mut start) = (0usize, false, 0);
    let mut parts = Vec::new();
    for (at, c) in list.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth = depth.saturating_sub(1),
            ',' if !quoted && depth == 0 => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[start..].trim());
    parts
}

fn parameter(text: &'static str) -> Option<Parameter> {
    let (declared, default) = match text.split_once('=') {
        Some((declared, default)) => (declared, Some(default)),
        None => (text, None),
    };
    let (ty, name) = declared.rsplit_once(' ')?;
    Some(Parameter { ty, name, default })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_every_line_is_read() {
        let names: Vec<&str> = lines().iter().map(|line| line.split_once('(').unwrap().0).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
        for name in &names {
            let parameters = find(name).unwrap();
            assert!(
                parameters.iter().all(|parameter| !parameter.name.is_empty() && !parameter.ty.is_empty()),
                "{name}"
            );
        }
        assert!(names.len() > 1000);
    }

    #[test]
    fn defaults_are_those_of_the_schema() {
        let default = |name: &str, parameter: &str| {
            find(name).unwrap().into_iter().find(|known| known.name == parameter).unwrap().default
        };
        assert_eq!(default("aten::conv2d", "stride"), Some("[1, 1]"));
        assert_eq!(default("aten::conv2d.padding", "padding"), Some("\"valid\""));
        assert_eq!(default("aten::linear", "weight"), None);
        assert_eq!(default("aten::scaled_dot_product_attention", "scale"), Some("None"));
        assert_eq!(find("aten::relu_").unwrap()[0], Parameter { ty: "Tensor(a!)", name: "self", default: None });
        assert!(find("aten::nothing").is_none());
    }
}
