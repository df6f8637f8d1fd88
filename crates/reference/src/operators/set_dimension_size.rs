//! `graph.set_dimension_size`: the first slices of a tensor. The interpreter has put the size in the place of its name.

use tenon_graph_dialect::operators::SetDimensionSize;

use crate::ReferenceError;
use crate::array::Array;
use crate::evaluate::{Call, Evaluate};

impl Evaluate for SetDimensionSize {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let form = &call.results[0];
        if self.extent.as_constant() != call.inputs[1].ints().first().copied() {
            return Err(call.undefined(format!("the size is not {}", self.extent)));
        }
        let kept: Vec<usize> = (0..form.count()).collect();
        Ok(vec![call.inputs[0].picked(form, &kept)])
    }
}
