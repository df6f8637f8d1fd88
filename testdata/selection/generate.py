"""Writes the cases of this folder: graphs whose sizes depend on values, seeded inputs, and what ONNX Runtime gives for them.

    generate.py [FOLDER] [SEED]

The layout is that of the ONNX backend tests: NAME/model.onnx, NAME/test_data_set_0/input_K.pb and output_K.pb. The files that are committed are those of
seed 1 and onnxruntime 1.32.0. What ONNX Runtime leaves out or gives otherwise than ONNX says (NaN in Unique, scalars in NonZero) is not here.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1


class Case:
    """A graph that is put together node by node; the generator of numbers depends on its name alone."""

    def __init__(self, name):
        self.name, self.nodes, self.given, self.constants = name, [], [], []
        self.random = np.random.default_rng([SEED, *name.encode()])

    def input(self, array):
        self.given.append((f"in{len(self.given)}", array))
        return self.given[-1][0]

    def constant(self, values, dtype=np.int64):
        self.constants.append(numpy_helper.from_array(np.array(values, dtype), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, operator, inputs, count=1, **attributes):
        number = len(self.nodes)
        outputs = [f"v{number}_{index}" for index in range(count)]
        self.nodes.append(helper.make_node(operator, inputs, outputs, name=f"{operator}_{number}", **attributes))
        return outputs[0] if count == 1 else outputs

    def write(self, outputs):
        type_of = lambda array: helper.np_dtype_to_tensor_dtype(array.dtype)
        value = lambda name, array: helper.make_tensor_value_info(name, type_of(array), array.shape)
        values = [value(name, array) for name, array in self.given]
        opsets = [helper.make_opsetid("", 17)]
        make = lambda results: helper.make_model(helper.make_graph(self.nodes, self.name, values, results, self.constants), opset_imports=opsets, ir_version=8)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        bare = make([helper.make_empty_tensor_value_info(name) for name in outputs])
        results = ort.InferenceSession(bare.SerializeToString(), options).run(outputs, dict(self.given))
        free = lambda name, array: helper.make_tensor_value_info(name, type_of(array), [f"{name}_{axis}" for axis in range(array.ndim)])
        model = make([free(name, array) for name, array in zip(outputs, results)])
        folder = os.path.join(FOLDER, self.name, "test_data_set_0")
        os.makedirs(folder, exist_ok=True)
        onnx.save(model, os.path.join(FOLDER, self.name, "model.onnx"))
        for kind, arrays in (("input", self.given), ("output", list(zip(outputs, results)))):
            for index, (name, array) in enumerate(arrays):
                with open(os.path.join(folder, f"{kind}_{index}.pb"), "wb") as file:
                    file.write(numpy_helper.from_array(array, name).SerializeToString())


def sparse(case, shape, dtype, part=0.4):
    values = case.random.integers(-3, 4, shape)
    return (values * (case.random.random(shape) < part)).astype(dtype)


def non_zero():
    for index, (shape, dtype, part) in enumerate([((7,), np.float32, 0.5), ((300,), np.int64, 0.1), ((5, 9), np.int32, 0.4),
                                                  ((2, 3, 11), np.float32, 0.6), ((4, 4), np.bool_, 0.5), ((4, 5), np.float32, 0.0),
                                                  ((3, 0, 2), np.float32, 0.5), ((1, 1), np.int64, 2.0)]):
        case = Case(f"nonzero_{index}")
        x = case.input(sparse(case, shape, dtype, part))
        case.write([case.node("NonZero", [x])])
    case = Case("nonzero_gather")
    x = case.input(sparse(case, (6, 7), np.float32))
    places = case.node("Transpose", [case.node("NonZero", [x])], perm=[1, 0])
    values = case.node("GatherND", [x, places])
    total = case.node("ReduceSum", [values], keepdims=0)
    case.write([places, values, case.node("Softmax", [values], axis=0), total])
    for index, value in enumerate([0.0, 2.0]):
        # Reductions and sums of one element at most.
        case = Case(f"nonzero_of_one_{index}")
        x, table = case.input(np.array([value], np.float32)), case.input(case.random.standard_normal((1, 3)).astype(np.float32))
        rows = case.node("Gather", [table, case.node("Squeeze", [case.node("NonZero", [x]), case.constant([0])])], axis=0)
        total = case.node("ReduceSum", [rows, case.constant([0])], keepdims=0)
        case.write([rows, total, case.node("CumSum", [rows, case.constant(0)]), case.node("Softmax", [rows], axis=0)])
    case = Case("nonzero_rows")
    x, table = case.input(sparse(case, (9,), np.int64)), case.input(case.random.standard_normal((9, 4)).astype(np.float32))
    rows = case.node("Gather", [table, case.node("Squeeze", [case.node("NonZero", [x]), case.constant([0])])], axis=0)
    pairs = case.node("MatMul", [rows, case.node("Transpose", [rows], perm=[1, 0])])
    flat = case.node("Reshape", [pairs, case.constant([-1])])
    both = case.node("Concat", [rows, table, rows], axis=0)
    case.write([pairs, flat, both, case.node("Slice", [both, case.constant([2]), case.constant([9]), case.constant([0])]), case.node("Shape", [rows])])
    case = Case("nonzero_twice")
    x = case.input(sparse(case, (8, 6), np.float32))
    values = case.node("GatherND", [x, case.node("Transpose", [case.node("NonZero", [x])], perm=[1, 0])])
    positive = case.node("NonZero", [case.node("Relu", [values])])
    case.write([values, positive, case.node("CumSum", [values, case.constant(0)])])


def compress():
    for index, (shape, axis, length) in enumerate([((6,), 0, 6), ((4, 5), 1, 5), ((4, 5), -2, 4), ((3, 4, 2), 1, 3), ((3, 4), None, 12), ((3, 4), None, 5)]):
        case = Case(f"compress_{index}")
        x = case.input(case.random.standard_normal(shape).astype(np.float32))
        chosen = case.input(case.random.random(length) < 0.5)
        result = case.node("Compress", [x, chosen], **({} if axis is None else {"axis": axis}))
        doubled = case.node("Concat", [result, result], axis=0 if axis is None else axis)
        case.write([result, case.node("Add", [result, result]), doubled])
    case = Case("compress_two_axes")
    x = case.input(case.random.standard_normal((6, 8)).astype(np.float32))
    rows, columns = case.input(case.random.random(6) < 0.6), case.input(case.random.random(8) < 0.6)
    result = case.node("Compress", [case.node("Compress", [x, rows], axis=0), columns], axis=1)
    case.write([result, case.node("ReduceMean", [result], axes=[1], keepdims=1), case.node("Transpose", [result], perm=[1, 0])])


def unique():
    for index, (shape, dtype, options) in enumerate([((12,), np.int64, {}), ((12,), np.float32, {"sorted": 0}), ((3, 7), np.float32, {"sorted": 1}),
                                                     ((6, 3), np.int64, {"axis": 0}), ((3, 6), np.float32, {"axis": 1, "sorted": 0}),
                                                     ((2, 5, 2), np.int64, {"axis": -2}), ((1,), np.int64, {}), ((200,), np.int64, {"sorted": 0})]):
        case = Case(f"unique_{index}")
        spread = 2 if "axis" in options else 9
        x = case.input(case.random.integers(-spread, spread, shape).astype(dtype) // (2 if "axis" in options else 1))
        case.write(case.node("Unique", [x], 4, **options))


def non_max_suppression():
    options = [(1, 1, 12, 5, 0.5, None, 0), (2, 3, 20, 3, 0.3, 0.2, 0), (1, 2, 40, 100, 0.4, 0.5, 1), (2, 1, 9, 0, 0.5, 0.0, 0), (1, 1, 300, 50, 0.2, 0.1, 0)]
    for index, (batches, classes, boxes, most, overlap, least, center) in enumerate(options):
        case = Case(f"non_max_suppression_{index}")
        corners = case.random.random((batches, boxes, 4)).astype(np.float32)
        if center:
            corners[..., 2:] *= 0.4
        # Rounded, so that some scores are equal.
        scores = np.round(case.random.random((batches, classes, boxes)), 2).astype(np.float32)
        inputs = [case.input(corners), case.input(scores), case.input(np.array([most])), case.constant([overlap], np.float32)]
        if least is not None:
            inputs.append(case.constant([least], np.float32))
        chosen = case.node("NonMaxSuppression", inputs, center_point_box=center)
        number = case.node("Squeeze", [case.node("Slice", [chosen, case.constant([2]), case.constant([3]), case.constant([1])]), case.constant([1])])
        case.write([chosen, case.node("Gather", [inputs[0], number], axis=1)])


def bounds():
    options = [((9,), [2], [7], [0], [1]), ((9,), [-3], [100], [0], [1]), ((9,), [8], [-100], [0], [-2]), ((4, 7), [1, -1], [3, 0], [0, 1], [1, -1]),
               ((4, 7), [5], [2], [1], [1]), ((3, 5, 2), [-100, 1], [2, -1], [-3, 1], [1, 3]), ((6,), [-1], [-(1 << 63)], [0], [-1]),
               ((4, 5), [-1], [-(1 << 63)], [1], [1 - (1 << 63)]), ((4, 5), [1], [1 << 62], [1], [(1 << 63) - 1])]
    for index, (shape, starts, ends, axes, steps) in enumerate(options):
        case = Case(f"slice_{index}")
        x = case.input(case.random.standard_normal(shape).astype(np.float32))
        inputs = [x, case.input(np.array(starts)), case.input(np.array(ends)), case.constant(axes), case.constant(steps)]
        part = case.node("Slice", inputs)
        case.write([part, case.node("Mul", [part, part])])
    for index, (part, start, end, step) in enumerate([(0.5, -1, 1 << 40, 1), (0.0, -1, 1 << 40, 1), (0.5, 0, -1, 1), (0.0, 0, -1, 1), (0.5, 2, 4, 1), (0.0, 1, 3, 1),
                                                      (0.5, -1, -(1 << 63), -1), (0.0, -1, -(1 << 63), -1), (0.5, -3, -1, 1), (0.1, -3, -1, 1)]):
        case = Case(f"nonzero_slice_{index}")
        x = case.input(sparse(case, (12,), np.float32, part))
        values = case.node("Gather", [x, case.node("Squeeze", [case.node("NonZero", [x]), case.constant([0])])])
        case.write([case.node("Slice", [values, case.constant([start]), case.constant([end]), case.constant([0]), case.constant([step])])])
    for index, (shape, k, axis) in enumerate([((10,), 3, 0), ((3, 8), 8, 1), ((5, 4), 2, 0), ((6,), 0, 0)]):
        case = Case(f"top_k_{index}")
        x, k = case.input(np.round(case.random.standard_normal(shape), 1).astype(np.float32)), case.input(np.array([k]))
        values, places = case.node("TopK", [x, k], 2, axis=axis)
        case.write([values, places, case.node("Concat", [values, x], axis=axis)])


for family in (non_zero, compress, unique, non_max_suppression, bounds):
    family()
