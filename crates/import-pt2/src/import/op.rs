//! What an operator's importer sees of its node: arguments by the names of the schema, and what emits operations.

use std::ops::Deref;

use tenon_graph_builder::{GraphBuilder, Handle};
use tenon_graph_dialect::{Dim, DimExpr, TensorType};
use tenon_tensor::DType;

use super::aliases::{ValueId, View};
use super::importer::Importer;
use crate::dtype;
use crate::error::{OpError, plain};
use crate::schema::{Argument, Float, Node, OptionalTensor, SymFloatArgument, SymIntArgument};
use crate::schemas::Parameter;

/// A node being imported.
pub(crate) struct OpImport<'i, 'm, 'p> {
    pub(crate) importer: &'i mut Importer<'m, 'p>,
    pub(crate) node: &'p Node,
    /// Name without overload, and without the underscore of an operator in place.
    pub(crate) name: &'i str,
    pub(crate) overload: &'i str,
    pub(crate) parameters: &'i [Parameter],
}

/// What an importer gives for each output.
#[derive(Debug)]
pub(crate) enum Out {
    /// A tensor of its own.
    New(Handle),
    /// The value itself.
    Alias(ValueId),
    /// A view of a value.
    View(ValueId, View),
    /// A view or a copy of a value: it depends on what is not known.
    Doubtful(ValueId, Handle),
}

pub(crate) type Results = Result<Vec<Out>, OpError>;

/// One new tensor.
pub(crate) fn one(handle: Handle) -> Results {
    Ok(vec![Out::New(handle)])
}

/// A number argument of any kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar {
    Bool(bool),
    Int(DimExpr),
    Float(f64),
}

impl<'m> Deref for OpImport<'_, 'm, '_> {
    type Target = GraphBuilder<'m>;
    fn deref(&self) -> &Self::Target {
        &self.importer.builder
    }
}

impl<'p> OpImport<'_, '_, 'p> {
    // ---- Errors ----

    pub(crate) fn invalid(&self, reason: impl Into<String>) -> OpError {
        OpError::Arguments(reason.into())
    }

    pub(crate) fn unsupported(&self, what: impl Into<String>) -> OpError {
        OpError::Option(what.into())
    }

    fn kind(&self, name: &str, expected: &str) -> OpError {
        OpError::Arguments(format!("the argument `{name}` must be {expected}"))
    }

    // ---- Arguments ----

