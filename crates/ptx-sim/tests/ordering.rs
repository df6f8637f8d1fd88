//! What orders the accesses of blocks to global memory, and what does not (PTX ISA, "Memory Consistency Model").

use tenon_ptx_sim::{Checks, Counters, Error, FaultKind, LaunchConfig};

use crate::support::Bench;

fn kernel(body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_80\n.address_size 64\n.shared .align 16 .b8 s[64];\n\
         .visible .entry k(.param .u64 a) {{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n\
         ld.param.u64 %rd1, [a];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n{body}\nret;\n}}\n"
    )
}

/// Runs blocks of two warps. `%r1` is the thread, `%r2` the block, `%rd1` an array of zeros; the word at its end is a counter.
fn run(body: &str, blocks: u32, seed: u64, threads: usize) -> Result<Counters, Error> {
    let mut b = Bench::new(&kernel(body));
    let p = b.buffer(&[0; 4096]);
    let checks = Checks { uninitialised_global: true, ..LaunchConfig::default().checks };
    let config =
        LaunchConfig { seed, threads, checks, grid: [blocks, 1, 1], block: [64, 1, 1], ..LaunchConfig::default() };
    b.launch("k", &config, &[p.into()])
}

fn schedules(body: &str, blocks: u32) -> Vec<Result<(), FaultKind>> {
    let once = |seed, threads| match run(body, blocks, seed, threads) {
        Ok(_) => Ok(()),
        Err(Error::Fault(fault)) => Err(fault.kind),
        Err(error) => panic!("{error}\n{body}"),
    };
    (0..6).map(|seed| once(seed, 1)).chain((0..2).map(|seed| once(seed, 4))).collect()
}

fn is_right(body: &str, blocks: u32) {
    let found = schedules(body, blocks);
    assert!(found.iter().all(Result::is_ok), "{found:?}\n{body}");
}

/// Every schedule shows the race.
fn races(body: &str, blocks: u32) {
    let found = schedules(body, blocks);
    assert!(found.iter().all(|one| *one == Err(FaultKind::RaceGlobal)), "{found:?}\n{body}");
}

/// Each thread of four blocks writes a word; the block that counts three others before it reads all words, thread by thread another warp's of each block.
fn last_block(before: &str, atomic: &str, after: &str) -> String {
    format!(
        "mad.lo.u32 %r3, %r2, 64, %r1;
        mul.wide.u32 %rd3, %r3, 4;
        add.s64 %rd3, %rd1, %rd3;
        st.global.u32 [%rd3], %r3;
        {before}
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra $n;
        {atomic}
        st.shared.u32 [s], %r4;
        $n:
        {after}
        bar.sync 0;
        ld.shared.u32 %r4, [s];
        setp.ne.u32 %p1, %r4, 3;
        @%p1 exit;
        xor.b32 %r3, %r1, 32;
        mul.wide.u32 %rd3, %r3, 4;
        add.s64 %rd3, %rd1, %rd3;
        ld.global.u32 %r5, [%rd3];
        ld.global.u32 %r5, [%rd3+256];
        ld.global.u32 %r5, [%rd3+512];
        ld.global.u32 %r5, [%rd3+768];"
    )
}

#[test]
fn the_last_block_sees_what_was_released() {
    let (barrier, fence) = ("bar.sync 0;", "fence.acq_rel.gpu;");
    let fenced = format!("{barrier}\n{fence}");
    let weak_atomic = "atom.global.inc.u32 %r4, [%rd1+4092], 3;";
    for (before, atomic, after) in [
        (barrier, "atom.acq_rel.gpu.global.inc.u32 %r4, [%rd1+4092], 3;", ""),
        (barrier, "atom.acq_rel.sys.global.add.u32 %r4, [%rd1+4092], 1;", ""),
        // A fence of the thread behind the barrier is enough, since the barrier orders what the others wrote before it.
        (fenced.as_str(), weak_atomic, fence),
        ("membar.gl;\nbar.sync 0;", &format!("fence.sc.gpu;\n{weak_atomic}"), "membar.sys;"),
        (barrier, &format!("fence.release.gpu;\n{weak_atomic}"), "fence.acquire.gpu;"),
        // The two halves may be of two kinds.
        (barrier, "atom.release.gpu.global.add.u32 %r4, [%rd1+4092], 1;", fence),
        (&fenced, "atom.acquire.gpu.global.add.u32 %r4, [%rd1+4092], 1;", ""),
    ] {
        is_right(&last_block(before, atomic, after), 4);
    }
}

