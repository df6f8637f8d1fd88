//! Tile programs that the tests take down. Each computes what its test computes again in plain Rust.

use tenon_hw_dialect::{Access, FloatPredicate, IntegerPredicate, Shared, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_layout::{MmaShape, SharedLayout, Swizzle, TileLayout};
use tenon_tensor::DType;

use crate::support::kernel;

/// Row-major index of each element of the tile, i32.
pub fn indices<'m>(t: TileBuilder<'m>, layout: &TileLayout) -> Tile<'m> {
    let coordinates: Vec<_> = (0..layout.rank()).map(|dim| t.iota(dim, layout).unwrap()).collect();
    let shape = layout.shape().to_vec();
    t.map1(&coordinates.iter().collect::<Vec<_>>(), layout, DType::I32, |s, values| {
        let mut index = s.i32(0)?;
        for (value, size) in values.iter().zip(&shape) {
            index = s.add(s.scale(index, *size as i32)?, *value)?;
        }
        Ok(index)
    })
    .unwrap()
}

/// `program_id(0) * size + iota`, i32.
pub fn flat_offsets<'m>(t: TileBuilder<'m>, layout: &TileLayout) -> Tile<'m> {
    let size = layout.elements() as i32;
    let start = t.scalar().scale(t.program_id(0).unwrap(), size).unwrap();
    let index = indices(t, layout);
    t.map1(&[&index], layout, DType::I32, |s, v| Ok(s.add(v[0], start)?)).unwrap()
}

/// Whether each offset is below an i64 extent.
pub fn below<'m>(t: TileBuilder<'m>, offsets: &Tile<'m>, extent: Value<'m>) -> Tile<'m> {
    let layout = offsets.ty.layout.clone();
    t.map1(&[offsets], &layout, DType::Bool, |s, v| {
        let wide = s.convert("arith.extsi", v[0], DType::I64)?;
        Ok(s.compare_int(IntegerPredicate::SignedLess, wide, extent)?)
    })
    .unwrap()
}

fn load<'m>(t: TileBuilder<'m>, pointer: Value<'m>, layout: &TileLayout, element: DType) -> Tile<'m> {
    t.load(pointer, &indices(t, layout), None, element, Access::default()).unwrap()
}

fn store<'m>(t: TileBuilder<'m>, pointer: Value<'m>, tile: &Tile<'m>) {
    t.store(pointer, &indices(t, &tile.ty.layout), tile, None, 1).unwrap();
}

/// `out = a * b + a`, f32, over blocks of 1024 below an extent; vectors of `vector`.
pub fn multiply_add(vector: u32) -> String {
    kernel("multiply_add", 4, 3, 1, |t, arguments| {
        let layout = TileLayout::contiguous(&[1024], &[0], vector, 4).unwrap();
        let offsets = flat_offsets(t, &layout);
        let mask = below(t, &offsets, arguments[3]);
        let other = t.scalar().float(0.0, DType::F32).unwrap();
        let access = Access { contiguity: vector, uniform: 1 };
        let a = t.load(arguments[0], &offsets, Some((&mask, other)), DType::F32, access).unwrap();
        let b = t.load(arguments[1], &offsets, Some((&mask, other)), DType::F32, access).unwrap();
        let sum = t
            .map1(&[&a, &b], &layout, DType::F32, |s, v| {
                let product = s.op("arith.mulf", &[v[0], v[1]])?;
                Ok(s.op("arith.addf", &[product, v[0]])?)
            })
            .unwrap();
        t.store(arguments[2], &offsets, &sum, Some(&mask), vector).unwrap();
    })
}

/// `out = in` of any element type, vectors of `vector`, over one block of 512.
pub fn copy(element: DType, vector: u32) -> String {
    kernel("copy", 2, 2, 0, |t, arguments| {
        let layout = TileLayout::contiguous(&[512], &[0], vector, 2).unwrap();
        let offsets = indices(t, &layout);
        let tile = t.load(arguments[0], &offsets, None, element, Access { contiguity: vector, uniform: 1 }).unwrap();
        t.store(arguments[1], &offsets, &tile, None, vector).unwrap();
    })
}

