//! Each instruction against a formula, over special and random operands.

use half::{bf16, f16};
use tenon_ptx_sim::{Argument, LaunchConfig};

use crate::support::{Bench, Numbers, to_u32};

const SPECIAL: &[u32] = &[
    0,
    1,
    2,
    31,
    32,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x0000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x8000_0001,
    0x4b00_0001,
    0x3c00_3c00,
    0x7c00_fc00,
    0x0001_8001,
    0x7bff_0400,
    0x4000_c000,
];

/// Runs a body on triples of words `%r1 %r2 %r3` (`%rd1 = r2:r1`, `%rd2 = r3:r2`) and returns `%rd0`.
fn run(body: &str, inputs: &[[u32; 3]]) -> Vec<u64> {
    let source = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 y) {{\n\
         .reg .pred %p<8>, %q<8>;\n.reg .b16 %h<16>;\n.reg .b32 %r<16>, %t<16>;\n.reg .b64 %rd<16>, %u<16>;\n\
         ld.param.u64 %u1, [x];\nld.param.u64 %u2, [y];\nmov.u32 %t1, %tid.x;\nmov.u32 %t2, %ctaid.x;\nmad.lo.u32 %t1, %t2, 64, %t1;\n\
         mul.wide.u32 %u3, %t1, 16;\nadd.s64 %u1, %u1, %u3;\nmul.wide.u32 %u4, %t1, 8;\nadd.s64 %u2, %u2, %u4;\n\
         ld.global.v4.b32 {{%r1, %r2, %r3, %t3}}, [%u1];\nmov.b64 %rd1, {{%r1, %r2}};\nmov.b64 %rd2, {{%r2, %r3}};\n\
         mov.b32 {{%h1, %h2}}, %r1;\nmov.b32 {{%h3, %h4}}, %r2;\nmov.b32 {{%h5, %h6}}, %r3;\nmov.b32 %r0, 0;\nmov.b64 %rd0, 0;\n\
         mov.b16 %h0, 0;\n{body}\nst.global.b64 [%u2], %rd0;\nret;\n}}\n"
    );
    let mut b = Bench::new(&source);
    let mut padded = inputs.to_vec();
    padded.resize(inputs.len().next_multiple_of(64), [0; 3]);
    let bytes: Vec<u8> = padded.iter().flat_map(|t| [t[0], t[1], t[2], 0]).flat_map(u32::to_le_bytes).collect();
    let x = b.buffer(&bytes);
    let y = b.empty(padded.len() * 8);
    let config = LaunchConfig { grid: [padded.len() as u32 / 64, 1, 1], block: [64, 1, 1], ..LaunchConfig::default() };
    b.launch("k", &config, &[x.into(), Argument::from(y)]).unwrap();
    let words = to_u32(&b.read(y, padded.len() * 8));
    words.chunks_exact(2).take(inputs.len()).map(|w| u64::from(w[0]) | u64::from(w[1]) << 32).collect()
}

fn inputs() -> Vec<[u32; 3]> {
    let mut out = Vec::new();
    for &a in SPECIAL {
        for &b in SPECIAL {
            out.push([a, b, SPECIAL[out.len() % SPECIAL.len()]]);
        }
    }
    let mut n = Numbers::new(99);
    for i in 0..1024 {
        let mut word = || {
            let v = n.bits();
            // Half of them ordinary floats.
            if i % 2 == 0 { v } else { v & 0x83ff_ffff | 0x3c00_0000 }
        };
        out.push([word(), word(), word()]);
    }
    out
}

fn check(body: &str, expected: impl Fn(u32, u32, u32) -> u64) {
    let inputs = inputs();
    for (got, &[a, b, c]) in run(body, &inputs).into_iter().zip(&inputs) {
        let want = expected(a, b, c);
        assert_eq!(got, want, "{body}: {a:#x} {b:#x} {c:#x}: {got:#x}, expected {want:#x}");
    }
}

/// 32-bit result in `%r0`.
fn check32(instruction: &str, expected: impl Fn(u32, u32, u32) -> u32) {
    check(&format!("{instruction}\ncvt.u64.u32 %rd0, %r0;"), |a, b, c| u64::from(expected(a, b, c)));
}
/// 16-bit result in `%h0`.
fn check16(instruction: &str, expected: impl Fn(u16, u16, u16) -> u16) {
    check(&format!("{instruction}\ncvt.u64.u16 %rd0, %h0;"), |a, b, c| {
        u64::from(expected(a as u16, b as u16, c as u16))
    });
}
/// 64-bit operands `%rd1`, `%rd2`.
fn check64(instruction: &str, expected: impl Fn(u64, u64, u32) -> u64) {
    check(instruction, |a, b, c| expected(u64::from(a) | u64::from(b) << 32, u64::from(b) | u64::from(c) << 32, c));
}
/// Predicate `%p1`.
fn check_predicate(instruction: &str, expected: impl Fn(u32, u32, u32) -> bool) {
    check32(&format!("{instruction}\nselp.b32 %r0, 1, 0, %p1;"), |a, b, c| u32::from(expected(a, b, c)));
}

fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}
fn b(v: f32) -> u32 {
    if v.is_nan() { 0x7fff_ffff } else { v.to_bits() }
}
fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}
fn b64(v: f64) -> u64 {
    if v.is_nan() { 0x7ff8_0000_0000_0000 } else { v.to_bits() }
}
fn h(v: f32) -> u16 {
    if v.is_nan() { 0x7fff } else { f16::from_f32(v).to_bits() }
}
fn ftz(v: u32) -> u32 {
    if v & 0x7f80_0000 == 0 { v & 0x8000_0000 } else { v }
}
fn signed(v: u32) -> i64 {
    i64::from(v as i32)
}

#[test]
fn integer_arithmetic() {
    check32("add.u32 %r0, %r1, %r2;", |a, b, _| a.wrapping_add(b));
    check32("add.sat.s32 %r0, %r1, %r2;", |a, b, _| (a as i32).saturating_add(b as i32) as u32);
    check32("sub.s32 %r0, %r1, %r2;", |a, b, _| a.wrapping_sub(b));
    check32("mul.lo.s32 %r0, %r1, %r2;", |a, b, _| a.wrapping_mul(b));
    check32("mul.hi.u32 %r0, %r1, %r2;", |a, b, _| (u64::from(a) * u64::from(b) >> 32) as u32);
    check32("mul.hi.s32 %r0, %r1, %r2;", |a, b, _| (signed(a) * signed(b) >> 32) as u32);
    check("mul.wide.s32 %rd0, %r1, %r2;", |a, b, _| (signed(a) * signed(b)) as u64);
    check("mul.wide.u32 %rd0, %r1, %r2;", |a, b, _| u64::from(a) * u64::from(b));
    check32("mul.wide.s16 %r0, %h1, %h3;", |a, b, _| (i32::from(a as i16) * i32::from(b as i16)) as u32);
    check32("mad.lo.u32 %r0, %r1, %r2, %r3;", |a, b, c| a.wrapping_mul(b).wrapping_add(c));
    check32("mad.hi.s32 %r0, %r1, %r2, %r3;", |a, b, c| ((signed(a) * signed(b) >> 32) as u32).wrapping_add(c));
    check("mad.wide.u32 %rd0, %r1, %r2, %rd2;", |a, b, c| {
        (u64::from(a) * u64::from(b)).wrapping_add(u64::from(b) | u64::from(c) << 32)
    });
    check32("mul24.lo.u32 %r0, %r1, %r2;", |a, b, _| ((u64::from(a) & 0xff_ffff) * (u64::from(b) & 0xff_ffff)) as u32);
    check32("sad.s32 %r0, %r1, %r2, %r3;", |a, b, c| c.wrapping_add((signed(a) - signed(b)).unsigned_abs() as u32));
    check32("min.s32 %r0, %r1, %r2;", |a, b, _| (a as i32).min(b as i32) as u32);
    check32("max.u32 %r0, %r1, %r2;", |a, b, _| a.max(b));
    check32("abs.s32 %r0, %r1;", |a, _, _| (a as i32).unsigned_abs());
    check32("neg.s32 %r0, %r1;", |a, _, _| 0u32.wrapping_sub(a));
    check32("div.s32 %r0, %r1, %r2;", |a, b, _| if b == 0 { u32::MAX } else { (signed(a) / signed(b)) as u32 });
    check32("rem.s32 %r0, %r1, %r2;", |a, b, _| if b == 0 { a } else { (signed(a) % signed(b)) as u32 });
    check32("div.u32 %r0, %r1, %r2;", |a, b, _| if b == 0 { u32::MAX } else { a / b });
    check32("dp4a.s32.u32 %r0, %r1, %r2, %r3;", |a, b, c| {
        (0..4).fold(c, |s, i| {
            s.wrapping_add((i32::from(a.to_le_bytes()[i] as i8) * i32::from(b.to_le_bytes()[i])) as u32)
        })
    });
    check64("add.s64 %rd0, %rd1, %rd2;", |a, b, _| a.wrapping_add(b));
    check64("mul.lo.s64 %rd0, %rd1, %rd2;", |a, b, _| a.wrapping_mul(b));
    check64("mul.hi.s64 %rd0, %rd1, %rd2;", |a, b, _| (i128::from(a as i64) * i128::from(b as i64) >> 64) as u64);
    check64("rem.u64 %rd0, %rd1, %rd2;", |a, b, _| if b == 0 { a } else { a % b });
    check64("min.s64 %rd0, %rd1, %rd2;", |a, b, _| (a as i64).min(b as i64) as u64);
    check16("add.s16 %h0, %h1, %h3;", |a, b, _| a.wrapping_add(b));
    check16("max.s16 %h0, %h1, %h3;", |a, b, _| (a as i16).max(b as i16) as u16);
    check16("div.s16 %h0, %h1, %h3;", |a, b, _| if b == 0 { 0xffff } else { (a as i16).wrapping_div(b as i16) as u16 });
    // 64-bit addition and subtraction from halves.
    check64(
        "mov.b64 {%t4,%t5}, %rd1;\nmov.b64 {%t6,%t7}, %rd2;\nadd.cc.u32 %t4, %t4, %t6;\naddc.u32 %t5, %t5, %t7;\nmov.b64 %rd0, {%t4,%t5};",
        |a, b, _| a.wrapping_add(b),
    );
    check64(
        "mov.b64 {%t4,%t5}, %rd1;\nmov.b64 {%t6,%t7}, %rd2;\nsub.cc.u32 %t4, %t4, %t6;\nsubc.u32 %t5, %t5, %t7;\nmov.b64 %rd0, {%t4,%t5};",
        |a, b, _| a.wrapping_sub(b),
    );
}

