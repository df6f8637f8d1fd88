//! `tenon build`: a bundle for all targets and buckets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use tenon_ir::Session;

use super::arguments::ModelArguments;
use super::output::Output;
use crate::bundle::build;
use crate::driver::{FolderStore, KernelStore, StoreLookup};
use crate::{Diagnostic, Failure};

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// The folder that the bundle is written into
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// The model's name in the bundle; that of its file without this
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Threads that compile kernels; all processors without this
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Keep compiled kernels in this folder, or under this URL, and take from there what was compiled before; `-v` says why a kernel was not there; TENON_CACHE names one too
    #[arg(long, value_name = "DIR|URL")]
    cache: Option<PathBuf>,
    #[arg(long, hide = true)]
    list: bool,
}

#[derive(Serialize)]
struct Machine {
    file: PathBuf,
    bytes: u64,
    model: String,
    recipe: String,
    targets: Vec<String>,
    graphs: usize,
    kernels: usize,
    /// Kernels that the cache had, of those that were looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    cached: Option<(usize, usize)>,
    seconds: f64,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let start = std::time::Instant::now();
    arguments.model.check_by_recipe_alone()?;
    let session = Session::new();
    let inputs = arguments.model.read_inputs()?;
    let mut prepared = arguments.model.prepare(&session, &inputs, output, false)?;
    if !prepared.request.bucket.is_empty() {
        let message = "a bundle holds every bucket of its recipe, not those of --bucket alone";
        return Err(Diagnostic::new("E0051", message)
            .with_help("leave out --bucket, or allow fewer sizes in the recipe")
            .into());
    }
    if let Some(threads) = arguments.threads {
        prepared.request.threads = threads as usize;
    }
    let mut driver = prepared.driver(&session)?.with_progress(|text| output.progress(text));
    let cache = arguments.cache.clone().or_else(|| std::env::var_os("TENON_CACHE").map(PathBuf::from));
    if let Some(folder) = &cache {
        driver = driver.with_store(store(folder)?);
    }
    let name = arguments.name.clone().unwrap_or_else(|| arguments.model.stem());
    let built = build(&mut driver, &prepared.source, &name)?;
    let lookups = driver.store_lookups();
    let found = lookups.iter().filter(|lookup| lookup.miss.is_none()).count();
    let cached = cache.is_some().then_some((found, lookups.len()));
    for StoreLookup { kernel, target, miss } in lookups {
        let said = miss.as_ref().map_or("taken from the cache".to_owned(), |miss| format!("compiled: {miss}"));
        output.detail(&format!("{kernel} for {target}: {said}"));
    }
    let manifest = built.manifest.clone();
    let mut entries: Vec<_> =
        manifest.programs.iter().flat_map(|program| &program.kernels).map(|kernel| &kernel.part).collect();
    entries.sort_unstable();
    entries.dedup();
    let kernels = entries.len();
    output.progress("writing");
    let file = built.write(&arguments.output)?;
    output.end_progress();
    let bytes = std::fs::metadata(&file).map_or(0, |data| data.len());
    let machine = Machine {
        file,
        bytes,
        model: manifest.model.sha256,
        recipe: manifest.recipe.sha256,
        targets: manifest.targets.iter().map(|target| target.name.clone()).collect(),
        graphs: manifest.programs.len(),
        kernels,
        cached,
        seconds: start.elapsed().as_secs_f64(),
    };
    if output.json {
        return output.print_json(&machine);
    }
    let from_cache = cached.map(|(found, all)| format!(", {found} of {all} from the cache")).unwrap_or_default();
    output.print(&format!(
        "{}: {} {} for {}, {} kernels{from_cache}, {} bytes, built in {:.2} s\n",
        machine.file.display(),
        machine.graphs,
        if machine.graphs == 1 { "graph" } else { "graphs" },
        machine.targets.join(", "),
        machine.kernels,
        machine.bytes,
        machine.seconds
    ))
}

/// The store of kernels in a folder, or under a URL.
fn store(place: &Path) -> Result<Arc<dyn KernelStore>, Failure> {
    match place.to_str().filter(|place| place.contains("://")) {
        None => Ok(Arc::new(FolderStore::new(place))),
        #[cfg(feature = "remote-store")]
        Some(url) => Ok(Arc::new(crate::driver::RemoteStore::open(url)?)),
        #[cfg(not(feature = "remote-store"))]
        Some(url) => {
            let message = format!("{url}: this tenon was built without stores under URLs");
            let help = "name a folder, or build tenon with `--features remote-store`";
            Err(Diagnostic::new("E0053", message).with_help(help).into())
        }
    }
}
