//! Which points of the shape space are compiled.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use tenon_ir::Module;
use tenon_shape_passes::{Axis, Entry, Point, ShapeSpace};

use crate::driver::Request;
use crate::{Diagnostic, Failure};

/// `batch=4,seq=64`; `None` for the one point of a space without dimensions.
pub(crate) fn label(point: &Point) -> Option<String> {
    let parts: Vec<_> = point.iter().map(|(name, size)| format!("{name}={size}")).collect();
    (!parts.is_empty()).then(|| parts.join(","))
}

/// The points that a request asks for.
pub(super) fn chosen(space: &ShapeSpace, module: &Module<'_>, request: &Request) -> Result<Vec<Point>, Failure> {
    let named = request.bucket.clone();
    let given = match &request.input_shapes {
        Some(shapes) => of_inputs(module, shapes)?,
        None => Point::new(),
    };
    let wanted: Point = named.iter().chain(&given).cloned().collect();
    // A padded dimension holds every size up to its own.
    let fits = |point: &Point, (name, size): &(String, u64)| {
        point.iter().any(|(dim, own)| dim == name && (own == size || own > size && space.is_padded(name)))
    };
    let holds = |point: &Point| named.iter().all(|dim| point.contains(dim)) && given.iter().all(|dim| fits(point, dim));
    let points = space.points();
    let known = |name: &str| points.iter().any(|point| point.iter().any(|(dim, _)| dim == name));
    if let Some((name, _)) = wanted.iter().find(|(name, _)| !known(name)) {
        let message = format!("the model has no free dimension `{name}`");
        return Err(Diagnostic::new("E0034", message).with_help(help(&points)).into());
    }
    let mut chosen: Vec<_> = points.iter().filter(|point| holds(point)).cloned().collect();
    if chosen.is_empty() {
        let message = format!("no bucket has {}", label(&wanted).unwrap_or_default());
        return Err(Diagnostic::new("E0034", message).with_help(help(&points)).into());
    }
    // What the program counts itself no input shows: the bucket that counts furthest holds whatever a smaller one does.
    let of_inputs = symbols_of_inputs(module)?;
    let counted = |name: &str| !of_inputs.contains(name);
    let decided =
        |axis: &Axis| axis.sizes.len() == 1 || counted(&axis.name) || wanted.iter().any(|(name, _)| *name == axis.name);
    if request.input_shapes.is_some() && space.axes().iter().all(decided) {
        let counts = |point: &Point| -> Vec<u64> {
            point.iter().filter(|(name, _)| counted(name)).map(|(_, most)| *most).collect()
        };
        // The cheapest of those that hold the inputs.
        chosen.sort_by_key(|point| (Reverse(counts(point)), cost(point)));
        chosen.truncate(1);
    }
    if request.input_shapes.is_some() && chosen.len() > 1 {
        let message = "the given inputs do not say which bucket is meant";
        return Err(Diagnostic::new("E0034", message).with_help(format!("give every input; {}", help(&points))).into());
    }
    Ok(chosen)
}

/// What orders buckets that all hold a request: the elements of a tensor with every dimension, then the sizes themselves.
pub(crate) fn cost(point: &Point) -> (u128, Vec<u64>) {
    let volume = point.iter().fold(1u128, |volume, (_, size)| volume.saturating_mul(u128::from(*size)));
    (volume, point.iter().map(|(_, size)| *size).collect())
}

fn help(points: &[Point]) -> String {
    const SHOWN: usize = 16;
    let labels: Vec<_> = points.iter().take(SHOWN).filter_map(label).collect();
    if labels.is_empty() {
        return "the model has one bucket, without named dimensions".to_owned();
    }
    let more = if points.len() > SHOWN { format!(" and {} more", points.len() - SHOWN) } else { String::new() };
    format!("buckets are {}{more}", labels.join("; "))
}

fn symbols_of_inputs(module: &Module<'_>) -> Result<BTreeSet<String>, Failure> {
    let inputs = Entry::of(module)?.inputs;
    Ok(inputs.iter().flat_map(|port| &port.ty.dims).flat_map(|dim| dim.extent.symbols()).collect())
}

/// Sizes of the free dimensions of `@main`, by the shapes of inputs. Shapes that do not fit are left to the check of each input.
fn of_inputs(module: &Module<'_>, shapes: &[(String, Vec<u64>)]) -> Result<Point, Failure> {
    let mut point = Point::new();
    for port in Entry::of(module)?.inputs {
        let Some((_, shape)) = shapes.iter().find(|(name, _)| *name == port.name) else { continue };
        for (dim, size) in port.ty.dims.iter().zip(shape) {
            let Some(symbol) = dim.extent.as_symbol() else { continue };
            match point.iter().find(|(name, _)| name == symbol) {
                Some((_, other)) if other != size => {
                    let message =
                        format!("dimension `{symbol}` is {size} in input `{}` and {other} in another one", port.name);
                    return Err(Diagnostic::new("E0034", message).with_help("give inputs whose shapes agree").into());
                }
                Some(_) => {}
                None => point.push((symbol.to_owned(), *size)),
            }
        }
    }
    Ok(point)
}