#[test]
fn logic_and_bits() {
    check32("and.b32 %r0, %r1, %r2;", |a, b, _| a & b);
    check32("lop3.b32 %r0, %r1, %r2, %r3, 0x96;", |a, b, c| a ^ b ^ c);
    check32("lop3.b32 %r0, %r1, %r2, %r3, 0xEA;", |a, b, c| (a & b) | c);
    check32("not.b32 %r0, %r1;", |a, _, _| !a);
    check32("cnot.b32 %r0, %r1;", |a, _, _| u32::from(a == 0));
    check32("shl.b32 %r0, %r1, %r2;", |a, b, _| if b < 32 { a << b } else { 0 });
    check32("shr.u32 %r0, %r1, %r2;", |a, b, _| if b < 32 { a >> b } else { 0 });
    check32("shr.s32 %r0, %r1, %r2;", |a, b, _| ((a as i32) >> b.min(31)) as u32);
    check64("shr.s64 %rd0, %rd1, %r3;", |a, _, c| ((a as i64) >> c.min(63)) as u64);
    check16("shl.b16 %h0, %h1, 3;", |a, _, _| a << 3);
    check32("shf.l.wrap.b32 %r0, %r1, %r2, %r3;", |a, b, c| {
        let n = c & 31;
        if n == 0 { b } else { b << n | a >> (32 - n) }
    });
    check32("shf.r.clamp.b32 %r0, %r1, %r2, %r3;", |a, b, c| match c.min(32) {
        0 => a,
        32 => b,
        n => a >> n | b << (32 - n),
    });
    check32("popc.b32 %r0, %r1;", |a, _, _| (0..32).filter(|i| a >> i & 1 == 1).count() as u32);
    check32("clz.b32 %r0, %r1;", |a, _, _| (0..32).rev().take_while(|i| a >> i & 1 == 0).count() as u32);
    check32("clz.b64 %r0, %rd1;", |a, b, _| (u64::from(a) | u64::from(b) << 32).leading_zeros());
    check32("brev.b32 %r0, %r1;", |a, _, _| (0..32).fold(0, |r, i| r | (a >> i & 1) << (31 - i)));
    check32("bfind.u32 %r0, %r1;", |a, _, _| (0..32).rev().find(|i| a >> i & 1 == 1).map_or(u32::MAX, |i| i as u32));
    check32("bfind.s32 %r0, %r1;", |a, _, _| {
        (0..31).rev().find(|i| (a >> i & 1) != a >> 31).map_or(u32::MAX, |i| i as u32)
    });
    // The definition of the PTX ISA, bit by bit.
    let bfe = |a: u32, b: u32, c: u32, s: bool| {
        let (p, n) = (b & 255, c & 255);
        let sign = if !s || n == 0 { 0 } else { a >> (p + n - 1).min(31) & 1 };
        (0..32).fold(0, |d, i| d | (if i < n && p + i <= 31 { a >> (p + i) & 1 } else { sign }) << i)
    };
    check32("bfe.u32 %r0, %r1, %r2, %r3;", |a, b, c| bfe(a, b, c, false));
    check32("bfe.s32 %r0, %r1, %r2, %r3;", |a, b, c| bfe(a, b, c, true));
    check32("and.b32 %t4, %r2, 15;\nand.b32 %t5, %r3, 31;\nbfe.s32 %r0, %r1, %t4, %t5;", |a, b, c| {
        bfe(a, b & 15, c & 31, true)
    });
    check32("and.b32 %t4, %r3, 31;\nbfi.b32 %r0, %r1, %r2, %t4, 9;", |a, b, c| {
        let p = c & 31;
        (0..9).filter(|i| p + i <= 31).fold(b, |f, i| f & !(1 << (p + i)) | (a >> i & 1) << (p + i))
    });
    check32("prmt.b32 %r0, %r1, %r2, %r3;", |a, b, c| {
        let bytes = [a.to_le_bytes(), b.to_le_bytes()].concat();
        u32::from_le_bytes([0, 1, 2, 3].map(|i| {
            let s = c >> (4 * i) & 15;
            let v = bytes[(s & 7) as usize];
            if s & 8 == 0 {
                v
            } else if v & 128 != 0 {
                255
            } else {
                0
            }
        }))
    });
    check32(
        "setp.lt.s32 %p1, %r1, %r2;\nsetp.gt.s32 %p2, %r2, %r3;\nxor.pred %p3, %p1, %p2;\nnot.pred %p4, %p3;\nselp.b32 %r0, 1, 0, %p4;",
        |a, b, c| u32::from(((a as i32) < (b as i32)) == ((b as i32) > (c as i32))),
    );
}

