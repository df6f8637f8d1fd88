//! What the library is told by the environment.

/// Variable with the settings: `NAME=VALUE` in any number, divided by `;`.
///
/// `devices` (1), `capability` (8.0), `memory` in bytes (1 GiB), `threads` that a block of any kernel may have (1024), `shared` memory of a block
/// with opting in (166,912 bytes), `ptx` version that the compiler knows (9.9); and `fail`, a list of `FUNCTION:NUMBER:RESULT` divided by `,`: the
/// call of that number gives the result instead, counted from 1; 0 is every call.
pub const SETTINGS: &str = "TENON_FAKE_CUDA";

/// Variable with the file that calls are written to.
pub const LOG: &str = "TENON_FAKE_CUDA_LOG";

/// A call that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Injected {
    pub(crate) call: String,
    /// Which call, from 1; 0 is every one.
    pub(crate) number: u32,
    pub(crate) result: u32,
}

/// The settings of a process.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) devices: i32,
    pub(crate) capability: (u32, u32),
    pub(crate) memory: u64,
    pub(crate) threads: u32,
    pub(crate) shared: u32,
    pub(crate) ptx: (u32, u32),
    pub(crate) failures: Vec<Injected>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            devices: 1,
            capability: (8, 0),
            memory: 1 << 30,
            threads: 1024,
            shared: 163 << 10,
            ptx: (9, 9),
            failures: Vec::new(),
        }
    }
}

impl Settings {
    /// Reads the variable; what cannot be read ends the process, since a test would otherwise test something else.
    pub(crate) fn read() -> Settings {
        let text = std::env::var(SETTINGS).unwrap_or_default();
        Settings::parse(&text).unwrap_or_else(|wrong| {
            eprintln!("{SETTINGS}: `{wrong}` is no setting");
            std::process::exit(70)
        })
    }

    fn parse(text: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        for setting in text.split(';').filter(|setting| !setting.is_empty()) {
            settings.set(setting).ok_or(setting)?;
        }
        Ok(settings)
    }

    fn set(&mut self, setting: &str) -> Option<()> {
        let pair = |value: &str| {
            let (major, minor) = value.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        let (name, value) = setting.split_once('=')?;
        match name {
            "devices" => self.devices = value.parse().ok()?,
            "capability" => self.capability = pair(value)?,
            "memory" => self.memory = value.parse().ok()?,
            "threads" => self.threads = value.parse().ok()?,
            "shared" => self.shared = value.parse().ok()?,
            "ptx" => self.ptx = pair(value)?,
            "fail" => {
                for failure in value.split(',') {
                    let [call, number, result] = failure.split(':').collect::<Vec<_>>()[..] else { return None };
                    let (number, result) = (number.parse().ok()?, result.parse().ok()?);
                    self.failures.push(Injected { call: call.to_owned(), number, result });
                }
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let settings =
            Settings::parse("devices=2;capability=12.0;fail=cuInit:1:100,cuMemAlloc_v2:0:2;memory=99").unwrap();
        assert_eq!((settings.devices, settings.capability, settings.memory), (2, (12, 0), 99));
        assert_eq!(settings.failures[1], Injected { call: "cuMemAlloc_v2".into(), number: 0, result: 2 });
        for wrong in ["device=2", "devices", "capability=8", "fail=cuInit:1", "devices=x"] {
            assert_eq!(Settings::parse(wrong).unwrap_err(), wrong);
        }
    }
}
