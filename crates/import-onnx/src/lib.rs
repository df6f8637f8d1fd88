//! The ONNX front end.
//!
//! Reading comes first and knows nothing of operators: [`Model::load`] turns a file into [`Graph`]s of [`Node`]s in topological order,
//! with decoded tensors, inlined functions and resolved names, or says by code and by node why it cannot. Everything read from a file
//! is untrusted: sizes are checked before anything is allocated, and nesting, messages and inlining are bounded.
//!
//! - `wire` bounds a file before it is decoded; `proto` holds the generated messages.
//! - `tensor`, `external` read data; `value` reads declared types.
//! - `fixed_dimensions` gives free dimensions of inputs sizes before the model is imported.
//! - `build` and `function` make graphs; `graph` orders nodes; `node` hands out attributes.
//!
//! Then [`import_model`] turns the graph into a module of the graph dialect (`import`), each node by the importer of its operator (`ops`).

mod build;
mod error;
mod external;
mod fixed_dimensions;
mod function;
mod graph;
mod import;
mod model;
mod node;
mod ops;
mod opsets;
pub mod proto;
mod recorded;
mod tensor;
mod value;
mod wire;

pub use error::{ImportError, NodeSite};
pub use fixed_dimensions::FixedDimensions;
pub use graph::Graph;
pub use import::{ImportOptions, Imported, Weights, import_loaded, import_model};
pub use model::Model;
pub use node::{AttributeValue, Attributes, Node};
pub use ops::{SupportedOperator, operator_table, supported_operators};
pub use opsets::{NEWEST_OPSET, OLDEST_OPSET, Opsets};
pub use recorded::read_value_pb;
pub use tensor::read_tensor_pb;
pub use value::{Dim, TensorType, ValueInfo, ValueType};
