//! mbarriers, proxies, warpgroups and clusters: a kernel that uses them together, and what is found when a part of it is missing.

use tenon_ptx_sim::{
    Argument, Error, Fault, FaultKind, LaunchConfig, Module, TensorElement, TensorFill, TensorMap, TensorMapConfig,
    TensorSwizzle,
};

use crate::compilers::tensor_copies;
use crate::support::{Bench, Numbers, half_bytes, half_to_f32, halves, outside, to_u32};

/// One tile of 64×64×128, by a warpgroup: two stages of tensor copies, `wgmma` from shared memory, the result by a tensor copy.
const TILE: &str = "
.version 8.6
.target sm_90a
.address_size 64
.shared .align 1024 .b8 s[40960];
.shared .align 8 .b8 bars[16];
.visible .entry tile(.param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128], .param .align 64 .b8 mc[128]) .reqntid 128
{
    .reg .pred %p<8>;
    .reg .b32 %r<128>;
    .reg .b64 %rd<16>;
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 0;
    mov.b64 %rd1, ma;
    cvta.param.u64 %rd1, %rd1;
    mov.b64 %rd2, mb;
    cvta.param.u64 %rd2, %rd2;
    mov.b64 %rd3, mc;
    cvta.param.u64 %rd3, %rd3;
    @%p1 mbarrier.init.shared::cta.b64 [bars], 1; // init
    @%p1 mbarrier.init.shared::cta.b64 [bars+8], 1;
    fence.mbarrier_init.release.cluster;
    bar.sync 0; // after init
    mov.b32 %r2, 0;
    mov.b32 %r3, 64;
    @!%p1 bra $loaded;
    mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [bars], 16384; // expect
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1, {%r2, %r2}], [bars]; // first
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s+8192], [%rd2, {%r2, %r2}], [bars];
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd4, [bars+8], 16384;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s+16384], [%rd1, {%r3, %r2}], [bars+8];
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s+24576], [%rd2, {%r3, %r2}], [bars+8];
$loaded:
ZERO
    wgmma.fence.sync.aligned; // fence
$wait0: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [bars], 0; // wait
    @!%p2 bra $wait0; // wait
    mov.u32 %r10, s;
    mov.b64 %rd5, 0x4000004000000000;
    mov.b64 %rd6, 0x4000004000000200;
    setp.ne.u32 %p3, 0, 0;
MULTIPLY
    wgmma.commit_group.sync.aligned; // commit
$wait1: mbarrier.test_wait.parity.shared::cta.b64 %p2, [bars+8], 0;
    @!%p2 bra $wait1;
    mov.b64 %rd5, 0x4000004000000400;
    mov.b64 %rd6, 0x4000004000000600;
MULTIPLY
    wgmma.commit_group.sync.aligned; // commit
    wgmma.wait_group.sync.aligned 0; // done
    shr.u32 %r11, %r1, 5;
    shl.b32 %r11, %r11, 11;
    and.b32 %r12, %r1, 31;
    shr.u32 %r13, %r12, 2;
    shl.b32 %r13, %r13, 7;
    and.b32 %r14, %r12, 3;
    shl.b32 %r14, %r14, 2;
    add.u32 %r11, %r11, %r13;
    add.u32 %r11, %r11, %r14;
    add.u32 %r10, %r10, %r11;
STORE
    fence.proxy.async.shared::cta; // publish
    bar.sync 0; // before the store
    @!%p1 bra $end;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd3, {%r2, %r2}], [s+32768];
    cp.async.bulk.commit_group; // stored
    cp.async.bulk.wait_group.read 0; // stored
$end:
    ret;
}
";