#[test]
fn floating_point() {
    check32("add.f32 %r0, %r1, %r2;", |x, y, _| b(f(x) + f(y)));
    check32("sub.ftz.f32 %r0, %r1, %r2;", |x, y, _| ftz(b(f(ftz(x)) - f(ftz(y)))));
    check32("mul.sat.f32 %r0, %r1, %r2;", |x, y, _| {
        let v = f(x) * f(y);
        if v.is_nan() { 0 } else { (v.clamp(0.0, 1.0) + 0.0).to_bits() }
    });
    check32("fma.rn.f32 %r0, %r1, %r2, %r3;", |x, y, z| b(f(x).mul_add(f(y), f(z))));
    check32("fma.rn.ftz.f32 %r0, %r1, %r2, %r3;", |x, y, z| ftz(b(f(ftz(x)).mul_add(f(ftz(y)), f(ftz(z))))));
    check32("div.rn.f32 %r0, %r1, %r2;", |x, y, _| b(f(x) / f(y)));
    check32("div.full.f32 %r0, %r1, %r2;", |x, y, _| b(f(x) / f(y)));
    check32("rcp.rn.f32 %r0, %r1;", |x, _, _| b(1.0 / f(x)));
    check32("sqrt.rn.f32 %r0, %r1;", |x, _, _| b(f(x).sqrt()));
    check32("rsqrt.approx.f32 %r0, %r1;", |x, _, _| b((1.0 / f64::from(f(x)).sqrt()) as f32));
    check32("neg.f32 %r0, %r1;", |x, _, _| x ^ 0x8000_0000);
    check32("abs.f32 %r0, %r1;", |x, _, _| x & 0x7fff_ffff);
    let max = |x: f32, y: f32| {
        if x.is_nan() {
            y
        } else if y.is_nan() {
            x
        } else if x == y {
            if x.is_sign_negative() { y } else { x }
        } else if x > y {
            x
        } else {
            y
        }
    };
    check32("max.f32 %r0, %r1, %r2;", |x, y, _| b(max(f(x), f(y))));
    check32("min.f32 %r0, %r1, %r2;", |x, y, _| b(-max(-f(x), -f(y))));
    check32("max.NaN.f32 %r0, %r1, %r2;", |x, y, _| {
        b(if f(x).is_nan() || f(y).is_nan() { f32::NAN } else { max(f(x), f(y)) })
    });
    check32("copysign.f32 %r0, %r1, %r2;", |x, y, _| f(y).copysign(f(x)).to_bits());
    check_predicate("testp.subnormal.f32 %p1, %r1;", |x, _, _| f(x).is_subnormal());
    check64("fma.rn.f64 %rd0, %rd1, %rd2, %rd1;", |x, y, _| b64(d(x).mul_add(d(y), d(x))));
    check64("div.rn.f64 %rd0, %rd1, %rd2;", |x, y, _| b64(d(x) / d(y)));
    check64("sqrt.rn.f64 %rd0, %rd1;", |x, _, _| b64(d(x).sqrt()));
}

