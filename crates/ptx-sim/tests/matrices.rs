//! `mma.sync`, `ldmatrix` and friends against the definition of the matrices.

use half::{bf16, f16};
use tenon_ptx_sim::LaunchConfig;

use crate::support::{Bench, Numbers, to_f32, to_u32};

/// How elements of an operand are spread over lanes, as the PTX ISA tables say, written out once more from them.
#[derive(Clone, Copy)]
struct Case {
    shape: &'static str,
    m: usize,
    k: usize,
    types: &'static str,
    /// Bits of an element of A and B.
    bits: usize,
    float: bool,
}

/// Value of an element of A (1) or B (2).
fn value(case: &Case, operand: usize, raw: u32) -> f64 {
    match (case.types.split('.').nth(operand).unwrap(), case.bits) {
        ("f16", _) => f16::from_bits(raw as u16).to_f64(),
        ("bf16", _) => bf16::from_bits(raw as u16).to_f64(),
        ("tf32", _) => f64::from(f32::from_bits(raw & 0xffff_e000)),
        ("s8", _) => f64::from(raw as u8 as i8),
        ("u8", _) => f64::from(raw as u8),
        _ => f64::from((raw << 28) as i32 >> 28),
    }
}

#[test]
fn products() {
    let cases = [
        Case { shape: "m16n8k16", m: 16, k: 16, types: "f32.f16.f16.f32", bits: 16, float: true },
        Case { shape: "m16n8k8", m: 16, k: 8, types: "f32.f16.f16.f32", bits: 16, float: true },
        Case { shape: "m16n8k16", m: 16, k: 16, types: "f32.bf16.bf16.f32", bits: 16, float: true },
        Case { shape: "m16n8k8", m: 16, k: 8, types: "f32.tf32.tf32.f32", bits: 32, float: true },
        Case { shape: "m16n8k4", m: 16, k: 4, types: "f32.tf32.tf32.f32", bits: 32, float: true },
        Case { shape: "m16n8k32", m: 16, k: 32, types: "s32.s8.s8.s32", bits: 8, float: false },
        Case { shape: "m16n8k16", m: 16, k: 16, types: "s32.u8.s8.s32", bits: 8, float: false },
        Case { shape: "m8n8k16", m: 8, k: 16, types: "s32.s8.s8.s32", bits: 8, float: false },
        Case { shape: "m16n8k64", m: 16, k: 64, types: "s32.s4.s4.s32", bits: 4, float: false },
    ];
    for case in cases {
        let per = 32 / case.bits;
        let mut n = Numbers::new(case.k as u64);
        let mut element = || match (case.float, case.bits) {
            (true, 16) if case.types.contains("bf16") => u32::from(bf16::from_f32(n.unit()).to_bits()),
            (true, 16) => u32::from(f16::from_f32(n.unit()).to_bits()),
            (true, _) => n.unit().to_bits(),
            (false, bits) => n.bits() >> (32 - bits),
        };
        let a: Vec<u32> = (0..case.m * case.k).map(|_| element()).collect();
        let b: Vec<u32> = (0..case.k * 8).map(|_| element()).collect();
        // Registers of A: row g and g + 8, then the next 4·per columns; of B: the next 4·per rows.
        let (na, nb, nc) = (case.m / 8 * case.k / (4 * per), case.k / (4 * per), case.m / 4);
        let pack = |read: &dyn Fn(usize) -> u32| (0..per).fold(0u32, |w, e| w | read(e) << (case.bits * e).min(31));
        let mut words = Vec::new();
        for lane in 0..32 {
            let (g, t) = (lane / 4, lane % 4);
            for r in 0..na {
                let (row, base) = if case.m == 16 { (g + 8 * (r % 2), r / 2) } else { (g, r) };
                words.push(pack(&|e| a[row * case.k + base * 4 * per + t * per + e]));
            }
            for r in 0..nb {
                words.push(pack(&|e| b[(r * 4 * per + t * per + e) * 8 + g]));
            }
        }
        let names = |from: usize, count: usize, p: &str| {
            format!("{{{}}}", (from..from + count).map(|i| format!("%{p}{i}")).collect::<Vec<_>>().join(", "))
        };
        let loads: String = (0..na + nb).map(|i| format!("ld.global.b32 %r{i}, [%rd1+{}];\n", 4 * i)).collect();
        let stores: String = (0..nc).map(|i| format!("st.global.b32 [%rd2+{}], %c{i};\n", 4 * i)).collect();
        let zero: String =
            (0..nc).map(|i| format!("mov.b32 %c{i}, {};\n", if case.float { "0f40000000" } else { "2" })).collect();
        let source = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 y) {{\n.reg .b32 %r<32>, %c<8>;\n\
             .reg .b64 %rd<8>;\nld.param.u64 %rd1, [x];\nld.param.u64 %rd2, [y];\nmov.u32 %r20, %tid.x;\n\
             mad.wide.u32 %rd1, %r20, {}, %rd1;\nmad.wide.u32 %rd2, %r20, {}, %rd2;\n{loads}{zero}\
             mma.sync.aligned.{}.row.col.{} {}, {}, {}, {};\n{stores}ret;\n}}\n",
            4 * (na + nb),
            4 * nc,
            case.shape,
            case.types,
            names(0, nc, "c"),
            names(0, na, "r"),
            names(na, nb, "r"),
            names(0, nc, "c"),
        );
        let mut bench = Bench::new(&source);
        let x = bench.buffer(&words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>());
        let y = bench.empty(32 * nc * 4);
        let config = LaunchConfig { block: [32, 1, 1], ..LaunchConfig::default() };
        let counters = bench.launch("k", &config, &[x.into(), y.into()]).unwrap();
        assert_eq!(counters.mma_macs, (case.m * 8 * case.k) as u64);
        let raw = bench.read(y, 32 * nc * 4);
        for lane in 0..32 {
            for r in 0..nc {
                let (row, column) = (lane / 4 + 8 * (r / 2), 2 * (lane % 4) + r % 2);
                let exact = 2.0
                    + (0..case.k)
                        .map(|k| value(&case, 1, a[row * case.k + k]) * value(&case, 2, b[k * 8 + column]))
                        .sum::<f64>();
                let at = lane * nc + r;
                if case.float {
                    assert!((f64::from(to_f32(&raw)[at]) - exact).abs() < 1e-6, "{} {}", case.shape, case.types);
                } else {
                    assert_eq!(f64::from(to_u32(&raw)[at] as i32), exact, "{} {}", case.shape, case.types);
                }
            }
        }
    }
}

