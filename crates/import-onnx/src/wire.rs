//! A look at a protobuf file before it is decoded.
//!
//! Decoding turns two bytes (an empty message) into hundreds, so a file of moderate size could exhaust memory, and its nesting is
//! bounded by a limit whose error names no subgraph. This walk over the wire format, which allocates nothing, counts messages and
//! nesting first. Bytes that do not follow the wire format, and groups, which ONNX never had, are refused on the way.
//!
//! Source: Protocol Buffers encoding; ONNX, `onnx.proto`, for the numbers of the fields that hold messages.

use prost::Message;

use crate::error::ImportError;
use crate::proto::{NodeProto, TensorProto};

/// Most messages that a file may hold. Large models have some hundred thousand.
pub(crate) const MAX_MESSAGES: usize = 1 << 21;

/// Deepest nesting of messages, below the decoder's own limit of 100. A subgraph is three deep.
pub(crate) const MAX_DEPTH: usize = 96;

/// A message type, as far as it matters which of its fields hold messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    SparseTensor,
    ValueInfo,
    Type,
    /// A type whose field 1 is a type: sequence and optional; and a map, whose field 2 is one.
    ElementType,
    TensorType,
    Shape,
    Function,
    Training,
    /// A recorded sequence of tensors.
    Sequence,
    /// A recorded optional.
    Optional,
    /// A message that holds no messages that matter.
    Leaf,
}

fn message_field(kind: Kind, field: u32) -> Option<Kind> {
    use Kind::*;
    Some(match (kind, field) {
        (Model, 7) => Graph,
        (Model, 20) => Training,
        (Model, 25) => Function,
        (Model, 8 | 14 | 26) => Leaf,
        (Training, 1 | 2) => Graph,
        (Training, 3 | 4) => Leaf,
        (Graph, 1) => Node,
        (Graph, 5) => Tensor,
        (Graph, 15) => SparseTensor,
        (Graph, 11..=13) => ValueInfo,
        (Graph, 14 | 16) => Leaf,
        (Node, 5) => Attribute,
        (Node, 9 | 10) => Leaf,
        (Attribute, 5 | 10) => Tensor,
        (Attribute, 6 | 11) => Graph,
        (Attribute, 14 | 15) => Type,
        (Attribute, 22 | 23) => SparseTensor,
        (SparseTensor, 1 | 2) => Tensor,
        (Tensor, 3 | 13 | 16) => Leaf,
        (ValueInfo, 2) => Type,
        (ValueInfo, 4) => Leaf,
        (Type, 1 | 8) => TensorType,
        (Type, 4 | 5 | 9) => ElementType,
        (Type, 7) => Leaf,
        (ElementType, 1 | 2) => Type,
        (TensorType, 2) => Shape,
        (Shape, 1) => Leaf,
        (Function, 7) => Node,
        (Function, 11) => Attribute,
        (Function, 12) => ValueInfo,
        (Function, 9 | 14) => Leaf,
        (Sequence, 3) => Tensor,
        (Sequence, 4) => SparseTensor,
        (Sequence, 5) | (Optional, 5) => Sequence,
        (Sequence, 6) | (Optional, 6) => Leaf,
        (Sequence, 7) | (Optional, 7) => Optional,
        (Optional, 3) => Tensor,
        (Optional, 4) => SparseTensor,
        _ => return None,
    })
}

/// Refuses a file with too many or too deeply nested messages.
pub(crate) fn check(data: &[u8], kind: Kind) -> Result<(), ImportError> {
    let mut messages = 0;
    walk(data, kind, 0, &mut messages)
}

fn walk(data: &[u8], kind: Kind, depth: usize, messages: &mut usize) -> Result<(), ImportError> {
    *messages += 1;
    if *messages > MAX_MESSAGES {
        return Err(ImportError::TooMany { what: "messages in the file".to_owned(), limit: MAX_MESSAGES });
    }
    if depth > MAX_DEPTH {
        return Err(ImportError::TooDeep { what: "a message of the file".to_owned(), limit: MAX_DEPTH });
    }
    let mut fields = Fields::new(data);
    for (field, content) in &mut fields {
        if let Some(inner) = message_field(kind, field) {
            walk(content, inner, depth + 1, messages)?;
        }
    }
    if fields.malformed {
        return Err(ImportError::Decode { reason: "a message ends early or is no protobuf".to_owned() });
    }
    Ok(())
}

