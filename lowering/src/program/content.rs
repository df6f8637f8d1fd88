//! What an operation is apart from its name and where it comes from.

use std::collections::HashMap;
use std::fmt::Write;

use tenon_ir::{Op, Value};

/// A text that is equal for two tile programs (`hw.kernel`) of one session exactly if they are the same apart from their names and from the
/// model's nodes that they come from.
pub fn tile_program_key(kernel: Op<'_>) -> String {
    content_key(kernel, &["sym_name", "source_nodes"])
}

/// A text that is equal for two operations of one session exactly if they, and all that is inside them, do the same: same operations,
/// attributes, types and flow of values. Attributes of `op` itself named in `ignored`, which values its operands are, and all locations, do
/// not count.
pub(super) fn content_key(op: Op<'_>, ignored: &[&str]) -> String {
    let mut key = String::new();
    for operand in op.operands() {
        let _ = write!(key, "{:x},", operand.ty().key());
    }
    append(op, &[], ignored, &mut HashMap::new(), &mut key);
    key
}

fn number(values: &mut HashMap<usize, usize>, value: Value<'_>) -> usize {
    let next = values.len();
    *values.entry(value.key()).or_insert(next)
}

/// `values` numbers values by their keys. Types are unique in a session, so that their keys stand for them: printing each would cost more than all else.
fn append<'m>(
    op: Op<'m>,
    operands: &[Value<'m>],
    ignored: &[&str],
    values: &mut HashMap<usize, usize>,
    key: &mut String,
) {
    key.push_str(&op.name());
    for operand in operands {
        let _ = write!(key, " %{}", number(values, *operand));
    }
    for (name, value) in op.attributes() {
        if !ignored.contains(&name.as_str()) {
            let _ = write!(key, " {name}={value}");
        }
    }
    for result in op.results() {
        let _ = write!(key, " ->%{}:{:x}", number(values, result), result.ty().key());
    }
    for region in (0..op.region_count()).filter_map(|index| op.region(index)) {
        key.push('{');
        for block in region.blocks() {
            key.push('^');
            for argument in block.arguments() {
                let _ = write!(key, "%{}:{:x},", number(values, argument), argument.ty().key());
            }
            for inner in block.ops() {
                append(inner, &inner.operands(), &[], values, key);
                key.push(';');
            }
        }
        key.push('}');
    }
}
