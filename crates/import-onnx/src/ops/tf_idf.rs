//! TfIdfVectorizer of integers: how often each n-gram of a vocabulary occurs.

use std::collections::HashMap;

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Concat, Function, Gather, GatherKind, ReduceKind};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// Most comparisons of an element of an n-gram that are written out.
const MAX_STEPS: i64 = 4096;

/// Most places of the result.
const MAX_OUTPUTS: i64 = 1 << 20;

/// The n-grams of one length, and the number of each in the vocabulary.
struct Grams {
    length: usize,
    elements: Vec<Vec<i64>>,
    numbers: Vec<usize>,
}

/// Input `[T]` or `[B, T]`, result `[O]` or `[B, O]`: counts of n-grams whose elements follow each other at one distance, from 1 to
/// `max_skip_count` + 1.
pub(super) fn tf_idf_vectorizer(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let required = |name: &str| op.node.required(name, op.node.int(name)?);
    let (shortest, longest) = (required("min_gram_length")?, required("max_gram_length")?);
    let skips = required("max_skip_count")?;
    let mode = op.node.required("mode", op.node.string("mode")?)?.to_owned();
    if !matches!(mode.as_str(), "TF" | "IDF" | "TFIDF") {
        return Err(op.node.attribute_error("mode", "TF, IDF or TFIDF", format!("is {mode:?}")));
    }
    let starts = op.node.required("ngram_counts", op.node.ints("ngram_counts")?)?.to_vec();
    let places = op.node.required("ngram_indexes", op.node.ints("ngram_indexes")?)?.to_vec();
    let weights = op.node.floats("weights")?.map(<[f32]>::to_vec);
    if op.node.string_list("pool_strings")?.is_some_and(|pool| !pool.is_empty()) || !op.dtype(x).is_integer() {
        return Err(op.unsupported("a vocabulary of strings"));
    }
    let pool = op.node.required("pool_int64s", op.node.ints("pool_int64s")?)?.to_vec();
    let rank = op.rank(x);
    if !(1..=2).contains(&rank) || shortest < 1 || longest < shortest || skips < 0 {
        return Err(op.invalid(format!("n-grams of {shortest} to {longest} elements in {}", op.ty(x))));
    }
    let outputs = places.iter().max().map_or(0, |last| last.saturating_add(1));
    if outputs > MAX_OUTPUTS || places.iter().any(|place| *place < 0) {
        return Err(op.node.attribute_error("ngram_indexes", "places of the result", "is out of range"));
    }
    if weights.as_ref().is_some_and(|weights| weights.len() != places.len()) {
        return Err(op.node.attribute_error("weights", "one an n-gram", "has another length"));
    }
    let vocabulary = vocabulary(op, &starts, &pool, places.len(), shortest, longest)?;

    let length = op.fixed_dim(x, rank - 1, "n-grams")?;
    let batch = if rank == 2 { op.dim(x, 0).extent.clone() } else { DimExpr::constant(1) };
    let x = op.cast(x, DType::I64)?;
    let x = op.reshape(x, vec![batch.clone(), DimExpr::constant(length), DimExpr::constant(1)])?;
    let zero = op.scalar(0.0, DType::F32)?;
    // Counts of all n-grams, then a column of zeros for places that no n-gram has.
    let (mut counts, mut columns) = (Vec::new(), vec![Vec::new(); outputs as usize]);
    let mut count = 0;
    for grams in &vocabulary {
        counts.push(count_grams(op, x, grams, length, skips)?);
        for number in &grams.numbers {
            columns[places[*number] as usize].push(count);
            count += 1;
        }
    }
    counts.push(op.broadcast(zero, vec![batch.clone(), DimExpr::constant(1)])?);
    let mut counts = op.emit(Concat { axis: 1 }, &counts)?;
    if mode == "IDF" {
        let found = op.apply(Function::Greater, &[counts, zero])?;
        counts = op.cast(found, DType::F32)?;
    }
    if let (Some(weights), true) = (weights, mode != "TF") {
        let numbers = vocabulary.iter().flat_map(|grams| &grams.numbers);
        let mut values: Vec<f64> = numbers.map(|number| weights.get(*number).copied().unwrap_or(1.0).into()).collect();
        values.push(0.0);
        let weights = op.literal(DType::F32, &[values.len()], &values)?;
        counts = op.apply(Function::Multiply, &[counts, weights])?;
    }
    let rounds = columns.iter().map(Vec::len).max().unwrap_or(0).max(1);
    if (rounds as i64).saturating_mul(outputs) > 16 * MAX_OUTPUTS {
        return Err(op.unsupported(format!("{rounds} n-grams at one place of the result")));
    }
    let mut result = None;
    for round in 0..rounds {
        let index: Vec<i64> = columns.iter().map(|list| list.get(round).copied().unwrap_or(count)).collect();
        let index = op.integers(&index)?;
        let part = op.emit(Gather { kind: GatherKind::Take, axis: 1, batch_dims: 0 }, &[counts, index])?;
        result = Some(match result {
            Some(sum) => op.apply(Function::Add, &[sum, part])?,
            None => part,
        });
    }
    let result = result.ok_or_else(|| op.invalid("a vocabulary without n-grams"))?;
    let outputs = DimExpr::constant(outputs);
    Ok(vec![op.reshape(result, if rank == 2 { vec![batch, outputs] } else { vec![outputs] })?])
}

