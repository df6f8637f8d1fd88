//! Generates and compiles the flow dialect.

fn main() {
    tenon_dialect_build::build("flow");
}