fn tile_source() -> String {
    let list = (0..32).map(|i| format!("%r{}", 40 + i)).collect::<Vec<_>>().join(", ");
    let zero: String = (0..32).map(|i| format!("mov.b32 %r{}, 0;\n", 40 + i)).collect();
    // Each step of k is 32 bytes further on in the rows.
    let multiply: String = (0..4)
        .map(|_| {
            format!(
                "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{list}}}, %rd5, %rd6, %p3, 1, 1, 0, 0;\n\
                 add.s64 %rd5, %rd5, 2;\nadd.s64 %rd6, %rd6, 2;\nsetp.eq.u32 %p3, 0, 0;\n"
            )
        })
        .collect();
    let store: String = (0..16)
        .map(|i| {
            let (rows, columns) = (i % 2 * 8, i / 2 * 8);
            format!(
                "cvt.rn.f16x2.f32 %r20, %r{}, %r{};\nst.shared.b32 [%r10+{}], %r20;\n",
                41 + 2 * i,
                40 + 2 * i,
                32768 + rows * 128 + columns * 2
            )
        })
        .collect();
    TILE.replace("ZERO", &zero).replace("MULTIPLY", &multiply).replace("STORE", &store)
}

fn tile(source: &str, seed: u64) -> Result<(Vec<f32>, Vec<f64>), Error> {
    let mut b = Bench::new(source);
    let mut numbers = Numbers::new(seed);
    let (a, w) = (halves(&numbers.units(64 * 128)), halves(&numbers.units(64 * 128)));
    let [pa, pw] = [&a, &w].map(|v| b.buffer(&half_bytes(v)));
    let c = b.empty(64 * 64 * 2);
    let map = |address: u64, columns: u32, swizzle: TensorSwizzle| -> Argument {
        let config = TensorMapConfig {
            element: TensorElement::F16,
            address,
            sizes: vec![columns, 64],
            strides: vec![u64::from(columns) * 2],
            box_sizes: vec![64, 64],
            element_strides: vec![1, 1],
            swizzle,
            fill: TensorFill::Zero,
        };
        TensorMap::encode(&config).unwrap().into()
    };
    let args = [
        map(pa.address(), 128, TensorSwizzle::Bytes128),
        map(pw.address(), 128, TensorSwizzle::Bytes128),
        map(c.address(), 64, TensorSwizzle::None),
    ];
    let config = LaunchConfig { block: [128, 1, 1], seed, instruction_budget: 10_000_000, ..LaunchConfig::default() };
    b.launch("tile", &config, &args)?;
    let dot = |i: usize, j: usize| (0..128).map(|k| f64::from(a[i * 128 + k]) * f64::from(w[j * 128 + k])).sum();
    let exact = (0..64 * 64).map(|e| dot(e / 64, e % 64)).collect();
    Ok((half_to_f32(&b.read(c, 64 * 64 * 2)), exact))
}

fn fault<T>(r: Result<T, Error>) -> Fault {
    match r.map(drop).unwrap_err() {
        Error::Fault(f) => *f,
        other => panic!("{other}"),
    }
}

/// The source without the lines that end in a comment.
fn without(source: &str, comment: &str) -> String {
    let end = format!("// {comment}");
    assert!(source.lines().any(|l| l.ends_with(&end)), "{comment}");
    source.lines().filter(|l| !l.ends_with(&end)).map(|l| format!("{l}\n")).collect()
}

#[test]
fn a_tile_is_what_the_formula_gives() {
    let source = tile_source();
    for seed in 0..8 {
        let (got, exact) = tile(&source, seed).unwrap();
        let d = crate::support::distance(&got, &exact);
        assert!(d < 1e-3, "{d}");
    }
}

