//! Checks on operand types that several operators share.

use tenon_tensor::DType;

use crate::{Dim, DimExpr, ErrorKind, SemanticError, TensorType};

/// Highest rank that operators take.
pub(crate) const MAX_RANK: usize = 16;

pub(crate) fn arity<const N: usize>(operator: &str, operands: &[TensorType]) -> Result<[TensorType; N], SemanticError> {
    let count = operands.len();
    operands
        .to_vec()
        .try_into()
        .map_err(|_| SemanticError::new(ErrorKind::Arity, operator, format!("takes {N} operands, not {count}")))
}

pub(crate) fn shape_error(operator: &str, message: impl Into<String>) -> SemanticError {
    SemanticError::new(ErrorKind::Shape, operator, message)
}

pub(crate) fn attribute_error(operator: &str, message: impl Into<String>) -> SemanticError {
    SemanticError::new(ErrorKind::Attribute, operator, message)
}

pub(crate) fn dtype_error(operator: &str, what: &str, expected: &str, found: DType) -> SemanticError {
    SemanticError::new(ErrorKind::DType, operator, format!("{what} must be {expected}, not {found}"))
}

/// An axis within a rank, negative ones counted from the end.
pub(crate) fn axis(operator: &str, axis: i64, rank: usize) -> Result<usize, SemanticError> {
    let rank_signed = rank as i64;
    let index = if axis < 0 { axis.checked_add(rank_signed) } else { Some(axis) };
    match index {
        Some(index) if (0..rank_signed).contains(&index) => Ok(index as usize),
        _ => Err(attribute_error(operator, format!("axis {axis} is outside rank {rank}"))),
    }
}

/// Distinct axes within a rank, sorted.
pub(crate) fn axes(operator: &str, list: &[i64], rank: usize) -> Result<Vec<usize>, SemanticError> {
    let mut axes = list.iter().map(|a| axis(operator, *a, rank)).collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    if axes.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(attribute_error(operator, "an axis is named twice"));
    }
    Ok(axes)
}

pub(crate) fn too_large(operator: &str) -> SemanticError {
    shape_error(operator, "a dimension of the result is negative or too large to express")
}

/// Dimensions of a result of given expressions. The capacity of a symbolic one is that of an equal dimension of an operand,
/// or follows from those of its names.
pub(crate) fn dims_of(operator: &str, dims: &[DimExpr], known: &[&Dim]) -> Result<Vec<Dim>, SemanticError> {
    if dims.len() > MAX_RANK {
        return Err(shape_error(operator, format!("rank {} is above {MAX_RANK}", dims.len())));
    }
    // The largest size of a name, where an operand has it.
    let capacity = |name: &str| {
        let dim = known.iter().find(|dim| dim.extent.as_symbol() == Some(name))?;
        i64::try_from(dim.capacity?).ok()
    };
    dims.iter()
        .map(|expression| {
            if expression.as_constant().is_some_and(|value| value < 0) {
                return Err(too_large(operator));
            }
            Ok(match known.iter().find(|dim| dim.extent == *expression) {
                Some(dim) => (*dim).clone(),
                None => {
                    let mut dim = Dim::of(expression.clone());
                    let bound = || expression.upper_bound(&capacity).and_then(|bound| u64::try_from(bound).ok());
                    dim.capacity = dim.capacity.or_else(bound);
                    dim
                }
            })
        })
        .collect()
}

/// NumPy broadcast of several shapes. Dimensions whose equality cannot be shown are taken as equal; it is checked again once they are numbers.
pub fn broadcast_dims(operator: &str, shapes: &[&[Dim]]) -> Result<Vec<Dim>, SemanticError> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    if rank > MAX_RANK {
        return Err(shape_error(operator, format!("rank {rank} is above {MAX_RANK}")));
    }
    let mut result: Vec<Dim> = vec![Dim::fixed(1); rank];
    for shape in shapes {
        for (index, dim) in shape.iter().enumerate() {
            let slot = &mut result[rank - shape.len() + index];
            if dim.is_one() {
                continue;
            }
            if slot.is_one() {
                *slot = dim.clone();
            } else if slot.differs(dim) {
                return Err(shape_error(
                    operator,
                    format!("dimension {} is {slot} in one operand and {dim} in another", rank - shape.len() + index),
                ));
            } else if slot.known().is_none() && dim.known().is_some() {
                // A number says more than an expression that must equal it.
                *slot = dim.clone();
            }
        }
    }
    Ok(result)
}

/// The number of positions of a window: `floor_or_ceil((size + pads - dilation*(kernel-1) - 1) / stride) + 1`.
pub(crate) fn window_count(
    operator: &str,
    dim: &Dim,
    kernel: i64,
    stride: i64,
    dilation: i64,
    pads: (i64, i64),
    ceil: bool,
) -> Result<Dim, SemanticError> {
    let reach =
        dilation.checked_mul(kernel - 1).and_then(|reach| reach.checked_add(1)).ok_or_else(|| too_large(operator))?;
    let total =
        pads.0.checked_add(pads.1).and_then(|pads| pads.checked_sub(reach)).ok_or_else(|| too_large(operator))?;
    let count = |size: &DimExpr| -> Option<DimExpr> {
        let span = size.add(&DimExpr::constant(total))?;
        if let Some(span) = span.as_constant() {
            let rounding = if ceil { stride - 1 } else { 0 };
            let mut positions = ((span + rounding).div_euclid(stride) + 1).max(0);
            // A window that would start in the padding at the end is dropped.
            if ceil && positions > 0 && (positions - 1) * stride >= size.as_constant()? + pads.0 {
                positions -= 1;
            }
            return Some(DimExpr::constant(positions));
        }
        let rounding = if ceil { stride - 1 } else { 0 };
        span.add(&DimExpr::constant(rounding))?.floor_div(stride)?.add(&DimExpr::constant(1))
    };
    dim.map(count).ok_or_else(|| too_large(operator))
}

/// `kernel`, `strides`, `dilations` and pads of one length, with sensible values.
pub(crate) fn window_attributes(
    operator: &str,
    spatial: usize,
    lists: [(&str, &[i64], i64); 3],
    pads: [&[i64]; 2],
) -> Result<(), SemanticError> {
    for (name, list, least) in lists {
        if list.len() != spatial {
            return Err(attribute_error(
                operator,
                format!("`{name}` has {} entries for {spatial} spatial dimensions", list.len()),
            ));
        }
        if list.iter().any(|value| *value < least || *value > 1 << 31) {
            return Err(attribute_error(operator, format!("an entry of `{name}` is out of range")));
        }
    }
    for list in pads {
        if list.len() != spatial || list.iter().any(|value| value.unsigned_abs() > 1 << 31) {
            return Err(attribute_error(operator, format!("pads must be {spatial} numbers below 2^31")));
        }
    }
    Ok(())
}
