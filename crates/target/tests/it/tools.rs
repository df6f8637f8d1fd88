//! ptxas and nvdisasm on modules of this test, and on programs that only pretend to be them. Where the real ones are not installed,
//! their tests are skipped with a note.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::{fits, installed};
use tenon_target::{Architecture, Nvdisasm, Ptxas, Severity, Target, TargetError};

/// A kernel with a loop, 1 KiB of shared memory and a stack frame, and one with nothing.
const MODULE: &str = "
.address_size 64
.visible .entry sum(.param .u64 values, .param .u32 count)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .f32 %f<3>;
  .reg .b64 %rd<6>;
  .shared .align 4 .b8 shared[1024];
  .local .align 4 .b8 frame[64];
  ld.param.u64 %rd1, [values];
  ld.param.u32 %r1, [count];
  cvta.to.global.u64 %rd2, %rd1;
  mov.f32 %f1, 0f00000000;
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd3, %r2, 4;
$loop:
  ld.volatile.global.f32 %f2, [%rd2];
  fma.rn.f32 %f1, %f2, %f2, %f1;
  add.s64 %rd2, %rd2, 4;
  add.s32 %r1, %r1, -1;
  setp.ne.s32 %p1, %r1, 0;
  @%p1 bra $loop;
  mov.u64 %rd4, frame;
  add.s64 %rd4, %rd4, %rd3;
  st.local.f32 [%rd4], %f1;
  mov.u32 %r3, %ctaid.x;
  mul.wide.u32 %rd3, %r3, 4;
  mov.u64 %rd4, frame;
  add.s64 %rd4, %rd4, %rd3;
  st.local.f32 [%rd4], %f2;
  mov.u32 %r3, %ntid.x;
  mul.wide.u32 %rd3, %r3, 4;
  mov.u64 %rd4, frame;
  add.s64 %rd4, %rd4, %rd3;
  mov.u32 %r4, shared;
  shl.b32 %r5, %r2, 2;
  add.s32 %r6, %r4, %r5;
  st.volatile.shared.f32 [%r6], %f1;
  bar.sync 0;
  cvta.to.global.u64 %rd5, %rd1;
  ld.local.f32 %f2, [%rd4];
  st.global.f32 [%rd5], %f2;
  ret;
}
.visible .entry nothing() { ret; }
";

fn module(architecture: &Architecture) -> String {
    format!(".version {}\n.target {}{MODULE}", architecture.ptx_version(), architecture.name)
}

