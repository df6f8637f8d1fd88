//! Versions of two numbers: of the PTX ISA and of CUDA releases.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// `MAJOR.MINOR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('.').and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
        let (major, minor) = parsed.ok_or_else(|| format!("`{text}` is no version of the form 7.8"))?;
        Ok(Version { major, minor })
    }
}

fn number(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("8.10") > version("8.9") && version("12.0") > version("8.9"));
        assert_eq!(version("7.8").to_string(), "7.8");
        for bad in ["", "7", "7.", ".8", "7.8.1", "+7.8", "7.x", "99999999999.0"] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
    }
}
