//! What an operator's importer sees of its node.

pub(crate) use tenon_graph_builder::{accumulator, product};
use tenon_graph_dialect::operators::{Function, ReduceKind};
use tenon_graph_dialect::{Dim, DimExpr, Operator, Relation, SemanticError, TensorType};
use tenon_tensor::{DType, Tensor};

use super::importer::{Handle, Importer};
use crate::error::ImportError;
use crate::node::Node;

/// A node being imported: its inputs, its attributes (through `node`), and what emits operations.
///
/// `since` is the version of the operator itself: the last one of its table row that is not newer than the model's operator set.
pub(crate) struct OpImport<'i, 'n, 'm> {
    pub(crate) importer: &'i mut Importer<'m>,
    pub(crate) node: &'n Node,
    pub(crate) since: i64,
}

/// What an importer gives: the outputs in order, as many as are supported.
pub(crate) type Outputs = Result<Vec<Handle>, ImportError>;

impl<'i, 'n, 'm> OpImport<'i, 'n, 'm> {
    pub(crate) fn new(importer: &'i mut Importer<'m>, node: &'n Node, since: i64) -> Self {
        OpImport { importer, node, since }
    }

    // ---- Errors ----

    /// The node's inputs or attributes are not what the operator takes.
    pub(crate) fn invalid(&self, reason: impl Into<String>) -> ImportError {
        ImportError::Inputs { site: Box::new(self.node.site.clone()), reason: reason.into() }
    }

    /// `what` of the operator cannot be expressed.
    pub(crate) fn unsupported(&self, what: impl Into<String>) -> ImportError {
        ImportError::Option { site: Box::new(self.node.site.clone()), what: what.into() }
    }

    pub(crate) fn semantic(&self, source: SemanticError) -> ImportError {
        ImportError::Semantic { site: Box::new(self.node.site.clone()), source }
    }

    // ---- Inputs ----

    /// Refuses a node with fewer or more inputs.
    pub(crate) fn takes(&self, count: std::ops::RangeInclusive<usize>) -> Result<(), ImportError> {
        let given = self.node.inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        if count.contains(&given) {
            return Ok(());
        }
        let expected = match count.start() == count.end() {
            true => format!("{}", count.start()),
            false => format!("{} to {}", count.start(), count.end()),
        };
        Err(self.invalid(format!("the operator takes {expected} inputs, the node has {given}")))
    }

    /// An input that must be there.
    pub(crate) fn input(&self, index: usize) -> Result<Handle, ImportError> {
        self.optional(index)?.ok_or_else(|| self.invalid(format!("input number {index} is missing")))
    }

    /// An input that may be left out.
    pub(crate) fn optional(&self, index: usize) -> Result<Option<Handle>, ImportError> {
        let Some(handle) = self.any(index)? else { return Ok(None) };
        match self.importer.no_tensor(handle) {
            None => Ok(Some(handle)),
            Some(found) => Err(ImportError::NoTensor {
                site: Box::new(self.node.site.clone()),
                name: self.node.input(index).unwrap_or_default().to_owned(),
                found,
            }),
        }
    }

    /// An input that may be left out, and be a sequence or an optional.
    pub(crate) fn any(&self, index: usize) -> Result<Option<Handle>, ImportError> {
        let Some(name) = self.node.input(index) else { return Ok(None) };
        match self.importer.lookup(name) {
            Some(handle) => Ok(Some(handle)),
            None => Err(ImportError::Undefined { what: self.node.site.to_string(), name: name.to_owned() }),
        }
    }

    /// All inputs of a variadic operator.
    pub(crate) fn inputs(&self) -> Result<Vec<Handle>, ImportError> {
        (0..self.node.inputs.len()).map(|index| self.input(index)).collect()
    }

    /// Whether output `index` is wanted.
    pub(crate) fn wants(&self, index: usize) -> bool {
        self.node.output(index).is_some()
    }

    fn not_known(&self, index: usize, what: &'static str) -> ImportError {
        let value = self.node.input(index).unwrap_or_default().to_owned();
        ImportError::NotKnown { site: Box::new(self.node.site.clone()), value, what }
    }

    /// The tensor of an input that must be a constant; `what` it decides.
    pub(crate) fn known_tensor(&self, index: usize, what: &'static str) -> Result<Tensor, ImportError> {
        let handle = self.input(index)?;
        self.importer.builder.tensor(handle).cloned().ok_or_else(|| self.not_known(index, what))
    }

    /// The elements of an input that must be known numbers.
    pub(crate) fn known_ints(&self, index: usize, what: &'static str) -> Result<Vec<i64>, ImportError> {
        let values = self.known_dims(index, what)?;
        values.iter().map(DimExpr::as_constant).collect::<Option<_>>().ok_or_else(|| self.not_known(index, what))
    }

    /// The only element of an input that must be a known number.
    pub(crate) fn known_int(&self, index: usize, what: &'static str) -> Result<i64, ImportError> {
        match self.known_ints(index, what)?.as_slice() {
            [value] => Ok(*value),
            other => Err(self.invalid(format!("input number {index} must have one element, not {}", other.len()))),
        }
    }