/// Directed results bracket the exact one: next to each other unless exact, on the right side.
#[test]
fn directed_rounding() {
    let inputs = inputs();
    let all = |op: &str, form: &str| {
        ["rn", "rz", "rm", "rp"].map(|r| run(&format!("{op}.{r}.f32 %r0, {form};\ncvt.u64.u32 %rd0, %r0;"), &inputs))
    };
    for (op, form) in
        [("add", "%r1, %r2"), ("mul", "%r1, %r2"), ("fma", "%r1, %r2, %r3"), ("div", "%r1, %r2"), ("sqrt", "%r1")]
    {
        let [near, zero, down, up] = all(op, form);
        for i in 0..inputs.len() {
            let [n, z, lo, hi] = [near[i], zero[i], down[i], up[i]].map(|v| f(v as u32));
            if n.is_nan() {
                assert!(z.is_nan() && lo.is_nan() && hi.is_nan());
                continue;
            }
            assert!(
                lo <= n && n <= hi && (z == lo || z == hi) && z.abs() <= n.abs(),
                "{op} {:x?}: {n} {z} {lo} {hi}",
                inputs[i]
            );
            if lo != hi && lo.is_finite() && hi.is_finite() {
                assert_eq!(lo.next_up(), hi, "{op} {:x?}", inputs[i]);
                let [x, y, _] = inputs[i].map(|v| f64::from(f(v)));
                // Where double precision is exact, the sides are right.
                if op == "mul" {
                    assert!(f64::from(lo) < x * y && x * y < f64::from(hi));
                }
            }
        }
    }
}

/// The half nearest to a double, ties to even, by trying the neighbours of a first guess.
fn nearest_half(v: f64) -> u16 {
    if v.is_nan() {
        return 0x7fff;
    }
    let sign = if v.is_sign_negative() { 0x8000 } else { 0 };
    let a = v.abs();
    if a.is_infinite() {
        return 0x7c00 | sign;
    }
    let guess = f16::from_f64(a.min(65504.0)).to_bits();
    let value = |bits: u16| if bits == 0x7c00 { 65536.0 } else { f16::from_bits(bits).to_f64() };
    let key = |&bits: &u16| ((value(bits) - a).abs(), bits & 1);
    let near = [guess.saturating_sub(1), guess, guess + 1];
    near.into_iter().min_by(|p, q| key(p).partial_cmp(&key(q)).unwrap()).unwrap() | sign
}

/// PTX ISA 8.6: pairs of `f32` in 64 bits, and `f32` with 16-bit operands.
#[test]
fn pairs_and_mixed_precision() {
    let pairs = |instruction: &str, function: &dyn Fn(u32, u32, u32) -> u32| {
        check64(instruction, |x, y, _| {
            let half = |shift: u32| {
                u64::from(function((x >> shift) as u32, (y >> shift) as u32, (x >> shift) as u32)) << shift
            };
            half(0) | half(32)
        });
    };
    pairs("add.rn.f32x2 %rd0, %rd1, %rd2;", &|x, y, _| b(f(x) + f(y)));
    pairs("sub.rn.f32x2 %rd0, %rd1, %rd2;", &|x, y, _| b(f(x) - f(y)));
    pairs("mul.rn.ftz.f32x2 %rd0, %rd1, %rd2;", &|x, y, _| ftz(b(f(ftz(x)) * f(ftz(y)))));
    pairs("fma.rn.f32x2 %rd0, %rd1, %rd2, %rd1;", &|x, y, z| b(f(x).mul_add(f(y), f(z))));
    let half = |v: u32| f16::from_bits(v as u16).to_f32();
    let brain = |v: u32| bf16::from_bits(v as u16).to_f32();
    check32("add.rn.f32.f16 %r0, %h1, %r2;", |x, y, _| b(half(x) + f(y)));
    check32("sub.rn.f32.bf16 %r0, %h1, %r2;", |x, y, _| b(brain(x) - f(y)));
    check32("add.rn.sat.f32.bf16 %r0, %h1, %r2;", |x, y, _| {
        let v = brain(x) + f(y);
        if v.is_nan() { 0 } else { (v.clamp(0.0, 1.0) + 0.0).to_bits() }
    });
    check32("fma.rn.f32.f16 %r0, %h1, %h3, %r3;", |x, y, z| b(half(x).mul_add(half(y), f(z))));
    // Towards zero: the product of 16-bit values is exact in double precision, and so is its f32 neighbour.
    check32("fma.rz.f32.bf16 %r0, %h1, %h3, 0f00000000;", |x, y, _| {
        let exact = f64::from(brain(x)) * f64::from(brain(y));
        let near = exact as f32;
        let past = f64::from(near).abs() > exact.abs();
        b(match (past, near.is_finite()) {
            (true, true) => f32::from_bits(near.to_bits() - 1),
            (true, false) => near.signum() * f32::MAX,
            // A sum of zeros of both signs is +0; what is too small keeps its sign.
            (false, _) => {
                if exact == 0.0 {
                    0.0
                } else {
                    near
                }
            }
        })
    });
}

