//! Resize and the older Upsample.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{CoordinateMode, Resize, ResizeMode, ResizeRounding};
use tenon_tensor::DType;

use super::resize_antialias::Antialias;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, accumulator};

/// The word of a table.
fn word<T: Copy>(op: &OpImport<'_, '_, '_>, name: &str, default: &str, table: &[(&str, T)]) -> Result<T, ImportError> {
    let text = op.node.string_or(name, default)?;
    let found = table.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        op.node.attribute_error(name, "a word that the operator's version knows", format!("is {text:?}"))
    })
}

fn mode(op: &OpImport<'_, '_, '_>) -> Result<ResizeMode, ImportError> {
    let table = [
        ("nearest", ResizeMode::Nearest),
        ("linear", ResizeMode::Linear),
        ("bilinear", ResizeMode::Linear),
        ("cubic", ResizeMode::Cubic),
    ];
    word(op, "mode", "nearest", &table)
}

/// floor(size · scale)
fn scaled(op: &OpImport<'_, '_, '_>, size: &DimExpr, scale: f64) -> Result<DimExpr, ImportError> {
    let refuse = || op.unsupported(format!("a dimension of {size} times {scale}"));
    if !scale.is_finite() || scale <= 0.0 {
        return Err(op.invalid(format!("a scale of {scale}")));
    }
    if let Some(number) = size.as_constant() {
        let result = (number as f64 * scale).floor();
        return if result <= (1u64 << 40) as f64 { Ok(DimExpr::constant(result as i64)) } else { Err(refuse()) };
    }
    // A free dimension takes a ratio of small numbers.
    let (numerator, denominator) = (1..=64i64)
        .map(|denominator| (scale * denominator as f64, denominator))
        .find(|(numerator, _)| numerator.fract() == 0.0 && *numerator <= 65536.0)
        .ok_or_else(refuse)?;
    size.mul(&DimExpr::constant(numerator as i64)).and_then(|product| product.floor_div(denominator)).ok_or_else(refuse)
}

/// Upsample: `scales` is an attribute in version 7, then an input; coordinates are x / scale, rounded down.
pub(super) fn upsample(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(if op.since < 9 { 1..=1 } else { 2..=2 })?;
    let x = op.input(0)?;
    let scales = if op.since < 9 {
        let scales = op.node.required("scales", op.node.floats("scales")?)?;
        scales.iter().map(|scale| f64::from(*scale)).collect()
    } else {
        floats(op, 1)?
    };
    simple(op, x, scales)
}

fn floats(op: &OpImport<'_, '_, '_>, index: usize) -> Result<Vec<f64>, ImportError> {
    let tensor = op.known_tensor(index, "the size of the result")?;
    tensor.to_f64_vec().map_err(|error| op.invalid(error.to_string()))
}

/// Resize of version 10 and Upsample. The nearest element of version 10 is that of ONNX's own example for it (`resize_downsample_nearest`: 0.6 of
/// `[1, 2, 3, 4]` is `[1, 3]`) and of ONNX Runtime: up where a dimension shrinks.
fn simple(op: &mut OpImport<'_, '_, '_>, x: Handle, scales: Vec<f64>) -> Outputs {
    let mode = mode(op)?;
    if mode == ResizeMode::Cubic {
        return Err(op.node.attribute_error("mode", "nearest or linear", "is cubic"));
    }
    if scales.len() != op.rank(x) {
        return Err(op.invalid(format!("{} scales for {} dimensions", scales.len(), op.rank(x))));
    }
    let shrinks = |scale: &f64| *scale < 1.0;
    if mode != ResizeMode::Nearest || !scales.iter().any(shrinks) {
        return Ok(vec![scaled_by(op, x, mode, ResizeRounding::Floor, scales)?]);
    }
    // The nearest element lies up where a dimension shrinks, down where it grows; dimensions do not depend on each other.
    let side = |of: bool| scales.iter().map(|scale| if shrinks(scale) == of { *scale } else { 1.0 }).collect();
    let (down, up): (Vec<f64>, Vec<f64>) = (side(true), side(false));
    let mut result = scaled_by(op, x, mode, ResizeRounding::Ceil, down)?;
    if up.iter().any(|scale| *scale != 1.0) {
        result = scaled_by(op, result, mode, ResizeRounding::Floor, up)?;
    }
    Ok(vec![result])
}

