//! What attention and the operators of ONNX Runtime do not take: refused by code, with the node and the reason.

use crate::common::*;
use tenon_import_onnx::proto::attribute_proto::AttributeType;
use tenon_import_onnx::proto::tensor_proto::DataType;
use tenon_import_onnx::proto::*;
use tenon_import_onnx::{ImportOptions, import_loaded};
use tenon_ir::Session;

fn typed(dtype: DataType, mut value: ValueInfoProto) -> ValueInfoProto {
    if let Some(type_proto::Value::TensorType(tensor)) = value.r#type.as_mut().and_then(|ty| ty.value.as_mut()) {
        tensor.elem_type = Some(dtype as i32);
    }
    value
}

fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { f: Some(f), ..attribute(name, AttributeType::Float) }
}

/// Imports a model of one operator whose inputs are those given, in order; `None` leaves one out.
fn import(
    (domain, version): (&str, i64),
    operator: &str,
    inputs: &[Option<ValueInfoProto>],
    outputs: &[&str],
    attributes: &[AttributeProto],
) -> Result<(), (&'static str, String)> {
    let names: Vec<&str> = inputs.iter().map(|input| input.as_ref().map_or("", |value| value.name())).collect();
    let mut only = node(operator, &names, outputs);
    only.domain = Some(domain.to_owned());
    only.attribute = attributes.to_vec();
    let graph = GraphProto {
        name: Some("g".to_owned()),
        node: vec![only],
        input: inputs.iter().flatten().cloned().collect(),
        output: vec![ValueInfoProto { name: Some(outputs[0].to_owned()), ..value("", &[]) }],
        ..GraphProto::default()
    };
    let mut proto = model(graph);
    proto.ir_version = Some(13);
    proto.opset_import = match domain {
        "" => vec![opset("", version)],
        _ => vec![opset("", 17), opset(domain, version)],
    };
    proto.graph.as_mut().unwrap().output[0].r#type = None;
    let refused = |error: tenon_import_onnx::ImportError| (error.code(), error.to_string());
    let read = read(&proto).map_err(refused)?;
    import_loaded(&Session::new(), &read, "model.onnx", &ImportOptions::default()).map(drop).map_err(refused)
}

