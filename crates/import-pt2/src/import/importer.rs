//! Walking the nodes of a program: names, nested graphs, weights, outputs.

use std::collections::HashMap;

use tenon_graph_builder::{GraphBuilder, Handle};
use tenon_graph_dialect::{Condition, DimExpr, Relation as Order, TensorType};

use super::aliases::{Aliases, ValueId};
use super::op::{OpImport, Out};
use super::sizes::Sizes;
use super::source;
use crate::error::{NodeSite, OpError, Pt2Error, plain, quoted};
use crate::ops;
use crate::schema::{Argument, Graph, Node, OptionalTensor, SymBool};
use crate::sympy::Relation;
use crate::weights::Weight;

/// A name of a graph.
#[derive(Clone, Copy)]
enum Named {
    Value(ValueId),
    /// An output that the operator's importer does not give.
    NotGiven,
}

/// State of the walk over one program.
pub(crate) struct Importer<'m, 'p> {
    pub(crate) builder: GraphBuilder<'m>,
    pub(crate) aliases: Aliases,
    pub(crate) sizes: Sizes,
    /// Graphs around what is imported and their names, innermost last.
    scopes: Vec<(&'p Graph, HashMap<&'p str, Named>)>,
    file: String,
}

/// Names of a node's outputs in order, those of lists too; empty where one is left out.
pub(crate) fn output_names(node: &Node) -> Vec<&str> {
    let mut names = Vec::new();
    for output in &node.outputs {
        match output {
            Argument::AsTensor(tensor) => names.push(tensor.name.as_str()),
            Argument::AsTensors(list) => names.extend(list.iter().map(|tensor| tensor.name.as_str())),
            Argument::AsOptionalTensor(OptionalTensor::AsTensor(tensor)) => names.push(&tensor.name),
            Argument::AsOptionalTensors(list) => names.extend(list.iter().map(|tensor| match tensor {
                OptionalTensor::AsTensor(tensor) => tensor.name.as_str(),
                OptionalTensor::AsNone(_) => "",
            })),
            _ => names.push(""),
        }
    }
    names
}

/// Whether a node only computes with sizes, whose results the graph lists.
fn is_size(node: &Node) -> bool {
    let is_symbol = |output: &Argument| {
        matches!(
            output,
            Argument::AsSymInt(_) | Argument::AsSymBool(_) | Argument::AsSymFloat(_) | Argument::AsSymInts(_)
        )
    };
    !node.outputs.is_empty() && node.outputs.iter().all(is_symbol)
}

impl<'m, 'p> Importer<'m, 'p> {
    pub(crate) fn new(builder: GraphBuilder<'m>, sizes: Sizes, graph: &'p Graph, file: &str) -> Self {
        Importer {
            builder,
            aliases: Aliases::default(),
            sizes,
            scopes: vec![(graph, HashMap::new())],
            file: file.to_owned(),
        }
    }

    // ---- Names ----

    /// Gives a value a name in the innermost graph.
    pub(crate) fn name(&mut self, name: &'p str, value: ValueId) -> Result<(), Pt2Error> {
        self.define(name, Named::Value(value))
    }

    fn define(&mut self, name: &'p str, named: Named) -> Result<(), Pt2Error> {
        let Some((_, names)) = self.scopes.last_mut() else { return Ok(()) };
        match names.insert(name, named) {
            None => Ok(()),
            Some(_) => Err(Pt2Error::Structure { what: format!("{} is defined twice", quoted(name)) }),
        }
    }

    /// The value of a name of the innermost graph.
    pub(crate) fn lookup(&self, name: &str) -> Result<ValueId, OpError> {
        let found = self.scopes.last().and_then(|(_, names)| names.get(name));
        match found {
            Some(Named::Value(value)) => Ok(*value),
            Some(Named::NotGiven) => Err(OpError::Option(format!("the output {} of its operator", quoted(name)))),
            None => {
                Err(Pt2Error::Structure { what: format!("{} is used, but nothing before defines it", quoted(name)) }
                    .into())
            }
        }
    }

