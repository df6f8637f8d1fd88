//! Reading and writing `.npy` files.
//!
//! Read: NumPy format 1.0, 2.0 and 3.0, C order, little endian, `bool`, integers, `f2` to `f8`, `c8`, `c16`. Memory grows with the
//! data that is really there, whatever the header claims. Written: 1.0, or 2.0 when the header is longer than 64 KiB; a file
//! appears whole or not at all.
//!
//! Types that NumPy lacks are written as their bits in unsigned integers, and read back with [`read_npy_as`].

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::npy_header::{self, Header};
use crate::{DType, NpyError, NumberKind, Tensor, TensorError, byte_count};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Longest header read: far above any array of NumPy, whose ranks end at 64.
const MAX_HEADER: usize = 1 << 20;

/// Reads an array from a file that holds nothing else.
///
/// # Errors
/// The file cannot be read, is damaged, or holds what no tensor can be made of.
pub fn read_npy(path: impl AsRef<Path>) -> Result<Tensor, NpyError> {
    read_file(path.as_ref(), None)
}

/// Reads an array whose elements are the bits of `dtype`: unsigned integers of the same width (one byte each for narrower types),
/// or the type itself.
///
/// # Errors
/// As [`read_npy`]; elements of another type.
pub fn read_npy_as(path: impl AsRef<Path>, dtype: DType) -> Result<Tensor, NpyError> {
    read_file(path.as_ref(), Some(dtype))
}

/// Reads one array from a stream and leaves what follows it unread.
///
/// # Errors
/// As [`read_npy`].
pub fn read_npy_from(reader: &mut impl Read) -> Result<Tensor, NpyError> {
    read_array(reader, None).map_err(|fault| fault.at(None))
}

/// Writes a tensor to a file, replacing it as a whole.
///
/// # Errors
/// The file cannot be written; what was there before is then unchanged.
pub fn write_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<(), NpyError> {
    let path = path.as_ref();
    let write = || -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Cut by the umask, as for any new file; the default would be private to the user.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let mut file = builder.prefix(".npy-").tempfile_in(folder)?;
        let mut buffered = BufWriter::new(file.as_file_mut());
        write_npy_to(&mut buffered, tensor)?;
        buffered.flush()?;
        drop(buffered);
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|source| NpyError::Io { path: Some(path.to_owned()), source })
}

/// Writes a tensor to a stream.
///
/// # Errors
/// The stream fails.
pub fn write_npy_to(writer: &mut impl Write, tensor: &Tensor) -> io::Result<()> {
    let mut shape = tensor.shape().iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    if tensor.rank() == 1 {
        shape.push(',');
    }
    let header = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({shape}), }}", descr(tensor.dtype()));
    // Magic, version, length and header end on a multiple of 64, the last byte being a newline.
    let long = header.len() + 64 > usize::from(u16::MAX);
    let prefix = if long { 12 } else { 10 };
    let length = (prefix + header.len() + 1).next_multiple_of(64) - prefix;
    writer.write_all(MAGIC)?;
    if long {
        writer.write_all(&[2, 0])?;
        writer.write_all(&u32::try_from(length).map_err(io::Error::other)?.to_le_bytes())?;
    } else {
        writer.write_all(&[1, 0])?;
        writer.write_all(&u16::try_from(length).map_err(io::Error::other)?.to_le_bytes())?;
    }
    writer.write_all(header.as_bytes())?;
    writer.write_all(&vec![b' '; length - 1 - header.len()])?;
    writer.write_all(b"\n")?;
    writer.write_all(tensor.bytes())
}

/// NumPy's name of the element type that carries `dtype`.
fn descr(dtype: DType) -> String {
    let size = dtype.size();
    let letter = match dtype {
        DType::Bool => return "|b1".to_owned(),
        DType::F16 | DType::F32 | DType::F64 => 'f',
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => 'i',
        DType::Complex64 | DType::Complex128 => 'c',
        _ => 'u',
    };
    format!("{}{letter}{size}", if size == 1 { '|' } else { '<' })
}

/// A fault before the path is known.
enum Fault {
    Io(io::Error),
    Header(String),
    Version(u8, u8),
    ElementType(String),
    BigEndian(String),
    FortranOrder,
    DataSize(usize, String),
    Reinterpret(String, DType),
    Tensor(TensorError),
}

