//! What the text of a PTX module declares: its architecture, its entries, and their parameters.
//!
//! No more than the directives `.target` and `.entry` is read (PTX ISA, "Directives"); instructions are the driver's business.

use std::collections::HashMap;
use std::str::CharIndices;

/// Most parameters of an entry: one byte each of the 32,764 that PTX allows.
const MAX_PARAMETERS: usize = 32_764;
/// Most bytes of a parameter.
const MAX_BYTES: u64 = 32_764;

/// A parameter of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// Bytes.
    pub(crate) size: u32,
    /// A power of two that divides its offset.
    pub(crate) alignment: u32,
}

/// What a module declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declarations {
    /// The `.target`: `sm_80`.
    pub(crate) target: String,
    /// Parameters of each entry, in order.
    pub(crate) entries: HashMap<String, Vec<Parameter>>,
}

/// Reads the declarations; the error says what is wrong.
pub(crate) fn declarations(text: &str) -> Result<Declarations, String> {
    let mut tokens = Tokens { text, chars: text.char_indices() };
    let mut target = None;
    let mut entries = HashMap::new();
    while let Some(token) = tokens.next() {
        match token {
            ".target" if target.is_none() => {
                target = Some(tokens.next().ok_or("`.target` names no architecture")?.to_owned());
            }
            ".entry" => {
                let name = tokens.next().filter(|name| is_name(name)).ok_or("an `.entry` without a name")?;
                let parameters = parameters(&mut tokens).map_err(|message| format!("entry `{name}`: {message}"))?;
                entries.entry(name.to_owned()).or_insert(parameters);
            }
            _ => {}
        }
    }
    Ok(Declarations { target: target.ok_or("it has no `.target`")?, entries })
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$' | '%'))
}

/// The list in parentheses after an entry's name; an entry without one has no parameters.
fn parameters(tokens: &mut Tokens<'_>) -> Result<Vec<Parameter>, String> {
    let mut list = Vec::new();
    let mut after = tokens.clone();
    if after.next() != Some("(") {
        return Ok(list);
    }
    *tokens = after;
    loop {
        match tokens.next() {
            Some(")") if list.is_empty() => return Ok(list),
            Some(".param") => {}
            Some(other) => return Err(format!("`{other}` where `.param` is expected")),
            None => return Err("the list of parameters has no end".to_owned()),
        }
        let (parameter, end) = parameter(tokens)?;
        list.push(parameter);
        if list.len() > MAX_PARAMETERS {
            return Err(format!("more than {MAX_PARAMETERS} parameters"));
        }
        match end {
            "," => {}
            ")" => return Ok(list),
            other => return Err(format!("`{other}` after a parameter")),
        }
    }
}

/// A parameter after `.param`, and the token that follows it.
fn parameter<'a>(tokens: &mut Tokens<'a>) -> Result<(Parameter, &'a str), String> {
    let mut next = || tokens.next().ok_or_else(|| "a parameter has no end".to_owned());
    let (mut alignment, mut element) = (None, None);
    let mut token = next()?;
    // `.align N` before the type is the parameter's; after `.ptr` it is that of the memory pointed to.
    loop {
        match token {
            ".align" => {
                let value = number(next()?)?;
                if element.is_none() {
                    alignment = Some(value);
                }
            }
            ".ptr" | ".global" | ".const" | ".local" | ".shared" | ".space" => {}
            _ if token.starts_with('.') => {
                let bytes = bytes_of(token).ok_or_else(|| format!("`{token}` is no type of a parameter"))?;
                if element.replace(bytes).is_some() {
                    return Err(format!("a second type `{token}` of a parameter"));
                }
            }
            _ if is_name(token) => break,
            _ => return Err(format!("`{token}` in a parameter")),
        }
        token = next()?;
    }
    let element = element.ok_or_else(|| format!("parameter `{token}` has no type"))?;
    let mut size = element;
    let mut end = next()?;
    while end == "[" {
        size =
            size.checked_mul(number(next()?)?).filter(|size| *size <= MAX_BYTES).ok_or("a parameter is too large")?;
        if next()? != "]" {
            return Err("an array without `]`".to_owned());
        }
        end = next()?;
    }
    let alignment = alignment.unwrap_or(element);
    if size == 0 || !alignment.is_power_of_two() || alignment > 128 {
        return Err(format!("a parameter of {size} bytes, aligned to {alignment}"));
    }
    Ok((Parameter { size: size as u32, alignment: alignment as u32 }, end))
}

fn number(token: &str) -> Result<u64, String> {
    token.parse().map_err(|_| format!("`{token}` is no number"))
}

