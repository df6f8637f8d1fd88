//! Interpolation of images.

use tenon_graph_dialect::operators::{CoordinateMode, Resize, ResizeMode, ResizeRounding};

use crate::import::op::{OpImport, Results, one};

/// upsample_nearest, _upsample_nearest_exact, linear, bilinear, trilinear and bicubic, of every rank.
pub(super) fn upsample(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor(if op.has("input") { "input" } else { "self" })?;
    let rank = op.rank(x);
    if rank < 3 {
        return Err(op.invalid("an image is needed"));
    }
    let aligned = op.has("align_corners") && op.flag("align_corners")?;
    let (mode, coordinates, rounding) = match op.name {
        name if name.contains("exact") => {
            (ResizeMode::Nearest, CoordinateMode::HalfPixel, ResizeRounding::RoundPreferCeil)
        }
        name if name.contains("nearest") => (ResizeMode::Nearest, CoordinateMode::Asymmetric, ResizeRounding::Floor),
        name => {
            let mode = if name.contains("cubic") { ResizeMode::Cubic } else { ResizeMode::Linear };
            let coordinates = if aligned { CoordinateMode::AlignCorners } else { CoordinateMode::HalfPixel };
            (mode, coordinates, ResizeRounding::Floor)
        }
    };
    // Sizes are those that the program declares, which follow from `output_size` or the factors.
    let sizes: Vec<_> = op.declared(0)?.dims.into_iter().map(|dim| dim.extent).collect();
    if sizes.len() != rank {
        return Err(op.invalid("the result has another rank"));
    }
    let mut given: Vec<f64> = Vec::new();
    if op.has("scale_factors") {
        if !op.is_none("scale_factors") {
            given = op.floats("scale_factors")?;
        }
    } else {
        for name in ["scales", "scales_d", "scales_h", "scales_w"] {
            if op.has(name)
                && let Some(scale) = op.optional_float(name)?
            {
                given.push(scale);
            }
        }
    }
    let scales = match given.len() == rank - 2 && !aligned {
        true => Some([1.0, 1.0].into_iter().chain(given).collect()),
        false => None,
    };
    let resize = Resize {
        mode,
        coordinates,
        rounding,
        sizes,
        scales,
        cubic_coefficient: -0.75,
        exclude_outside: false,
        region: None,
        extrapolation_value: 0.0,
    };
    one(op.emit_one(resize, &[x])?)
}