    fn given(&self, name: &str) -> Option<&'p Argument> {
        self.node.inputs.iter().find(|input| input.name == name).map(|input| &input.arg)
    }

    fn default(&self, name: &str) -> Result<&'static str, OpError> {
        let parameter = self.parameters.iter().find(|parameter| parameter.name == name);
        parameter
            .and_then(|parameter| parameter.default)
            .ok_or_else(|| self.invalid(format!("the argument `{name}` is missing")))
    }

    /// Whether the operator has such a parameter at all.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.parameters.iter().any(|parameter| parameter.name == name)
    }

    /// Whether an argument is left out or `None`.
    pub(crate) fn is_none(&self, name: &str) -> bool {
        match self.given(name) {
            Some(argument) => matches!(argument, Argument::AsNone(_)),
            None => self.default(name).is_ok_and(|text| text == "None") || !self.has(name),
        }
    }

    /// Argument number `index` as the node gives it, for operators without a schema.
    pub(crate) fn positional(&self, index: usize) -> Result<&'p Argument, OpError> {
        let input = self.node.inputs.get(index);
        input.map(|input| &input.arg).ok_or_else(|| self.invalid(format!("argument number {index} is missing")))
    }

    /// The value of a tensor argument.
    pub(crate) fn value(&mut self, name: &str) -> Result<ValueId, OpError> {
        match self.given(name) {
            Some(Argument::AsTensor(tensor)) => self.importer.lookup(&tensor.name),
            Some(Argument::AsOptionalTensor(OptionalTensor::AsTensor(tensor))) => self.importer.lookup(&tensor.name),
            Some(_) => Err(self.kind(name, "a tensor")),
            None => Err(self.invalid(format!("the tensor `{name}` is missing"))),
        }
    }

    /// A tensor argument. A number where the schema has a tensor becomes a scalar.
    pub(crate) fn tensor(&mut self, name: &str) -> Result<Handle, OpError> {
        if let Some(Argument::AsInt(_) | Argument::AsFloat(_) | Argument::AsBool(_) | Argument::AsSymInt(_)) =
            self.given(name)
        {
            let scalar = self.scalar_argument(name)?;
            let dtype = scalar.dtype();
            return self.scalar_tensor(&scalar, dtype);
        }
        let value = self.value(name)?;
        self.importer.read(value)
    }

    /// Whether a tensor argument is given as a plain number.
    pub(crate) fn is_number(&self, name: &str) -> bool {
        matches!(
            self.given(name),
            Some(
                Argument::AsInt(_)
                    | Argument::AsFloat(_)
                    | Argument::AsBool(_)
                    | Argument::AsSymInt(_)
                    | Argument::AsSymFloat(_)
            )
        )
    }

    pub(crate) fn optional_tensor(&mut self, name: &str) -> Result<Option<Handle>, OpError> {
        match self.given(name) {
            None | Some(Argument::AsNone(_) | Argument::AsOptionalTensor(OptionalTensor::AsNone(_))) => Ok(None),
            Some(_) => self.tensor(name).map(Some),
        }
    }

    /// Values of a list of tensors, `None` for those that are left out.
    pub(crate) fn optional_values(&mut self, name: &str) -> Result<Vec<Option<ValueId>>, OpError> {
        match self.given(name) {
            Some(Argument::AsTensors(list)) => {
                list.iter().map(|tensor| self.importer.lookup(&tensor.name).map(Some)).collect()
            }
            Some(Argument::AsOptionalTensors(list)) => list
                .iter()
                .map(|tensor| match tensor {
                    OptionalTensor::AsTensor(tensor) => self.importer.lookup(&tensor.name).map(Some),
                    OptionalTensor::AsNone(_) => Ok(None),
                })
                .collect(),
            _ => Err(self.kind(name, "a list of tensors")),
        }
    }

    pub(crate) fn tensors(&mut self, name: &str) -> Result<Vec<Handle>, OpError> {
        let values = self.optional_values(name)?;
        let missing = || OpError::Arguments(format!("the argument `{name}` must be a list of tensors"));
        values.into_iter().map(|value| self.importer.read(value.ok_or_else(missing)?)).collect()
    }

    fn sym_int(&self, argument: &SymIntArgument) -> Result<DimExpr, OpError> {
        match argument {
            SymIntArgument::AsInt(value) => Ok(DimExpr::constant(*value)),
            SymIntArgument::AsName(name) => self.importer.symbol(name),
        }
    }

    /// An integer or an expression.
    pub(crate) fn dim(&self, name: &str) -> Result<DimExpr, OpError> {
        match self.given(name) {
            Some(Argument::AsInt(value)) => Ok(DimExpr::constant(*value)),
            Some(Argument::AsBool(value)) => Ok(DimExpr::constant(i64::from(*value))),
            Some(Argument::AsSymInt(argument)) => self.sym_int(argument),
            Some(Argument::AsFloat(Float::Number(value))) if value.fract() == 0.0 && value.abs() < 1e15 => {
                Ok(DimExpr::constant(*value as i64))
            }
            Some(_) => Err(self.kind(name, "an integer")),
            None => self.default(name)?.parse().map(DimExpr::constant).map_err(|_| self.kind(name, "an integer")),
        }
    }

    pub(crate) fn optional_dim(&self, name: &str) -> Result<Option<DimExpr>, OpError> {
        if self.is_none(name) { Ok(None) } else { self.dim(name).map(Some) }
    }

    /// An integer that must be a number.
    pub(crate) fn int(&self, name: &str) -> Result<i64, OpError> {
        self.dim(name)?.as_constant().ok_or_else(|| OpError::NotKnown(format!("the argument `{name}`")))
    }

    pub(crate) fn optional_int(&self, name: &str) -> Result<Option<i64>, OpError> {
        if self.is_none(name) { Ok(None) } else { self.int(name).map(Some) }
    }

    /// Integers or expressions.
    pub(crate) fn dims(&self, name: &str) -> Result<Vec<DimExpr>, OpError> {
        match self.given(name) {
            Some(Argument::AsInts(values)) => Ok(values.iter().copied().map(DimExpr::constant).collect()),
            Some(Argument::AsSymInts(values)) => values.iter().map(|value| self.sym_int(value)).collect(),
            Some(Argument::AsInt(_) | Argument::AsSymInt(_)) => Ok(vec![self.dim(name)?]),
            // An empty list has no type in the archive.
            Some(Argument::AsTensors(list)) if list.is_empty() => Ok(Vec::new()),
            Some(Argument::AsFloats(list)) if list.is_empty() => Ok(Vec::new()),
            Some(_) => Err(self.kind(name, "a list of integers")),
            None => {
                let text = self.default(name)?;
                let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
                let number = |part: &str| {
                    part.trim().parse().map(DimExpr::constant).map_err(|_| self.kind(name, "a list of integers"))
                };
                inside.split(',').filter(|part| !part.trim().is_empty()).map(number).collect()
            }
        }
    }

    /// Integers that must be numbers.
    pub(crate) fn ints(&self, name: &str) -> Result<Vec<i64>, OpError> {
        let dims = self.dims(name)?;
        dims.iter()
            .map(DimExpr::as_constant)
            .collect::<Option<_>>()
            .ok_or_else(|| OpError::NotKnown(format!("the argument `{name}`")))
    }

    /// Numbers, one for each of `count`; one number holds for all.
    pub(crate) fn spread(&self, name: &str, count: usize) -> Result<Vec<i64>, OpError> {
        let values = self.ints(name)?;
        match values.as_slice() {
            [value] => Ok(vec![*value; count]),
            values if values.len() == count => Ok(values.to_vec()),
            _ => Err(self.invalid(format!("the argument `{name}` must have {count} entries"))),
        }
    }

    pub(crate) fn float(&self, name: &str) -> Result<f64, OpError> {
        let wrong = || self.kind(name, "a number");
        match self.given(name) {
            Some(Argument::AsFloat(value)) => value.value().ok_or_else(wrong),
            Some(Argument::AsInt(value)) => Ok(*value as f64),
            Some(Argument::AsBool(value)) => Ok(f64::from(u8::from(*value))),
            Some(Argument::AsSymInt(_)) => Ok(self.int(name)? as f64),
            Some(Argument::AsSymFloat(SymFloatArgument::AsFloat(value))) => value.value().ok_or_else(wrong),
            Some(Argument::AsSymFloat(SymFloatArgument::AsName(_))) => {
                Err(OpError::NotKnown(format!("the argument `{name}`")))
            }
            Some(_) => Err(wrong()),
            None => match self.default(name)? {
                "True" => Ok(1.0),
                "False" => Ok(0.0),
                text => text.parse().map_err(|_| wrong()),
            },
        }
    }

    pub(crate) fn optional_float(&self, name: &str) -> Result<Option<f64>, OpError> {
        if self.is_none(name) { Ok(None) } else { self.float(name).map(Some) }
    }

    /// Numbers of a list.
    pub(crate) fn floats(&self, name: &str) -> Result<Vec<f64>, OpError> {
        let wrong = || self.kind(name, "a list of numbers");
        match self.given(name) {
            Some(Argument::AsFloats(values)) => values.iter().map(|value| value.value().ok_or_else(wrong)).collect(),
            Some(Argument::AsInts(_) | Argument::AsSymInts(_)) => {
                Ok(self.ints(name)?.into_iter().map(|value| value as f64).collect())
            }
            Some(Argument::AsFloat(_) | Argument::AsInt(_)) => Ok(vec![self.float(name)?]),
            Some(Argument::AsTensors(list)) if list.is_empty() => Ok(Vec::new()),
            _ => Err(wrong()),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, OpError> {
        match self.given(name) {
            Some(Argument::AsBool(value)) => Ok(*value),
            Some(Argument::AsInt(value)) => Ok(*value != 0),
            Some(_) => Err(self.kind(name, "a truth value")),
            None => match self.default(name)? {
                "True" => Ok(true),
                "False" | "None" => Ok(false),
                _ => Err(self.kind(name, "a truth value")),
            },
        }
    }

    pub(crate) fn text(&self, name: &str) -> Result<String, OpError> {
        match self.given(name) {
            Some(Argument::AsString(text)) => Ok(text.clone()),
            Some(_) => Err(self.kind(name, "a text")),
            None => Ok(self.default(name)?.trim_matches('"').to_owned()),
        }
    }

    /// A number of any kind.
    pub(crate) fn scalar_argument(&self, name: &str) -> Result<Scalar, OpError> {
        Ok(match self.given(name) {
            Some(Argument::AsBool(value)) => Scalar::Bool(*value),
            Some(Argument::AsInt(_) | Argument::AsSymInt(_)) => Scalar::Int(self.dim(name)?),
            Some(Argument::AsComplex(_)) => return Err(self.unsupported("a complex number")),
            Some(_) => Scalar::Float(self.float(name)?),
            None => match self.default(name)? {
                "True" => Scalar::Bool(true),
                "False" => Scalar::Bool(false),
                text => match text.parse::<i64>() {
                    Ok(value) => Scalar::Int(value.into()),
                    Err(_) => Scalar::Float(self.float(name)?),
                },
            },
        })
    }

    /// A number as a scalar tensor.
    pub(crate) fn scalar_tensor(&mut self, scalar: &Scalar, dtype: DType) -> Result<Handle, OpError> {
        Ok(match scalar {
            Scalar::Bool(value) => self.scalar(f64::from(u8::from(*value)), dtype)?,
            Scalar::Float(value) => self.scalar(*value, dtype)?,
            Scalar::Int(value) if dtype.is_integer() => self.symbolic(dtype, &[], vec![value.clone()]),
            Scalar::Int(value) => match value.as_constant() {
                Some(number) => self.scalar(number as f64, dtype)?,
                None => {
                    let value = self.symbolic(DType::I64, &[], vec![value.clone()]);
                    self.cast(value, dtype)?
                }
            },
        })
    }

    /// An element type argument; `None`: left out.
    pub(crate) fn dtype(&self, name: &str) -> Result<Option<DType>, OpError> {
        let number = match self.given(name) {
            Some(Argument::AsScalarType(number) | Argument::AsInt(number)) => *number,
            Some(Argument::AsNone(_)) | None => return Ok(None),
            Some(_) => return Err(self.kind(name, "an element type")),
        };
        let unknown = || self.unsupported(format!("the element type number {number} of the schema"));
        dtype::of_number(number).map(Some).ok_or_else(unknown)
    }

    // ---- The node's outputs ----

    /// Names of the outputs in order, those of lists too.
    pub(crate) fn output_names(&self) -> Vec<&'p str> {
        super::importer::output_names(self.node)
    }

    /// What the program declares of output `index`.
    pub(crate) fn declared(&self, index: usize) -> Result<TensorType, OpError> {
        let name = self.output_names().get(index).copied().unwrap_or_default();
        match self.importer.declared(name)? {
            Some(ty) => Ok(ty),
            None => Err(self.invalid(format!("the program does not declare the type of output `{}`", plain(name)))),
        }
    }

    // ---- Types ----

    pub(crate) fn element(&self, handle: Handle) -> DType {
        self.ty(handle).dtype
    }

    pub(crate) fn rank(&self, handle: Handle) -> usize {
        self.ty(handle).rank()
    }

    pub(crate) fn at(&self, handle: Handle, axis: usize) -> &Dim {
        &self.ty(handle).dims[axis]
    }

    /// The number of elements along an axis, which `what` needs to be fixed.
    pub(crate) fn fixed(&self, handle: Handle, axis: usize, what: &str) -> Result<i64, OpError> {
        let size = self.ty(handle).dims.get(axis).and_then(Dim::known).and_then(|size| i64::try_from(size).ok());
        size.ok_or_else(|| {
            self.unsupported(format!("{what} over dimension {axis} of {}, which is not fixed,", self.ty(handle)))
        })
    }

    /// An axis counted from the front; a scalar has the axis 0 too.
    pub(crate) fn axis(&self, axis: i64, rank: usize) -> Result<usize, OpError> {
        let extent = rank.max(1) as i64;
        let index = if axis < 0 { axis.saturating_add(extent) } else { axis };
        match usize::try_from(index) {
            Ok(index) if index < extent as usize => Ok(index),
            _ => Err(self.invalid(format!("dimension {axis} is outside rank {rank}"))),
        }
    }

    /// The axis of an argument.
    pub(crate) fn axis_argument(&self, name: &str, rank: usize) -> Result<usize, OpError> {
        self.axis(self.int(name)?, rank)
    }

    /// Distinct axes counted from the front, sorted.
    pub(crate) fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>, OpError> {
        let mut list = axes.iter().map(|axis| self.axis(*axis, rank)).collect::<Result<Vec<_>, _>>()?;
        list.sort_unstable();
        match list.windows(2).any(|pair| pair[0] == pair[1]) {
            true => Err(self.invalid(format!("the dimensions {axes:?} name one twice"))),
            false => Ok(list),
        }
    }
}

impl Scalar {
    /// The type of a number that no tensor decides: f32, i64 or i1.
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => DType::F32,
        }
    }
}
