//! Correct kernels with something taken out: each fault is found, by name, under every seed.

use tenon_ptx_sim::{Argument, Error, Fault, FaultKind, LaunchConfig};

use crate::support::{Bench, Numbers, f32_bytes, half_bytes, to_u32};

const REVERSE: &str = include_str!("../../../testdata/ptx/reverse_block.ptx");
const ROTATE: &str = include_str!("../../../testdata/ptx/rotate_warp.ptx");
const GEMM: &str = include_str!("../../../testdata/ptx/nvvm_gemm_f16_128x128x32.ptx");

fn without(source: &str, line: &str) -> String {
    assert!(source.contains(line), "{line}");
    source.replace(line, "")
}

fn block(threads: u32) -> LaunchConfig {
    LaunchConfig { block: [threads, 1, 1], ..LaunchConfig::default() }
}

fn reverse(source: &str, n: u32, seed: u64) -> Result<Vec<u32>, Error> {
    let mut b = Bench::new(source);
    let x: Vec<u8> = (0..n).flat_map(u32::to_le_bytes).collect();
    let (px, py) = (b.buffer(&x), b.empty(x.len()));
    let config = LaunchConfig { seed, ..block(256) };
    b.launch("reverse", &config, &[px.into(), py.into(), Argument::U32(n)])?;
    Ok(to_u32(&b.read(py, x.len())))
}

fn rotate(source: &str, seed: u64) -> Result<Vec<u32>, Error> {
    let mut b = Bench::new(source);
    let x: Vec<u8> = (0..64u32).flat_map(u32::to_le_bytes).collect();
    let px = b.buffer(&x);
    let config = LaunchConfig { seed, dynamic_shared_bytes: 256, ..block(64) };
    b.launch("rotate", &config, &[px.into()])?;
    Ok(to_u32(&b.read(px, x.len())))
}

fn gemm(source: &str, seed: u64, threads: usize) -> Result<Vec<u8>, Error> {
    let (m, n, k) = (256usize, 256usize, 160usize);
    let mut b = Bench::new(source);
    let mut numbers = Numbers::new(1);
    let [pa, pw] = [m * k, k * n].map(|len| b.buffer(&half_bytes(&numbers.units(len))));
    let c = b.empty(m * n * 2);
    let int = |v: usize| Argument::I32(v as i32);
    let args = [pa.into(), pw.into(), c.into(), Argument::Pointer(0), int(m), int(n), int(k), int(k), int(n), int(n)];
    let config = LaunchConfig { grid: [2, 2, 1], dynamic_shared_bytes: 49152, seed, threads, ..block(128) };
    b.launch("gemm", &config, &args)?;
    Ok(b.read(c, m * n * 2))
}

fn fault<T>(r: Result<T, Error>) -> Fault {
    match r {
        Err(Error::Fault(f)) => *f,
        Err(e) => panic!("expected a fault, found {e}"),
        Ok(_) => panic!("expected a fault, the kernel ran"),
    }
}

#[test]
fn the_kernels_are_right_as_they_are() {
    for seed in 0..8 {
        let expected: Vec<u32> = (0..256).map(|i| 255 - i).collect();
        assert_eq!(reverse(REVERSE, 256, seed).unwrap(), expected);
        let turned: Vec<u32> = (0..64).map(|i| i / 32 * 32 + (i % 32 + 4) % 32).collect();
        assert_eq!(rotate(ROTATE, seed).unwrap(), turned);
    }
    assert_eq!(reverse(REVERSE, 1, 3).unwrap(), [0]);
}

#[test]
fn schedules_and_host_threads_change_nothing() {
    let first = gemm(GEMM, 0, 1).unwrap();
    for seed in 1..6 {
        assert_eq!(gemm(GEMM, seed, 1 + seed as usize % 3).unwrap(), first);
    }
}

#[test]
fn a_missing_barrier_is_a_race() {
    for seed in 0..16 {
        let f = fault(reverse(&without(REVERSE, "bar.sync 0;"), 256, seed));
        assert_eq!(f.kind, FaultKind::RaceShared);
        assert!(f.location.as_deref().is_some_and(|l| l == "reverse.mlir:14:7" || l == "reverse.mlir:12:3"), "{f}");
        let open = without(GEMM, "bar.sync \t0;");
        let f = fault(gemm(&open, seed, 1));
        // Which one depends on the schedule: a reader that comes early finds a copy in flight, one that comes late an unordered write.
        assert!(matches!(f.kind, FaultKind::RaceShared | FaultKind::AsyncCopyNotWaited), "{f}");
        // The seed alone decides the schedule of a block, so the fault is the same one again.
        assert_eq!(fault(gemm(&open, seed, 1)).to_string(), f.to_string());
        let f = fault(gemm(&open, seed, 2));
        assert!(matches!(f.kind, FaultKind::RaceShared | FaultKind::AsyncCopyNotWaited), "{f}");
    }
}

