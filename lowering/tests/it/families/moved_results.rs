//! Products whose results are parts of what is computed, or have their dimensions in another order.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Contract, Function, Reshape, Slice, Transpose};
use tenon_ir::{Builder, Value};

use crate::graph_kernels::{F16, F32, case, check, ew, op, t};

fn dims(values: &[u64]) -> Vec<DimExpr> {
    values.iter().map(|value| DimExpr::constant(*value as i64)).collect()
}

/// Three parts of `x · w + b` along the last dimension, each with its heads outermost, the middle one transposed.
fn projections<'m>(
    at: Builder<'m>,
    v: &[Value<'m>],
    dtype: tenon_tensor::DType,
    [s, heads, d]: [u64; 3],
) -> Vec<Value<'m>> {
    let contract = Contract { lhs: "bsk".into(), rhs: "kn".into(), result: "bsn".into(), accumulate: F32, dtype };
    let product = op(at, contract, &v[..2]);
    let sum = ew(at, Function::Add, &[product, v[2]]);
    let width = heads * d;
    (0..3)
        .map(|part| {
            let slice = Slice { starts: dims(&[0, 0, part * width]), sizes: dims(&[1, s, width]), steps: vec![1; 3] };
            let slice = op(at, slice, &[sum]);
            let split = op(at, Reshape { shape: dims(&[1, s, heads, d]) }, &[slice]);
            let permutation = if part == 1 { vec![0, 2, 3, 1] } else { vec![0, 2, 1, 3] };
            op(at, Transpose { permutation }, &[split])
        })
        .collect()
}

#[test]
fn parts_with_heads() {
    for (dtype, tolerance) in [(F32, 1e-5), (F16, 5e-3)] {
        for (s, k, heads, d) in [(32, 48, 2, 16), (33, 20, 3, 5), (7, 64, 4, 32), (70, 16, 1, 3)] {
            let width = 3 * heads * d;
            let inputs = [t(dtype, &[1, s, k]), t(dtype, &[k, width]), t(dtype, &[width])];
            check(case("contract", &inputs, tolerance), &|at, v| projections(at, v, dtype, [s, heads, d]));
        }
    }
}

#[test]
fn whole_and_part() {
    let inputs = [t(F32, &[40, 24]), t(F32, &[24, 36])];
    check(case("contract", &inputs, 1e-5), &|at, v| {
        let contract =
            Contract { lhs: "mk".into(), rhs: "kn".into(), result: "mn".into(), accumulate: F32, dtype: F32 };
        let product = op(at, contract, v);
        let positive = ew(at, Function::Abs, &[product]);
        let part = Slice { starts: dims(&[3, 8]), sizes: dims(&[30, 12]), steps: vec![1, 1] };
        vec![positive, op(at, part, &[positive]), op(at, Transpose { permutation: vec![1, 0] }, &[positive])]
    });
}
