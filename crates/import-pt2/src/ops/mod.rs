//! The importers of operators: one file a family, one line each in `table`.
//!
//! An importer is given a node and emits operations of the graph dialect. Overloads of an operator share an importer, which asks for arguments by
//! name; an operator in place (`relu_`) is the one without the underscore, whose result is then written.

mod activation;
mod attention;
mod control;
mod conversion;
mod convolution;
mod creation;
mod indexing;
mod joining;
mod matmul;
mod normalization;
mod pointwise;
mod pooling;
mod promotion;
mod quantization;
mod recurrent;
mod reduction;
mod resize;
mod sorting;
mod table;
mod unary;
mod views;

use crate::error::{NodeSite, OpError, Pt2Error};
use crate::import::op::{OpImport, Results};
use crate::schema::{Argument, Node};

pub use table::{SupportedOperator, operator_table, supported_operators};

/// An importer of one operator.
pub(crate) type Import = for<'i, 'm, 'p> fn(&mut OpImport<'i, 'm, 'p>) -> Results;

/// The parts of a target, `torch.ops.aten.add_.Tensor`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Qualified<'t> {
    pub namespace: &'t str,
    /// Without the underscore of an operator in place.
    pub name: &'t str,
    /// Empty for `default`.
    pub overload: &'t str,
    pub in_place: bool,
}

impl<'t> Qualified<'t> {
    fn parse(target: &'t str) -> Option<Qualified<'t>> {
        let (namespace, rest) = target.strip_prefix("torch.ops.")?.split_once('.')?;
        let (name, overload) = rest.split_once('.').unwrap_or((rest, ""));
        let overload = if overload == "default" { "" } else { overload };
        let shorter = name.strip_suffix('_').filter(|name| namespace == "aten" && !name.ends_with('_'));
        Some(Qualified { namespace, name: shorter.unwrap_or(name), overload, in_place: shorter.is_some() })
    }

    /// The key of the table of schemas.
    pub(crate) fn schema(&self) -> String {
        let underscore = if self.in_place { "_" } else { "" };
        let dot = if self.overload.is_empty() { "" } else { "." };
        format!("{}::{}{underscore}{dot}{}", self.namespace, self.name, self.overload)
    }
}

/// Why there is no importer for a target.
pub(crate) enum Unknown {
    /// A library that comes with torch.
    Operator,
    /// A library of the model's own.
    Custom,
}

/// Libraries whose operators no recipe binds.
const OWN_NAMESPACES: &[&str] =
    &["aten", "prims", "prim", "higher_order", "quantized_decomposed", "quantized", "inductor"];

impl Unknown {
    pub(crate) fn error(self, node: &Node, site: &NodeSite) -> OpError {
        let site = Box::new(site.clone());
        match self {
            Unknown::Operator => Pt2Error::UnknownOperator { site, overload: None }.into(),
            Unknown::Custom => {
                let stanza = stanza(node, &site.target);
                Pt2Error::CustomOperator { site, stanza }.into()
            }
        }
    }
}

/// The clause of a recipe that binds a custom operator; shapes by the node's own operands.
fn stanza(node: &Node, target: &str) -> String {
    let mut parts = target.split('.');
    let name: Vec<&str> = [parts.next(), parts.next()].into_iter().flatten().collect();
    let tensors = |arguments: &mut dyn Iterator<Item = &Argument>| -> String {
        let count: usize = arguments
            .map(|argument| match argument {
                Argument::AsTensor(_) | Argument::AsOptionalTensor(_) => 1,
                Argument::AsTensors(list) => list.len(),
                _ => 0,
            })
            .sum();
        vec!["…"; count].join(" ; ")
    };
    let inputs = tensors(&mut node.inputs.iter().map(|input| &input.arg));
    let outputs = tensors(&mut node.outputs.iter());
    format!(
        "[custom_ops.\"{}\"]\nversion = \"…\"\nshape   = \"{inputs} -> {outputs}\"\nlibrary = \"….ptx\"\nsha256  = \"…\"",
        name.join("::")
    )
}

/// The table's row for a target.
pub(crate) fn find(target: &str) -> Result<(&'static table::Row, Qualified<'_>), Unknown> {
    let Some(qualified) = Qualified::parse(target) else { return Err(Unknown::Operator) };
    let row = table::ROWS.iter().find(|row| row.name == qualified.name && row.namespace == qualified.namespace);
    match row {
        Some(row) => Ok((row, qualified)),
        None if OWN_NAMESPACES.contains(&qualified.namespace) => Err(Unknown::Operator),
        None => Err(Unknown::Custom),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_taken_apart() {
        let parse = |target| Qualified::parse(target).unwrap();
        let add = parse("torch.ops.aten.add_.Tensor");
        assert_eq!(
            (add.name, add.overload, add.in_place, add.schema().as_str()),
            ("add", "Tensor", true, "aten::add_.Tensor")
        );
        let linear = parse("torch.ops.aten.linear.default");
        assert_eq!((linear.schema().as_str(), linear.in_place), ("aten::linear", false));
        assert!(!parse("torch.ops.aten.__and__.Tensor").in_place);
        assert_eq!(parse("torch.ops.higher_order.cond").name, "cond");
        assert!(Qualified::parse("_operator.add").is_none());
    }
}
