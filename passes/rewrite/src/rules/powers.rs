//! Powers whose exponent is a number.

use tenon_graph_dialect::Operator;
use tenon_graph_dialect::operators::{Elementwise, Function};
use tenon_recipe::NumericClass;
use tenon_tensor::DType;

use crate::proof::Instance;
use crate::rule::Rule;

pub(super) const POWER_BY_NUMBER: Rule = Rule {
    name: "power-by-number",
    class: NumericClass::Reassociates,
    // x³ rounds twice: in f32 and f64, where the square has room, at most one unit in the last place more than the power.
    about: "x to the power of 2 is x * x; of 3, in f32 and f64, (x * x) * x; of -1, 1 / x.",
    root: "graph.elementwise",
    apply: |found| {
        let Operator::Elementwise(Elementwise { function: Function::Power }) = found.operator()? else { return None };
        let [x, exponent] = found.operands_of()?;
        let (result, exponent) = (found.result()?, found.constant(exponent)?);
        let wide = matches!(result.dtype, DType::F32 | DType::F64);
        // Of integers, and of a base that the exponent's shape stretches, it is another matter.
        if !result.dtype.is_float() || found.ty(x).as_ref() != Some(&result) {
            return None;
        }
        if exponent == 2.0 {
            found.function(Function::Multiply, &[x, x])
        } else if exponent == 3.0 && wide {
            let square = found.function(Function::Multiply, &[x, x])?;
            found.function(Function::Multiply, &[square, x])
        } else if exponent == -1.0 {
            found.function(Function::Reciprocal, &[x])
        } else {
            None
        }
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let (dtype, shape) = (dice.float(), dice.shape(2));
        let x = instance.input(dtype, &shape);
        let exponent = dice.pick(&[2.0, 3.0, -1.0]);
        let exponent = instance.scalar(exponent, dtype);
        instance.op(Elementwise { function: Function::Power }, &[Some(x), exponent]);
        instance
    },
};
