//! If with a condition that is computed while the model runs.
//!
//! Both graphs are imported into regions of one operation. Results whose sizes differ along the first dimension are padded to the larger one;
//! the branch then gives the size too, by which they are cut.

use tenon_flow_dialect::{If, Schedule, yield_values};
use tenon_graph_dialect::operators::{Gather, GatherKind, Iota, Pad, PadMode, SetDimensionSize};
use tenon_graph_dialect::{DimExpr, TensorType};
use tenon_ir::{Block, Builder, Op, Value};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::graph::Graph;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};
use crate::value::ValueInfo;

/// A branch of the flow dialect.
pub(super) fn branch(op: &mut OpImport<'_, '_, '_>, condition: Handle, then: &Graph, other: &Graph) -> Outputs {
    let value = op.node.input(0).unwrap_or_default().to_owned();
    if !op.importer.keeps_control_flow {
        return Err(op.undecided(&value, "it is not known before the model runs"));
    }
    let location = op.importer.builder.builder().location();
    let condition = truth(op, condition, "the condition")?;
    let condition = op.materialise(condition)?;
    // What the branches give is known once they are imported; then the operation with results takes their operations.
    let scratch = If::build(op.importer.builder.builder(), condition, &[], Schedule::default());
    let scratch = scratch.map_err(|error| op.invalid(error.to_string()))?;
    let sides = [(scratch.then_body, then), (scratch.else_body, other)];
    let mut given = Vec::new();
    for (block, graph) in sides {
        let outputs = inside(op, block, |op, _| op.importer.inner_graph(graph, &[], &op.node.site));
        op.importer.builder.set_location(location);
        given.push(outputs?);
    }
    let (others, thens) = (given.pop().unwrap_or_default(), given.pop().unwrap_or_default());
    if thens.len() != others.len() {
        return Err(op.invalid(format!("its branches give {} and {} values", thens.len(), others.len())));
    }
    let mut joints = Vec::with_capacity(thens.len());
    for (index, (a, b)) in thens.iter().zip(&others).enumerate() {
        let declared = [then, other].map(|graph| declared_rank(graph.outputs.get(index)));
        joints.push(joint(op, &value, [*a, *b], declared)?);
    }
    // Each pair of sizes that differ is one result more: which of the two it is.
    let mut sizes: Vec<[i64; 2]> = Vec::new();
    joints.iter().filter_map(|joint| joint.sizes).for_each(|pair| {
        if !sizes.contains(&pair) {
            sizes.push(pair);
        }
    });
    let mut yielded = Vec::new();
    for (side, ((block, _), outputs)) in sides.into_iter().zip([thens, others]).enumerate() {
        yielded.push(inside(op, block, |op, _| {
            let mut values = Vec::new();
            for (output, joint) in outputs.iter().zip(&joints) {
                let value = op.padded(*output, joint)?;
                values.push(op.materialise(value)?);
            }
            for pair in &sizes {
                let size = op.integer(pair[side])?;
                values.push(op.materialise(size)?);
            }
            Ok(values)
        })?);
    }
    let context = op.importer.builder.context();
    let mut types = Vec::new();
    for joint in &joints {
        types.push(joint.ty.to_type(context).map_err(|error| op.semantic(error))?);
    }
    let scalar = TensorType::fixed(DType::I64, &[]).to_type(context).map_err(|error| op.semantic(error))?;
    types.resize(types.len() + sizes.len(), scalar);
    let flow = If::build(op.importer.builder.builder(), condition, &types, Schedule::default());
    let flow = flow.map_err(|error| op.invalid(error.to_string()))?;
    for ((from, _), (to, values)) in sides.into_iter().zip([flow.then_body, flow.else_body].into_iter().zip(yielded)) {
        move_body(from, op.importer.builder.builder().in_block(to), &values)?;
    }
    scratch.op.erase()?;
    let mut results = computed(op, flow.op)?;
    let counts = results.split_off(joints.len());
    let mut cuts = Vec::new();
    for (pair, count) in sizes.iter().zip(counts) {
        cuts.push((*pair, op.places("if", DimExpr::constant(pair[0].max(pair[1])), count)?));
    }
    for (result, joint) in results.iter_mut().zip(&joints) {
        if let Some((_, places)) = cuts.iter().find(|(pair, _)| joint.sizes == Some(*pair)) {
            *result = op.rows(*result, *places)?;
        }
    }
    Ok(results)
}

/// What a result is, whichever branch is taken.
pub(super) struct Joint {
    ty: TensorType,
    /// Its first dimension in each branch, where they differ.
    sizes: Option<[i64; 2]>,
}

/// The number of dimensions that a model declares of a value.
pub(super) fn declared_rank(value: Option<&ValueInfo>) -> Option<usize> {
    value?.tensor().ok()?.dims.as_ref().map(Vec::len)
}

