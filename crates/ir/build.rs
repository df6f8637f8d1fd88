//! Compiles the list of dialects that every session registers, and what LLVM's C interface lacks.

fn main() {
    println!("cargo:rerun-if-changed=cpp");
    println!("cargo:rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    let prefix = std::env::var("MLIR_SYS_220_PREFIX").unwrap_or_else(|_| "/usr/lib/llvm-22".to_owned());
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .flag("-fno-rtti")
        .flag("-fno-exceptions")
        .flag_if_supported("-Wno-unused-parameter")
        .include(format!("{prefix}/include"))
        .include("cpp")
        .file("cpp/pass_gate.cpp")
        .file("cpp/registry.cpp")
        .file("cpp/upstream.cpp")
        .warnings(false)
        .compile("tenon_ir_registry");
}
