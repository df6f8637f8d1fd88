//! Tensors as stored in ONNX files.
//!
//! The data of a tensor is in one place: `raw_data`, the typed field of its element type, or an external file. Its size is checked
//! against the dimensions before anything is allocated. Raw bytes are shared with the file's buffer, not copied, except for elements
//! narrower than eight bits, which files pack several to a byte, the first in the low bits.
//!
//! Source: ONNX, `TensorProto`, IR version 14.

use std::path::Path;

use bytes::Bytes;
use prost::Message;
use tenon_mapped_file::MappedFile;
use tenon_tensor::{DType, Tensor, byte_count, element_count};

use crate::error::{ImportError, quoted};
use crate::external::ExternalData;
use crate::proto::TensorProto;
use crate::proto::tensor_proto::{DataLocation, DataType};
use crate::wire::{self, Kind};

/// The element type of a number in `TensorProto.DataType`; else what it is.
pub(crate) fn element_type(code: i32) -> Result<DType, String> {
    let data_type = DataType::try_from(code).map_err(|_| format!("number {code}, which is unknown"))?;
    Ok(match data_type {
        DataType::Float => DType::F32,
        DataType::Uint8 => DType::U8,
        DataType::Int8 => DType::I8,
        DataType::Uint16 => DType::U16,
        DataType::Int16 => DType::I16,
        DataType::Int32 => DType::I32,
        DataType::Int64 => DType::I64,
        DataType::Bool => DType::Bool,
        DataType::Float16 => DType::F16,
        DataType::Double => DType::F64,
        DataType::Uint32 => DType::U32,
        DataType::Uint64 => DType::U64,
        DataType::Complex64 => DType::Complex64,
        DataType::Complex128 => DType::Complex128,
        DataType::Bfloat16 => DType::BF16,
        DataType::Float8e4m3fn => DType::F8E4M3FN,
        DataType::Float8e4m3fnuz => DType::F8E4M3FNUZ,
        DataType::Float8e5m2 => DType::F8E5M2,
        DataType::Float8e5m2fnuz => DType::F8E5M2FNUZ,
        DataType::Float8e8m0 => DType::F8E8M0FNU,
        DataType::Float4e2m1 => DType::F4E2M1FN,
        DataType::Uint4 => DType::U4,
        DataType::Int4 => DType::I4,
        DataType::Uint2 => DType::U2,
        DataType::Int2 => DType::I2,
        DataType::Undefined => return Err("UNDEFINED".to_owned()),
        DataType::String => return Err("STRING".to_owned()),
        DataType::Float6e2m3 | DataType::Float6e3m2 => return Err(data_type.as_str_name().to_owned()),
    })
}

/// Reads one tensor from a file that holds a `TensorProto`, with the tensor's name.
///
/// # Errors
/// The file cannot be read, is damaged, or holds a tensor of strings or other unsupported elements.
pub fn read_tensor_pb(path: impl AsRef<Path>) -> Result<(String, Tensor), ImportError> {
    let path = path.as_ref();
    let file = MappedFile::open(path).map_err(|source| ImportError::Io { path: path.to_owned(), source })?;
    let data = file.bytes();
    wire::check(&data, Kind::Tensor)?;
    let proto = TensorProto::decode(data).map_err(|error| ImportError::Decode { reason: error.to_string() })?;
    let name = proto.name().to_owned();
    let mut external = ExternalData::new(path.parent());
    let tensor = decode(proto, &mut external, &format!("tensor {} in {}", quoted(&name), path.display()))?;
    Ok((name, tensor))
}

/// Decodes a tensor; `owner` names it in errors.
pub(crate) fn decode(proto: TensorProto, external: &mut ExternalData, owner: &str) -> Result<Tensor, ImportError> {
    let data_error = |reason: String| ImportError::TensorData { owner: owner.to_owned(), reason };
    let dtype =
        element_type(proto.data_type()).map_err(|found| ImportError::ElementType { owner: owner.to_owned(), found })?;
    let dims_error = || ImportError::Dimensions { owner: owner.to_owned(), dims: proto.dims.clone() };
    let shape = proto.dims.iter().map(|&dim| usize::try_from(dim)).collect::<Result<Vec<usize>, _>>();
    let shape = shape.map_err(|_| dims_error())?;
    let (Some(count), Some(_)) = (element_count(&shape), byte_count(dtype, &shape)) else {
        return Err(dims_error());
    };
    if proto.segment.is_some() {
        return Err(ImportError::Unsupported { what: format!("{owner}, stored in segments,") });
    }
    let is_external = proto.data_location() == DataLocation::External;
    let places = [is_external, proto.raw_data.is_some(), typed_length(&proto) > 0];
    if places.iter().filter(|&&used| used).count() > 1 {
        return Err(data_error("its data is stored in two places".to_owned()));
    }
    if is_external || proto.raw_data.is_some() {
        // One bit more than a byte per element never overflows where the byte count does not.
        let size = if dtype.bits() < 8 { packed_size(dtype, count) } else { count * dtype.size() };
        let raw = match &proto.raw_data {
            Some(raw) if !is_external => raw.clone(),
            _ => external.read(&proto.external_data, size, owner)?,
        };
        if raw.len() != size {
            return Err(data_error(format!(
                "a tensor of type {dtype} and shape {shape:?} is stored in {size} bytes, its data has {}",
                raw.len()
            )));
        }
        let data = if dtype.bits() < 8 && dtype != DType::Bool { unpack(dtype, &raw, count) } else { raw };
        return Tensor::new(dtype, shape, data).map_err(|source| ImportError::tensor(owner, source));
    }
    let data = typed(&proto, dtype, count).map_err(data_error)?;
    Tensor::new(dtype, shape, data).map_err(|source| ImportError::tensor(owner, source))
}

