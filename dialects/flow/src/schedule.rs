//! What the recipe decided about an operation.

use tenon_ir::{Attribute, Context, Op};

use crate::{FlowError, FlowErrorKind};

/// Where control flow is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Inside one kernel.
    Kernel,
    /// As conditional steps of the launch plan, on the device.
    Graph,
    /// By the host.
    Host,
}

const WORDS: &[(Placement, &str)] =
    &[(Placement::Kernel, "kernel"), (Placement::Graph, "graph"), (Placement::Host, "host")];

impl Placement {
    /// The word in the assembly.
    pub fn name(self) -> &'static str {
        WORDS.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }
}

/// Placement, unrolling and depth; nothing is decided before the `flow` stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Schedule {
    /// Where it is executed.
    pub placement: Option<Placement>,
    /// Iterations written out one after another; at least 1. `flow.if` has none.
    pub unroll: Option<u64>,
    /// Number of operations of the dialect around it.
    pub depth: Option<u64>,
}

impl Schedule {
    /// Reads the attributes of an operation.
    ///
    /// # Errors
    /// An unknown word, a number below its least value (E0313).
    pub fn read(op: Op<'_>) -> Result<Self, FlowError> {
        let wrong = |message: String| FlowError::new(FlowErrorKind::Attribute, &op.name(), message);
        let number = |name: &str, least: u64| match op.attribute(name) {
            None => Ok(None),
            Some(attribute) => attribute
                .as_integer()
                .and_then(|value| u64::try_from(value).ok())
                .filter(|value| *value >= least)
                .map(Some)
                .ok_or_else(|| wrong(format!("`{name}` must be a number of at least {least}"))),
        };
        let placement = match op.attribute("placement") {
            None => None,
            Some(attribute) => {
                let word = attribute.as_string().unwrap_or_default();
                let row = WORDS.iter().find(|row| row.1 == word);
                Some(row.ok_or_else(|| wrong(format!("`placement` must be kernel, graph or host, not `{word}`")))?.0)
            }
        };
        Ok(Schedule { placement, unroll: number("unroll", 1)?, depth: number("depth", 0)? })
    }

    /// Writes the attributes.
    ///
    /// # Errors
    /// The operation belongs to another session than its own context, which cannot be.
    pub fn write(self, op: Op<'_>) -> Result<(), FlowError> {
        for (name, attribute) in self.attributes(op.context()) {
            op.set_attribute(name, attribute)
                .map_err(|error| FlowError::new(FlowErrorKind::Attribute, &op.name(), error.to_string()))?;
        }
        Ok(())
    }

    pub(crate) fn attributes<'s>(self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let number = |value: u64| context.i64(i64::try_from(value).unwrap_or(i64::MAX));
        let placement = self.placement.map(|placement| ("placement", context.string(placement.name())));
        let unroll = self.unroll.map(|value| ("unroll", number(value)));
        let depth = self.depth.map(|value| ("depth", number(value)));
        [placement, unroll, depth].into_iter().flatten().collect()
    }
}
