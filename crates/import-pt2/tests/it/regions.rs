//! Control flow whose regions do not fit together.

use crate::quantized::run;
use crate::refusals::{TENSOR, archive, config, import, node, program, refused};

/// A graph of one input `a` [2, 3] and one node, whose output is `b`.
fn graph(target: &str) -> String {
    let call = node(target, &[("self", "a")], "", "b");
    let inner = format!(
        r#"{{"inputs":[{{"as_tensor":{{"name":"a"}}}}],"outputs":[{{"as_tensor":{{"name":"b"}}}}],"nodes":[{call}],"tensor_values":{{"a":{TENSOR}}}}}"#
    );
    format!(r#"{{"name":"","arg":{{"as_graph":{{"name":"g","graph":{inner}}}}},"kind":1}}"#)
}

/// `y` [2, 3] is one of two branches over `x`, by a value of `x`.
fn branches(taken: &str, other: &str) -> Vec<u8> {
    let predicate = node("torch.ops.aten.any.default", &[("self", "x")], "", "p");
    let operands = r#"{"name":"","arg":{"as_tensors":[{"name":"x"}]},"kind":1}"#;
    let further = [graph(taken).as_str(), &graph(other), operands].join(",");
    let choice = node("torch.ops.higher_order.cond", &[("", "p")], &further, "y");
    let model = program(&format!("{predicate},{choice}"), &format!(",\"y\":{TENSOR}"));
    archive(&model, &config("", TENSOR))
}

#[test]
fn branches_of_different_types_are_refused() {
    import(branches("torch.ops.aten.relu.default", "torch.ops.aten.neg.default")).unwrap();
    let message = refused(branches("torch.ops.aten.relu.default", "torch.ops.aten.t.default"), "E0177");
    assert!(message.contains("node `y`") && message.contains("f32[3, 2]"), "{message}");
}

#[test]
fn a_scalar_cannot_be_scanned() {
    let scalar = node("torch.ops.aten.sum.default", &[("self", "x")], "", "s");
    let scanned = r#"{"name":"","arg":{"as_tensors":[{"name":"s"}]},"kind":1}"#;
    let further = [graph("torch.ops.aten.relu.default").as_str(), scanned].join(",");
    let map = node("torch.ops.higher_order.map_impl", &[], &further, "y");
    let model = program(&format!("{scalar},{map}"), &format!(",\"y\":{TENSOR}"));
    refused(archive(&model, &config("", TENSOR)), "E0177");
}

const ROW: &str = r#"{"dtype":7,"sizes":[{"as_int":3}],"strides":[{"as_int":1}],"layout":7}"#;

/// A graph of these inputs and one node, whose output is given `times` times.
fn body(inputs: &[&str], node: &str, output: &str, times: usize) -> String {
    let tensor = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
    let list = |names: &[&str]| names.iter().map(|name| tensor(name)).collect::<Vec<_>>().join(",");
    let values: Vec<_> = inputs.iter().chain([&output]).map(|name| format!(r#""{name}":{ROW}"#)).collect();
    format!(
        r#"{{"name":"","arg":{{"as_graph":{{"name":"g","graph":{{"inputs":[{}],"outputs":[{}],"nodes":[{node}],"tensor_values":{{{}}}}}}}}},"kind":1}}"#,
        list(inputs),
        list(&vec![output; times]),
        values.join(",")
    )
}

const X: [f32; 6] = [1.0, -2.0, 3.0, 0.5, 4.0, -6.0];

#[test]
fn a_map_goes_over_rows() {
    let relu = node("torch.ops.aten.relu.default", &[("self", "a")], "", "b");
    let scanned = r#"{"name":"","arg":{"as_tensors":[{"name":"x"}]},"kind":1}"#;
    let further = [body(&["a"], &relu, "b", 1).as_str(), scanned].join(",");
    let map = node("torch.ops.higher_order.map_impl", &[], &further, "y");
    let y = run(&map, &format!(",\"y\":{TENSOR}"), &X);
    assert_eq!(y.to_f32_vec().unwrap(), [1.0, 0.0, 3.0, 0.5, 4.0, 0.0]);
}

/// The running sum of rows that begins with 10.
#[test]
fn a_scan_carries_its_state_from_row_to_row() {
    let ten =
        r#"{"name":"size","arg":{"as_ints":[3]},"kind":1},{"name":"fill_value","arg":{"as_float":10.0},"kind":1}"#;
    let first = node("torch.ops.aten.full.default", &[], ten, "f");
    let add = node("torch.ops.aten.add.Tensor", &[("self", "s"), ("other", "a")], "", "b");
    let list = |name: &str| format!(r#"{{"name":"","arg":{{"as_tensors":[{{"name":"{name}"}}]}},"kind":1}}"#);
    let further = [body(&["s", "a"], &add, "b", 2), list("f"), list("x")].join(",");
    let scan = node("torch.ops.higher_order.scan", &[], &further, "y");
    let outputs = r#""outputs":[{"as_tensor":{"name":"y"}}]"#;
    assert!(scan.contains(outputs));
    let scan = scan.replace(outputs, r#""outputs":[{"as_tensors":[{"name":"last"},{"name":"y"}]}]"#);
    let y = run(&format!("{first},{scan}"), &format!(",\"last\":{ROW},\"y\":{TENSOR}"), &X);
    assert_eq!(y.to_f32_vec().unwrap(), [11.0, 8.0, 13.0, 11.5, 12.0, 7.0]);
}
