//! Generates and compiles the graph dialect.

fn main() {
    tenon_dialect_build::build("graph");
}
