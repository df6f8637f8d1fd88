//! DFT and STFT as products with matrices of cosines and sines.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Concat, Contract, Function, Gather, GatherKind, Iota, Pad, PadMode};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, accumulator};

/// Most elements of a matrix: a transform of a longer signal is refused.
const LARGEST: i64 = 1 << 24;

/// Real and imaginary part of a signal, the transformed dimension last.
struct Signal {
    real: Handle,
    imaginary: Option<Handle>,
}

/// What is computed of `Σ x e^(∓2πi kn/N)`.
#[derive(Clone, Copy)]
struct Transform {
    /// N.
    length: i64,
    /// From half of a spectrum to real numbers.
    inverse: bool,
    /// Half of the spectrum: of the result, or of the operand of an inverse.
    onesided: bool,
}

impl Transform {
    /// Elements of the spectrum.
    fn spectrum(self) -> i64 {
        if self.onesided { self.length / 2 + 1 } else { self.length }
    }

    /// Numbers of elements that are taken, and that are given.
    fn sizes(self) -> (i64, i64) {
        if self.inverse { (self.spectrum(), self.length) } else { (self.length, self.spectrum()) }
    }

    /// The matrix of cosines or sines. Of a half spectrum, what the other half adds is counted in.
    fn matrix(self, op: &mut OpImport<'_, '_, '_>, sine: bool, dtype: DType) -> Result<Handle, ImportError> {
        let (rows, columns) = self.sizes();
        if rows.saturating_mul(columns) > LARGEST {
            return Err(op.unsupported(format!("a Fourier transform of length {}", self.length)));
        }
        let unit = if self.inverse { 1.0 / self.length as f64 } else { 1.0 };
        let mut values = Vec::with_capacity((rows * columns) as usize);
        for row in 0..rows {
            let twice = self.inverse && self.onesided && row != 0 && 2 * row != self.length;
            let weight = if twice { 2.0 * unit } else { unit };
            for column in 0..columns {
                let angle = (row * column % self.length) as f64 / self.length as f64 * std::f64::consts::TAU;
                values.push(weight * if sine { angle.sin() } else { angle.cos() });
            }
        }
        op.literal(dtype, &[rows as usize, columns as usize], &values)
    }

    /// The transform along the last dimension.
    fn apply(self, op: &mut OpImport<'_, '_, '_>, signal: &Signal) -> Result<Signal, ImportError> {
        let dtype = op.dtype(signal.real);
        let (cosines, sines) = (self.matrix(op, false, dtype)?, self.matrix(op, true, dtype)?);
        let rank = op.rank(signal.real);
        let labels: String = ('a'..='x').take(rank - 1).collect();
        if labels.len() < rank - 1 {
            return Err(op.unsupported(format!("a Fourier transform of rank {rank}")));
        }
        let mut product = |value: Handle, matrix: Handle| {
            let contract = Contract {
                lhs: format!("{labels}y"),
                rhs: "yz".to_owned(),
                result: format!("{labels}z"),
                accumulate: accumulator(dtype),
                dtype,
            };
            op.emit(contract, &[value, matrix])
        };
        let real = product(signal.real, cosines)?;
        let turned = signal.imaginary.map(|imaginary| product(imaginary, sines)).transpose()?;
        if self.inverse {
            // The real part of (a + bi)(cos + i sin): the other one is 0.
            let real = match turned {
                Some(turned) => op.apply(Function::Subtract, &[real, turned])?,
                None => real,
            };
            return Ok(Signal { real, imaginary: None });
        }
        // (a + bi)(cos − i sin).
        let across = product(signal.real, sines)?;
        let along = signal.imaginary.map(|imaginary| product(imaginary, cosines)).transpose()?;
        let real = match turned {
            Some(turned) => op.apply(Function::Add, &[real, turned])?,
            None => real,
        };
        let imaginary = match along {
            Some(along) => op.apply(Function::Subtract, &[along, across])?,
            None => op.apply(Function::Negate, &[across])?,
        };
        Ok(Signal { real, imaginary: Some(imaginary) })
    }
}

