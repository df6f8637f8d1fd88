//! Replacing the symbols of a module.

use std::cell::RefCell;
use std::collections::BTreeMap;

use tenon_flow_dialect::Flow;
use tenon_graph_dialect::{
    Dim, DimExpr, ErrorKind, Operator, Relation, Requirement, SemanticError, TensorType, read_dim_expr, write_dim_expr,
};
use tenon_ir::{Attribute, Block, Module, Op, Value};
use tenon_pass_manager::PassError;

/// Attributes of operators that hold dimension expressions.
const DIM_ATTRIBUTES: &[&str] = &["shape", "sizes", "starts", "low", "high"];

/// What a symbol becomes; `None` leaves it.
pub(crate) type Lookup<'l> = &'l dyn Fn(&str) -> Option<DimExpr>;

/// The largest size of a dimension that keeps its name; `None` where it is not known.
pub(crate) type Capacity<'l> = &'l dyn Fn(&str) -> Option<i64>;

/// The largest value of extents that the module computes, by name.
type Computed = RefCell<BTreeMap<String, i64>>;

/// The largest size of named dimensions, and where those are noted that the module computes.
#[derive(Clone, Copy)]
struct Capacities<'l> {
    of: Capacity<'l>,
    computed: &'l Computed,
    /// What must hold of the extents.
    found: &'l RefCell<Vec<Requirement>>,
}

impl Capacities<'_> {
    /// Notes what an operation needs, unless capacities show that it holds.
    fn require(&self, op: Op<'_>, requirement: Requirement) {
        let condition = &requirement.condition;
        let difference = condition.left.sub(&condition.right);
        let most = difference.and_then(|difference| difference.upper_bound(self.of));
        let holds = condition.relation == Relation::AtMost && most.is_some_and(|most| most <= 0);
        if !holds && condition.decide() != Some(true) {
            self.found.borrow_mut().push(Requirement { source: op.location().names(), ..requirement });
        }
    }

    /// Notes that values have the same extents.
    fn require_same(&self, op: Op<'_>, inner: &[Value<'_>], outer: &[Value<'_>]) -> Result<(), SemanticError> {
        for (inner, outer) in inner.iter().zip(outer) {
            let (inner, outer) = (TensorType::read(inner.ty())?, TensorType::read(outer.ty())?);
            for (inner, outer) in inner.dims.iter().zip(&outer.dims) {
                let reason = || "what a region of control flow gives has the sizes that go on outside".to_owned();
                Requirement::same(inner, outer, reason).into_iter().for_each(|found| self.require(op, found));
            }
        }
        Ok(())
    }
}

/// Replaces symbols in the types of arguments and in the attributes of operators, and infers every result type anew. Gives what must hold of
/// the extents that are left for all operators to be defined.
///
/// # Errors
/// An operator whose operands no longer fit, a dimension that became negative, or a condition that no extents up to their capacities fulfil, by node.
pub(crate) fn substitute(
    module: &Module<'_>,
    lookup: Lookup<'_>,
    capacity: Capacity<'_>,
) -> Result<Vec<Requirement>, PassError> {
    let found = RefCell::new(crate::ranges::substitute(module, lookup, capacity)?);
    // Of the extents that the module computes, those passed so far.
    let computed: Computed = RefCell::default();
    let capacity = |name: &str| capacity(name).or_else(|| computed.borrow().get(name).copied());
    let capacity = Capacities { of: &capacity, computed: &computed, found: &found };
    for op in module.body().ops() {
        if !op.is("func.func") && !op.is("graph.derived_parameter") {
            continue;
        }
        let Some(block) = op.region_block(0) else { continue };
        for argument in block.arguments() {
            set_type(argument, replaced(argument, lookup).map_err(|error| at(error, op))?, capacity)?;
        }
        substitute_block(block, lookup, capacity)?;
        if op.is("func.func") {
            let inputs: Vec<_> = block.arguments().into_iter().map(Value::ty).collect();
            let results: Vec<_> =
                block.terminator().map(|op| op.operands()).unwrap_or_default().into_iter().map(Value::ty).collect();
            let ty = op.context().function_type(&inputs, &results);
            op.set_attribute("function_type", op.context().type_attribute(ty))?;
        }
    }
    let needed = found.borrow().clone();
    crate::ranges::check_satisfiable(module, &needed, capacity.of)?;
    Ok(needed)
}

