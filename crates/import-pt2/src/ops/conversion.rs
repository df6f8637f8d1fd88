//! Other element types, copies, and what does nothing in inference: devices, layouts, dropout, assertions.

use tenon_tensor::{Condition, DType, DimExpr, Relation};

use super::promotion::wide;
use crate::error::{OpError, plain};
use crate::import::op::{OpImport, Out, Results, one};
use crate::schema::Argument;

/// A tensor of another type. `to` gives the tensor itself where nothing changes; `_to_copy` always a copy.
pub(super) fn to(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let dtype = match op.name {
        "type_as" => {
            let other = op.tensor("other")?;
            Some(op.element(other))
        }
        "to" if op.overload == "other" => {
            let other = op.tensor("other")?;
            Some(op.element(other))
        }
        "float" => Some(DType::F32),
        "double" => Some(DType::F64),
        "half" => Some(DType::F16),
        "bfloat16" => Some(DType::BF16),
        "long" => Some(DType::I64),
        "int" => Some(DType::I32),
        "bool" => Some(DType::Bool),
        _ => op.dtype("dtype")?,
    };
    let dtype = dtype.unwrap_or(op.element(x));
    let copy = op.name == "_to_copy" || (op.has("copy") && op.flag("copy")?);
    if dtype == op.element(x) {
        return if copy { one(x) } else { Ok(vec![Out::Alias(op.value("self")?)]) };
    }
    one(op.cast(x, dtype)?)
}

/// A copy.
pub(super) fn copy(op: &mut OpImport<'_, '_, '_>) -> Results {
    one(op.tensor("self")?)
}

/// `src` in the type and shape of `self`; the operator in place writes it.
pub(super) fn copy_from(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, source) = (op.tensor("self")?, op.tensor("src")?);
    let source = op.cast(source, op.element(x))?;
    let shape = op.extents(x);
    one(op.broadcast(source, shape)?)
}

/// The tensor itself.
pub(super) fn alias(op: &mut OpImport<'_, '_, '_>) -> Results {
    let first = op.parameters.first().map_or("self", |parameter| parameter.name);
    Ok(vec![Out::Alias(op.value(first)?)])
}

/// The tensor itself, where its elements are in order.
pub(super) fn contiguous(op: &mut OpImport<'_, '_, '_>) -> Results {
    super::views::maybe_view(op, None)
}

/// Dropout of inference.
pub(super) fn dropout(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (tensor, training) = match op.name {
        "native_dropout" => ("input", !op.is_none("train") && op.flag("train")?),
        "rrelu" => ("self", op.flag("training")?),
        _ => ("input", op.flag("train")?),
    };
    if training && op.float("p")? > 0.0 {
        return Err(op.unsupported("dropout in training (call `model.eval()` before exporting)"));
    }
    let value = op.value(tensor)?;
    if op.name == "native_dropout" {
        let x = op.tensor(tensor)?;
        let shape = op.extents(x);
        let kept = op.scalar(1.0, DType::Bool)?;
        return Ok(vec![Out::New(x), Out::New(op.broadcast(kept, shape)?)]);
    }
    Ok(vec![Out::Alias(value)])
}

/// RReLU of inference: a slope of the mean of its bounds.
pub(super) fn rrelu(op: &mut OpImport<'_, '_, '_>) -> Results {
    use tenon_graph_dialect::operators::Function;
    if op.flag("training")? {
        return Err(op.unsupported("rrelu in training"));
    }
    let x = op.tensor("self")?;
    let dtype = op.element(x);
    let slope = (op.float("lower")? + op.float("upper")?) / 2.0;
    let (slope, zero) = (op.scalar(slope, wide(dtype))?, op.scalar(0.0, dtype)?);
    let slope = op.cast(slope, dtype)?;
    let line = op.apply(Function::Multiply, &[x, slope])?;
    let above = op.apply(Function::Greater, &[x, zero])?;
    one(op.apply(Function::Select, &[above, x, line])?)
}

