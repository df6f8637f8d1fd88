//! `graph.contract`: sums of products in Einstein notation.
//!
//! The terms of a sum are added in row-major order of the summed labels, taken in the order of the left operand.

use rayon::prelude::*;
use tenon_graph_dialect::operators::Contract;

use crate::ReferenceError;
use crate::array::{Array, Data, Form, map_data};
use crate::evaluate::{Call, Evaluate};
use crate::operators::product::{Products, accumulate};
use crate::shape::permuted;

/// Rows of the result that are computed together, so that a row of the right operand serves several.
const ROWS: usize = 8;
/// Columns of the result that are computed together, so that they stay in the nearest cache.
const COLUMNS: usize = 512;

/// `[batch, m, k] × [batch, k, n] → [batch, m, n]`.
struct Matrices {
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
}

impl Products for Matrices {
    fn sums<T, F>(&self, lhs: &[T], rhs: &[T], zero: T, step: F) -> Vec<T>
    where
        T: Copy + Send + Sync,
        F: Fn(T, T, T) -> T + Sync,
    {
        let Matrices { m, n, k, batch } = *self;
        let mut result = vec![zero; batch * m * n];
        if result.is_empty() || k == 0 {
            return result;
        }
        result.par_chunks_mut(m * n).enumerate().for_each(|(index, matrix)| {
            let lhs = &lhs[index * m * k..][..m * k];
            let rhs = &rhs[index * k * n..][..k * n];
            matrix.par_chunks_mut(ROWS * n).enumerate().for_each(|(block, rows)| {
                for column in (0..n).step_by(COLUMNS) {
                    let width = COLUMNS.min(n - column);
                    for term in 0..k {
                        let right = &rhs[term * n + column..][..width];
                        for (row, sums) in rows.chunks_mut(n).enumerate() {
                            let left = lhs[(block * ROWS + row) * k + term];
                            for (sum, right) in sums[column..column + width].iter_mut().zip(right) {
                                *sum = step(*sum, left, *right);
                            }
                        }
                    }
                }
            });
        });
        result
    }
}

impl Evaluate for Contract {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let (lhs, rhs) = (&call.inputs[0], &call.inputs[1]);
        let form = &call.results[0];
        let within = |labels: &str, other: bool| -> Vec<char> {
            self.result
                .chars()
                .filter(|label| {
                    labels.contains(*label) && other == (self.lhs.contains(*label) && self.rhs.contains(*label))
                })
                .collect()
        };
        let batch = within(&self.lhs, true);
        let summed = self.summed();
        let (rows, columns) = (within(&self.lhs, false), within(&self.rhs, false));
        let size = |labels: &[char]| -> usize {
            labels
                .iter()
                .map(|label| match self.lhs.find(*label) {
                    Some(dim) => lhs.shape[dim],
                    None => self.rhs.find(*label).map_or(1, |dim| rhs.shape[dim]),
                })
                .product()
        };
        // Multiplication commutes: the longer side is put where memory is contiguous.
        let swap = size(&columns) < size(&rows);
        let (left, right) = if swap {
            ((rhs, &self.rhs, &columns), (lhs, &self.lhs, &rows))
        } else {
            ((lhs, &self.lhs, &rows), (rhs, &self.rhs, &columns))
        };
        let matrices = Matrices { m: size(left.2), n: size(right.2), k: size(&summed), batch: size(&batch) };
        let left_order = [batch.as_slice(), left.2, &summed].concat();
        let right_order = [batch.as_slice(), &summed, right.2].concat();
        let operands = [arranged(left.0, left.1, &left_order), arranged(right.0, right.1, &right_order)];
        let result_order = [batch.as_slice(), left.2, right.2].concat();
        let result_shape = result_order.iter().map(|label| size(&[*label])).collect();
        let results = [Form { dtype: form.dtype, shape: result_shape }];
        let inner = Call { inputs: &operands, results: &results, ..*call };
        let product = accumulate(&inner, self.accumulate, &matrices)?;
        let labels: String = result_order.iter().collect();
        Ok(vec![arranged(&product, &labels, &self.result.chars().collect::<Vec<_>>())])
    }
}

