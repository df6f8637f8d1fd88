//! From an exported program to a module of the graph dialect.
//!
//! - [`import_program`] walks the nodes in order and lets the importer of each operator (`ops`) emit operations; every result is compared with
//!   the type that the program declares of it.
//! - `importer` holds names and nested graphs, `aliases` makes writing in place functional, `sizes` knows symbols and ranges, `guards` reads
//!   what the program asks of its inputs' sizes; `arguments` holds a node's arguments against its operator's schema, `signature` the program's
//!   signature against its graph;
//!   `source` says where a node comes from; `op` is what an operator's importer sees of its node.

pub(crate) mod aliases;
mod arguments;
mod emit;
mod guards;
pub(crate) mod importer;
pub(crate) mod op;
mod signature;
mod sizes;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tenon_graph_builder::{Argument as BlockArgument, GraphBuilder, Output};
use tenon_ir::{Attribute, Context, Module, Session};
use tenon_tensor::Tensor;

use crate::error::{OpError, Pt2Error, quoted};
use crate::program::Program;
use crate::schema::{Argument, InputSpec, OutputSpec, TensorMeta};
use crate::tree;
use crate::weights::{Cache, Weights};
use aliases::ValueId;
use importer::Importer;
use sizes::Sizes;

/// What is known about inputs before a program is imported.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Shape of every input, by name. Symbols become these numbers wherever they occur.
    pub shapes: Option<BTreeMap<String, Vec<u64>>>,
}

/// A program as a module.
pub struct Imported<'s> {
    /// `func.func @main` and the parameters that it reads.
    pub module: Module<'s>,
    /// Values of the parameters, and first values of the buffers that are kept between calls.
    pub weights: indexmap::IndexMap<String, Tensor>,
    /// Buffers that are kept between calls, by name, in the order of their arguments, which follow the user inputs.
    pub states: Vec<String>,
}

/// Reads an archive of torch.export and turns it into a module of the graph dialect.
///
/// `@main` has the program's user inputs and user outputs in their order, each with the attribute `graph.name`; an output of a dictionary or
/// a named tuple has its path as `graph.path`. A buffer that the program writes is an output too, with the buffer's name, and an argument, both
/// with `graph.state`. The module has `graph.model`, the file's name; `graph.ranges`, the range of each symbol; and `graph.requirements`, what
/// guards and assertions ask of sizes and values.
///
/// # Errors
/// A program that cannot be read, or with operators, options or sizes that are not supported; by code, naming the node.
pub fn import_archive<'s>(
    session: &'s Session,
    path: &Path,
    options: &ImportOptions,
) -> Result<Imported<'s>, Pt2Error> {
    let program = Program::load(path)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    import_program(session, &program, &name, options)
}

/// Turns a program that was read into a module; `name` is the file's name.
///
/// # Errors
/// As [`import_archive`].
pub fn import_program<'s>(
    session: &'s Session,
    program: &Program,
    name: &str,
    options: &ImportOptions,
) -> Result<Imported<'s>, Pt2Error> {
    let mut states = BTreeSet::new();
    loop {
        let module = session.new_module(session.context().file_location(name, 0, 0))?;
        match run(&module, program, name, options, &states)? {
            Outcome::Done(weights) => {
                module.verify()?;
                return Ok(Imported { module, weights, states: states.into_iter().collect() });
            }
            // Which buffers are written is known after all nodes. Those are arguments, since their values are not constant.
            Outcome::Written(written) => states = written,
        }
    }
}

enum Outcome {
    Done(indexmap::IndexMap<String, Tensor>),
    Written(BTreeSet<String>),
}

/// A name that is an input of the graph.
struct Bound<'p> {
    name: &'p str,
    value: ValueId,
    /// The buffer that it is.
    buffer: Option<&'p str>,
    /// Whether the caller gives it.
    user: bool,
}

