//! The body of a `graph.kernel` as plain data.

use std::collections::HashMap;

use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::Op;
use tenon_tensor::{DType, NumberKind};

use crate::LoweringError;

/// A value in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueRef {
    /// An operand of the kernel.
    Input(usize),
    /// A result of a node.
    Node(usize, usize),
}

/// A tensor of fixed shape, row-major.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub sizes: Vec<u32>,
}

impl Shape {
    fn read(ty: &TensorType) -> Result<Self, LoweringError> {
        let Some(sizes) = ty.known_shape() else {
            return Err(LoweringError::shape(format!("{ty} has a dimension without a fixed size")));
        };
        let supported = match ty.dtype.kind() {
            NumberKind::Complex => false,
            NumberKind::Bool => true,
            _ => ty.dtype.bits() >= 8 && (!ty.dtype.is_float() || ty.dtype.bits() >= 16),
        };
        if !supported {
            return Err(LoweringError::unsupported(
                ty.dtype.name(),
                "kernels take bool, integers of 8 to 64 bits, f16, bf16, f32 and f64",
            ));
        }
        let count =
            sizes.iter().try_fold(1u64, |count, size| count.checked_mul(*size)).filter(|count| *count < 1 << 31);
        if count.is_none() || sizes.iter().any(|size| *size >= 1 << 31) {
            return Err(LoweringError::shape(format!("{ty} has 2^31 elements or more")));
        }
        Ok(Shape { dtype: ty.dtype, sizes: sizes.into_iter().map(|size| size as u32).collect() })
    }

    /// Number of elements.
    pub fn elements(&self) -> u32 {
        self.sizes.iter().product()
    }

    /// Distance of neighbours along each dimension, in elements.
    pub fn strides(&self) -> Vec<u32> {
        strides(&self.sizes)
    }
}

/// Row-major strides.
pub fn strides(sizes: &[u32]) -> Vec<u32> {
    let mut strides = vec![1; sizes.len()];
    for index in (0..sizes.len().saturating_sub(1)).rev() {
        strides[index] = strides[index + 1] * sizes[index + 1].max(1);
    }
    strides
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
    /// Types of the operands.
    pub inputs: Vec<Shape>,
    /// Operators in order.
    pub nodes: Vec<Node>,
    /// What it yields.
    pub outputs: Vec<ValueRef>,
}

impl Body {
    /// Reads a `graph.kernel`.
    pub fn read(kernel: Op<'_>) -> Result<Self, LoweringError> {
        let name = kernel.string("sym_name").unwrap_or_default();
        let wrong = |reason: &str| LoweringError::Kernel { kernel: name.clone(), reason: reason.to_owned() };
        let block = kernel.region_block(0).ok_or_else(|| wrong("it has no body"))?;
        let mut values = HashMap::new();
        let mut inputs = Vec::new();
        for (index, argument) in block.arguments().into_iter().enumerate() {
            inputs.push(
                Shape::read(&TensorType::read(argument.ty())?).map_err(|e| e.with_nodes(kernel.location().names()))?,
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
                .map(|value| Shape::read(&TensorType::read(value.ty())?))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| error.with_nodes(sources.clone()))?;
            for (index, value) in op.results().into_iter().enumerate() {
                values.insert(value, ValueRef::Node(nodes.len(), index));
            }
            nodes.push(Node { operator, operands, results, sources });
        }
        if outputs.is_empty() {
            return Err(wrong("it yields nothing"));
        }
        Ok(Body { name, family: kernel.string("family").unwrap_or_default(), inputs, nodes, outputs })
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
