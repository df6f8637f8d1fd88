//! Types of a model's inputs: declared dimensions, given shapes, names of symbols.

use std::collections::{BTreeMap, HashMap, HashSet};

use tenon_graph_dialect::{Dim, DimExpr, TensorType};

use super::ImportOptions;
use crate::error::ImportError;
use crate::graph::Graph;
use crate::value::{self, Dim as DeclaredDim, ValueInfo, ValueType};

/// Longest name of a symbol; longer ones are replaced.
const MAX_SYMBOL: usize = 100;

/// What an input of the model is made of.
pub(super) struct Port {
    /// The input's name.
    pub(super) name: String,
    /// What it is.
    pub(super) kind: PortKind,
    /// The tensors that a caller gives for it.
    pub(super) tensors: Vec<ValueInfo>,
}

/// What an input is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PortKind {
    /// A tensor, or an optional that holds one: one tensor of the input's name.
    Tensor,
    /// A sequence, or an optional that holds one: a tensor for each element.
    Sequence,
    /// An optional that holds nothing: no tensor.
    Nothing,
}

/// Name of a sequence's element as an input or output of its own.
pub(crate) fn element_name(sequence: &str, index: usize) -> String {
    format!("{sequence}[{index}]")
}

impl Port {
    /// What an input is made of. A sequence has as many elements as shapes are given for `NAME[0]`, `NAME[1]` and so on; an optional of
    /// which no shape is given holds nothing.
    pub(super) fn of(input: &ValueInfo, options: &ImportOptions) -> Result<Port, ImportError> {
        let name = input.name.clone();
        let (declared, is_optional) = match &input.value_type {
            ValueType::Optional(inner) => (inner.as_ref(), true),
            other => (other, false),
        };
        let given = |name: &str| options.shapes.as_ref().is_some_and(|shapes| shapes.contains_key(name));
        if options.shapes.is_none() && !matches!(input.value_type, ValueType::Tensor(_)) {
            // Refuses what cannot be an input without its length.
            input.tensor()?;
        }
        match declared {
            ValueType::Sequence(element) => {
                let dtype = ValueInfo { name: name.clone(), value_type: (**element).clone() }.tensor()?.dtype;
                let element = |index| ValueInfo {
                    name: element_name(&name, index),
                    // Elements differ in shape, whatever one declaration says of all.
                    value_type: ValueType::Tensor(value::TensorType { dtype, dims: None }),
                };
                let tensors: Vec<_> = (0..).map(element).take_while(|element| given(&element.name)).collect();
                let kind = if is_optional && tensors.is_empty() { PortKind::Nothing } else { PortKind::Sequence };
                Ok(Port { name, kind, tensors })
            }
            _ if is_optional && !given(&name) => Ok(Port { name, kind: PortKind::Nothing, tensors: Vec::new() }),
            tensor => {
                let tensor = ValueInfo { name: name.clone(), value_type: tensor.clone() };
                tensor.tensor()?;
                Ok(Port { name, kind: PortKind::Tensor, tensors: vec![tensor] })
            }
        }
    }
}

/// Refuses given shapes and values of inputs that the model does not have.
pub(super) fn check_given(graph: &Graph, options: &ImportOptions) -> Result<(), ImportError> {
    let mut known = HashSet::new();
    for input in &graph.inputs {
        known.insert(input.name.clone());
        known.extend(Port::of(input, options)?.tensors.into_iter().map(|tensor| tensor.name));
    }
    let given = options.shapes.iter().flat_map(BTreeMap::keys).chain(options.constants.keys());
    match given.into_iter().find(|name| !known.contains(name.as_str())) {
        Some(name) => {
            Err(ImportError::GivenInput { name: name.clone(), reason: "the model has no such input".to_owned() })
        }
        None => Ok(()),
    }
}

/// Names of symbols and the numbers that given shapes bind them to.
#[derive(Default)]
pub(super) struct Symbols {
    /// Symbol by the model's name for it.
    names: HashMap<String, String>,
    taken: HashSet<String>,
    bound: HashMap<String, u64>,
}