/// `out[i]` is the sum of `in[block, i]` over `blocks` blocks of 128, f32: each copies its part to a workspace, and the last one to arrive at the counter adds
/// them in the order of the blocks.
pub fn arrive(blocks: u32) -> String {
    kernel("arrive", 2, 4, 0, |t, arguments| {
        let &[input, output, partial, counters] = arguments else { panic!("four pointers") };
        let layout = TileLayout::contiguous(&[128], &[0], 1, 2).unwrap();
        let offsets = flat_offsets(t, &layout);
        let part = t.load(input, &offsets, None, DType::F32, Access::default()).unwrap();
        t.store(partial, &offsets, &part, None, 1).unwrap();
        let s = t.scalar();
        let (zero, count) = (s.i32(0).unwrap(), s.i32(blocks as i32).unwrap());
        let before = t.arrive(counters, zero, count).unwrap();
        let last = s.i32(blocks as i32 - 1).unwrap();
        let is_last = s.compare_int(IntegerPredicate::Equal, before, last).unwrap();
        t.when(is_last, |t| {
            // Each element is read by another warp than the one that wrote it.
            let layout = TileLayout::contiguous(&[128], &[0], 2, 2)?;
            let zero = t.splat(t.scalar().float(0.0, DType::F32)?, DType::F32, &layout)?;
            let (lower, upper, step) = (t.scalar().i32(0)?, t.scalar().i32(blocks as i32)?, t.scalar().i32(1)?);
            let sum = t.for_loop(lower, upper, step, &[zero], |t, block, carried| {
                let start = t.scalar().scale(block, 128)?;
                let index = t.iota(0, &layout)?;
                let offsets = t.map1(&[&index], &layout, DType::I32, |s, v| Ok(s.add(v[0], start)?))?;
                let part = t.load(partial, &offsets, None, DType::F32, Access::default())?;
                Ok(vec![t.map1(&[&carried[0], &part], &layout, DType::F32, |s, v| Ok(s.op("arith.addf", v)?))?])
            })?;
            t.store(output, &t.iota(0, &layout)?, &sum[0], None, 1)
        })
        .unwrap();
    })
}

/// `out[i] = in[i / 4]`: four registers in a row load one element; offsets are i64.
pub fn uniform() -> String {
    kernel("uniform", 2, 2, 0, |t, arguments| {
        let layout = TileLayout::contiguous(&[512], &[0], 4, 2).unwrap();
        let index = t.iota(0, &layout).unwrap();
        let offsets = t
            .map1(&[&index], &layout, DType::I64, |s, v| {
                let quarter = s.op("arith.shrui", &[v[0], s.i32(2)?])?;
                Ok(s.convert("arith.extsi", quarter, DType::I64)?)
            })
            .unwrap();
        let tile = t.load(arguments[0], &offsets, None, DType::F32, Access { contiguity: 1, uniform: 4 }).unwrap();
        t.store(arguments[1], &index, &tile, None, 4).unwrap();
    })
}

/// Loads one layout, converts, stores another.
pub fn convert(element: DType, source: &TileLayout, target: &TileLayout) -> String {
    kernel("convert", source.warps(), 2, 0, |t, arguments| {
        let tile = load(t, arguments[0], source, element);
        let converted = t.convert_layout(&tile, target).unwrap();
        store(t, arguments[1], &converted);
    })
}

/// Two conversions in a row in a loop: the exchange area is reused.
pub fn convert_in_loop(source: &TileLayout, target: &TileLayout, turns: i32) -> String {
    kernel("convert_in_loop", source.warps(), 2, 0, |t, arguments| {
        let tile = load(t, arguments[0], source, DType::I32);
        let s = t.scalar();
        let (lower, upper, step) = (s.i32(0).unwrap(), s.i32(turns).unwrap(), s.i32(1).unwrap());
        let tiles = t
            .for_loop(lower, upper, step, &[tile], |t, turn, tiles| {
                let there = t.convert_layout(&tiles[0], target)?;
                let more = t.map1(&[&there], target, DType::I32, |s, v| Ok(s.add(v[0], turn)?))?;
                Ok(vec![t.convert_layout(&more, source)?])
            })
            .unwrap();
        store(t, arguments[1], &tiles[0]);
    })
}