/// One resize by these scales, whose coordinates are x / scale.
fn scaled_by(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    mode: ResizeMode,
    rounding: ResizeRounding,
    scales: Vec<f64>,
) -> Result<Handle, ImportError> {
    let sizes =
        op.extents(x).iter().zip(&scales).map(|(size, scale)| scaled(op, size, *scale)).collect::<Result<_, _>>()?;
    let resize = Resize {
        mode,
        coordinates: CoordinateMode::Asymmetric,
        rounding,
        sizes,
        scales: Some(scales),
        cubic_coefficient: -0.75,
        exclude_outside: false,
        region: None,
        extrapolation_value: 0.0,
    };
    op.emit(resize, &[x])
}

/// Resize.
pub(super) fn resize(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let x = op.input(0)?;
    if op.since < 11 {
        op.takes(2..=2)?;
        let scales = floats(op, 1)?;
        return simple(op, x, scales);
    }
    op.takes(1..=4)?;
    let mode = mode(op)?;
    let mut coordinates = vec![
        ("half_pixel", CoordinateMode::HalfPixel),
        ("pytorch_half_pixel", CoordinateMode::PytorchHalfPixel),
        ("align_corners", CoordinateMode::AlignCorners),
        ("asymmetric", CoordinateMode::Asymmetric),
        ("tf_crop_and_resize", CoordinateMode::TfCropAndResize),
    ];
    if op.since >= 19 {
        coordinates.push(("half_pixel_symmetric", CoordinateMode::HalfPixelSymmetric));
    }
    let coordinates = word(op, "coordinate_transformation_mode", "half_pixel", &coordinates)?;
    let roundings = [
        ("round_prefer_floor", ResizeRounding::RoundPreferFloor),
        ("round_prefer_ceil", ResizeRounding::RoundPreferCeil),
        ("floor", ResizeRounding::Floor),
        ("ceil", ResizeRounding::Ceil),
    ];
    let rounding = word(op, "nearest_mode", "round_prefer_floor", &roundings)?;
    let rank = op.rank(x);
    let mut axes: Vec<usize> = (0..rank).collect();
    let mut policy = "stretch";
    let mut antialias = false;
    if op.since >= 18 {
        antialias = op.node.flag_or("antialias", false)? && mode != ResizeMode::Nearest;
        if let Some(list) = op.node.ints("axes")? {
            op.axes(list, rank)?;
            axes = list.iter().map(|axis| op.axis(*axis, rank)).collect::<Result<_, _>>()?;
        }
        policy = op.node.string_or("keep_aspect_ratio_policy", "stretch")?;
    }
    let cubic_coefficient = f64::from(op.node.float_or("cubic_coeff_a", -0.75)?);
    let exclude_outside = op.node.flag_or("exclude_outside", false)?;
    let extrapolation_value = f64::from(op.node.float_or("extrapolation_value", 0.0)?);

    let region = match coordinates {
        CoordinateMode::TfCropAndResize => Some(region(op, &axes, rank)?),
        _ => None,
    };
    let (sizes, mut scales) = sizes(op, x, &axes, policy)?;
    if antialias {
        let dtype = op.dtype(x);
        let wide = op.cast(x, accumulator(if dtype.is_float() { dtype } else { DType::F32 }))?;
        let kernel = Antialias { mode, coordinates, cubic_coefficient, exclude_outside };
        let result = kernel.apply(op, wide, &sizes, scales.as_deref())?;
        return Ok(vec![op.cast(result, dtype)?]);
    }
    let mut coordinates = coordinates;
    if coordinates == CoordinateMode::AlignCorners
        && let Some(given) = &mut scales
        && stretch_corners(op, x, given)
    {
        coordinates = CoordinateMode::Asymmetric;
    }
    // Rounding of coordinates below f32 would move them; interpolation itself is in f32 for narrow floats too.
    let narrow = op.dtype(x).is_integer() && mode != ResizeMode::Nearest;
    let dtype = op.dtype(x);
    let x = if narrow { op.cast(x, DType::F32)? } else { x };
    let resize = Resize {
        mode,
        coordinates,
        rounding,
        sizes,
        scales,
        cubic_coefficient,
        exclude_outside,
        region,
        extrapolation_value,
    };
    let result = op.emit(resize, &[x])?;
    Ok(vec![op.cast(result, dtype)?])
}

