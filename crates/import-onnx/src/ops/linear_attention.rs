//! LinearAttention: a state of keys by values that each time step decays, corrects, adds to and reads.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Attention, Concat, Contract, Function};

use super::heads::{default_scale, join, split};
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// Most time steps: they are unrolled.
const LONGEST: i64 = 256;

/// A contraction in the type of its operands.
fn contract(op: &mut OpImport<'_, '_, '_>, labels: [&str; 3], a: Handle, b: Handle) -> Result<Handle, ImportError> {
    let dtype = op.dtype(a);
    let [lhs, rhs, result] = labels.map(str::to_owned);
    op.emit(Contract { lhs, rhs, result, accumulate: dtype, dtype }, &[a, b])
}

/// LinearAttention. f16 and bf16 compute in f32 throughout and round once; so does the state.
pub(super) fn linear_attention(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    use Function::*;
    op.takes(3..=6)?;
    let (query, key, value) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let dtype = op.dtype(query);
    // A hint on the order of work.
    op.node.int_or("chunk_size", 64)?;
    let query_heads = op.node.required("q_num_heads", op.node.int("q_num_heads")?)?;
    let heads = op.node.required("kv_num_heads", op.node.int("kv_num_heads")?)?;
    if heads < 1 || query_heads < 1 || query_heads % heads != 0 {
        let found = format!("is {query_heads} for {heads} heads of keys");
        return Err(op.node.attribute_error("q_num_heads", "a multiple of `kv_num_heads`", found));
    }
    let (gated, delta) = match op.node.string_or("update_rule", "gated_delta")? {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => {
            let expected = "linear, gated, delta or gated_delta";
            return Err(op.node.attribute_error("update_rule", expected, format!("is {other:?}")));
        }
    };
    let scale = f64::from(op.node.float_or("scale", 0.0)?);
    let (decay, rate) = (op.optional(4)?, op.optional(5)?);
    if decay.is_some() != gated || rate.is_some() != delta {
        return Err(op.invalid("the update rule and the inputs `decay` and `beta` do not go together"));
    }
    let compute = Attention::compute_type(dtype);
    let mut wide = |value: Handle, heads: i64| {
        let value = op.cast(value, compute)?;
        split(op, value, heads)
    };
    let (query, key, value) = (wide(query, query_heads)?, wide(key, heads)?, wide(value, heads)?);
    let key_size = op.fixed_dim(key, 3, "attention")?;
    // One decay a head, or one a key's element; one rate a head, or one for all.
    let mut gate = |input: Option<Handle>, one: bool| -> Result<Option<Handle>, ImportError> {
        let Some(input) = input else { return Ok(None) };
        let input = op.cast(input, compute)?;
        let size = op.fixed_dim(input, op.rank_at_least(input, 1)? - 1, "attention")?;
        let groups = if one && size == 1 { 1 } else { heads };
        Ok(Some(split(op, input, groups)?))
    };
    let (decay, rate) = (gate(decay, false)?, gate(rate, true)?);
    let scale = if scale == 0.0 { default_scale(op, query)? } else { scale };
    let steps = op.fixed_dim(key, 2, "attention")?;
    if steps > LONGEST {
        return Err(op.unsupported(format!("a sequence of {steps} steps, more than {LONGEST},")));
    }
    let batch = op.extents(key)[0].clone();
    let value_size = op.extents(value)[3].clone();
    let number = DimExpr::constant;
    let (mut state, kept) = match op.optional(3)? {
        Some(past) => (op.cast(past, compute)?, op.dtype(past)),
        None => {
            let zero = op.scalar(0.0, compute)?;
            (op.broadcast(zero, vec![batch.clone(), number(heads), number(key_size), value_size.clone()])?, dtype)
        }
    };
    let factor = op.scalar(scale, compute)?;
    let query = op.apply(Multiply, &[query, factor])?;
    let decay = decay.map(|decay| op.apply(Exp, &[decay])).transpose()?;
    let group = query_heads / heads;
    let mut outputs = Vec::new();
    for step in 0..steps {
        // One time step of `[batch, heads, time, size]`, as `[batch, heads, size]`.
        let mut now = |x: Handle| -> Result<Handle, ImportError> {
            let one = op.slice(x, 2, number(step), number(1))?;
            let mut dims = op.extents(one);
            dims.remove(2);
            op.reshape(one, dims)
        };
        let (query, key, mut value) = (now(query)?, now(key)?, now(value)?);
        let (decay, rate) = (decay.map(&mut now).transpose()?, rate.map(&mut now).transpose()?);
        if let Some(decay) = decay {
            let mut dims = op.extents(decay);
            dims.push(number(1));
            let decay = op.reshape(decay, dims)?;
            state = op.apply(Multiply, &[state, decay])?;
        }
        if let Some(rate) = rate {
            let known = contract(op, ["bhkv", "bhk", "bhv"], state, key)?;
            let error = op.apply(Subtract, &[value, known])?;
            value = op.apply(Multiply, &[rate, error])?;
        }
        let mut dims = op.extents(key);
        dims.push(number(1));
        let key = op.reshape(key, dims)?;
        let row = op.reshape(value, vec![batch.clone(), number(heads), number(1), value_size.clone()])?;
        let added = op.apply(Multiply, &[key, row])?;
        state = op.apply(Add, &[state, added])?;
        // Heads of queries that share a state stand next to each other.
        let query = op.reshape(query, vec![batch.clone(), number(heads), number(group), number(key_size)])?;
        let read = contract(op, ["bhgk", "bhkv", "bhgv"], query, state)?;
        outputs.push(op.reshape(read, vec![batch.clone(), number(query_heads), number(1), value_size.clone()])?);
    }
    let output = match outputs.as_slice() {
        [] => {
            let zero = op.scalar(0.0, compute)?;
            op.broadcast(zero, vec![batch, number(query_heads), number(0), value_size])?
        }
        [only] => *only,
        _ => op.emit(Concat { axis: 2 }, &outputs)?,
    };
    let output = join(op, output)?;
    Ok(vec![op.cast(output, dtype)?, op.cast(state, kept)?])
}
