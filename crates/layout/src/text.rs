//! The written form: `reg = [[0, 1], [0, 2]], lane = [[1, 0], …], warp = []`.
//!
//! The shape is not part of it: it stands in the tile's type. Printing and reading are each other's inverse.

use std::fmt;

use crate::{LayoutError, MAX_DIMENSIONS, MAX_REGISTER_BITS, TileLayout};

impl fmt::Display for TileLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reg = {:?}, lane = {:?}, warp = {:?}", self.register_bases(), self.lane_bases(), self.warp_bases())
    }
}

impl TileLayout {
    /// Reads the written form of a layout of a tile of `shape`. Space between words does not matter.
    pub fn parse(shape: &[u32], text: &str) -> Result<Self, LayoutError> {
        let mut parser = Parser::new(text);
        let reg = parser.entry("reg", MAX_REGISTER_BITS)?;
        parser.expect(",")?;
        let lane = parser.entry("lane", MAX_REGISTER_BITS)?;
        parser.expect(",")?;
        let warp = parser.entry("warp", MAX_REGISTER_BITS)?;
        parser.end()?;
        Self::new(shape.to_vec(), reg, lane, warp)
    }
}

/// A reader of lists of vectors.
pub(crate) struct Parser<'t> {
    text: &'t str,
    /// Offset of the next byte; always on a character boundary.
    at: usize,
}

impl<'t> Parser<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// Nothing but space is left.
    pub(crate) fn end(&mut self) -> Result<(), LayoutError> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { self.fail("the end of the layout") }
    }

    fn fail<T>(&self, expected: impl Into<String>) -> Result<T, LayoutError> {
        Err(LayoutError::Syntax { at: self.at, expected: expected.into() })
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn take(&mut self, word: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    pub(crate) fn expect(&mut self, word: &str) -> Result<(), LayoutError> {
        if self.take(word) { Ok(()) } else { self.fail(format!("`{word}`")) }
    }

    /// `name = [[…], …]` with at most `most` vectors.
    pub(crate) fn entry(&mut self, name: &str, most: usize) -> Result<Vec<Vec<u32>>, LayoutError> {
        self.expect(name)?;
        self.expect("=")?;
        self.list(most, |parser| parser.list(MAX_DIMENSIONS, Self::number))
    }

    /// A bracketed list of at most `most` items.
    fn list<T>(
        &mut self,
        most: usize,
        item: impl Fn(&mut Self) -> Result<T, LayoutError>,
    ) -> Result<Vec<T>, LayoutError> {
        self.expect("[")?;
        let mut items = Vec::new();
        if self.take("]") {
            return Ok(items);
        }
        loop {
            if items.len() == most {
                return self.fail(format!("at most {most} items in a list"));
            }
            items.push(item(self)?);
            if self.take("]") {
                return Ok(items);
            }
            self.expect(",")?;
        }
    }

    fn number(&mut self) -> Result<u32, LayoutError> {
        self.skip_space();
        let digits = self.rest().len() - self.rest().trim_start_matches(|c: char| c.is_ascii_digit()).len();
        match self.rest()[..digits].parse() {
            Ok(number) => {
                self.at += digits;
                Ok(number)
            }
            Err(_) => self.fail("a coordinate: a number of 32 bits"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{random_layout, seeds};
    use proptest::prelude::*;

    const TEXT: &str = "reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []";

    #[test]
    fn reads_what_it_prints() {
        let layout = TileLayout::parse(&[16, 8], TEXT).unwrap();
        assert_eq!(layout.coordinates(3, 9, 0), vec![10, 3]);
        assert_eq!(layout.to_string(), TEXT);
        let spread = TEXT.replace(", ", " ,\n\t").replace(" = ", "=");
        assert_eq!(TileLayout::parse(&[16, 8], &spread).unwrap(), layout);
        let scalar = "reg = [], lane = [[], [], [], [], []], warp = [[]]";
        assert_eq!(TileLayout::parse(&[], scalar).unwrap().to_string(), scalar);
    }

    #[test]
    fn refusals_say_where() {
        let at = |text: &str| match TileLayout::parse(&[16, 8], text) {
            Err(LayoutError::Syntax { at, .. }) => at,
            other => panic!("{other:?}"),
        };
        assert_eq!(at(""), 0);
        assert_eq!(at("reg [["), 4);
        assert_eq!(at("reg = [[0, 99999999999999999999]]"), 11);
        assert_eq!(at("reg = [[0, -1]]"), 11);
        assert_eq!(at("reg = [[é]]"), 8);
        assert_eq!(at(&format!("{TEXT} more")), TEXT.len() + 1);
        assert_eq!(at(&format!("reg = [{}", "[0, 1], ".repeat(1 << 16))), 7 + 15 * 8 - 1);
        assert_eq!(at(&"reg = [".repeat(1 << 16)), 7);
        assert_eq!(TileLayout::parse(&[16, 16], TEXT).unwrap_err().code(), "E0483");
        assert_eq!(TileLayout::parse(&[16], TEXT).unwrap_err().code(), "E0482");
        assert_eq!(TileLayout::parse(&[u32::MAX; 9], TEXT).unwrap_err().code(), "E0481");
    }

    proptest! {
        #[test]
        fn round_trip(seed in seeds()) {
            let layout = random_layout(seed);
            prop_assert_eq!(TileLayout::parse(layout.shape(), &layout.to_string()), Ok(layout));
        }

        #[test]
        fn broken_text_is_an_error(at in 0..TEXT.len(), with in "[^a-z]{0,3}", cut in 0usize..4) {
            let mut text = String::from(&TEXT[..at]);
            text.push_str(&with);
            text.push_str(TEXT.get(at + cut..).unwrap_or(""));
            if let Ok(layout) = TileLayout::parse(&[16, 8], &text) {
                prop_assert_eq!(TileLayout::parse(&[16, 8], &layout.to_string()), Ok(layout));
            }
        }
    }
}