impl Symbols {
    /// Types of all inputs, in order.
    pub(super) fn input_types(inputs: &[&ValueInfo], options: &ImportOptions) -> Result<Vec<TensorType>, ImportError> {
        let mut symbols = Symbols::default();
        // Every declared name first, so that the names made up for the others cannot be taken.
        for input in inputs {
            for dim in input.tensor()?.dims.iter().flatten() {
                if let DeclaredDim::Symbol(name) = dim {
                    symbols.symbol(name);
                }
            }
        }
        if let Some(shapes) = &options.shapes {
            for input in inputs {
                symbols.bind(input, shapes)?;
            }
        }
        inputs.iter().map(|input| symbols.input_type(input, options)).collect()
    }

    /// The symbol for a name of the model: the name itself unless the text form of expressions cannot carry it.
    fn symbol(&mut self, name: &str) -> String {
        if let Some(symbol) = self.names.get(name) {
            return symbol.clone();
        }
        let mut symbol: String =
            name.chars().take(MAX_SYMBOL).map(|c| if c == '`' || c.is_control() { '_' } else { c }).collect();
        if symbol != name || self.taken.contains(&symbol) {
            let base = symbol;
            let mut number = 1;
            symbol = format!("{base}_{number}");
            while self.taken.contains(&symbol) {
                number += 1;
                symbol = format!("{base}_{number}");
            }
        }
        self.taken.insert(symbol.clone());
        self.names.insert(name.to_owned(), symbol.clone());
        symbol
    }

    fn bind(&mut self, input: &ValueInfo, shapes: &BTreeMap<String, Vec<u64>>) -> Result<(), ImportError> {
        let wrong = |reason: String| Err(ImportError::GivenInput { name: input.name.clone(), reason });
        let Some(shape) = shapes.get(&input.name) else { return wrong("no shape is given for it".to_owned()) };
        let Some(dims) = &input.tensor()?.dims else { return Ok(()) };
        if dims.len() != shape.len() {
            return wrong(format!(
                "the given shape {shape:?} has {} dimensions, the model declares {}",
                shape.len(),
                dims.len()
            ));
        }
        for (index, (dim, &size)) in dims.iter().zip(shape).enumerate() {
            match dim {
                DeclaredDim::Fixed(declared) if *declared != size => {
                    return wrong(format!("dimension {index} is given as {size}, the model declares {declared}"));
                }
                DeclaredDim::Symbol(name) => {
                    let bound = *self.bound.entry(name.clone()).or_insert(size);
                    if bound != size {
                        return wrong(format!(
                            "dimension {index}, `{name}`, is given as {size}, but elsewhere as {bound}"
                        ));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn input_type(&mut self, input: &ValueInfo, options: &ImportOptions) -> Result<TensorType, ImportError> {
        let declared = input.tensor()?;
        let shape = options.shapes.as_ref().and_then(|shapes| shapes.get(&input.name));
        if let Some(shape) = shape {
            if shape.len() > 16 || shape.iter().any(|size| i64::try_from(*size).is_err()) {
                let dims = shape.iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect();
                return Err(ImportError::Dimensions { owner: format!("input `{}`", input.name), dims });
            }
            return Ok(TensorType::fixed(declared.dtype, shape));
        }
        let Some(dims) = &declared.dims else { return Err(ImportError::UnknownRank { name: input.name.clone() }) };
        let dims = dims.iter().enumerate().map(|(index, dim)| match dim {
            DeclaredDim::Fixed(size) => Dim::fixed(*size),
            DeclaredDim::Symbol(name) => Dim::of(DimExpr::symbol(&self.symbol(name))),
            DeclaredDim::Unknown => Dim::of(DimExpr::symbol(&self.symbol(&format!("{}_dim{index}", input.name)))),
        });
        Ok(TensorType::new(declared.dtype, dims.collect()))
    }
}
