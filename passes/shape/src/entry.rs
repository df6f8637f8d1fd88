//! The function that a module is compiled from.

use tenon_graph_dialect::TensorType;
use tenon_ir::{Module, Op, Value};
use tenon_pass_manager::{PassError, Refusal};

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// Its name in the model.
    pub name: String,
    /// Its type.
    pub ty: TensorType,
}

/// `func.func @main`, whose arguments and results carry the model's names as `graph.name`.
pub struct Entry<'m> {
    /// The function.
    pub function: Op<'m>,
    /// Arguments, in order.
    pub arguments: Vec<Value<'m>>,
    /// Inputs, in order.
    pub inputs: Vec<Port>,
    /// Outputs, in order.
    pub outputs: Vec<Port>,
}

/// Names in a list of dictionaries; `prefixN` where there is none.
fn names(function: Op<'_>, attribute: &str, count: usize, prefix: &str) -> Vec<String> {
    let list = function.attribute(attribute).and_then(|list| list.as_array()).unwrap_or_default();
    (0..count)
        .map(|index| {
            let name = list.get(index).and_then(|entry| entry.get("graph.name")).and_then(|name| name.as_string());
            name.unwrap_or_else(|| format!("{prefix}{index}"))
        })
        .collect()
}

impl<'m> Entry<'m> {
    /// Finds the function of a module.
    ///
    /// # Errors
    /// There is no function `@main` with a body, or one of its types is no tensor.
    pub fn of(module: &'m Module<'_>) -> Result<Self, PassError> {
        let missing = || {
            let help = "a model is a module with one function `@main` over tensors";
            PassError::from(Refusal::new(
                "E0412",
                "the module has no function `@main` with a body and tensor types",
                help,
            ))
        };
        let is_main = |op: &Op<'_>| op.is("func.func") && op.string("sym_name").as_deref() == Some("main");
        let function = module.body().ops().into_iter().find(is_main).ok_or_else(missing)?;
        let arguments = function.region_block(0).ok_or_else(missing)?.arguments();
        let signature =
            function.attribute("function_type").and_then(|ty| ty.as_type()).and_then(|ty| ty.function_signature());
        let (inputs, outputs) = signature.ok_or_else(missing)?;
        let read = |types: &[tenon_ir::Type<'_>]| {
            types.iter().map(|ty| TensorType::read(*ty)).collect::<Result<Vec<_>, _>>().map_err(|_| missing())
        };
        let ports = |names: Vec<String>, types: Vec<TensorType>| {
            names.into_iter().zip(types).map(|(name, ty)| Port { name, ty }).collect()
        };
        Ok(Entry {
            function,
            arguments,
            inputs: ports(names(function, "arg_attrs", inputs.len(), "input"), read(&inputs)?),
            outputs: ports(names(function, "res_attrs", outputs.len(), "output"), read(&outputs)?),
        })
    }
}
