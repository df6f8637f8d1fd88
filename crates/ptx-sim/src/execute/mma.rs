//! Matrix multiply and accumulate of a warp (PTX ISA 9.7.14.5): `mma.sync`.
//!
//! Fragments: with `g = lane / 4` and `t = lane mod 4`, register `r` of A holds `E` elements of row `g + 8 (r mod 2)` from column
//! `t E + 4 E (r / 2)`, register `r` of B those of column `g` from row `t E + 4 E r`, and C and D rows `g` and `g + 8`, columns
//! `2 t` and `2 t + 1`, where `E` elements fill a register. `m8n8k4.f16` has a layout of its own.
//!
//! Products are exact; they and the accumulator are added in double precision in the order of k and rounded once to the
//! accumulator's type. A GPU may lose low bits of the addends: it agrees within 2⁻²² of the largest one per step of k.
//! Integers wrap, or saturate with `.satfinite`.

use super::lanes::{Lanes, Slot, Vectors};
use super::machine::{Machine, Step};
use super::matrix_load::check_whole_warp;
use super::numbers::{Format, bfloat_to_f32, bits, bits64, d as dbl, f, f32_to_half, half_to_f32, to_f32_odd};
use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;

const N: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct Op {
    rows: usize,
    k: usize,
    a_type: Type,
    b_type: Type,
    /// Type of C and of D.
    c_type: Type,
    d_type: Type,
    saturate: bool,
    /// `m8n8k4.f16`: whether A and B are column-major.
    quad: Option<(bool, bool)>,
    a: Vec<Slot>,
    b: Vec<Slot>,
    c: Vec<Slot>,
    d: Vec<Slot>,
}

/// Largest k, of 4-bit types.
const K_LIMIT: usize = 64;

#[inline(always)]
pub(super) fn element(t: Type, word: u32, e: usize) -> f64 {
    match t {
        Type::F16 => f64::from(half_to_f32(word >> (16 * e) & 0xffff)),
        Type::Bf16 => f64::from(bfloat_to_f32(word >> (16 * e) & 0xffff)),
        // The hardware ignores the low 13 bits.
        Type::Tf32 => f64::from(f(word & 0xffff_e000)),
        Type::E4m3 => Format::E4M3.decode(word >> (8 * e) & 0xff),
        Type::E5m2 => Format::E5M2.decode(word >> (8 * e) & 0xff),
        _ => 0.0,
    }
}

fn integer(t: Type, word: u32, e: usize) -> i32 {
    match t {
        Type::S8 => i32::from((word >> (8 * e)) as u8 as i8),
        Type::U8 => i32::from((word >> (8 * e)) as u8),
        Type::S4 => ((word >> (4 * e)) << 28) as i32 >> 28,
        _ => (word >> (4 * e) & 15) as i32,
    }
}

/// `acc[16][8] += a[16][k] · b[k][8]`, in the order of k.
struct Product<'a> {
    rows: usize,
    k: usize,
    a: &'a [f64],
    b: &'a [f64],
    acc: &'a mut [f64; 16 * N],
}

impl pulp::NullaryFnOnce for Product<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        for (row, acc) in self.acc.chunks_exact_mut(N).enumerate().take(self.rows) {
            let Some(acc) = acc.first_chunk_mut::<N>() else { continue };
            let mut sum = *acc;
            let left = &self.a[row * self.k..(row + 1) * self.k];
            for (x, b) in left.iter().zip(self.b.chunks_exact(N)) {
                if let Some(b) = b.first_chunk::<N>() {
                    for j in 0..N {
                        sum[j] += x * b[j];
                    }
                }
            }
            *acc = sum;
        }
    }
}

struct Widen<'a> {
    t: Type,
    words: &'a Lanes<u32>,
    e: usize,
}

impl pulp::NullaryFnOnce for Widen<'_> {
    type Output = Lanes<f64>;
    #[inline(always)]
    fn call(self) -> Lanes<f64> {
        let mut out = [0.0; 32];
        match (self.t, self.e) {
            (Type::F16, 0) => {
                for i in 0..32 {
                    out[i] = f64::from(half_to_f32(self.words[i] & 0xffff));
                }
            }
            (Type::F16, _) => {
                for i in 0..32 {
                    out[i] = f64::from(half_to_f32(self.words[i] >> 16));
                }
            }
            (t, e) => {
                for i in 0..32 {
                    out[i] = element(t, self.words[i], e);
                }
            }
        }
        out
    }
}