#[test]
fn a_missing_wait_leaves_poison() {
    for seed in 0..4 {
        let f = fault(gemm(&without(GEMM, "cp.async.wait_group \t1;"), seed, 1));
        assert_eq!(f.kind, FaultKind::AsyncCopyNotWaited, "{f}");
    }
}

#[test]
fn a_missing_warp_barrier_is_a_race() {
    for line in ["bar.warp.sync -1; // after the write", "bar.warp.sync 0xffffffff; // after the read"] {
        for seed in 0..8 {
            assert_eq!(fault(rotate(&without(ROTATE, line), seed)).kind, FaultKind::RaceShared, "{line}");
        }
    }
}

#[test]
fn a_missing_mask_leaves_the_buffer() {
    let unmasked = REVERSE.replace("@!%p1 ", "");
    let f = fault(reverse(&unmasked, 200, 1));
    assert_eq!(f.kind, FaultKind::OutOfBoundsGlobal);
    assert_eq!(f.thread, [200, 0, 0]);
    assert_eq!(f.instruction, "ld.global.b32 %r3, [%rd4];");
    let only_store = REVERSE.replace("@!%p1 st", "st");
    assert_eq!(fault(reverse(&only_store, 255, 1)).kind, FaultKind::OutOfBoundsGlobal);
    // The copy's size mask: rows beyond K.
    let size = GEMM.lines().find(|l| l.contains("selp.b32") && l.contains(", 16, 0,")).unwrap();
    let register = size.split_whitespace().nth(1).unwrap();
    let open = GEMM.replace(size, &format!("\tmov.b32 {register} 16;"));
    let all_open: String = open
        .lines()
        .map(|l| {
            if l.contains("selp.b32") && l.contains(", 16, 0,") {
                format!("\tmov.b32 {} 16;\n", l.split_whitespace().nth(1).unwrap())
            } else {
                format!("{l}\n")
            }
        })
        .collect();
    assert_eq!(fault(gemm(&all_open, 0, 1)).kind, FaultKind::OutOfBoundsGlobal);
}

/// A kernel of the given body over two pointers and shared memory of 64 bytes.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 16 .b8 s[64];\n.global .align 4 .b32 word;\n\
         .const .align 4 .b32 fixed = 7;\n\
         .visible .entry k(.param .u64 a, .param .u64 b) {{\n.reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<16>;\n\
         .reg .b64 %rd<16>;\n.reg .f32 %f<8>;\n.local .align 4 .b8 mine[16];\nld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\n\
         mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n{body}\nret;\n}}\n"
    )
}

fn run(body: &str, config: &LaunchConfig) -> Result<(), Error> {
    let mut b = Bench::new(&kernel(body));
    let p = b.buffer(&f32_bytes(&[1.0; 64]));
    let unwritten = b.empty(256);
    b.launch("k", config, &[p.into(), unwritten.into()]).map(drop)
}