/// Bytes of a fundamental type (PTX ISA, "Fundamental Types").
fn bytes_of(token: &str) -> Option<u64> {
    let bits = token.trim_start_matches('.').strip_prefix(['b', 'u', 's', 'f'])?.parse::<u64>().ok()?;
    [8, 16, 32, 64, 128].contains(&bits).then_some(bits / 8)
}

/// Words, strings and marks; blanks and comments are passed over.
#[derive(Clone)]
struct Tokens<'a> {
    text: &'a str,
    chars: CharIndices<'a>,
}

impl<'a> Tokens<'a> {
    fn skip_while(&mut self, keep: impl Fn(char) -> bool) {
        let rest = self.chars.as_str();
        let length = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.skip(length);
    }

    /// Goes on by so many bytes, a boundary of characters.
    fn skip(&mut self, bytes: usize) {
        let at = self.text.len() - self.chars.as_str().len() + bytes;
        self.chars = self.text[at..].char_indices();
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.skip_while(char::is_whitespace);
            let rest = self.chars.as_str();
            if rest.starts_with("//") {
                self.skip_while(|c| c != '\n');
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let end = comment.find("*/").map_or(rest.len(), |end| end + 4);
                self.skip(end);
            } else {
                break;
            }
        }
        let rest = self.chars.as_str();
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '%');
        let length = match rest.chars().next()? {
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        self.skip(length);
        Some(&rest[..length])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MODULE: &str = r#"
// .entry commented(
/* .target sm_35
.entry also_commented( */
.version 8.8
.target sm_90a, debug
.address_size 64
.file 1 "a // .entry quoted("
.visible .entry k0_map(
	.param .u64 .ptr .global .align 1 k0_map_param_0,
	.param .u64 k0_map_param_1, .param .align 64 .b8 descriptor[128]
)
.reqntid 128, 1, 1
{
	ld.param.b64 	%rd1, [k0_map_param_0];
	ret;
}
.weak .entry $none() { ret; }
.entry bare { ret; }
.visible .entry small(.param .f32 a,.param .s8 b,.param .b16 c[3],.param .align 16 .b32 d[2][2]){ret;}
"#;

    #[test]
    fn targets_entries_and_parameters_are_read() {
        let found = declarations(MODULE).unwrap();
        assert_eq!(found.target, "sm_90a");
        let list = |name: &str| -> Vec<(u32, u32)> {
            found.entries[name].iter().map(|parameter| (parameter.size, parameter.alignment)).collect()
        };
        assert_eq!(list("k0_map"), [(8, 8), (8, 8), (128, 64)]);
        assert_eq!(list("small"), [(4, 4), (1, 1), (6, 2), (16, 16)]);
        assert_eq!((list("$none"), list("bare")), (vec![], vec![]));
        assert_eq!(found.entries.len(), 4);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let error = |parameters: &str| declarations(&format!(".target sm_80\n.entry k({parameters}")).unwrap_err();
        assert_eq!(declarations("").unwrap_err(), "it has no `.target`");
        assert_eq!(declarations(".target").unwrap_err(), "`.target` names no architecture");
        assert_eq!(declarations(".target sm_80 .entry (").unwrap_err(), "an `.entry` without a name");
        for (parameters, message) in [
            ("", "entry `k`: the list of parameters has no end"),
            (".reg .b32 a)", "entry `k`: `.reg` where `.param` is expected"),
            (".param .u64 a", "entry `k`: a parameter has no end"),
            (".param .u64 a;)", "entry `k`: `;` after a parameter"),
            (".param a)", "entry `k`: parameter `a` has no type"),
            (".param .u64 .u64 a)", "entry `k`: a second type `.u64` of a parameter"),
            (".param .u65 a)", "entry `k`: `.u65` is no type of a parameter"),
            (".param .pred a)", "entry `k`: `.pred` is no type of a parameter"),
            (".param .b8 a[40000])", "entry `k`: a parameter is too large"),
            (".param .b8 a[99999999999999999999])", "entry `k`: `99999999999999999999` is no number"),
            (".param .b8 a[0])", "entry `k`: a parameter of 0 bytes, aligned to 1"),
            (".param .align 3 .b8 a)", "entry `k`: a parameter of 1 bytes, aligned to 3"),
            (".param .b8 a[2)", "entry `k`: an array without `]`"),
        ] {
            assert_eq!(error(parameters), message);
        }
    }

    proptest! {
        #[test]
        fn damaged_text_never_panics(at in any::<usize>(), cut in 0usize..40, put in "[.a-z0-9()\\[\\]/*\",µ ]{0,8}") {
            let start = at % MODULE.len();
            let end = (start + cut).min(MODULE.len());
            let _ = declarations(&format!("{}{put}{}", &MODULE[..start], &MODULE[end..]));
            let _ = declarations(&format!("{}{put}", &MODULE[..start]));
        }
    }
}