#[test]
fn what_is_left_out_is_found_by_name() {
    use FaultKind::*;
    let source = tile_source();
    let replaced = |from: &str, to: &str| {
        assert!(source.contains(from), "{from}");
        source.replacen(from, to, 1)
    };
    let cases: &[(String, &[FaultKind])] = &[
        (without(&source, "fence"), &[WgmmaFenceMissing]),
        (without(&source, "done"), &[WgmmaNotWaited]),
        (without(&source, "commit"), &[WgmmaNotWaited]),
        (without(&source, "publish"), &[ProxyFenceMissing]),
        (without(&source, "before the store"), &[RaceShared, AsyncReadOverwritten]),
        (without(&source, "stored"), &[AsyncCopyNotWaited]),
        // Nobody arrives: the bytes that came were not expected.
        (without(&source, "expect"), &[MbarrierTransaction]),
        // Fewer bytes: the phase ends after the first copy. More: it never ends.
        (replaced("[bars], 16384", "[bars], 8192"), &[MbarrierTransaction, AsyncReadOverwritten]),
        (replaced("[bars], 16384", "[bars], 8208"), &[MbarrierTransaction]),
        (replaced("[bars], 16384", "[bars], 16400"), &[MbarrierTransaction]),
        (without(&source, "first"), &[MbarrierTransaction]),
        (without(&source, "init"), &[MbarrierUninitialised]),
        (without(&source, "after init"), &[MbarrierUninitialised, RaceShared]),
        // The phase ends at once, and who comes first depends on the schedule.
        (
            replaced(
                "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [bars], 16384;",
                "mbarrier.arrive.shared::cta.b64 _, [bars];",
            ),
            &[MbarrierTransaction, AsyncReadOverwritten, RaceShared, UninitialisedShared],
        ),
        (without(&source, "wait"), &[AsyncCopyNotWaited, AsyncReadOverwritten, RaceShared]),
        // Before the copies the wait does not wait, after them it never ends.
        (
            replaced("%p2, [bars], 0;", "%p2, [bars], 1;"),
            &[AsyncCopyNotWaited, AsyncReadOverwritten, RaceShared, Deadlock],
        ),
        (replaced("%p2, [bars], 0;", "%p2, [bars], 2;"), &[InvalidOperand]),
        // The second stage overwrites what the first is read from.
        (replaced("[s+16384], [%rd1", "[s], [%rd1"), &[AsyncCopyOverwritten]),
        // One warp goes its own way.
        (
            replaced("wgmma.commit_group", "setp.lt.u32 %p4, %r1, 96;\n@%p4 bra $end;\nwgmma.commit_group"),
            &[WarpgroupDivergence],
        ),
        (
            replaced(
                "setp.ne.u32 %p3, 0, 0;",
                "setp.lt.u32 %p4, %r1, 32;\n@%p4 sub.s64 %rd6, %rd6, 64;\nsetp.ne.u32 %p3, 0, 0;",
            ),
            &[WarpgroupDivergence],
        ),
    ];
    for (number, (text, kinds)) in cases.iter().enumerate() {
        for seed in 0..8 {
            let f = fault(tile(text, seed));
            assert!(kinds.contains(&f.kind), "case {number}, seed {seed}: {f}");
            assert_eq!(fault(tile(text, seed)).to_string(), f.to_string());
        }
    }
}

/// Faults planted into kernels of another compiler.
#[test]
fn what_is_left_out_of_outside_kernels_is_found() {
    let Some(source) = outside("matmul_tma_128x128x64.sm90.ptx") else { return };
    let cut = |part: &str| -> String {
        assert!(source.contains(part), "{part}");
        source.lines().filter(|l| !l.contains(part)).map(|l| format!("{l}\n")).collect()
    };
    use FaultKind::*;
    let cases: &[(String, &[FaultKind])] = &[
        (cut("fence.proxy.async"), &[ProxyFenceMissing]),
        (cut("fence.proxy.tensormap"), &[TensorMapFenceMissing]),
        (cut("wgmma.wait_group"), &[WgmmaNotWaited, AsyncReadOverwritten]),
        (cut("wgmma.fence"), &[WgmmaFenceMissing]),
        (cut("mbarrier.arrive.expect_tx"), &[MbarrierTransaction]),
        (source.replace(", 32768;", ", 32752;"), &[MbarrierTransaction]),
        (source.replace(", 32768;", ", 32784;"), &[MbarrierTransaction]),
        (cut("cp.async.bulk.commit_group;"), &[AsyncCopyNotWaited]),
    ];
    for (number, (text, kinds)) in cases.iter().enumerate() {
        for seed in 0..3 {
            let f = fault(tensor_copies(text, [128, 128, 192], seed));
            assert!(kinds.contains(&f.kind), "case {number}, seed {seed}: {f}");
        }
    }
}

