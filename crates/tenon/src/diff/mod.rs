//! What differs between two graphs, or two bundles.
//!
//! - `graph`: operators as rows, and which of one graph are which of the other: by the node that they come from, by what surrounds them, by
//!   their place.
//! - `bundle`: what two bundles were made from and by, and which kernels changed and why.
//! - `html`: both side by side, as one page that needs nothing else.

mod bundle;
mod graph;
mod html;

pub use bundle::{BundleDiff, KernelChange, ProgramDiff, diff_bundles};
pub use graph::{Aspect, Change, ChangeKind, GraphDiff, GraphRow, diff_graphs, rows};
pub use html::{page_of_bundles, page_of_graphs};