/// What a tensor must be: its element type and sizes, as far as they are given, hold now.
pub(super) fn assert_metadata(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("a")?;
    if let Some(dtype) = op.dtype("dtype")?
        && dtype != op.element(x)
    {
        return Err(OpError::Assertion(format!("the program asserts elements of {dtype}, the tensor is {}", op.ty(x))));
    }
    if !op.is_none("size") {
        let size = op.dims("size")?;
        let found = op.extents(x);
        if size.len() != found.len() {
            return Err(OpError::Assertion(format!(
                "the program asserts {} dimensions, the tensor is {}",
                size.len(),
                op.ty(x)
            )));
        }
        for (size, found) in size.into_iter().zip(found) {
            let condition = Condition::new(found, Relation::Equal, size);
            op.importer.demand(&crate::sympy::Relation::Compare(condition), "the sizes of a tensor")?;
        }
    }
    Ok(Vec::new())
}

/// A relation between sizes that must hold.
pub(super) fn assert_scalar(op: &mut OpImport<'_, '_, '_>) -> Results {
    let message = if op.has("assert_msg") { op.text("assert_msg")? } else { String::new() };
    match op.positional(0)? {
        Argument::AsSymBool(crate::schema::SymBoolArgument::AsName(name)) => {
            let relation = op.importer.relation(name)?;
            op.importer.demand(&relation, &message)?;
        }
        Argument::AsSymBool(crate::schema::SymBoolArgument::AsBool(true)) | Argument::AsBool(true) => {}
        Argument::AsSymBool(_) | Argument::AsBool(false) => {
            return Err(OpError::Assertion(format!("its assertion does not hold: {message}")));
        }
        Argument::AsInt(value) if *value != 0 => {}
        _ => return Err(op.unsupported("an assertion that is decided by values")),
    }
    Ok(Vec::new())
}

/// An assertion on a tensor of one element: checked here where it is known, else while the program runs.
pub(super) fn assert_tensor(op: &mut OpImport<'_, '_, '_>) -> Results {
    let first = op.parameters.first().map_or("self", |parameter| parameter.name);
    let x = op.tensor(first)?;
    let message = if op.has("assert_msg") { plain(&op.text("assert_msg")?) } else { "it is asserted".to_owned() };
    match op.importer.builder.tensor(x).and_then(|tensor| tensor.get_f64(0)) {
        Some(value) if value != 0.0 => return Ok(Vec::new()),
        Some(_) => return Err(OpError::Assertion(format!("its assertion does not hold: {message}"))),
        None => {}
    }
    if op.importer.aliases.depth > 0 {
        return Err(op.unsupported("an assertion on values inside a branch or loop"));
    }
    let holds = op.cast(x, DType::Bool)?;
    let holds = op.cast(holds, DType::I64)?;
    let holds = op.reshape(holds, Vec::new())?;
    op.importer.builder.require_one(holds, &format!("the program asserts it: {message}"))?;
    Ok(Vec::new())
}

/// Bounds of a size.
pub(super) fn constrain_range(op: &mut OpImport<'_, '_, '_>) -> Results {
    let size = op.dim("size")?;
    let message = "a bound of a size";
    for (bound, relation) in [("min", Relation::AtLeast), ("max", Relation::AtMost)] {
        if let Some(bound) = op.optional_dim(bound)? {
            let condition = Condition::new(size.clone(), relation, bound);
            op.importer.demand(&crate::sympy::Relation::Compare(condition), message)?;
        }
    }
    if op.name == "sym_constrain_range_for_size" {
        let condition = Condition::new(size, Relation::AtLeast, DimExpr::constant(0));
        op.importer.demand(&crate::sympy::Relation::Compare(condition), message)?;
    }
    Ok(Vec::new())
}

/// What needs random numbers or training.
pub(super) fn random(op: &mut OpImport<'_, '_, '_>) -> Results {
    Err(op.unsupported("a random number generator"))
}
