//! Quantisation with a scale for each row or group of a row, against its formula worked out by hand: q = round(x / scale + zero), cut, and back
//! (q - zero) · scale. Source: `torch/ao/quantization/fx/_decomposed.py`.

use tenon_import_pt2::{ImportOptions, Program, import_program};
use tenon_ir::Session;
use tenon_reference::{Mode, run_function};
use tenon_tensor::{DType, Tensor};

use crate::refusals::{TENSOR, archive, config, node, program};

/// The output `y` of a program over `x` [2, 3] with these nodes; `values` describes what they declare.
pub(crate) fn run(nodes: &str, values: &str, x: &[f32; 6]) -> Tensor {
    let program = Program::decode(archive(&program(nodes, values), &config("", TENSOR)).into()).unwrap();
    let session = Session::new();
    let imported = import_program(&session, &program, "m.pt2", &ImportOptions::default()).unwrap();
    let x = Tensor::from_f32(vec![2, 3], x).unwrap();
    let weights = |name: &str| imported.weights.get(name).cloned();
    run_function(&imported.module, "main", &[x], &weights, Mode::Typed).unwrap().remove(0)
}

/// Arguments by name; all of them integers or lists of integers.
fn integers(arguments: &[(&str, &str)]) -> String {
    let argument = |(name, value): &(&str, &str)| {
        let kind = if value.starts_with('[') { "as_ints" } else { "as_int" };
        format!(r#"{{"name":"{name}","arg":{{"{kind}":{value}}},"kind":1}}"#)
    };
    arguments.iter().map(argument).collect::<Vec<_>>().join(",")
}

/// Scales are the largest magnitudes of rows, zero points are 3.
fn prepared() -> String {
    let magnitude = node("torch.ops.aten.abs.default", &[("self", "x")], "", "m");
    let keep = r#"{"name":"dim","arg":{"as_ints":[-1]},"kind":1},{"name":"keepdim","arg":{"as_bool":true},"kind":1}"#;
    let scale = node("torch.ops.aten.amax.default", &[("self", "m")], keep, "s");
    let three = integers(&[("size", "[2, 1]"), ("fill_value", "3")]);
    let zero = node(
        "torch.ops.aten.full.default",
        &[],
        &format!("{three},{{\"name\":\"dtype\",\"arg\":{{\"as_scalar_type\":5}},\"kind\":2}}"),
        "z",
    );
    [magnitude, scale, zero].join(",")
}

/// Limits, the element type i8, and what else there is.
fn quantized(target: &str, further: &[(&str, &str)], output: &str) -> String {
    let limits = integers(&[("quant_min", "-128"), ("quant_max", "127")]);
    let dtype = r#"{"name":"dtype","arg":{"as_scalar_type":2},"kind":1}"#;
    let rest = if further.is_empty() { String::new() } else { format!(",{}", integers(further)) };
    let input = if output == "q" { "x" } else { "q" };
    let tensors = [("input", input), ("scales", "s"), ("zero_points", "z")];
    node(
        &format!("torch.ops.quantized_decomposed.{target}.default"),
        &tensors,
        &format!("{limits},{dtype}{rest}"),
        output,
    )
}

const X: [f32; 6] = [1.0, -2.0, 3.0, 0.4, 0.1, -0.1];

#[test]
fn rows_have_scales_of_their_own() {
    for (target, group) in [("per_token", None), ("per_channel_group", Some(("group_size", "3")))] {
        let further: Vec<_> = group.into_iter().collect();
        let quantize = quantized(&format!("quantize_{target}"), &further, "q");
        let integers = run(&format!("{},{}", prepared(), quantize.replace("\"q\"", "\"y\"")), "", &X);
        assert_eq!(integers.dtype(), DType::I8);
        // x / scale + 3 is 3.33, 2.33, 4 in the first row, 4, 3.25, 2.75 in the second.
        assert_eq!(integers.to_f64_vec().unwrap(), [3.0, 2.0, 4.0, 4.0, 3.0, 3.0], "{target}");
        let dequantize = quantized(&format!("dequantize_{target}"), &further, "y");
        let output = r#"{"name":"output_dtype","arg":{"as_scalar_type":7},"kind":1}"#;
        let dequantize = dequantize.replacen("],\"outputs\"", &format!(",{output}],\"outputs\""), 1);
        let floats = run(&[prepared(), quantize, dequantize].join(","), "", &X);
        let expected = [0.0, -3.0, 3.0, 0.4f32, 0.0, 0.0];
        assert_eq!(floats.to_f32_vec().unwrap(), expected, "{target}");
    }
}
