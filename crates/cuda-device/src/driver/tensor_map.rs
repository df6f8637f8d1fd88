//! Tensor maps (CUDA driver API, `cuTensorMapEncodeTiled`), which drivers have since CUDA 12.

use std::ffi::{c_uint, c_void};

use tenon_runtime::device::TiledTensor;
use tenon_tensor::DType;

use super::{Context, MemoryError};

/// `CUDA_ERROR_INVALID_VALUE`.
const INVALID_VALUE: c_uint = 1;

// Options of a tensor map, enumerations of `cuda.h`: `CUtensorMapInterleave`, `CUtensorMapSwizzle`, `CUtensorMapL2promotion`,
// `CUtensorMapFloatOOBfill`.
const TENSOR_MAP_INTERLEAVE_NONE: c_uint = 0;
/// None, 32, 64 and 128 bytes.
const TENSOR_MAP_SWIZZLE: [c_uint; 4] = [0, 1, 2, 3];
const TENSOR_MAP_L2_PROMOTION_128B: c_uint = 2;
const TENSOR_MAP_FILL_ZERO: c_uint = 0;

/// `CUtensorMap`.
#[repr(C, align(64))]
pub(crate) struct EncodedMap([u64; 16]);

/// `CUtensorMapDataType` of an element type; narrow floats move as bytes.
pub(crate) fn tensor_map_type(dtype: DType) -> Option<c_uint> {
    Some(match dtype {
        DType::U16 | DType::I16 => 1,
        DType::U32 => 2,
        DType::I32 => 3,
        DType::U64 => 4,
        DType::I64 => 5,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::BF16 => 9,
        dtype if dtype.size() == 1 => 0,
        _ => return None,
    })
}

impl Context {
    /// Encodes a tensor map; `None` where the driver is too old to know of them.
    pub(crate) fn encode_tensor_map(
        &self,
        tensor: &TiledTensor<'_>,
        element: c_uint,
    ) -> Option<Result<[u64; 16], MemoryError>> {
        let encode = self.table.cuTensorMapEncodeTiled?;
        let rank = tensor.sizes.len();
        let fits = (1..=5).contains(&rank) && tensor.strides.len() + 1 == rank && tensor.tile.len() == rank;
        let sizes: Vec<u64> = tensor.sizes.iter().map(|size| u64::from(*size)).collect();
        // One is there for a tensor of one dimension, of which the driver reads none.
        let strides = [tensor.strides, &[0]].concat();
        let steps = [1 as c_uint; 5];
        let mut map = EncodedMap([0; 16]);
        let swizzle = match tensor.swizzle {
            32 => TENSOR_MAP_SWIZZLE[1],
            64 => TENSOR_MAP_SWIZZLE[2],
            128 => TENSOR_MAP_SWIZZLE[3],
            _ => TENSOR_MAP_SWIZZLE[0],
        };
        let mut encoded = || {
            if !fits {
                return Ok(INVALID_VALUE);
            }
            self.enter()?;
            // The address is looked up; what the tensor covers, the plan has checked.
            self.allocations().find(tensor.pointer.0, 1)?;
            // SAFETY: lists of `rank` numbers, one less of strides, and a place for a map that is aligned as the driver asks for; the address is
            // written into the map, not followed.
            Ok(unsafe {
                encode(
                    &mut map,
                    element,
                    rank as c_uint,
                    tensor.pointer.0 as *mut c_void,
                    sizes.as_ptr(),
                    strides.as_ptr(),
                    tensor.tile.as_ptr(),
                    steps.as_ptr(),
                    TENSOR_MAP_INTERLEAVE_NONE,
                    swizzle,
                    TENSOR_MAP_L2_PROMOTION_128B,
                    TENSOR_MAP_FILL_ZERO,
                )
            })
        };
        let code: Result<c_uint, MemoryError> = encoded();
        Some(code.and_then(|code| Ok(self.table.check("cuTensorMapEncodeTiled", code)?)).map(|()| map.0))
    }
}
