//! `graph.attention`: softmax(cap(scale · q kᵀ) + mask) v, one operator with one rounding at its end.
//!
//! A score is the sum over the head dimension in order, times `scale`, through `cap · tanh(score / cap)` where there is a cap, plus the mask where
//! that is of numbers. The score of a hidden key is -∞ whatever the operands are. The softmax of a query's scores is that of `graph.softmax`; the
//! result sums over the keys in order. A query that sees no key gives 0, unless softmax is plain: then a mask of numbers hides nothing but by
//! what it adds, and softmax of nothing but -∞ is NaN.

use rayon::prelude::*;
use tenon_graph_dialect::operators::{Attention, Causal};
use tenon_tensor::DType;

use crate::ReferenceError;
use crate::array::Array;
use crate::evaluate::{Call, Evaluate, with_real};
use crate::number::Real;
use crate::operators::softmax::softmax;
use crate::shape::strides;

impl Evaluate for Attention {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        Ok(vec![with_real!(call, T => Array::reals(&call.results[0], call.mode, attention::<T>(self, call)))])
    }
}

/// A mask, with its steps along the four dimensions of the scores.
enum Mask<'a, T> {
    Visible(&'a [i64], [usize; 4]),
    Added(Vec<T>, [usize; 4]),
}

fn attention<T: Real>(op: &Attention, call: &Call<'_>) -> Vec<T> {
    let [q, k, v] = [0, 1, 2].map(|index| &call.inputs[index]);
    let [heads, queries, width] = [1, 2, 3].map(|dim| q.shape[dim]);
    let [groups, keys, values] = [k.shape[1], k.shape[2], v.shape[3]];
    let (query, key, value) = (q.to_reals::<T>(), k.to_reals::<T>(), v.to_reals::<T>());
    let mask = call.inputs.get(3).map(|mask| {
        let steps = mask_steps(&mask.shape);
        match mask.dtype {
            DType::Bool => Mask::Visible(mask.ints(), steps),
            _ => Mask::Added(mask.to_reals::<T>().into_owned(), steps),
        }
    });
    let scale = T::of(op.scale);
    let mut result = vec![T::ZERO; call.results[0].count()];
    if result.is_empty() {
        return result;
    }
    result.par_chunks_mut(values).enumerate().for_each(|(row, sums)| {
        let (batch, head, place) = (row / queries / heads, row / queries % heads, row % queries);
        let shared = batch * groups + head / (heads / groups);
        let query = &query[row * width..][..width];
        // One past the last key that comes not after the query.
        let end = match op.causal {
            None => keys,
            Some(Causal::Start) => place + 1,
            Some(Causal::End) => (place + 1 + keys).saturating_sub(queries),
        };
        let at = |steps: &[usize; 4], j: usize| batch * steps[0] + head * steps[1] + place * steps[2] + j * steps[3];
        let mut sees = false;
        let mut scores: Vec<T> = (0..keys)
            .map(|j| {
                let hidden = j >= end
                    || match &mask {
                        Some(Mask::Visible(mask, steps)) => mask[at(steps, j)] == 0,
                        Some(Mask::Added(mask, steps)) => !op.plain_softmax && mask[at(steps, j)] == -T::INFINITY,
                        None => false,
                    };
                if hidden {
                    return -T::INFINITY;
                }
                sees = true;
                let key = &key[(shared * keys + j) * width..][..width];
                let mut score = query.iter().zip(key).fold(T::ZERO, |sum, (q, k)| sum + *q * *k) * scale;
                if let Some(cap) = op.softcap {
                    let cap = T::of(cap);
                    score = (score / cap).through(f64::tanh) * cap;
                }
                match &mask {
                    Some(Mask::Added(mask, steps)) => score + mask[at(steps, j)],
                    _ => score,
                }
            })
            .collect();
        if sees || op.plain_softmax && keys > 0 {
            softmax(&mut scores, false);
        } else {
            scores.fill(T::ZERO);
        }
        for (j, weight) in scores.iter().enumerate() {
            let value = &value[(shared * keys + j) * values..][..values];
            for (sum, value) in sums.iter_mut().zip(value) {
                *sum = *sum + *weight * *value;
            }
        }
    });
    result
}