fn run(
    module: &Module<'_>,
    program: &Program,
    file: &str,
    options: &ImportOptions,
    states: &BTreeSet<String>,
) -> Result<Outcome, Pt2Error> {
    let context = module.op().context();
    let graph = &program.exported.graph_module.graph;
    let signature = &program.exported.graph_module.signature;
    signature::check(&program.exported.graph_module)?;
    let meta = |name: &str| -> Result<&TensorMeta, Pt2Error> {
        let missing =
            || Pt2Error::Structure { what: format!("the program does not describe its input {}", quoted(name)) };
        graph.tensor_values.get(name).ok_or_else(missing)
    };
    let mut user = Vec::new();
    for spec in &signature.input_specs {
        if let InputSpec::UserInput { arg } = spec {
            match arg {
                Argument::AsTensor(tensor) => user.push((tensor.name.clone(), meta(&tensor.name)?)),
                // Numbers, texts and nothing are what the program was exported for.
                Argument::AsInt(_)
                | Argument::AsFloat(_)
                | Argument::AsBool(_)
                | Argument::AsString(_)
                | Argument::AsNone(_) => {}
                _ => {
                    let what = "an input that is a number of its own each time (export it as a tensor)".to_owned();
                    return Err(Pt2Error::Type { owner: "the program".to_owned(), what });
                }
            }
        }
    }
    let mut sizes = Sizes::read(program, &user, options.shapes.as_ref())?;
    let weights = Weights::read(&program.archive)?;
    let location = |name: &str| context.name_location(name, context.file_location(file, 0, 0));
    let mut arguments = Vec::new();
    for (name, meta) in &user {
        let ty = sizes.ty(meta, &format!("input {}", quoted(name)))?;
        ty.to_type(context).map_err(|error| Pt2Error::GivenInput { name: name.clone(), reason: error.to_string() })?;
        arguments.push(BlockArgument { name: name.clone(), ty, location: location(name), attributes: Vec::new() });
    }
    let mut first_values = Vec::new();
    for buffer in states {
        let weight = weights.get(buffer)?;
        let shape: Vec<u64> = weight.key.2.clone();
        first_values.push((buffer.clone(), dense(&weight, buffer)?));
        arguments.push(BlockArgument {
            name: buffer.clone(),
            ty: tenon_graph_dialect::TensorType::fixed(weight.key.1, &shape),
            location: location(buffer),
            attributes: vec![("graph.state", context.unit())],
        });
    }
    let internal = |error: tenon_graph_dialect::SemanticError| Pt2Error::Structure { what: error.to_string() };
    let (mut builder, handles) = GraphBuilder::new(module, file, &arguments).map_err(internal)?;
    builder.require_all(std::mem::take(&mut sizes.requirements)).map_err(internal)?;
    let mut importer = Importer::new(builder, sizes, graph, file);
    let mut handles = arguments.iter().map(|argument| argument.name.clone()).zip(handles);
    let mut users: BTreeMap<String, _> = handles.by_ref().take(user.len()).collect();
    let mut states: BTreeMap<String, _> = handles.collect();

    let mut bound: Vec<Bound<'_>> = Vec::new();
    let mut cache: Cache<ValueId> = Cache::new();
    for spec in &signature.input_specs {
        let (name, weight, buffer) = match spec {
            InputSpec::UserInput { arg: Argument::AsTensor(tensor) } => {
                let Some(handle) = users.remove(&tensor.name) else {
                    return Err(Pt2Error::Structure { what: format!("{} is defined twice", quoted(&tensor.name)) });
                };
                let value = importer.aliases.fresh(handle);
                importer.name(&tensor.name, value)?;
                bound.push(Bound { name: &tensor.name, value, buffer: None, user: true });
                continue;
            }
            InputSpec::UserInput { .. } | InputSpec::ConstantInput { .. } | InputSpec::Token { .. } => continue,
            InputSpec::CustomObj { arg } => {
                let what = "objects of TorchBind classes".to_owned();
                return Err(Pt2Error::Type { owner: format!("input {}", quoted(&arg.name)), what });
            }
            InputSpec::Parameter { arg, parameter_name } => (&arg.name, parameter_name, None),
            InputSpec::TensorConstant { arg, tensor_constant_name } => (&arg.name, tensor_constant_name, None),
            InputSpec::Buffer { arg, buffer_name } => (&arg.name, buffer_name, Some(buffer_name.as_str())),
        };
        if let Some(handle) = states.remove(weight) {
            let value = importer.aliases.fresh(handle);
            importer.name(name, value)?;
            bound.push(Bound { name, value, buffer, user: false });
            continue;
        }
        let read = weights.get(weight)?;
        let owner = format!("weight {}", quoted(weight));
        // Weights that are one view of one storage are one value, whatever names they have.
        let value = match cache.get(&read.key) {
            Some(value) => *value,
            None => {
                let handle = importer.weight(weight, &read).map_err(|error| named(error, &owner))?;
                let value = importer.aliases.fresh(handle);
                cache.insert(read.key.clone(), value);
                value
            }
        };
        importer.name(name, value)?;
        if let Some((declared, found)) = importer.contradiction(name, value).map_err(|error| named(error, &owner))? {
            let reason = format!("the archive holds {found}, and the program declares {declared}");
            return Err(Pt2Error::Weight { name: weight.clone(), reason });
        }
        bound.push(Bound { name, value, buffer, user: false });
    }
    importer.nodes(graph)?;

    let written: Vec<&Bound<'_>> = bound.iter().filter(|bound| importer.aliases.is_written(bound.value)).collect();
    let mut mutated: BTreeMap<&str, ValueId> = BTreeMap::new();
    for bound in &written {
        match (bound.buffer, bound.user) {
            (Some(buffer), _) => {
                mutated.insert(buffer, bound.value);
            }
            (None, true) => {}
            (None, false) => {
                let what = format!("the program writes to its parameter {}", quoted(bound.name));
                return Err(Pt2Error::Type { owner: "the program".to_owned(), what });
            }
        }
    }
    let mut outputs = Vec::new();
    let mut paths = tree::paths(program).into_iter();
    for spec in &signature.output_specs {
        let owner = |name: &str| format!("output {}", quoted(name));
        match spec {
            OutputSpec::UserOutput { arg: Argument::AsNone(_) } => {
                paths.next();
            }
            OutputSpec::UserOutput { arg } => {
                let position = outputs.len();
                let name = match arg {
                    Argument::AsTensor(tensor) => tensor.name.clone(),
                    _ => format!("output_{position}"),
                };
                let value = importer.output(arg).map_err(|error| named(error, &owner(&name)))?;
                let path = paths.next().filter(|path| !path.is_empty());
                let attributes = path.map(|path| ("graph.path", context.string(&path)));
                outputs.push((name, value, attributes.into_iter().collect::<Vec<_>>()));
            }
            OutputSpec::BufferMutation { arg, buffer_name } => {
                let value = importer.lookup(&arg.name).map_err(|error| named(error, &owner(buffer_name)))?;
                mutated.insert(buffer_name, value);
            }
            OutputSpec::UserInputMutation { arg, user_input_name } => {
                let value = importer.lookup(&arg.name).map_err(|error| named(error, &owner(user_input_name)))?;
                outputs.push((user_input_name.clone(), value, Vec::new()));
            }
            OutputSpec::Token { .. } => {}
            OutputSpec::ParameterMutation { parameter_name, .. } => {
                let what = format!("writing to the parameter {}", quoted(parameter_name));
                return Err(Pt2Error::Type { owner: "the program".to_owned(), what });
            }
            OutputSpec::LossOutput { .. }
            | OutputSpec::GradientToParameter { .. }
            | OutputSpec::GradientToUserInput { .. } => {
                return Err(Pt2Error::Type { owner: "the program".to_owned(), what: "training graphs".to_owned() });
            }
        }
    }
    let found: BTreeSet<String> = mutated.keys().map(|name| (*name).to_owned()).collect();
    let known: BTreeSet<String> = first_values.iter().map(|(name, _)| name.clone()).collect();
    if !found.is_subset(&known) {
        return Ok(Outcome::Written(found));
    }
    for bound in written.into_iter().filter(|bound| bound.user) {
        outputs.push((bound.name.to_owned(), bound.value, Vec::new()));
    }
    for (buffer, value) in mutated {
        outputs.push((buffer.to_owned(), value, vec![("graph.state", context.unit())]));
    }
    unique(&mut outputs);
    let mut results = Vec::new();
    for (name, value, attributes) in outputs {
        let value = importer.read(value).map_err(|error| named(error, &format!("output {}", quoted(&name))))?;
        results.push(Output { location: location(&name), name, value, attributes });
    }
    facts(module, context, &importer.sizes)?;
    let mut weights = importer.builder.finish(&results).map_err(|(_, error)| internal(error))?;
    weights.extend(first_values);
    Ok(Outcome::Done(weights))
}