/// The parts of a value whose last dimension holds one or two numbers, in a type that sums them well.
fn parts(op: &mut OpImport<'_, '_, '_>, x: Handle) -> Result<Signal, ImportError> {
    let last = op.rank(x) - 1;
    let count = op.fixed_dim(x, last, "a Fourier transform")?;
    let mut dims = op.extents(x);
    dims.truncate(last);
    let mut part = |index: i64| {
        let slice = op.slice(x, last, index.into(), 1.into())?;
        let part = op.reshape(slice, dims.clone())?;
        op.cast(part, accumulator(op.dtype(x)))
    };
    match count {
        1 => Ok(Signal { real: part(0)?, imaginary: None }),
        2 => Ok(Signal { real: part(0)?, imaginary: Some(part(1)?) }),
        _ => Err(op.invalid(format!("the last dimension must have 1 or 2 elements, not {count}"))),
    }
}

/// Both parts side by side in a new last dimension.
fn join(op: &mut OpImport<'_, '_, '_>, signal: &Signal, dtype: DType) -> Result<Handle, ImportError> {
    let mut dims = op.extents(signal.real);
    dims.push(1.into());
    let mut list = vec![op.reshape(signal.real, dims.clone())?];
    if let Some(imaginary) = signal.imaginary {
        list.push(op.reshape(imaginary, dims.clone())?);
    }
    let joined = match list.as_slice() {
        [only] => *only,
        _ => op.emit(Concat { axis: dims.len() as i64 - 1 }, &list)?,
    };
    op.cast(joined, dtype)
}

/// Dimension `axis` moved to the end, or from there back to its place.
fn moved(op: &mut OpImport<'_, '_, '_>, x: Handle, axis: usize, back: bool) -> Result<Handle, ImportError> {
    let mut order: Vec<i64> = (0..op.rank(x) as i64).collect();
    if back {
        let last = order.len() - 1;
        order.remove(last);
        order.insert(axis, last as i64);
    } else {
        let from = order.remove(axis);
        order.push(from);
    }
    op.transpose(x, order)
}

/// Cut, or padded with zeros, to `size` along the last dimension.
fn fitted(op: &mut OpImport<'_, '_, '_>, x: Handle, found: i64, size: i64) -> Result<Handle, ImportError> {
    if found == size {
        return Ok(x);
    }
    let rank = op.rank(x);
    let low = vec![DimExpr::constant(0); rank];
    let mut high = low.clone();
    high[rank - 1] = DimExpr::constant(size - found);
    let zero = op.scalar(0.0, op.dtype(x))?;
    op.emit(Pad { mode: PadMode::Constant, low, high }, &[x, zero])
}

