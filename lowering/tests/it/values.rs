//! Values: every kernel run on the embedded device under several schedules, all checks on, against plain Rust.

use std::collections::HashMap;

use half::f16;
use proptest::prelude::*;
use tenon_layout::{MmaShape, ScanPlan, SharedLayout, Swizzle, TileLayout};
use tenon_tensor::DType;

use crate::kernels;
use crate::layouts::{self, Random};
use crate::support::{compile, run, run_grid};

/// Distinct bytes for each element: bools alternate unevenly.
fn pattern(element: DType, count: usize) -> Vec<u8> {
    let mut random = Random(7);
    let mut bytes = Vec::new();
    for _ in 0..count {
        match element {
            DType::Bool => bytes.push((random.next() & 1) as u8),
            DType::F16 => bytes.extend(f16::from_f32(random.below(1000) as f32 - 500.0).to_le_bytes()),
            DType::BF16 => bytes.extend(half::bf16::from_f32(random.below(128) as f32 - 64.0).to_le_bytes()),
            DType::F32 => bytes.extend((random.below(100_000) as f32 / 7.0 - 5000.0).to_le_bytes()),
            DType::F64 => bytes.extend((random.below(1 << 40) as f64 / 7.0 - 5000.0).to_le_bytes()),
            _ => bytes.extend(&random.next().to_le_bytes()[..element.size()]),
        }
    }
    bytes
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn as_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn as_ints(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn multiply_add() {
    for vector in [1, 4] {
        let compiled = compile(&kernels::multiply_add(vector));
        for extent in [0usize, 4, 1020, 1024, 3000] {
            let a: Vec<f32> = (0..extent).map(|i| i as f32 * 0.37 - 100.0).collect();
            let b: Vec<f32> = (0..extent).map(|i| 1.0 / (i as f32 + 1.0)).collect();
            let blocks = extent.div_ceil(1024).max(1) as u32;
            let out = run_grid(&compiled, blocks, &[floats(&a), floats(&b)], &[extent * 4], &[extent as i64]);
            let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a * b + a).collect();
            assert_eq!(as_floats(&out[0]), expected);
        }
    }
}

#[test]
fn copies_of_every_element() {
    use DType::*;
    for element in [Bool, I8, I16, I32, I64, F16, BF16, F32, F64] {
        for vector in [1, 16 / element.size() as u32] {
            let data = pattern(element, 512);
            let compiled = compile(&kernels::copy(element, vector));
            assert_eq!(run(&compiled, std::slice::from_ref(&data), &[data.len()], &[])[0], data, "{element} {vector}");
        }
    }
}

#[test]
fn uniform_loads_and_wide_offsets() {
    let compiled = compile(&kernels::uniform());
    assert_eq!(compiled.ptx.matches("ld.global").count(), 2, "one load for each run of four registers");
    let data = pattern(DType::F32, 128);
    let expected: Vec<f32> = (0..512).map(|i| as_floats(&data)[i / 4]).collect();
    assert_eq!(as_floats(&run(&compiled, &[data], &[2048], &[])[0]), expected);
}

/// Tiles through `scf.if` and a loop of scalars.
#[test]
fn control_flow_carries_tiles() {
    let text = "#l = #hw.layout<reg = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>
        module { hw.kernel @flow target \"sm_80\" warps 1 grid [2] { ^bb0(%p: !llvm.ptr<1>):
          %zero = arith.constant 0 : i32  %one = arith.constant 1 : i32  %four = arith.constant 4 : i32
          %block = hw.program_id 0
          %first = arith.cmpi eq, %block, %zero : i32
          %sum = scf.for %i = %zero to %four step %one iter_args(%s = %zero) -> (i32) : i32 {
            %t = arith.addi %s, %i : i32
            scf.yield %t : i32
          }
          %index = hw.iota 0 : <[64] x i32, #l>
          %tile = scf.if %first -> !hw.tile<[64] x i32, #l> {
            scf.yield %index : !hw.tile<[64] x i32, #l>
          } else {
            %s = hw.splat %sum : i32 -> <[64] x i32, #l>
            scf.yield %s : !hw.tile<[64] x i32, #l>
          }
          %size = arith.constant 64 : i32
          %start = arith.muli %block, %size : i32
          %offsets = hw.map(%index) : (!hw.tile<[64] x i32, #l>) -> !hw.tile<[64] x i32, #l> {
            ^bb0(%v: i32): %o = arith.addi %v, %start : i32  hw.yield %o : i32 }
          hw.store %tile, %p[%offsets] {contiguity = 2 : i64} : <[64] x i32, #l>, !llvm.ptr<1>, <[64] x i32, #l>
          hw.return } }";
    let out = as_ints(&run_grid(&compile(text), 2, &[], &[512], &[])[0]);
    let expected: Vec<i32> = (0..64).chain(std::iter::repeat_n(6, 64)).collect();
    assert_eq!(out, expected);
}