/// Outputs of one name get a number.
fn unique<T>(outputs: &mut [(String, ValueId, T)]) {
    let mut taken = BTreeSet::new();
    for (name, _, _) in outputs {
        let base = name.clone();
        let mut number = 1;
        while !taken.insert(name.clone()) {
            *name = format!("{base}_{number}");
            number += 1;
        }
    }
}

/// Attributes of the module on sizes.
fn facts(module: &Module<'_>, context: Context<'_>, sizes: &Sizes) -> Result<(), Pt2Error> {
    if !sizes.ranges.is_empty() {
        let range = |(name, (min, max)): (&String, &(i64, Option<i64>))| {
            let bounds: Vec<i64> = [*min].into_iter().chain(*max).collect();
            (name.clone(), context.i64_array(&bounds))
        };
        let entries: Vec<(String, Attribute<'_>)> = sizes.ranges.iter().map(range).collect();
        let entries: Vec<(&str, Attribute<'_>)> = entries.iter().map(|(name, range)| (name.as_str(), *range)).collect();
        module.op().set_attribute("graph.ranges", context.dictionary(&entries))?;
    }
    Ok(())
}

/// A weight that becomes a first value, which lies in order.
fn dense(weight: &crate::weights::Weight, name: &str) -> Result<Tensor, Pt2Error> {
    let in_order = weight.permutation.iter().copied().eq(0..weight.tensor.rank() as i64) && weight.repeated.is_none();
    match in_order {
        true => Ok(weight.tensor.clone()),
        false => Err(Pt2Error::Type {
            owner: format!("buffer {}", quoted(name)),
            what: "buffers that are written and whose elements are not in order (make it contiguous)".to_owned(),
        }),
    }
}

fn named(error: OpError, owner: &str) -> Pt2Error {
    match error {
        OpError::Inner(error) => *error,
        other => {
            let site = crate::error::NodeSite { name: owner.to_owned(), ..Default::default() };
            other.at(&site)
        }
    }
}
