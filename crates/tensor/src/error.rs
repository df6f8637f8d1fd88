//! What can be wrong with a tensor or with a `.npy` file.

use std::path::PathBuf;

use crate::DType;

/// A tensor that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum TensorError {
    /// The product of the dimensions, in bytes, leaves the address space.
    #[error("a tensor of type {dtype} and shape {shape:?} has more bytes than can be addressed")]
    TooLarge { dtype: DType, shape: Vec<usize> },
    /// The data is not what type and shape say.
    #[error("a tensor of type {dtype} and shape {shape:?} needs {expected} bytes, the data has {found}")]
    WrongSize { dtype: DType, shape: Vec<usize>, expected: usize, found: usize },
    /// A byte of a type narrower than eight bits has other bits set.
    #[error("element {index} of a tensor of type {dtype} is the byte {byte:#04x}, which is no {dtype}")]
    StrayBits { dtype: DType, index: usize, byte: u8 },
    /// Typed values whose Rust type does not hold elements of this dtype.
    #[error("elements of type {dtype} cannot be read as {wanted}")]
    NoConversion { dtype: DType, wanted: &'static str },
    /// A new shape with another number of elements.
    #[error("a tensor of shape {from:?} cannot take the shape {to:?}: the numbers of elements differ")]
    Reshape { from: Vec<usize>, to: Vec<usize> },
}

impl TensorError {
    /// Stable code, explained in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            TensorError::TooLarge { .. } => "E0010",
            TensorError::WrongSize { .. } => "E0011",
            TensorError::StrayBits { .. } => "E0012",
            TensorError::NoConversion { .. } => "E0013",
            TensorError::Reshape { .. } => "E0014",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            TensorError::TooLarge { .. } => "check the dimensions".to_owned(),
            TensorError::WrongSize { .. } => {
                "give exactly the elements of the shape, in C order, little endian".to_owned()
            }
            TensorError::StrayBits { dtype: DType::Bool, .. } => "write booleans as the bytes 0 and 1".to_owned(),
            TensorError::StrayBits { dtype, .. } => {
                format!("put each element in the low {} bits of its byte and leave the others 0", dtype.bits())
            }
            TensorError::NoConversion { .. } => "convert the tensor to a suitable element type first".to_owned(),
            TensorError::Reshape { .. } => "choose a shape with the same number of elements".to_owned(),
        })
    }
}

/// A `.npy` file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum NpyError {
    /// The operating system refused.
    #[error("{}: {source}", display(.path))]
    Io { path: Option<PathBuf>, source: std::io::Error },
    /// Not the `.npy` format, or a damaged header.
    #[error("{}: this is no .npy file: {reason}", display(.path))]
    Header { path: Option<PathBuf>, reason: String },
    /// A format version other than 1.0, 2.0 and 3.0.
    #[error("{}: .npy format version {major}.{minor} is unknown", display(.path))]
    Version { path: Option<PathBuf>, major: u8, minor: u8 },
    /// An element type without a counterpart.
    #[error("{}: the element type `{descr}` is not supported", display(.path))]
    ElementType { path: Option<PathBuf>, descr: String },
    /// Big-endian elements.
    #[error("{}: the elements `{descr}` are big-endian", display(.path))]
    BigEndian { path: Option<PathBuf>, descr: String },
    /// Column-major data.
    #[error("{}: the array is stored in Fortran order", display(.path))]
    FortranOrder { path: Option<PathBuf> },
    /// The data ends early, or goes on after the last element.
    #[error("{}: the header announces {expected} bytes of elements, {found}", display(.path))]
    DataSize { path: Option<PathBuf>, expected: usize, found: String },
    /// Elements of another width than asked for.
    #[error("{}: elements `{descr}` cannot carry the bits of {wanted}", display(.path))]
    Reinterpret { path: Option<PathBuf>, descr: String, wanted: DType },
    /// Header and data agree but make no tensor.
    #[error("{}: {source}", display(.path))]
    Tensor { path: Option<PathBuf>, source: TensorError },
}

fn display(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(|| "array".to_owned(), |path| path.display().to_string())
}

impl NpyError {
    /// Stable code, explained in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            NpyError::Io { .. } => "E0020",
            NpyError::Header { .. } => "E0021",
            NpyError::Version { .. } => "E0022",
            NpyError::ElementType { .. } => "E0023",
            NpyError::BigEndian { .. } => "E0024",
            NpyError::FortranOrder { .. } => "E0025",
            NpyError::DataSize { .. } => "E0026",
            NpyError::Reinterpret { .. } => "E0027",
            NpyError::Tensor { source, .. } => source.code(),
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            NpyError::Io { .. } => return None,
            NpyError::Header { .. } | NpyError::Version { .. } => {
                "write the file again with numpy.save(path, array)".to_owned()
            }
            NpyError::ElementType { .. } => {
                "convert to bool, an integer, a float or a complex type with array.astype(…)".to_owned()
            }
            NpyError::BigEndian { .. } => {
                "convert with array.astype(array.dtype.newbyteorder(\"<\")) before saving".to_owned()
            }
            NpyError::FortranOrder { .. } => "save numpy.ascontiguousarray(array)".to_owned(),
            NpyError::DataSize { .. } => "the file is damaged or holds several arrays: write it again".to_owned(),
            NpyError::Reinterpret { wanted, .. } => {
                format!("store {wanted} as its bits in unsigned integers of {} bits", wanted.size() * 8)
            }
            NpyError::Tensor { source, .. } => return source.help(),
        })
    }
}
