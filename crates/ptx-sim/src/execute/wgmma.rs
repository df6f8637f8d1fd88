//! Matrix multiply and accumulate of a warpgroup (PTX ISA 9.7.15): `wgmma.mma_async`, `wgmma.fence`, `wgmma.commit_group`, `wgmma.wait_group`.
//!
//! Each of the four warps computes 16 of the 64 rows of D, from fragments laid out as those of `mma.sync` or from shared memory
//! ([`super::wgmma_matrix`]). The result is there at once, and touching it before it was waited for is a fault
//! ([`super::wgmma_registers`]); so is writing shared memory that is still read.
//!
//! Products are exact; they and the accumulator are added in double precision in the order of k and rounded once to the accumulator's
//! type, as for `mma.sync`. A GPU may lose low bits of the addends; with 8-bit floating-point types it keeps fewer bits of its sums.

use super::access::conflict;
use super::lanes::{Slot, Vectors};
use super::machine::{Machine, Step};
use super::matrix_load::check_whole_warp;
use super::mma::element;
use super::numbers::{bits, f, f32_to_half, half_to_f32, to_f32_odd};
use super::wgmma_matrix::{Descriptor, elements};
use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::{FaultKind, Trap};
use crate::memory::shared::warpgroup::{Started, Warpgroup};
use crate::parse::ast::Operand;

/// Rows of D that a warp computes.
const ROWS: usize = 16;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Fence,
    Commit,
    Wait(u32),
    Multiply(Multiply),
}

#[derive(Clone, Debug)]
enum A {
    /// Registers of the warp's fragment.
    Registers(Vec<Slot>),
    /// Descriptor, and whether the matrix is major along M.
    Shared(Slot, bool),
}

#[derive(Clone, Debug)]
pub(crate) struct Multiply {
    n: usize,
    k: usize,
    d_type: Type,
    a_type: Type,
    b_type: Type,
    saturate: bool,
    negate_a: bool,
    negate_b: bool,
    d: Vec<Slot>,
    a: A,
    b: Slot,
    /// B is major along N.
    b_transposed: bool,
    /// Whether D is added to.
    accumulate: (Slot, bool),
}

impl Op {
    /// Registers that must not be touched while it runs.
    pub(super) fn registers(&self) -> Vec<Slot> {
        match self {
            Op::Multiply(m) => m.d.iter().chain(m.fragments()).copied().collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        check_whole_warp(mask)?;
        let warp = m.warp.index;
        m.shared.warp_sync(warp, mask);
        match self {
            Op::Fence => m.warp.wgmma.fence(m.launch.program.slots32),
            Op::Commit => m.warp.wgmma.commit(),
            Op::Wait(keep) => {
                let shared = &mut *m.shared;
                m.warp.wgmma.wait(*keep, |units| shared.async_read_end(warp, 0, units));
                shared.warp_sync(warp, mask);
            }
            Op::Multiply(op) => op.execute(m)?,
        }
        Ok(())
    }
}

fn diverges<T>(detail: impl Into<String>) -> Result<T, Box<Trap>> {
    Err(Trap::new(FaultKind::WarpgroupDivergence, 0, detail))
}

impl Multiply {
    fn fragments(&self) -> &[Slot] {
        match &self.a {
            A::Registers(slots) => slots,
            A::Shared(..) => &[],
        }
    }

    /// The same for operations whose accumulators need no fence between them.
    fn shape(&self) -> u32 {
        1 + self.n as u32
            + (self.k as u32) * 1024
            + (self.d_type.bits() << 16)
            + (u32::from(self.d_type == Type::S32) << 24)
    }