/// The array with its dimensions in another order of labels.
fn arranged(array: &Array, labels: &str, order: &[char]) -> Array {
    let permutation: Vec<usize> = order.iter().filter_map(|label| labels.find(*label)).collect();
    if permutation.iter().copied().eq(0..array.shape.len()) {
        return array.clone();
    }
    let shape = permutation.iter().map(|dim| array.shape[*dim]).collect();
    let data = map_data!(&*array.data, elements => permuted(elements, &array.shape, &permutation).into_owned());
    Array::new(&Form { dtype: array.dtype, shape }, data)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::operators::testing::*;
    use tenon_graph_dialect::TensorType;
    use tenon_tensor::{DType, Tensor};

    fn contract(equation: &str, accumulate: DType, dtype: DType) -> Contract {
        let (operands, result) = equation.split_once("->").unwrap();
        let (lhs, rhs) = operands.split_once(',').unwrap();
        Contract { lhs: lhs.into(), rhs: rhs.into(), result: result.into(), accumulate, dtype }
    }

    fn f32_contract(equation: &str) -> Contract {
        contract(equation, DType::F32, DType::F32)
    }

    #[test]
    fn matrices_in_every_arrangement() {
        // [[1,2,3],[4,5,6]] · [[1,0],[0,1],[1,1]] = [[4,5],[10,11]].
        let a = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let b = f32s(&[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let bt = f32s(&[2, 3], &[1.0, 0.0, 1.0, 0.0, 1.0, 1.0]);
        assert_eq!(values(f32_contract("mk,kn->mn"), &[a.clone(), b.clone()]), [4.0, 5.0, 10.0, 11.0]);
        assert_eq!(values(f32_contract("mk,nk->nm"), &[a.clone(), bt]), [4.0, 10.0, 5.0, 11.0]);
        assert_eq!(values(f32_contract("mk,k->m"), &[a.clone(), f32s(&[3], &[1.0, 1.0, 1.0])]), [6.0, 15.0]);
        assert_eq!(values(f32_contract("mk,mk->"), &[a.clone(), a.clone()]), [91.0]);
        assert_eq!(
            values(f32_contract("m,n->mn"), &[f32s(&[2], &[1.0, 2.0]), f32s(&[2], &[3.0, 4.0])]),
            [3.0, 4.0, 6.0, 8.0]
        );
        assert_eq!(values(f32_contract("mk,mk->mk"), &[a.clone(), a]), [1.0, 4.0, 9.0, 16.0, 25.0, 36.0]);
        let empty = run(f32_contract("mk,kn->mn"), &[f32s(&[2, 0], &[]), f32s(&[0, 2], &[])]);
        assert_eq!(empty.to_f64_vec().unwrap(), [0.0; 4]);
    }

    #[test]
    fn a_large_product_agrees_with_the_definition() {
        let (m, k, n) = (37, 19, 521);
        let a: Vec<f64> = (0..m * k).map(|i| (i % 7) as f64 - 3.0).collect();
        let b: Vec<f64> = (0..k * n).map(|i| (i % 5) as f64 - 2.0).collect();
        let found = values(f32_contract("mk,kn->mn"), &[f32s(&[m, k], &a), f32s(&[k, n], &b)]);
        for row in 0..m {
            for column in 0..n {
                let expected: f64 = (0..k).map(|term| a[row * k + term] * b[term * n + column]).sum();
                assert_eq!(found[row * n + column], expected);
            }
        }
    }

    #[test]
    fn sums_are_in_order_and_in_the_accumulator() {
        // In order: (2^24 + 1) + 1 stays 2^24 in f32; in f64 it does not.
        let a = f32s(&[1, 3], &[16777216.0, 1.0, 1.0]);
        let b = f32s(&[3, 1], &[1.0, 1.0, 1.0]);
        assert_eq!(values(f32_contract("mk,kn->mn"), &[a.clone(), b.clone()]), [16777216.0]);
        assert_eq!(values(contract("mk,kn->mn", DType::F64, DType::F32), &[a.clone(), b.clone()]), [16777218.0]);
        assert_eq!(run_all(f32_contract("mk,kn->mn"), &[a, b], Mode::F64)[0].to_f64_vec().unwrap(), [16777218.0]);
        // f16 operands: 2048 + 1 + 1 in an f16 accumulator loses both ones; in f32 neither.
        let a = tensor(DType::F16, &[1, 3], &[2048.0, 1.0, 1.0]);
        let b = tensor(DType::F16, &[3, 1], &[1.0, 1.0, 1.0]);
        assert_eq!(values(contract("mk,kn->mn", DType::F16, DType::F16), &[a.clone(), b.clone()]), [2048.0]);
        assert_eq!(values(contract("mk,kn->mn", DType::F32, DType::F16), &[a, b]), [2050.0]);
    }

    #[test]
    fn integers_wrap_and_mixed_signs_multiply() {
        let a = tensor(DType::U8, &[1, 2], &[200.0, 255.0]);
        let b = tensor(DType::I8, &[2, 1], &[-128.0, 127.0]);
        let sum = 200.0 * -128.0 + 255.0 * 127.0;
        assert_eq!(values(contract("mk,kn->mn", DType::I32, DType::I32), &[a.clone(), b.clone()]), [sum]);
        // 6785 modulo 256 is 129, as i8 -127.
        assert_eq!(sum, 6785.0);
        assert_eq!(values(contract("mk,kn->mn", DType::I8, DType::I32), &[a, b]), [-127.0]);
        let floats = [f32s(&[1, 1], &[1.0]), f32s(&[1, 1], &[1.0])];
        assert_eq!(
            refusal(contract("mk,kn->mn", DType::I32, DType::I32), &floats, TensorType::fixed(DType::I32, &[1, 1])),
            "E0905"
        );
    }

    #[test]
    fn complex_products() {
        let i: Vec<u8> = [0.0f32, 1.0].iter().flat_map(|part| part.to_le_bytes()).collect();
        let i = Tensor::new(DType::Complex64, vec![1, 1], i).unwrap();
        let square = run(contract("mk,kn->mn", DType::Complex64, DType::Complex64), &[i.clone(), i]);
        assert_eq!(square.to_complex_vec().unwrap(), [(-1.0, 0.0)]);
    }
}