/// Names the first node or initializer of the main graph that does not decode.
pub(crate) fn damaged_part(model: &[u8]) -> Option<String> {
    let graphs = Fields::new(model).filter(|(field, _)| *field == 7);
    for (_, graph) in graphs {
        let (mut nodes, mut initializers) = (0, 0);
        for (field, content) in Fields::new(graph) {
            let text = |wanted| {
                let found = Fields::new(content).find(|(field, _)| *field == wanted);
                found.map_or_else(String::new, |(_, text)| String::from_utf8_lossy(text).chars().take(120).collect())
            };
            match field {
                1 => {
                    if NodeProto::decode(content).is_err() {
                        return Some(format!("node number {nodes} ({:?}, {:?})", text(3), text(4)));
                    }
                    nodes += 1;
                }
                5 => {
                    if TensorProto::decode(content).is_err() {
                        return Some(format!("initializer number {initializers} ({:?})", text(8)));
                    }
                    initializers += 1;
                }
                _ => {}
            }
        }
    }
    None
}

/// The length-delimited fields of a message, up to its end or the first malformed byte.
struct Fields<'a> {
    data: &'a [u8],
    malformed: bool,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.data.is_empty() && !self.malformed {
            match self.field() {
                Some((field, Some(content))) => return Some((field, content)),
                Some((_, None)) => {}
                None => self.malformed = true,
            }
        }
        None
    }
}

impl<'a> Fields<'a> {
    fn new(data: &'a [u8]) -> Fields<'a> {
        Fields { data, malformed: false }
    }

    /// Number and, if length-delimited, content of the next field.
    fn field(&mut self) -> Option<(u32, Option<&'a [u8]>)> {
        let key = self.varint()?;
        let field = u32::try_from(key >> 3).ok()?;
        let size = match key & 7 {
            0 => {
                self.varint()?;
                return Some((field, None));
            }
            1 => 8,
            5 => 4,
            2 => usize::try_from(self.varint()?).ok()?,
            _ => return None,
        };
        let (content, rest) = self.data.split_at_checked(size)?;
        self.data = rest;
        Some((field, (key & 7 == 2).then_some(content)))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.data.split_first()?;
            self.data = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty message in field `field`.
    fn empty(field: u8) -> [u8; 2] {
        [field << 3 | 2, 0]
    }

    fn nested(field: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![field << 3 | 2];
        let mut length = content.len();
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend_from_slice(content);
        bytes
    }

    #[test]
    fn a_flood_of_empty_nodes_is_refused_before_decoding() {
        let few = nested(7, &empty(1).repeat(1000));
        assert!(check(&few, Kind::Model).is_ok());
        let flood = nested(7, &empty(1).repeat(MAX_MESSAGES));
        assert_eq!(check(&flood, Kind::Model).map_err(|error| error.code()), Err("E0121"));
    }

    #[test]
    fn deep_subgraphs_are_refused_before_decoding() {
        let mut graph = Vec::new();
        for _ in 0..MAX_DEPTH / 3 {
            graph = nested(1, &nested(5, &nested(6, &graph)));
        }
        assert_eq!(check(&nested(7, &graph), Kind::Model).map_err(|error| error.code()), Err("E0114"));
        let shallow = nested(7, &nested(1, &nested(5, &nested(6, &[]))));
        assert!(check(&shallow, Kind::Model).is_ok());
    }

    #[test]
    fn malformed_bytes_and_groups_are_refused() {
        for bytes in [&[0x3a][..], &[0x3a, 0xff], &[0x3a, 5, 1], &[0xff; 11], &[0x3b, 0x3c], &[0x3a, 2, 0x0a, 0x7f]] {
            assert_eq!(check(bytes, Kind::Model).map_err(|error| error.code()), Err("E0101"));
        }
    }
}