/// Through shared memory: stored in one layout to slot 1 of 2, loaded in another.
pub fn local(element: DType, source: &TileLayout, shared: &SharedLayout, target: &TileLayout) -> String {
    kernel("local", source.warps(), 2, 0, |t, arguments| {
        let tile = load(t, arguments[0], source, element);
        let memory = t.alloc(2, element, shared.clone()).unwrap();
        let slot = t.scalar().i32(1).unwrap();
        t.local_store(&tile, &memory, slot).unwrap();
        t.barrier().unwrap();
        let loaded = t.local_load(&memory, slot, target).unwrap();
        store(t, arguments[1], &loaded);
    })
}

/// Asynchronous copy under a mask (index below the extent), then to the output.
pub fn async_copy(element: DType, vector: u32) -> String {
    kernel("async_copy", 2, 2, 1, |t, arguments| {
        let layout = TileLayout::contiguous(&[16, 64], &[1, 0], vector, 2).unwrap();
        let swizzle = Swizzle { vec: 8, per_phase: 1, max_phase: 8 };
        let memory = t.alloc(1, element, SharedLayout::swizzled(&[16, 64], &[1, 0], swizzle).unwrap()).unwrap();
        let slot = t.scalar().i32(0).unwrap();
        let offsets = indices(t, &layout);
        let mask = below(t, &offsets, arguments[2]);
        t.async_copy(arguments[0], &offsets, Some(&mask), &memory, slot, vector).unwrap();
        t.async_commit().unwrap();
        t.async_wait(0).unwrap();
        t.barrier().unwrap();
        let target = TileLayout::contiguous(&[16, 64], &[0, 1], 1, 2).unwrap();
        let loaded = t.local_load(&memory, slot, &target).unwrap();
        store(t, arguments[1], &loaded);
    })
}

/// Sum along a dimension.
pub fn sum(element: DType, layout: &TileLayout, dimension: usize) -> String {
    let add = if element.is_float() { "arith.addf" } else { "arith.addi" };
    kernel("sum", layout.warps(), 2, 0, |t, arguments| {
        let tile = load(t, arguments[0], layout, element);
        let sums = t.reduce(dimension, &[&tile], |s, a, b| Ok(vec![s.op(add, &[a[0], b[0]])?])).unwrap();
        store(t, arguments[1], &sums[0]);
    })
}

/// Greatest value along a dimension and its first index: a reduction of two inputs that does not commute.
pub fn arg_max(layout: &TileLayout, dimension: usize) -> String {
    kernel("arg_max", layout.warps(), 3, 0, |t, arguments| {
        let tile = load(t, arguments[0], layout, DType::F32);
        let index = t.iota(dimension, layout).unwrap();
        let best = t
            .reduce(dimension, &[&tile, &index], |s, a, b| {
                let greater = s.compare_float(FloatPredicate::OrderedGreater, a[0], b[0])?;
                let equal = s.compare_float(FloatPredicate::OrderedEqual, a[0], b[0])?;
                let earlier = s.compare_int(IntegerPredicate::SignedLess, a[1], b[1])?;
                let tie = s.op("arith.andi", &[equal, earlier])?;
                let left = s.op("arith.ori", &[greater, tie])?;
                Ok(vec![s.select(left, a[0], b[0])?, s.select(left, a[1], b[1])?])
            })
            .unwrap();
        store(t, arguments[1], &best[0]);
        store(t, arguments[2], &best[1]);
    })
}

