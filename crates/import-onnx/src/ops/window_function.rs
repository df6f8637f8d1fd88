//! HannWindow, HammingWindow and BlackmanWindow: sums of cosines.

use tenon_graph_dialect::operators::{Function, Iota};
use tenon_tensor::DType;

use super::cast::type_attribute;
use super::heads::extent;
use crate::import::node::{OpImport, Outputs};

/// `a₀ − a₁ cos(2π n / N) + a₂ cos(4π n / N)` with N the size, or one less where the window is symmetric. Computed in f64, rounded once.
pub(super) fn window_function(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let size = op.known_dims(0, "the size of the result")?;
    let [size] = size.as_slice() else { return Err(op.invalid("the size must be one number")) };
    if size.as_constant().is_some_and(|size| size < 0) {
        return Err(op.invalid(format!("a window of {size} elements")));
    }
    let size = size.clone();
    let dtype = type_attribute(op, "output_datatype")?.unwrap_or(DType::F32);
    let periodic = op.node.flag_or("periodic", true)?;
    let weights = match op.node.op_type() {
        "HannWindow" => [0.5, 0.5, 0.0],
        "HammingWindow" => [25.0 / 46.0, 21.0 / 46.0, 0.0],
        _ => [0.42, 0.5, 0.08],
    };
    let places = op.emit(Iota { dtype: DType::I64, shape: vec![size.clone()], axis: 0 }, &[])?;
    let places = op.cast(places, DType::F64)?;
    let mut span = extent(op, size);
    if !periodic {
        let one = op.scalar(1.0, DType::I64)?;
        span = op.apply(Function::Subtract, &[span, one])?;
    }
    let span = op.cast(span, DType::F64)?;
    let mut wave = |turns: f64, weight: f64| {
        let turn = op.scalar(turns * std::f64::consts::TAU, DType::F64)?;
        let angle = op.apply(Function::Multiply, &[places, turn])?;
        let angle = op.apply(Function::Divide, &[angle, span])?;
        let cosine = op.apply(Function::Cos, &[angle])?;
        let weight = op.scalar(weight, DType::F64)?;
        op.apply(Function::Multiply, &[cosine, weight])
    };
    let first = wave(1.0, weights[1])?;
    let second = if weights[2] == 0.0 { None } else { Some(wave(2.0, weights[2])?) };
    let mean = op.scalar(weights[0], DType::F64)?;
    let mut window = op.apply(Function::Subtract, &[mean, first])?;
    if let Some(second) = second {
        window = op.apply(Function::Add, &[window, second])?;
    }
    Ok(vec![op.cast(window, dtype)?])
}