fn packed_size(dtype: DType, count: usize) -> usize {
    if dtype == DType::Bool { count } else { count.div_ceil(per_byte(dtype)) }
}

fn per_byte(dtype: DType) -> usize {
    8 / dtype.bits() as usize
}

/// One element a byte from elements packed low bits first.
fn unpack(dtype: DType, packed: &[u8], count: usize) -> Bytes {
    let (bits, per_byte) = (dtype.bits(), per_byte(dtype));
    let mask = (1u8 << bits) - 1;
    let elements = packed.iter().flat_map(|byte| (0..per_byte as u32).map(move |lane| byte >> (lane * bits) & mask));
    elements.take(count).collect::<Vec<u8>>().into()
}

fn typed_length(proto: &TensorProto) -> usize {
    let TensorProto { float_data, int32_data, int64_data, double_data, uint64_data, string_data, .. } = proto;
    float_data.len() + int32_data.len() + int64_data.len() + double_data.len() + uint64_data.len() + string_data.len()
}

/// The bytes of `count` elements from the typed field that belongs to `dtype`.
fn typed(proto: &TensorProto, dtype: DType, count: usize) -> Result<Vec<u8>, String> {
    let bytes = match dtype {
        DType::F32 | DType::Complex64 => {
            let parts = if dtype == DType::F32 { count } else { 2 * count };
            check_length(proto, "float_data", proto.float_data.len(), parts)?;
            proto.float_data.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        DType::F64 | DType::Complex128 => {
            let parts = if dtype == DType::F64 { count } else { 2 * count };
            check_length(proto, "double_data", proto.double_data.len(), parts)?;
            proto.double_data.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        DType::I64 => {
            check_length(proto, "int64_data", proto.int64_data.len(), count)?;
            proto.int64_data.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        DType::U64 | DType::U32 => {
            check_length(proto, "uint64_data", proto.uint64_data.len(), count)?;
            let size = dtype.size();
            if let Some(value) = proto.uint64_data.iter().find(|&&value| size == 4 && value > u64::from(u32::MAX)) {
                return Err(format!("the element {value} is no {dtype}"));
            }
            proto.uint64_data.iter().flat_map(|value| value.to_le_bytes().into_iter().take(size)).collect()
        }
        _ => return from_int32(proto, dtype, count),
    };
    Ok(bytes)
}

/// Everything of at most 32 bits but f32: numbers by value, floats by their bits, narrow elements packed into bytes.
fn from_int32(proto: &TensorProto, dtype: DType, count: usize) -> Result<Vec<u8>, String> {
    let packed = dtype.bits() < 8 && dtype != DType::Bool;
    check_length(proto, "int32_data", proto.int32_data.len(), if packed { packed_size(dtype, count) } else { count })?;
    // Bits are written either zero- or sign-extended.
    let (lowest, highest): (i64, i64) = match dtype {
        DType::I8 => (-128, 127),
        DType::I16 => (-32768, 32767),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DType::U8 => (0, 255),
        DType::U16 => (0, 65535),
        DType::F16 | DType::BF16 => (-32768, 65535),
        _ => (-128, 255),
    };
    if let Some(value) = proto.int32_data.iter().find(|&&value| !(lowest..=highest).contains(&i64::from(value))) {
        return Err(format!("the element {value} is no {dtype}"));
    }
    let size = dtype.size();
    let bytes: Vec<u8> = proto.int32_data.iter().flat_map(|value| value.to_le_bytes().into_iter().take(size)).collect();
    Ok(if packed { unpack(dtype, &bytes, count).to_vec() } else { bytes })
}

fn check_length(proto: &TensorProto, field: &str, found: usize, expected: usize) -> Result<(), String> {
    if found == expected && typed_length(proto) == found {
        return Ok(());
    }
    Err(match typed_length(proto) {
        0 => format!("it has no data, where its dimensions {:?} need {expected} elements", proto.dims),
        total if total != found => format!("its data is in other fields than {field}, where its type belongs"),
        _ => format!("its dimensions {:?} need {expected} elements in {field}, which has {found}", proto.dims),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn proto(data_type: DataType, dims: &[i64]) -> TensorProto {
        TensorProto { data_type: Some(data_type as i32), dims: dims.to_vec(), ..TensorProto::default() }
    }

    fn read(proto: TensorProto) -> Result<Tensor, ImportError> {
        decode(proto, &mut ExternalData::new(None), "initializer `w`")
    }

    #[test]
    fn packed_elements_come_low_bits_first() {
        let raw = TensorProto { raw_data: Some(Bytes::from_static(&[0x21, 0x0f])), ..proto(DataType::Int4, &[3]) };
        assert_eq!(read(raw).unwrap().to_i64_vec().unwrap(), [1, 2, -1]);
        let typed = TensorProto { int32_data: vec![0b11_10_01_00, 0b01], ..proto(DataType::Uint2, &[5]) };
        assert_eq!(read(typed).unwrap().to_i64_vec().unwrap(), [0, 1, 2, 3, 1]);
        let floats = TensorProto { raw_data: Some(Bytes::from_static(&[0xa1])), ..proto(DataType::Float4e2m1, &[2]) };
        assert_eq!(read(floats).unwrap().to_f64_vec().unwrap(), [0.5, -1.0]);
    }

    #[test]
    fn typed_fields_by_element_type() {
        let half = TensorProto { int32_data: vec![0x3c00, 0xbc00, -0x4400], ..proto(DataType::Float16, &[3]) };
        assert_eq!(read(half).unwrap().to_f64_vec().unwrap(), [1.0, -1.0, -1.0]);
        let complex = TensorProto { float_data: vec![1.0, 2.0], ..proto(DataType::Complex64, &[1]) };
        assert_eq!(read(complex).unwrap().to_complex_vec().unwrap(), [(1.0, 2.0)]);
        let unsigned = TensorProto { uint64_data: vec![4_000_000_000], ..proto(DataType::Uint32, &[]) };
        assert_eq!(read(unsigned).unwrap().to_i64_vec().unwrap(), [4_000_000_000]);
        let bytes = TensorProto { int32_data: vec![-128, 127], ..proto(DataType::Int8, &[2]) };
        assert_eq!(read(bytes).unwrap().to_i64_vec().unwrap(), [-128, 127]);
        let bools = TensorProto { int32_data: vec![1, 0], ..proto(DataType::Bool, &[2]) };
        assert_eq!(read(bools).unwrap().to_i64_vec().unwrap(), [1, 0]);
        let double = TensorProto { double_data: vec![0.1], ..proto(DataType::Double, &[1]) };
        assert_eq!(read(double).unwrap().to_f64_vec().unwrap(), [0.1]);
        assert_eq!(read(proto(DataType::Float, &[0, 1 << 62])).unwrap().shape(), [0, 1 << 62]);
    }

    #[test]
    fn raw_data_is_shared_not_copied() {
        let raw = Bytes::from(vec![0u8; 64]);
        let tensor = read(TensorProto { raw_data: Some(raw.clone()), ..proto(DataType::Float, &[16]) }).unwrap();
        assert_eq!(tensor.bytes().as_ptr(), raw.as_ptr());
    }

    #[test]
    fn faults_are_coded() {
        let raw = |bytes: &'static [u8]| Some(Bytes::from_static(bytes));
        let cases = [
            (proto(DataType::String, &[1]), "E0105"),
            (proto(DataType::Float6e2m3, &[1]), "E0105"),
            (TensorProto { data_type: Some(99), ..TensorProto::default() }, "E0105"),
            (proto(DataType::Float, &[-1]), "E0106"),
            (proto(DataType::Float, &[1 << 62]), "E0106"),
            (proto(DataType::Float, &[1 << 40, 1 << 40]), "E0106"),
            (proto(DataType::Float, &[1 << 50]), "E0107"),
            (TensorProto { raw_data: raw(&[0; 7]), ..proto(DataType::Float, &[2]) }, "E0107"),
            (TensorProto { raw_data: raw(&[0; 2]), ..proto(DataType::Int4, &[5]) }, "E0107"),
            (TensorProto { raw_data: raw(&[2]), ..proto(DataType::Bool, &[1]) }, "E0107"),
            (TensorProto { raw_data: raw(&[0; 4]), float_data: vec![0.0], ..proto(DataType::Float, &[1]) }, "E0107"),
            (TensorProto { int64_data: vec![0], ..proto(DataType::Float, &[1]) }, "E0107"),
            (TensorProto { int32_data: vec![300], ..proto(DataType::Uint8, &[1]) }, "E0107"),
            (TensorProto { uint64_data: vec![1 << 32], ..proto(DataType::Uint32, &[1]) }, "E0107"),
            (TensorProto { data_location: Some(1), ..proto(DataType::Float, &[1]) }, "E0108"),
            (TensorProto { segment: Some(Default::default()), ..proto(DataType::Float, &[0]) }, "E0119"),
        ];
        for (proto, code) in cases {
            let text = format!("{proto:?}");
            let error = read(proto).unwrap_err();
            assert_eq!(error.code(), code, "{text}: {error}");
            assert!(error.to_string().contains("initializer `w`"), "{error}");
        }
    }
}