/// A tile of random layouts: shape, warps, element, seed.
fn tiles() -> impl Strategy<Value = (Vec<u32>, u32, DType, u64)> {
    let elements = prop::sample::select(vec![DType::Bool, DType::I8, DType::F16, DType::F32, DType::I64]);
    // Tiles of no dimension, and shared memory of one element, have no text.
    let bits = (1u32..5, prop::collection::vec(0u32..4, 1..3));
    (bits, 0u32..3, elements, any::<u64>()).prop_map(|((first, rest), warps, element, seed)| {
        let shape = std::iter::once(first).chain(rest).map(|bit| 1 << bit).collect();
        (shape, 1 << warps, element, seed)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn conversions((shape, warps, element, seed) in tiles()) {
        let mut random = Random(seed);
        let (source, target) = (layouts::tile(&shape, warps, &mut random), layouts::tile(&shape, warps, &mut random));
        let data = pattern(element, source.elements() as usize);
        let compiled = compile(&kernels::convert(element, &source, &target));
        prop_assert_eq!(&run(&compiled, std::slice::from_ref(&data), &[data.len()], &[])[0], &data);
    }

    #[test]
    fn local_memory((shape, warps, element, seed) in tiles()) {
        let mut random = Random(seed);
        let (source, target) = (layouts::tile(&shape, warps, &mut random), layouts::tile(&shape, warps, &mut random));
        let shared = layouts::shared(&shape, &mut random);
        let data = pattern(element, source.elements() as usize);
        let compiled = compile(&kernels::local(element, &source, &shared, &target));
        prop_assert_eq!(&run(&compiled, std::slice::from_ref(&data), &[data.len()], &[])[0], &data);
    }

    #[test]
    fn sums((shape, warps, _, seed) in tiles(), element in prop::sample::select(vec![DType::I16, DType::I32, DType::I64])) {
        let mut random = Random(seed);
        let layout = layouts::tile(&shape, warps, &mut random);
        let dimension = random.below(shape.len() as u64) as usize;
        let data = pattern(element, layout.elements() as usize);
        let value = |i: u32| {
            let size = element.size();
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(&data[i as usize * size..][..size]);
            u64::from_le_bytes(bytes)
        };
        let mut rest = shape.clone();
        rest.remove(dimension);
        let mut expected = vec![0u64; rest.iter().product::<u32>() as usize];
        for index in 0..layout.elements() {
            let mut at = layout.unflatten(index);
            at.remove(dimension);
            let place = at.iter().zip(&rest).fold(0, |place, (c, size)| place * size + c);
            expected[place as usize] = expected[place as usize].wrapping_add(value(index));
        }
        let expected: Vec<u8> = expected.iter().flat_map(|v| v.to_le_bytes()[..element.size()].to_vec()).collect();
        let compiled = compile(&kernels::sum(element, &layout, dimension));
        prop_assert_eq!(&run(&compiled, &[data], &[expected.len()], &[])[0], &expected);
    }

    /// Any layout that has a plan; most random ones have none.
    #[test]
    fn scans((shape, warps, _, seed) in tiles()) {
        let mut random = Random(seed);
        for _ in 0..200 {
            let layout = layouts::tile(&shape, warps, &mut random);
            let dimension = random.below(shape.len() as u64) as usize;
            if ScanPlan::new(&layout, dimension).is_ok() {
                check_scan(&layout, dimension);
                break;
            }
        }
    }
}

/// Maps composed from the left, in order: what a scan of `kernels::compose` gives.
fn composed(layout: &TileLayout, dimension: usize, a: &[i32], b: &[i32]) -> [Vec<i32>; 2] {
    let mut result = [a.to_vec(), b.to_vec()];
    for index in 0..layout.elements() {
        let mut at = layout.unflatten(index);
        if at[dimension] == 0 {
            continue;
        }
        at[dimension] -= 1;
        let (before, index) = (layout.flatten(&at) as usize, index as usize);
        result[1][index] = a[index].wrapping_mul(result[1][before]).wrapping_add(b[index]);
        result[0][index] = a[index].wrapping_mul(result[0][before]);
    }
    result
}

fn check_scan(layout: &TileLayout, dimension: usize) {
    let count = layout.elements() as usize;
    let (a, b) = (pattern(DType::I32, count), pattern(DType::I32, count + 5).split_off(20));
    let expected = composed(layout, dimension, &as_ints(&a), &as_ints(&b));
    let out = run(&compile(&kernels::compose(layout, dimension)), &[a, b], &[count * 4, count * 4], &[]);
    assert_eq!([as_ints(&out[0]), as_ints(&out[1])], expected, "{layout} along {dimension}");
}

#[test]
fn scans_over_registers_lanes_warps_and_rounds() {
    for (shape, dimension, run, warps) in [
        (&[1024][..], 0, 4, 4),
        (&[64], 0, 1, 1),
        (&[8], 0, 8, 2),
        (&[4, 256], 1, 2, 4),
        (&[64, 8], 0, 4, 2),
        (&[2, 64, 4], 1, 1, 8),
        (&[16, 2], 1, 2, 1),
        (&[1, 32], 0, 1, 1),
    ] {
        check_scan(&ScanPlan::layout_for(shape, dimension, run, warps).unwrap(), dimension);
    }
    // Warps along the dimension, and registers after them.
    let strided = TileLayout::blocked(&[32, 64], &[1, 4], &[32, 1], &[1, 4], &[0, 1]).unwrap();
    check_scan(&strided, 1);
}

#[test]
fn float_sums() {
    for element in [DType::F16, DType::F32, DType::F64] {
        let layout = TileLayout::contiguous(&[8, 64], &[1, 0], 4, 4).unwrap();
        // Whole numbers so small that every partial sum is exact.
        let (mut data, mut expected) = (Vec::new(), Vec::new());
        let bytes = |value: f64| match element {
            DType::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
            DType::F32 => (value as f32).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        };
        for row in 0..8 {
            let mut sum = 0.0;
            for column in 0..64 {
                let value = f64::from((row * 64 + column) % 23 - 11);
                data.extend(bytes(value));
                sum += value;
            }
            expected.extend(bytes(sum));
        }
        let compiled = compile(&kernels::sum(element, &layout, 1));
        assert_eq!(run(&compiled, &[data], &[expected.len()], &[])[0], expected, "{element}");
    }
}

#[test]
fn greatest_and_its_first_index() {
    let wide = TileLayout::contiguous(&[4, 256], &[1, 0], 4, 4).unwrap();
    let columns = TileLayout::contiguous(&[4, 256], &[0, 1], 1, 4).unwrap();
    for layout in [wide, columns] {
        let compiled = compile(&kernels::arg_max(&layout, 1));
        let mut random = Random(11);
        // Many ties.
        let data: Vec<f32> = (0..1024).map(|_| random.below(40) as f32).collect();
        let out = run(&compiled, &[floats(&data)], &[16, 16], &[]);
        for row in 0..4 {
            let values = &data[row * 256..][..256];
            let best = values.iter().copied().fold(f32::MIN, f32::max);
            let index = values.iter().position(|v| *v == best).unwrap();
            assert_eq!((as_floats(&out[0])[row], as_ints(&out[1])[row] as usize), (best, index));
        }
    }
}

#[test]
fn conversions_in_a_loop_reuse_their_memory() {
    let source = TileLayout::contiguous(&[32, 32], &[1, 0], 4, 4).unwrap();
    let target = TileLayout::contiguous(&[32, 32], &[0, 1], 4, 4).unwrap();
    let data = pattern(DType::I32, 1024);
    let compiled = compile(&kernels::convert_in_loop(&source, &target, 4));
    let expected: Vec<i32> = as_ints(&data).iter().map(|v| v.wrapping_add(1 + 2 + 3)).collect();
    assert_eq!(as_ints(&run(&compiled, &[data], &[4096], &[])[0]), expected);
}

#[test]
fn asynchronous_copies_and_their_fallback() {
    for (element, vector) in [(DType::F16, 8), (DType::F16, 1), (DType::F32, 1), (DType::F32, 4), (DType::I8, 8)] {
        let compiled = compile(&kernels::async_copy(element, vector));
        for extent in [1024usize, 512, 8, 0] {
            let extent = extent / vector as usize * vector as usize;
            let data = pattern(element, 1024);
            let mut expected = data.clone();
            expected[extent * element.size()..].fill(0);
            // Nothing beyond the extent may be read.
            let given = data[..extent * element.size()].to_vec();
            let out = run(&compiled, &[given], &[data.len()], &[extent as i64]);
            assert_eq!(out[0], expected, "{element} {vector} {extent}");
        }
    }
}

#[test]
fn matrix_loads() {
    let mma = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 };
    let source = TileLayout::contiguous(&[64, 64], &[1, 0], 8, 2).unwrap();
    let swizzle = Swizzle { vec: 8, per_phase: 1, max_phase: 8 };
    let data = pattern(DType::F16, 64 * 64);
    for target in [mma.operand_a([64, 64], [2, 1]).unwrap(), mma.operand_b([64, 64], [1, 2]).unwrap()] {
        for order in [[1, 0], [0, 1]] {
            let shared = SharedLayout::swizzled(&[64, 64], &order, swizzle).unwrap();
            let compiled = compile(&kernels::local(DType::F16, &source, &shared, &target));
            assert!(compiled.ptx.contains("ldmatrix"));
            assert_eq!(run(&compiled, std::slice::from_ref(&data), &[data.len()], &[])[0], data);
        }
    }
}

#[test]
fn softmax_of_rows() {
    let rows = TileLayout::contiguous(&[4, 128], &[1, 0], 4, 4).unwrap();
    let columns = TileLayout::contiguous(&[4, 128], &[0, 1], 2, 4).unwrap();
    for layout in [rows, columns] {
        let mut random = Random(13);
        let data: Vec<f32> = (0..512).map(|_| random.below(2000) as f32 / 100.0 - 10.0).collect();
        let out = as_floats(&run(&compile(&kernels::softmax(&layout)), &[floats(&data)], &[2048], &[])[0]);
        for (row, out) in data.chunks(128).zip(out.chunks(128)) {
            let max = f64::from(row.iter().copied().fold(f32::MIN, f32::max));
            let powers: Vec<f64> = row.iter().map(|x| (f64::from(*x) - max).exp()).collect();
            let sum: f64 = powers.iter().sum();
            for (value, power) in out.iter().zip(powers) {
                assert!((f64::from(*value) - power / sum).abs() <= 4e-6 * power / sum, "{value} {}", power / sum);
            }
        }
    }
}

/// The device computes the very bits that the host computes, whose error is measured elsewhere.
#[test]
fn elementary_functions_are_those_of_the_host() {
    let mut random = Random(17);
    let special =
        [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, -1e-40, 88.8, 3e38, 1e5, -7e30];
    for function in tenon_lowering::elementary::Elementary::all() {
        let inputs: Vec<Vec<f32>> = (0..function.arity)
            .map(|argument| {
                let moderate = |r: &mut Random| r.below(4000) as f32 / 100.0 - 20.0;
                (0..256)
                    .map(|i| match i % 3 {
                        _ if i < 169 && function.arity == 2 => special[if argument == 0 { i / 13 } else { i % 13 }],
                        _ if i < special.len() => special[i],
                        0 => f32::from_bits(random.next() as u32),
                        1 => random.below(2000) as f32 / 1000.0 - 1.0,
                        _ => moderate(&mut random),
                    })
                    .collect()
            })
            .collect();
        let compiled = compile(&kernels::elementary(function.operation, function.arity, DType::F32));
        assert!(!compiled.ptx.contains("__nv") && !compiled.ptx.contains("approx"), "{}", function.operation);
        let bytes: Vec<_> = inputs.iter().map(|input| floats(input)).collect();
        let out = as_floats(&run(&compiled, &bytes, &[1024], &[])[0]);
        for (i, value) in out.into_iter().enumerate() {
            let arguments: Vec<f32> = inputs.iter().map(|input| input[i]).collect();
            let expected = function.evaluate(&arguments);
            let alike = value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan();
            assert!(alike, "{}{arguments:?}: {value:e} on the device, {expected:e} on the host", function.operation);
        }
    }
}

#[test]
fn elementary_functions_of_f64_are_those_of_the_host() {
    let mut random = Random(19);
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        5e-324,
        -1e-310,
        709.9,
        -745.2,
        1e300,
        -7e22,
    ];
    for function in tenon_lowering::elementary::Elementary::all() {
        let inputs: Vec<Vec<f64>> = (0..function.arity)
            .map(|argument| {
                (0..256)
                    .map(|i| match i % 4 {
                        _ if i < 169 && function.arity == 2 => special[if argument == 0 { i / 13 } else { i % 13 }],
                        _ if i < special.len() => special[i],
                        0 => f64::from_bits(random.next()),
                        1 => random.below(2000) as f64 / 1000.0 - 1.0,
                        2 => (random.below(4000) as f64 - 2000.0) * 1e9,
                        _ => random.below(4000) as f64 / 100.0 - 20.0,
                    })
                    .collect()
            })
            .collect();
        let compiled = compile(&kernels::elementary(function.operation, function.arity, DType::F64));
        assert!(!compiled.ptx.contains("__nv") && !compiled.ptx.contains("approx"), "{}", function.operation);
        let bytes: Vec<Vec<u8>> =
            inputs.iter().map(|input| input.iter().flat_map(|x| x.to_le_bytes()).collect()).collect();
        let out = run(&compiled, &bytes, &[2048], &[]);
        for (i, value) in out[0].chunks(8).enumerate() {
            let value = f64::from_le_bytes(value.try_into().unwrap());
            let arguments: Vec<f64> = inputs.iter().map(|input| input[i]).collect();
            let expected = function.evaluate_f64(&arguments);
            let alike = value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan();
            assert!(alike, "{}{arguments:?}: {value:e} on the device, {expected:e} on the host", function.operation);
        }
    }
}

