//! Semantic checks of a whole module.

use std::collections::{BTreeMap, BTreeSet};

use tenon_ir::{Module, Op};

use crate::operator::with_nodes;
use crate::{ErrorKind, Operator, SemanticError, TensorType};

/// Checks every operation of the graph dialect in a module; finds all errors, in order of the text.
///
/// What ODS cannot say is checked here: attributes, that each result type is the one that follows from the operands, and that every
/// parameter that is read is declared with that type.
pub fn check(module: &Module<'_>) -> Vec<SemanticError> {
    let mut errors = Vec::new();
    let ops = module.op().walk();
    let mut parameters: BTreeMap<String, String> = BTreeMap::new();
    let mut kernels = BTreeSet::new();
    for op in &ops {
        if (op.is("graph.parameter") || op.is("graph.derived_parameter"))
            && let (Some(name), Some(ty)) = (op.string("sym_name"), op.attribute("type"))
        {
            parameters.insert(name, ty.to_string());
        }
    }
    for op in ops {
        let result = match Operator::read(op) {
            Some(Ok(operator)) => check_types(op, &operator),
            Some(Err(error)) => Err(error),
            None => check_structure(op, &parameters, &mut kernels),
        };
        if let Err(error) = result {
            errors.push(with_nodes(error, op));
        }
    }
    errors
}

fn check_types(op: Op<'_>, operator: &Operator) -> Result<(), SemanticError> {
    let operands = op.operands().iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()?;
    let written = op.results().iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()?;
    let inferred = operator.infer(&operands)?;
    let agree = inferred.len() == written.len()
        && inferred.iter().zip(&written).all(|(inferred, written)| {
            inferred.dtype == written.dtype
                && inferred.rank() == written.rank()
                && inferred.dims.iter().zip(&written.dims).all(|(a, b)| !a.differs(b))
        });
    if agree {
        return Ok(());
    }
    let list = |types: &[TensorType]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Err(SemanticError::new(
        ErrorKind::Result,
        operator.name(),
        format!("the operands give {}, written is {}", list(&inferred), list(&written)),
    ))
}

fn check_structure(
    op: Op<'_>,
    parameters: &BTreeMap<String, String>,
    kernels: &mut BTreeSet<String>,
) -> Result<(), SemanticError> {
    let wrong = |message: String| Err(SemanticError::new(ErrorKind::Structure, &op.name(), message));
    if op.is("graph.get_parameter") {
        let name = op.attribute("parameter").and_then(|a| a.as_symbol()).unwrap_or_default();
        let ty = op.result(0).map(|value| value.ty().to_string()).unwrap_or_default();
        return match parameters.get(&name) {
            None => wrong(format!("parameter `@{name}` is not declared")),
            Some(declared) if *declared != ty => {
                wrong(format!("parameter `@{name}` is declared as {declared}, read as {ty}"))
            }
            Some(_) => Ok(()),
        };
    }
    if op.is("graph.parameter") || op.is("graph.derived_parameter") {
        let ty = op.attribute("type").and_then(|a| a.as_type());
        let ty = ty.map(TensorType::read).transpose()?;
        if ty.and_then(|ty| ty.known_shape()).is_none() {
            return wrong("a parameter must be a tensor of fixed shape".to_owned());
        }
    }
    if op.is("graph.kernel") {
        let name = op.string("sym_name").unwrap_or_default();
        if !kernels.insert(name.clone()) {
            return wrong(format!("two kernels are called `{name}`"));
        }
        let block = op.region_block(0);
        let arguments: Vec<_> = block.map(|b| b.arguments()).unwrap_or_default().iter().map(|v| v.ty()).collect();
        let operands: Vec<_> = op.operands().iter().map(|v| v.ty()).collect();
        if arguments != operands {
            return wrong("the body's arguments must have the types of the operands".to_owned());
        }
        let terminator = block.and_then(|b| b.terminator()).filter(|op| op.is("graph.yield"));
        let yielded: Vec<_> = terminator.map(|op| op.operands()).unwrap_or_default().iter().map(|v| v.ty()).collect();
        if terminator.is_none() || yielded != op.result_types() {
            return wrong("the body must yield values of the result types".to_owned());
        }
    }
    Ok(())
}
