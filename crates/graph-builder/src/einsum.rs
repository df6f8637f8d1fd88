//! Einsum of any number of operands, as contractions from the left.
//!
//! Source: `numpy.einsum`, ONNX Einsum (version 12): upper and lower case letters, one ellipsis an operand, explicit or implicit result.

use std::collections::BTreeSet;

use tenon_graph_dialect::operators::{Contract, ReduceKind, Slice};
use tenon_graph_dialect::{DimExpr, SemanticError};

use crate::builder::{GraphBuilder, Handle};
use crate::shorthand::accumulator;

/// Why an equation gives nothing.
#[derive(Debug)]
pub enum EinsumError {
    /// The equation does not fit the operands, or is none.
    Equation(String),
    /// Sizes that a diagonal needs to know.
    NotFixed(String),
    /// An operation that the graph dialect refuses.
    Semantic(SemanticError),
}

impl From<SemanticError> for EinsumError {
    fn from(error: SemanticError) -> Self {
        EinsumError::Semantic(error)
    }
}

/// An operand with one label a dimension.
struct Term {
    value: Handle,
    labels: Vec<char>,
}

/// The value of an equation over operands.
///
/// # Errors
/// An equation that is none or does not fit the operands.
pub fn einsum(op: &mut GraphBuilder<'_>, text: &str, values: &[Handle]) -> Result<Handle, EinsumError> {
    let equation: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let fault = |reason: &str| EinsumError::Equation(reason.to_owned());
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left.to_owned(), Some(right.to_owned())),
        None => (equation.clone(), None),
    };
    let operands: Vec<&str> = left.split(',').collect();
    if operands.len() != values.len() || values.is_empty() {
        return Err(fault("it has another number of operands"));
    }
    let named: BTreeSet<char> = equation.chars().filter(char::is_ascii_alphabetic).collect();
    let mut free = ('a'..='z').chain('A'..='Z').filter(|letter| !named.contains(letter));
    let written = |text: &str| text.replace("...", "").chars().count();
    let mut widest = 0;
    for (text, value) in operands.iter().zip(values) {
        let rank = op.ty(*value).rank();
        match (text.contains("..."), written(text)) {
            (true, count) if count <= rank => widest = widest.max(rank - count),
            (false, count) if count == rank => {}
            _ => return Err(fault("an operand has another number of dimensions")),
        }
    }
    let ellipsis: Vec<char> = free.by_ref().take(widest).collect();
    if ellipsis.len() < widest {
        return Err(fault("it has too many dimensions"));
    }
    // Labels of a text; the ellipsis stands for the last `width` of the ellipsis labels.
    let labels = |text: &str, width: usize| -> Option<Vec<char>> {
        let (before, after) = text.split_once("...").map_or((text, None), |(before, after)| (before, Some(after)));
        let mut labels: Vec<char> = before.chars().collect();
        if let Some(after) = after {
            labels.extend(&ellipsis[widest - width..]);
            labels.extend(after.chars());
        }
        labels.iter().all(char::is_ascii_alphabetic).then_some(labels)
    };
    let mut terms = Vec::new();
    for (text, value) in operands.iter().zip(values) {
        let width = if text.contains("...") { op.ty(*value).rank() - written(text) } else { 0 };
        let labels = labels(text, width).ok_or_else(|| fault("a label is no letter"))?;
        terms.push(Term { value: *value, labels });
    }
    let result = match right {
        Some(right) => labels(&right, widest).ok_or_else(|| fault("a label is no letter"))?,
        None => {
            let count = |label: char| left.chars().filter(|other| *other == label).count();
            let once = named.iter().copied().filter(|label| count(*label) == 1);
            ellipsis.iter().copied().chain(once).collect()
        }
    };
    let known: BTreeSet<char> = terms.iter().flat_map(|term| term.labels.iter().copied()).collect();
    let distinct: BTreeSet<char> = result.iter().copied().collect();
    if distinct.len() != result.len() || !distinct.is_subset(&known) {
        return Err(fault("the result repeats a label or has one of its own"));
    }
    for term in &mut terms {
        take_diagonals(op, term)?;
    }
    drop_stretched(op, &mut terms)?;
    contract(op, terms, &result)
}