#[test]
fn elementary_functions_of_half_floats_are_rounded_once() {
    let data: Vec<f16> = (0..256).map(|i| f16::from_f32(i as f32 / 32.0 - 4.0)).collect();
    let bytes: Vec<u8> = data.iter().flat_map(|v| v.to_le_bytes()).collect();
    let out = run(&compile(&kernels::elementary("math.exp", 1, DType::F16)), &[bytes], &[512], &[]);
    let exp = tenon_lowering::elementary::Elementary::of("math.exp").unwrap();
    for (value, x) in out[0].chunks(2).zip(data) {
        let expected = f16::from_f32(exp.evaluate(&[x.to_f32()]));
        assert_eq!(f16::from_le_bytes([value[0], value[1]]), expected);
    }
}

/// Every instruction of sm_80 with the common fragments, on small whole numbers.
#[test]
fn every_matrix_instruction() {
    use tenon_target::{Architecture, Emission, FragmentScheme, Instructions};
    let architecture = Architecture::find("sm_80").unwrap();
    let mut count = 0;
    for row in Instructions::table().matrix_instructions() {
        let emitted = matches!(&row.emission, Emission::Nvvm(name) if name == "nvvm.mma.sync");
        let bytes = row.a.bits() >= 8;
        let available = row.requirements().check(architecture).is_ok();
        if row.fragments != FragmentScheme::Mma || !emitted || !bytes || !available {
            continue;
        }
        count += 1;
        let (m, n, k) = (2 * row.m as usize, 4 * row.n as usize, 2 * row.k as usize);
        let mut random = Random(row.k.into());
        // Beyond 127 for bytes without a sign.
        let mut whole = |element: DType| match element {
            DType::U8 => random.below(256) as i64,
            DType::I8 => random.below(256) as i64 - 128,
            _ => random.below(9) as i64 - 4,
        };
        let a: Vec<i64> = (0..m * k).map(|_| whole(row.a)).collect();
        let b: Vec<i64> = (0..k * n).map(|_| whole(row.b)).collect();
        let bytes = |values: &[i64], element: DType| -> Vec<u8> {
            let one = |v: &i64| match element {
                DType::F16 => f16::from_f64(*v as f64).to_le_bytes().to_vec(),
                DType::BF16 => half::bf16::from_f64(*v as f64).to_le_bytes().to_vec(),
                DType::F32 => (*v as f32).to_le_bytes().to_vec(),
                DType::F64 => (*v as f64).to_le_bytes().to_vec(),
                DType::I32 => (*v as i32).to_le_bytes().to_vec(),
                _ => vec![*v as u8],
            };
            values.iter().flat_map(one).collect()
        };
        let mut expected = vec![0i64; m * n];
        for (at, sum) in expected.iter_mut().enumerate() {
            *sum = (0..k).map(|i| a[at / n * k + i] * b[i * n + at % n]).sum();
        }
        let compiled = compile(&kernels::matrix_instruction(row));
        let expected = bytes(&expected, row.c);
        let out = run(&compiled, &[bytes(&a, row.a), bytes(&b, row.b)], &[expected.len()], &[]);
        assert_eq!(out[0], expected, "{}", row.name);
    }
    assert!(count >= 10, "{count} instructions were tried");
}

