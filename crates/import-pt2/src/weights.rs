//! Weights: slices of the mapped file with sizes, strides and an offset.

use std::collections::HashMap;

use bytes::Bytes;
use indexmap::IndexMap;
use tenon_tensor::{DType, Tensor};

use crate::archive::Archive;
use crate::dtype;
use crate::error::{Pt2Error, quoted};
use crate::schema::{Payload, PayloadConfig, STRIDED, SymInt, TensorMeta};

/// Most dimensions of a tensor.
const MAX_RANK: usize = 16;

/// Most bytes of a weight with its repeated elements written out, 1 TiB: more than any device holds.
const MAX_BYTES: u64 = 1 << 40;

/// A weight as it lies in memory: `tensor` is dense, row-major and shares the file wherever the file holds it so.
#[derive(Debug, Clone)]
pub(crate) struct Weight {
    /// Dimensions in the order of memory; those that are repeated have one element.
    pub tensor: Tensor,
    /// Dimension of `tensor` that each dimension of the weight is.
    pub permutation: Vec<i64>,
    /// The weight's shape, where some of its dimensions are repeated.
    pub repeated: Option<Vec<u64>>,
    /// Weights of one key are one tensor.
    pub key: (String, DType, Vec<u64>, Vec<u64>, u64),
}

/// Weights by their name in the model, and the bytes of storages.
pub(crate) struct Weights<'a> {
    archive: &'a Archive,
    /// Folder and description of each.
    payloads: HashMap<String, (&'static str, Payload)>,
}

