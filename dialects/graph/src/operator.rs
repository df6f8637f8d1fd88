//! Operators as plain data.
//!
//! Every pass, the reference interpreter and the lowering see an operation of the graph dialect as an [`Operator`]: an enum over one struct
//! an operator, each in a file of its own under [`operators`](crate::operators). A struct holds the attributes and knows three things: how it is
//! read from an operation, how it is written, and which result types follow from its operand types.

use tenon_ir::{Attribute, Builder, Context, Op, Value};

use crate::operators::*;
use crate::{DimExpr, ErrorKind, Requirement, SemanticError, TensorType};

/// What every operator of the graph dialect defines.
pub trait OperatorKind: Sized {
    /// Full name of the operation.
    const NAME: &'static str;

    /// Reads the attributes of an operation of that name.
    fn read(op: Op<'_>) -> Result<Self, SemanticError>;

    /// Attributes to write, by name.
    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)>;

    /// Result types that follow from the operand types; refuses operands that do not fit.
    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError>;

    /// What must hold of the extents of operands that [`infer`](Self::infer) takes; what always holds may be left out.
    fn requirements(&self, _operands: &[TensorType]) -> Vec<Requirement> {
        Vec::new()
    }
}

macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// An operation of the graph dialect that computes tensors from tensors.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Operator {
            $($(#[$doc])* $name($name),)*
        }

        impl Operator {
            /// Full names of all operators.
            pub const NAMES: &'static [&'static str] = &[$($name::NAME),*];

            /// Reads an operation; `None` if it is no operator (a parameter, a terminator, another dialect).
            pub fn read(op: Op<'_>) -> Option<Result<Self, SemanticError>> {
                $(if op.is($name::NAME) {
                    return Some($name::read(op).map(Operator::$name).map_err(|error| with_nodes(error, op)));
                })*
                None
            }

            /// Full name of the operation.
            pub fn name(&self) -> &'static str {
                match self { $(Operator::$name(_) => $name::NAME,)* }
            }

            /// Attributes to write, by name.
            pub fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
                match self { $(Operator::$name(operator) => operator.attributes(context),)* }
            }

            /// Result types that follow from the operand types. Refuses operands whose extents break a requirement whatever the names are.
            pub fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
                let results = match self { $(Operator::$name(operator) => operator.infer(operands),)* }?;
                let broken = |requirement: &Requirement| requirement.condition.decide() == Some(false);
                match self.own_requirements(operands).into_iter().find(broken) {
                    None => Ok(results),
                    Some(Requirement { condition, reason, .. }) => {
                        Err(SemanticError::new(ErrorKind::Shape, self.name(), format!("{reason}: {condition} does not hold")))
                    }
                }
            }

            fn own_requirements(&self, operands: &[TensorType]) -> Vec<Requirement> {
                match self { $(Operator::$name(operator) => operator.requirements(operands),)* }
            }
        }

        $(impl From<$name> for Operator {
            fn from(operator: $name) -> Self { Operator::$name(operator) }
        })*
    };
}

operators! {
    /// A literal.
    Constant,
    /// Numbers along a dimension.
    Iota,
    /// Extent of a dimension.
    DimExtent,
    /// Scalar function with broadcasting.
    Elementwise,
    /// Conversion of the element type.
    Cast,
    /// The same bits as another element type.
    Bitcast,
    /// Sum of products.
    Contract,
    /// Convolution and its transpose.
    Convolution,
    /// Pooling.
    Window,
    /// Reduction over axes.
    Reduce,
    /// Index of an extremum.
    ArgReduce,
    /// Cumulative reduction.
    Scan,
    /// Softmax along an axis.
    Softmax,
    /// Layer and root-mean-square normalisation.
    Normalize,
    /// Scaled dot-product attention.
    Attention,
    /// The steps of a recurrent layer.
    Recurrence,
    /// Interpolation.
    Resize,
    /// Reading by index.
    Gather,
    /// Writing by index.
    Scatter,
    /// Largest or smallest elements.
    TopK,
    /// Float to quantised integer.
    Quantize,
    /// Quantised integer to float.
    Dequantize,
    /// Same elements, other shape.
    Reshape,
    /// Dimensions in another order.
    Transpose,
    /// Repetition along dimensions.
    Broadcast,
    /// Every n-th element of a range.
    Slice,
    /// Padding and cropping.
    Pad,
    /// Concatenation.
    Concat,
    /// Places in a sorted list.
    SearchSorted,
    /// Boxes that overlap with none before them.
    NonMaxSuppression,
    /// A dimension whose extent is computed.
    SetDimensionSize,
}

impl Operator {
    /// What must hold of the extents of operands and results, beyond what always does. The operands must be those of a successful
    /// [`infer`](Self::infer), and `results` what it gave.
    pub fn requirements(&self, operands: &[TensorType], results: &[TensorType]) -> Vec<Requirement> {
        let mut list = self.own_requirements(operands);
        for dim in results.iter().flat_map(|ty| &ty.dims) {
            let reason = || format!("a dimension of the result of {} is a number of elements", self.name());
            list.extend(Requirement::at_most(DimExpr::constant(0), dim.extent.clone(), reason));
        }
        list.retain(|requirement| requirement.condition.decide() != Some(true));
        list
    }

    /// The operator with names of extents replaced where `lookup` knows them; `None` if an expression overflows.
    pub fn with_extents(&self, lookup: &dyn Fn(&str) -> Option<DimExpr>) -> Option<Self> {
        let mut operator = self.clone();
        let lists: Vec<&mut Vec<DimExpr>> = match &mut operator {
            Operator::Iota(iota) => vec![&mut iota.shape],
            Operator::Reshape(reshape) => vec![&mut reshape.shape],
            Operator::Broadcast(broadcast) => vec![&mut broadcast.shape],
            Operator::Resize(resize) => vec![&mut resize.sizes],
            Operator::Slice(slice) => vec![&mut slice.starts, &mut slice.sizes],
            Operator::Pad(pad) => vec![&mut pad.low, &mut pad.high],
            Operator::SetDimensionSize(set) => {
                set.extent = set.extent.substitute(lookup)?;
                Vec::new()
            }
            _ => Vec::new(),
        };
        for dim in lists.into_iter().flatten() {
            *dim = dim.substitute(lookup)?;
        }
        Some(operator)
    }

    /// Builds the operation at the builder's place; result types are inferred.
    pub fn build<'m>(&self, builder: Builder<'m>, operands: &[Value<'m>]) -> Result<Vec<Value<'m>>, SemanticError> {
        let types = operands.iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()?;
        let results = self.infer(&types)?;
        self.build_as(builder, operands, &results)
    }

    /// Builds the operation with result types that the caller has inferred.
    pub fn build_as<'m>(
        &self,
        builder: Builder<'m>,
        operands: &[Value<'m>],
        results: &[TensorType],
    ) -> Result<Vec<Value<'m>>, SemanticError> {
        let context = builder.context();
        let results = results.iter().map(|ty| ty.to_type(context)).collect::<Result<Vec<_>, _>>()?;
        let mut op = builder.op(self.name()).operands(operands).results(&results);
        for (name, value) in self.attributes(context) {
            op = op.attribute(name, value);
        }
        let op =
            op.build().map_err(|error| SemanticError::new(ErrorKind::Structure, self.name(), error.to_string()))?;
        Ok(op.results())
    }
}

pub(crate) fn with_nodes(mut error: SemanticError, op: Op<'_>) -> SemanticError {
    if error.nodes.is_empty() {
        error.nodes = op.location().names();
    }
    error
}
