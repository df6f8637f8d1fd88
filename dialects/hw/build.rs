//! Generates and compiles the hw dialect.

fn main() {
    tenon_dialect_build::build("hw");
}