impl<'a> Weights<'a> {
    /// Reads the descriptions of weights and constants.
    pub(crate) fn read(archive: &'a Archive) -> Result<Weights<'a>, Pt2Error> {
        let mut payloads = HashMap::new();
        for (folder, file) in [
            ("data/weights/", "data/weights/model_weights_config.json"),
            ("data/constants/", "data/constants/model_constants_config.json"),
        ] {
            if archive.get(file).is_none() {
                continue;
            }
            let config: PayloadConfig = archive.json(file)?;
            for (name, payload) in config.config {
                payloads.entry(name).or_insert((folder, payload));
            }
        }
        Ok(Weights { archive, payloads })
    }

    /// The weight of a name.
    pub(crate) fn get(&self, name: &str) -> Result<Weight, Pt2Error> {
        let wrong = |reason: String| Pt2Error::Weight { name: name.to_owned(), reason };
        let (folder, payload) = self.payloads.get(name).ok_or_else(|| Pt2Error::Structure {
            what: format!("the program takes the weight {}, which the archive does not hold", quoted(name)),
        })?;
        if payload.use_pickle {
            return Err(Pt2Error::Pickle { name: name.to_owned() });
        }
        let meta = payload.tensor_meta.as_ref().ok_or_else(|| wrong("it has no description".to_owned()))?;
        let path = format!("{folder}{}", payload.path_name);
        let data =
            self.archive.get(&path).ok_or_else(|| wrong(format!("the archive has no entry {}", quoted(&path))))?;
        strided(name, path, data, meta)
    }
}

fn numbers(list: &[SymInt]) -> Option<Vec<u64>> {
    let number = |entry: &SymInt| match entry {
        SymInt::AsInt(value) => u64::try_from(*value).ok(),
        SymInt::AsExpr(_) => None,
    };
    list.iter().map(number).collect()
}

/// The tensor that sizes, strides and offset make of a storage.
fn strided(name: &str, path: String, data: &Bytes, meta: &TensorMeta) -> Result<Weight, Pt2Error> {
    let wrong = |reason: String| Pt2Error::Weight { name: name.to_owned(), reason };
    let owner = format!("weight {}", quoted(name));
    let dtype = dtype::read(meta.dtype, &owner)?;
    if meta.layout != STRIDED {
        return Err(Pt2Error::Type { owner, what: "sparse and other layouts than strided".to_owned() });
    }
    let not_numbers = || wrong("its sizes, strides or offset are no numbers from 0".to_owned());
    let sizes = numbers(&meta.sizes).ok_or_else(not_numbers)?;
    let strides = numbers(&meta.strides).ok_or_else(not_numbers)?;
    let offset = numbers(std::slice::from_ref(&meta.storage_offset)).ok_or_else(not_numbers)?[0];
    if sizes.len() != strides.len() || sizes.len() > MAX_RANK {
        return Err(wrong(format!("it has {} sizes and {} strides", sizes.len(), strides.len())));
    }
    let element = dtype.size() as u64;
    let count = sizes.iter().try_fold(1u64, |count, size| count.checked_mul(*size));
    let count = count.filter(|count| count.checked_mul(element).is_some_and(|bytes| bytes <= MAX_BYTES));
    let count =
        count.ok_or_else(|| wrong(format!("the sizes {sizes:?} of {dtype} are more than {MAX_BYTES} bytes")))?;
    let key = (path, dtype, sizes.clone(), strides.clone(), offset);
    let shape = |sizes: &[u64]| sizes.iter().map(|size| *size as usize).collect::<Vec<usize>>();
    let build =
        |shape: Vec<usize>, bytes: Bytes| Tensor::new(dtype, shape, bytes).map_err(|error| wrong(error.to_string()));
    if count == 0 {
        let permutation = (0..sizes.len() as i64).collect();
        return Ok(Weight { tensor: build(shape(&sizes), Bytes::new())?, permutation, repeated: None, key });
    }
    let last = sizes
        .iter()
        .zip(&strides)
        .try_fold(offset, |last, (size, stride)| last.checked_add((size - 1).checked_mul(*stride)?));
    let held = data.len() as u64 / element;
    if last.is_none_or(|last| last >= held) {
        return Err(wrong(format!(
            "sizes {sizes:?}, strides {strides:?} and offset {offset} reach beyond its {held} elements of {dtype}"
        )));
    }
    // Dimensions that are repeated are stored once.
    let is_repeated = |axis: usize| strides[axis] == 0 && sizes[axis] > 1;
    let stored: Vec<u64> = (0..sizes.len()).map(|axis| if is_repeated(axis) { 1 } else { sizes[axis] }).collect();
    let repeated = (stored != sizes).then(|| sizes.clone());
    let count: u64 = stored.iter().product();
    // Memory order: by strides, dimensions of one element last among equals so that they stay where they are.
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|axis| std::cmp::Reverse(if stored[*axis] == 1 { u64::MAX } else { strides[*axis] }));
    let mut expected = 1;
    let dense = order.iter().rev().all(|axis| {
        let fits = stored[*axis] == 1 || strides[*axis] == expected;
        expected *= stored[*axis];
        fits
    });
    if dense {
        let begin = (offset * element) as usize;
        let bytes = data.slice(begin..begin + (count * element) as usize);
        let in_memory: Vec<u64> = order.iter().map(|axis| stored[*axis]).collect();
        let place = |axis: usize| order.iter().position(|other| *other == axis).unwrap_or(0) as i64;
        let row_major = order.iter().copied().filter(|axis| stored[*axis] > 1).is_sorted();
        let (in_memory, permutation) = match row_major {
            true => (stored, (0..sizes.len() as i64).collect()),
            false => (in_memory, (0..sizes.len()).map(place).collect()),
        };
        return Ok(Weight { tensor: build(shape(&in_memory), bytes)?, permutation, repeated, key });
    }
    // Rows with gaps, or rows that overlap: put together anew. More elements than the storage has would be no weight of a model.
    if count > held {
        return Err(wrong(format!("its {count} elements overlap within a storage of {held}")));
    }
    let mut bytes = Vec::with_capacity((count * element) as usize);
    let mut at = vec![0u64; stored.len()];
    for _ in 0..count {
        let place = at.iter().zip(&strides).fold(offset, |sum, (index, stride)| sum + index * stride);
        let begin = (place * element) as usize;
        bytes.extend_from_slice(&data[begin..begin + element as usize]);
        for axis in (0..at.len()).rev() {
            at[axis] += 1;
            if at[axis] < stored[axis] {
                break;
            }
            at[axis] = 0;
        }
    }
    let permutation = (0..sizes.len() as i64).collect();
    Ok(Weight { tensor: build(shape(&stored), bytes.into())?, permutation, repeated, key })
}