/// Composition of the maps x → a·x + b along a dimension: a scan of two inputs that does not commute.
pub fn compose(layout: &TileLayout, dimension: usize) -> String {
    kernel("compose", layout.warps(), 4, 0, |t, arguments| {
        let inputs = [load(t, arguments[0], layout, DType::I32), load(t, arguments[1], layout, DType::I32)];
        let composed = t
            .scan(dimension, &[&inputs[0], &inputs[1]], |s, before, new| {
                let moved = s.mul(new[0], before[1])?;
                Ok(vec![s.mul(new[0], before[0])?, s.add(moved, new[1])?])
            })
            .unwrap();
        store(t, arguments[2], &composed[0]);
        store(t, arguments[3], &composed[1]);
    })
}

/// `out[i, j] = in[j, i] + bias[j]`: transposition and broadcast.
pub fn transpose_bias() -> String {
    kernel("transpose_bias", 2, 3, 0, |t, arguments| {
        let layout = TileLayout::blocked(&[32, 16], &[2, 2], &[4, 8], &[2, 1], &[1, 0]).unwrap();
        let tile = load(t, arguments[0], &layout, DType::F32);
        let ty = layout.transpose(&[1, 0]).unwrap();
        let context = t.builder().context();
        let hw = tenon_hw_dialect::TileType::new(DType::F32, ty.clone());
        let value = t
            .builder()
            .op("hw.transpose")
            .operands(&[tile.value])
            .attribute("permutation", context.i64_array(&[1, 0]))
            .results(&[hw.to_type(context).unwrap()])
            .value()
            .unwrap();
        let transposed = Tile { value, ty: hw };
        let line = tenon_hw_dialect::line_layout(&ty, 1).unwrap();
        let bias = load(t, arguments[1], &line, DType::F32);
        let bias = t.spread(&bias, 1, &ty).unwrap();
        let sum =
            t.map1(&[&transposed, &bias], &ty, DType::F32, |s, v| Ok(s.op("arith.addf", &[v[0], v[1]])?)).unwrap();
        store(t, arguments[2], &sum);
    })
}

/// Row softmax of a tile, f32.
pub fn softmax(layout: &TileLayout) -> String {
    kernel("softmax", layout.warps(), 2, 0, |t, arguments| {
        let tile = load(t, arguments[0], layout, DType::F32);
        let max = t.reduce(1, &[&tile], |s, a, b| Ok(vec![s.op("arith.maximumf", &[a[0], b[0]])?])).unwrap().remove(0);
        let max = t.broadcast(&t.expand_dims(&max, 1).unwrap(), layout).unwrap();
        let powers = t
            .map1(&[&tile, &max], layout, DType::F32, |s, v| {
                let difference = s.op("arith.subf", &[v[0], v[1]])?;
                Ok(s.op("math.exp", &[difference])?)
            })
            .unwrap();
        let sum = t.reduce(1, &[&powers], |s, a, b| Ok(vec![s.op("arith.addf", &[a[0], b[0]])?])).unwrap().remove(0);
        let sum = t.broadcast(&t.expand_dims(&sum, 1).unwrap(), layout).unwrap();
        let result =
            t.map1(&[&powers, &sum], layout, DType::F32, |s, v| Ok(s.op("arith.divf", &[v[0], v[1]])?)).unwrap();
        store(t, arguments[1], &result);
    })
}

/// A function of one or two arguments, applied to 256 elements.
pub fn elementary(operation: &str, arity: usize, element: DType) -> String {
    kernel("elementary", 2, arity + 1, 0, |t, arguments| {
        let layout = TileLayout::contiguous(&[256], &[0], 1, 2).unwrap();
        let tiles: Vec<_> = (0..arity).map(|i| load(t, arguments[i], &layout, element)).collect();
        let inputs: Vec<_> = tiles.iter().collect();
        let result = t.map1(&inputs, &layout, element, |s, v| Ok(s.op(operation, v)?)).unwrap();
        store(t, arguments[arity], &result);
    })
}

