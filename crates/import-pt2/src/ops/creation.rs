//! Tensors made from nothing: constants, ranges, triangles.

use tenon_graph_builder::Handle;
use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Iota};
use tenon_tensor::DType;

use crate::error::OpError;
use crate::import::op::{OpImport, Out, Results, Scalar, one};

/// The shape, of the argument or of the tensor that the result is like.
fn shape(op: &mut OpImport<'_, '_, '_>) -> Result<Vec<DimExpr>, OpError> {
    if op.has("size") {
        return op.dims("size");
    }
    let like = op.tensor("self")?;
    Ok(op.extents(like))
}

/// The element type: the argument, or that of the tensor it is like, or `default`.
fn element(op: &mut OpImport<'_, '_, '_>, default: DType) -> Result<DType, OpError> {
    if op.has("dtype")
        && let Some(dtype) = op.dtype("dtype")?
    {
        return Ok(dtype);
    }
    if op.has("self") {
        let like = op.tensor("self")?;
        return Ok(op.element(like));
    }
    Ok(default)
}

/// Tensors of one number. What `empty` leaves open is 0.
pub(super) fn filled(op: &mut OpImport<'_, '_, '_>) -> Results {
    let name = op.name.trim_start_matches("new_").trim_end_matches("_like");
    let value = match name {
        "ones" => Scalar::Int(1.into()),
        "full" => op.scalar_argument("fill_value")?,
        "scalar_tensor" => op.scalar_argument("s")?,
        _ => Scalar::Int(0.into()),
    };
    let default = if matches!(name, "full" | "scalar_tensor") { value.dtype() } else { DType::F32 };
    let default = if name == "scalar_tensor" { DType::F32 } else { default };
    let dtype = element(op, default)?;
    let shape = if name == "scalar_tensor" { Vec::new() } else { shape(op)? };
    let value = op.scalar_tensor(&value, dtype)?;
    one(op.broadcast(value, shape)?)
}

/// A tensor's shape with one number in it.
pub(super) fn fill(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let dtype = op.element(x);
    let value = if op.has("value") { op.operand("value", dtype)? } else { op.scalar(0.0, dtype)? };
    let shape = op.extents(x);
    one(op.broadcast(value, shape)?)
}

/// start, start + step, … below end.
pub(super) fn arange(op: &mut OpImport<'_, '_, '_>) -> Results {
    let number = |op: &OpImport<'_, '_, '_>, name: &str, default: i64| match op.has(name) {
        true => op.scalar_argument(name),
        false => Ok(Scalar::Int(default.into())),
    };
    let (start, end, step) = (number(op, "start", 0)?, op.scalar_argument("end")?, number(op, "step", 1)?);
    let all_whole = [&start, &end, &step].iter().all(|value| matches!(value, Scalar::Int(_)));
    let dtype = op.dtype("dtype")?.unwrap_or(if all_whole { DType::I64 } else { DType::F32 });
    let float = |value: &Scalar| match value {
        Scalar::Float(value) => Some(*value),
        Scalar::Int(value) => value.as_constant().map(|value| value as f64),
        Scalar::Bool(value) => Some(f64::from(u8::from(*value))),
    };
    let count = match (&start, &end, &step) {
        (Scalar::Int(start), Scalar::Int(end), Scalar::Int(step)) => {
            let step = step.as_constant().filter(|step| *step != 0);
            let step = step.ok_or_else(|| op.unsupported("a range whose step is not known or 0"))?;
            let span = if step > 0 { end.sub(start) } else { start.sub(end) };
            let up = span.and_then(|span| span.add(&(step.abs() - 1).into()));
            let count =
                up.and_then(|up| up.floor_div(step.abs())).ok_or_else(|| op.unsupported("a range this large"))?;
            match count.as_constant() {
                Some(count) => DimExpr::constant(count.max(0)),
                None => count,
            }
        }
        _ => match (float(&start), float(&end), float(&step)) {
            (Some(start), Some(end), Some(step)) if step != 0.0 => {
                let count = ((end - start) / step).ceil().max(0.0);
                if count >= 1e15 {
                    return Err(op.unsupported("a range this large"));
                }
                DimExpr::constant(count as i64)
            }
            _ => return Err(op.unsupported("a range of numbers that are not known")),
        },
    };
    let compute = if dtype.is_float() && dtype.bits() < 32 { DType::F32 } else { dtype };
    let mut result = op.emit_one(Iota { dtype: compute, shape: vec![count], axis: 0 }, &[])?;
    if step != Scalar::Int(1.into()) && step != Scalar::Float(1.0) {
        let step = op.scalar_tensor(&step, compute)?;
        result = op.apply(Function::Multiply, &[result, step])?;
    }
    if start != Scalar::Int(0.into()) && start != Scalar::Float(0.0) {
        let start = op.scalar_tensor(&start, compute)?;
        result = op.apply(Function::Add, &[result, start])?;
    }
    one(op.cast(result, dtype)?)
}