    /// What a value shows now.
    pub(crate) fn read(&mut self, value: ValueId) -> Result<Handle, OpError> {
        self.aliases.read(&mut self.builder, value)
    }

    /// The type that the program declares of a name; `None`: it declares none.
    pub(crate) fn declared(&self, name: &str) -> Result<Option<TensorType>, OpError> {
        let meta = self.scopes.iter().rev().find_map(|(graph, _)| graph.tensor_values.get(name));
        Ok(meta.map(|meta| self.sizes.ty(meta, &format!("the value {}", quoted(name)))).transpose()?)
    }

    /// Strides of a name as the program declares them.
    pub(crate) fn strides(&self, name: &str) -> Option<(Vec<DimExpr>, Vec<DimExpr>)> {
        let meta = self.scopes.iter().rev().find_map(|(graph, _)| graph.tensor_values.get(name))?;
        let list = |list: &[crate::schema::SymInt]| {
            list.iter().map(|size| self.sizes.size(size, name).ok()).collect::<Option<Vec<_>>>()
        };
        Some((list(&meta.sizes)?, list(&meta.strides)?)).filter(|(sizes, strides)| sizes.len() == strides.len())
    }

    /// The expression of an integer that is a name.
    pub(crate) fn symbol(&self, name: &str) -> Result<DimExpr, OpError> {
        let found = self.scopes.iter().rev().find_map(|(graph, _)| graph.sym_int_values.get(name));
        let size = found.ok_or_else(|| Pt2Error::Structure {
            what: format!("the size {} is used, but nothing defines it", quoted(name)),
        })?;
        Ok(self.sizes.size(size, &format!("the value {}", quoted(name)))?)
    }

    /// The relation of a truth value over sizes that is a name.
    pub(crate) fn relation(&self, name: &str) -> Result<Relation, OpError> {
        let found = self.scopes.iter().rev().find_map(|(graph, _)| graph.sym_bool_values.get(name));
        match found {
            Some(SymBool::AsBool(value)) => Ok(Relation::Known(*value)),
            Some(SymBool::AsExpr(expression)) => {
                Ok(self.sizes.relation(&expression.expr_str, &format!("the value {}", quoted(name)))?)
            }
            None => Err(Pt2Error::Structure {
                what: format!("the truth value {} is used, but nothing defines it", quoted(name)),
            }
            .into()),
        }
    }

    /// Demands a relation between sizes: now where it is known, else of the inputs of a run.
    pub(crate) fn demand(&mut self, relation: &Relation, message: &str) -> Result<(), OpError> {
        let message = if message.is_empty() { "it is asserted".to_owned() } else { plain(message) };
        if relation.decide() == Some(false) {
            return Err(OpError::Assertion(format!("its assertion does not hold: {message}")));
        }
        for condition in relation.conditions() {
            let Condition { left, relation, right } = condition.clone();
            self.builder.require(left, relation, right, &format!("the program asserts it: {message}"))?;
        }
        Ok(())
    }

    // ---- Weights ----

    /// A weight as a value.
    pub(crate) fn weight(&mut self, name: &str, weight: &Weight) -> Result<Handle, OpError> {
        let mut handle = self.builder.weight(name, weight.tensor.clone());
        let rank = self.builder.ty(handle).rank();
        if weight.permutation.len() == rank {
            handle = self.builder.transpose(handle, weight.permutation.clone())?;
        }
        if let Some(shape) = &weight.repeated {
            let shape = shape.iter().map(|size| DimExpr::constant(i64::try_from(*size).unwrap_or(i64::MAX))).collect();
            handle = self.builder.broadcast(handle, shape)?;
        }
        Ok(handle)
    }

    // ---- Nodes ----

    /// Imports the nodes of the innermost graph.
    pub(crate) fn nodes(&mut self, graph: &'p Graph) -> Result<(), Pt2Error> {
        for node in &graph.nodes {
            self.node(node)?;
        }
        Ok(())
    }