impl Fault {
    fn at(self, path: Option<PathBuf>) -> NpyError {
        match self {
            Fault::Io(source) => NpyError::Io { path, source },
            Fault::Header(reason) => NpyError::Header { path, reason },
            Fault::Version(major, minor) => NpyError::Version { path, major, minor },
            Fault::ElementType(descr) => NpyError::ElementType { path, descr },
            Fault::BigEndian(descr) => NpyError::BigEndian { path, descr },
            Fault::FortranOrder => NpyError::FortranOrder { path },
            Fault::DataSize(expected, found) => NpyError::DataSize { path, expected, found },
            Fault::Reinterpret(descr, wanted) => NpyError::Reinterpret { path, descr, wanted },
            Fault::Tensor(source) => NpyError::Tensor { path, source },
        }
    }
}

fn read_file(path: &Path, wanted: Option<DType>) -> Result<Tensor, NpyError> {
    let read = || {
        let mut reader = BufReader::new(File::open(path).map_err(Fault::Io)?);
        let tensor = read_array(&mut reader, wanted)?;
        if reader.read(&mut [0]).map_err(Fault::Io)? != 0 {
            return Err(Fault::DataSize(tensor.bytes().len(), "but more bytes follow".to_owned()));
        }
        Ok(tensor)
    };
    read().map_err(|fault: Fault| fault.at(Some(path.to_owned())))
}

fn read_array(reader: &mut impl Read, wanted: Option<DType>) -> Result<Tensor, Fault> {
    let Header { descr, fortran_order, shape } = read_header(reader)?;
    let stored = element_type(&descr)?;
    let dtype = match wanted {
        Some(wanted) if !carries(stored, wanted) => return Err(Fault::Reinterpret(descr, wanted)),
        Some(wanted) => wanted,
        None => stored,
    };
    if fortran_order {
        return Err(Fault::FortranOrder);
    }
    let Some(expected) = byte_count(dtype, &shape) else {
        return Err(Fault::Tensor(TensorError::TooLarge { dtype, shape }));
    };
    let mut data = Vec::new();
    reader.take(expected as u64).read_to_end(&mut data).map_err(Fault::Io)?;
    if data.len() != expected {
        return Err(Fault::DataSize(expected, format!("but only {} follow", data.len())));
    }
    Tensor::new(dtype, shape, data).map_err(Fault::Tensor)
}

fn read_header(reader: &mut impl Read) -> Result<Header, Fault> {
    let mut read = |buffer: &mut [u8], what: &str| {
        reader.read_exact(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Fault::Header(format!("it ends within {what}")),
            _ => Fault::Io(error),
        })
    };
    let mut start = [0; 8];
    read(&mut start, "the magic number")?;
    if &start[..6] != MAGIC {
        return Err(Fault::Header("the magic number is missing".to_owned()));
    }
    let (major, minor) = (start[6], start[7]);
    let length = match (major, minor) {
        (1, 0) => {
            let mut length = [0; 2];
            read(&mut length, "the header length")?;
            u32::from(u16::from_le_bytes(length))
        }
        (2 | 3, 0) => {
            let mut length = [0; 4];
            read(&mut length, "the header length")?;
            u32::from_le_bytes(length)
        }
        _ => return Err(Fault::Version(major, minor)),
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > MAX_HEADER {
        return Err(Fault::Header(format!("its header has {length} bytes; at most {MAX_HEADER} are read")));
    }
    let mut header = vec![0; length];
    read(&mut header, "the header")?;
    // Versions 1.0 and 2.0 say Latin-1, 3.0 says UTF-8; what is accepted is ASCII.
    let header = std::str::from_utf8(&header).map_err(|_| Fault::Header("its header is not ASCII".to_owned()))?;
    npy_header::parse(header).map_err(Fault::Header)
}

/// Whether stored elements can be taken as the bits of `wanted`.
fn carries(stored: DType, wanted: DType) -> bool {
    let bits = stored.kind() == NumberKind::UnsignedInteger && stored.size() == wanted.size();
    stored == wanted || (bits && wanted.kind() != NumberKind::Complex)
}

