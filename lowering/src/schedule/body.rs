//! The body of a `graph.kernel` as plain data.

use std::collections::HashMap;

use tenon_graph_dialect::{DimExpr, Operator, TensorType};
use tenon_ir::Op;
use tenon_tensor::{DType, NumberKind};

use crate::LoweringError;
use crate::schedule::numeric_class::NumericClass;
use crate::schedule::placed::Placement;
use crate::schedule::size::{ExtentTable, Size, check_factors};

/// A value in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueRef {
    /// An operand of the kernel.
    Input(usize),
    /// A result of a node.
    Node(usize, usize),
}

/// A tensor, row-major by its sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub sizes: Vec<Size>,
}

impl Shape {
    fn read(ty: &TensorType, table: &mut ExtentTable) -> Result<Self, LoweringError> {
        let Some(capacities) = ty.capacities() else {
            return Err(LoweringError::unbounded(format!("{ty} has a dimension without a largest size")));
        };
        if ty.dtype.kind() == NumberKind::Complex {
            return Err(LoweringError::unsupported(ty.dtype.name(), "kernels take bool, integers and floats"));
        }
        let count = capacities.iter().try_fold(1u64, |count, size| count.checked_mul(*size));
        if count.is_none_or(|count| count >= 1 << 40) || capacities.iter().any(|size| *size >= 1 << 31) {
            return Err(LoweringError::shape(format!("{ty} has 2^40 elements, or a dimension of 2^31, or more")));
        }
        let sizes = ty.dims.iter().zip(capacities).map(|(dim, capacity)| table.size(&dim.extent, capacity));
        let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
        check_factors(&sizes)?;
        Ok(Shape { dtype: ty.dtype, sizes })
    }

    /// Number of elements.
    pub fn elements(&self) -> Size {
        self.sizes.iter().product()
    }

    /// Distance of neighbours along each dimension, in elements.
    pub fn strides(&self) -> Vec<Size> {
        strides(&self.sizes)
    }
}

/// Number of a dimension that may be counted from the end.
pub fn axis(axis: i64, rank: usize) -> usize {
    (if axis < 0 { axis + rank as i64 } else { axis }) as usize
}

/// Row-major strides.
pub fn strides(sizes: &[Size]) -> Vec<Size> {
    let mut strides = vec![Size::fixed(1); sizes.len()];
    for index in (0..sizes.len().saturating_sub(1)).rev() {
        let size = if sizes[index + 1] == 0 { Size::fixed(1) } else { sizes[index + 1] };
        strides[index] = strides[index + 1] * size;
    }
    strides
}

/// Expressions of an operator's attributes that its code may need.
fn amounts(operator: &Operator) -> Vec<&DimExpr> {
    match operator {
        Operator::Slice(slice) => slice.starts.iter().collect(),
        Operator::Pad(pad) => pad.low.iter().chain(&pad.high).collect(),
        _ => Vec::new(),
    }
}

/// A slice of at most this part of its input is taken to be one of many.
const SMALL_PART: u64 = 16;

/// Starts that a kernel gets as arguments though they are numbers: a slice alone that is a small part of its input, as each output of a split
/// into many is, then is one tile program with all others of its shape, and is compiled once.
fn shared_starts<'n>(inputs: &[Shape], nodes: &'n [Node]) -> &'n [DimExpr] {
    let [Node { operator: Operator::Slice(slice), operands, results, .. }] = nodes else { return &[] };
    let [ValueRef::Input(input)] = operands.as_slice() else { return &[] };
    let (all, part) = (inputs[*input].elements().capacity(), results[0].elements().capacity());
    if part.saturating_mul(SMALL_PART) <= all { &slice.starts } else { &[] }
}

/// An operator in the body.
#[derive(Debug, Clone)]
pub struct Node {
    /// The operator.
    pub operator: Operator,
    /// Its operands.
    pub operands: Vec<ValueRef>,
    /// Types of its results.
    pub results: Vec<Shape>,
    /// Names of the model's nodes.
    pub sources: Vec<String>,
}

/// The body of a kernel.
#[derive(Debug, Clone)]
pub struct Body {
    /// Name of the kernel.
    pub name: String,
    /// Family that the grouping chose.
    pub family: String,
    /// What its schedule may do to numbers.
    pub numeric_class: NumericClass,
    /// Types of the operands.
    pub inputs: Vec<Shape>,
    /// Operators in order.
    pub nodes: Vec<Node>,
    /// What it yields.
    pub outputs: Vec<ValueRef>,
    /// Where each result lies in the memory that it is written to.
    pub placements: Vec<Placement>,
    /// What it must know at launch.
    pub extents: ExtentTable,
}

