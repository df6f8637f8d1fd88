//! `graph.convolution`: convolution and its transpose, of any number of spatial dimensions.
//!
//! The terms of a sum are added by input channel, then by window position in row-major order. Padding takes no part.

use rayon::prelude::*;
use tenon_graph_dialect::operators::Convolution;

use crate::ReferenceError;
use crate::array::Array;
use crate::evaluate::{Call, Evaluate};
use crate::operators::product::{Products, accumulate};
use crate::shape::{count, for_each_index, permuted, strides};

/// Places of the output that are computed together, so that a row of weights serves several.
const PLACES: usize = 8;

/// A window along one dimension: in a convolution, tap `t` of output place `p` meets input place `p * stride + t * dilation - pad`; in its
/// transpose, input and output change sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slide {
    /// Size of the input.
    pub(crate) input: usize,
    pub(crate) stride: i64,
    pub(crate) dilation: i64,
    pub(crate) pad: i64,
}

impl Slide {
    /// Input place that a tap of an output place meets, if it lies inside.
    pub(crate) fn source(self, place: usize, tap: usize) -> Option<usize> {
        self.inside(place as i64 * self.stride + tap as i64 * self.dilation - self.pad)
    }

    /// The same for the transpose.
    fn transposed_source(self, place: usize, tap: usize) -> Option<usize> {
        let reach = place as i64 + self.pad - tap as i64 * self.dilation;
        if reach % self.stride == 0 { self.inside(reach / self.stride) } else { None }
    }

    fn inside(self, place: i64) -> Option<usize> {
        usize::try_from(place).ok().filter(|place| *place < self.input)
    }

    /// The taps of an output place that reach inside, among `kernel`.
    pub(crate) fn taps(self, place: usize, kernel: usize) -> std::ops::Range<usize> {
        let origin = place as i64 * self.stride - self.pad;
        let input = self.input as i64;
        let first = if origin >= 0 { 0 } else { (-origin + self.dilation - 1) / self.dilation };
        let end = if origin >= input { 0 } else { (input - 1 - origin) / self.dilation + 1 };
        let end = end.min(kernel as i64);
        if first >= end { 0..0 } else { first as usize..end as usize }
    }
}

struct Windows {
    transposed: bool,
    groups: usize,
    /// Input channels of a group.
    inputs: usize,
    /// Output channels of a group.
    outputs: usize,
    batch: usize,
    kernel: Vec<usize>,
    output: Vec<usize>,
    slides: Vec<Slide>,
}

impl Windows {
    /// For each tap, the input element that it meets from each of the given output places.
    fn sources(&self, places: std::ops::Range<usize>) -> Vec<Option<usize>> {
        let (steps, sizes) = (strides(&self.output), &self.output);
        let mut sources = Vec::with_capacity(count(&self.kernel) * places.len());
        for_each_index(&self.kernel, |tap| {
            for place in places.clone() {
                let source = (0..sizes.len()).try_fold(0, |source, dim| {
                    let (slide, at) = (self.slides[dim], place / steps[dim] % sizes[dim]);
                    let met = if self.transposed {
                        slide.transposed_source(at, tap[dim])
                    } else {
                        slide.source(at, tap[dim])
                    };
                    Some(source * slide.input + met?)
                });
                sources.push(source);
            }
        });
        sources
    }
}

impl Products for Windows {
    fn sums<T, F>(&self, input: &[T], weight: &[T], zero: T, step: F) -> Vec<T>
    where
        T: Copy + Send + Sync,
        F: Fn(T, T, T) -> T + Sync,
    {
        let Windows { groups, inputs, outputs, batch, .. } = *self;
        let input_plane: usize = self.slides.iter().map(|slide| slide.input).product();
        let (output_plane, taps) = (count(&self.output), count(&self.kernel));
        let channels = groups * outputs;
        let mut sums = vec![zero; batch * output_plane * channels];
        if sums.is_empty() {
            return sums;
        }
        // Output channels lie together, in the weights as in the sums, so that the innermost loop is over contiguous memory.
        let weight = if self.transposed {
            permuted(weight, &[groups, inputs, outputs, taps], &[0, 1, 3, 2])
        } else {
            permuted(weight, &[groups, outputs, inputs, taps], &[0, 2, 3, 1])
        };
        sums.par_chunks_mut(output_plane * channels).enumerate().for_each(|(image, sums)| {
            sums.par_chunks_mut(PLACES * channels).enumerate().for_each(|(block, sums)| {
                let places = sums.len() / channels;
                let sources = self.sources(block * PLACES..block * PLACES + places);
                for group in 0..groups {
                    for channel in 0..inputs {
                        let channel = group * inputs + channel;
                        let plane = &input[(image * groups * inputs + channel) * input_plane..][..input_plane];
                        for (tap, sources) in sources.chunks(places).enumerate() {
                            let factors = &weight[(channel * taps + tap) * outputs..][..outputs];
                            for (sums, source) in sums.chunks_mut(channels).zip(sources) {
                                let Some(source) = source else { continue };
                                let value = plane[*source];
                                for (sum, factor) in sums[group * outputs..][..outputs].iter_mut().zip(factors) {
                                    *sum = step(*sum, value, *factor);
                                }
                            }
                        }
                    }
                }
            });
        });
        permuted(&sums, &[batch, output_plane, channels], &[0, 2, 1]).into_owned()
    }
}