/// Four 8×8 matrices of distinct halves: each lane holds what the ISA's figure shows, straight and transposed.
#[test]
fn matrix_loads() {
    for flip in [false, true] {
        let trans = if flip { ".trans" } else { "" };
        let source = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 16 .b8 s[512];\n\
             .visible .entry k(.param .u64 y) {{\n.reg .b32 %r<16>;\n.reg .b64 %rd<8>;\nld.param.u64 %rd1, [y];\nmov.u32 %r1, %tid.x;\n\
             shl.b32 %r2, %r1, 4;\nmov.b32 %r3, s;\nadd.s32 %r3, %r3, %r2;\nshl.b32 %r4, %r1, 3;\n\
             // Row l of the 32 rows holds 8 l, 8 l + 1, …\n\
             mad.lo.u32 %r5, %r4, 65537, 65536;\nadd.u32 %r6, %r5, 131074;\nadd.u32 %r7, %r6, 131074;\nadd.u32 %r8, %r7, 131074;\n\
             st.shared.v4.b32 [%r3], {{%r5, %r6, %r7, %r8}};\nbar.warp.sync -1;\n\
             ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r9, %r10, %r11, %r12}}, [%r3];\n\
             mad.wide.u32 %rd1, %r1, 16, %rd1;\nst.global.v4.b32 [%rd1], {{%r9, %r10, %r11, %r12}};\nret;\n}}\n"
        );
        let mut b = Bench::new(&source);
        let y = b.empty(512);
        let config = LaunchConfig { block: [32, 1, 1], ..LaunchConfig::default() };
        let counters = b.launch("k", &config, &[y.into()]).unwrap();
        assert_eq!(counters.shared_extra_wavefronts, 0);
        let words = to_u32(&b.read(y, 512));
        for lane in 0..32u32 {
            for matrix in 0..4u32 {
                let element = |row: u32, column: u32| {
                    if flip { (matrix * 8 + column) * 8 + row } else { (matrix * 8 + row) * 8 + column }
                };
                let expected = element(lane / 4, lane % 4 * 2) | element(lane / 4, lane % 4 * 2 + 1) << 16;
                assert_eq!(words[(lane * 4 + matrix) as usize], expected, "lane {lane}, matrix {matrix}, {trans}");
            }
        }
    }
}