fn joint(
    op: &OpImport<'_, '_, '_>,
    value: &str,
    [then, other]: [Handle; 2],
    declared: [Option<usize>; 2],
) -> Result<Joint, ImportError> {
    if let Some(found) = [then, other].into_iter().find_map(|value| op.importer.no_tensor(value)) {
        return Err(op.undecided(value, &format!("a branch gives {found}")));
    }
    let (a, b) = (op.ty(then).clone(), op.ty(other).clone());
    if a.dtype == b.dtype && a.dims == b.dims {
        return Ok(Joint { ty: TensorType::new(a.dtype, a.dims), sizes: None });
    }
    // Exporters are careless about the rank of a single element, and right in what they declare.
    if let ([Some(rank), Some(same)], Some(1), Some(1)) = (declared, op.dim_count(then), op.dim_count(other))
        && rank == same
        && a.dtype == b.dtype
    {
        return Ok(Joint { ty: TensorType::fixed(a.dtype, &vec![1; rank]), sizes: None });
    }
    let known = |ty: &TensorType| ty.dims.first().and_then(|dim| i64::try_from(dim.known()?).ok());
    match (known(&a), known(&b)) {
        (Some(first), Some(second)) if a.dtype == b.dtype && a.dims[1..] == b.dims[1..] => {
            let larger = if first > second { a } else { b };
            Ok(Joint { ty: TensorType::new(larger.dtype, larger.dims), sizes: Some([first, second]) })
        }
        _ => Err(op.undecided(value, &format!("one branch gives {a}, the other {b}"))),
    }
}

/// Imports into a block of a region.
pub(super) fn inside<'i, 'n, 'm, T>(
    op: &mut OpImport<'i, 'n, 'm>,
    block: Block<'m>,
    import: impl FnOnce(&mut OpImport<'i, 'n, 'm>, &[Handle]) -> Result<T, ImportError>,
) -> Result<T, ImportError> {
    let arguments = op.importer.builder.enter(block).map_err(|error| op.semantic(error))?;
    let result = import(op, &arguments);
    op.importer.builder.leave();
    result
}

/// Moves the operations of a block to another one, which then yields values.
pub(super) fn move_body<'m>(from: Block<'m>, to: Builder<'m>, values: &[Value<'m>]) -> Result<(), ImportError> {
    let end = yield_values(to, values)?;
    for inner in from.ops() {
        inner.move_before(end);
    }
    Ok(())
}

/// The results of an operation.
pub(super) fn computed<'m>(op: &mut OpImport<'_, '_, 'm>, made: Op<'m>) -> Outputs {
    let mut results = Vec::new();
    for value in made.results() {
        results.push(op.importer.builder.computed(value).map_err(|error| op.semantic(error))?);
    }
    Ok(results)
}

/// A value of one element as a truth value.
pub(super) fn truth(op: &mut OpImport<'_, '_, '_>, value: Handle, what: &str) -> Result<Handle, ImportError> {
    if op.dim_count(value) != Some(1) {
        return Err(op.invalid(format!("{what} must be one truth value, not {}", op.ty(value))));
    }
    let value = op.cast(value, DType::Bool)?;
    op.as_scalar(value)
}

impl<'m> OpImport<'_, '_, 'm> {
    /// The node's control flow depends on a value in a way that has no fixed form.
    pub(super) fn undecided(&self, value: &str, reason: &str) -> ImportError {
        ImportError::ControlFlow {
            site: Box::new(self.node.site.clone()),
            value: value.to_owned(),
            reason: reason.to_owned(),
        }
    }

    /// The value as a result of an operation.
    pub(super) fn materialise(&mut self, handle: Handle) -> Result<Value<'m>, ImportError> {
        self.importer.builder.materialise(handle).map_err(|error| self.semantic(error))
    }

    /// A result as large as the larger branch's.
    fn padded(&mut self, value: Handle, joint: &Joint) -> Result<Handle, ImportError> {
        if joint.sizes.is_none() {
            return self.reshape(value, joint.ty.dims.iter().map(|dim| dim.extent.clone()).collect());
        }
        let own = self.ty(value).dims.first().and_then(|dim| i64::try_from(dim.known()?).ok());
        let missing = match (joint.sizes, own) {
            (Some([first, second]), Some(own)) => first.max(second) - own,
            _ => 0,
        };
        if missing == 0 {
            return Ok(value);
        }
        let zeros = vec![DimExpr::constant(0); joint.ty.rank()];
        let mut high = zeros.clone();
        high[0] = missing.into();
        let zero = self.scalar(0.0, joint.ty.dtype)?;
        self.emit(Pad { mode: PadMode::Constant, low: zeros, high }, &[value, zero])
    }

    /// The places 0, 1, 2, … below a size that is computed; at most `most`.
    pub(super) fn places(&mut self, base: &str, most: DimExpr, size: Handle) -> Result<Handle, ImportError> {
        let name = self.importer.builder.extent_name(base);
        self.places_of(&name, most, size)
    }

    /// As [`Self::places`], with the name of the size.
    pub(super) fn places_of(&mut self, name: &str, most: DimExpr, size: Handle) -> Result<Handle, ImportError> {
        let all = self.emit(Iota { dtype: DType::I64, shape: vec![most], axis: 0 }, &[])?;
        let places = self.emit(SetDimensionSize { extent: DimExpr::symbol(name) }, &[all, size])?;
        self.importer.builder.set_extent(name, size).map_err(|error| self.invalid(error.to_string()))?;
        Ok(places)
    }

    /// Slices along the first dimension.
    pub(super) fn rows(&mut self, value: Handle, places: Handle) -> Result<Handle, ImportError> {
        self.emit(Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, &[value, places])
    }
}
