//! The parameters of a kernel as the driver takes them: one run of bytes, each parameter at the next multiple of its alignment
//! (CUDA driver API, `cuLaunchKernel`, `CU_LAUNCH_PARAM_BUFFER_POINTER`).

use tenon_runtime::device::KernelArgument;

use crate::ptx::Parameter;

/// Parameters in words, so that the first is aligned as on the device, and how many bytes of them count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) words: Vec<u64>,
    pub(crate) bytes: usize,
}

/// Lays out arguments as an entry declares its parameters; the error says how they differ.
pub(crate) fn pack(declared: &[Parameter], arguments: &[KernelArgument]) -> Result<Packed, String> {
    let contents: Vec<Vec<u8>> = arguments.iter().map(bytes_of).collect();
    let fits = declared.len() == contents.len()
        && declared.iter().zip(&contents).all(|(parameter, bytes)| parameter.size as usize == bytes.len());
    if !fits {
        let sizes = |list: Vec<usize>| {
            let list: Vec<_> = list.iter().map(ToString::to_string).collect();
            if list.is_empty() { "none".to_owned() } else { format!("{} bytes", list.join(", ")) }
        };
        let declared = sizes(declared.iter().map(|parameter| parameter.size as usize).collect());
        let given = sizes(contents.iter().map(Vec::len).collect());
        return Err(format!("its parameters are {declared}, the arguments are {given}"));
    }
    let mut bytes = Vec::new();
    for (parameter, content) in declared.iter().zip(contents) {
        bytes.resize(bytes.len().next_multiple_of(parameter.alignment as usize), 0);
        bytes.extend(content);
    }
    let count = bytes.len();
    bytes.resize(count.next_multiple_of(8), 0);
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    // Words of little-endian bytes have these bytes in memory on a little-endian host, and on another once swapped.
    let words = bytes.chunks(8).map(|chunk| word(chunk).to_le()).collect();
    Ok(Packed { words, bytes: count })
}

/// Little-endian, as devices are.
fn bytes_of(argument: &KernelArgument) -> Vec<u8> {
    match argument {
        KernelArgument::Pointer(pointer) => pointer.0.to_le_bytes().to_vec(),
        KernelArgument::I64(value) => value.to_le_bytes().to_vec(),
        KernelArgument::TensorMap(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tenon_runtime::device::DevicePointer;

    use super::*;

    fn parameter(size: u32, alignment: u32) -> Parameter {
        Parameter { size, alignment }
    }

    fn bytes(packed: &Packed) -> Vec<u8> {
        packed.words.iter().flat_map(|word| word.to_ne_bytes()).take(packed.bytes).collect()
    }

    #[test]
    fn pointers_and_numbers_follow_each_other() {
        let declared = [parameter(8, 8); 3];
        let pointer = |address| KernelArgument::Pointer(DevicePointer(address));
        let packed = pack(&declared, &[pointer(0x0102_0304_0506_0708), pointer(9), KernelArgument::I64(-2)]).unwrap();
        let expected = [[8, 7, 6, 5, 4, 3, 2, 1], [9, 0, 0, 0, 0, 0, 0, 0], [0xfe, 255, 255, 255, 255, 255, 255, 255]];
        assert_eq!(bytes(&packed), expected.concat());
        assert_eq!(pack(&[], &[]).unwrap(), Packed { words: vec![], bytes: 0 });
    }

    #[test]
    fn alignment_leaves_gaps() {
        let declared = [parameter(8, 8), parameter(128, 64), parameter(8, 8)];
        let map: [u64; 16] = std::array::from_fn(|index| index as u64 + 1);
        let arguments = [KernelArgument::I64(-1), KernelArgument::TensorMap(map), KernelArgument::I64(7)];
        let packed = pack(&declared, &arguments).unwrap();
        assert_eq!(packed.bytes, 64 + 128 + 8);
        assert_eq!(packed.words[..8], [u64::MAX.to_le(), 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(packed.words[8..24], map.map(u64::to_le));
        assert_eq!(packed.words[24..], [7u64.to_le()]);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let number = KernelArgument::I64(1);
        let error = pack(&[parameter(8, 8), parameter(4, 4)], &[number, number]).unwrap_err();
        assert_eq!(error, "its parameters are 8, 4 bytes, the arguments are 8, 8 bytes");
        let error = pack(&[parameter(8, 8)], &[]).unwrap_err();
        assert_eq!(error, "its parameters are 8 bytes, the arguments are none");
        assert!(pack(&[], &[number]).is_err());
    }
}