#[test]
fn halves() {
    let x = |v: u16| f16::from_bits(v).to_f32();
    let y = |v: u16| bf16::from_bits(v).to_f32();
    let hb = |v: f32| if v.is_nan() { 0x7fff } else { bf16::from_f32(v).to_bits() };
    // Sums of two halves are exact in double precision; one rounding from there.
    check16("add.f16 %h0, %h1, %h3;", |a, b, _| nearest_half(f64::from(x(a)) + f64::from(x(b))));
    check16("mul.f16 %h0, %h1, %h3;", |a, b, _| h(x(a) * x(b)));
    check32("mul.f16x2 %r0, %r1, %r2;", |a, b, _| {
        u32::from(h(x(a as u16) * x(b as u16))) | u32::from(h(x((a >> 16) as u16) * x((b >> 16) as u16))) << 16
    });
    check16("fma.rn.f16 %h0, %h1, %h3, %h5;", |a, b, c| {
        // The product is exact in f32 and the sum in double precision unless they are very far apart.
        let (p, z) = (f64::from(x(a)) * f64::from(x(b)), f64::from(x(c)));
        nearest_half(p + z)
    });
    check16("mul.bf16 %h0, %h1, %h3;", |a, b, _| hb(y(a) * y(b)));
    check16("neg.f16 %h0, %h1;", |a, _, _| a ^ 0x8000);
    check16("max.f16 %h0, %h1, %h3;", |a, b, _| {
        let (p, q) = (x(a), x(b));
        if p.is_nan() && q.is_nan() {
            0x7fff
        } else if p.is_nan() {
            b
        } else if q.is_nan() {
            a
        } else if p == q {
            a & b
        } else if p > q {
            a
        } else {
            b
        }
    });
    check_predicate("setp.lt.f16 %p1, %h1, %h3;", |a, b, _| x(a as u16) < x(b as u16));
}

#[test]
fn conversions() {
    let x = |v: u32| f16::from_bits(v as u16).to_f32();
    check32("cvt.f32.f16 %r0, %h1;", |a, _, _| b(x(a)));
    check("cvt.rn.f16.f32 %h0, %r1;\ncvt.u64.u16 %rd0, %h0;", |a, _, _| u64::from(h(f(a))));
    check32("cvt.rn.f16x2.f32 %r0, %r1, %r2;", |a, c, _| u32::from(h(f(a))) << 16 | u32::from(h(f(c))));
    check32("cvt.rn.bf16x2.f32 %r0, %r1, %r2;", |a, c, _| {
        let hb = |v: f32| u32::from(if v.is_nan() { 0x7fff } else { bf16::from_f32(v).to_bits() });
        hb(f(a)) << 16 | hb(f(c))
    });
    check32("cvt.rn.f32.s32 %r0, %r1;", |a, _, _| (a as i32 as f32).to_bits());
    check32("cvt.rn.f32.u32 %r0, %r1;", |a, _, _| (a as f32).to_bits());
    check32("cvt.rn.f32.u64 %r0, %rd1;", |a, c, _| ((u64::from(a) | u64::from(c) << 32) as f32).to_bits());
    check32("cvt.rzi.s32.f32 %r0, %r1;", |a, _, _| f(a) as i32 as u32);
    check32("cvt.rni.u32.f32 %r0, %r1;", |a, _, _| f(a).round_ties_even() as u32);
    check32("cvt.rmi.s32.f32 %r0, %r1;", |a, _, _| f(a).floor() as i32 as u32);
    check32("cvt.rpi.f32.f32 %r0, %r1;", |a, _, _| b(f(a).ceil()));
    check32(
        "cvt.sat.f32.f32 %r0, %r1;",
        |a, _, _| if f(a).is_nan() { 0 } else { (f(a).clamp(0.0, 1.0) + 0.0).to_bits() },
    );
    check("cvt.s64.s32 %rd0, %r1;", |a, _, _| i64::from(a as i32) as u64);
    check("cvt.u64.u32 %rd0, %r1;", |a, _, _| u64::from(a));
    check32("cvt.s32.s8 %r0, %r1;", |a, _, _| a as i8 as i32 as u32);
    check32("cvt.u32.u16 %r0, %h1;", |a, _, _| a & 0xffff);
    check32("cvt.sat.u8.s32 %r0, %r1;", |a, _, _| (a as i32).clamp(0, 255) as u32);
    check32("cvt.u32.u64 %r0, %rd1;", |a, _, _| a);
    check("cvt.f64.f32 %rd0, %r1;", |a, _, _| b64(f64::from(f(a))));
    check32("cvt.rn.f32.f64 %r0, %rd1;", |a, c, _| b(d(u64::from(a) | u64::from(c) << 32) as f32));
    check32("cvt.rna.tf32.f32 %r0, %r1;", |a, _, _| {
        if f(a).is_nan() {
            0x7fff_e000
        } else if a & 0x7f80_0000 == 0x7f80_0000 {
            a
        } else {
            (a + 0x1000) & 0xffff_e000
        }
    });
    check32("cvt.pack.sat.u8.s32.b32 %r0, %r1, %r2, %r3;", |a, c, e| {
        let byte = |v: u32| (v as i32).clamp(0, 255) as u32;
        e << 16 | byte(a) << 8 | byte(c)
    });
}