/// A program that says it is of a release and then does as `script` says.
fn pretended(folder: &tempfile::TempDir, release: &str, script: &str) -> PathBuf {
    let path = folder.path().join("tool");
    let text =
        format!("#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'release {release}, V0'; exit 0; fi\n{script}\n");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn figures_of_every_architecture() {
    let Some(ptxas) = installed(Ptxas::locate()) else { return };
    for architecture in Architecture::all() {
        if !fits(&ptxas, architecture) {
            continue;
        }
        let assembly = ptxas.assemble(&module(architecture), architecture).unwrap();
        assert!(assembly.cubin.starts_with(b"\x7fELF"));
        assert_eq!(assembly.spills(), 0);
        assert_eq!(assembly.performance_losses().count(), 0);
        let sum = assembly.kernel("sum").unwrap();
        assert_eq!((sum.stack, sum.shared_memory, sum.barriers), (64, 1024, 1), "{}", architecture.name);
        assert!((8..=32).contains(&sum.registers), "{sum:?}");
        let nothing = assembly.kernel("nothing").unwrap();
        assert!(nothing.registers <= sum.registers && nothing.shared_memory == 0 && nothing.stack == 0);
        assert!(assembly.kernel("other").is_none());
    }
}

#[test]
fn listings_of_every_architecture() {
    let (Some(ptxas), Some(nvdisasm)) = (installed(Ptxas::locate()), installed(Nvdisasm::locate())) else { return };
    for architecture in Architecture::all() {
        if !fits(&ptxas, architecture) {
            continue;
        }
        let assembly = ptxas.assemble(&module(architecture), architecture).unwrap();
        let listing = nvdisasm.disassemble(&assembly.cubin, architecture);
        if architecture.nvdisasm.ceiling.is_some_and(|ceiling| nvdisasm.release() > ceiling) {
            let error = listing.unwrap_err();
            assert_eq!(error.code(), "E0611");
            assert!(error.to_string().contains(&architecture.name.to_string()) && error.help().is_some());
            continue;
        }
        let listing = listing.unwrap();
        let [nothing, sum] = &listing[..] else { panic!("{listing:?}") };
        assert_eq!((nothing.kernel.as_str(), sum.kernel.as_str()), ("nothing", "sum"));
        assert!(nothing.count("EXIT") == 1 && nothing.hottest_loop.is_none(), "{nothing:?}");
        assert_eq!((sum.count("BAR"), sum.count("STS"), sum.count("STL"), sum.count("NOP")), (1, 1, 2, 0), "{sum:?}");
        let hottest = sum.hottest_loop.as_ref().unwrap();
        let counts = sum.counts_of(hottest);
        // ptxas may unroll, but each turn loads and multiplies.
        assert!(
            counts["FFMA"] >= 1 && counts["FFMA"] == counts.get("LDG").or(counts.get("LD")).copied().unwrap_or(0),
            "{counts:?}"
        );
        assert!(!counts.contains_key("BAR") && hottest.instructions < sum.instructions.len());
        assert_eq!(counts.values().sum::<usize>(), hottest.instructions);
    }
}

#[test]
fn bad_ptx_is_refused_with_its_lines() {
    let Some(ptxas) = installed(Ptxas::locate()) else { return };
    let target = Target::default_target();
    if !fits(&ptxas, target.architecture) {
        return;
    }
    let bad = module(target.architecture).replace("  add.s32 %r1, %r1, -1;", "  add.s99 %r1, %r1, -1;");
    let error = ptxas.assemble(&bad, target).unwrap_err();
    assert_eq!(error.code(), "E0609");
    let TargetError::PtxRefused { messages, .. } = &error else { panic!("{error}") };
    let line = bad.lines().position(|line| line.contains("s99")).unwrap() + 1;
    assert_eq!((messages[0].line, messages[0].severity), (u32::try_from(line).ok(), Severity::Error));
    assert!(error.to_string().contains(&format!("line {line}: ")) && !error.to_string().contains("/tmp"), "{error}");
    for garbage in ["", "\0\0\0", ".version 99.9\n.target sm_80\n", &"(".repeat(100_000)] {
        assert_eq!(ptxas.assemble(garbage, target).unwrap_err().code(), "E0609");
    }
}

#[test]
fn bad_cubins_are_refused() {
    let Some(nvdisasm) = installed(Nvdisasm::locate()) else { return };
    for garbage in [&b""[..], b"no ELF", b"\x7fELF\x02\x01\x01"] {
        let error = nvdisasm.disassemble(garbage, Target::default_target()).unwrap_err();
        assert_eq!(error.code(), "E0612");
        assert!(error.help().is_some() && !error.to_string().contains("/tmp"), "{error}");
    }
}

#[test]
fn releases_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (release, target, needed) in
        [("13.0", "v100", "12.9 or older"), ("12.3", "l40s", "12.4 or newer"), ("11.2", "t4", "11.8 or newer")]
    {
        let ptxas = Ptxas::at(pretended(&folder, release, "exit 1")).unwrap();
        assert_eq!(ptxas.release().to_string(), release);
        let error = ptxas.assemble("", Target::find(target).unwrap()).unwrap_err();
        assert_eq!(error.code(), "E0608");
        assert!(
            error.to_string().contains(needed) && error.help().unwrap().contains("cargo xtask setup --ptxas"),
            "{error}"
        );
    }
}