/// A kernel of the given body over a pointer, with shared memory of 1024 bytes and an mbarrier.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.shared .align 128 .b8 s[1024];\n.shared .align 8 .b64 bar;\n\
         .visible .entry k(.param .u64 a) {{\n.reg .pred %p<8>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n\
         ld.param.u64 %rd1, [a];\nmov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\nsetp.lt.u32 %p2, %r1, 32;\n{body}\nret;\n}}\n"
    )
}

fn run(body: &str, threads: u32, seed: u64) -> Result<Vec<u32>, Error> {
    let mut b = Bench::new(&kernel(body));
    let p = b.buffer(&[0; 1024]);
    let config =
        LaunchConfig { block: [threads, 1, 1], seed, instruction_budget: 10_000_000, ..LaunchConfig::default() };
    b.launch("k", &config, &[p.into()])?;
    Ok(to_u32(&b.read(p, 1024)))
}

const INIT: &str = "@%p1 mbarrier.init.shared.b64 [bar], 64;\nbar.sync 0;\n";

/// Stores a 32-bit register of each thread.
fn store(register: &str) -> String {
    format!("mul.wide.u32 %rd9, %r1, 4;\nadd.s64 %rd9, %rd1, %rd9;\nst.global.b32 [%rd9], {register};")
}