#[test]
fn half_an_order_is_none() {
    let (barrier, fence) = ("bar.sync 0;", "fence.acq_rel.gpu;");
    let fenced = format!("{barrier}\n{fence}");
    let weak_atomic = "atom.global.inc.u32 %r4, [%rd1+4092], 3;";
    for (before, atomic, after) in [
        (barrier, weak_atomic, ""),
        // Released and not acquired, acquired and not released.
        (barrier, "atom.release.gpu.global.inc.u32 %r4, [%rd1+4092], 3;", ""),
        (barrier, "atom.acquire.gpu.global.inc.u32 %r4, [%rd1+4092], 3;", ""),
        (fenced.as_str(), weak_atomic, ""),
        (barrier, weak_atomic, fence),
        (&fenced, weak_atomic, "fence.release.gpu;"),
        (&format!("{barrier}\nfence.acquire.gpu;"), weak_atomic, fence),
        // Fences of the block's scope.
        (&format!("{barrier}\nmembar.cta;"), weak_atomic, fence),
        (&fenced, weak_atomic, "fence.acq_rel.cta;"),
        // Without a barrier, a thread releases what it wrote itself.
        ("", "atom.acq_rel.gpu.global.inc.u32 %r4, [%rd1+4092], 3;", ""),
        // A fence on the wrong side of the write or of the atomic.
        (barrier, &format!("{weak_atomic}\n{fence}"), ""),
        // Not atomic towards other blocks.
        (barrier, "atom.acq_rel.cta.global.inc.u32 %r4, [%rd1+4092], 3;", ""),
    ] {
        races(&last_block(before, atomic, after), 4);
    }
}

/// Block 0 writes a word and publishes it; the other blocks wait for that, and read.
fn published(before: &str, publish: &str, wait: &str, after: &str) -> String {
    format!(
        "setp.ne.u32 %p1, %r1, 0;
        @%p1 exit;
        setp.ne.u32 %p1, %r2, 0;
        @%p1 bra $w;
        st.global.u32 [%rd1], 7;
        {before}
        {publish} [%rd1+64], 1;
        bra $e;
        $w: {wait} %r3, [%rd1+64];
        setp.eq.u32 %p2, %r3, 0;
        @%p2 bra $w;
        {after}
        ld.global.u32 %r4, [%rd1];
        $e:"
    )
}

#[test]
fn flags_publish_what_is_before_them() {
    let fence = "fence.acq_rel.gpu;";
    for (before, publish, wait, after) in [
        ("", "st.release.gpu.global.u32", "ld.acquire.gpu.global.u32", ""),
        (fence, "st.relaxed.gpu.global.u32", "ld.acquire.gpu.global.u32", ""),
        ("", "st.release.gpu.global.u32", "ld.relaxed.gpu.global.u32", fence),
        ("membar.gl;", "st.volatile.global.u32", "ld.volatile.global.u32", "membar.gl;"),
    ] {
        is_right(&published(before, publish, wait, after), 3);
    }
    for (before, publish, wait, after) in [
        ("", "st.relaxed.gpu.global.u32", "ld.acquire.gpu.global.u32", ""),
        ("", "st.release.gpu.global.u32", "ld.relaxed.gpu.global.u32", ""),
        ("", "st.volatile.global.u32", "ld.volatile.global.u32", ""),
        // A weak store is no publication.
        (fence, "st.global.u32", "ld.acquire.gpu.global.u32", ""),
        ("", "st.release.cta.global.u32", "ld.acquire.gpu.global.u32", ""),
    ] {
        races(&published(before, publish, wait, after), 3);
    }
}

