//! `graph.constant`, `graph.iota`, `graph.dim`.

use tenon_graph_dialect::operators::{Constant, DimExtent, Iota};

use crate::ReferenceError;
use crate::array::{Array, Form};
use crate::evaluate::{Call, Evaluate};
use crate::operators::{axis, cast};
use crate::shape::strides;

impl Evaluate for Constant {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        Ok(vec![Array::read(&self.value, self.value.dtype(), call.mode)?])
    }
}

impl Evaluate for Iota {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let form = &call.results[0];
        let axis = axis(self.axis, form.shape.len());
        let (step, size) = (strides(&form.shape)[axis], form.shape[axis]);
        let values = (0..form.count()).map(|index| (index / step % size) as i64).collect();
        let counted = Form { dtype: tenon_tensor::DType::I64, shape: form.shape.clone() };
        Ok(vec![cast::convert(&Array::integers(&counted, values), form, call.mode, false)])
    }
}

impl Evaluate for DimExtent {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let shape = &call.inputs[0].shape;
        Ok(vec![Array::integers(&call.results[0], vec![shape[axis(self.axis, shape.len())] as i64])])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_tensor::DType;

    #[test]
    fn constant_iota_and_extent() {
        let value = f32s(&[2], &[1.5, -2.0]);
        assert_eq!(run(Constant { value: value.clone() }, &[]), value);
        let iota = |dtype, axis| values(Iota { dtype, shape: vec![2.into(), 3.into()], axis }, &[]);
        assert_eq!(iota(DType::I32, 1), [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
        assert_eq!(iota(DType::F16, -2), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        // 2049 lies halfway between two f16 and goes to the even one.
        let long = values(Iota { dtype: DType::F16, shape: vec![2050.into()], axis: 0 }, &[]);
        assert_eq!(long[2047..], [2047.0, 2048.0, 2048.0]);
        assert_eq!(values(DimExtent { axis: -1 }, &[f32s(&[2, 0], &[])]), [0.0]);
    }
}
