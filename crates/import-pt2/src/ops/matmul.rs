//! Products of matrices.

use tenon_graph_builder::{EinsumError, Handle, accumulator};
use tenon_graph_dialect::operators::{Contract, Function, ReduceKind};

use crate::error::OpError;
use crate::import::op::{OpImport, Results, one};

/// `lhs,rhs->result`, summed in at least f32 and rounded once.
pub(super) fn contract(
    op: &mut OpImport<'_, '_, '_>,
    equation: [&str; 3],
    x: Handle,
    y: Handle,
) -> Result<Handle, OpError> {
    let [lhs, rhs, result] = equation.map(str::to_owned);
    let dtype = op.element(x);
    Ok(op.emit_one(Contract { lhs, rhs, result, accumulate: accumulator(dtype), dtype }, &[x, y])?)
}

/// x · weightᵀ + bias
pub(super) fn linear(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, weight) = (op.tensor("input")?, op.tensor("weight")?);
    let bias = op.optional_tensor("bias")?;
    one(linear_of(op, x, weight, bias)?)
}

/// x · weightᵀ + bias over the last dimension.
pub(super) fn linear_of(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    weight: Handle,
    bias: Option<Handle>,
) -> Result<Handle, OpError> {
    let rank = op.rank(x);
    if !(1..=20).contains(&rank) {
        return Err(op.invalid(format!("{} has no last dimension", op.ty(x))));
    }
    let outer: String = ('a'..='t').take(rank - 1).collect();
    let (rhs, result) = match op.rank(weight) {
        1 => ("z".to_owned(), outer.clone()),
        _ => ("yz".to_owned(), format!("{outer}y")),
    };
    let product = contract(op, [&format!("{outer}z"), &rhs, &result], x, weight)?;
    match bias {
        Some(bias) => Ok(op.apply(Function::Add, &[product, bias])?),
        None => Ok(product),
    }
}

/// matmul, mm, bmm, mv and dot: vectors at either end, leading dimensions broadcast.
pub(super) fn matmul(op: &mut OpImport<'_, '_, '_>) -> Results {
    let second = ["other", "mat2", "vec2", "vec", "tensor"].into_iter().find(|name| op.has(name)).unwrap_or("other");
    let (x, y) = (op.tensor("self")?, op.tensor(second)?);
    one(matmul_of(op, x, y)?)
}

fn matmul_of(op: &mut OpImport<'_, '_, '_>, x: Handle, y: Handle) -> Result<Handle, OpError> {
    let (ranks, letters) = ((op.rank(x), op.rank(y)), ('a'..='t').collect::<Vec<char>>());
    if ranks.0 == 0 || ranks.1 == 0 || ranks.0.max(ranks.1) > 18 {
        return Err(op.invalid("a product needs dimensions on both sides"));
    }
    let batch = (ranks.0.max(2) - 2, ranks.1.max(2) - 2);
    let widest = batch.0.max(batch.1);
    // Dimensions of 1 that the other side has more of are left out of the product and come back by its labels.
    let (own, other) = (op.extents(x), op.extents(y));
    let mut labels = [String::new(), String::new()];
    let mut kept = [Vec::new(), Vec::new()];
    let mut result = String::new();
    for place in 0..widest {
        let size = |count: usize, shape: &[tenon_graph_dialect::DimExpr]| {
            (place + count >= widest).then(|| shape[place + count - widest].clone())
        };
        let sizes = [size(batch.0, &own), size(batch.1, &other)];
        let is_one = |size: &Option<tenon_graph_dialect::DimExpr>| {
            size.as_ref().is_some_and(|size| size.as_constant() == Some(1))
        };
        for side in 0..2 {
            let Some(size) = &sizes[side] else { continue };
            let stretched = is_one(&sizes[side]) && sizes[1 - side].is_some() && !is_one(&sizes[1 - side]);
            if !stretched {
                labels[side].push(letters[place]);
                kept[side].push(size.clone());
            }
        }
        result.push(letters[place]);
    }
    if ranks.0 > 1 {
        labels[0].push('x');
        kept[0].push(own[ranks.0 - 2].clone());
        result.push('x');
    }
    labels[0].push('z');
    kept[0].push(own[ranks.0 - 1].clone());
    labels[1].push('z');
    kept[1].push(other[if ranks.1 > 1 { ranks.1 - 2 } else { 0 }].clone());
    if ranks.1 > 1 {
        labels[1].push('y');
        kept[1].push(other[ranks.1 - 1].clone());
        result.push('y');
    }
    let [left, right] = kept;
    let (x, y) = (op.reshape(x, left)?, op.reshape(y, right)?);
    contract(op, [&labels[0], &labels[1], &result], x, y)
}

/// beta · self + alpha · (a · b), for matrices, batches of them and vectors.
pub(super) fn add_product(op: &mut OpImport<'_, '_, '_>) -> Results {
    let own = op.tensor("self")?;
    let (a, b) = match op.name {
        "addmm" => ("mat1", "mat2"),
        "addmv" => ("mat", "vec"),
        "addr" => ("vec1", "vec2"),
        _ => ("batch1", "batch2"),
    };
    let (a, b) = (op.tensor(a)?, op.tensor(b)?);
    let mut product = match op.name {
        "addr" => contract(op, ["x", "y", "xy"], a, b)?,
        _ => matmul_of(op, a, b)?,
    };
    if op.name == "addbmm" {
        product = op.reduce(ReduceKind::Sum, product, &[0], false)?;
    }
    let (alpha, beta) = (op.float("alpha")?, op.float("beta")?);
    let dtype = op.element(product);
    let mut added = own;
    for (value, factor) in [(&mut product, alpha), (&mut added, beta)] {
        if factor != 1.0 {
            let factor = op.scalar(factor, dtype)?;
            *value = op.apply(Function::Multiply, &[*value, factor])?;
        }
    }
    if beta == 0.0 {
        return one(product);
    }
    one(op.apply(Function::Add, &[added, product])?)
}

/// Products of all pairs.
pub(super) fn outer(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, y) = (op.tensor("self")?, op.tensor("vec2")?);
    one(contract(op, ["x", "y", "xy"], x, y)?)
}

/// x1 · W · x2 + bias
pub(super) fn bilinear(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, y, weight) = (op.tensor("input1")?, op.tensor("input2")?, op.tensor("weight")?);
    let rank = op.rank(x);
    if !(1..=18).contains(&rank) {
        return Err(op.invalid("an operand has no last dimension"));
    }
    let outer: String = ('a'..='r').take(rank - 1).collect();
    let first = contract(op, [&format!("{outer}x"), "kxy", &format!("{outer}ky")], x, weight)?;
    let mut result = contract(op, [&format!("{outer}ky"), &format!("{outer}y"), &format!("{outer}k")], first, y)?;
    if let Some(bias) = op.optional_tensor("bias")? {
        result = op.apply(Function::Add, &[result, bias])?;
    }
    one(result)
}

/// A tensor with itself or another one in Einstein notation.
pub(super) fn einsum(op: &mut OpImport<'_, '_, '_>) -> Results {
    let equation = op.text("equation")?;
    let operands = op.tensors("tensors")?;
    match tenon_graph_builder::einsum(&mut op.importer.builder, &equation, &operands) {
        Ok(value) => one(value),
        Err(EinsumError::Equation(reason)) => Err(op.invalid(format!("the equation {equation:?}: {reason}"))),
        Err(EinsumError::NotFixed(what)) => Err(op.unsupported(what)),
        Err(EinsumError::Semantic(error)) => Err(error.into()),
    }
}
