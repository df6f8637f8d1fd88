//! Whatever the text, parsing ends with a module or a coded error.

use proptest::prelude::*;
use tenon_ptx_sim::{Error, Module};

const SOURCES: &[&str] = &[
    include_str!("../../../testdata/ptx/reverse_block.ptx"),
    include_str!("../../../testdata/ptx/rotate_warp.ptx"),
    include_str!("../../../testdata/ptx/nvvm_gemm_f16_128x128x32.ptx"),
];

fn parse(text: &str) {
    if let Err(e) = Module::parse(text) {
        assert!(matches!(e.code(), "E0801" | "E0802"), "{e}");
        assert!(!e.to_string().is_empty() && e.help().is_some());
    }
}

fn body(text: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a) {{\n.reg .pred %p<4>;\n.reg .b16 %h<4>;\n\
         .reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n{text}\n}}"
    )
}

const WORDS: &[&str] = &[
    "ld",
    "st",
    "mov",
    "add",
    "mul",
    "mad",
    "cvt",
    "setp",
    "mma",
    "shfl",
    "bar",
    "cp",
    "atom",
    "ldmatrix",
    ".global",
    ".shared",
    ".async",
    ".sync",
    ".u32",
    ".s32",
    ".f32",
    ".f16x2",
    ".b64",
    ".v4",
    ".wide",
    ".lo",
    ".rn",
    ".aligned",
    "%r1",
    "%rd1",
    "%p1",
    "%h1",
    "[%rd1]",
    "[%r1+4]",
    "{%r1,%r2}",
    "{",
    "}",
    "(",
    ")",
    ",",
    ";",
    ":",
    "@%p1",
    "!",
    "-",
    "0x10",
    "0f3F800000",
    "1.5",
    "a",
    "$l",
    "bra",
    "ret",
    "call",
    ".reg",
    ".loc",
    ".section",
    ".entry",
    ".func",
    ".param",
    "=",
    "<",
    ">",
    "\"x\"",
    "|",
    "+",
    "%tid.x",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "\\PC{0,400}") {
        parse(&text);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_words(words in prop::collection::vec(prop::sample::select(WORDS), 0..80)) {
        let text = words.join(" ");
        parse(&text);
        parse(&body(&text));
        parse(&body(&words.concat()));
    }

    #[test]
    fn changed_kernels(which in 0..SOURCES.len(), edits in prop::collection::vec((any::<prop::sample::Index>(), 0..3u8, any::<u8>()), 1..6)) {
        let mut bytes = SOURCES[which].as_bytes().to_vec();
        for (at, kind, value) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = value,
                1 => { bytes.remove(at); }
                _ => bytes.truncate(at.max(1)),
            }
        }
        parse(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn absurd_sizes_and_depths_are_refused() {
    let deep = "{".repeat(100_000);
    parse(&body(&deep));
    parse(&body(&format!("mov.b32 %r1, {deep}")));
    parse(&body(".reg .b32 %x<4294967295>;"));
    parse(&body(".local .b8 x[4294967295];"));
    parse(&body(".shared .b8 x[18446744073709551615];"));
    parse(".version 8.0\n.target sm_80\n.global .b8 x[9999999999999][9999999999];");
    parse(&body(&".param .b8 p[4000];".repeat(10_000)));
    // Device functions that call each other grow without end when inlined.
    let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n");
    for i in 0..40 {
        let call = if i == 0 { "ret;".to_owned() } else { format!("call f{};\n", i - 1).repeat(4) };
        text += &format!(".func f{i}() {{\n{call}\n}}\n");
    }
    assert!(matches!(Module::parse(&text), Err(Error::Parse { .. } | Error::Instruction { .. })));
}

#[test]
fn what_is_not_known_is_named_with_its_line() {
    for (text, named) in [
        ("frobnicate.b32 %r1, %r2;", "unknown instruction"),
        ("add.u32.sideways %r1, %r2, %r3;", "sideways"),
        ("add.b32 %r1, %r2, %r3;", "B32"),
        ("add.u64 %r1, %r2, %r3;", "32 bits"),
        ("add.u32 %r1, %r9, %r3;", "%r9"),
        ("mul.u32 %r1, %r2, %r3;", ".lo"),
        ("bra $nowhere;", "$nowhere"),
        ("fma.f32 %r1, %r2, %r3, %r1;", "rounding"),
        ("cvt.rn.f32.f16 %r1, %h1, %h2;", "operands"),
        ("ld.global.v4.b64 {%rd1,%rd1,%rd2,%rd3}, [%rd1];", "16 bytes"),
        (
            "mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32 {%r1,%r1,%r1,%r1},{%r1,%r1,%r1,%r1},{%r1,%r1},{%r1,%r1,%r1,%r1};",
            "row.col",
        ),
        ("tcgen05.fence::before_thread_sync;", "unknown instruction"),
        ("call (%r1), printf, (%r2);", "printf"),
    ] {
        let Err(Error::Instruction { line, message, .. }) = Module::parse(&body(text)) else { panic!("{text}") };
        assert_eq!(line, 9, "{text}");
        assert!(message.contains(named), "{text}: {message}");
    }
}
