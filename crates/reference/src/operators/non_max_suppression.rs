//! `graph.non_max_suppression`: the greedy choice of boxes. Source: ONNX NonMaxSuppression, opset 11; areas and ratios in f32.

use tenon_graph_dialect::operators::NonMaxSuppression;

use crate::ReferenceError;
use crate::array::Array;
use crate::evaluate::{Call, Evaluate};

/// Whether two boxes with areas overlap by more than a threshold.
fn overlap(a: &[f32], b: &[f32], threshold: f32) -> bool {
    let side = |low: usize| (a[low + 2].min(b[low + 2]) - a[low].max(b[low])).max(0.0);
    let area = |of: &[f32]| (of[2] - of[0]) * (of[3] - of[1]);
    let shared = side(0) * side(1);
    let union = area(a) + area(b) - shared;
    shared > 0.0 && area(a) > 0.0 && area(b) > 0.0 && union > 0.0 && shared / union > threshold
}

impl Evaluate for NonMaxSuppression {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let [boxes, candidates, threshold] = [0, 1, 2].map(|index| &call.inputs[index]);
        let form = &call.results[0];
        let boxes = boxes.to_reals::<f32>();
        let threshold = threshold.to_reals::<f32>().first().copied().unwrap_or(0.0);
        let mut kept = candidates.ints().to_vec();
        let count = form.shape[1];
        let at = |row: usize, index: usize| &boxes[4 * (row * count + index)..][..4];
        for row in 0..form.shape[0] {
            for later in 0..count {
                let hidden = (0..later).any(|earlier| {
                    kept[row * count + earlier] != 0 && overlap(at(row, earlier), at(row, later), threshold)
                });
                if hidden {
                    kept[row * count + later] = 0;
                }
            }
        }
        Ok(vec![Array::integers(form, kept)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_tensor::DType;

    #[test]
    fn the_first_of_boxes_that_overlap_stays() {
        // The second shares half of the first (1/3 of the union), the third as much of the second; the fourth has no area.
        let boxes = [0.0, 0.0, 2.0, 2.0, 0.0, 1.0, 2.0, 3.0, 0.0, 2.0, 2.0, 4.0, 1.0, 1.0, 1.0, 1.0];
        let kept = |candidates: &[f64], threshold: f64| {
            let operands =
                [f32s(&[1, 4, 4], &boxes), tensor(DType::Bool, &[1, 4], candidates), f32s(&[1], &[threshold])];
            values(NonMaxSuppression, &operands)
        };
        assert_eq!(kept(&[1.0; 4], 0.3), [1.0, 0.0, 1.0, 1.0]);
        assert_eq!(kept(&[1.0; 4], 0.34), [1.0; 4]);
        assert_eq!(kept(&[0.0, 1.0, 1.0, 1.0], 0.3), [0.0, 1.0, 0.0, 1.0]);
    }
}
