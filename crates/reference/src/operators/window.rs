//! `graph.window`: pooling. Cells of a window are combined in row-major order; padding takes no part.

use rayon::prelude::*;
use tenon_graph_dialect::operators::{Window, WindowKind};

use crate::ReferenceError;
use crate::array::Array;
use crate::evaluate::{Call, Evaluate, with_real};
use crate::number::{Real, range, widen, wrap};
use crate::operators::convolution::Slide;
use crate::shape::{advance, count, for_each_index, strides};

impl Evaluate for Window {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let input = &call.inputs[0];
        let form = &call.results[0];
        if !input.dtype.is_float() {
            let (least, _) = range(input.dtype);
            let largest = self.reduce(call, input.ints(), wrap(input.dtype, least), |a, b| {
                if widen(input.dtype, a) >= widen(input.dtype, b) { a } else { b }
            });
            return Ok(vec![Array::integers(form, largest)]);
        }
        Ok(vec![with_real!(call, T => Array::reals(form, call.mode, self.reals::<T>(call)))])
    }
}

trait Pool {
    fn slides(&self, call: &Call<'_>) -> Vec<Slide>;

    /// Folds the cells of each window that lie inside the input.
    fn reduce<T: Copy + Send + Sync>(
        &self,
        call: &Call<'_>,
        elements: &[T],
        start: T,
        fold: impl Fn(T, T) -> T + Sync,
    ) -> Vec<T>;

    fn reals<T: Real>(&self, call: &Call<'_>) -> Vec<T>;
}

impl Pool for Window {
    fn slides(&self, call: &Call<'_>) -> Vec<Slide> {
        let inner = &call.inputs[0].shape[2..];
        (0..self.kernel.len())
            .map(|dim| Slide {
                input: inner[dim],
                stride: self.strides[dim],
                dilation: self.dilations[dim],
                pad: self.pad_begin[dim],
            })
            .collect()
    }

    fn reduce<T: Copy + Send + Sync>(
        &self,
        call: &Call<'_>,
        elements: &[T],
        start: T,
        fold: impl Fn(T, T) -> T + Sync,
    ) -> Vec<T> {
        let slides = self.slides(call);
        let (inner, outer) = (&call.inputs[0].shape[2..], &call.results[0].shape[2..]);
        let (inner_count, outer_count) = (count(inner), count(outer));
        let steps = strides(inner);
        let mut result = vec![start; call.results[0].count()];
        if result.is_empty() {
            return result;
        }
        result.par_chunks_mut(outer_count).enumerate().for_each(|(plane, results)| {
            let source = &elements[plane * inner_count..][..inner_count];
            let mut place = vec![0; outer.len()];
            for slot in results {
                let taps: Vec<_> =
                    (0..outer.len()).map(|dim| slides[dim].taps(place[dim], self.kernel[dim] as usize)).collect();
                let reach: Vec<usize> = taps.iter().map(ExactSizeIterator::len).collect();
                for_each_index(&reach, |tap| {
                    let cell: usize = (0..outer.len())
                        .map(|dim| {
                            // Taps are those that reach inside.
                            let at = slides[dim].source(place[dim], taps[dim].start + tap[dim]).unwrap_or(0);
                            at * steps[dim]
                        })
                        .sum();
                    *slot = fold(*slot, source[cell]);
                });
                advance(&mut place, outer);
            }
        });
        result
    }

    fn reals<T: Real>(&self, call: &Call<'_>) -> Vec<T> {
        let elements = call.inputs[0].to_reals::<T>();
        match self.kind {
            WindowKind::Max => self.reduce(call, &elements, -T::INFINITY, T::larger),
            WindowKind::Sum => self.reduce(call, &elements, T::ZERO, |sum, x| sum + x),
            WindowKind::L2 => {
                let sums = self.reduce(call, &elements, T::ZERO, |sum, x| sum + x * x);
                sums.into_iter().map(T::sqrt).collect()
            }
            WindowKind::Average => {
                let sums = self.reduce(call, &elements, T::ZERO, |sum, x| sum + x);
                let cells = self.cells(call);
                sums.into_iter().zip(cells.iter().cycle()).map(|(sum, cells)| sum / T::of(*cells as f64)).collect()
            }
        }
    }
}

/// Number of cells that an average divides by.
trait Cells {
    fn cells(&self, call: &Call<'_>) -> Vec<usize>;
}

impl Cells for Window {
    fn cells(&self, call: &Call<'_>) -> Vec<usize> {
        let outer = &call.results[0].shape[2..];
        let slides = self.slides(call);
        let mut cells = Vec::new();
        for_each_index(outer, |place| {
            let along = |dim: usize| {
                let mut slide: Slide = slides[dim];
                if self.count_include_pad {
                    // Seen from the beginning of the padding, the padded input has no padding.
                    slide.input = (slide.input as i64 + self.pad_begin[dim] + self.pad_end[dim]).max(0) as usize;
                    slide.pad = 0;
                }
                slide.taps(place[dim], self.kernel[dim] as usize).len()
            };
            cells.push((0..outer.len()).map(along).product());
        });
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_tensor::DType;

    fn window(kind: WindowKind) -> Window {
        Window {
            kind,
            kernel: vec![2],
            strides: vec![2],
            dilations: vec![1],
            pad_begin: vec![1],
            pad_end: vec![0],
            ceil: true,
            count_include_pad: false,
        }
    }

    #[test]
    fn every_kind_by_hand() {
        // Windows over [_, 3], [-1, 4], [2, _]: one pad before, one cell past the end by rounding up.
        let x = f32s(&[1, 1, 4], &[3.0, -1.0, 4.0, 2.0]);
        let at = |window: Window| values(window, std::slice::from_ref(&x));
        assert_eq!(at(window(WindowKind::Max)), [3.0, 4.0, 2.0]);
        assert_eq!(at(window(WindowKind::Sum)), [3.0, 3.0, 2.0]);
        assert_eq!(at(window(WindowKind::Average)), [3.0, 1.5, 2.0]);
        // Declared pads count, the cell that rounding up adds does not.
        assert_eq!(at(Window { count_include_pad: true, ..window(WindowKind::Average) }), [1.5, 1.5, 2.0]);
        close(&at(window(WindowKind::L2)), &[3.0, 17f64.sqrt(), 2.0], 1e-6);
    }

    #[test]
    fn dilation_and_two_dimensions() {
        let x: Vec<f64> = (0..16).map(f64::from).collect();
        let op = Window {
            kernel: vec![2, 2],
            strides: vec![1, 1],
            dilations: vec![2, 3],
            pad_begin: vec![0, 0],
            pad_end: vec![0, 0],
            ceil: false,
            ..window(WindowKind::Sum)
        };
        // Rows 0 and 2, columns 0 and 3: 0 + 3 + 8 + 11; one row further down 16 more.
        assert_eq!(values(op, &[f32s(&[1, 1, 4, 4], &x)]), [22.0, 38.0]);
    }

    #[test]
    fn nan_wins_integers_have_a_max_and_empty_windows_their_identity() {
        let op = Window { pad_begin: vec![0], ..window(WindowKind::Max) };
        assert!(values(op.clone(), &[f32s(&[1, 1, 2], &[f64::NAN, 1.0])])[0].is_nan());
        assert_eq!(values(op.clone(), &[tensor(DType::I8, &[1, 1, 2], &[-5.0, -7.0])]), [-5.0]);
        assert_eq!(values(op, &[tensor(DType::U8, &[1, 1, 2], &[200.0, 7.0])]), [200.0]);
        let outside = Window { pad_begin: vec![4], strides: vec![4], ..window(WindowKind::Max) };
        assert_eq!(values(outside, &[f32s(&[1, 1, 1], &[1.0])])[0], f64::NEG_INFINITY);
    }

    #[test]
    fn a_huge_window_over_padding_takes_no_time() {
        let op = Window {
            kernel: vec![1 << 30],
            pad_begin: vec![1 << 30],
            pad_end: vec![0],
            strides: vec![1 << 29],
            ..window(WindowKind::Sum)
        };
        assert_eq!(values(op, &[f32s(&[1, 1, 2], &[1.0, 2.0])]).last(), Some(&3.0));
    }
}
