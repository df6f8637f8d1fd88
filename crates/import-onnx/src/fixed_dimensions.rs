//! Free dimensions of a model's inputs, and sizes for them before it is imported.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Model;
use crate::value::{Dim, ValueType};

/// Sizes of dimensions that a model leaves free.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FixedDimensions {
    /// By the input's name, a size for each of its dimensions that has one.
    pub inputs: BTreeMap<String, Vec<Option<u64>>>,
    /// By the dimension's name: the model's own, or `INPUT_dimN` where it has none.
    pub names: BTreeMap<String, u64>,
}

impl FixedDimensions {
    /// Whether no size is given.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.inputs.values().flatten().all(Option::is_none)
    }
}

/// The name of a dimension that has none.
fn unnamed(input: &str, index: usize) -> String {
    format!("{input}_dim{index}")
}

impl Model {
    /// The dimensions of each input as text: a size, or a name as the imported module has it. Inputs that are no tensors of a known rank are left out.
    pub fn input_dimensions(&self) -> Vec<(String, Vec<String>)> {
        let dims = |name: &str, dims: &[Dim]| {
            let text = |(index, dim): (usize, &Dim)| match dim {
                Dim::Fixed(size) => size.to_string(),
                Dim::Symbol(symbol) => symbol.clone(),
                Dim::Unknown => unnamed(name, index),
            };
            dims.iter().enumerate().map(text).collect()
        };
        let inputs = self.graph.inputs.iter().filter_map(|input| match &input.value_type {
            ValueType::Tensor(tensor) => Some((input.name.clone(), dims(&input.name, tensor.dims.as_deref()?))),
            _ => None,
        });
        inputs.collect()
    }

    /// The names of the inputs' free dimensions.
    pub fn free_dimensions(&self) -> BTreeSet<String> {
        self.input_dimensions()
            .into_iter()
            .flat_map(|(_, dims)| dims)
            .filter(|dim| dim.parse::<u64>().is_err())
            .collect()
    }

    /// Gives free dimensions sizes; a name gets its size wherever it occurs among the inputs. Gives the names that have become sizes. What contradicts
    /// itself is left to the checks of what asked for it: of two sizes for one name the first by the inputs' names holds.
    pub fn fix_dimensions(&mut self, sizes: &FixedDimensions) -> BTreeMap<String, u64> {
        let mut fixed: BTreeMap<String, u64> = BTreeMap::new();
        for (input, dims) in self.input_dimensions() {
            let given = sizes.inputs.get(&input).map_or(&[][..], Vec::as_slice);
            for (dim, size) in dims.into_iter().zip(given) {
                if let (Err(_), Some(size)) = (dim.parse::<u64>(), size) {
                    fixed.entry(dim).or_insert(*size);
                }
            }
        }
        let named =
            self.free_dimensions().into_iter().filter_map(|name| Some((name.clone(), *sizes.names.get(&name)?)));
        for (name, size) in named.collect::<Vec<_>>() {
            fixed.entry(name).or_insert(size);
        }
        for input in &mut self.graph.inputs {
            let ValueType::Tensor(tensor) = &mut input.value_type else { continue };
            for (index, dim) in tensor.dims.iter_mut().flatten().enumerate() {
                let name = match dim {
                    Dim::Fixed(_) => continue,
                    Dim::Symbol(name) => name.clone(),
                    Dim::Unknown => unnamed(&input.name, index),
                };
                if let Some(size) = fixed.get(&name) {
                    *dim = Dim::Fixed(*size);
                }
            }
        }
        fixed
    }
}
