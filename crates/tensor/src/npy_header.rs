//! The header dictionary of a `.npy` file.
//!
//! The header is a Python dictionary literal with the keys `descr`, `fortran_order` and `shape`. Only that much of Python is
//! understood: strings without escapes, `True` and `False`, tuples of unsigned decimal numbers. Source: NumPy, `numpy.lib.format`,
//! versions 1.0, 2.0 and 3.0.

/// A header as written; nothing is checked but the syntax.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub descr: String,
    pub fortran_order: bool,
    pub shape: Vec<usize>,
}

/// What the value of `descr` is when it is no string: a structured type.
pub(crate) const STRUCTURED: &str = "[…]";

/// Parses the header text; the error says what was expected.
pub(crate) fn parse(text: &str) -> Result<Header, String> {
    let mut cursor = Cursor { rest: text };
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    cursor.expect('{')?;
    while !cursor.eat('}') {
        let key = cursor.string()?;
        cursor.expect(':')?;
        let seen = match key {
            "descr" => {
                if cursor.peek('[') || cursor.peek('(') {
                    // The list may nest; the caller refuses it, so what follows does not matter.
                    return Ok(Header { descr: STRUCTURED.to_owned(), fortran_order: false, shape: Vec::new() });
                }
                descr.replace(cursor.string()?.to_owned()).is_some()
            }
            "fortran_order" => fortran_order.replace(cursor.boolean()?).is_some(),
            "shape" => shape.replace(cursor.shape()?).is_some(),
            other => return Err(format!("unknown key `{other}` in the header")),
        };
        if seen {
            return Err(format!("the key `{key}` occurs twice in the header"));
        }
        if !cursor.eat(',') {
            cursor.expect('}')?;
            break;
        }
    }
    if !cursor.rest.trim().is_empty() {
        return Err("text after the header's closing brace".to_owned());
    }
    let missing = |key: &str| format!("the header has no key `{key}`");
    Ok(Header {
        descr: descr.ok_or_else(|| missing("descr"))?,
        fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
    })
}

struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn peek(&mut self, wanted: char) -> bool {
        self.skip_space();
        self.rest.starts_with(wanted)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.eat(wanted) {
            Ok(())
        } else {
            Err(format!("expected `{wanted}` in the header, found {}", self.found()))
        }
    }

    fn found(&self) -> String {
        match self.rest.chars().next() {
            Some(character) => format!("{character:?}"),
            None => "its end".to_owned(),
        }
    }

    fn string(&mut self) -> Result<&'a str, String> {
        self.skip_space();
        for quote in ['\'', '"'] {
            if let Some(body) = self.rest.strip_prefix(quote) {
                let end = body.find(quote).ok_or("a string in the header does not end")?;
                let (text, rest) = body.split_at(end);
                if text.contains('\\') {
                    return Err("a string in the header has escapes".to_owned());
                }
                self.rest = &rest[1..];
                return Ok(text);
            }
        }
        Err(format!("expected a string in the header, found {}", self.found()))
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.skip_space();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(format!("expected True or False in the header, found {}", self.found()))
    }

    fn shape(&mut self) -> Result<Vec<usize>, String> {
        self.expect('(')?;
        let mut shape = Vec::new();
        while !self.eat(')') {
            self.skip_space();
            let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = self.rest.split_at(digits);
            let dim =
                number.parse().map_err(|_| format!("expected a dimension in the header, found {}", self.found()))?;
            // Python 2 wrote long integers with a suffix.
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            shape.push(dim);
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_as_written_in_the_wild() {
        let header = parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n").unwrap();
        assert_eq!(header, Header { descr: "<f4".to_owned(), fortran_order: false, shape: vec![3, 4] });
        assert_eq!(
            parse("{\"shape\":(),\"fortran_order\":True,\"descr\":\"|u1\"}").unwrap().shape,
            Vec::<usize>::new()
        );
        assert_eq!(parse("{'descr': '<i8', 'fortran_order': False, 'shape': (7L,)}").unwrap().shape, [7]);
        assert_eq!(parse("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}").unwrap().descr, STRUCTURED);
    }

    #[test]
    fn damage_is_named() {
        for (text, reason) in [
            ("", "expected `{`"),
            ("{'descr'", "expected `:`"),
            ("{'descr': '<f4", "does not end"),
            ("{'descr': '<f4', 'shape': (), }", "no key `fortran_order`"),
            ("{'descr': '<f4', 'descr': '<f4'}", "occurs twice"),
            ("{'shape': (-1,)}", "a dimension"),
            ("{'shape': (99999999999999999999999,)}", "a dimension"),
            ("{'shape': (1 2)}", "expected `)`"),
            ("{'fortran_order': 0}", "True or False"),
            ("{'other': 0}", "unknown key"),
            ("{'descr': '<\\x664'}", "escapes"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", "closing brace"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
