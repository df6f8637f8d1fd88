//! `graph.concat`.

use tenon_graph_dialect::operators::Concat;

use crate::ReferenceError;
use crate::array::{Array, Data};
use crate::evaluate::{Call, Evaluate};
use crate::operators::axis;
use crate::shape::count;

impl Evaluate for Concat {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let form = &call.results[0];
        let axis = axis(self.axis, form.shape.len());
        let outer = count(&form.shape[..axis]);
        /// Elements of one block of each input in turn.
        macro_rules! join {
            ($kind:ident) => {{
                let parts: Vec<_> = call
                    .inputs
                    .iter()
                    .filter_map(|input| match &*input.data {
                        Data::$kind(elements) => Some((elements, count(&input.shape[axis..]))),
                        _ => None,
                    })
                    .collect();
                let mut joined = Vec::with_capacity(form.count());
                for block in 0..outer {
                    for (elements, length) in &parts {
                        joined.extend_from_slice(&elements[block * length..][..*length]);
                    }
                }
                Data::$kind(joined)
            }};
        }
        let data = match &*call.inputs[0].data {
            Data::F32(_) => join!(F32),
            Data::F64(_) => join!(F64),
            Data::Int(_) => join!(Int),
            Data::Complex(_) => join!(Complex),
        };
        Ok(vec![Array::new(form, data)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;

    #[test]
    fn along_any_axis() {
        let (a, b) = (i64s(&[2, 1], &[1, 2]), i64s(&[2, 2], &[3, 4, 5, 6]));
        assert_eq!(values(Concat { axis: -1 }, &[a.clone(), b, a.clone()]), [1.0, 3.0, 4.0, 1.0, 2.0, 5.0, 6.0, 2.0]);
        assert_eq!(values(Concat { axis: 0 }, &[a, i64s(&[0, 1], &[])]), [1.0, 2.0]);
    }
}