impl Body {
    /// Reads a `graph.kernel`.
    pub fn read(kernel: Op<'_>) -> Result<Self, LoweringError> {
        let name = kernel.string("sym_name").unwrap_or_default();
        let wrong = |reason: &str| LoweringError::Kernel { kernel: name.clone(), reason: reason.to_owned() };
        let block = kernel.region_block(0).ok_or_else(|| wrong("it has no body"))?;
        let numeric_class = match kernel.string("numeric_class") {
            Some(word) => NumericClass::of_name(&word).ok_or_else(|| {
                wrong(&format!("its `numeric_class` is {word:?}, not \"exact\", \"reassociates\" or \"approximates\""))
            })?,
            None => NumericClass::default(),
        };
        let mut values = HashMap::new();
        let mut extents = ExtentTable::default();
        let mut inputs = Vec::new();
        for (index, argument) in block.arguments().into_iter().enumerate() {
            inputs.push(
                Shape::read(&TensorType::read(argument.ty())?, &mut extents)
                    .map_err(|error| error.with_nodes(kernel.location().names()))?,
            );
            values.insert(argument, ValueRef::Input(index));
        }
        let mut nodes = Vec::new();
        let mut outputs = Vec::new();
        for op in block.ops() {
            let operands = op
                .operands()
                .into_iter()
                .map(|operand| values.get(&operand).copied().ok_or_else(|| wrong("a value comes from outside")))
                .collect::<Result<Vec<_>, _>>()?;
            if op.is("graph.yield") {
                outputs = operands;
                continue;
            }
            let sources = op.location().names();
            let operator =
                Operator::read(op).ok_or_else(|| wrong(&format!("`{}` cannot be in a kernel", op.name())))??;
            let results = op
                .results()
                .into_iter()
                .map(|value| Shape::read(&TensorType::read(value.ty())?, &mut extents))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| error.with_nodes(sources.clone()))?;
            amounts(&operator).into_iter().try_for_each(|amount| extents.add(amount))?;
            for (index, value) in op.results().into_iter().enumerate() {
                values.insert(value, ValueRef::Node(nodes.len(), index));
            }
            nodes.push(Node { operator, operands, results, sources });
        }
        if outputs.is_empty() {
            return Err(wrong("it yields nothing"));
        }
        shared_starts(&inputs, &nodes).iter().try_for_each(|start| extents.add_number(start))?;
        let placements = kernel.results().into_iter().map(|result| Placement::of(result, &mut extents));
        let mut placements = placements.collect::<Result<Vec<_>, _>>()?;
        placements.resize(outputs.len(), Placement::default());
        let family = kernel.string("family").unwrap_or_default();
        if family == "recurrence" && placements.iter().any(|placement| !placement.is_empty()) {
            // Its steps read what earlier ones wrote.
            return Err(wrong("a recurrence has results of its own memory, not parts of a concatenation"));
        }
        Ok(Body { name, family, numeric_class, inputs, nodes, outputs, placements, extents })
    }

    /// The one operator that a kernel of a family is built around, by its place, with whatever `find` gives for it.
    ///
    /// # Errors
    /// The body has none of the kind, or several.
    pub fn anchor<'b, T>(&'b self, find: impl Fn(&'b Node) -> Option<T>) -> Result<(usize, T), LoweringError> {
        let mut found = self.nodes.iter().enumerate().filter_map(|(index, node)| Some((index, find(node)?)));
        match (found.next(), found.count()) {
            (Some(anchor), 0) => Ok(anchor),
            (first, more) => {
                let count = usize::from(first.is_some()) + more;
                Err(self
                    .error(format!("a kernel of family `{}` must hold one such operator, not {count}", self.family)))
            }
        }
    }

    /// Type of a value.
    pub fn shape(&self, value: ValueRef) -> &Shape {
        match value {
            ValueRef::Input(index) => &self.inputs[index],
            ValueRef::Node(node, result) => &self.nodes[node].results[result],
        }
    }

    /// An error of this kernel.
    pub fn error(&self, reason: impl Into<String>) -> LoweringError {
        LoweringError::Kernel { kernel: self.name.clone(), reason: reason.into() }
    }
}
