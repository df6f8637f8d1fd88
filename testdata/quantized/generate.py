"""Writes the cases of this folder: one product of quantised integers each, seeded inputs, and what ONNX Runtime gives for them.

    generate.py [FOLDER]

The layout is that of the ONNX backend tests. Inputs named `c_…` are initializers of the model. The files that are committed are those of
onnxruntime 1.32.0.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def case(name, operator, inputs, **attributes):
    """`inputs` are pairs of a name and an array, or None."""
    names = [pair[0] if pair else "" for pair in inputs]
    given = [pair for pair in inputs if pair and not pair[0].startswith("c_")]
    constants = [numpy_helper.from_array(pair[1], pair[0]) for pair in inputs if pair and pair[0].startswith("c_")]
    node = helper.make_node(operator, names, ["y"], name=operator, **attributes)
    of = lambda array: helper.np_dtype_to_tensor_dtype(array.dtype)
    values = [helper.make_tensor_value_info(key, of(array), array.shape) for key, array in given]
    make = lambda result: helper.make_model(
        helper.make_graph([node], name, values, [result], constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(make(helper.make_empty_tensor_value_info("y")).SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(["y"], dict(given))
    folder = os.path.join(FOLDER, name, "test_data_set_0")
    os.makedirs(folder, exist_ok=True)
    onnx.save(make(helper.make_tensor_value_info("y", of(result), result.shape)), os.path.join(FOLDER, name, "model.onnx"))
    for kind, arrays in (("input", given), ("output", [("y", result)])):
        for index, (key, array) in enumerate(arrays):
            with open(os.path.join(folder, f"{kind}_{index}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(array, key).SerializeToString())


random = np.random.default_rng(7)
u8 = lambda *shape: random.integers(0, 256, shape).astype(np.uint8)
i8 = lambda *shape: random.integers(-128, 128, shape).astype(np.int8)
f32 = lambda value: np.array(value, np.float32)

case("matmul_u8_i8", "MatMulInteger", [("a", u8(48, 64)), ("b", i8(64, 40)), ("p", np.array(113, np.uint8)), ("q", np.array(-7, np.int8))])
case("matmul_u8_u8_weights", "MatMulInteger",
     [("a", u8(2, 17, 33)), ("c_b", u8(33, 24)), ("p", np.array(3, np.uint8)), ("c_q", np.array(128, np.uint8))])
case("matmul_columns", "MatMulInteger", [("a", u8(20, 32)), ("b", i8(32, 16)), ("p", np.array(9, np.uint8)), ("q", i8(16))])
case("matmul_no_zero", "MatMulInteger", [("a", u8(32, 32)), ("b", i8(32, 32))])
case("conv_padded", "ConvInteger", [("x", u8(1, 16, 9, 11)), ("c_w", u8(24, 16, 3, 3)), ("p", np.array(77, np.uint8)), ("c_q", np.array(128, np.uint8))],
     pads=[1, 2, 1, 0], strides=[2, 1])
case("conv_odd_zero", "ConvInteger", [("x", u8(1, 4, 6, 6)), ("c_w", u8(8, 4, 3, 3)), ("c_p", np.array(1, np.uint8)), ("c_q", np.array(100, np.uint8))],
     pads=[1, 1, 1, 1])
case("qlinear_matmul", "QLinearMatMul",
     [("a", u8(40, 64)), ("c_as", f32(0.02)), ("c_az", np.array(120, np.uint8)), ("c_b", i8(64, 48)), ("c_bs", f32(0.01)), ("c_bz", np.array(0, np.int8)),
      ("c_ys", f32(0.25)), ("c_yz", np.array(100, np.uint8))])
scales = random.uniform(0.001, 0.01, 32).astype(np.float32)
case("qlinear_conv", "QLinearConv",
     [("x", u8(1, 16, 8, 8)), ("c_xs", f32(0.02)), ("c_xz", np.array(130, np.uint8)), ("c_w", i8(32, 16, 3, 3)), ("c_ws", scales),
      ("c_wz", np.zeros(32, np.int8)), ("c_ys", f32(0.05)), ("c_yz", np.array(128, np.uint8)), ("c_bias", random.integers(-999, 999, 32).astype(np.int32))],
     pads=[1, 1, 1, 1])
case("qlinear_conv_depthwise", "QLinearConv",
     [("x", u8(1, 16, 8, 8)), ("c_xs", f32(0.02)), ("c_xz", np.array(5, np.uint8)), ("c_w", i8(16, 1, 3, 3)), ("c_ws", f32(0.01)),
      ("c_wz", np.array(0, np.int8)), ("c_ys", f32(0.05)), ("c_yz", np.array(128, np.uint8))],
     pads=[1, 1, 1, 1], group=16)