fn substitute_block(block: Block<'_>, lookup: Lookup<'_>, capacity: Capacities<'_>) -> Result<(), PassError> {
    for op in block.ops() {
        if Operator::NAMES.iter().any(|name| op.is(name)) {
            infer(op, lookup, capacity).map_err(|error| at(error, op))?;
        } else if let Some(flow) = Flow::read(op) {
            substitute_flow(&flow?, lookup, capacity).map_err(|error| located(error, op))?;
        } else if let Some(body) = op.region_block(0) {
            for (argument, operand) in body.arguments().into_iter().zip(op.operands()) {
                argument.set_type(operand.ty());
            }
            substitute_block(body, lookup, capacity)?;
            let yielded = body.terminator().map(|terminator| terminator.operands()).unwrap_or_default();
            for (result, value) in op.results().into_iter().zip(yielded) {
                result.set_type(value.ty());
            }
        } else {
            for result in op.results() {
                set_type(result, replaced(result, lookup).map_err(|error| at(error, op))?, capacity)?;
            }
        }
    }
    Ok(())
}

/// Control flow: what enters a region gives the types of its arguments, what it yields those of the results.
fn substitute_flow(flow: &Flow<'_>, lookup: Lookup<'_>, capacity: Capacities<'_>) -> Result<(), PassError> {
    let results = flow.op().results();
    match flow {
        Flow::If(branch) => {
            substitute_block(branch.then_body, lookup, capacity)?;
            substitute_block(branch.else_body, lookup, capacity)?;
        }
        Flow::Loop(repeat) => {
            take_types(repeat.body.arguments().get(1..).unwrap_or_default(), &repeat.carried);
            take_types(&results, &repeat.carried);
            substitute_block(repeat.body, lookup, capacity)?;
        }
        Flow::Scan(scan) => {
            let arguments = scan.body.arguments();
            take_types(&arguments, &scan.state);
            take_types(&results, &scan.state);
            let mut length: Option<Dim> = None;
            for ((argument, value), axis) in
                arguments.iter().skip(scan.state.len()).zip(&scan.scanned).zip(&scan.input_axes)
            {
                let mut slice = TensorType::read(value.ty())?;
                if let Some(axis) = usize::try_from(*axis).ok().filter(|axis| *axis < slice.rank()) {
                    let dim = slice.dims.remove(axis);
                    let reason = || "what is scanned together has one length".to_owned();
                    let first = length.get_or_insert_with(|| dim.clone());
                    Requirement::same(first, &dim, reason)
                        .into_iter()
                        .for_each(|found| capacity.require(scan.op, found));
                }
                set_type(*argument, TensorType::new(slice.dtype, slice.dims), capacity)?;
            }
            substitute_block(scan.body, lookup, capacity)?;
        }
    }
    // What is no carried value keeps its own dimensions, with the symbols replaced.
    let carried = match flow {
        Flow::If(_) => 0,
        Flow::Loop(repeat) => repeat.carried.len(),
        Flow::Scan(scan) => scan.state.len(),
    };
    for result in results.iter().skip(carried) {
        set_type(*result, replaced(*result, lookup)?, capacity)?;
    }
    let op = flow.op();
    match flow {
        Flow::If(branch) => {
            capacity.require_same(op, &yielded(branch.then_body), &results)?;
            capacity.require_same(op, &yielded(branch.else_body), &results)?;
        }
        Flow::Loop(repeat) => {
            let next = yielded(repeat.body);
            capacity.require_same(op, next.get(1..=carried).unwrap_or_default(), &results)?;
        }
        Flow::Scan(scan) => {
            capacity.require_same(op, yielded(scan.body).get(..carried).unwrap_or_default(), &results)?
        }
    }
    Ok(())
}