#[test]
fn every_kind_of_fault_is_found() {
    let loop_forever = "$l: add.u32 %r3, %r3, 1;\nbra $l;";
    let cases: &[(FaultKind, &str, u32, u32)] = &[
        (FaultKind::OutOfBoundsGlobal, "ld.global.u32 %r3, [%rd1+256];", 1, 1),
        (FaultKind::OutOfBoundsShared, "st.shared.u32 [s+64], %r1;", 1, 1),
        (FaultKind::OutOfBoundsLocal, "st.local.u32 [mine+16], %r1;", 1, 1),
        (FaultKind::OutOfBoundsParam, "ld.param.u32 %r3, [a+16];", 1, 1),
        (FaultKind::Misaligned, "ld.global.u32 %r3, [%rd1+2];", 1, 1),
        (FaultKind::Misaligned, "st.shared.v4.b32 [s+8], {%r1, %r1, %r1, %r1};", 1, 1),
        (FaultKind::ReadOnlyWrite, "mov.u64 %rd3, fixed;\nst.global.u32 [%rd3], %r1;", 1, 1),
        (FaultKind::UninitialisedShared, "ld.shared.u32 %r3, [s];", 1, 1),
        (FaultKind::UninitialisedShared, "st.shared.u16 [s], 1;\nld.shared.u32 %r3, [s];", 1, 1),
        (FaultKind::UninitialisedGlobal, "ld.global.u32 %r3, [%rd2];", 1, 1),
        (FaultKind::RaceShared, "st.shared.u32 [s], %r1;", 64, 1),
        (FaultKind::RaceShared, "st.shared.u32 [s], %r1;", 2, 1),
        (FaultKind::RaceGlobal, "st.global.u32 [%rd1], %r2;", 1, 2),
        (
            FaultKind::RaceGlobal,
            "mul.wide.u32 %rd3, %r2, 4;\nadd.s64 %rd3, %rd1, %rd3;\nld.global.u32 %r3, [%rd1];\nst.global.u32 [%rd3], %r3;",
            1,
            8,
        ),
        (FaultKind::AsyncCopyNotWaited, "cp.async.ca.shared.global [s], [%rd1], 4;\nld.shared.u32 %r3, [s];", 1, 1),
        (FaultKind::AsyncCopyOverwritten, "cp.async.ca.shared.global [s], [%rd1], 4;\nst.shared.u32 [s], %r1;", 1, 1),
        (FaultKind::BarrierDivergence, "setp.lt.u32 %p1, %r1, 7;\n@%p1 bar.sync 0;", 32, 1),
        (FaultKind::BarrierDivergence, "setp.lt.u32 %p1, %r1, 7;\n@!%p1 bra $e;\nbar.sync 0;\n$e:", 32, 1),
        (
            FaultKind::BarrierDivergence,
            "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $e;\nbar.sync 0, 64;\n$e: bar.sync 0;",
            64,
            1,
        ),
        (FaultKind::Deadlock, "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $e;\nbar.sync 1;\n$e: bar.sync 0;", 64, 1),
        (FaultKind::Deadlock, "setp.lt.u32 %p1, %r1, 32;\n@%p1 exit;\nbar.sync 0, 64;", 64, 1),
        (FaultKind::WarpSyncMask, "shfl.sync.idx.b32 %r3, %r1, 0, 31, 1;", 32, 1),
        (FaultKind::WarpSyncMask, "setp.lt.u32 %p1, %r1, 7;\n@%p1 shfl.sync.idx.b32 %r3, %r1, 0, 31, -1;", 32, 1),
        (FaultKind::WarpSyncMask, "shfl.sync.idx.b32 %r3, %r1, 9, 31, 0xff;", 8, 1),
        (FaultKind::InstructionBudget, loop_forever, 1, 1),
        (FaultKind::Trap, "trap;", 1, 1),
        (FaultKind::InvalidOperand, "bar.sync 16;", 32, 1),
        (FaultKind::InvalidOperand, "bar.sync 0, 33;", 64, 1),
        (FaultKind::InvalidAddress, "mov.b64 %rd3, 64;\nld.u32 %r3, [%rd3];", 1, 1),
    ];
    for &(kind, body, threads, blocks) in cases {
        for seed in 0..3 {
            let config = LaunchConfig { seed, grid: [blocks, 1, 1], instruction_budget: 1_000_000, ..block(threads) };
            let f = fault(run(body, &config));
            assert_eq!(f.kind, kind, "{body}: {f}");
            assert!(f.to_string().starts_with(kind.name()));
        }
    }
    let used: Vec<FaultKind> = cases
        .iter()
        .map(|c| c.0)
        .chain([FaultKind::UseAfterFree])
        .chain(crate::hopper::KINDS.iter().copied())
        .collect();
    for kind in FaultKind::ALL {
        assert!(used.contains(kind), "{kind} has no test");
    }
}

#[test]
fn freed_memory_is_not_used() {
    let mut b = Bench::new(&kernel("ld.global.u32 %r3, [%rd1];"));
    let (p, q) = (b.buffer(&[0; 64]), b.buffer(&[0; 64]));
    b.device.free(p).unwrap();
    assert_eq!(fault(b.launch("k", &block(1), &[p.into(), q.into()])).kind, FaultKind::UseAfterFree);
    assert_eq!(b.device.free(p).unwrap_err().code(), "E0805");
    assert_eq!(b.device.read(q, 60, 5).unwrap_err().code(), "E0805");
    assert!(b.device.allocate(u64::MAX).is_err());
    assert_ne!(p, q);
}