/// The n-grams of the wanted lengths. Of one that is there twice, the last counts.
fn vocabulary(
    op: &OpImport<'_, '_, '_>,
    starts: &[i64],
    pool: &[i64],
    count: usize,
    shortest: i64,
    longest: i64,
) -> Result<Vec<Grams>, ImportError> {
    let wrong =
        || op.node.attribute_error("ngram_counts", "where the n-grams of each length begin", "does not fit the others");
    let mut list = Vec::new();
    let mut number = 0;
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(pool.len() as i64);
        let part = usize::try_from(*start).ok().zip(usize::try_from(end).ok());
        let part = part.and_then(|(start, end)| pool.get(start..end)).ok_or_else(wrong)?;
        let length = index + 1;
        if part.len() % length != 0 {
            return Err(wrong());
        }
        let mut last = HashMap::new();
        for gram in part.chunks_exact(length) {
            last.insert(gram.to_vec(), number);
            number += 1;
        }
        let wanted = (shortest..=longest).contains(&(length as i64));
        if wanted && !last.is_empty() {
            let mut grams: Vec<(Vec<i64>, usize)> = last.into_iter().collect();
            grams.sort_by_key(|(_, number)| *number);
            let (elements, numbers) = grams.into_iter().unzip();
            list.push(Grams { length, elements, numbers });
        }
    }
    if number > count {
        return Err(op.node.attribute_error(
            "ngram_indexes",
            "one place an n-gram",
            format!("has {count} of {number}"),
        ));
    }
    Ok(list)
}

/// Counts `[B, n-grams]` in sequences `[B, T, 1]`.
fn count_grams(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    grams: &Grams,
    length: i64,
    skips: i64,
) -> Result<Handle, ImportError> {
    let steps = grams.length as i64 - 1;
    // Single elements are counted once, whatever is skipped.
    let furthest = if steps == 0 { 1 } else { skips.saturating_add(1).min((length - 1) / steps) };
    if furthest.saturating_mul(steps + 1) > MAX_STEPS {
        return Err(op.unsupported(format!("n-grams of {} elements at up to {furthest} distances", grams.length)));
    }
    let number = DimExpr::constant;
    let mut sum = None;
    for distance in 1..=furthest.max(0) {
        let windows = length - steps * distance;
        if windows <= 0 {
            break;
        }
        let mut found = None;
        for step in 0..grams.length {
            let elements = op.slice(x, 1, number(step as i64 * distance), number(windows))?;
            let wanted: Vec<i64> = grams.elements.iter().map(|gram| gram[step]).collect();
            let wanted = op.integers(&wanted)?;
            let equal = op.apply(Function::Equal, &[elements, wanted])?;
            found = Some(match found {
                Some(found) => op.apply(Function::And, &[found, equal])?,
                None => equal,
            });
        }
        let Some(found) = found else { break };
        let found = op.cast(found, DType::F32)?;
        let count = op.reduce(ReduceKind::Sum, found, &[1], false)?;
        sum = Some(match sum {
            Some(sum) => op.apply(Function::Add, &[sum, count])?,
            None => count,
        });
    }
    match sum {
        Some(sum) => Ok(sum),
        None => {
            let zero = op.scalar(0.0, DType::F32)?;
            let batch = op.dim(x, 0).extent.clone();
            op.broadcast(zero, vec![batch, number(grams.elements.len() as i64)])
        }
    }
}
