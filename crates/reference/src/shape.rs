//! Row-major index arithmetic. Shapes here are small enough that the number of elements fits in memory.

use std::borrow::Cow;

/// Number of elements.
pub(crate) fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Distance of neighbours in each dimension.
pub(crate) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim] * shape[dim];
    }
    strides
}

/// Calls a function with each multi-index of a shape, in row-major order.
pub(crate) fn for_each_index(shape: &[usize], mut function: impl FnMut(&[usize])) {
    if count(shape) == 0 {
        return;
    }
    let mut index = vec![0; shape.len()];
    loop {
        function(&index);
        if !advance(&mut index, shape) {
            return;
        }
    }
}

/// Steps to the next multi-index; false, and all zero, after the last.
pub(crate) fn advance(index: &mut [usize], shape: &[usize]) -> bool {
    for dim in (0..shape.len()).rev() {
        index[dim] += 1;
        if index[dim] < shape[dim] {
            return true;
        }
        index[dim] = 0;
    }
    false
}

/// Elements `offset + Σ index[d]·strides[d]` for every index of `shape`. All of them must lie inside `source`.
pub(crate) fn strided<T: Copy>(source: &[T], shape: &[usize], offset: isize, strides: &[isize]) -> Vec<T> {
    let total = count(shape);
    let mut result = Vec::with_capacity(total);
    if total == 0 {
        return result;
    }
    let Some((&length, outer)) = shape.split_last() else {
        return vec![source[offset as usize]];
    };
    let step = strides[outer.len()];
    for_each_index(outer, |index| {
        let start = offset + index.iter().zip(strides).map(|(i, stride)| *i as isize * stride).sum::<isize>();
        match step {
            1 => result.extend_from_slice(&source[start as usize..start as usize + length]),
            0 => result.resize(result.len() + length, source[start as usize]),
            _ => result.extend((0..length as isize).map(|i| source[(start + i * step) as usize])),
        }
    });
    result
}

/// Dimension i of the result is dimension `permutation[i]` of the source.
pub(crate) fn permuted<'a, T: Copy>(source: &'a [T], shape: &[usize], permutation: &[usize]) -> Cow<'a, [T]> {
    if permutation.iter().copied().eq(0..shape.len()) {
        return Cow::Borrowed(source);
    }
    let own = strides(shape);
    let result: Vec<usize> = permutation.iter().map(|dim| shape[*dim]).collect();
    let steps: Vec<isize> = permutation.iter().map(|dim| own[*dim] as isize).collect();
    Cow::Owned(strided(source, &result, 0, &steps))
}

/// Elements repeated along dimensions of size 1; dimensions align at the end. The shape must broadcast to `target`.
pub(crate) fn broadcast<'a, T: Copy>(source: &'a [T], shape: &[usize], target: &[usize]) -> Cow<'a, [T]> {
    if shape == target {
        return Cow::Borrowed(source);
    }
    let own = strides(shape);
    let missing = target.len() - shape.len();
    let steps: Vec<isize> = (0..target.len())
        .map(|dim| if dim < missing || shape[dim - missing] == 1 { 0 } else { own[dim - missing] as isize })
        .collect();
    Cow::Owned(strided(source, target, 0, &steps))
}

/// A tensor seen as rows along some of its axes.
pub(crate) struct Rows {
    permutation: Vec<usize>,
    shape: Vec<usize>,
    /// Elements of a row, in row-major order of the axes.
    pub(crate) length: usize,
    /// Number of rows.
    pub(crate) rows: usize,
}

impl Rows {
    /// `axes` are sorted and within the rank.
    pub(crate) fn new(shape: &[usize], axes: &[usize]) -> Self {
        let kept = (0..shape.len()).filter(|dim| !axes.contains(dim));
        let permutation: Vec<usize> = kept.chain(axes.iter().copied()).collect();
        let length = axes.iter().map(|axis| shape[*axis]).product();
        let rows = permutation[..shape.len() - axes.len()].iter().map(|dim| shape[*dim]).product();
        Rows { permutation, shape: shape.to_vec(), length, rows }
    }

    /// Elements row after row.
    pub(crate) fn split<'a, T: Copy>(&self, source: &'a [T]) -> Cow<'a, [T]> {
        permuted(source, &self.shape, &self.permutation)
    }

    /// Undoes [`Rows::split`].
    pub(crate) fn restore<T: Copy>(&self, rows: Vec<T>) -> Vec<T> {
        let last = self.permutation.last().map_or(1, |dim| self.shape[*dim]);
        self.join(rows, last)
    }

    /// Undoes [`Rows::split`], where the last axis has another size by now.
    pub(crate) fn join<T: Copy>(&self, rows: Vec<T>, last: usize) -> Vec<T> {
        if self.permutation.iter().copied().eq(0..self.shape.len()) {
            return rows;
        }
        let mut shape: Vec<usize> = self.permutation.iter().map(|dim| self.shape[*dim]).collect();
        if let Some(size) = shape.last_mut() {
            *size = last;
        }
        let mut inverse = vec![0; self.permutation.len()];
        for (place, dim) in self.permutation.iter().enumerate() {
            inverse[*dim] = place;
        }
        permuted(&rows, &shape, &inverse).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        let data: Vec<i32> = (0..24).collect();
        let rows = Rows::new(&[2, 3, 4], &[1]);
        let split = rows.split(&data);
        assert_eq!(split[..6], [0, 4, 8, 1, 5, 9]);
        assert_eq!((rows.rows, rows.length), (8, 3));
        assert_eq!(rows.join(split.into_owned(), 3), data);
    }

    #[test]
    fn broadcast_aligns_at_the_end() {
        assert_eq!(broadcast(&[1, 2], &[2, 1], &[2, 2, 3])[..], [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2]);
        assert_eq!(broadcast(&[7], &[], &[2])[..], [7, 7]);
        assert!(broadcast(&[7], &[1], &[0]).is_empty());
    }
}
