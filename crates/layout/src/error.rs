//! What can be wrong with a layout, or with what was asked of one.

use thiserror::Error;

/// Why a layout could not be built, read or used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The shape is not one that a tile can have.
    #[error("a tile cannot have the shape {shape:?}: {reason}")]
    Shape {
        /// The shape given.
        shape: Vec<u32>,
        /// What is wrong with it.
        reason: String,
    },
    /// A basis vector, or the number of them, does not fit the tile.
    #[error("the {index} basis of the layout does not fit the tile {shape:?}: {reason}")]
    Basis {
        /// `reg`, `lane`, `warp` or `offset`.
        index: &'static str,
        /// The tile's shape.
        shape: Vec<u32>,
        /// What is wrong.
        reason: String,
    },
    /// Some element of the tile lies nowhere.
    #[error("the layout covers 2^{covered} of the 2^{elements} elements of the tile {shape:?}")]
    NotSurjective {
        /// The tile's shape.
        shape: Vec<u32>,
        /// Bits of the elements covered.
        covered: u32,
        /// Bits of the tile's elements.
        elements: u32,
    },
    /// The text of a layout cannot be read.
    #[error("at byte {at} of the layout: expected {expected}")]
    Syntax {
        /// Offset in the text, in bytes.
        at: usize,
        /// What should stand there.
        expected: String,
    },
    /// Two layouts that should describe the same tile and block do not.
    #[error("{operation} of layouts that do not fit each other: {reason}")]
    Mismatch {
        /// What was asked.
        operation: &'static str,
        /// In what they differ.
        reason: String,
    },
    /// An argument lies outside what the operation takes.
    #[error("{operation}: {reason}")]
    Argument {
        /// What was asked.
        operation: &'static str,
        /// What is wrong with the argument.
        reason: String,
    },
    /// A shared-memory layout maps two offsets to one element.
    #[error("the shared-memory layout of the tile {shape:?} is not one offset per element: {reason}")]
    NotBijective {
        /// The tile's shape.
        shape: Vec<u32>,
        /// What is wrong.
        reason: String,
    },
    /// The dimension lies in the layout in a way that a scan cannot follow.
    #[error("dimension {dim} cannot be scanned in this layout: {reason}")]
    Scan {
        /// The dimension to scan.
        dim: usize,
        /// What stands in the way.
        reason: String,
    },
}

impl LayoutError {
    /// The stable code, documented in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Shape { .. } => "E0481",
            Self::Basis { .. } => "E0482",
            Self::NotSurjective { .. } => "E0483",
            Self::Syntax { .. } => "E0484",
            Self::Mismatch { .. } => "E0485",
            Self::Argument { .. } => "E0486",
            Self::NotBijective { .. } => "E0487",
            Self::Scan { .. } => "E0488",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Shape { .. } => "give at most 16 dimensions, each a power of two, with at most 2^20 elements in all".into(),
            Self::Basis { index, .. } => match *index {
                "lane" => "give exactly five lane vectors, one coordinate per dimension, each below the dimension's size".into(),
                _ => format!("give each {index} vector one coordinate per dimension, each below the dimension's size, and fewer vectors"),
            },
            Self::NotSurjective { .. } => {
                "add register vectors for the coordinates that no vector reaches; all vectors together must span the tile".into()
            }
            Self::Syntax { .. } => "write `reg = [[0, 1], …], lane = [five vectors], warp = […]`".into(),
            Self::Mismatch { .. } => "use layouts of the same shape over the same number of warps".into(),
            Self::Argument { .. } => return None,
            Self::NotBijective { .. } => "give log2(elements) independent vectors, one per bit of the offset".into(),
            Self::Scan { .. } => "convert the tile to `ScanPlan::layout_for` of its shape first".into(),
        })
    }
}
