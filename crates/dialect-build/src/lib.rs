//! Build step of a dialect crate.
//!
//! A dialect crate holds `NAME.td` and `register.cpp`. [`build`] runs `mlir-tblgen` on the first, compiles the second, and links the object
//! whole: its static registration object is what makes every session of the program know the dialect. The same object, linked as a shared
//! library, is a plugin for `mlir-opt --load-dialect-plugin=`.
//!
//! For the crate being built, `OUT_DIR/documentation.md` is the documentation that ODS generates, and the variable `TENON_DIALECT_PLUGIN`
//! holds the path of the plugin.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Generates, compiles and links the dialect `name` of the crate being built.
///
/// # Panics
///
/// When `mlir-tblgen` or the C++ compiler fails; a build script has no other way to say so.
pub fn build(name: &str) {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(variable("OUT_DIR"));
    println!("cargo:rerun-if-changed={name}.td");
    println!("cargo:rerun-if-changed=register.cpp");
    println!("cargo:rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    let prefix = std::env::var("MLIR_SYS_220_PREFIX").unwrap_or_else(|_| "/usr/lib/llvm-22".to_owned());
    generate(&prefix, &root, name, &out);
    let shared = root.join("../../crates/ir/cpp");
    println!("cargo:rerun-if-changed={}", shared.display());
    let library = format!("tenon_{name}_dialect");
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .flag("-fno-rtti")
        .flag("-fno-exceptions")
        .pic(true)
        .include(format!("{prefix}/include"))
        .include(&shared)
        .include(&out)
        .file(root.join("register.cpp"))
        .warnings(false)
        .debug(false)
        // The objects hold inline functions of LLVM and MLIR, which the linker takes for the whole program.
        .define("NDEBUG", None)
        .opt_level(2)
        .cargo_metadata(false);
    let objects = build.compile_intermediates();
    cc::Build::new().objects(&objects).cargo_metadata(false).compile(&library);
    let plugin = out.join(format!("libtenon_{name}_plugin.so"));
    let mut link = build.get_compiler().to_command();
    link.arg("-shared").args(&objects).arg("-o").arg(&plugin);
    let status = link.status();
    assert!(matches!(&status, Ok(status) if status.success()), "linking {} failed: {status:?}", plugin.display());
    println!("cargo:rustc-env=TENON_DIALECT_PLUGIN={}", plugin.display());
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static:+whole-archive,-bundle={library}");
}

fn generate(prefix: &str, root: &Path, name: &str, out: &Path) {
    let outputs = [
        ("--gen-dialect-decls", "Dialect.h.inc"),
        ("--gen-dialect-defs", "Dialect.cpp.inc"),
        ("--gen-attrdef-decls", "Attributes.h.inc"),
        ("--gen-attrdef-defs", "Attributes.cpp.inc"),
        ("--gen-typedef-decls", "Types.h.inc"),
        ("--gen-typedef-defs", "Types.cpp.inc"),
        ("--gen-op-decls", "Ops.h.inc"),
        ("--gen-op-defs", "Ops.cpp.inc"),
        ("--gen-dialect-doc", "documentation.md"),
    ];
    for (generator, file) in outputs {
        let mut command = Command::new(format!("{prefix}/bin/mlir-tblgen"));
        command.arg(generator);
        if !file.starts_with("Ops") {
            command.arg(format!("--dialect={name}"));
        }
        command.arg("-I").arg(format!("{prefix}/include")).arg(root.join(format!("{name}.td")));
        command.arg("-o").arg(out.join(file));
        let status = command.status();
        assert!(
            matches!(&status, Ok(status) if status.success()),
            "mlir-tblgen {generator} failed on {name}.td: {status:?}"
        );
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}