#[test]
fn arrivals_and_waits() {
    // Every thread arrives and waits with the state it got; what others wrote before is there.
    let neighbour = "xor.b32 %r3, %r1, 32;\nshl.b32 %r3, %r3, 2;\nmov.u32 %r4, s;\nadd.u32 %r3, %r3, %r4;\n";
    let write = "shl.b32 %r5, %r1, 2;\nadd.u32 %r5, %r5, %r4;\nst.shared.b32 [%r5], %r1;\n";
    for wait in [
        "mbarrier.arrive.shared.b64 %rd2, [bar];\n$w: mbarrier.test_wait.shared.b64 %p3, [bar], %rd2;\n@!%p3 bra $w;",
        "mbarrier.arrive.release.cluster.shared::cta.b64 %rd2, [bar];\n\
         $w: mbarrier.try_wait.acquire.cluster.shared::cta.b64 %p3, [bar], %rd2;\n@!%p3 bra $w;",
        "mbarrier.arrive.shared.b64 _, [bar], 1;\n$w: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0, 1000;\n@!%p3 bra $w;",
    ] {
        let body = format!("{INIT}{neighbour}{write}{wait}\nld.shared.b32 %r6, [%r3];\n{}", store("%r6"));
        for seed in 0..8 {
            let got = run(&body, 64, seed).unwrap();
            assert!((0..64).all(|i| got[i] == i as u32 ^ 32), "{got:?}");
            // Relaxed: nothing is ordered.
            if wait.contains(".release.cluster") {
                let relaxed = body.replace("arrive.release", "arrive.relaxed");
                assert_eq!(fault(run(&relaxed, 64, seed)).kind, FaultKind::RaceShared);
            }
        }
    }
    // A generic address; many phases; counts of several; threads that leave for good; pending counts.
    let body = format!(
        "@%p1 mbarrier.init.shared.b64 [bar], 4;\nbar.sync 0;\nmov.u64 %rd3, bar;\ncvta.shared.u64 %rd3, %rd3;\nmov.u32 %r7, 0;\n\
         @!%p1 bra $e;\n\
         $l: mbarrier.arrive.b64 %rd2, [%rd3], 3;\nmbarrier.pending_count.b64 %r8, %rd2;\n\
         mbarrier.arrive.noComplete.b64 %rd4, [%rd3], 1;\n$e: {}",
        store("%r8")
    );
    assert_eq!(fault(run(&body, 1, 0)).kind, FaultKind::MbarrierCount);
    let phases = "@%p1 mbarrier.init.shared.b64 [bar], 4;\nbar.sync 0;\nmov.u64 %rd3, bar;\ncvta.shared.u64 %rd3, %rd3;\nmov.u32 %r7, 0;\n\
         mov.u32 %r8, 0;\n\
         $l: mbarrier.arrive.noComplete.b64 %rd2, [%rd3], 3;\nmbarrier.pending_count.b64 %r9, %rd2;\nadd.u32 %r8, %r8, %r9;\n"
        .to_owned()
        + "mbarrier.arrive.b64 %rd4, [%rd3];\nand.b32 %r10, %r7, 1;\nmbarrier.test_wait.parity.b64 %p3, [%rd3], %r10;\n\
           @!%p3 trap;\nmbarrier.test_wait.b64 %p3, [%rd3], %rd4;\n@!%p3 trap;\nadd.u32 %r7, %r7, 1;\n\
           setp.lt.u32 %p4, %r7, 5;\n@%p4 bra $l;\n"
        + &store("%r8");
    assert_eq!(run(&phases, 1, 0).unwrap()[0], 20);
    // The first warp drops out after a phase: the second goes on alone.
    let drop = format!(
        "{INIT}@!%p2 bra $s;\nmbarrier.arrive_drop.shared.b64 _, [bar];\nbra $e;\n$s: mov.u32 %r7, 0;\n\
         $l: mbarrier.arrive.shared.b64 %rd2, [bar];\n$w: mbarrier.try_wait.shared.b64 %p3, [bar], %rd2;\n@!%p3 bra $w;\n\
         add.u32 %r7, %r7, 1;\nsetp.lt.u32 %p4, %r7, 3;\n@%p4 bra $l;\n$e: ret;"
    );
    for seed in 0..4 {
        run(&drop, 64, seed).unwrap();
    }
    // A wait that gives up goes on: its thread arrives itself.
    let give_up = "@%p1 mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\n\
        $w: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;\n@%p3 bra $e;\nmbarrier.arrive.shared.b64 _, [bar];\nbra $w;\n$e:";
    run(give_up, 1, 0).unwrap();
    // Others may still use an mbarrier that is invalidated.
    let early = format!("{INIT}mbarrier.arrive.shared.b64 _, [bar];\n@%p1 mbarrier.inval.shared.b64 [bar];");
    for seed in 0..8 {
        let f = fault(run(&early, 64, seed));
        assert!(matches!(f.kind, FaultKind::RaceShared | FaultKind::MbarrierUninitialised), "{f}");
    }
    // Bytes counted by hand.
    let hand = "@%p1 mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\nmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 48;\n\
        mbarrier.arrive.shared.b64 _, [bar];\nmbarrier.test_wait.parity.shared.b64 %p3, [bar], 0;\n@%p3 trap;\n\
        mbarrier.complete_tx.shared::cta.b64 [bar], 48;\nmbarrier.test_wait.parity.shared.b64 %p3, [bar], 0;\n@!%p3 trap;";
    run(hand, 1, 0).unwrap();
}