impl Evaluate for Convolution {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let (input, weight) = (&call.inputs[0], &call.inputs[1]);
        let result = &call.results[0].shape;
        let groups = self.groups as usize;
        let slides = (0..input.shape.len() - 2)
            .map(|dim| Slide {
                input: input.shape[dim + 2],
                stride: self.strides[dim],
                dilation: self.dilations[dim],
                pad: self.pad_begin[dim],
            })
            .collect();
        let windows = Windows {
            transposed: self.transposed,
            groups,
            inputs: input.shape[1] / groups,
            outputs: result[1] / groups,
            batch: input.shape[0],
            kernel: weight.shape[2..].to_vec(),
            output: result[2..].to_vec(),
            slides,
        };
        Ok(vec![accumulate(call, self.accumulate, &windows)?])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_tensor::{DType, Tensor};

    fn plain(spatial: usize) -> Convolution {
        Convolution {
            accumulate: DType::F32,
            dtype: DType::F32,
            strides: vec![1; spatial],
            dilations: vec![1; spatial],
            pad_begin: vec![0; spatial],
            pad_end: vec![0; spatial],
            groups: 1,
            transposed: false,
            output_padding: vec![0; spatial],
        }
    }

    /// Small integers without a pattern that a wrong index would keep.
    fn numbers(shape: &[usize], seed: usize) -> Tensor {
        let total: usize = shape.iter().product();
        f32s(shape, &(0..total).map(|i| ((i * 31 + seed * 17 + i * i % 13) % 11) as f64 - 5.0).collect::<Vec<_>>())
    }

    /// The definition, element by element, for two spatial dimensions.
    fn definition(op: &Convolution, x: &Tensor, w: &Tensor, shape: &[usize]) -> Vec<f64> {
        let xs = x.to_f64_vec().unwrap();
        let ws = w.to_f64_vec().unwrap();
        let (groups, xd, wd) = (op.groups as usize, x.shape(), w.shape());
        let mut result = vec![0.0; shape.iter().product()];
        let at = |dims: &[usize], i: [usize; 4]| ((i[0] * dims[1] + i[1]) * dims[2] + i[2]) * dims[3] + i[3];
        for n in 0..xd[0] {
            for ci in 0..xd[1] {
                for co in 0..shape[1] {
                    if ci / (xd[1] / groups) != co / (shape[1] / groups) {
                        continue;
                    }
                    for kh in 0..wd[2] {
                        for kw in 0..wd[3] {
                            for y in 0..shape[2] {
                                for z in 0..shape[3] {
                                    let wanted = |out: usize, k: usize, d: usize, size: usize| -> Option<usize> {
                                        let (s, dil, p) = (op.strides[d], op.dilations[d], op.pad_begin[d]);
                                        let place = if op.transposed {
                                            let reach = out as i64 + p - k as i64 * dil;
                                            if reach % s != 0 {
                                                return None;
                                            }
                                            reach / s
                                        } else {
                                            out as i64 * s + k as i64 * dil - p
                                        };
                                        usize::try_from(place).ok().filter(|place| *place < size)
                                    };
                                    let (Some(i), Some(j)) = (wanted(y, kh, 0, xd[2]), wanted(z, kw, 1, xd[3])) else {
                                        continue;
                                    };
                                    let weight = if op.transposed {
                                        at(wd, [ci, co % (shape[1] / groups), kh, kw])
                                    } else {
                                        at(wd, [co, ci % (xd[1] / groups), kh, kw])
                                    };
                                    result[at(shape, [n, co, y, z])] += xs[at(xd, [n, ci, i, j])] * ws[weight];
                                }
                            }
                        }
                    }
                }
            }
        }
        result
    }