    fn execute(&self, m: &mut Machine<'_>) -> Step {
        let warp = m.warp.index;
        let (group, member) = (warp / 4, warp % 4);
        let threads: u32 = m.launch.block.iter().product();
        if (4 * group as u32 + 4) * 32 > threads {
            return diverges(format!("the warpgroup of warp {warp} has fewer than four whole warps"));
        }
        let uniform = |slot: Slot| -> Result<u64, Box<Trap>> {
            let v = m.warp.registers.get64(slot);
            if v.iter().all(|x| *x == v[0]) { Ok(v[0]) } else { diverges("lanes give different matrix descriptors") }
        };
        let b = uniform(self.b)?;
        let a = if let A::Shared(slot, _) = self.a { uniform(slot)? } else { 0 };
        let accumulate = match m.warp.registers.predicate(self.accumulate.0) {
            0 => self.accumulate.1,
            u32::MAX => !self.accumulate.1,
            _ => return diverges("lanes give different scales of D"),
        };
        if m.shared.warpgroups.len() <= group {
            m.shared.warpgroups.resize_with(group + 1, Warpgroup::default);
        }
        let started = Started { pc: m.pc, a, b, accumulate };
        if let Err(other) = m.shared.warpgroups[group].start(member, started) {
            return diverges(format!("warp {warp} starts {started:x?}, another warp of its warpgroup {other:x?}"));
        }
        let invalid = |why| Trap::new(FaultKind::InvalidOperand, 0, why);
        let b_units = Descriptor::new(b).map_err(invalid)?.units(0..self.n as u32, self.b_transposed);
        let a_units = match self.a {
            A::Shared(_, transposed) => {
                let first = (ROWS * member) as u32;
                Descriptor::new(a).map_err(invalid)?.units(first..first + ROWS as u32, transposed)
            }
            A::Registers(_) => Vec::new(),
        };
        let size = m.shared.size();
        if let Some(unit) = b_units.iter().chain(&a_units).find(|&&u| (u as usize + 1) * 16 > size) {
            let detail = format!("a matrix has 16 bytes at offset {:#x}, the block has {size} bytes", unit * 16);
            return Err(Trap::new(FaultKind::OutOfBoundsShared, 0, detail));
        }
        let units = [&a_units[..], &b_units[..]].concat();
        m.shared.async_read(warp, 0, &units).map_err(|c| conflict(0, c))?;
        m.warp.wgmma.start(self.shape(), &self.d, self.fragments(), units)?;
        m.tally.mma_macs += (ROWS * self.n * self.k) as u64;
        if self.d_type == Type::S32 {
            self.integers(m, &a_units, &b_units, accumulate);
        } else {
            self.floats(m, &a_units, &b_units, accumulate);
        }
        Ok(())
    }

    /// Calls `f` with row, step of k and bits of the elements of A; registers hold them as fragments of `mma.sync`.
    fn each_a(&self, m: &Machine<'_>, units: &[u32], f: impl FnMut(usize, usize, u32)) {
        match &self.a {
            A::Shared(_, transposed) => {
                each(self.a_type, &m.shared.data, units, ROWS, *transposed, f);
            }
            A::Registers(slots) => {
                let mut f = f;
                let width = self.a_type.bits();
                let per = (32 / width) as usize;
                for (reg, &slot) in slots.iter().enumerate() {
                    for (lane, &word) in m.warp.registers.get(slot).iter().enumerate() {
                        for e in 0..per {
                            let row = lane / 4 + 8 * (reg & 1);
                            let bits = (u64::from(word) >> (width * e as u32) & ((1u64 << width) - 1)) as u32;
                            f(row, lane % 4 * per + e + 4 * per * (reg >> 1), bits);
                        }
                    }
                }
            }
        }
    }

    fn each_b(&self, m: &Machine<'_>, units: &[u32], f: impl FnMut(usize, usize, u32)) {
        each(self.b_type, &m.shared.data, units, self.n, self.b_transposed, f);
    }

