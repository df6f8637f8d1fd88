//! `model.json`, as messages. Source: `torch/_export/serde/schema.py`, versions 8.x.
//!
//! Only what an importer needs is read; fields that are not named here are skipped.

use std::fmt;
use std::marker::PhantomData;

use indexmap::IndexMap;
use indexmap::map::Entry;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::error::quoted;

/// A map each of whose names stands once: of two declarations, none would be the one that holds.
fn distinct<'d, D: Deserializer<'d>, V: Deserialize<'d>>(deserializer: D) -> Result<IndexMap<String, V>, D::Error> {
    struct Distinct<V>(PhantomData<V>);
    impl<'d, V: Deserialize<'d>> Visitor<'d> for Distinct<V> {
        type Value = IndexMap<String, V>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'d>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut map = IndexMap::new();
            while let Some((name, value)) = entries.next_entry::<String, V>()? {
                let twice = |name: &str| A::Error::custom(format!("{} is declared twice", quoted(name)));
                match map.entry(name) {
                    Entry::Occupied(taken) => return Err(twice(taken.key())),
                    Entry::Vacant(free) => free.insert(value),
                };
            }
            Ok(map)
        }
    }
    deserializer.deserialize_map(Distinct(PhantomData))
}

/// Major version of the schema that is read.
pub(crate) const MAJOR: i64 = 8;

#[derive(Debug, Deserialize)]
pub(crate) struct Version {
    pub major: i64,
    pub minor: i64,
}

/// Read on its own before all else, so that another version is named and not its differences.
#[derive(Debug, Deserialize)]
pub(crate) struct Header {
    pub schema_version: Version,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ExportedProgram {
    pub graph_module: GraphModule,
    #[serde(default, deserialize_with = "distinct")]
    pub range_constraints: IndexMap<String, Range>,
    #[serde(default)]
    pub guards_code: Vec<String>,
    #[serde(default)]
    pub torch_version: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Range {
    pub min_val: Option<i64>,
    pub max_val: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct GraphModule {
    pub graph: Graph,
    pub signature: Signature,
    #[serde(default)]
    pub module_call_graph: Vec<ModuleCall>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ModuleCall {
    #[serde(default)]
    pub fqn: String,
    pub signature: Option<CallSignature>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CallSignature {
    #[serde(default)]
    pub out_spec: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Graph {
    pub inputs: Vec<Argument>,
    pub outputs: Vec<Argument>,
    pub nodes: Vec<Node>,
    #[serde(default, deserialize_with = "distinct")]
    pub tensor_values: IndexMap<String, TensorMeta>,
    #[serde(default, deserialize_with = "distinct")]
    pub sym_int_values: IndexMap<String, SymInt>,
    #[serde(default, deserialize_with = "distinct")]
    pub sym_bool_values: IndexMap<String, SymBool>,
    #[serde(default, deserialize_with = "distinct")]
    pub sym_float_values: IndexMap<String, SymFloat>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub target: String,
    pub inputs: Vec<NamedArgument>,
    pub outputs: Vec<Argument>,
    #[serde(default)]
    pub metadata: IndexMap<String, Value>,
    #[serde(default)]
    pub name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NamedArgument {
    #[serde(default)]
    pub name: String,
    pub arg: Argument,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Name {
    pub name: String,
}

/// A number, or its name where JSON has none.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Float {
    Number(f64),
    Name(String),
}

impl Float {
    pub(crate) fn value(&self) -> Option<f64> {
        match self {
            Float::Number(value) => Some(*value),
            Float::Name(name) => match name.as_str() {
                "Infinity" | "inf" => Some(f64::INFINITY),
                "-Infinity" | "-inf" => Some(f64::NEG_INFINITY),
                "NaN" | "nan" => Some(f64::NAN),
                _ => None,
            },
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Argument {
    AsNone(Value),
    AsTensor(Name),
    AsTensors(Vec<Name>),
    AsInt(i64),
    AsInts(Vec<i64>),
    AsFloat(Float),
    AsFloats(Vec<Float>),
    AsString(String),
    AsStrings(Vec<String>),
    AsSymInt(SymIntArgument),
    AsSymInts(Vec<SymIntArgument>),
    AsScalarType(i64),
    AsMemoryFormat(i64),
    AsLayout(i64),
    AsDevice(Value),
    AsBool(bool),
    AsBools(Vec<bool>),
    AsSymBool(SymBoolArgument),
    AsSymBools(Vec<SymBoolArgument>),
    AsGraph(Box<GraphArgument>),
    AsOptionalTensor(OptionalTensor),
    AsOptionalTensors(Vec<OptionalTensor>),
    AsCustomObj(Value),
    AsOperator(String),
    AsSymFloat(SymFloatArgument),
    AsSymFloats(Vec<SymFloatArgument>),
    AsComplex(Value),
    AsNestedTensors(Vec<Vec<Name>>),
    AsIntLists(Vec<Vec<i64>>),
    AsFloatLists(Vec<Vec<Float>>),
    AsStringToArgument(Value),
}

#[derive(Debug, Deserialize)]
pub(crate) struct GraphArgument {
    #[serde(default)]
    pub name: String,
    pub graph: Graph,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OptionalTensor {
    AsTensor(Name),
    AsNone(Value),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SymIntArgument {
    AsName(String),
    AsInt(i64),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SymBoolArgument {
    AsName(String),
    AsBool(bool),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SymFloatArgument {
    AsName(String),
    AsFloat(Float),
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SymExpr {
    pub expr_str: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SymInt {
    AsExpr(SymExpr),
    AsInt(i64),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SymBool {
    AsExpr(SymExpr),
    AsBool(bool),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SymFloat {
    AsExpr(SymExpr),
    AsFloat(Float),
}

/// Description of a tensor. Sizes and strides in elements.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TensorMeta {
    pub dtype: i64,
    pub sizes: Vec<SymInt>,
    #[serde(default)]
    pub strides: Vec<SymInt>,
    #[serde(default = "zero")]
    pub storage_offset: SymInt,
    #[serde(default = "strided")]
    pub layout: i64,
}

fn zero() -> SymInt {
    SymInt::AsInt(0)
}

/// The layout of ordinary tensors.
pub(crate) const STRIDED: i64 = 7;

fn strided() -> i64 {
    STRIDED
}

#[derive(Debug, Deserialize)]
pub(crate) struct Signature {
    pub input_specs: Vec<InputSpec>,
    pub output_specs: Vec<OutputSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InputSpec {
    UserInput { arg: Argument },
    Parameter { arg: Name, parameter_name: String },
    Buffer { arg: Name, buffer_name: String },
    TensorConstant { arg: Name, tensor_constant_name: String },
    CustomObj { arg: Name },
    Token { arg: Value },
    ConstantInput { name: String },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputSpec {
    UserOutput { arg: Argument },
    LossOutput { arg: Value },
    BufferMutation { arg: Name, buffer_name: String },
    ParameterMutation { arg: Name, parameter_name: String },
    GradientToParameter { arg: Value },
    GradientToUserInput { arg: Value },
    UserInputMutation { arg: Name, user_input_name: String },
    Token { arg: Value },
}

/// `*_config.json`: where weights lie.
#[derive(Debug, Deserialize)]
pub(crate) struct PayloadConfig {
    #[serde(deserialize_with = "distinct")]
    pub config: IndexMap<String, Payload>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Payload {
    pub path_name: String,
    #[serde(default)]
    pub use_pickle: bool,
    pub tensor_meta: Option<TensorMeta>,
}
