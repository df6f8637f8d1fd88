//! The table as JSON Schema (draft 2020-12), for editors.

use serde_json::{Map, Value, json};
use tenon_tensor::DType as ElementType;

use super::Kind::{
    Bool, Bytes, Choice, DType, Dims, Integer, Named, Number, Scalar, Sequences, Sha256, Sizes, Table, Text, Texts,
    Version,
};
use super::{Key, Kind, MAX_SIZE, ROOT, Status};
use crate::Recipe;

impl Recipe {
    /// The JSON Schema of recipes. Clauses that this version refuses are described as such.
    pub fn json_schema() -> Value {
        let mut schema = schema(&ROOT);
        if let Some(root) = schema.as_object_mut() {
            root.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
            root.insert("title".to_owned(), json!("Tenon recipe"));
            root.insert("required".to_owned(), json!(["recipe"]));
        }
        schema
    }
}

fn schema(kind: &Kind) -> Value {
    let text = || json!({"type": "string", "minLength": 1});
    match kind {
        Table(keys) => {
            let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), described(key))).collect();
            json!({"type": "object", "additionalProperties": false, "properties": properties})
        }
        Named(below) => json!({"type": "object", "additionalProperties": schema(below)}),
        Choice(words) => {
            let words: Vec<_> =
                words.iter().filter(|word| word.status == Status::Enforced).map(|word| word.word).collect();
            json!({"enum": words})
        }
        Text => text(),
        Sha256 => json!({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
        Bool => json!({"type": "boolean"}),
        Version => json!({"const": 1}),
        Integer(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Number(least, most) => {
            let mut number = Map::from_iter([("type".to_owned(), json!("number"))]);
            if *least > -f64::MAX {
                number.insert("minimum".to_owned(), json!(least));
            }
            if *most < f64::MAX {
                number.insert("maximum".to_owned(), json!(most));
            }
            Value::Object(number)
        }
        Scalar => json!({"type": ["number", "boolean"]}),
        Bytes => {
            json!({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+ ?([KMGT]i?)?B$"}]})
        }
        DType => json!({"enum": ElementType::all().map(ElementType::name).collect::<Vec<_>>()}),
        Sizes => json!({
            "type": "array", "minItems": 1, "uniqueItems": true,
            "items": {"type": "integer", "minimum": 1, "maximum": MAX_SIZE},
        }),
        Dims => json!({
            "type": "array",
            "items": {"anyOf": [text(), {"type": "integer", "minimum": 0, "maximum": MAX_SIZE}]},
        }),
        Texts => json!({"type": "array", "uniqueItems": true, "items": text()}),
        Sequences => json!({"type": "array", "items": {"type": "array", "minItems": 1, "items": text()}}),
    }
}

fn described(key: &Key) -> Value {
    let mut schema = schema(&key.kind);
    let about = match key.status {
        Status::Enforced => key.about.to_owned(),
        Status::Refused(reason) => format!("Refused in this version: {reason}. {}", key.about),
    };
    if let Some(object) = schema.as_object_mut() {
        object.insert("description".to_owned(), json!(about));
    }
    schema
}