#[test]
fn an_order_is_handed_on_by_blocks_between() {
    // 0 tells 1, which tells 2: by flags 64 and 128.
    let chain = |release: &str| {
        format!(
            "setp.ne.u32 %p1, %r1, 0;
            @%p1 exit;
            setp.eq.u32 %p1, %r2, 1;
            @%p1 bra $one;
            setp.eq.u32 %p1, %r2, 2;
            @%p1 bra $two;
            st.global.u32 [%rd1], 7;
            st.release.gpu.global.u32 [%rd1+64], 1;
            bra $e;
            $one: ld.acquire.gpu.global.u32 %r3, [%rd1+64];
            setp.eq.u32 %p2, %r3, 0;
            @%p2 bra $one;
            st.{release}.gpu.global.u32 [%rd1+128], 1;
            bra $e;
            $two: ld.acquire.gpu.global.u32 %r3, [%rd1+128];
            setp.eq.u32 %p2, %r3, 0;
            @%p2 bra $two;
            ld.global.u32 %r4, [%rd1];
            $e:"
        )
    };
    is_right(&chain("release"), 3);
    races(&chain("relaxed"), 3);
}

#[test]
fn writes_behind_a_release_are_not_released() {
    // The second store is of another epoch.
    let late = |second: &str| {
        published("", "st.release.gpu.global.u32", "ld.acquire.gpu.global.u32", "")
            .replace("bra $e;", &format!("{second}\nbra $e;"))
    };
    is_right(&late("st.global.u32 [%rd1+4], 7;"), 3);
    races(&late("st.global.u32 [%rd1], 8;"), 3);
}

/// Blocks write words of their own, meet, and read those of all; then once more, which overwrites what all have read. Each meeting has its own counter, so that
/// nothing but a meeting between the rounds orders the second writes behind the first reads.
fn rounds(meets_between: bool) -> String {
    let meet = |number: u32| {
        let counter = 4092 - 4 * number;
        format!(
            "bar.sync 0;
            @%p1 bra $n{number};
            atom.acq_rel.gpu.global.add.u32 %r6, [%rd1+{counter}], 1;
            $w{number}: ld.acquire.gpu.global.u32 %r6, [%rd1+{counter}];
            setp.lt.u32 %p2, %r6, 3;
            @%p2 bra $w{number};
            $n{number}: bar.sync 0;"
        )
    };
    let round = |number: u32| {
        format!(
            "mul.wide.u32 %rd3, %r2, 4;
            add.s64 %rd3, %rd1, %rd3;
            @!%p1 st.global.u32 [%rd3], {number};
            {}
            ld.global.u32 %r5, [%rd1];
            ld.global.u32 %r5, [%rd1+4];
            ld.global.u32 %r5, [%rd1+8];",
            meet(number)
        )
    };
    let between = if meets_between { meet(3) } else { String::new() };
    format!("setp.ne.u32 %p1, %r1, 0;\n{}\n{between}\n{}", round(1), round(2))
}

#[test]
fn what_all_blocks_have_read_is_overwritten_behind_a_barrier_of_all() {
    is_right(&rounds(true), 3);
    races(&rounds(false), 3);
}

#[test]
fn atomics_and_weak_accesses_need_order_too() {
    // Block 0 reads what all add to, or writes it.
    for access in ["ld.global.u32 %r3, [%rd1];", "st.global.u32 [%rd1], 5;"] {
        let body = |tail: &str| {
            format!("atom.global.add.u32 %r3, [%rd1], 1;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 exit;\n{access}\n{tail}")
        };
        let found = schedules(&body(""), 4);
        assert!(found.iter().any(|one| *one == Err(FaultKind::RaceGlobal)), "{found:?}");
    }
    // With an order there is none: the last one of 256 threads reads the sum.
    is_right(
        "atom.acq_rel.gpu.global.add.u32 %r3, [%rd1], 1;\nsetp.ne.u32 %p1, %r3, 255;\n@%p1 exit;\nld.global.u32 %r4, [%rd1];\nst.global.u32 [%rd1], 0;",
        4,
    );
}