impl Op {
    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        check_whole_warp(mask)?;
        m.shared.warp_sync(m.warp.index, mask);
        m.tally.mma_macs += (self.rows * N * self.k) as u64 * if self.quad.is_some() { 4 } else { 1 };
        match self.d_type {
            _ if self.quad.is_some() => self.quad_pairs(m),
            Type::S32 => self.integers(m),
            Type::F64 => self.doubles(m),
            _ => self.floats(m),
        }
        Ok(())
    }

    fn floats(&self, m: &mut Machine<'_>) {
        let vectors: Vectors = m.launch.vectors;
        let r = &mut m.warp.registers;
        let per = (32 / self.a_type.bits()) as usize;
        let mut a = [0f64; 16 * K_LIMIT];
        let mut b = [0f64; K_LIMIT * N];
        let mut acc = [0f64; 16 * N];
        for (reg, &slot) in self.a.iter().enumerate() {
            let words = r.get(slot);
            for e in 0..per {
                let v = vectors.run(Widen { t: self.a_type, words, e });
                let base = 8 * (reg & 1) * self.k + e + 4 * per * (reg >> 1);
                for (g, quad) in v.chunks_exact(4).enumerate() {
                    for (t, x) in quad.iter().enumerate() {
                        a[base + g * self.k + t * per] = *x;
                    }
                }
            }
        }
        for (reg, &slot) in self.b.iter().enumerate() {
            let words = r.get(slot);
            for e in 0..per {
                let v = vectors.run(Widen { t: self.b_type, words, e });
                let base = (e + 4 * per * reg) * N;
                for (g, quad) in v.chunks_exact(4).enumerate() {
                    for (t, x) in quad.iter().enumerate() {
                        b[base + t * per * N + g] = *x;
                    }
                }
            }
        }
        let halves = |t: Type| t == Type::F16;
        for (reg, &slot) in self.c.iter().enumerate() {
            let words = r.get(slot);
            for lane in 0..32 {
                let (g, t) = (lane / 4, lane % 4);
                if halves(self.c_type) {
                    let at = (g + 8 * reg) * N + 2 * t;
                    acc[at] = f64::from(half_to_f32(words[lane] & 0xffff));
                    acc[at + 1] = f64::from(half_to_f32(words[lane] >> 16));
                } else {
                    acc[(g + 8 * (reg >> 1)) * N + 2 * t + (reg & 1)] = f64::from(f(words[lane]));
                }
            }
        }
        vectors.run(Product { rows: self.rows, k: self.k, a: &a[..16 * self.k], b: &b[..self.k * N], acc: &mut acc });
        for (reg, &slot) in self.d.iter().enumerate() {
            let mut v = [0u32; 32];
            for (lane, v) in v.iter_mut().enumerate() {
                let (g, t) = (lane / 4, lane % 4);
                *v = if halves(self.d_type) {
                    let at = (g + 8 * reg) * N + 2 * t;
                    f32_to_half(to_f32_odd(acc[at])) | f32_to_half(to_f32_odd(acc[at + 1])) << 16
                } else {
                    bits(acc[(g + 8 * (reg >> 1)) * N + 2 * t + (reg & 1)] as f32)
                };
            }
            r.put(slot, &v, u32::MAX);
        }
    }

    fn integers(&self, m: &mut Machine<'_>) {
        let r = &mut m.warp.registers;
        let per = (32 / self.a_type.bits()) as usize;
        let mut a = [0i32; 16 * K_LIMIT];
        let mut b = [0i32; K_LIMIT * N];
        for (reg, &slot) in self.a.iter().enumerate() {
            let words = r.get(slot);
            for (lane, &word) in words.iter().enumerate() {
                for e in 0..per {
                    let column = lane % 4 * per + e + 4 * per * (reg >> 1);
                    a[(lane / 4 + 8 * (reg & 1)) * self.k + column] = integer(self.a_type, word, e);
                }
            }
        }
        for (reg, &slot) in self.b.iter().enumerate() {
            let words = r.get(slot);
            for (lane, &word) in words.iter().enumerate() {
                for e in 0..per {
                    b[(lane % 4 * per + e + 4 * per * reg) * N + lane / 4] = integer(self.b_type, word, e);
                }
            }
        }
        let mut out = [[0u32; 32]; 4];
        for (reg, out) in out.iter_mut().enumerate().take(self.d.len()) {
            for (lane, out) in out.iter_mut().enumerate() {
                let (row, column) = (lane / 4 + 8 * (reg >> 1), 2 * (lane % 4) + (reg & 1));
                let sum: i64 =
                    (0..self.k).map(|k| i64::from(a[row * self.k + k]) * i64::from(b[k * N + column])).sum::<i64>()
                        + i64::from(r.get(self.c[reg])[lane] as i32);
                *out =
                    if self.saturate { sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32 } else { sum as u32 };
            }
        }
        for (v, &slot) in out.iter().zip(&self.d) {
            r.put(slot, v, u32::MAX);
        }
    }

    /// `m8n8k4` on doubles: fused, in the order of k.
    fn doubles(&self, m: &mut Machine<'_>) {
        let r = &mut m.warp.registers;
        let (a, b) = (*r.get64(self.a[0]), *r.get64(self.b[0]));
        let mut out = [[0u64; 32]; 2];
        for (reg, out) in out.iter_mut().enumerate() {
            let c = r.get64(self.c[reg]);
            for (lane, out) in out.iter_mut().enumerate() {
                let (row, column) = (lane / 4, 2 * (lane % 4) + reg);
                let sum = (0..4).fold(dbl(c[lane]), |sum, k| dbl(a[row * 4 + k]).mul_add(dbl(b[column * 4 + k]), sum));
                *out = bits64(sum);
            }
        }
        for (v, &slot) in out.iter().zip(&self.d) {
            r.put64(slot, v, u32::MAX);
        }
    }

    /// `m8n8k4` on halves: four products, each by lanes `4 q …` and `16 + 4 q …`.
    fn quad_pairs(&self, m: &mut Machine<'_>) {
        let Some((a_column, b_column)) = self.quad else { return };
        let r = &mut m.warp.registers;
        let mut out = [[0u32; 32]; 8];
        for q in 0..4 {
            let lane_of = |i: usize| if i < 4 { 4 * q + i } else { 16 + 4 * q + i - 4 };
            let half = |slots: &[Slot], lane: usize, i: usize| {
                half_to_f32(r.get(slots[i / 2])[lane] >> (16 * (i & 1)) & 0xffff)
            };
            let mut a = [[0f64; 4]; 8];
            let mut b = [[0f64; 8]; 4];
            for i in 0..8 {
                let high = i / 4 * 4;
                for e in 0..4 {
                    let x = f64::from(half(&self.a, lane_of(i), e));
                    if a_column {
                        a[e + high][i % 4] = x
                    } else {
                        a[i][e] = x
                    }
                    let y = f64::from(half(&self.b, lane_of(i), e));
                    if b_column { b[e][i] = y } else { b[i % 4][e + high] = y }
                }
            }
            let product = |row: usize, column: usize, c: f64| (0..4).fold(c, |s, k| s + a[row][k] * b[k][column]);
            for i in 0..8 {
                let lane = lane_of(i);
                let place = |e: usize, wide: bool| {
                    if wide { ((i & 1) + (e & 2) + i / 4 * 4, (e & 4) + (i & 2) + (e & 1)) } else { (i, e) }
                };
                for e in 0..8 {
                    let wide = self.c_type == Type::F32;
                    // C and D may have different types, and so different layouts: C is found by its place.
                    let (row, column) = place(e, self.d_type == Type::F32);
                    let (ci, ce) = if wide {
                        (row / 4 * 4 + (column & 2) + (row & 1), (column & 4) + (row & 2) + (column & 1))
                    } else {
                        (row, column)
                    };
                    let c = if wide {
                        f64::from(f(r.get(self.c[ce])[lane_of(ci)]))
                    } else {
                        f64::from(half(&self.c, lane_of(ci), ce))
                    };
                    let v = product(row, column, c);
                    if self.d_type == Type::F32 {
                        out[e][lane] = bits(v as f32);
                    } else {
                        out[e / 2][lane] |= f32_to_half(to_f32_odd(v)) << (16 * (e & 1));
                    }
                }
            }
        }
        for (v, &slot) in out.iter().zip(&self.d) {
            r.put(slot, v, u32::MAX);
        }
    }
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    use Type::*;
    form.need(&["sync"])?;
    form.need(&["aligned"])?;
    let shape =
        form.need(&["m16n8k16", "m16n8k8", "m16n8k4", "m16n8k32", "m16n8k64", "m8n8k4", "m8n8k16", "m8n8k32"])?;
    form.flag("kind::f8f6f4");
    let layout = |name: &str| name == "col";
    let [a_layout, b_layout] = form.layouts();
    if b_layout.is_empty() {
        return form.error("expected the layouts of A and B");
    }
    let saturate = form.flag("satfinite");
    let types = form.types();
    let [d_type, a_type, b_type, c_type] = types[..] else { return form.error("expected four types") };
    let quad = shape == "m8n8k4" && a_type == F16;
    if !quad && (layout(a_layout) || !layout(b_layout)) {
        return form.error("only .row.col is supported here");
    }
    let (rows, k): (usize, usize) = match shape {
        "m16n8k4" => (16, 4),
        "m16n8k8" => (16, 8),
        "m16n8k16" => (16, 16),
        "m16n8k32" => (16, 32),
        "m16n8k64" => (16, 64),
        "m8n8k16" => (8, 16),
        "m8n8k32" => (8, 32),
        _ => (8, 4),
    };
    let byte = matches!(a_type, S8 | U8) && matches!(b_type, S8 | U8);
    let nibble = matches!(a_type, S4 | U4) && matches!(b_type, S4 | U4);
    let fp8 = matches!(a_type, E4m3 | E5m2) && matches!(b_type, E4m3 | E5m2);
    let float_out = matches!(d_type, F16 | F32) && matches!(c_type, F16 | F32);
    let known = match (a_type, shape) {
        (F16, "m8n8k4") => b_type == F16 && float_out,
        (F16, "m16n8k8" | "m16n8k16") => b_type == F16 && float_out && c_type == d_type,
        (Bf16, "m16n8k8" | "m16n8k16") => b_type == Bf16 && d_type == F32 && c_type == F32,
        (Tf32, "m16n8k4" | "m16n8k8") => b_type == Tf32 && d_type == F32 && c_type == F32,
        (F64, "m8n8k4") => b_type == F64 && d_type == F64 && c_type == F64,
        (_, "m16n8k16" | "m16n8k32" | "m8n8k16") if byte => d_type == S32 && c_type == S32,
        (_, "m16n8k32" | "m16n8k64" | "m8n8k32") if nibble => d_type == S32 && c_type == S32,
        (_, "m16n8k32" | "m16n8k16") if fp8 => float_out && c_type == d_type,
        _ => false,
    };
    if !known || saturate && d_type != S32 {
        return form.error("this combination of shape and types is not supported");
    }
    form.need_count(4)?;
    let per = (32 / a_type.bits().min(32)) as usize;
    let (a_count, b_count) = match a_type {
        F64 => (1, 1),
        F16 if quad => (2, 2),
        _ => (rows / 8 * (k / (4 * per)), k / (4 * per)),
    };
    let c_registers = |t: Type| match (quad, t) {
        (true, F32) => 8,
        (true, _) => 4,
        (_, F16) => rows / 8,
        _ => rows / 4,
    };
    let register = if a_type == F64 { F64 } else { B32 };
    let list = |form: &mut Form<'_, '_>, i: usize, count: usize, write: bool| -> Result<Vec<Slot>, Error> {
        let elements = form.elements(i)?;
        if elements.len() != count {
            return form.error(format!("operand {} has {} registers, expected {count}", i + 1, elements.len()));
        }
        elements
            .iter()
            .map(|e| if write { form.destination(e, register) } else { form.source(e, register, false) })
            .collect()
    };
    Ok(Op {
        rows,
        k,
        a_type,
        b_type,
        c_type,
        d_type,
        saturate,
        quad: quad.then(|| (layout(a_layout), layout(b_layout))),
        d: list(form, 0, c_registers(d_type), true)?,
        a: list(form, 1, a_count, false)?,
        b: list(form, 2, b_count, false)?,
        c: list(form, 3, c_registers(c_type), false)?,
    })
}