#[track_caller]
fn assert_refused(result: Result<(), (&'static str, String)>, code: &str, words: &str) {
    let (found, message) = result.expect_err("the model is refused");
    assert_eq!(found, code, "{message}");
    assert!(message.contains(words), "{message}");
}

#[test]
fn onnx_attention() {
    let [q, k, v] = ["q", "k", "v"].map(|name| Some(value(name, &[1, 2, 3, 4])));
    let run = |inputs: &[Option<ValueInfoProto>], attributes: &[AttributeProto]| {
        import(("", 25), "Attention", inputs, &["y"], attributes)
    };
    let plain = [q.clone(), k.clone(), v.clone()];
    assert_eq!(run(&plain, &[]), Ok(()));
    let double = Some(typed(DataType::Double, value("v", &[1, 2, 3, 4])));
    assert_refused(run(&[q.clone(), k.clone(), double], &[]), "E0135", "several element types");
    let flat = ["q", "k", "v"].map(|name| Some(value(name, &[1, 3, 8])));
    assert_refused(run(&flat, &[]), "E0132", "q_num_heads and kv_num_heads");
    assert_refused(run(&flat, &[int("q_num_heads", 3), int("kv_num_heads", 2)]), "E0132", "3 heads");
    assert_refused(run(&flat, &[int("q_num_heads", 0), int("kv_num_heads", 2)]), "E0132", "0 heads");
    assert_refused(run(&plain, &[int("qk_matmul_output_mode", 4)]), "E0116", "0 to 3");
    assert_refused(run(&plain, &[int("left_window_size", -2)]), "E0116", "left_window_size");
    assert_refused(run(&plain, &[int("softmax_precision", 7)]), "E0116", "f16, bf16, f32 or f64");
    let with = |mask: ValueInfoProto| run(&[q.clone(), k.clone(), v.clone(), Some(mask)], &[]);
    assert_refused(with(typed(DataType::Int8, value("m", &[3, 3]))), "E0135", "mask of type");
    assert_refused(with(typed(DataType::Double, value("m", &[3, 3]))), "E0135", "mask of type f64");
    assert_refused(with(value("m", &[3, 5])), "E0132", "more than 3 keys");
    let past = Some(value("past", &[1, 2, 5, 4]));
    let half = [q.clone(), k.clone(), v.clone(), None, past.clone()];
    assert_refused(run(&half, &[]), "E0132", "together or not at all");
    let counts = Some(typed(DataType::Int64, value("n", &[1])));
    let other = Some(value("past_value", &[1, 2, 5, 4]));
    let both = [q.clone(), k.clone(), v.clone(), None, past, other, counts.clone()];
    assert_refused(run(&both, &[]), "E0132", "a cache outside");
    let old = import(("", 23), "Attention", &[q, k, v, None, None, None, counts], &["y"], &[]);
    assert_refused(old, "E0132", "3 to 6 inputs");
}

#[test]
fn rotary_embedding() {
    let [x, cosine, sine] = [("x", vec![1, 2, 3, 4]), ("c", vec![1, 3, 2]), ("s", vec![1, 3, 2])]
        .map(|(name, dims)| Some(value(name, &dims)));
    let inputs = [x, cosine, sine];
    let run = |attributes: &[AttributeProto]| import(("", 23), "RotaryEmbedding", &inputs, &["y"], attributes);
    assert_eq!(run(&[]), Ok(()));
    assert_refused(run(&[int("rotary_embedding_dim", 3)]), "E0116", "an even number");
    assert_refused(run(&[int("rotary_embedding_dim", 2)]), "E0132", "1 angles");
    let places = Some(typed(DataType::Int64, value("p", &[1, 3])));
    let by_place = [inputs[0].clone(), inputs[1].clone(), inputs[2].clone(), places];
    assert_refused(import(("", 23), "RotaryEmbedding", &by_place, &["y"], &[]), "E0132", "caches by position");
}

const MICROSOFT: (&str, i64) = ("com.microsoft", 1);

#[test]
fn microsoft_attention() {
    let x = Some(value("x", &[2, 3, 8]));
    let weights = Some(value("w", &[8, 24]));
    let run = |rest: &[Option<ValueInfoProto>], attributes: &[AttributeProto]| {
        let inputs = [&[x.clone(), weights.clone()], rest].concat();
        import(MICROSOFT, "Attention", &inputs, &["y"], &[&[int("num_heads", 2)], attributes].concat())
    };
    assert_eq!(run(&[], &[]), Ok(()));
    assert_refused(import(MICROSOFT, "Attention", &[x.clone(), weights.clone()], &["y"], &[]), "E0116", "num_heads");
    assert_refused(run(&[], &[int("do_rotary", 1)]), "E0135", "do_rotary");
    assert_refused(run(&[], &[int("past_present_share_buffer", 1)]), "E0135", "shares its memory");
    let mask = |dims: &[i64]| Some(typed(DataType::Int32, value("m", dims)));
    for dims in [&[2, 1, 3, 3][..], &[8]] {
        assert_refused(run(&[None, mask(dims)], &[]), "E0135", "a mask");
    }
    for dims in [&[2, 4][..], &[3, 3], &[2, 2, 3]] {
        assert_refused(run(&[None, mask(dims)], &[]), "E0132", "the mask");
    }
    assert_refused(run(&[None, Some(value("m", &[2, 3]))], &[]), "E0132", "of i32");
    let sizes = AttributeProto { ints: vec![8, 4, 12], ..attribute("qkv_hidden_sizes", AttributeType::Ints) };
    assert_refused(run(&[], &[sizes]), "E0132", "24 columns");
    assert_refused(run(&[Some(value("b", &[1]))], &[int("num_heads_", 1)]), "E0117", "num_heads_");
}

#[test]
fn other_operators_of_onnx_runtime() {
    let packed = [Some(value("q", &[2, 3, 2, 3, 4]))];
    let heads = [int("num_heads", 2)];
    assert_refused(import(MICROSOFT, "MultiHeadAttention", &packed, &["y"], &heads), "E0135", "packed");
    let three = ["q", "k", "v"].map(|name| Some(value(name, &[2, 3, 8])));
    let outputs = ["y", "", "", "qk"];
    assert_refused(import(MICROSOFT, "MultiHeadAttention", &three, &outputs, &heads), "E0135", "`qk`");
    let skip = [Some(value("x", &[2, 3, 8])), Some(value("s", &[2, 3, 8])), Some(value("g", &[8]))];
    assert_refused(import(MICROSOFT, "SkipLayerNormalization", &skip, &["y", "mean"], &[]), "E0135", "statistics");
    let wide = [skip[0].clone(), Some(value("s", &[4, 1, 3, 8])), skip[2].clone()];
    assert_refused(import(MICROSOFT, "SkipLayerNormalization", &wide, &["y"], &[]), "E0132", "does not broadcast");
    let short = [skip[0].clone(), skip[1].clone(), Some(value("g", &[4]))];
    assert_refused(import(MICROSOFT, "SkipLayerNormalization", &short, &["y"], &[]), "E0132", "last dimension");
    let bias = [skip[0].clone(), Some(value("b", &[1, 8]))];
    assert_refused(import(MICROSOFT, "BiasGelu", &bias, &["y"], &[]), "E0132", "must be a list");
    let words = |name| Some(typed(DataType::Int32, value(name, &[2, 3])));
    let table = |name| Some(value(name, &[9, 8]));
    let list = |name| Some(value(name, &[8]));
    let embed = [words("ids"), words("segments"), table("w"), table("p"), None, list("g"), list("b")];
    assert_refused(import(MICROSOFT, "EmbedLayerNormalization", &embed, &["y"], &[]), "E0132", "segments");
    let positions = Some(typed(DataType::Int64, value("p", &[1])));
    let rotary = [Some(value("x", &[1, 3, 8])), positions, Some(value("c", &[9, 2])), Some(value("s", &[9, 2]))];
    assert_eq!(import(MICROSOFT, "RotaryEmbedding", &rotary, &["y"], &[]), Ok(()));
    assert_refused(import(MICROSOFT, "RotaryEmbedding", &rotary, &["y"], &[float("scale", 2.0)]), "E0135", "`scale`");
    let packed = [int("is_packed_batching", 1)];
    assert_refused(import(MICROSOFT, "RotaryEmbedding", &rotary, &["y"], &packed), "E0135", "is_packed_batching");
    assert_refused(import(MICROSOFT, "QuickGelu", &rotary[..2], &["y"], &[]), "E0132", "1 inputs");
    assert_refused(import(("com.example", 1), "QuickGelu", &rotary[..1], &["y"], &[]), "E0130", "com.example");
}