    fn floats(&self, m: &mut Machine<'_>, a_units: &[u32], b_units: &[u32], accumulate: bool) {
        let vectors: Vectors = m.launch.vectors;
        let (n, k) = (self.n, self.k);
        let mut a = vec![0f64; ROWS * k];
        self.each_a(m, a_units, |i, p, raw| {
            let v = element(self.a_type, raw, 0);
            a[i * k + p] = if self.negate_a { -v } else { v };
        });
        let mut b = vec![0f64; n * k];
        self.each_b(m, b_units, |j, p, raw| {
            let v = element(self.b_type, raw, 0);
            b[(j / 8 * k + p) * 8 + j % 8] = if self.negate_b { -v } else { v };
        });
        let mut acc = vec![0f64; ROWS * n];
        let halves = self.d_type == Type::F16;
        let r = &mut m.warp.registers;
        if accumulate {
            for (reg, &slot) in self.d.iter().enumerate() {
                for (lane, &word) in r.get(slot).iter().enumerate() {
                    if halves {
                        let at = place(lane, 2 * reg, n);
                        acc[at] = f64::from(half_to_f32(word & 0xffff));
                        acc[at + 1] = f64::from(half_to_f32(word >> 16));
                    } else {
                        acc[place(lane, reg, n)] = f64::from(f(word));
                    }
                }
            }
        }
        vectors.run(Product { n, k, a: &a, b: &b, acc: &mut acc });
        for (reg, &slot) in self.d.iter().enumerate() {
            let mut v = [0u32; 32];
            for (lane, v) in v.iter_mut().enumerate() {
                *v = if halves {
                    let at = place(lane, 2 * reg, n);
                    f32_to_half(to_f32_odd(acc[at])) | f32_to_half(to_f32_odd(acc[at + 1])) << 16
                } else {
                    bits(acc[place(lane, reg, n)] as f32)
                };
            }
            r.put(slot, &v, u32::MAX);
        }
    }

    fn integers(&self, m: &mut Machine<'_>, a_units: &[u32], b_units: &[u32], accumulate: bool) {
        let (n, k) = (self.n, self.k);
        let widen = |t: Type, raw: u32| if t == Type::S8 { i64::from(raw as u8 as i8) } else { i64::from(raw as u8) };
        let mut a = vec![0i64; ROWS * k];
        self.each_a(m, a_units, |i, p, raw| a[i * k + p] = widen(self.a_type, raw));
        let mut b = vec![0i64; n * k];
        self.each_b(m, b_units, |j, p, raw| b[j * k + p] = widen(self.b_type, raw));
        let r = &mut m.warp.registers;
        for (reg, &slot) in self.d.iter().enumerate() {
            let old = *r.get(slot);
            let mut v = [0u32; 32];
            for (lane, v) in v.iter_mut().enumerate() {
                let at = place(lane, reg, n);
                let (row, column) = (at / n, at % n);
                let start = if accumulate { i64::from(old[lane] as i32) } else { 0 };
                let pairs = a[row * k..(row + 1) * k].iter().zip(&b[column * k..(column + 1) * k]);
                let sum = start + pairs.map(|(x, y)| x * y).sum::<i64>();
                let clamped = sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
                *v = if self.saturate { clamped as u32 } else { sum as u32 };
            }
            r.put(slot, &v, u32::MAX);
        }
    }
}

/// Index in 16 rows of `n` columns of element `i` of a lane's accumulators.
fn place(lane: usize, i: usize, n: usize) -> usize {
    (lane / 4 + 8 * (i / 2 & 1)) * n + i / 4 * 8 + lane % 4 * 2 + (i & 1)
}

fn each(t: Type, data: &[u8], units: &[u32], rows: usize, transposed: bool, f: impl FnMut(usize, usize, u32)) {
    match t.bits() {
        8 => elements::<1>(data, units, rows, transposed, f),
        16 => elements::<2>(data, units, rows, transposed, f),
        _ => elements::<4>(data, units, rows, transposed, f),
    }
}

/// `acc[16][n] += a[16][k] · b[k][n]`, in the order of k; B comes in blocks of eight columns.
struct Product<'a> {
    n: usize,
    k: usize,
    a: &'a [f64],
    b: &'a [f64],
    acc: &'a mut [f64],
}