fn yielded<'m>(block: Block<'m>) -> Vec<Value<'m>> {
    block.terminator().map(|op| op.operands()).unwrap_or_default()
}

fn take_types(targets: &[Value<'_>], sources: &[Value<'_>]) {
    for (target, source) in targets.iter().zip(sources) {
        target.set_type(source.ty());
    }
}

/// An error inside an operation that names no node gets the operation's.
fn located(error: PassError, op: Op<'_>) -> PassError {
    match error {
        PassError::Semantic(error) => at(error, op).into(),
        other => other,
    }
}

fn infer(op: Op<'_>, lookup: Lookup<'_>, capacity: Capacities<'_>) -> Result<(), SemanticError> {
    let structure = |error: tenon_ir::IrError| SemanticError::new(ErrorKind::Structure, &op.name(), error.to_string());
    for name in DIM_ATTRIBUTES {
        let Some(list) = op.attribute(name).and_then(Attribute::as_array) else { continue };
        let dims: Option<Vec<DimExpr>> = list.iter().map(|entry| read_dim_expr(*entry)?.substitute(lookup)).collect();
        let dims = dims.ok_or_else(|| {
            SemanticError::new(
                ErrorKind::Attribute,
                &op.name(),
                format!("`{name}` holds a dimension that cannot be computed"),
            )
        })?;
        let dims: Vec<_> = dims.iter().map(|dim| write_dim_expr(dim, op.context())).collect();
        op.set_attribute(name, op.context().array(&dims)).map_err(structure)?;
    }
    let Some(operator) = Operator::read(op) else { return Ok(()) };
    let operands =
        op.operands().into_iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()?;
    let operator = operator?;
    let types = operator.infer(&operands)?;
    if let (Operator::SetDimensionSize(set), [ty]) = (&operator, types.as_slice())
        && let (Some(name), Some(most)) = (set.extent.as_symbol(), ty.dims.first().and_then(|dim| dim.capacity))
    {
        capacity.computed.borrow_mut().insert(name.to_owned(), i64::try_from(most).unwrap_or(i64::MAX));
    }
    for requirement in operator.requirements(&operands, &types) {
        capacity.require(op, requirement);
    }
    for (result, ty) in op.results().into_iter().zip(types) {
        set_type(result, ty, capacity)?;
    }
    Ok(())
}

/// Sets a type, with capacities where they follow from those of names.
fn set_type(value: Value<'_>, mut ty: TensorType, capacity: Capacities<'_>) -> Result<(), SemanticError> {
    for dim in ty.dims.iter_mut().filter(|dim| dim.capacity.is_none()) {
        dim.capacity = dim.extent.upper_bound(capacity.of).and_then(|bound| u64::try_from(bound).ok());
    }
    value.set_type(ty.to_type(value.ty().context())?);
    Ok(())
}

/// The type of a value with its symbols replaced.
fn replaced(value: Value<'_>, lookup: Lookup<'_>) -> Result<TensorType, SemanticError> {
    let mut ty = TensorType::read(value.ty())?;
    for dim in &mut ty.dims {
        let extent = dim.extent.substitute(lookup);
        let extent = extent.filter(|extent| extent.as_constant().is_none_or(|size| size >= 0)).ok_or_else(|| {
            SemanticError::new(
                ErrorKind::Shape,
                "type",
                format!("dimension {} becomes negative or too large", dim.extent),
            )
        })?;
        let capacity = dim.capacity;
        *dim = Dim::of(extent);
        dim.capacity = dim.capacity.or(capacity);
    }
    Ok(ty)
}

fn at(mut error: SemanticError, op: Op<'_>) -> SemanticError {
    if error.nodes.is_empty() {
        error.nodes = op.location().names();
    }
    error
}