    /// The elements of an input that must be known numbers or expressions.
    pub(crate) fn known_dims(&self, index: usize, what: &'static str) -> Result<Vec<DimExpr>, ImportError> {
        let handle = self.input(index)?;
        if !self.dtype(handle).is_integer() {
            return Err(self.invalid(format!("input number {index} must be of integers, not {}", self.dtype(handle))));
        }
        self.importer.builder.dims(handle).ok_or_else(|| self.not_known(index, what))
    }

    // ---- Types ----

    pub(crate) fn ty(&self, handle: Handle) -> &TensorType {
        self.importer.builder.ty(handle)
    }

    pub(crate) fn dtype(&self, handle: Handle) -> DType {
        self.ty(handle).dtype
    }

    pub(crate) fn rank(&self, handle: Handle) -> usize {
        self.ty(handle).rank()
    }

    /// The number of elements, where it is fixed.
    pub(crate) fn dim_count(&self, handle: Handle) -> Option<u64> {
        self.ty(handle).known_shape()?.into_iter().try_fold(1u64, |count, size| count.checked_mul(size))
    }

    pub(crate) fn dim(&self, handle: Handle, axis: usize) -> &Dim {
        &self.ty(handle).dims[axis]
    }

    /// Extents of all dimensions.
    pub(crate) fn extents(&self, handle: Handle) -> Vec<DimExpr> {
        self.ty(handle).dims.iter().map(|dim| dim.extent.clone()).collect()
    }

    /// The number of elements along an axis, which `what` needs to be fixed.
    pub(crate) fn fixed_dim(&self, handle: Handle, axis: usize, what: &str) -> Result<i64, ImportError> {
        let size = self.dim(handle, axis).known().and_then(|size| i64::try_from(size).ok());
        size.ok_or_else(|| {
            self.free_dimension(format!("{what} over dimension {axis} of {}, which is not fixed,", self.ty(handle)))
        })
    }

    /// `what` cannot be expressed of a dimension whose size the model leaves open.
    pub(crate) fn free_dimension(&self, what: impl Into<String>) -> ImportError {
        ImportError::FreeDimension { site: Box::new(self.node.site.clone()), what: what.into() }
    }

    /// An axis counted from the front.
    pub(crate) fn axis(&self, axis: i64, rank: usize) -> Result<usize, ImportError> {
        let index = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
        match usize::try_from(index) {
            Ok(index) if index < rank => Ok(index),
            _ => Err(self.invalid(format!("axis {axis} is outside rank {rank}"))),
        }
    }

    /// Distinct axes counted from the front, sorted.
    pub(crate) fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>, ImportError> {
        let mut list = axes.iter().map(|axis| self.axis(*axis, rank)).collect::<Result<Vec<_>, _>>()?;
        list.sort_unstable();
        match list.windows(2).any(|pair| pair[0] == pair[1]) {
            true => Err(self.invalid(format!("the axes {axes:?} name one twice"))),
            false => Ok(list),
        }
    }

    /// Refuses a rank below `least`.
    pub(crate) fn rank_at_least(&self, handle: Handle, least: usize) -> Result<usize, ImportError> {
        match self.rank(handle) {
            rank if rank >= least => Ok(rank),
            rank => Err(self.invalid(format!("an input of at least {least} dimensions is needed, not {rank}"))),
        }
    }

    // ---- Operations ----

    fn emitted<T>(&self, result: Result<T, SemanticError>) -> Result<T, ImportError> {
        result.map_err(|error| self.semantic(error))
    }

    /// Applies an operator with one result.
    pub(crate) fn emit(&mut self, operator: impl Into<Operator>, operands: &[Handle]) -> Result<Handle, ImportError> {
        let result = self.importer.builder.emit_one(operator, operands);
        self.emitted(result)
    }

    /// Refuses known indices that point outside of dimensions of `of`, those of a tuple in order; -1 is the last element with `from_end`.
    pub(crate) fn check_indices(
        &mut self,
        indices: Handle,
        of: Handle,
        axes: std::ops::Range<usize>,
        from_end: bool,
    ) -> Result<(), ImportError> {
        let sizes = self.extents(of).get(axes).unwrap_or_default().to_vec();
        let checked = self.importer.builder.check_indices("indices", indices, &sizes, from_end);
        self.emitted(checked)
    }

    /// Demands that a size is at least `least`.
    pub(crate) fn require_at_least(&mut self, least: i64, size: DimExpr, reason: &str) -> Result<(), ImportError> {
        let demanded = self.importer.builder.require(DimExpr::constant(least), Relation::AtMost, size, reason);
        self.emitted(demanded)
    }

    /// Length of index tuples, the last dimension; 0 where it is not known.
    pub(crate) fn tuple_length(&self, indices: Handle) -> usize {
        self.ty(indices).dims.last().and_then(Dim::known).and_then(|length| usize::try_from(length).ok()).unwrap_or(0)
    }

