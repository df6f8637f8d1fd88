//! What the tests share: building kernels, compiling them, assembling PTX.

use std::path::{Path, PathBuf};
use std::process::Command;

use tenon_hw_dialect::TileBuilder;
use tenon_ir::llvm::NvptxTarget;
use tenon_ir::{Builder, Module, PrintOptions, Session, Value};
use tenon_lowering::expand::{KernelInfo, TargetInfo, expand_kernel};
use tenon_target::Architecture;

/// An architecture, for expansion and for LLVM.
pub fn on(architecture: &str) -> (TargetInfo, NvptxTarget) {
    let architecture = Architecture::find(architecture).unwrap();
    let version = architecture.ptx_version();
    let ptx_version = version.major * 10 + version.minor;
    (TargetInfo::of(architecture, 1), NvptxTarget { processor: architecture.llvm.processor.clone(), ptx_version })
}

/// The target of most tests.
pub fn target() -> TargetInfo {
    on("sm_80").0
}

/// The same for LLVM.
pub fn nvptx() -> NvptxTarget {
    on("sm_80").1
}

/// Root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A kernel with `pointers` pointers and `extents` i64 extents, its body built by `build`; the text of its module.
pub fn kernel(
    name: &str,
    warps: u32,
    pointers: usize,
    extents: usize,
    build: impl for<'m> FnOnce(TileBuilder<'m>, &[Value<'m>]),
) -> String {
    let session = Session::new();
    let context = session.context();
    let module = session.new_module(context.unknown_location()).unwrap();
    let at = Builder::at_end(module.body()).unwrap().with_location(context.file_location("model.onnx", 1, 1));
    let kernel = at
        .op("hw.kernel")
        .attribute("sym_name", context.string(name))
        .attribute("target", context.string("sm_80"))
        .attribute("warps", context.i64(i64::from(warps)))
        .attribute("grid", context.array(&[context.i64(1)]))
        .regions(1)
        .build()
        .unwrap();
    let mut arguments = vec![(context.pointer_type(1), at.location()); pointers];
    arguments.extend(vec![(context.i64_type(), at.location()); extents]);
    let block = kernel.region(0).unwrap().append_block(&arguments).unwrap();
    let inner = at.in_block(block);
    build(TileBuilder::new(inner), &block.arguments());
    inner.op("hw.return").build().unwrap();
    module.verify().unwrap();
    module.print(PrintOptions { locations: true, generic: false })
}

/// A kernel on its way down.
pub struct Compiled {
    pub info: KernelInfo,
    /// Text of the `gpu` stage, without locations.
    pub gpu: String,
    pub ptx: String,
}

/// Takes the only kernel of a text down to PTX for sm_80.
pub fn compile(text: &str) -> Compiled {
    compile_for(text, &target(), &nvptx())
}

/// Takes the only kernel of a text down to PTX.
pub fn compile_for(text: &str, target: &TargetInfo, nvptx: &NvptxTarget) -> Compiled {
    let session = Session::new();
    let module = session.parse_module(text, "hw").unwrap();
    let (info, gpu) = expand(&session, &module, target);
    let compiled = tenon_lowering::codegen::compile_kernels(std::slice::from_ref(&gpu), nvptx, 1);
    let mut compiled = compiled.unwrap_or_else(|error| panic!("{error}\n{gpu}"));
    let gpu = session.parse_module(&gpu, "gpu").unwrap().to_string();
    Compiled { info, gpu, ptx: compiled.pop().unwrap().1 }
}

/// Text of the `gpu` stage, with locations, of the only kernel of a text.
pub fn expanded(text: &str) -> String {
    let session = Session::new();
    let module = session.parse_module(text, "hw").unwrap();
    expand(&session, &module, &target()).1
}

fn expand<'s>(session: &'s Session, module: &Module<'s>, target: &TargetInfo) -> (KernelInfo, String) {
    let kernel = module.body().ops().into_iter().find(|op| op.is("hw.kernel")).unwrap();
    let expanded = session.new_module(session.context().unknown_location()).unwrap();
    let info = expand_kernel(kernel, &expanded, target).unwrap_or_else(|error| panic!("{}: {error}", error.code()));
    expanded.verify().unwrap_or_else(|error| panic!("{error}\n{expanded}"));
    (info, expanded.print(PrintOptions { locations: true, generic: false }))
}