    fn check(op: Convolution, x: &[usize], w: &[usize]) {
        let (x, w) = (numbers(x, 1), numbers(w, 2));
        let found = run(op.clone(), &[x.clone(), w.clone()]);
        assert_eq!(found.to_f64_vec().unwrap(), definition(&op, &x, &w, found.shape()), "{op:?}");
    }

    #[test]
    fn agrees_with_the_definition() {
        check(plain(2), &[2, 3, 5, 7], &[4, 3, 3, 2]);
        check(
            Convolution { strides: vec![2, 3], pad_begin: vec![1, 2], pad_end: vec![2, 1], ..plain(2) },
            &[1, 2, 7, 8],
            &[3, 2, 3, 3],
        );
        check(
            Convolution { dilations: vec![2, 3], pad_begin: vec![2, 3], pad_end: vec![2, 3], ..plain(2) },
            &[1, 2, 6, 7],
            &[2, 2, 3, 3],
        );
        check(
            Convolution { groups: 2, pad_begin: vec![1, 1], pad_end: vec![1, 1], ..plain(2) },
            &[2, 4, 5, 5],
            &[6, 2, 3, 3],
        );
        check(Convolution { groups: 4, strides: vec![2, 2], ..plain(2) }, &[1, 4, 5, 6], &[4, 1, 2, 2]);
        check(Convolution { pad_begin: vec![-1, 2], pad_end: vec![1, -2], ..plain(2) }, &[1, 1, 6, 6], &[2, 1, 2, 2]);
        check(Convolution { pad_begin: vec![9, 9], pad_end: vec![9, 9], ..plain(2) }, &[1, 1, 2, 2], &[1, 1, 3, 3]);
    }

    #[test]
    fn the_transpose_agrees_with_the_definition() {
        let transposed = Convolution { transposed: true, ..plain(2) };
        check(transposed.clone(), &[2, 3, 4, 3], &[3, 2, 3, 2]);
        check(
            Convolution { strides: vec![2, 3], pad_begin: vec![1, 0], pad_end: vec![1, 2], ..transposed.clone() },
            &[1, 2, 3, 4],
            &[2, 3, 3, 3],
        );
        check(
            Convolution { strides: vec![2, 2], output_padding: vec![1, 1], groups: 2, ..transposed.clone() },
            &[1, 4, 3, 3],
            &[4, 3, 3, 3],
        );
        check(Convolution { dilations: vec![2, 2], ..transposed }, &[1, 1, 3, 3], &[1, 1, 2, 3]);
    }

    #[test]
    fn one_and_three_dimensions() {
        // [1,2,3,4] with [1,10], and its transpose.
        let x = f32s(&[1, 1, 4], &[1.0, 2.0, 3.0, 4.0]);
        let w = f32s(&[1, 1, 2], &[1.0, 10.0]);
        assert_eq!(values(plain(1), &[x.clone(), w.clone()]), [21.0, 32.0, 43.0]);
        assert_eq!(values(Convolution { transposed: true, ..plain(1) }, &[x, w]), [1.0, 12.0, 23.0, 34.0, 40.0]);
        // A window of the whole volume is a dot product: Σ i² for i in 0..8 is 140.
        let volume: Vec<f64> = (0..8).map(f64::from).collect();
        let (x, w) = (f32s(&[1, 1, 2, 2, 2], &volume), f32s(&[1, 1, 2, 2, 2], &volume));
        assert_eq!(values(plain(3), &[x, w]), [140.0]);
    }

    #[test]
    fn halves_round_once_and_integers_sum_exactly() {
        let x = tensor(DType::F16, &[1, 3, 1], &[2048.0, 1.0, 1.0]);
        let w = tensor(DType::F16, &[1, 3, 1], &[1.0; 3]);
        assert_eq!(values(Convolution { dtype: DType::F16, ..plain(1) }, &[x, w]), [2050.0]);
        let x = tensor(DType::U8, &[1, 2, 1], &[255.0, 255.0]);
        let w = tensor(DType::I8, &[1, 2, 1], &[-128.0, -128.0]);
        let op = Convolution { accumulate: DType::I32, dtype: DType::I32, ..plain(1) };
        assert_eq!(values(op, &[x, w]), [-65280.0]);
    }
}
