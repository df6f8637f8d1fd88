//! Which devices run the PTX of an architecture.
//!
//! PTX ISA, `.target`: PTX of a plain architecture is compiled for the same and every newer one; with suffix `a` for exactly that one; with
//! suffix `f` for it and newer ones of its family, which are those of the same major number. Where a chip is no relative of another with its
//! major number (10.1 of 10.0), the driver has the last word.

use tenon_target::ArchitectureName;

/// Compute capability, major and minor.
pub(crate) type Capability = (u32, u32);

fn capability_of(architecture: ArchitectureName) -> Capability {
    (architecture.number / 10, architecture.number % 10)
}

/// Whether a device of a compute capability runs PTX of an architecture.
pub(crate) fn runs(architecture: ArchitectureName, device: Capability) -> bool {
    let own = capability_of(architecture);
    match architecture.suffix {
        None => device >= own,
        Some('f') => device.0 == own.0 && device.1 >= own.1,
        Some(_) => device == own,
    }
}

/// What the architecture runs on, for messages.
pub(crate) fn runs_on(architecture: ArchitectureName) -> String {
    let (major, minor) = capability_of(architecture);
    let what = format!("compute capability {major}.{minor}");
    match architecture.suffix {
        None => format!("{what} and newer"),
        Some('f') => format!("{what} and its family"),
        Some(_) => format!("{what} alone"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_decide() {
        let all = [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1)];
        let on = |name: &str| -> Vec<Capability> {
            let name = name.parse().unwrap();
            all.into_iter().filter(|device| runs(name, *device)).collect()
        };
        assert_eq!(on("sm_70"), all);
        assert_eq!(on("sm_80"), all[2..]);
        assert_eq!(on("sm_89"), all[4..]);
        assert_eq!(on("sm_90a"), [(9, 0)]);
        assert_eq!(on("sm_100a"), [(10, 0)]);
        assert_eq!(on("sm_100f"), [(10, 0), (10, 3)]);
        assert_eq!(on("sm_103f"), [(10, 3)]);
        assert_eq!(on("sm_120f"), [(12, 0), (12, 1)]);
        assert_eq!(on("sm_120a"), [(12, 0)]);
        assert_eq!(on("sm_121"), [(12, 1)]);
    }

    #[test]
    fn messages_say_where_it_runs() {
        let text = |name: &str| runs_on(name.parse().unwrap());
        assert_eq!(text("sm_80"), "compute capability 8.0 and newer");
        assert_eq!(text("sm_90a"), "compute capability 9.0 alone");
        assert_eq!(text("sm_120f"), "compute capability 12.0 and its family");
    }
}
