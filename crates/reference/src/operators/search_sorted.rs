//! `graph.search_sorted`: how many elements of an ascending list are less than each value.

use tenon_graph_dialect::operators::SearchSorted;

use crate::ReferenceError;
use crate::array::Array;
use crate::evaluate::{Call, Evaluate};
use crate::number::widen;

impl Evaluate for SearchSorted {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let [list, values] = [&call.inputs[0], &call.inputs[1]];
        let wide = |value: &i64| widen(list.dtype, *value);
        if !list.ints().is_sorted_by_key(wide) {
            return Err(call.undefined("the list is not in ascending order"));
        }
        let place = |value: &i64| list.ints().partition_point(|element| wide(element) < wide(value)) as i64;
        Ok(vec![Array::integers(&call.results[0], values.ints().iter().map(place).collect())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_graph_dialect::TensorType;
    use tenon_tensor::DType;

    #[test]
    fn counts_what_is_less() {
        let places = |list: &[i64], wanted: &[i64]| {
            values(SearchSorted, &[i64s(&[list.len()], list), i64s(&[wanted.len()], wanted)])
        };
        assert_eq!(places(&[1, 1, 4, 9], &[0, 1, 2, 4, 9, 10]), [0.0, 0.0, 2.0, 2.0, 3.0, 4.0]);
        assert_eq!(places(&[], &[5]), [0.0]);
        let unsorted = [i64s(&[2], &[2, 1]), i64s(&[1], &[1])];
        assert_eq!(refusal(SearchSorted, &unsorted, TensorType::fixed(DType::I64, &[1])), "E0904");
    }
}