#[test]
fn comparisons() {
    check_predicate("setp.lt.s32 %p1, %r1, %r2;", |a, c, _| (a as i32) < (c as i32));
    check_predicate("setp.hi.u32 %p1, %r1, %r2;", |a, c, _| a > c);
    check_predicate("setp.ne.f32 %p1, %r1, %r2;", |a, c, _| f(a) < f(c) || f(a) > f(c));
    check_predicate("setp.neu.f32 %p1, %r1, %r2;", |a, c, _| f(a) != f(c));
    check_predicate("setp.geu.f32 %p1, %r1, %r2;", |a, c, _| !(f(a) < f(c)));
    check_predicate("setp.num.f32 %p1, %r1, %r2;", |a, c, _| !f(a).is_nan() && !f(c).is_nan());
    check_predicate("setp.eq.s32 %p2, %r1, %r3;\nsetp.lt.or.s32 %p1|%p3, %r1, %r2, %p2;", |a, c, e| {
        a == e || (a as i32) < (c as i32)
    });
    check_predicate("setp.eq.s32 %p2, %r1, %r3;\nsetp.lt.and.s32 %p3|%p1, %r1, %r2, !%p2;", |a, c, e| {
        (a as i32) >= (c as i32) && a != e
    });
    check32("set.lt.f32.s32 %r0, %r1, %r2;", |a, c, _| if (a as i32) < (c as i32) { 0x3f80_0000 } else { 0 });
    check32("set.gt.u32.f32 %r0, %r1, %r2;", |a, c, _| if f(a) > f(c) { u32::MAX } else { 0 });
    check32("slct.b32.s32 %r0, %r1, %r2, %r3;", |a, c, e| if e as i32 >= 0 { a } else { c });
}

