//! Standard output that may be closed early, as by `| head`: what is then left unsaid is no failure.

use std::io::Write;

/// Prints a line.
pub fn line(text: &str) {
    // Whoever closed the other end does not want the rest.
    let _ = writeln!(std::io::stdout(), "{text}");
}
