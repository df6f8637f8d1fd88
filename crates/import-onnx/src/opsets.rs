//! Operator sets: which version of each domain a model, or a function, is written for.

use std::collections::BTreeMap;

use crate::error::{ImportError, quoted};
use crate::proto::OperatorSetIdProto;

/// Oldest version of ONNX's own operator set that is read. An operator is, in a set older than 7, if it has not changed until then.
pub const OLDEST_OPSET: i64 = 1;
/// Newest version of ONNX's own operator set that is read: that of onnx 1.23.
pub const NEWEST_OPSET: i64 = 28;

/// Version by domain. ONNX's own domain is the empty name; its other spelling, `ai.onnx`, is not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opsets {
    versions: BTreeMap<String, i64>,
}

impl Opsets {
    /// Version of a domain's operator set; `None` when it is not imported.
    pub fn version(&self, domain: &str) -> Option<i64> {
        self.versions.get(domain).copied()
    }

    /// Domains with their versions.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.versions.iter().map(|(domain, &version)| (domain.as_str(), version))
    }

    /// Reads a list of imports; `importer` says whose it is.
    pub(crate) fn read(imports: &[OperatorSetIdProto], importer: &str) -> Result<Opsets, ImportError> {
        let mut versions = BTreeMap::new();
        for import in imports {
            let (domain, version) = (normal_domain(import.domain()), import.version());
            let refuse = |reason: String| Err(ImportError::Opset { reason });
            if domain.is_empty() && !(OLDEST_OPSET..=NEWEST_OPSET).contains(&version) {
                return refuse(format!(
                    "{importer} imports version {version} of ONNX's operator set; versions {OLDEST_OPSET} to {NEWEST_OPSET} are \
                     supported"
                ));
            }
            if version < 1 {
                return refuse(format!("{importer} imports version {version} of the operator set {}", quoted(domain)));
            }
            if versions.insert(domain.to_owned(), version).is_some_and(|other| other != version) {
                return refuse(format!("{importer} imports two versions of the operator set {}", quoted(domain)));
            }
        }
        if versions.is_empty() {
            return Err(ImportError::Opset { reason: format!("{importer} imports no operator set") });
        }
        Ok(Opsets { versions })
    }
}

/// The one spelling of a domain.
pub(crate) fn normal_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}
