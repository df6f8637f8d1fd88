"""Writes `squeezed.onnx`: a model that cannot be imported with its dimensions free, since which of them `Squeeze` drops depends on their sizes.

    generate.py [FOLDER]

x of batch x 1 x n loses its dimensions of size 1, and is multiplied with a weight of 4 x 3, w[i, j] = i + j / 4.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))

weight = np.add.outer(np.arange(4), np.arange(3) / 4).astype(np.float32)
graph = helper.make_graph(
    [helper.make_node("Squeeze", ["x"], ["rows"], name="squeeze"), helper.make_node("MatMul", ["rows", "w"], ["y"], name="product")],
    "squeezed",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, "n"])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    [numpy_helper.from_array(weight, "w")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8, producer_name="generate.py")
onnx.save(model, os.path.join(FOLDER, "squeezed.onnx"))