#[test]
fn copies_of_threads_are_tracked() {
    let body = |arrive: &str, wait: &str| {
        format!(
            "{INIT}shl.b32 %r3, %r1, 2;\nmov.u32 %r4, s;\nadd.u32 %r3, %r3, %r4;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd2, %rd1, %rd2;\n\
             st.global.b32 [%rd2], %r1;\ncp.async.ca.shared.global [%r3], [%rd2], 4;\n{arrive}\n{wait}\n\
             shl.b32 %r5, %r1, 2;\nxor.b32 %r5, %r5, 128;\nadd.u32 %r5, %r5, %r4;\nld.shared.b32 %r6, [%r5];\n{}",
            store("%r6").replace("[%rd9]", "[%rd9+512]")
        )
    };
    let wait = "$w: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;\n@!%p3 bra $w;";
    let counted = "cp.async.mbarrier.arrive.noinc.shared.b64 [bar];";
    let uncounted = "cp.async.mbarrier.arrive.shared::cta.b64 [bar];\nmbarrier.arrive.shared.b64 _, [bar];";
    for seed in 0..6 {
        for arrive in [counted, uncounted] {
            let got = run(&body(arrive, wait), 64, seed).unwrap();
            assert!((0..64).all(|i| got[128 + i] == i as u32 ^ 32));
            let f = fault(run(&body(arrive, ""), 64, seed));
            assert!(
                matches!(
                    f.kind,
                    FaultKind::AsyncCopyNotWaited | FaultKind::RaceShared | FaultKind::UninitialisedShared
                ),
                "{f}"
            );
        }
        let f = fault(run(&body("mbarrier.arrive.shared.b64 _, [bar];", wait), 64, seed));
        assert_eq!(f.kind, FaultKind::AsyncCopyNotWaited);
    }
}

#[test]
fn clusters_of_one_block() {
    let body = format!(
        "mov.u32 %r3, %cluster_ctarank;\nmov.u32 %r4, %cluster_nctarank;\nmov.u32 %r6, s;\nmapa.shared::cluster.u32 %r7, %r6, %r3;\n\
         shl.b32 %r8, %r1, 2;\nadd.u32 %r7, %r7, %r8;\nst.shared::cluster.b32 [%r7], %r1;\n\
         barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n\
         xor.b32 %r9, %r8, 128;\nadd.u32 %r9, %r9, %r6;\nld.shared.b32 %r10, [%r9];\nadd.u32 %r10, %r10, %r4;\n\
         barrier.cluster.arrive;\nbarrier.cluster.wait;\nsetmaxnreg.dec.sync.aligned.u32 24;\ngriddepcontrol.wait;\n{}",
        store("%r10")
    );
    for seed in 0..4 {
        let got = run(&body, 64, seed).unwrap();
        assert!((0..64).all(|i| got[i] == (i as u32 ^ 32) + 1));
        let open = body.replace("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n", "");
        let f = fault(run(&open, 64, seed));
        assert_eq!(f.kind, FaultKind::RaceShared);
    }
    let source = kernel("").replace(") {\n.reg", ") .reqnctapercluster 2, 1, 1 {\n.reg");
    let mut b = Bench::new(&source);
    assert_eq!(b.module.entry("k").unwrap().cluster(), Some([2, 1, 1]));
    let p = b.buffer(&[0; 4]);
    let error = b.launch("k", &LaunchConfig::default(), &[p.into()]).unwrap_err();
    assert_eq!(error.code(), "E0804");
    Module::parse(&kernel("setmaxnreg.inc.sync.aligned.u32 25;")).map(drop).unwrap_err();
}

/// Kinds of fault that [`every_kind_of_fault_is_found`] raises.
pub const KINDS: &[FaultKind] = &[
    FaultKind::AsyncReadOverwritten,
    FaultKind::ProxyFenceMissing,
    FaultKind::MbarrierUninitialised,
    FaultKind::MbarrierMisuse,
    FaultKind::MbarrierCount,
    FaultKind::MbarrierTransaction,
    FaultKind::WgmmaFenceMissing,
    FaultKind::WgmmaNotWaited,
    FaultKind::WarpgroupDivergence,
    FaultKind::TensorMapInvalid,
    FaultKind::TensorMapFenceMissing,
];

