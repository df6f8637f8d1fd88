//! The descriptions that are built in. Adding one is a file in `data` and its name here.

use std::sync::LazyLock;

use serde::de::DeserializeOwned;

use crate::{Architecture, Gpu};

/// Name of a description and its text.
type Description = (&'static str, &'static str);

macro_rules! embedded {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../data/", $folder, "/", $name, ".toml")))),*]
    };
}

/// From the oldest to the newest.
const ARCHITECTURES: &[Description] =
    embedded!("architectures": "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a");

const GPUS: &[Description] = embedded!("gpus":
    "v100", "t4", "a100-sxm4-40gb", "a100-sxm4-80gb", "rtx-3090", "l40s", "h100-sxm5", "h100-pcie", "h200", "b200", "rtx-5090");

/// Where no target is named.
pub(crate) const DEFAULT_TARGET: &str = "a100-sxm4-80gb";

/// Every architecture, in the order of the table.
pub(crate) fn architectures() -> &'static [Architecture] {
    static ALL: LazyLock<Vec<Architecture>> = LazyLock::new(|| {
        read_all(ARCHITECTURES, Architecture::check)
            .expect("the descriptions of architectures are valid: a test reads each")
    });
    &ALL
}

/// Every GPU, in the order of the table.
pub(crate) fn gpus() -> &'static [Gpu] {
    static ALL: LazyLock<Vec<Gpu>> =
        LazyLock::new(|| read_all(GPUS, Gpu::check).expect("the descriptions of GPUs are valid: a test reads each"));
    &ALL
}

/// Whether an architecture of this name is in the table.
pub(crate) fn knows_architecture(name: &str) -> bool {
    ARCHITECTURES.iter().any(|description| description.0 == name)
}

fn read_all<T: DeserializeOwned>(
    descriptions: &[Description],
    check: fn(&T, &str) -> Result<(), String>,
) -> Result<Vec<T>, String> {
    descriptions.iter().map(|description| read(description, check)).collect()
}

fn read<T: DeserializeOwned>(
    (name, text): &Description,
    check: fn(&T, &str) -> Result<(), String>,
) -> Result<T, String> {
    let value: T = toml::from_str(text).map_err(|error| format!("{name}.toml: {error}"))?;
    check(&value, name).map_err(|reason| format!("{name}.toml: {reason}"))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_description_is_valid() {
        if let Err(reason) = read_all(ARCHITECTURES, Architecture::check) {
            panic!("{reason}");
        }
        if let Err(reason) = read_all(GPUS, Gpu::check) {
            panic!("{reason}");
        }
    }

    #[test]
    fn every_file_is_registered() {
        for (folder, table) in [("architectures", ARCHITECTURES), ("gpus", GPUS)] {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(folder);
            let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut files: Vec<String> = files.map(|name| name.trim_end_matches(".toml").to_owned()).collect();
            let mut names: Vec<&str> = table.iter().map(|description| description.0).collect();
            files.sort();
            names.sort();
            assert_eq!(files, names, "{folder}");
        }
    }

    #[test]
    fn broken_descriptions_are_refused() {
        let (name, text) = ARCHITECTURES[2];
        let refused = |find: &str, replacement: &str, reason: &str| {
            let broken: &'static str = text.replacen(find, replacement, 1).leak();
            assert_ne!(broken, text);
            let found = read(&(name, broken), Architecture::check).unwrap_err();
            assert!(found.starts_with("sm_80.toml: ") && found.contains(reason), "{found}");
        };
        refused("name = \"sm_80\"", "name = \"sm_86\"", "`name` is `sm_86`");
        refused("processor = \"sm_80\"", "processor = \"sm_90\"", "processor");
        refused("+ptx78", "+ptx80", "+ptx78");
        refused("sfu = 16", "sfu = 0", "sfu");
        refused("sfu = 16", "sfu = 16\nsfx = 1", "unknown field");
        refused("floor = \"11.8\"", "floor = \"11.8\"\nceiling = \"11.7\"", "ceiling");
        refused("registers_per_thread = 255", "registers_per_thread = 0", "registers_per_thread");
        refused("default_gpu = \"a100-sxm4-80gb\"", "default_gpu = \"t4\"", "default_gpu");
        let (name, text) = GPUS[0];
        let broken: &'static str = text.replacen("architecture = \"sm_70\"", "architecture = \"sm_71\"", 1).leak();
        assert!(read(&(name, broken), Gpu::check).unwrap_err().contains("sm_71"));
        let broken: &'static str = text.replacen("bandwidth = 900e9", "bandwidth = nan", 1).leak();
        assert!(read(&(name, broken), Gpu::check).unwrap_err().contains("memory.bandwidth"));
    }
}