/// For scales that give no whole sizes: ONNX aligns the corners of the size before it is rounded down, so that an output at x comes from
/// x · (size - 1) / (size · scale - 1). Replaces the scales by those that `asymmetric` needs for the same; whether it did.
fn stretch_corners(op: &OpImport<'_, '_, '_>, x: Handle, scales: &mut [f64]) -> bool {
    let sizes: Option<Vec<f64>> = op.ty(x).dims.iter().map(|dim| dim.known().map(|size| size as f64)).collect();
    let Some(sizes) = sizes else { return false };
    if sizes.iter().zip(scales.iter()).all(|(size, scale)| (size * scale).fract() == 0.0) {
        return false;
    }
    for (size, scale) in sizes.iter().zip(scales) {
        let ratio = (size * *scale - 1.0) / (size - 1.0);
        // One element in or out: every output comes from the first.
        *scale = if ratio.is_finite() && ratio > 0.0 { ratio } else { f64::MAX };
    }
    true
}

/// Starts then ends of the region of interest, in every dimension.
fn region(op: &OpImport<'_, '_, '_>, axes: &[usize], rank: usize) -> Result<Vec<f64>, ImportError> {
    let given = floats(op, 1)?;
    if given.len() != 2 * axes.len() {
        return Err(op.invalid(format!("a region of {} numbers for {} dimensions", given.len(), axes.len())));
    }
    let mut region: Vec<f64> = vec![0.0; rank].into_iter().chain(vec![1.0; rank]).collect();
    for (index, axis) in axes.iter().enumerate() {
        region[*axis] = given[index];
        region[rank + axis] = given[axes.len() + index];
    }
    Ok(region)
}

/// Result shape, and the scales where the node gives them (or they follow from the policy on aspect ratios).
fn sizes(
    op: &OpImport<'_, '_, '_>,
    x: Handle,
    axes: &[usize],
    policy: &str,
) -> Result<(Vec<DimExpr>, Option<Vec<f64>>), ImportError> {
    let mut sizes = op.extents(x);
    let present = |index: usize| -> Result<bool, ImportError> {
        // An empty list stands for an absent input.
        Ok(op.optional(index)?.is_some_and(|handle| op.dim_count(handle) != Some(0)))
    };
    let count = |found: usize| match found == axes.len() {
        true => Ok(()),
        false => Err(op.invalid(format!("{found} sizes or scales for {} dimensions", axes.len()))),
    };
    let mut scales = vec![1.0; sizes.len()];
    match (present(2)?, present(3)?) {
        (true, false) => {
            let given = floats(op, 2)?;
            count(given.len())?;
            for (axis, scale) in axes.iter().zip(given) {
                sizes[*axis] = scaled(op, &sizes[*axis], scale)?;
                scales[*axis] = scale;
            }
            Ok((sizes, Some(scales)))
        }
        (false, true) => {
            let given = op.known_dims(3, "the size of the result")?;
            count(given.len())?;
            if policy == "stretch" {
                for (axis, size) in axes.iter().zip(given) {
                    sizes[*axis] = size;
                }
                return Ok((sizes, None));
            }
            let mut ratios = Vec::new();
            for (axis, size) in axes.iter().zip(&given) {
                let from = op.fixed_dim(x, *axis, "`keep_aspect_ratio_policy`")?;
                let to =
                    size.as_constant().ok_or_else(|| op.unsupported("`keep_aspect_ratio_policy` over a free size"))?;
                ratios.push(to as f64 / from as f64);
            }
            let ratio = match policy {
                "not_larger" => ratios.iter().copied().fold(f64::INFINITY, f64::min),
                "not_smaller" => ratios.iter().copied().fold(0.0, f64::max),
                other => {
                    let expected = "stretch, not_larger or not_smaller";
                    return Err(op.node.attribute_error("keep_aspect_ratio_policy", expected, format!("is {other:?}")));
                }
            };
            if !ratio.is_finite() || ratio <= 0.0 {
                return Err(op.invalid("the aspect ratio of an empty image"));
            }
            for axis in axes {
                let size = (op.fixed_dim(x, *axis, "`keep_aspect_ratio_policy`")? as f64 * ratio).round();
                if size > (1u64 << 40) as f64 {
                    return Err(op.invalid("the result is too large"));
                }
                sizes[*axis] = DimExpr::constant(size as i64);
                scales[*axis] = ratio;
            }
            Ok((sizes, Some(scales)))
        }
        _ => Err(op.invalid("either scales or sizes must be given")),
    }
}