/// Weights that were read, each storage view once.
pub(crate) type Cache<T> = IndexMap<(String, DType, Vec<u64>, Vec<u64>, u64), T>;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn meta(sizes: &[i64], strides: &[i64], offset: i64) -> TensorMeta {
        let list = |values: &[i64]| values.iter().map(|value| SymInt::AsInt(*value)).collect();
        TensorMeta {
            dtype: 5,
            sizes: list(sizes),
            strides: list(strides),
            storage_offset: SymInt::AsInt(offset),
            layout: STRIDED,
        }
    }

    fn storage(count: i64) -> Bytes {
        (0..count).flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into()
    }

    #[test]
    fn dense_weights_share_the_storage_in_any_order() {
        let data = storage(24);
        let read = |sizes: &[i64], strides: &[i64], offset| {
            strided("w", "p".into(), &data, &meta(sizes, strides, offset)).unwrap()
        };
        let inside = |weight: &Weight| data.as_ptr_range().contains(&weight.tensor.bytes().as_ptr());
        let plain = read(&[2, 3], &[3, 1], 4);
        assert!(inside(&plain) && plain.permutation == [0, 1]);
        assert_eq!(plain.tensor.to_i64_vec().unwrap(), [4, 5, 6, 7, 8, 9]);
        // The transpose of a matrix [4, 6], and channels last of [2, 3, 2, 2].
        let transposed = read(&[6, 4], &[1, 6], 0);
        assert!(inside(&transposed) && transposed.permutation == [1, 0] && transposed.tensor.shape() == [4, 6]);
        let channels_last = read(&[2, 3, 2, 2], &[12, 1, 6, 3], 0);
        assert!(inside(&channels_last));
        assert_eq!((channels_last.permutation, channels_last.tensor.shape()), (vec![0, 3, 1, 2], &[2, 2, 2, 3][..]));
        let repeated = read(&[4, 3], &[0, 1], 2);
        assert_eq!((repeated.repeated, repeated.tensor.to_i64_vec().unwrap()), (Some(vec![4, 3]), vec![2, 3, 4]));
        let ones = read(&[1, 3, 1], &[7, 1, 9], 0);
        assert!(inside(&ones) && ones.permutation == [0, 1, 2]);
    }

    #[test]
    fn gaps_are_left_out() {
        let data = storage(24);
        let weight = strided("w", "p".into(), &data, &meta(&[2, 2], &[12, 3], 1)).unwrap();
        assert_eq!(weight.tensor.to_i64_vec().unwrap(), [1, 4, 13, 16]);
        let overlapping = strided("w", "p".into(), &data, &meta(&[3, 2], &[1, 1], 0)).unwrap();
        assert_eq!(overlapping.tensor.to_i64_vec().unwrap(), [0, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let data = storage(24);
        let code = |meta: TensorMeta| strided("w", "p".into(), &data, &meta).unwrap_err().code();
        assert_eq!(code(meta(&[25], &[1], 0)), "E0167");
        assert_eq!(code(meta(&[24], &[1], 1)), "E0167");
        assert_eq!(code(meta(&[2, 2], &[24, 1], 0)), "E0167");
        assert_eq!(code(meta(&[2], &[i64::MAX], 0)), "E0167");
        assert_eq!(code(meta(&[i64::MAX, i64::MAX], &[0, 0], 0)), "E0167");
        assert_eq!(code(meta(&[12, 12], &[1, 1], 0)), "E0167");
        // Rows that are all the same need no storage of their own, but whatever computes with them needs memory for them.
        assert_eq!(code(meta(&[1 << 40, 24], &[0, 1], 0)), "E0167");
        assert_eq!(code(meta(&[2], &[-1], 1)), "E0167");
        assert_eq!(code(meta(&[2], &[1, 1], 0)), "E0167");
        assert_eq!(code(TensorMeta { dtype: 99, ..meta(&[1], &[1], 0) }), "E0168");
        assert_eq!(code(TensorMeta { layout: 1, ..meta(&[1], &[1], 0) }), "E0168");
    }
}