#[test]
fn exchange_within_a_warp() {
    let inputs: Vec<[u32; 3]> = (0..64).map(|i| [i * 7 % 5, i, 0]).collect();
    let lanes = |body: &str| run(&format!("{body}\ncvt.u64.u32 %rd0, %r0;"), &inputs);
    let at = |warp: usize, lane: usize| inputs[warp * 32 + lane];
    let check = |body: &str, expected: &dyn Fn(usize, usize) -> u32| {
        for (i, got) in lanes(body).into_iter().enumerate() {
            assert_eq!(got as u32, expected(i / 32, i % 32), "{body}, thread {i}");
        }
    };
    check("shfl.sync.bfly.b32 %r0, %r2, 5, 31, -1;", &|w, l| at(w, l ^ 5)[1]);
    check("shfl.sync.up.b32 %r0, %r2, 3, 0, -1;", &|w, l| at(w, if l >= 3 { l - 3 } else { l })[1]);
    check("shfl.sync.down.b32 %r0|%p1, %r2, 3, 31, -1;\n@!%p1 mov.b32 %r0, 99;", &|w, l| {
        if l + 3 < 32 { at(w, l + 3)[1] } else { 99 }
    });
    // Segments of eight lanes.
    check("shfl.sync.idx.b32 %r0, %r2, 2, 0x181f, -1;", &|w, l| at(w, l / 8 * 8 + 2)[1]);
    check("setp.eq.u32 %p1, %r1, 3;\nvote.sync.ballot.b32 %r0, %p1, -1;", &|w, _| {
        (0..32).filter(|&l| at(w, l)[0] == 3).fold(0, |m, l| m | 1 << l)
    });
    check("setp.lt.u32 %p1, %r1, 5;\nvote.sync.all.pred %p2, %p1, -1;\nselp.b32 %r0, 1, 0, %p2;", &|_, _| 1);
    check("match.any.sync.b32 %r0, %r1, -1;", &|w, l| {
        (0..32).filter(|&j| at(w, j)[0] == at(w, l)[0]).fold(0, |m, j| m | 1 << j)
    });
    check("redux.sync.add.s32 %r0, %r2, -1;", &|w, _| (0..32).map(|l| at(w, l)[1]).sum());
    check("redux.sync.max.u32 %r0, %r1, -1;", &|w, _| (0..32).map(|l| at(w, l)[0]).max().unwrap());
    check("setp.lt.u32 %p1, %r1, 2;\n@%p1 activemask.b32 %r0;", &|w, l| {
        let m = (0..32).filter(|&j| at(w, j)[0] < 2).fold(0, |m, j| m | 1 << j);
        if at(w, l)[0] < 2 { m } else { 0 }
    });
    check("setp.gt.u32 %p1, %r1, 2;\nbar.red.popc.u32 %r0, 0, %p1;", &|_, _| {
        inputs.iter().filter(|v| v[0] > 2).count() as u32
    });
    check("mov.u32 %r0, %lanemask_lt;", &|_, l| (1u64 << l) as u32 - 1);
}

#[test]
fn memory_spaces_calls_and_branches() {
    let source = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .const .align 4 .b32 table[4] = {10, 20, 30, 40};\n.global .align 8 .b64 pointer[1] = {generic(word)+4};\n\
        .global .align 4 .b32 word[2] = {5, 6};\n\
        .func (.param .b32 r) triple(.param .b32 v) {\n.reg .b32 %r<4>;\nld.param.b32 %r1, [v];\nmul.lo.s32 %r2, %r1, 3;\n\
        st.param.b32 [r], %r2;\nret;\n}\n\
        .visible .entry k(.param .u64 y) {\n.local .align 8 .b8 depot[16];\n.reg .pred %p<4>;\n.reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n\
        ld.param.u64 %rd1, [y];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd1, %rd1, %rd2;\n\
        and.b32 %r2, %r1, 3;\nmul.wide.u32 %rd3, %r2, 4;\nmov.u64 %rd4, table;\nadd.s64 %rd4, %rd4, %rd3;\nld.const.u32 %r3, [%rd4];\n\
        mov.u64 %rd5, pointer;\nld.global.u64 %rd6, [%rd5];\nld.u32 %r4, [%rd6];\nadd.u32 %r3, %r3, %r4;\n\
        mov.u64 %rd7, depot;\ncvta.local.u64 %rd8, %rd7;\nst.u32 [%rd8+8], %r3;\nld.local.u32 %r5, [depot+8];\n\
        {\n.param .b32 p0;\n.param .b32 r0;\nst.param.b32 [p0], %r5;\ncall.uni (r0), triple, (p0);\nld.param.b32 %r6, [r0];\n}\n\
        $ts: .branchtargets $a, $b, $c;\nbrx.idx %r2, $ts;\n$a: add.u32 %r6, %r6, 1000;\nbra $end;\n$b: add.u32 %r6, %r6, 2000;\nbra $end;\n\
        $c: add.u32 %r6, %r6, 3000;\n$end:\nmov.u32 %r7, 0;\n\
        $loop: setp.ge.u32 %p1, %r7, %r1;\n@%p1 bra $out;\nadd.u32 %r7, %r7, 1;\nadd.u32 %r6, %r6, 1;\nbra $loop;\n$out:\n\
        // All lanes have met again.\nactivemask.b32 %r8;\nsetp.ne.u32 %p2, %r8, -1;\n@%p2 trap;\n\
        st.global.u32 [%rd1], %r6;\nret;\n}\n";
    for seed in 0..6 {
        let mut b = Bench::new(source);
        let y = b.empty(256);
        let config = LaunchConfig { block: [64, 1, 1], seed, ..LaunchConfig::default() };
        b.launch("k", &config, &[y.into()]).unwrap();
        for (i, v) in to_u32(&b.read(y, 256)).into_iter().enumerate() {
            let expected = ([10, 20, 30, 40][i % 4] + 6) * 3 + [1000, 2000, 3000, 3000][i % 4] + i as u32;
            assert_eq!(v, expected, "thread {i}");
        }
    }
}