#[test]
fn what_synchronises_is_no_race() {
    let cases: &[(&str, u32, u32)] = &[
        // Threads of different warps meet at a named barrier of their own.
        (
            "shl.b32 %r3, %r1, 0;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [s], 5;\nbar.sync 3, 64;\nld.shared.u32 %r4, [s];",
            64,
            1,
        ),
        (
            "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [s], 0;\nbar.sync 0;\natom.shared.add.u32 %r3, [s], 1;\nbar.sync 0;\nld.shared.u32 %r4, [s];",
            128,
            1,
        ),
        ("atom.global.add.u32 %r3, [%rd1], 1;", 64, 8),
        ("red.global.add.f32 [%rd1], 0f3F800000;", 64, 8),
        // Every lane writes the same value.
        ("st.shared.u32 [s], 9;\nbar.sync 0;\nld.shared.u32 %r3, [s];", 64, 1),
        // A block that comes last sees what the others published before their atomic.
        (
            "mul.wide.u32 %rd3, %r2, 4;\nadd.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4+4], %r2;\nmembar.gl;\n\
          atom.global.add.u32 %r3, [word], 1;\nsetp.ne.u32 %p1, %r3, 3;\n@%p1 ret;\nmembar.gl;\n\
          ld.global.u32 %r4, [%rd1+4];\nld.global.u32 %r5, [%rd1+16];",
            1,
            4,
        ),
        // A warp spins on a lane of its own, a block on another block.
        (
            "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra $w;\natom.global.exch.b32 %r3, [word], 1;\nbra $e;\n\
          $w: ld.volatile.global.u32 %r4, [word];\nsetp.eq.u32 %p2, %r4, 0;\n@%p2 bra $w;\n$e:",
            32,
            1,
        ),
        (
            "setp.ne.u32 %p1, %r2, 3;\n@%p1 bra $w;\natom.global.exch.b32 %r3, [word], 1;\nbra $e;\n\
          $w: ld.volatile.global.u32 %r4, [word];\nsetp.eq.u32 %p2, %r4, 0;\n@%p2 bra $w;\n$e:",
            1,
            4,
        ),
    ];
    for &(body, threads, blocks) in cases {
        for seed in 0..4 {
            let config = LaunchConfig { seed, grid: [blocks, 1, 1], threads: 1, ..block(threads) };
            let config = LaunchConfig {
                checks: tenon_ptx_sim::Checks { uninitialised_global: true, ..config.checks },
                ..config
            };
            run(body, &config).unwrap_or_else(|e| panic!("{body}: {e}"));
        }
    }
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let mut b = Bench::new(&kernel(""));
    let p = b.buffer(&[0; 4]);
    let code = |r: Result<_, Error>| r.map(drop).unwrap_err().code();
    assert_eq!(code(b.launch("none", &block(1), &[])), "E0803");
    assert_eq!(code(b.launch("k", &block(1), &[p.into()])), "E0804");
    assert_eq!(code(b.launch("k", &block(1), &[p.into(), Argument::U32(1)])), "E0804");
    let args = [p.into(), p.into()];
    assert_eq!(code(b.launch("k", &block(1025), &args)), "E0804");
    assert_eq!(code(b.launch("k", &block(0), &args)), "E0804");
    let shared = LaunchConfig { dynamic_shared_bytes: (227 << 10) + 1, ..block(1) };
    assert_eq!(code(b.launch("k", &shared, &args)), "E0804");
    let grid = LaunchConfig { grid: [u32::MAX, 1, 1], ..block(1) };
    assert_eq!(code(b.launch("k", &grid, &args)), "E0804");
    b.launch("k", &block(1), &args).unwrap();
}

#[test]
fn every_code_has_its_page() {
    let folder = crate::support::repository().join("docs/errors");
    let codes = ["E0801", "E0802", "E0803", "E0804", "E0805", "E0806"].into_iter();
    for code in codes.chain(FaultKind::ALL.iter().map(|k| k.code())) {
        let text = std::fs::read_to_string(folder.join(format!("{code}.md"))).unwrap();
        assert!(text.starts_with(&format!("# {code}: ")), "{code}");
    }
}
