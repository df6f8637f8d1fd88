//! The kernel of an attention.

use tenon_graph_dialect::operators::{Attention, Transpose};
use tenon_graph_dialect::{Dim, Operator, SemanticError, TensorType};
use tenon_ir::{Builder, Op, Value};
use tenon_pass_manager::{PassContext, PassError};
use tenon_tensor::DType;

use crate::family::Family;

/// The largest head that a schedule takes.
pub(super) const MOST_DEPTH: u64 = 256;
/// The largest head of f32: CUDA cores hold its results in registers beside what they multiply.
pub(super) const MOST_DEPTH_OF_F32: u64 = 64;

/// Types of an attention's operands.
pub(super) fn types(op: Op<'_>) -> Result<Vec<TensorType>, SemanticError> {
    op.operands().into_iter().map(|value| TensorType::read(value.ty())).collect()
}

/// Whether a schedule takes attention over operands of such types: f16, bf16 and f32, heads of known size, masks whose dimensions are those of
/// the scores or 1, offsets of 32 bits.
pub(super) fn takes(types: &[TensorType]) -> bool {
    let [q, k, v, ..] = types else { return false };
    let most = if q.dtype == DType::F32 { MOST_DEPTH_OF_F32 } else { MOST_DEPTH };
    let small = |size: Option<u64>| size.is_some_and(|size| size <= most);
    let groups = q.dims[1].extent == k.dims[1].extent || q.dims[1].known().is_some() && k.dims[1].known().is_some();
    let scores = [&q.dims[0], &q.dims[1], &q.dims[2], &k.dims[2]];
    let fits = |dims: &[&Dim]| {
        let count = dims.iter().try_fold(1u64, |count, dim| count.checked_mul(dim.capacity?));
        count.is_some_and(|count| count < 1 << 31)
    };
    let mask_fits = types.get(3).is_none_or(|mask| {
        let alike = scores
            .iter()
            .rev()
            .zip(mask.dims.iter().rev())
            .all(|(score, dim)| dim.is_one() || dim.extent == score.extent);
        alike && fits(&scores)
    });
    matches!(q.dtype, DType::F16 | DType::BF16 | DType::F32)
        && small(q.dims[3].known())
        && small(v.dims[3].known())
        && groups
        && mask_fits
        && [q, k, v].iter().all(|ty| fits(&ty.dims.iter().collect::<Vec<_>>()))
        && fits(&[&q.dims[0], &q.dims[1], &q.dims[2], &v.dims[3]])
}

/// The value behind transpositions, and the permutation that they are together.
fn behind_transposes<'m>(mut value: Value<'m>, rank: usize) -> (Value<'m>, Vec<i64>, Vec<Op<'m>>) {
    let mut permutation: Vec<i64> = (0..rank as i64).collect();
    let mut ops = Vec::new();
    while let Some((op, _)) = value.defining_op()
        && let Some(Ok(Operator::Transpose(transpose))) = Operator::read(op)
        && let Some(input) = op.operand(0)
    {
        permutation = permutation.iter().map(|axis| transpose.permutation[*axis as usize]).collect();
        value = input;
        ops.push(op);
    }
    (value, permutation, ops)
}

/// Puts an attention into a kernel of its own, in its place.
pub(super) fn build(op: Op<'_>, index: usize, context: &PassContext) -> Result<(), PassError> {
    let (Some(Ok(Operator::Attention(attention))), Some(at)) = (Operator::read(op), Builder::before(op)) else {
        return Ok(());
    };
    let ir = op.context();
    let mut members = vec![op];
    let mut outside = Vec::new();
    let mut permutations = Vec::new();
    for (position, value) in op.operands().into_iter().enumerate() {
        let (value, permutation) = if position < 3 {
            let (value, permutation, ops) = behind_transposes(value, 4);
            members.extend(ops);
            (value, Some(permutation).filter(|permutation| !permutation.is_sorted()))
        } else {
            (value, None)
        };
        outside.push(value);
        permutations.push(permutation);
    }
    // A transposition that is all that reads the result is where the kernel writes to.
    let users = op.results().first().map(|result| result.users()).unwrap_or_default();
    let behind = match users.as_slice() {
        [(user, _)] => match Operator::read(*user) {
            Some(Ok(Operator::Transpose(transpose))) => Some((*user, transpose)),
            _ => None,
        },
        _ => None,
    };
    members.extend(behind.iter().map(|(user, _)| *user));
    let locations: Vec<_> = members.iter().map(|member| member.location()).collect();
    let location = ir.fused_location(&locations);
    let replaced = behind.as_ref().map_or(op, |(user, _)| *user);

    let mut operands: Vec<Value<'_>> = Vec::new();
    for value in &outside {
        if !operands.contains(value) {
            operands.push(*value);
        }
    }
    let family = Family::Attention.name();
    let name = format!("a{index}_{family}");
    let kernel = at
        .with_location(location)
        .op("graph.kernel")
        .operands(&operands)
        .results(&replaced.result_types())
        .attribute("sym_name", ir.string(&name))
        .attribute("family", ir.string(family))
        .attribute("rules", ir.array(&[ir.string("online-softmax")]))
        .attribute("numeric_class", ir.string("reassociates"))
        .regions(1)
        .build()?;
    let arguments: Vec<_> = operands.iter().map(|value| (value.ty(), location)).collect();
    let region = kernel.region(0).expect("the operation was built with a region");
    let block = region.append_block(&arguments)?;
    let body = Builder::at_end(block).expect("the block is in the kernel").with_location(op.location());
    let mut inside = Vec::new();
    for (value, permutation) in outside.iter().zip(permutations) {
        let place = operands.iter().position(|operand| operand == value).expect("it is an operand");
        let argument = block.arguments()[place];
        inside.push(match permutation {
            None => argument,
            Some(permutation) => first(Operator::from(Transpose { permutation }).build(body, &[argument])?),
        });
    }
    let types = op.results().iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()?;
    let mut result = first(Operator::from(Attention::clone(&attention)).build_as(body, &inside, &types)?);
    if let Some((user, transpose)) = &behind {
        result = first(Operator::from(transpose.clone()).build(body.with_location(user.location()), &[result])?);
    }
    body.with_location(location).op("graph.yield").operands(&[result]).build()?;
    replaced.replace_all_uses(&kernel.results());
    if let Some((user, _)) = behind {
        user.erase()?;
    }
    op.erase()?;
    context.count("kernels", 1);
    context.remark("kernel", location.names(), format!("`{name}` keeps scores out of memory"));
    Ok(())
}

/// The one result of an operator that has one.
fn first(results: Vec<Value<'_>>) -> Value<'_> {
    results[0]
}