fn element_type(descr: &str) -> Result<DType, Fault> {
    let unknown = || Fault::ElementType(descr.to_owned());
    let mut characters = descr.chars();
    let order = characters.next().ok_or_else(unknown)?;
    let dtype = match characters.as_str() {
        "b1" => DType::Bool,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "c8" => DType::Complex64,
        "c16" => DType::Complex128,
        _ => return Err(unknown()),
    };
    match order {
        '<' => Ok(dtype),
        '|' | '>' | '=' if dtype.size() == 1 => Ok(dtype),
        '>' => Err(Fault::BigEndian(descr.to_owned())),
        _ => Err(unknown()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn bytes_of(tensor: &Tensor) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_npy_to(&mut bytes, tensor).unwrap();
        bytes
    }

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [MAGIC, &[1, 0][..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), data].concat()
    }

    #[test]
    fn every_type_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        for dtype in DType::all() {
            for shape in [vec![], vec![0, 3], vec![2, 3], vec![5]] {
                let count: usize = shape.iter().product();
                let data: Vec<u8> =
                    (0..count * dtype.size()).map(|i| if dtype.bits() < 8 { i as u8 & 1 } else { i as u8 }).collect();
                let tensor = Tensor::new(dtype, shape, data).unwrap();
                let path = folder.path().join("array.npy");
                write_npy(&path, &tensor).unwrap();
                assert_eq!(read_npy_as(&path, dtype).unwrap(), tensor);
                let plain = read_npy(&path).unwrap();
                assert_eq!((plain.shape(), plain.bytes()), (tensor.shape(), tensor.bytes()));
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file stays behind");
    }

    #[test]
    fn the_layout_is_numpys() {
        // As numpy.save wrote numpy.array([1, 2], dtype="<i2").
        let expected =
            file(&format!("{:117}\n", "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }"), &[1, 0, 2, 0]);
        assert_eq!(bytes_of(&Tensor::from_i16(vec![2], &[1, 2]).unwrap()), expected);
    }

    #[test]
    fn later_versions_are_read() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n";
        for major in [2, 3] {
            let bytes =
                [MAGIC, &[major, 0][..], &(header.len() as u32).to_le_bytes(), header.as_bytes(), &1f32.to_le_bytes()]
                    .concat();
            assert_eq!(read_npy_from(&mut &bytes[..]).unwrap().to_f32_vec().unwrap(), [1.0]);
        }
        let wide = Tensor::zeros(DType::U8, vec![1; 30000]).unwrap();
        assert_eq!(bytes_of(&wide)[6], 2);
        assert_eq!(read_npy_from(&mut &bytes_of(&wide)[..]).unwrap(), wide);
    }

    #[test]
    fn each_fault_has_its_code() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("array.npy");
        let code = |bytes: &[u8], wanted: DType| {
            std::fs::write(&path, bytes).unwrap();
            let error = read_npy_as(&path, wanted).unwrap_err();
            assert!(error.to_string().contains("array.npy"), "{error}");
            assert!(error.help().is_some());
            error.code()
        };
        let header = |descr: &str, order: &str, shape: &str| {
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n")
        };
        assert_eq!(code(b"\x93NUMPZ\x01\x00", DType::F32), "E0021");
        assert_eq!(code(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", DType::F32), "E0021");
        assert_eq!(code(b"\x93NUMPY\x04\x00", DType::F32), "E0022");
        assert_eq!(code(&file(&header("<U7", "False", "()"), &[]), DType::F32), "E0023");
        assert_eq!(
            code(&file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", &[]), DType::F32),
            "E0023"
        );
        assert_eq!(code(&file(&header(">f4", "False", "()"), &[0; 4]), DType::F32), "E0024");
        assert_eq!(code(&file(&header("<f4", "True", "(1, 1)"), &[0; 4]), DType::F32), "E0025");
        assert_eq!(code(&file(&header("<f4", "False", "(2,)"), &[0; 7]), DType::F32), "E0026");
        assert_eq!(code(&file(&header("<f4", "False", "(2,)"), &[0; 9]), DType::F32), "E0026");
        assert_eq!(code(&file(&header("<f4", "False", "(1152921504606846976,)"), &[0; 9]), DType::F32), "E0026");
        assert_eq!(code(&file(&header("<f4", "False", "(4611686018427387904,)"), &[0; 9]), DType::F32), "E0010");
        assert_eq!(code(&file(&header("<f4", "False", "()"), &[0; 4]), DType::BF16), "E0027");
        assert_eq!(code(&file(&header("|b1", "False", "()"), &[2]), DType::Bool), "E0012");
        assert_eq!(read_npy(folder.path().join("absent.npy")).unwrap_err().code(), "E0020");
        assert_eq!(
            write_npy(folder.path().join("no/folder.npy"), &Tensor::zeros(DType::U8, vec![]).unwrap())
                .unwrap_err()
                .code(),
            "E0020"
        );
    }

    #[test]
    fn no_truncation_or_flipped_bit_panics() {
        let bytes = bytes_of(&Tensor::from_f32(vec![2, 2], &[1.0, 2.0, 3.0, 4.0]).unwrap());
        for length in 0..bytes.len() {
            assert!(read_npy_from(&mut &bytes[..length]).is_err());
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let _ = read_npy_from(&mut &damaged[..]);
        }
    }
}