/// `c = a · b` by one kind of instruction, operands loaded where they are wanted: two of them along m and k, four along n.
pub fn matrix_instruction(row: &tenon_target::MatrixInstruction) -> String {
    // Tiles are signless.
    let element = |element: DType| if element == DType::U8 { DType::I8 } else { element };
    kernel("matrix_instruction", 2, 3, 0, |t, arguments| {
        let shape = MmaShape { m: row.m, n: row.n, k: row.k, element_bits: row.a.bits() };
        let (m, n, k) = (2 * row.m, 4 * row.n, 2 * row.k);
        let a = load(t, arguments[0], &shape.operand_a([m, k], [1, 2]).unwrap(), element(row.a));
        let b = load(t, arguments[1], &shape.operand_b([k, n], [1, 2]).unwrap(), element(row.b));
        let zero = t.zeros(element(row.c), &shape.accumulator([m, n], [1, 2]).unwrap()).unwrap();
        let c = t.mma(&row.name, &a, &b, &zero).unwrap();
        store(t, arguments[2], &c);
    })
}

/// `c = a · b` on CUDA cores: `[32, 64] · [64, 32]`, `k` in steps of 16 through shared memory.
pub fn matmul_fma(element: DType) -> String {
    const STEP: u32 = 16;
    kernel("matmul_fma", 2, 3, 0, |t, arguments| {
        let layout = TileLayout::blocked(&[32, 32], &[4, 4], &[4, 8], &[2, 1], &[1, 0]).unwrap();
        let a_layout = layout.dot_operand_a(STEP).unwrap();
        let b_layout = layout.dot_operand_b(STEP).unwrap();
        let zero = t.zeros(element, &layout).unwrap();
        let s = t.scalar();
        let (lower, upper, step) = (s.i32(0).unwrap(), s.i32(64).unwrap(), s.i32(STEP as i32).unwrap());
        let slot = s.i32(0).unwrap();
        let a_shared = t.alloc(1, element, SharedLayout::row_major(&[32, STEP], &[1, 0]).unwrap()).unwrap();
        let b_shared = t.alloc(1, element, SharedLayout::row_major(&[STEP, 32], &[1, 0]).unwrap()).unwrap();
        let sums = t
            .for_loop(lower, upper, step, &[zero], |t, k, sums| {
                let a_global = TileLayout::contiguous(&[32, STEP], &[1, 0], 4, 2)?;
                let b_global = TileLayout::contiguous(&[STEP, 32], &[1, 0], 4, 2)?;
                let (row, column) = (t.iota(0, &a_global)?, t.iota(1, &a_global)?);
                let offsets = t.map1(&[&row, &column], &a_global, DType::I32, |s, v| {
                    Ok(s.add(s.add(s.scale(v[0], 64)?, v[1])?, k)?)
                })?;
                let a = t.load(arguments[0], &offsets, None, element, Access { contiguity: 4, uniform: 1 })?;
                let (row, column) = (t.iota(0, &b_global)?, t.iota(1, &b_global)?);
                let offsets = t.map1(&[&row, &column], &b_global, DType::I32, |s, v| {
                    Ok(s.add(s.scale(s.add(v[0], k)?, 32)?, v[1])?)
                })?;
                let b = t.load(arguments[1], &offsets, None, element, Access { contiguity: 4, uniform: 1 })?;
                t.barrier()?;
                t.local_store(&a, &a_shared, slot)?;
                t.local_store(&b, &b_shared, slot)?;
                t.barrier()?;
                let a = t.local_load(&a_shared, slot, &a_layout)?;
                let b = t.local_load(&b_shared, slot, &b_layout)?;
                Ok(vec![t.mma("fma", &a, &b, &sums[0])?])
            })
            .unwrap();
        store(t, arguments[2], &sums[0]);
    })
}