/// The PTX assembler by the project's order: `TENON_PTXAS`, the checkout's `.venv`, `PATH`.
pub fn ptxas() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("TENON_PTXAS") {
        return Some(path.into());
    }
    let mut found: Vec<PathBuf> = folders(&root().join(".venv/lib"))
        .into_iter()
        .flat_map(|python| folders(&python.join("site-packages/nvidia")))
        .map(|package| package.join("bin/ptxas"))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found.into_iter().next().or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("ptxas")).find(|path| path.is_file())
    })
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Assembles PTX when there is an assembler: no message, no spills.
pub fn assemble(name: &str, ptx: &str, processor: &str) {
    let Some(ptxas) = ptxas() else {
        println!("skipped: no ptxas to assemble {name}");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{name}.ptx"));
    std::fs::write(&file, ptx).unwrap();
    let output = Command::new(ptxas)
        .args(["-v", "-arch", processor, "-o"])
        .arg(file.with_extension("cubin"))
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{name}: {said}\n{ptx}");
    assert!(!said.contains("warning"), "{name}: {said}");
    assert!(!said.contains("spill") || said.contains("0 bytes spill stores"), "{name} spills: {said}");
}

/// Runs a kernel on one block: inputs, then outputs of so many bytes, then extents. The outputs, alike under every schedule.
pub fn run(compiled: &Compiled, inputs: &[Vec<u8>], outputs: &[usize], extents: &[i64]) -> Vec<Vec<u8>> {
    run_grid(compiled, 1, inputs, outputs, extents)
}

/// Runs a kernel on several blocks.
pub fn run_grid(
    compiled: &Compiled,
    blocks: u32,
    inputs: &[Vec<u8>],
    outputs: &[usize],
    extents: &[i64],
) -> Vec<Vec<u8>> {
    let module =
        tenon_ptx_sim::Module::parse(&compiled.ptx).unwrap_or_else(|error| panic!("{error}\n{}", compiled.ptx));
    let mut first: Option<Vec<Vec<u8>>> = None;
    for seed in 0..3 {
        let mut device = tenon_ptx_sim::Device::new();
        let mut arguments = Vec::new();
        for input in inputs {
            let pointer = device.allocate(input.len().max(1) as u64).unwrap();
            device.write(pointer, 0, input).unwrap();
            arguments.push(pointer.into());
        }
        let mut pointers = Vec::new();
        for bytes in outputs {
            let pointer = device.allocate((*bytes).max(1) as u64).unwrap();
            pointers.push(pointer);
            arguments.push(pointer.into());
        }
        arguments.extend(extents.iter().map(|extent| tenon_ptx_sim::Argument::I64(*extent)));
        let config = tenon_ptx_sim::LaunchConfig {
            grid: [blocks, 1, 1],
            block: [compiled.info.threads, 1, 1],
            dynamic_shared_bytes: compiled.info.shared_bytes as u32,
            seed,
            threads: 1,
            ..tenon_ptx_sim::LaunchConfig::default()
        };
        device
            .launch(&module, &compiled.info.name, &config, &arguments)
            .unwrap_or_else(|error| panic!("{error}\n{}\n{}", compiled.gpu, compiled.ptx));
        let read: Vec<Vec<u8>> =
            pointers.iter().zip(outputs).map(|(p, bytes)| device.read(*p, 0, *bytes as u64).unwrap()).collect();
        match &first {
            None => first = Some(read),
            Some(first) => assert_eq!(first, &read, "the result depends on the schedule"),
        }
    }
    first.unwrap()
}