/// Steps of a mask that broadcasts to `[batch, heads, queries, keys]`.
fn mask_steps(shape: &[usize]) -> [usize; 4] {
    let own = strides(shape);
    let mut steps = [0; 4];
    for dim in 0..shape.len() {
        if shape[dim] != 1 {
            steps[4 - shape.len() + dim] = own[dim];
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_tensor::Tensor;

    /// Keys whose scores with query 1 are the given numbers.
    fn keys(scores: &[f64]) -> Tensor {
        f32s(&[1, 1, scores.len(), 1], scores)
    }

    #[test]
    fn weights_follow_scores_scale_and_mask() {
        let q = f32s(&[1, 1, 1, 1], &[1.0]);
        let v = f32s(&[1, 1, 2, 2], &[8.0, 0.0, 0.0, 16.0]);
        let op = Attention { scale: 2.0, softcap: None, causal: None, plain_softmax: false };
        // Scores 0 and 2·ln √3 = ln 3: weights 1/4 and 3/4.
        let k = keys(&[0.0, 3f64.sqrt().ln()]);
        close(&values(op.clone(), &[q.clone(), k.clone(), v.clone()]), &[2.0, 12.0], 1e-5);
        let mask = f32s(&[2], &[3f64.ln(), 0.0]);
        close(&values(op.clone(), &[q.clone(), k.clone(), v.clone(), mask]), &[4.0, 8.0], 1e-5);
        let hidden = f32s(&[1, 2], &[0.0, f64::NEG_INFINITY]);
        assert_eq!(values(op, &[q, k, v, hidden]), [8.0, 0.0]);
    }

    #[test]
    fn causal_queries_see_keys_up_to_their_own() {
        let q = f32s(&[1, 1, 3, 1], &[0.0; 3]);
        let v = f32s(&[1, 1, 3, 1], &[6.0, 0.0, 3.0]);
        let op = Attention { scale: 1.0, softcap: None, causal: Some(Causal::Start), plain_softmax: false };
        assert_eq!(values(op, &[q, keys(&[1.0, 2.0, 3.0]), v]), [6.0, 3.0, 3.0]);
    }

    #[test]
    fn queries_and_keys_may_be_aligned_at_their_ends() {
        let v = f32s(&[1, 1, 3, 1], &[6.0, 0.0, 3.0]);
        let op = Attention { scale: 1.0, softcap: None, causal: Some(Causal::End), plain_softmax: false };
        // Two queries after a key of the cache: they see two and three keys.
        let q = f32s(&[1, 1, 2, 1], &[0.0; 2]);
        assert_eq!(values(op.clone(), &[q, keys(&[1.0, 2.0, 3.0]), v.clone()]), [3.0, 3.0]);
        // Of four queries, the first comes before every key.
        let q = f32s(&[1, 1, 4, 1], &[0.0; 4]);
        assert_eq!(values(op, &[q, keys(&[1.0, 2.0, 3.0]), v]), [0.0, 6.0, 3.0, 3.0]);
    }

    #[test]
    fn hidden_keys_count_for_nothing_and_queries_without_keys_give_zero() {
        let op = Attention { scale: 1.0, softcap: None, causal: None, plain_softmax: false };
        let q = f32s(&[1, 1, 3, 1], &[1.0; 3]);
        let v = f32s(&[1, 1, 2, 1], &[5.0, 7.0]);
        let shown = tensor(DType::Bool, &[3, 2], &[1.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
        assert_eq!(values(op.clone(), &[q.clone(), keys(&[0.0; 2]), v.clone(), shown.clone()]), [5.0, 0.0, 6.0]);
        // A hidden key may be anything.
        let found = values(op.clone(), &[q.clone(), keys(&[0.0, f64::NAN]), v.clone(), shown]);
        assert_eq!(found[..2], [5.0, 0.0]);
        assert!(found[2].is_nan());
        let added = f32s(&[3, 1], &[0.0, f64::NEG_INFINITY, 1e30]);
        assert_eq!(values(op, &[q, keys(&[0.0; 2]), v, added]), [6.0, 0.0, 6.0]);
    }

    #[test]
    fn plain_softmax_of_nothing_visible_is_not_a_number() {
        let op = Attention { scale: 1.0, softcap: None, causal: Some(Causal::End), plain_softmax: true };
        let v = f32s(&[1, 1, 2, 1], &[5.0, 7.0]);
        // Of three queries the first comes before every key, and sees what the mask leaves of none.
        let q = f32s(&[1, 1, 3, 1], &[1.0; 3]);
        let found = values(op.clone(), &[q.clone(), keys(&[0.0; 2]), v.clone()]);
        assert!(found[0].is_nan());
        assert_eq!(found[1..], [5.0, 6.0]);
        let open = Attention { causal: None, ..op };
        let shown = tensor(DType::Bool, &[3, 2], &[1.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
        let found = values(open.clone(), &[q.clone(), keys(&[0.0; 2]), v.clone(), shown]);
        assert!(found[0] == 5.0 && found[1].is_nan() && found[2] == 6.0, "{found:?}");
        // What a mask of numbers is added to stays what it is: NaN is not hidden.
        let added = f32s(&[3, 2], &[0.0, f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0, 0.0]);
        let found = values(open.clone(), &[q.clone(), keys(&[0.0; 2]), v.clone(), added.clone()]);
        assert!(found[0] == 5.0 && found[1].is_nan() && found[2] == 6.0, "{found:?}");
        let found = values(open.clone(), &[q.clone(), keys(&[0.0, f64::NAN]), v, added]);
        assert!(found.iter().all(|value| value.is_nan()), "{found:?}");
        // A sum over no keys is 0.
        let none = f32s(&[1, 1, 0, 1], &[]);
        assert_eq!(values(open, &[q, none.clone(), none]), [0.0; 3]);
    }

    #[test]
    fn scores_are_capped_before_the_mask() {
        let op = Attention { scale: 1.0, softcap: Some(0.5), causal: None, plain_softmax: false };
        let q = f32s(&[1, 1, 1, 1], &[1.0]);
        let v = f32s(&[1, 1, 2, 1], &[0.0, 1.0]);
        // 0.5 tanh(±1000 / 0.5) = ±0.5: the weights are in the ratio of 1 to e.
        let e = std::f64::consts::E;
        let k = keys(&[-1000.0, 1000.0]);
        close(&values(op.clone(), &[q.clone(), k.clone(), v.clone()]), &[e / (1.0 + e)], 1e-6);
        // A mask of 1 on the first key makes them equal to 1 to 1.
        let mask = f32s(&[2], &[1.0, 0.0]);
        close(&values(op, &[q, k, v, mask]), &[0.5], 1e-6);
    }

    #[test]
    fn a_key_head_serves_a_group_of_query_heads() {
        let q = f32s(&[1, 4, 1, 1], &[0.0; 4]);
        let k = f32s(&[1, 2, 1, 1], &[0.0; 2]);
        let v = f32s(&[1, 2, 1, 1], &[5.0, 7.0]);
        assert_eq!(
            values(Attention { scale: 1.0, softcap: None, causal: None, plain_softmax: false }, &[q, k, v]),
            [5.0, 5.0, 7.0, 7.0]
        );
    }

    #[test]
    fn halves_round_once() {
        let half = |shape: &[usize], values: &[f64]| tensor(DType::F16, shape, values);
        // Three weights of 1/3 on equal values: exact but for f32 roundings, which f16 does not see.
        let op = Attention { scale: 1.0, softcap: None, causal: None, plain_softmax: false };
        let operands = [half(&[1, 1, 1, 1], &[1.0]), half(&[1, 1, 3, 1], &[2.0; 3]), half(&[1, 1, 3, 1], &[3.0; 3])];
        assert_eq!(values(op, &operands), [3.0]);
    }
}