#[test]
fn tools_that_misbehave_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let assemble = |script: &str| {
        let ptxas = Ptxas::at(pretended(&folder, "12.9", script)).unwrap();
        ptxas.with_time_limit(Duration::from_millis(500)).assemble("", Target::default_target()).unwrap_err()
    };
    assert_eq!(assemble("sleep 5").code(), "E0607");
    assert_eq!(assemble("exit 0").code(), "E0606", "no cubin was written");
    assert_eq!(
        assemble("echo \"ptxas info : Compiling entry function 'k' for 'sm_80'\"; echo > module.cubin").code(),
        "E0610"
    );
    let refused = assemble("echo killed >&2; exit 137");
    assert!(refused.code() == "E0609" && refused.to_string().ends_with(": killed"), "{refused}");

    let disassemble = |script: &str| {
        let nvdisasm = Nvdisasm::at(pretended(&folder, "12.9", script)).unwrap();
        nvdisasm.with_time_limit(Duration::from_millis(500)).disassemble(b"", Target::default_target()).unwrap_err()
    };
    assert_eq!(disassemble("sleep 5").code(), "E0607");
    assert_eq!(disassemble("echo '/*0000*/ EXIT ;'").code(), "E0613");
    assert_eq!(disassemble("exit 1").code(), "E0612");
}

#[test]
fn too_much_ptx_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ptxas = Ptxas::at(pretended(&folder, "12.9", "exit 1")).unwrap();
    let ptx = " ".repeat((256 << 20) + 1);
    let error = ptxas.assemble(&ptx, Target::default_target()).unwrap_err();
    assert_eq!(error.code(), "E0615");
    assert!(error.help().is_some());
}

/// Nothing is left in the folder for temporary files, whether a run succeeds or fails.
#[test]
fn nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("where");
    for end in ["echo x > module.cubin; exit 0", "exit 1", "sleep 5"] {
        let ptxas = Ptxas::at(pretended(&folder, "12.9", &format!("pwd > {}; {end}", record.display()))).unwrap();
        let _ = ptxas.with_time_limit(Duration::from_millis(500)).assemble("", Target::default_target());
        let used = PathBuf::from(fs::read_to_string(&record).unwrap().trim());
        assert!(used != folder.path() && !used.exists(), "{} is left", used.display());
    }
}

/// Kernels of another compiler, with what was counted in their SASS by other means: file, registers, instructions of the hottest
/// loop, and some of these by opcode.
#[test]
fn kernels_of_another_compiler() {
    type Kernel = (&'static str, u32, usize, &'static [(&'static str, usize)]);
    const KERNELS: &[Kernel] = &[
        ("matmul_f16_128x128x32", 252, 173, &[("HMMA", 64), ("LDSM", 16), ("LDGSTS", 8)]),
        ("matmul_f16_bias_gelu_128x128x32", 255, 153, &[("HMMA", 64)]),
        ("flash_fwd_128x64_d64", 255, 702, &[("HMMA", 128), ("MUFU", 68), ("LDSM", 40)]),
    ];
    let (Some(ptxas), Some(nvdisasm)) = (installed(Ptxas::locate()), installed(Nvdisasm::locate())) else { return };
    let root = std::env::var_os("TENON_SHARED").map(PathBuf::from);
    let root = root.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    let target = Target::find("sm_80").unwrap();
    if !root.join("ptx").is_dir() || !fits(&ptxas, target.architecture) {
        println!("skipped: there are no kernels in {}, or ptxas does not fit", root.join("ptx").display());
        return;
    }
    for (name, registers, instructions, opcodes) in KERNELS {
        let ptx = fs::read_to_string(root.join("ptx").join(format!("{name}.sm80.ptx"))).unwrap();
        let assembly = ptxas.assemble(&ptx, target).unwrap();
        let listing = nvdisasm.disassemble(&assembly.cubin, target).unwrap();
        let hottest = listing[0].hottest_loop.as_ref().unwrap();
        assert_eq!((assembly.kernels[0].registers, hottest.instructions), (*registers, *instructions), "{name}");
        let counts = listing[0].counts_of(hottest);
        for (opcode, count) in *opcodes {
            assert_eq!(counts[opcode], *count, "{name}: {opcode}");
        }
        // ptxas 12.9 spills in this one alone.
        assert_eq!(assembly.spills() > 0, name.contains("gelu"), "{name}");
    }
}
