//! Tile programs that the tests take down.

use tenon_hw_dialect::{Access, IntegerPredicate, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_layout::TileLayout;
use tenon_tensor::DType;

use crate::support::kernel;

/// `program_id(0) * size + iota`, i32.
pub fn flat_offsets<'m>(t: TileBuilder<'m>, layout: &TileLayout) -> Tile<'m> {
    let size = layout.elements() as i32;
    let start = t.scalar().scale(t.program_id(0).unwrap(), size).unwrap();
    let iota = t.iota(0, layout).unwrap();
    t.map1(&[&iota], layout, DType::I32, |s, v| Ok(s.add(v[0], start)?)).unwrap()
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

/// `out = a * b + a` over a masked tile of 512 elements, four warps, vectors of `vector`.
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