    /// Imports a nested graph at this place and gives its outputs. Its inputs are the given values in order.
    pub(crate) fn nested(&mut self, graph: &'p Graph, inputs: &[ValueId]) -> Result<Vec<ValueId>, OpError> {
        let mut names = HashMap::new();
        let mut given = inputs.iter();
        for input in &graph.inputs {
            match input {
                Argument::AsTensor(tensor) => {
                    let value = given.next().ok_or_else(|| {
                        OpError::Arguments("a nested graph has more inputs than it is given".to_owned())
                    })?;
                    if names.insert(tensor.name.as_str(), Named::Value(*value)).is_some() {
                        return Err(OpError::Arguments(format!(
                            "a nested graph has the input {} twice",
                            quoted(&tensor.name)
                        )));
                    }
                }
                // Sizes are known by their expressions.
                Argument::AsSymInt(_) | Argument::AsInt(_) | Argument::AsSymBool(_) | Argument::AsNone(_) => {}
                _ => {
                    return Err(OpError::Option(
                        "an input of a nested graph that is neither tensor nor size".to_owned(),
                    ));
                }
            }
        }
        self.scopes.push((graph, names));
        let result = self
            .nested_inputs(graph)
            .and_then(|()| Ok(self.nodes(graph)?))
            .and_then(|()| graph.outputs.iter().map(|output| self.output(output)).collect::<Result<Vec<_>, _>>());
        self.scopes.pop();
        result
    }

    /// Compares the inputs of the innermost graph with what it declares of them.
    fn nested_inputs(&mut self, graph: &'p Graph) -> Result<(), OpError> {
        for input in &graph.inputs {
            let Argument::AsTensor(tensor) = input else { continue };
            let value = self.lookup(&tensor.name)?;
            if let Some((declared, found)) = self.contradiction(&tensor.name, value)? {
                let reason = format!(
                    "a nested graph declares its input {} as {declared}, and is given {found}",
                    quoted(&tensor.name)
                );
                return Err(OpError::Assertion(reason));
            }
        }
        Ok(())
    }

    /// The value of an output of the innermost graph; a size becomes an i64 scalar.
    pub(crate) fn output(&mut self, output: &Argument) -> Result<ValueId, OpError> {
        let integer = |importer: &mut Self, value: DimExpr| {
            let handle = importer.builder.symbolic(tenon_tensor::DType::I64, &[], vec![value]);
            Ok(importer.aliases.fresh(handle))
        };
        match output {
            Argument::AsTensor(tensor) => self.lookup(&tensor.name),
            Argument::AsOptionalTensor(OptionalTensor::AsTensor(tensor)) => self.lookup(&tensor.name),
            Argument::AsInt(value) => integer(self, DimExpr::constant(*value)),
            Argument::AsSymInt(crate::schema::SymIntArgument::AsInt(value)) => integer(self, DimExpr::constant(*value)),
            Argument::AsSymInt(crate::schema::SymIntArgument::AsName(name)) => {
                let value = self.symbol(name)?;
                integer(self, value)
            }
            Argument::AsFloat(value) => {
                let value = value.value().unwrap_or(f64::NAN);
                let handle = self.builder.scalar(value, tenon_tensor::DType::F32)?;
                Ok(self.aliases.fresh(handle))
            }
            Argument::AsBool(value) => {
                let handle = self.builder.scalar(f64::from(u8::from(*value)), tenon_tensor::DType::Bool)?;
                Ok(self.aliases.fresh(handle))
            }
            _ => Err(OpError::Option("an output that is neither a tensor nor a number".to_owned())),
        }
    }

    fn node(&mut self, node: &'p Node) -> Result<(), Pt2Error> {
        let site = source::site(node);
        let context = self.builder.context();
        self.builder.set_location(source::location(context, node, &site, &self.file));
        let outputs = self.results(node, &site).map_err(|error| error.at(&site))?;
        for (name, value) in output_names(node).into_iter().zip(outputs.iter().map(Some).chain(std::iter::repeat(None)))
        {
            if name.is_empty() {
                continue;
            }
            match value {
                Some(value) => {
                    self.check(name, *value).map_err(|error| error.at(&site))?;
                    self.define(name, Named::Value(*value))?;
                }
                None => self.define(name, Named::NotGiven)?,
            }
        }
        Ok(())
    }

