//! Indices and lengths that are known at import, held against the sizes that they address.

use crate::common::*;
use tenon_graph_dialect::Requirement;
use tenon_import_onnx::proto::tensor_proto::DataType;
use tenon_import_onnx::proto::*;
use tenon_import_onnx::{ImportError, ImportOptions, import_loaded};
use tenon_ir::Session;

/// Integers as an initializer.
fn places(name: &str, dims: &[i64], values: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: dims.to_vec(),
        data_type: Some(DataType::Int64 as i32),
        int64_data: values.to_vec(),
        ..TensorProto::default()
    }
}

/// A graph of one node and the input `x`; its output `y` is not declared.
fn graph(node: NodeProto, x: &[i64], initializer: Vec<TensorProto>) -> GraphProto {
    GraphProto {
        node: vec![node],
        input: vec![value("x", x)],
        output: vec![ValueInfoProto { name: Some("y".to_owned()), ..ValueInfoProto::default() }],
        initializer,
        ..GraphProto::default()
    }
}

/// What importing gives: conditions on sizes, or the refusal.
fn import(graph: GraphProto) -> Result<Vec<String>, ImportError> {
    let session = Session::new();
    let imported = import_loaded(&session, &read(&model(graph))?, "model.onnx", &ImportOptions::default())?;
    let requirements = Requirement::read_all(imported.module.op()).unwrap();
    Ok(requirements.into_iter().map(|requirement| requirement.condition.to_string()).collect())
}

/// ONNX Runtime 1.32 refuses the same: "indices element out of data bounds, idx=5 must be within the inclusive range [-5,4]".
#[test]
fn constant_indices_lie_inside() {
    let updates = || ones("u", &[2, 3]);
    // The node, its inputs, and the shape of its indices.
    type Case = (&'static str, &'static [&'static str], &'static [i64]);
    let cases: [Case; 5] = [
        ("Gather", &["x", "i"], &[2]),
        ("GatherElements", &["x", "i"], &[2, 3]),
        ("GatherND", &["x", "i"], &[2, 1]),
        ("ScatterElements", &["x", "i", "u"], &[2, 3]),
        ("ScatterND", &["x", "i", "u"], &[2, 1]),
    ];
    for (operator, inputs, dims) in cases {
        let count = dims.iter().product::<i64>() as usize;
        let with = |last: i64, rows: i64| {
            let mut values = vec![0; count];
            values[count - 1] = last;
            let initializer = vec![places("i", dims, &values), updates()];
            import(graph(node(operator, inputs, &["y"]), &[rows, 3], initializer))
        };
        for inside in [-5, -1, 0, 4] {
            assert_eq!(with(inside, 5).unwrap(), Vec::<String>::new(), "{operator} {inside}");
        }
        for outside in [-6, 5, i64::MAX, i64::MIN] {
            let error = with(outside, 5).unwrap_err();
            assert_eq!(error.code(), "E0134", "{operator} {outside}: {error}");
            let text = error.to_string();
            assert!(text.contains(&format!("node `{}`", operator.to_lowercase())), "{text}");
            let expected = format!("{outside} points outside of a dimension of size 5, which takes -5 to 4");
            assert!(text.contains(&expected), "{text}");
        }
        // Of a size that requests have, the request is held against it.
        assert_eq!(with(4, -1).unwrap(), ["5 <= n"], "{operator}");
        assert_eq!(with(-3, -1).unwrap(), ["3 <= n"], "{operator}");
    }
}

/// Each entry of a tuple addresses a dimension of its own.
#[test]
fn entries_of_tuples_address_their_dimensions() {
    let with = |values: &[i64]| {
        let initializer = vec![places("i", &[2, 2], values)];
        import(graph(node("GatherND", &["x", "i"], &["y"]), &[5, 3], initializer))
    };
    with(&[4, 2, -5, -3]).unwrap();
    for (values, expected) in [([4, 3, 0, 0], "3 points outside of a dimension of size 3"), ([0, 0, 5, 0], "size 5")] {
        let text = with(&values).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    // With a batch dimension the tuples address those behind it.
    let mut batched = node("GatherND", &["x", "i"], &["y"]);
    batched.attribute = vec![int("batch_dims", 1)];
    let with = |last: i64| import(graph(batched.clone(), &[2, 3], vec![places("i", &[2, 1], &[0, last])]));
    with(2).unwrap();
    assert_eq!(with(3).unwrap_err().code(), "E0134");
}

#[test]
fn constant_lengths_of_recurrent_layers_lie_inside() {
    let with = |lengths: [i64; 2], steps: i64| {
        let mut lstm = node("LSTM", &["x", "w", "r", "", "lengths"], &["y"]);
        lstm.attribute = vec![int("hidden_size", 4)];
        let mut list = places("lengths", &[2], &[]);
        list.data_type = Some(DataType::Int32 as i32);
        list.int32_data = lengths.iter().map(|length| *length as i32).collect();
        list.int64_data.clear();
        import(graph(lstm, &[steps, 2, 3], vec![ones("w", &[1, 16, 3]), ones("r", &[1, 16, 4]), list]))
    };
    assert_eq!(with([0, 5], 5).unwrap(), Vec::<String>::new());
    for (outside, number) in [([6, 1], "6"), ([2, -1], "-1")] {
        let error = with(outside, 5).unwrap_err();
        assert_eq!(error.code(), "E0132", "{error}");
        assert!(error.to_string().contains(&format!("`sequence_lens` has {number}")), "{error}");
    }
    assert_eq!(with([2, 7], -1).unwrap(), ["7 <= n"]);
    assert_eq!(with([2, -1], -1).unwrap_err().code(), "E0132");
}