#[test]
fn transposition_and_broadcast() {
    let compiled = compile(&kernels::transpose_bias());
    let tile: Vec<f32> = (0..512).map(|i| i as f32).collect();
    let bias: Vec<f32> = (0..32).map(|i| i as f32 * 1000.0).collect();
    let out = as_floats(&run(&compiled, &[floats(&tile), floats(&bias)], &[2048], &[])[0]);
    for i in 0..16 {
        for j in 0..32 {
            assert_eq!(out[i * 32 + j], tile[j * 16 + i] + bias[j]);
        }
    }
}

#[test]
fn products_on_cuda_cores() {
    let mut random = Random(5);
    let a: Vec<f32> = (0..32 * 64).map(|_| random.below(2000) as f32 / 1000.0 - 1.0).collect();
    let b: Vec<f32> = (0..64 * 32).map(|_| random.below(2000) as f32 / 1000.0 - 1.0).collect();
    let out = run(&compile(&kernels::matmul_fma(DType::F32)), &[floats(&a), floats(&b)], &[4096], &[]);
    let mut expected = vec![0f32; 1024];
    for (i, e) in expected.iter_mut().enumerate() {
        for k in 0..64 {
            *e = a[i / 32 * 64 + k].mul_add(b[k * 32 + i % 32], *e);
        }
    }
    assert_eq!(as_floats(&out[0]), expected, "the sum is taken in order of k, fused");

    let a = pattern(DType::I32, 2048);
    let b: Vec<u8> = pattern(DType::I32, 2100).split_off(208);
    let out = run(&compile(&kernels::matmul_fma(DType::I32)), &[a.clone(), b.clone()], &[4096], &[]);
    let (a, b) = (as_ints(&a), as_ints(&b));
    for (i, value) in as_ints(&out[0]).into_iter().enumerate() {
        let sum = (0..64).fold(0i32, |sum, k| sum.wrapping_add(a[i / 32 * 64 + k].wrapping_mul(b[k * 32 + i % 32])));
        assert_eq!(value, sum);
    }
}

