//! A `libcuda` for tests on machines without a GPU.
//!
//! Built as a shared library and found in the place of the driver's, it has the functions of the CUDA driver API that `crates/cuda-device`
//! calls. Memory and kernels are those of the PTX simulator, so that a program gives the values that its PTX computes. It checks what a driver
//! takes on trust (handles, ranges, the current context, the bytes of a kernel's parameters, what is left at the end), writes every call to a
//! file, and fails where it is told to. What it does not show: that NVIDIA's compiler takes the PTX, and what a GPU computes.
//!
//! - [`settings`]: what it is told, by the environment.
//! - `state`: what exists, and the checks. `entry_points`: the C functions. `names`: names of results.
//! - [`install`]: puts the library in a folder under the names that programs look for.
//!
//! In the file, each line is `FUNCTION ARGUMENTS -> RESULT`; a line that begins with `WRONG` is a call that a driver might not have survived.

mod entry_points;
mod names;
pub mod settings;
mod state;

use std::io;
use std::path::{Path, PathBuf};

/// Puts the library into a folder under the names that programs look for; with `LD_LIBRARY_PATH` beginning with the folder, it is found before
/// any driver.
///
/// # Errors
/// The library is not beside the running test, where cargo builds it, or cannot be copied.
pub fn install(folder: &Path) -> io::Result<()> {
    let library = library()?;
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::fs::copy(&library, folder.join(name))?;
    }
    Ok(())
}

/// Where cargo has built the library: beside the test program.
fn library() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let name = "libtenon_fake_cuda_driver.so";
    let folders = program.ancestors().skip(1).take(2);
    let found =
        folders.flat_map(|folder| [folder.join("deps").join(name), folder.join(name)]).find(|path| path.is_file());
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no {name} beside {}", program.display())))
}