impl pulp::NullaryFnOnce for Product<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        for (left, acc) in self.a.chunks_exact(self.k).zip(self.acc.chunks_exact_mut(self.n)) {
            for (block, sums) in self.b.chunks_exact(8 * self.k).zip(acc.chunks_exact_mut(8)) {
                let Some(sums) = sums.first_chunk_mut::<8>() else { continue };
                let mut sum = *sums;
                for (x, b) in left.iter().zip(block.chunks_exact(8)) {
                    if let Some(b) = b.first_chunk::<8>() {
                        for j in 0..8 {
                            sum[j] += x * b[j];
                        }
                    }
                }
                *sums = sum;
            }
        }
    }
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    let name = form.need(&["fence", "commit_group", "wait_group", "mma_async"])?;
    form.need(&["sync"])?;
    form.need(&["aligned"])?;
    match name {
        "fence" | "commit_group" => {
            form.need_count(0)?;
            Ok(if name == "fence" { Op::Fence } else { Op::Commit })
        }
        "wait_group" => {
            form.need_count(1)?;
            match u32::try_from(form.constant(0)?) {
                Ok(keep) => Ok(Op::Wait(keep)),
                Err(_) => form.error("the number of groups is negative"),
            }
        }
        _ => Ok(Op::Multiply(decode_multiply(form)?)),
    }
}

fn decode_multiply(form: &mut Form<'_, '_>) -> Result<Multiply, Error> {
    use Type::*;
    let Some((n, k)) = form.take_shape("m64n") else { return form.error("expected a shape m64nNkK") };
    let saturate = form.flag("satfinite");
    let [d_type, a_type, b_type] = form.types()[..] else { return form.error("expected three types") };
    let known = match (d_type, a_type, b_type) {
        (F16 | F32, F16, F16) | (F32, Bf16, Bf16) => k == 16,
        (F32, Tf32, Tf32) => k == 8,
        (F16 | F32, E4m3 | E5m2, E4m3 | E5m2) => k == 32,
        (S32, S8 | U8, S8 | U8) => k == 32 && (n == 8 || n == 24 || n % 16 == 0),
        _ => false,
    };
    if !known || n % 8 != 0 || !(8..=256).contains(&n) || saturate && d_type != S32 {
        return form.error("this combination of shape and types is not supported");
    }
    let registers = if d_type == F16 { n / 4 } else { n / 2 };
    let d = form.elements(0)?;
    if d.len() != registers {
        return form.error(format!("D has {} registers, expected {registers}", d.len()));
    }
    let d = d.iter().map(|e| form.destination(e, B32)).collect::<Result<Vec<_>, _>>()?;
    let wide = a_type.bits() == 16;
    let in_registers = matches!(form.operand(1)?, Operand::Vector(_));
    // Scales of A and B, then transpositions of the operands in shared memory, which 16-bit types have.
    let scales = if d_type == S32 { 0 } else { 2 };
    let transpositions = if wide { 2 - usize::from(in_registers) } else { 0 };
    form.need_count(4 + scales + transpositions)?;
    let negates = |form: &Form<'_, '_>, i: usize| -> Result<bool, Error> {
        match form.constant(i)? {
            1 => Ok(false),
            -1 => Ok(true),
            _ => form.error("the scale of an operand is 1 or -1"),
        }
    };
    let (negate_a, negate_b) = if scales == 2 { (negates(form, 4)?, negates(form, 5)?) } else { (false, false) };
    let transposes = |form: &Form<'_, '_>, i: usize| -> Result<bool, Error> {
        match form.constant(i)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => form.error("a transposition is 0 or 1"),
        }
    };
    let b_transposed = wide && transposes(form, 3 + scales + transpositions)?;
    let a = if in_registers {
        let list = form.elements(1)?;
        if list.len() != 4 {
            return form.error(format!("A has {} registers, expected 4", list.len()));
        }
        A::Registers(list.iter().map(|e| form.source(e, B32, false)).collect::<Result<_, _>>()?)
    } else {
        A::Shared(form.src(1, B64)?, wide && transposes(form, 4 + scales)?)
    };
    let b = form.src(2, B64)?;
    let accumulate = form.predicate(3)?;
    Ok(Multiply { n, k, d_type, a_type, b_type, saturate, negate_a, negate_b, d, a, b, b_transposed, accumulate })
}
