"""Writes the cases of this folder: one product of quantised integers each, seeded inputs, and what the operator's definition gives for them.

    generate.py [FOLDER]

The layout is that of the ONNX backend tests. Inputs named `c_…` are initializers of the model. Results are computed here, with integers: ONNX
Runtime's products of u8 and i8 saturate at 16 bits on processors without VNNI, so that it is no witness.
"""
import os
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def along(values, axis, rank):
    """A zero point or scale as an array that broadcasts: a list goes along `axis`."""
    values = np.asarray(values)
    return values.reshape([-1] + [1] * (rank - 1 - axis)) if values.ndim == 1 else values


def centred(value, zero, axis):
    return value.astype(np.int64) - along(zero, axis, value.ndim).astype(np.int64)


def convolution(x, w, pads, strides, group):
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    (outputs, channels, height, width), each = w.shape, w.shape[0] // group
    rows = (x.shape[2] - height) // strides[0] + 1
    columns = (x.shape[3] - width) // strides[1] + 1
    y = np.zeros((x.shape[0], outputs, rows, columns), np.int64)
    for o in range(outputs):
        part = x[:, o // each * channels:(o // each + 1) * channels]
        for i in range(rows):
            for j in range(columns):
                window = part[:, :, i * strides[0]:i * strides[0] + height, j * strides[1]:j * strides[1] + width]
                y[:, o, i, j] = (window * w[o]).sum(axis=(1, 2, 3))
    return y


def product(operator, a, b, attributes):
    if "MatMul" in operator:
        return a @ b
    return convolution(a, b, attributes.get("pads", [0] * 4), attributes.get("strides", [1, 1]), attributes.get("group", 1))


def result(operator, arrays, attributes):
    """What ONNX defines."""
    is_matrix = "MatMul" in operator
    if operator.startswith("QLinear"):
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, *bias = arrays
    else:
        a, b, a_zero, b_zero = arrays + [np.int64(0)] * (4 - len(arrays))
    axes = (a.ndim - 2, b.ndim - 1) if is_matrix else (1, 0)
    sums = product(operator, centred(a, a_zero, axes[0]), centred(b, b_zero, axes[1]), attributes)
    if not operator.startswith("QLinear"):
        return sums.astype(np.int32)
    if bias:
        sums = sums + along(bias[0], 1, sums.ndim)
    scale = a_scale * along(b_scale, sums.ndim - 1 if is_matrix else 1, sums.ndim)
    real = np.round(sums.astype(np.float32) * scale / y_scale).astype(np.int64) + y_zero
    bounds = np.iinfo(y_zero.dtype)
    return np.clip(real, bounds.min, bounds.max).astype(y_zero.dtype)


def dequantised(names):
    """A product of dequantised values, quantised: what QLinearMatMul is in the nodes of quantisation tools."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = names
    return [
        helper.make_node("DequantizeLinear", [a, a_scale, a_zero], ["wide_a"], name="Dequantize_a"),
        helper.make_node("DequantizeLinear", [b, b_scale, b_zero], ["wide_b"], name="Dequantize_b", axis=1),
        helper.make_node("MatMul", ["wide_a", "wide_b"], ["wide_y"], name="MatMul"),
        helper.make_node("QuantizeLinear", ["wide_y", y_scale, y_zero], ["y"], name="Quantize_y"),
    ]


def case(name, operator, inputs, **attributes):
    """`inputs` are pairs of a name and an array; nodes of `operator`, or, where `in_floats`, those that are the same in real numbers."""
    names = [pair[0] for pair in inputs]
    given = [pair for pair in inputs if not pair[0].startswith("c_")]
    constants = [numpy_helper.from_array(pair[1], pair[0]) for pair in inputs if pair[0].startswith("c_")]
    in_floats = attributes.pop("in_floats", False)
    nodes = dequantised(names) if in_floats else [helper.make_node(operator, names, ["y"], name=operator, **attributes)]
    of = lambda array: helper.np_dtype_to_tensor_dtype(array.dtype)
    values = [helper.make_tensor_value_info(key, of(array), array.shape) for key, array in given]
    make = lambda output: helper.make_model(
        helper.make_graph(nodes, name, values, [output], constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    y = result(operator, [pair[1] for pair in inputs], attributes)
    folder = os.path.join(FOLDER, name, "test_data_set_0")
    os.makedirs(folder, exist_ok=True)
    onnx.save(make(helper.make_tensor_value_info("y", of(y), y.shape)), os.path.join(FOLDER, name, "model.onnx"))
    for kind, arrays in (("input", given), ("output", [("y", y)])):
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
# The scale of the second result leaves no sum of integers half-way between two of its numbers, where a product in floats may round to either.
for name, scale, weights in [
    ("qdq_matmul", 0.25, [("c_b", i8(96, 80)), ("c_bs", random.uniform(0.001, 0.01, 80).astype(np.float32)), ("c_bz", np.zeros(80, np.int8))]),
    ("qdq_matmul_u8_weights", 0.2371, [("c_b", u8(96, 80)), ("c_bs", f32(0.01)), ("c_bz", np.array(128, np.uint8))]),
]:
    case(name, "QLinearMatMul",
         [("a", u8(2, 24, 96)), ("c_as", f32(0.02)), ("c_az", np.array(120, np.uint8)), *weights, ("c_ys", f32(scale)), ("c_yz", np.array(100, np.uint8))],
         in_floats=True)
