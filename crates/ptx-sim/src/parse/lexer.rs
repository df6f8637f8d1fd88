//! Tokens of PTX text.
//!
//! Words keep their dots (`ld.global.v4.b32`, `%tid.x`, `.reg`), since PTX gives them no meaning of their own between parts.

use crate::error::Error;

/// One token with the line it starts on and its byte range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Token<'a> {
    pub kind: Kind<'a>,
    pub line: u32,
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind<'a> {
    /// Identifier, opcode with modifiers, register or directive.
    Word(&'a str),
    Integer(u64),
    F32(u32),
    F64(u64),
    Text(&'a str),
    Mark(u8),
    End,
}

/// Largest source accepted, in bytes.
pub(crate) const SOURCE_LIMIT: usize = 256 << 20;

/// Splits a source into tokens; the last one is [`Kind::End`].
pub(crate) fn tokens(source: &str) -> Result<Vec<Token<'_>>, Error> {
    if source.len() > SOURCE_LIMIT {
        return Err(Error::parse(0, format!("the source has {} bytes, more than {SOURCE_LIMIT}", source.len())));
    }
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(source.len() / 6);
    let mut at = 0;
    let mut line = 1u32;
    while at < bytes.len() {
        let c = bytes[at];
        let start = at;
        match c {
            b'\n' => {
                line += 1;
                at += 1;
            }
            b' ' | b'\t' | b'\r' | 0 => at += 1,
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    at += 1;
                }
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                at += 2;
                loop {
                    if at + 1 >= bytes.len() {
                        return Err(Error::parse(line, "comment without an end"));
                    }
                    if bytes[at] == b'*' && bytes[at + 1] == b'/' {
                        at += 2;
                        break;
                    }
                    line += u32::from(bytes[at] == b'\n');
                    at += 1;
                }
            }
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' && bytes[at] != b'\n' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                if at >= bytes.len() || bytes[at] != b'"' {
                    return Err(Error::parse(line, "string without an end"));
                }
                let text = source.get(start + 1..at).ok_or_else(|| Error::parse(line, "string is not text"))?;
                at += 1;
                out.push(Token { kind: Kind::Text(text), line, start, end: at });
            }
            b'0'..=b'9' => {
                at = number_end(bytes, at);
                let text = &source[start..at];
                let kind = number(text).ok_or_else(|| Error::parse(line, format!("`{text}` is no number")))?;
                out.push(Token { kind, line, start, end: at });
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'%' | b'.' => {
                at += 1;
                while at < bytes.len() {
                    match bytes[at] {
                        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'$' | b'.' => at += 1,
                        b':' if bytes.get(at + 1) == Some(&b':') => at += 2,
                        _ => break,
                    }
                }
                out.push(Token { kind: Kind::Word(&source[start..at]), line, start, end: at });
            }
            b'{' | b'}' | b'[' | b']' | b'(' | b')' | b',' | b';' | b':' | b'+' | b'-' | b'*' | b'!' | b'@' | b'|'
            | b'<' | b'>' | b'=' | b'~' => {
                at += 1;
                out.push(Token { kind: Kind::Mark(c), line, start, end: at });
            }
            _ => {
                let shown = source.get(at..).and_then(|s| s.chars().next()).unwrap_or('\u{fffd}');
                return Err(Error::parse(line, format!("unexpected character {shown:?}")));
            }
        }
    }
    out.push(Token { kind: Kind::End, line, start: bytes.len(), end: bytes.len() });
    Ok(out)
}

fn number_end(bytes: &[u8], mut at: usize) -> usize {
    let decimal = !(bytes[at] == b'0' && matches!(bytes.get(at + 1), Some(b'x' | b'X' | b'f' | b'F' | b'd' | b'D')));
    while at < bytes.len() {
        match bytes[at] {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => at += 1,
            b'.' if decimal && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => at += 1,
            b'+' | b'-' if decimal && matches!(bytes[at - 1], b'e' | b'E') => at += 1,
            _ => break,
        }
    }
    at
}

fn number(text: &str) -> Option<Kind<'static>> {
    let tail = text.get(2..).unwrap_or("");
    match text.get(..2) {
        Some("0f" | "0F") => {
            return (tail.len() == 8).then(|| u32::from_str_radix(tail, 16).ok().map(Kind::F32)).flatten();
        }
        Some("0d" | "0D") => {
            return (tail.len() == 16).then(|| u64::from_str_radix(tail, 16).ok().map(Kind::F64)).flatten();
        }
        _ => {}
    }
    if text.contains('.') || (!text.starts_with("0x") && !text.starts_with("0X") && text.contains(['e', 'E'])) {
        return text.parse::<f64>().ok().map(|v| Kind::F64(v.to_bits()));
    }
    let digits = text.strip_suffix(['U', 'u']).unwrap_or(text);
    let value = match digits.get(..2) {
        Some("0x" | "0X") => u64::from_str_radix(&digits[2..], 16),
        Some("0b" | "0B") => u64::from_str_radix(&digits[2..], 2),
        _ if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(&digits[1..], 8),
        _ => digits.parse(),
    };
    value.ok().map(Kind::Integer)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number("0f3F800000"), Some(Kind::F32(0x3f80_0000)));
        assert_eq!(number("0d3FF0000000000000"), Some(Kind::F64(1f64.to_bits())));
        assert_eq!(number("0x10"), Some(Kind::Integer(16)));
        assert_eq!(number("017"), Some(Kind::Integer(15)));
        assert_eq!(number("1.5e3"), Some(Kind::F64(1500f64.to_bits())));
        assert_eq!(number("18446744073709551615"), Some(Kind::Integer(u64::MAX)));
        assert_eq!(number("18446744073709551616"), None);
        assert_eq!(number("0f12"), None);
    }

    #[test]
    fn words_keep_their_dots_and_lines_are_counted() {
        let t = tokens("// c\n/* \n */ ld.global.L1::no_allocate.b32 %r1, [%rd2+-4];").unwrap();
        assert_eq!(t[0].kind, Kind::Word("ld.global.L1::no_allocate.b32"));
        assert_eq!(t[0].line, 3);
        assert!(tokens("/* open").is_err());
        assert!(tokens("\"open").is_err());
        assert!(tokens("§").is_err());
    }
}