/// DFT: the axis is an attribute in version 17, then an input.
pub(super) fn dft(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=if op.since < 20 { 2 } else { 3 })?;
    let x = op.input(0)?;
    let dtype = op.dtype(x);
    let rank = op.rank_at_least(x, 2)?;
    let axis = match op.since {
        ..20 => op.node.int_or("axis", 1)?,
        _ if op.optional(2)?.is_some() => op.known_int(2, "the axis")?,
        _ => -2,
    };
    let axis = op.axis(axis, rank)?;
    if axis == rank - 1 {
        return Err(op.invalid("the last dimension holds the parts of a number and is no axis"));
    }
    let inverse = op.node.flag_or("inverse", false)?;
    let onesided = op.node.flag_or("onesided", false)?;
    if inverse && !onesided {
        // ONNX's recorded values carry 1.9e-7 where the exact result is 0, beyond the tolerance of its runner: there is nothing to hold it to.
        return Err(op.unsupported("the inverse transform of a whole spectrum"));
    }
    let found = op.fixed_dim(x, axis, "a Fourier transform")?;
    let length = match op.optional(1)? {
        Some(_) => op.known_int(1, "the size of the result")?,
        None if inverse && onesided => 2 * (found - 1),
        None => found,
    };
    if length < 1 {
        return Err(op.invalid(format!("a Fourier transform of length {length}")));
    }
    let mut signal = parts(op, x)?;
    if onesided && !inverse && signal.imaginary.is_some() {
        return Err(op.invalid("half of a spectrum is that of real numbers"));
    }
    let transform = Transform { length, inverse, onesided };
    let taken = transform.sizes().0;
    let mut prepare = |value: Handle| {
        let value = moved(op, value, axis, false)?;
        fitted(op, value, found, taken)
    };
    signal = Signal { real: prepare(signal.real)?, imaginary: signal.imaginary.map(prepare).transpose()? };
    let result = transform.apply(op, &signal)?;
    let real = moved(op, result.real, axis, true)?;
    let imaginary = result.imaginary.map(|value| moved(op, value, axis, true)).transpose()?;
    Ok(vec![join(op, &Signal { real, imaginary }, dtype)?])
}

/// STFT: frames of the signal, times a window, transformed.
pub(super) fn stft(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=4)?;
    let x = op.input(0)?;
    let dtype = op.dtype(x);
    if op.rank(x) != 3 {
        return Err(op.invalid(format!("the signal must be [batch, length, 1 or 2], not {}", op.ty(x))));
    }
    let what = "the size of the result";
    let step = op.known_int(1, what)?;
    let window = op.optional(2)?;
    let length = match (op.optional(3)?, window) {
        (Some(_), _) => op.known_int(3, what)?,
        (None, Some(window)) if op.rank(window) == 1 => op.fixed_dim(window, 0, "a window")?,
        (None, Some(window)) => return Err(op.invalid(format!("the window must be a list, not {}", op.ty(window)))),
        (None, None) => op.fixed_dim(x, 1, "a frame")?,
    };
    let onesided = op.node.flag_or("onesided", true)?;
    if step < 1 || length < 1 {
        return Err(op.invalid(format!("frames of {length} elements in steps of {step}")));
    }
    let signal = parts(op, x)?;
    if onesided && signal.imaginary.is_some() {
        return Err(op.invalid("half of a spectrum is that of real numbers"));
    }
    let rest = op.extents(x)[1].sub(&DimExpr::constant(length));
    let frames = rest.and_then(|rest| rest.floor_div(step)).and_then(|count| count.add(&DimExpr::constant(1)));
    let frames = frames.ok_or_else(|| op.unsupported("a signal this long"))?;
    if frames.as_constant().is_some_and(|frames| frames < 0) {
        return Err(op.invalid(format!("a signal shorter than a frame of {length}")));
    }
    let begin = op.emit(Iota { dtype: DType::I64, shape: vec![frames, 1.into()], axis: 0 }, &[])?;
    let stride = op.scalar(step as f64, DType::I64)?;
    let begin = op.apply(Function::Multiply, &[begin, stride])?;
    let place = op.emit(Iota { dtype: DType::I64, shape: vec![length.into()], axis: 0 }, &[])?;
    let places = op.apply(Function::Add, &[begin, place])?;
    let window = match window {
        Some(window) => Some(op.cast(window, accumulator(dtype))?),
        None => None,
    };
    let mut framed = |value: Handle| {
        let frames = op.emit(Gather { kind: GatherKind::Take, axis: 1, batch_dims: 0 }, &[value, places])?;
        match window {
            Some(window) => op.apply(Function::Multiply, &[frames, window]),
            None => Ok(frames),
        }
    };
    let signal = Signal { real: framed(signal.real)?, imaginary: signal.imaginary.map(framed).transpose()? };
    let result = Transform { length, inverse: false, onesided }.apply(op, &signal)?;
    Ok(vec![join(op, &result, dtype)?])
}
