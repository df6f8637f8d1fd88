//! Cast, CastLike and BitCast.

use tenon_graph_dialect::operators::{Bitcast, Cast, Function};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};
use crate::tensor::element_type;

/// The element type that an attribute names by its number.
pub(super) fn type_attribute(op: &OpImport<'_, '_, '_>, name: &str) -> Result<Option<DType>, ImportError> {
    let Some(code) = op.node.int(name)? else { return Ok(None) };
    let found = i32::try_from(code).map_err(|_| format!("number {code}")).and_then(element_type);
    let owner = || format!("attribute `{name}` of {}", op.node.site);
    found.map(Some).map_err(|found| ImportError::ElementType { owner: owner(), found })
}

fn convert(op: &mut OpImport<'_, '_, '_>, input: Handle, dtype: DType) -> Outputs {
    let saturate = op.since < 19 || op.node.flag_or("saturate", true)?;
    let mode = if op.since >= 24 { op.node.string_or("round_mode", "up")? } else { "up" };
    let source = op.dtype(input);
    if source == dtype {
        return Ok(vec![input]);
    }
    if dtype == DType::F8E8M0FNU && source.is_float() {
        return to_power_of_two(op, input, mode, saturate).map(|value| vec![value]);
    }
    if source.is_float() && dtype.is_integer() && dtype.bits() < 8 {
        // Numbers outside a narrow type keep their low bits, as between integers.
        let whole = op.cast(input, DType::I32)?;
        return Ok(vec![op.cast(whole, dtype)?]);
    }
    let narrow = dtype.is_float() && dtype.bits() <= 8;
    Ok(vec![op.emit(Cast { dtype, saturate: saturate && narrow }, &[input])?])
}

/// Conversion to `f8E8M0FNU`, whose values are powers of two. `graph.cast` rounds to the nearest; `up` and `down` go to a power of two before,
/// on the bits of an f64, in which all of them have a mantissa of zeros.
fn to_power_of_two(
    op: &mut OpImport<'_, '_, '_>,
    input: Handle,
    mode: &str,
    saturate: bool,
) -> Result<Handle, ImportError> {
    const MANTISSA: f64 = (1u64 << 52) as f64;
    let cast = Cast { dtype: DType::F8E8M0FNU, saturate };
    let up = match mode {
        "nearest" => return op.emit(cast, &[input]),
        "up" => true,
        "down" => false,
        other => {
            return Err(op.node.attribute_error("round_mode", "`up`, `down` or `nearest`", format!("is `{other}`")));
        }
    };
    let wide = op.cast(input, DType::F64)?;
    let mut bits = op.emit(Bitcast { dtype: DType::I64 }, &[wide])?;
    if up {
        let most = op.scalar(MANTISSA - 1.0, DType::I64)?;
        bits = op.apply(Function::Add, &[bits, most])?;
    }
    let exponent = op.scalar(-MANTISSA, DType::I64)?;
    bits = op.apply(Function::BitAnd, &[bits, exponent])?;
    let power = op.emit(Bitcast { dtype: DType::F64 }, &[bits])?;
    let nan = op.apply(Function::IsNan, &[wide])?;
    let power = op.apply(Function::Select, &[nan, wide, power])?;
    op.emit(cast, &[power])
}

/// Conversion to the type of the attribute `to`.
pub(super) fn cast(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let dtype = op.node.required("to", type_attribute(op, "to")?)?;
    let input = op.input(0)?;
    convert(op, input, dtype)
}

/// Conversion to the type of the second input.
pub(super) fn cast_like(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let (input, like) = (op.input(0)?, op.input(1)?);
    let dtype = op.dtype(like);
    convert(op, input, dtype)
}

/// The same bits as the type of the attribute `to`.
pub(super) fn bitcast(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let dtype = op.node.required("to", type_attribute(op, "to")?)?;
    let input = op.input(0)?;
    Ok(vec![if op.dtype(input) == dtype { input } else { op.emit(Bitcast { dtype }, &[input])? }])
}