#[test]
fn every_kind_of_fault_is_found() {
    use FaultKind::*;
    let multiply = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r2, %r3, %r4, %r5}, {%r6, %r7, %r8, %r9}, 0x800000000, 1, 1, 1, 0;\n";
    let filled = "st.shared.v4.b32 [s], {0, 0, 0, 0};\n";
    let fill = "shl.b32 %r10, %r1, 2;\nmov.u32 %r11, s;\nadd.u32 %r10, %r10, %r11;\nst.shared.b32 [%r10], 0;\nfence.proxy.async;\nbar.sync 0;\n";
    let fence = "wgmma.fence.sync.aligned;\n";
    let end = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
    let store = "fence.proxy.async;\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [s], 16;\ncp.async.bulk.commit_group;\n";
    let stored = "cp.async.bulk.wait_group 0;\n";
    let one = "mbarrier.init.shared.b64 [bar], 1;\n";
    let cases: Vec<(FaultKind, String, u32)> = vec![
        (AsyncReadOverwritten, format!("{filled}{store}st.shared.b32 [s+12], 1;"), 1),
        (AsyncReadOverwritten, format!("{fill}{fence}{multiply}wgmma.commit_group.sync.aligned;\n@%p1 st.shared.b32 [s], 1;"), 128),
        (AsyncCopyNotWaited, format!("{filled}{store}"), 1),
        (ProxyFenceMissing, format!("{filled}{}{stored}", store.replace("fence.proxy.async;", "fence.proxy.async.global;")), 1),
        (ProxyFenceMissing, format!("{}{fence}{multiply}{end}", fill.replace("fence.proxy.async;", "")), 128),
        (
            ProxyFenceMissing,
            format!(
                "{one}{filled}mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n\
                 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%rd1], 16, [bar];"
            ),
            1,
        ),
        (MbarrierUninitialised, "mbarrier.arrive.shared.b64 %rd2, [bar];".into(), 1),
        (MbarrierUninitialised, format!("{one}mbarrier.inval.shared.b64 [bar];\nmbarrier.arrive.shared.b64 %rd2, [bar];"), 1),
        (MbarrierMisuse, format!("{one}{one}"), 1),
        (MbarrierMisuse, format!("{one}st.shared.b32 [bar], 1;"), 1),
        (MbarrierMisuse, format!("{one}ld.shared.b64 %rd2, [bar];"), 1),
        (
            MbarrierMisuse,
            format!(
                "{one}mbarrier.arrive.shared.b64 %rd2, [bar];\nmbarrier.arrive.shared.b64 %rd3, [bar];\n\
                 mbarrier.test_wait.shared.b64 %p3, [bar], %rd2;"
            ),
            1,
        ),
        (MbarrierCount, one.replace("1;", "0;"), 1),
        (MbarrierCount, one.replace("1;", "1048576;"), 1),
        (MbarrierCount, format!("{one}mbarrier.arrive.shared.b64 %rd2, [bar], 2;"), 1),
        (MbarrierCount, format!("{one}mbarrier.expect_tx.shared.b64 [bar], 1048576;"), 1),
        (MbarrierTransaction, format!("{one}mbarrier.complete_tx.shared.b64 [bar], 16;"), 1),
        (MbarrierTransaction, format!("{one}mbarrier.complete_tx.shared.b64 [bar], 16;\nmbarrier.arrive.shared.b64 _, [bar];"), 1),
        (Deadlock, format!("{one}$w: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;\n@!%p3 bra $w;"), 1),
        (Deadlock, format!("{one}$w: mbarrier.test_wait.parity.shared.b64 %p3, [bar], 0;\n@!%p3 bra $w;"), 1),
        (Deadlock, format!("{INIT}@!%p2 bra $b;\n$w: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;\n@!%p3 bra $w;\n$b: bar.sync 1;"), 64),
        (Misaligned, "mbarrier.init.shared.b64 [s+4], 1;".into(), 1),
        (OutOfBoundsShared, "mov.u32 %r2, 65536;\nmbarrier.init.shared.b64 [%r2], 1;".into(), 1),
        (InvalidAddress, "mbarrier.init.b64 [%rd1], 1;".into(), 1),
        (WgmmaFenceMissing, format!("{fill}{multiply}{end}"), 128),
        (WgmmaFenceMissing, format!("{fill}{fence}mov.b32 %r3, 0;\n{multiply}{end}"), 128),
        (WgmmaFenceMissing, format!("{fill}{fence}mov.b32 %r8, 0;\n{multiply}{end}"), 128),
        (WgmmaFenceMissing, format!("{fill}{fence}{multiply}{end}add.u32 %r12, %r2, 1;\n{multiply}{end}"), 128),
        (
            WgmmaFenceMissing,
            format!("{fill}{fence}{multiply}{end}{}", multiply.replace("n8k16.f32", "n16k16.f16")),
            128,
        ),
        (WgmmaNotWaited, format!("{fill}{fence}{multiply}add.u32 %r12, %r2, 1;\n{end}"), 128),
        (WgmmaNotWaited, format!("{fill}{fence}{multiply}mov.b32 %r5, 1;\n{end}"), 128),
        (WgmmaNotWaited, format!("{fill}{fence}{multiply}mov.b32 %r7, 1;\n{end}"), 128),
        (
            WgmmaNotWaited,
            format!(
                "{fill}{fence}{multiply}wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\nmov.b32 %r5, 1;"
            ),
            128,
        ),
        (WarpgroupDivergence, format!("{fill}{fence}{multiply}{end}"), 96),
        (WarpgroupDivergence, format!("{fill}{fence}@%p2 bra $e;\n{multiply}{end}$e:"), 128),
        (WarpSyncMask, format!("{fill}{fence}@%p1 bra $e;\n{multiply}{end}$e:"), 128),
        (TensorMapInvalid, format!("{one}cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {{%r1}}], [s];"), 1),
        (
            TensorMapFenceMissing,
            "mov.b64 %rd2, 0;\nst.global.b64 [%rd1], %rd2;\ncp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r1}], [s];".into(),
            1,
        ),
        (
            TensorMapFenceMissing,
            "tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 0;\n\
             cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r1}], [s];"
                .into(),
            1,
        ),
        (InvalidOperand, "mov.u32 %r2, 1;\nmapa.shared::cluster.u32 %r3, %r1, %r2;".into(), 1),
        (InvalidOperand, "barrier.cluster.wait;".into(), 32),
        (InvalidOperand, "barrier.cluster.arrive;\nbarrier.cluster.arrive;".into(), 32),
        (BarrierDivergence, "@%p1 bra $e;\nbarrier.cluster.arrive.aligned;\n$e:".into(), 32),
        (
            InvalidOperand,
            format!(
                "{one}mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\nmov.u16 %h1, 3;\n\
                 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [s], [%rd1], 16, [bar], %h1;"
            ),
            1,
        ),
    ];
    for (kind, body, threads) in &cases {
        let body = format!(".reg .b16 %h<4>;\n{body}");
        for seed in 0..6 {
            let f = fault(run(&body, *threads, seed));
            assert_eq!(f.kind, *kind, "{body}: {f}");
            assert!(f.to_string().starts_with(kind.name()));
        }
    }
    for kind in KINDS {
        assert!(cases.iter().any(|c| c.0 == *kind), "{kind} has no test");
    }
}

#[test]
fn what_is_not_known_is_refused() {
    for line in [
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [s], [s+512], 16, [bar];",
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [s], [%rd1, {%r1, %r1, %r1}], [bar], {%r1};",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1, {%r1}], [bar];",
        "cp.async.bulk.tensor.6d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1, {%r1}], [bar];",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [s], 16;",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [s], %r1, [bar];",
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [s], 5, %r1;",
        "tensormap.replace.tile.rank.shared::cta.b1024.b64 [s], %rd1;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar];",
        "mbarrier.try_wait.parity.global.b64 %p1, [%rd1], 0;",
        "fence.proxy.texture;",
        "wgmma.fence;",
    ] {
        let error = Module::parse(&kernel(line)).map(drop).unwrap_err();
        assert_eq!(error.code(), "E0802", "{line}");
    }
}