    /// Compares a result with what the program declares of it.
    fn check(&mut self, name: &str, value: ValueId) -> Result<(), OpError> {
        match self.contradiction(name, value)? {
            None => Ok(()),
            Some((declared, found)) => Err(OpError::Assertion(format!(
                "the program declares {} as {declared}, its node gives {found}",
                quoted(name)
            ))),
        }
    }

    /// What the program declares of a name and what its value is, where these cannot be one type.
    pub(crate) fn contradiction(
        &mut self,
        name: &str,
        value: ValueId,
    ) -> Result<Option<(TensorType, TensorType)>, OpError> {
        let Some(declared) = self.declared(name)? else { return Ok(None) };
        let handle = self.read(value)?;
        let found = self.builder.ty(handle).clone();
        let fits = declared.dtype == found.dtype
            && declared.rank() == found.rank()
            && declared.dims.iter().zip(&found.dims).all(|(declared, found)| !declared.differs(found));
        if !fits {
            return Ok(Some((declared, found)));
        }
        // Where the two are written in different ways, torch knows from ranges and guards that they are the same.
        for (declared, found) in declared.dims.into_iter().zip(found.dims) {
            let reason = format!("the program declares this size of {}", quoted(name));
            self.builder.require(found.extent, Order::Equal, declared.extent, &reason)?;
        }
        Ok(None)
    }

    fn results(&mut self, node: &'p Node, site: &NodeSite) -> Result<Vec<ValueId>, OpError> {
        if is_size(node) {
            // Their values stand in the graph's lists; each use of one that is missing there is refused.
            return Ok(Vec::new());
        }
        let (row, qualified) = ops::find(&node.target).map_err(|unknown| unknown.error(node, site))?;
        let parameters = super::arguments::checked(node, &qualified, site)?;
        let written = parameters.first().map_or("self", |parameter| parameter.name);
        let given = node.inputs.iter().find(|input| input.name == written).map(|input| &input.arg);
        let in_place = qualified.in_place.then(|| match given {
            Some(Argument::AsTensor(tensor)) => self.lookup(&tensor.name),
            _ => Err(OpError::Arguments("the tensor that is written is missing".to_owned())),
        });
        let target = in_place.transpose()?;
        let mut op = OpImport {
            importer: self,
            node,
            name: qualified.name,
            overload: qualified.overload,
            parameters: &parameters,
        };
        let mut outs = (row.import)(&mut op)?;
        if let Some(target) = target {
            let first = match outs.drain(..).next() {
                None => return Ok(Vec::new()),
                // Nothing changes: `detach_`, dropout of inference.
                Some(Out::Alias(value)) if value == target => return Ok(vec![target]),
                Some(Out::View(..) | Out::Doubtful(..)) => {
                    return Err(OpError::Option("changing a tensor's shape in place".to_owned()));
                }
                Some(first) => first,
            };
            let first = self.value(first)?;
            let new = self.read(first)?;
            let old = self.read(target)?;
            let dtype = self.builder.ty(old).dtype;
            let new = self.builder.cast(new, dtype)?;
            let shape = self.builder.extents(old);
            let new = self.builder.broadcast(new, shape)?;
            self.aliases.write(&mut self.builder, target, new)?;
            return Ok(vec![target]);
        }
        outs.into_iter().map(|out| self.value(out)).collect()
    }

    fn value(&mut self, out: Out) -> Result<ValueId, OpError> {
        Ok(match out {
            Out::New(handle) => self.aliases.fresh(handle),
            Out::Alias(value) => value,
            Out::View(of, view) => self.aliases.view(&mut self.builder, of, view)?,
            Out::Doubtful(of, handle) => self.aliases.doubtful(of, handle),
        })
    }
}
