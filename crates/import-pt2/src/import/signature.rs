//! The signature of a program held against its graph: both list inputs and outputs, and must list the same.

use crate::error::{Pt2Error, quoted};
use crate::schema::{
    Argument, GraphModule, InputSpec, OptionalTensor, OutputSpec, SymBoolArgument, SymFloatArgument, SymIntArgument,
};

/// Refuses a signature whose inputs or outputs are not those of the graph, in the graph's order.
///
/// # Errors
/// The first place at which they differ.
pub(super) fn check(program: &GraphModule) -> Result<(), Pt2Error> {
    let (graph, signature) = (&program.graph, &program.signature);
    let inputs = signature.input_specs.iter().filter_map(of_input);
    compare("input", graph.inputs.iter().map(of_argument).collect(), inputs.collect())?;
    let outputs = signature.output_specs.iter().filter_map(of_output);
    compare("output", graph.outputs.iter().map(of_argument).collect(), outputs.collect())
}

/// What stands at a place: a name, or a value that is no name's (`None`).
type Entry<'p> = Option<&'p str>;

fn compare(kind: &str, graph: Vec<Entry<'_>>, signature: Vec<Entry<'_>>) -> Result<(), Pt2Error> {
    let differs = |what: String| Err(Pt2Error::Structure { what });
    if graph.len() != signature.len() {
        return differs(format!(
            "the graph has {} {kind}s, and the signature of the program {}",
            graph.len(),
            signature.len()
        ));
    }
    let text = |entry: Entry<'_>| entry.map_or_else(|| "a value without a name".to_owned(), quoted);
    match graph.iter().zip(&signature).position(|(graph, signature)| graph != signature) {
        None => Ok(()),
        Some(at) => {
            let (graph, signature) = (text(graph[at]), text(signature[at]));
            differs(format!("{kind} {at} is {graph} in the graph, and {signature} in the signature of the program"))
        }
    }
}

fn of_argument(argument: &Argument) -> Entry<'_> {
    match argument {
        Argument::AsTensor(tensor) | Argument::AsOptionalTensor(OptionalTensor::AsTensor(tensor)) => Some(&tensor.name),
        Argument::AsSymInt(SymIntArgument::AsName(name))
        | Argument::AsSymBool(SymBoolArgument::AsName(name))
        | Argument::AsSymFloat(SymFloatArgument::AsName(name)) => Some(name),
        _ => None,
    }
}

/// Objects and tokens are refused or without meaning here; a graph lists objects by another kind of argument, and tokens not at all.
fn of_input(spec: &InputSpec) -> Option<Entry<'_>> {
    match spec {
        InputSpec::UserInput { arg } => Some(of_argument(arg)),
        InputSpec::Parameter { arg, .. } | InputSpec::Buffer { arg, .. } | InputSpec::TensorConstant { arg, .. } => {
            Some(Some(&arg.name))
        }
        InputSpec::CustomObj { .. } | InputSpec::ConstantInput { .. } => Some(None),
        InputSpec::Token { .. } => None,
    }
}

fn of_output(spec: &OutputSpec) -> Option<Entry<'_>> {
    match spec {
        OutputSpec::UserOutput { arg } => Some(of_argument(arg)),
        OutputSpec::BufferMutation { arg, .. }
        | OutputSpec::ParameterMutation { arg, .. }
        | OutputSpec::UserInputMutation { arg, .. } => Some(Some(&arg.name)),
        // Graphs for training are refused as such.
        OutputSpec::LossOutput { arg }
        | OutputSpec::GradientToParameter { arg }
        | OutputSpec::GradientToUserInput { arg } => Some(arg.get("name").and_then(serde_json::Value::as_str)),
        OutputSpec::Token { .. } => None,
    }
}