/// Makes labels that occur twice in one operand occur once.
fn take_diagonals(op: &mut GraphBuilder<'_>, term: &mut Term) -> Result<(), EinsumError> {
    loop {
        let labels = &term.labels;
        let twice = (0..labels.len()).find_map(|first| {
            (first + 1..labels.len()).find(|second| labels[*second] == labels[first]).map(|second| (first, second))
        });
        let Some((first, second)) = twice else { return Ok(()) };
        let label = term.labels[first];
        let size = fixed(op, term.value, first)?;
        if fixed(op, term.value, second)? != size {
            return Err(EinsumError::Equation(format!("the dimensions `{label}` of {} differ", op.ty(term.value))));
        }
        // The two dimensions as one, the last: every (size + 1)-th element of it is on the diagonal.
        let others: Vec<usize> = (0..term.labels.len()).filter(|axis| *axis != first && *axis != second).collect();
        let order = others.iter().chain([&first, &second]).map(|axis| *axis as i64).collect();
        let moved = op.transpose(term.value, order)?;
        let mut shape: Vec<DimExpr> = others.iter().map(|axis| op.ty(term.value).dims[*axis].extent.clone()).collect();
        let square =
            size.checked_mul(size).ok_or_else(|| EinsumError::NotFixed("a diagonal is too large".to_owned()))?;
        shape.push(DimExpr::constant(square));
        let merged = op.reshape(moved, shape.clone())?;
        let last = shape.len() - 1;
        shape[last] = DimExpr::constant(size);
        let mut steps = vec![1; shape.len()];
        steps[last] = size + 1;
        let starts = vec![DimExpr::constant(0); shape.len()];
        term.value = op.emit_one(Slice { starts, sizes: shape, steps }, &[merged])?;
        term.labels = others.iter().map(|axis| term.labels[*axis]).chain([label]).collect();
    }
}

/// Drops dimensions of 1 where another operand's dimension of that label is larger.
fn drop_stretched(op: &mut GraphBuilder<'_>, terms: &mut [Term]) -> Result<(), EinsumError> {
    let mut larger = BTreeSet::new();
    for term in terms.iter() {
        for (axis, label) in term.labels.iter().enumerate() {
            if !op.ty(term.value).dims[axis].is_one() {
                larger.insert(*label);
            }
        }
    }
    for term in terms {
        let stretched = |axis: usize| op.ty(term.value).dims[axis].is_one() && larger.contains(&term.labels[axis]);
        let kept: Vec<usize> = (0..term.labels.len()).filter(|axis| !stretched(*axis)).collect();
        let shape = kept.iter().map(|axis| op.ty(term.value).dims[*axis].extent.clone()).collect();
        let labels = kept.iter().map(|axis| term.labels[*axis]).collect();
        term.value = op.reshape(term.value, shape)?;
        term.labels = labels;
    }
    Ok(())
}

/// Contracts all terms to one with the labels of `result` in order.
fn contract(op: &mut GraphBuilder<'_>, terms: Vec<Term>, result: &[char]) -> Result<Handle, EinsumError> {
    let mut terms = terms.into_iter();
    let Some(mut left) = terms.next() else { return Err(EinsumError::Equation("there is no operand".to_owned())) };
    let mut rest: Vec<Term> = terms.collect();
    while !rest.is_empty() {
        let mut right = rest.remove(0);
        let later: BTreeSet<char> = rest.iter().flat_map(|term| &term.labels).chain(result).copied().collect();
        // A label of one operand alone is summed before the product.
        let (own, other) = (left.labels.clone(), right.labels.clone());
        sum_away(op, &mut left, |label| later.contains(&label) || other.contains(&label))?;
        sum_away(op, &mut right, |label| later.contains(&label) || own.contains(&label))?;
        let mut labels: Vec<char> =
            left.labels.iter().chain(&right.labels).copied().filter(|label| later.contains(label)).collect();
        match rest.is_empty() {
            true => labels = result.iter().copied().filter(|label| labels.contains(label)).collect(),
            false => {
                let mut seen = BTreeSet::new();
                labels.retain(|label| seen.insert(*label));
            }
        }
        let dtype = op.ty(left.value).dtype;
        let contract = Contract {
            lhs: left.labels.iter().collect(),
            rhs: right.labels.iter().collect(),
            result: labels.iter().collect(),
            accumulate: accumulator(dtype),
            dtype,
        };
        let value = op.emit_one(contract, &[left.value, right.value])?;
        left = Term { value, labels };
    }
    sum_away(op, &mut left, |label| result.contains(&label))?;
    let place = |label: &char| left.labels.iter().position(|other| other == label).map(|axis| axis as i64);
    let order = result.iter().map(place).collect::<Option<Vec<_>>>();
    let order = order.ok_or_else(|| EinsumError::Equation("a label of the result occurs in no operand".to_owned()))?;
    Ok(op.transpose(left.value, order)?)
}

fn sum_away(op: &mut GraphBuilder<'_>, term: &mut Term, keep: impl Fn(char) -> bool) -> Result<(), EinsumError> {
    let axes: Vec<usize> = (0..term.labels.len()).filter(|axis| !keep(term.labels[*axis])).collect();
    term.value = op.reduce(ReduceKind::Sum, term.value, &axes, false)?;
    term.labels.retain(|label| keep(*label));
    Ok(())
}

/// The number of elements along an axis.
fn fixed(op: &GraphBuilder<'_>, value: Handle, axis: usize) -> Result<i64, EinsumError> {
    let size = op.ty(value).dims[axis].known().and_then(|size| i64::try_from(size).ok());
    size.ok_or_else(|| {
        EinsumError::NotFixed(format!("a diagonal over dimension {axis} of {}, which is not fixed", op.ty(value)))
    })
}
