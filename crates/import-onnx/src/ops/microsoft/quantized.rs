//! Products of quantised matrices: exact sums in i32 that become floats, and weights of few bits that become floats before the product.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::Function;
use tenon_tensor::DType;

use super::qlinear::parameter;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};
use crate::ops::integer_product::{Factor, matrix_product};
use crate::ops::matmul::product;
use crate::ops::quantize::dynamic_of;

/// Integer sums times the scales of both factors, and a bias.
fn scaled(
    op: &mut OpImport<'_, '_, '_>,
    sums: Handle,
    scales: [Handle; 2],
    bias: Option<Handle>,
) -> Result<Handle, ImportError> {
    let dtype = op.dtype(scales[0]);
    let scale = op.apply(Function::Multiply, &scales)?;
    let sums = op.cast(sums, dtype)?;
    let real = op.apply(Function::Multiply, &[sums, scale])?;
    match bias {
        Some(bias) => op.apply(Function::Add, &[real, bias]),
        None => Ok(real),
    }
}

/// MatMulIntegerToFloat: (A - zero)(B - zero) · scale of A · scale of B + bias; columns of B may have scales of their own.
pub(in crate::ops) fn matmul_integer_to_float(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(4..=7)?;
    let (rows, columns) = (op.rank(op.input(0)?), op.rank(op.input(1)?));
    let lhs = Factor::read(op, 0, 4, rows.saturating_sub(2))?;
    let rhs = Factor::read(op, 1, 5, columns.saturating_sub(1))?;
    let sums = matrix_product(op, lhs, rhs)?;
    let scales = [parameter(op, 2)?, parameter(op, 3)?];
    let bias = op.optional(6)?;
    Ok(vec![scaled(op, sums, scales, bias)?])
}

/// DynamicQuantizeMatMul: A is quantised to ui8 by its range, then the same.
pub(in crate::ops) fn dynamic_quantize_matmul(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=5)?;
    let x = op.input(0)?;
    let columns = op.rank(op.input(1)?);
    let [x, scale, zero] = dynamic_of(op, x)?;
    let lhs = Factor::of(op, x, Some(zero), 0)?;
    let rhs = Factor::read(op, 1, 3, columns.saturating_sub(1))?;
    let sums = matrix_product(op, lhs, rhs)?;
    let scales = [scale, parameter(op, 2)?];
    let bias = op.optional(4)?;
    Ok(vec![scaled(op, sums, scales, bias)?])
}

/// MatMulNBits: A times the transpose of a matrix `[N, K]` of numbers of 2, 4 or 8 bits, which share a scale and zero point in blocks along K.
///
/// `[N, blocks, bytes of a block]` holds the numbers, the first in the lowest bits; scales are `[N, blocks]`, zero points packed likewise, or of
/// the scales' type; without them, zero is the middle of the numbers.
pub(in crate::ops) fn matmul_nbits(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=6)?;
    let required = |name: &str| op.node.required(name, op.node.int(name)?);
    let (depth, columns, block) = (required("K")?, required("N")?, required("block_size")?);
    let bits = op.node.int_or("bits", 4)?;
    // How exact the runtime has to be: sums are in f32 here.
    op.node.int_or("accuracy_level", 0)?;
    let sensible = |size: i64| (1..=1 << 31).contains(&size);
    let block_fits = (16..=1 << 20).contains(&block) && block & (block - 1) == 0;
    if !matches!(bits, 2 | 4 | 8) || !sensible(depth) || !sensible(columns) || !block_fits {
        return Err(op.unsupported(format!("numbers of {bits} bits in blocks of {block}")));
    }
    if op.optional(4)?.is_some() {
        return Err(op.unsupported("the input `g_idx`"));
    }
    let (x, packed, scales) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let dtype = op.dtype(x);
    let blocks = depth / block + i64::from(depth % block != 0);
    let number = DimExpr::constant;
    let numbers = unpacked(op, packed, columns * blocks, block, bits)?;
    let wide = super::wide(dtype);
    let numbers = op.cast(numbers, wide)?;
    let scales = op.reshape(scales, vec![number(columns * blocks), number(1)])?;
    let scales = op.cast(scales, wide)?;
    let zero = match op.optional(3)? {
        None => op.scalar((1i64 << (bits - 1)) as f64, wide)?,
        Some(zero) if op.dtype(zero) == DType::U8 => {
            // Each row of zero points begins at a byte.
            let per_byte = 8 / bits;
            let padded = (blocks / per_byte + i64::from(blocks % per_byte != 0)) * per_byte;
            let zero = unpacked(op, zero, columns, padded, bits)?;
            let zero = op.slice(zero, 1, number(0), number(blocks))?;
            let zero = op.cast(zero, wide)?;
            op.reshape(zero, vec![number(columns * blocks), number(1)])?
        }
        Some(zero) => {
            let zero = op.cast(zero, wide)?;
            op.reshape(zero, vec![number(columns * blocks), number(1)])?
        }
    };
    let centred = op.apply(Function::Subtract, &[numbers, zero])?;
    let weights = op.apply(Function::Multiply, &[centred, scales])?;
    let weights = op.reshape(weights, vec![number(columns), number(blocks * block)])?;
    let weights = op.slice(weights, 1, number(0), number(depth))?;
    let weights = op.transpose(weights, vec![1, 0])?;
    let x = op.cast(x, wide)?;
    let mut result = product(op, x, weights, wide)?;
    if let Some(bias) = op.optional(5)? {
        let bias = op.cast(bias, wide)?;
        result = op.apply(Function::Add, &[result, bias])?;
    }
    Ok(vec![op.cast(result, dtype)?])
}

/// Numbers of `bits` bits out of bytes, as ui8 `[rows, count]`.
fn unpacked(
    op: &mut OpImport<'_, '_, '_>,
    packed: Handle,
    rows: i64,
    count: i64,
    bits: i64,
) -> Result<Handle, ImportError> {
    let per_byte = 8 / bits;
    let number = DimExpr::constant;
    let bytes = rows.checked_mul(count).map(|numbers| (numbers / per_byte) as u64);
    if op.dtype(packed) != DType::U8 || op.dim_count(packed) != bytes {
        return Err(op.invalid(format!("{} does not hold {rows} times {count} numbers of {bits} bits", op.ty(packed))));
    }
    let packed = op.reshape(packed, vec![number(rows), number(count / per_byte), number(1)])?;
    let shifts: Vec<f64> = (0..per_byte).map(|place| (place * bits) as f64).collect();
    let shifts = op.literal(DType::U8, &[per_byte as usize], &shifts)?;
    let shifted = op.apply(Function::ShiftRight, &[packed, shifts])?;
    let low = op.scalar(((1i64 << bits) - 1) as f64, DType::U8)?;
    let numbers = op.apply(Function::BitAnd, &[shifted, low])?;
    op.reshape(numbers, vec![number(rows), number(count)])
}
