//! Embeds the pages of `docs/errors`.

use std::fmt::Write;
use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut pages: Vec<_> = std::fs::read_dir(&folder)
        .expect("docs/errors lies in the checkout")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path.canonicalize().ok()?)))
        .filter(|(name, _)| {
            name.len() == 5 && name.starts_with('E') && name[1..].bytes().all(|byte| byte.is_ascii_digit())
        })
        .collect();
    pages.sort();
    let mut source = String::from("&[\n");
    for (code, path) in pages {
        writeln!(source, "    ({code:?}, include_str!({:?})),", path.display().to_string())
            .expect("writing to a string");
    }
    source.push_str("]\n");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
    std::fs::write(Path::new(&out).join("error_pages.rs"), source).expect("OUT_DIR can be written");
}