#[test]
fn products_by_matrix_instructions() {
    let mut random = Random(9);
    // Small multiples of 1/8: every product and sum is exact.
    let mut operand =
        |count: usize| -> Vec<f16> { (0..count).map(|_| f16::from_f32(random.below(9) as f32 / 8.0 - 0.5)).collect() };
    let (a, b) = (operand(64 * 128), operand(128 * 64));
    let bytes = |values: &[f16]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let mut expected = HashMap::new();
    for i in 0..64 {
        for j in 0..64 {
            let sum: f32 = (0..128).map(|k| a[i * 128 + k].to_f32() * b[k * 64 + j].to_f32()).sum();
            expected.insert((i, j), sum);
        }
    }
    let out = run(&compile(&kernels::matmul_mma(DType::F32)), &[bytes(&a), bytes(&b)], &[64 * 64 * 4], &[]);
    for (index, value) in as_floats(&out[0]).into_iter().enumerate() {
        assert_eq!(value, expected[&(index / 64, index % 64)]);
    }
    let out = run(&compile(&kernels::matmul_mma(DType::F16)), &[bytes(&a), bytes(&b)], &[64 * 64 * 2], &[]);
    for (index, value) in out[0].chunks(2).enumerate() {
        let value = f16::from_le_bytes([value[0], value[1]]).to_f32();
        // Partial sums are multiples of 1/64 below 32: exact in f16 too.
        assert_eq!(value, expected[&(index / 64, index % 64)]);
    }
}
