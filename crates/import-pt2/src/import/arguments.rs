//! Arguments of a node held against the schema of its operator, so that none is left out of account.

use crate::error::{NodeSite, OpError, Pt2Error, quoted};
use crate::ops::Qualified;
use crate::schema::Node;
use crate::schemas::{self, Parameter};

/// Most arguments of the operators without a schema, which take them by place: graphs, carried values, captured ones.
const HIGHER_ORDER: &[(&str, usize)] = &[("cond", 4), ("map_impl", 3), ("scan", 4), ("while_loop", 4)];

/// The parameters of the operator that a node calls; empty for one that takes arguments by place.
///
/// # Errors
/// An overload that the operator does not have, an argument that the schema does not have, one that is given twice, more arguments than there are.
pub(super) fn checked(node: &Node, called: &Qualified<'_>, site: &NodeSite) -> Result<Vec<Parameter>, OpError> {
    let wrong = |reason: String| Err(OpError::Arguments(reason));
    if called.namespace == "higher_order" {
        return match HIGHER_ORDER.iter().find(|(name, _)| *name == called.name) {
            _ if !called.overload.is_empty() => Err(no_overload(called, site)),
            Some((_, most)) if node.inputs.len() > *most => {
                wrong(format!("{} arguments are given, the operator takes {most}", node.inputs.len()))
            }
            _ => Ok(Vec::new()),
        };
    }
    let parameters = schemas::find(&called.schema()).ok_or_else(|| no_overload(called, site))?;
    for (index, input) in node.inputs.iter().enumerate() {
        if !parameters.iter().any(|parameter| parameter.name == input.name) {
            return wrong(format!("the operator has no argument {}", quoted(&input.name)));
        }
        if node.inputs[..index].iter().any(|earlier| earlier.name == input.name) {
            return wrong(format!("the argument {} is given twice", quoted(&input.name)));
        }
    }
    Ok(parameters)
}

fn no_overload(called: &Qualified<'_>, site: &NodeSite) -> OpError {
    let name = if called.overload.is_empty() { "default" } else { called.overload };
    Pt2Error::UnknownOperator { site: Box::new(site.clone()), overload: Some(name.to_owned()) }.into()
}
