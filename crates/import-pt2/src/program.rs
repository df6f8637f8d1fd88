//! An exported program as read: the archive, its graph, its weights. Nothing is said yet about operators.

use std::path::Path;

use bytes::Bytes;

use crate::archive::Archive;
use crate::error::{Pt2Error, plain};
use crate::schema::{self, Argument, ExportedProgram, Graph, Header};

const MODEL: &str = "models/model.json";

/// Deepest nesting of graphs.
const MAX_DEPTH: usize = 16;

/// Most nodes of a program, nested graphs included.
const MAX_NODES: usize = 1 << 19;

/// A program of torch.export.
pub struct Program {
    pub(crate) archive: Archive,
    pub(crate) exported: ExportedProgram,
}

impl Program {
    /// Reads an archive; weights stay in the mapped file.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or is no archive of torch.export of schema 8.
    pub fn load(path: impl AsRef<Path>) -> Result<Program, Pt2Error> {
        Program::of(Archive::open(path.as_ref())?)
    }

    /// Reads an archive from memory, which weights share.
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn decode(data: Bytes) -> Result<Program, Pt2Error> {
        Program::of(Archive::read(data)?)
    }

    fn of(archive: Archive) -> Result<Program, Pt2Error> {
        let layout = |reason: String| Pt2Error::Layout { reason };
        let format = archive.text("archive_format")?;
        if format != "pt2" {
            return Err(layout(format!("the archive's format is `{}`, not `pt2`", plain(format))));
        }
        const VERSION: &str = "archive_version";
        if archive.get(VERSION).is_some() && archive.text(VERSION)? != "0" {
            let version = plain(archive.text(VERSION)?);
            return Err(layout(format!("the archive has version `{version}` of its format; version 0 is read")));
        }
        if archive.get("byteorder").is_some() && archive.text("byteorder")? != "little" {
            return Err(layout("the archive was written on a big-endian machine".to_owned()));
        }
        if archive.get(MODEL).is_none() {
            return Err(layout(format!("the archive holds no exported program (`{MODEL}`)")));
        }
        let header: Header = archive.json(MODEL)?;
        if header.schema_version.major != schema::MAJOR {
            let schema::Version { major, minor } = header.schema_version;
            return Err(Pt2Error::Schema { major, minor, known: schema::MAJOR });
        }
        let exported: ExportedProgram = archive.json(MODEL)?;
        let mut nodes = 0;
        count(&exported.graph_module.graph, 0, &mut nodes)?;
        archive.release();
        Ok(Program { archive, exported })
    }

    /// The torch that wrote it.
    pub fn torch_version(&self) -> &str {
        &self.exported.torch_version
    }

    /// Names of the tensors that a caller gives, in order.
    pub fn inputs(&self) -> Vec<String> {
        let specs = &self.exported.graph_module.signature.input_specs;
        let name = |spec: &schema::InputSpec| match spec {
            schema::InputSpec::UserInput { arg: Argument::AsTensor(tensor) } => Some(tensor.name.clone()),
            _ => None,
        };
        specs.iter().filter_map(name).collect()
    }

    /// What the graph and its nested graphs call, each once, in order of first use.
    pub fn targets(&self) -> Vec<&str> {
        let mut found = Vec::new();
        targets(&self.exported.graph_module.graph, &mut found);
        found
    }
}

fn inner(graph: &Graph) -> impl Iterator<Item = &Graph> {
    let arguments = graph.nodes.iter().flat_map(|node| &node.inputs);
    arguments.filter_map(|input| match &input.arg {
        Argument::AsGraph(inner) => Some(&inner.graph),
        _ => None,
    })
}

fn count(graph: &Graph, depth: usize, nodes: &mut usize) -> Result<(), Pt2Error> {
    if depth > MAX_DEPTH {
        return Err(Pt2Error::TooMany { what: "levels of nested graphs", limit: MAX_DEPTH });
    }
    *nodes += graph.nodes.len();
    if *nodes > MAX_NODES {
        return Err(Pt2Error::TooMany { what: "nodes of the program", limit: MAX_NODES });
    }
    inner(graph).try_for_each(|inner| count(inner, depth + 1, nodes))
}

fn targets<'g>(graph: &'g Graph, found: &mut Vec<&'g str>) {
    for node in &graph.nodes {
        if !found.contains(&node.target.as_str()) {
            found.push(&node.target);
        }
    }
    inner(graph).for_each(|inner| targets(inner, found));
}