/// `steps` numbers from start to end; the second half counts back from the end, as torch does.
pub(super) fn linspace(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (start, end, steps) = (op.float("start")?, op.float("end")?, op.int("steps")?);
    let dtype = op.dtype("dtype")?.unwrap_or(DType::F32);
    if !(0..=1 << 24).contains(&steps) || !dtype.is_float() {
        return Err(op.unsupported("that many steps, or integers, of linspace"));
    }
    let step = if steps > 1 { (end - start) / (steps - 1) as f64 } else { 0.0 };
    let value = |index: i64| match index < steps / 2 || steps == 1 {
        true => start + step * index as f64,
        false => end - step * (steps - index - 1) as f64,
    };
    let values: Vec<f64> = (0..steps).map(value).collect();
    one(op.literal(dtype, &[steps as usize], &values)?)
}

/// Whether a place's column is at most `diagonal` right of its row.
fn below_diagonal(
    op: &mut OpImport<'_, '_, '_>,
    rows: DimExpr,
    columns: DimExpr,
    diagonal: i64,
) -> Result<Handle, OpError> {
    let row = op.emit_one(Iota { dtype: DType::I64, shape: vec![rows, 1.into()], axis: 0 }, &[])?;
    let column = op.emit_one(Iota { dtype: DType::I64, shape: vec![columns], axis: 0 }, &[])?;
    let shift = op.symbolic(DType::I64, &[], vec![diagonal.into()]);
    let limit = op.apply(Function::Add, &[row, shift])?;
    Ok(op.apply(Function::LessEqual, &[column, limit])?)
}

/// The lower or upper triangle, 0 elsewhere.
pub(super) fn triangle(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let rank = op.rank(x);
    if rank < 2 {
        return Err(op.invalid("a matrix is needed"));
    }
    let shape = op.extents(x);
    let (rows, columns) = (shape[rank - 2].clone(), shape[rank - 1].clone());
    let diagonal = op.int("diagonal")?;
    let zero = op.scalar(0.0, op.element(x))?;
    if op.name == "tril" {
        let inside = below_diagonal(op, rows, columns, diagonal)?;
        return one(op.apply(Function::Select, &[inside, x, zero])?);
    }
    let outside = below_diagonal(op, rows, columns, diagonal.saturating_sub(1))?;
    one(op.apply(Function::Select, &[outside, zero, x])?)
}

/// 1 on the diagonal.
pub(super) fn eye(op: &mut OpImport<'_, '_, '_>) -> Results {
    let rows = op.dim("n")?;
    let columns = if op.has("m") { op.dim("m")? } else { rows.clone() };
    let dtype = op.dtype("dtype")?.unwrap_or(DType::F32);
    let row = op.emit_one(Iota { dtype: DType::I64, shape: vec![rows, 1.into()], axis: 0 }, &[])?;
    let column = op.emit_one(Iota { dtype: DType::I64, shape: vec![columns], axis: 0 }, &[])?;
    let equal = op.apply(Function::Equal, &[row, column])?;
    one(op.cast(equal, dtype)?)
}

/// 1 at each index of a new last dimension.
pub(super) fn one_hot(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let classes = op.int("num_classes")?;
    if classes < 1 {
        return Err(OpError::NotKnown("the number of classes".to_owned()));
    }
    let mut shape = op.extents(x);
    shape.push(1.into());
    let x = op.reshape(x, shape)?;
    let class = op.emit_one(Iota { dtype: op.element(x), shape: vec![classes.into()], axis: 0 }, &[])?;
    let equal = op.apply(Function::Equal, &[x, class])?;
    one(op.cast(equal, DType::I64)?)
}

/// Positions of a grid, one output a list.
pub(super) fn meshgrid(op: &mut OpImport<'_, '_, '_>) -> Results {
    let lists = op.tensors("tensors")?;
    let mut order: Vec<usize> = (0..lists.len()).collect();
    if op.has("indexing") && op.text("indexing")? == "xy" && lists.len() > 1 {
        order.swap(0, 1);
    }
    let count = |op: &OpImport<'_, '_, '_>, list: Handle| op.extents(list).first().cloned().unwrap_or(1.into());
    let shape: Vec<DimExpr> = order.iter().map(|place| count(op, lists[*place])).collect();
    let mut results = Vec::new();
    for (index, list) in lists.iter().enumerate() {
        let axis = order.iter().position(|place| *place == index).unwrap_or(index);
        let mut own = vec![DimExpr::constant(1); shape.len()];
        own[axis] = shape[axis].clone();
        let list = op.reshape(*list, own)?;
        results.push(Out::New(op.broadcast(list, shape.clone())?));
    }
    Ok(results)
}