/// `c = a · b` by f16 matrix instructions: `[64, 128] · [128, 64]`, `k` in steps of 32, three stages of asynchronous copies.
pub fn matmul_mma(accumulator: DType) -> String {
    const STEP: u32 = 32;
    const STAGES: u32 = 3;
    let name = if accumulator == DType::F32 { "mma.m16n8k16.f32.f16.f16.f32" } else { "mma.m16n8k16.f16.f16.f16.f16" };
    kernel("matmul_mma", 4, 3, 0, |t, arguments| {
        let mma = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 };
        let layout = mma.accumulator([64, 64], [2, 2]).unwrap();
        let a_layout = mma.operand_a([64, STEP], [2, 2]).unwrap();
        let b_layout = mma.operand_b([STEP, 64], [2, 2]).unwrap();
        let a_global = TileLayout::contiguous(&[64, STEP], &[1, 0], 8, 4).unwrap();
        let b_global = TileLayout::contiguous(&[STEP, 64], &[1, 0], 8, 4).unwrap();
        let a_swizzle = Swizzle { vec: 8, per_phase: 2, max_phase: 4 };
        let b_swizzle = Swizzle { vec: 8, per_phase: 1, max_phase: 8 };
        let a_shared = SharedLayout::swizzled(&[64, STEP], &[1, 0], a_swizzle).unwrap();
        let b_shared = SharedLayout::swizzled(&[STEP, 64], &[1, 0], b_swizzle).unwrap();
        let a_shared = t.alloc(STAGES, DType::F16, a_shared).unwrap();
        let b_shared = t.alloc(STAGES, DType::F16, b_shared).unwrap();
        let s = t.scalar();

        let fetch = |t: TileBuilder<'_>, k, slot, a_shared: &Shared<'_>, b_shared: &Shared<'_>| {
            stage(t, arguments, k, slot, [&a_global, &b_global], [a_shared, b_shared])
        };
        for stage in 0..STAGES - 1 {
            let (k, slot) = (s.i32((stage * STEP) as i32).unwrap(), s.i32(stage as i32).unwrap());
            fetch(t, k, slot, &a_shared, &b_shared);
        }
        let zero = t.zeros(accumulator, &layout).unwrap();
        let (lower, upper, step) = (s.i32(0).unwrap(), s.i32(128).unwrap(), s.i32(STEP as i32).unwrap());
        let sums = t
            .for_loop(lower, upper, step, &[zero], |t, k, sums| {
                let s = t.scalar();
                t.async_wait(STAGES - 2)?;
                t.barrier()?;
                let turn = s.op("arith.divui", &[k, s.i32(STEP as i32)?])?;
                let stages = s.i32(STAGES as i32)?;
                let ahead = s.offset(turn, STAGES as i32 - 1)?;
                fetch(
                    t,
                    s.offset(k, ((STAGES - 1) * STEP) as i32)?,
                    s.op("arith.remui", &[ahead, stages])?,
                    &a_shared,
                    &b_shared,
                );
                let slot = s.op("arith.remui", &[turn, stages])?;
                let a = t.local_load(&a_shared, slot, &a_layout)?;
                let b = t.local_load(&b_shared, slot, &b_layout)?;
                Ok(vec![t.mma(name, &a, &b, &sums[0])?])
            })
            .unwrap();
        t.async_wait(0).unwrap();
        store(t, arguments[2], &sums[0]);
    })
}

/// Fetches one stage of both operands; nothing beyond `k = 128`.
fn stage<'m>(
    t: TileBuilder<'m>,
    arguments: &[Value<'m>],
    k: Value<'m>,
    slot: Value<'m>,
    layouts: [&TileLayout; 2],
    shared: [&Shared<'m>; 2],
) {
    for (operand, (layout, shared)) in layouts.into_iter().zip(shared).enumerate() {
        let (row, column) = (t.iota(0, layout).unwrap(), t.iota(1, layout).unwrap());
        let tiles = t
            .map(&[&row, &column], layout, &[DType::I32, DType::Bool], |s, v| {
                let depth = s.add(v[1 - operand], k)?;
                let offset =
                    if operand == 0 { s.add(s.scale(v[0], 128)?, depth)? } else { s.add(s.scale(depth, 64)?, v[1])? };
                let inside = s.compare_int(IntegerPredicate::SignedLess, depth, s.i32(128)?)?;
                Ok(vec![offset, inside])
            })
            .unwrap();
        t.async_copy(arguments[operand], &tiles[0], Some(&tiles[1]), shared, slot, 8).unwrap();
    }
    t.async_commit().unwrap();
}