    /// Applies an operator.
    pub(crate) fn emit_all(&mut self, operator: impl Into<Operator>, operands: &[Handle]) -> Outputs {
        let result = self.importer.builder.emit(&operator.into(), operands);
        self.emitted(result)
    }

    /// A scalar function.
    pub(crate) fn apply(&mut self, function: Function, operands: &[Handle]) -> Result<Handle, ImportError> {
        let result = self.importer.builder.apply(function, operands);
        self.emitted(result)
    }

    /// A constant scalar, rounded to the type.
    pub(crate) fn scalar(&mut self, value: f64, dtype: DType) -> Result<Handle, ImportError> {
        self.literal(dtype, &[], &[value])
    }

    /// A small constant.
    pub(crate) fn literal(&mut self, dtype: DType, shape: &[usize], values: &[f64]) -> Result<Handle, ImportError> {
        let result = self.importer.builder.literal(dtype, shape, values);
        self.emitted(result)
    }

    /// Constant integers: a list.
    pub(crate) fn integers(&mut self, values: &[i64]) -> Result<Handle, ImportError> {
        let result = self.importer.builder.integers(values);
        self.emitted(result)
    }

    /// A whole number as an i64 scalar.
    pub(crate) fn integer(&mut self, value: i64) -> Result<Handle, ImportError> {
        let tensor = Tensor::from_i64(Vec::new(), &[value]).map_err(|error| self.invalid(error.to_string()))?;
        Ok(self.importer.builder.constant(tensor))
    }

    /// An extent as an i64 scalar.
    pub(crate) fn extent_value(&mut self, extent: &DimExpr) -> Result<Handle, ImportError> {
        Ok(self.importer.builder.symbolic(DType::I64, &[], vec![extent.clone()]))
    }

    /// Conversion; the value itself where it has the type.
    pub(crate) fn cast(&mut self, handle: Handle, dtype: DType) -> Result<Handle, ImportError> {
        let result = self.importer.builder.cast(handle, dtype);
        self.emitted(result)
    }

    /// Demands a relation between sizes, of every request where it does not hold always.
    pub(crate) fn require(
        &mut self,
        left: DimExpr,
        relation: Relation,
        right: DimExpr,
        reason: &str,
    ) -> Result<(), ImportError> {
        let result = self.importer.builder.require(left, relation, right, reason);
        self.emitted(result)
    }

    /// Another shape; the value itself where it has the shape.
    pub(crate) fn reshape(&mut self, handle: Handle, shape: Vec<DimExpr>) -> Result<Handle, ImportError> {
        let result = self.importer.builder.reshape(handle, shape);
        self.emitted(result)
    }

    /// Broadcast to a shape; the value itself where it has the shape.
    pub(crate) fn broadcast(&mut self, handle: Handle, shape: Vec<DimExpr>) -> Result<Handle, ImportError> {
        let result = self.importer.builder.broadcast(handle, shape);
        self.emitted(result)
    }

    /// Dimensions in another order; the value itself where that is the same.
    pub(crate) fn transpose(&mut self, handle: Handle, permutation: Vec<i64>) -> Result<Handle, ImportError> {
        let result = self.importer.builder.transpose(handle, permutation);
        self.emitted(result)
    }

    /// Reduction; the value itself where there are no axes.
    pub(crate) fn reduce(
        &mut self,
        kind: ReduceKind,
        handle: Handle,
        axes: &[usize],
        keep_dims: bool,
    ) -> Result<Handle, ImportError> {
        let result = self.importer.builder.reduce(kind, handle, axes, keep_dims);
        self.emitted(result)
    }

    /// `size` elements from `start` along one axis.
    pub(crate) fn slice(
        &mut self,
        handle: Handle,
        axis: usize,
        start: DimExpr,
        size: DimExpr,
    ) -> Result<Handle, ImportError> {
        let result = self.importer.builder.slice(handle, axis, start, size);
        self.emitted(result)
    }

    /// The part at `index` along an axis, without that dimension.
    pub(crate) fn element(&mut self, handle: Handle, axis: usize, index: i64) -> Result<Handle, ImportError> {
        if axis >= self.rank(handle) {
            return Err(self.invalid(format!("{} has no dimension {axis}", self.ty(handle))));
        }
        let mut shape = self.extents(handle);
        shape.remove(axis);
        let part = self.slice(handle, axis, index.into(), 1.into())?;
        self.reshape(part, shape)
    }

    /// A value of one element as a scalar.
    pub(crate) fn as_scalar(&mut self, handle: Handle) -> Result<Handle, ImportError> {
        self.reshape(handle, Vec::new())
    }

    /// A list as `[C, 1, …]`, to be broadcast along `axis` of a value of rank `rank`.
    pub(crate) fn along_axis(&mut self, handle: Handle, axis: usize, rank: usize) -> Result<Handle, ImportError> {
        if self.rank(handle) != 1 {
            return Err(self.invalid(format!("{} must have one dimension", self.ty(handle))));
        }
        let mut shape = self.extents(handle);
        shape.resize(rank - axis, DimExpr::constant(1));
        self.reshape(handle, shape)
    }
}
