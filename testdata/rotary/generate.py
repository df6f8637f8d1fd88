"""Rotary embedding of a projection in the spellings of exporters, and what the formula gives in f64: `python generate.py`.

Wants numpy and onnx. Each model is `y = rotate(heads of x W)`; halves are turned together in `operator`, `rotate_half` and `split`, neighbours in
`operator_interleaved`, `rotate_neighbours` and `stacked`.
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
SEQUENCE, HEADS, SIZE = 8, 4, 8
HALF, WIDTH = SIZE // 2, HEADS * SIZE

random = np.random.default_rng(7)
X = random.standard_normal((1, SEQUENCE, WIDTH)).astype(np.float32)
W = (random.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32)
ANGLE = np.arange(SEQUENCE)[:, None] * 10000.0 ** (-np.arange(HALF) / HALF)
COS, SIN = (f(ANGLE)[None].astype(np.float32) for f in (np.cos, np.sin))


def constant(name, values):
    return numpy_helper.from_array(np.array(values, dtype=np.int64), name)


class Model:
    def __init__(self, interleaved, full):
        self.nodes, self.constants = [], [numpy_helper.from_array(W, "W"), constant("heads", [1, SEQUENCE, HEADS, SIZE])]
        spread = (lambda a: np.repeat(a, 2, axis=-1)) if interleaved else (lambda a: np.concatenate([a, a], axis=-1))
        self.interleaved = interleaved
        self.cos, self.sin = (spread(a) if full else a for a in (COS, SIN))
        self.count = 0
        product = self.op("MatMul", "x", "W")
        self.x = self.op("Transpose", self.op("Reshape", product, "heads"), perm=[0, 2, 1, 3])

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [f"{kind.lower()}_{self.count + index}" for index in range(outputs)]
        self.count += outputs
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def list(self, values):
        name = f"list_{len(self.constants)}"
        self.constants.append(constant(name, values))
        return name

    def slice(self, x, start, end, step=1):
        return self.op("Slice", x, *(self.list([value]) for value in (start, end, 3, step)))

    def over_heads(self, name):
        return self.op("Unsqueeze", name, self.list([1]))

    def save(self, name, result):
        self.op("Identity", result)
        self.nodes[-1].output[0] = "y"
        value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        inputs = [value("x", X.shape), value("cos", self.cos.shape), value("sin", self.sin.shape)]
        y = value("y", (1, HEADS, SEQUENCE, SIZE))
        graph = helper.make_graph(self.nodes, name, inputs, [y], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
        onnx.checker.check_model(model)
        onnx.save(model, HERE / f"{name}.onnx")


def operator(interleaved):
    model = Model(interleaved, False)
    result = model.op("RotaryEmbedding", model.x, "cos", "sin", interleaved=int(interleaved))
    model.save("operator_interleaved" if interleaved else "operator", result)


def rotate_half():
    model = Model(False, True)
    cos, sin = model.over_heads("cos"), model.over_heads("sin")
    first, second = model.slice(model.x, 0, HALF), model.slice(model.x, HALF, 2**31)
    turned = model.op("Concat", model.op("Neg", second), first, axis=-1)
    model.save("rotate_half", model.op("Add", model.op("Mul", model.x, cos), model.op("Mul", turned, sin)))


def pairs(model, first, second):
    cos, sin = model.over_heads("cos"), model.over_heads("sin")
    real = model.op("Sub", model.op("Mul", first, cos), model.op("Mul", second, sin))
    imaginary = model.op("Add", model.op("Mul", second, cos), model.op("Mul", first, sin))
    return real, imaginary


def split():
    model = Model(False, False)
    first, second = model.op("Split", model.x, outputs=2, axis=-1, num_outputs=2)
    model.save("split", model.op("Concat", *pairs(model, first, second), axis=-1))


def stack(model, parts):
    parts = [model.op("Unsqueeze", part, model.list([4])) for part in parts]
    return model.op("Reshape", model.op("Concat", *parts, axis=-1), model.list([1, HEADS, SEQUENCE, SIZE]))


def stacked():
    model = Model(True, False)
    first, second = model.slice(model.x, 0, 2**31, 2), model.slice(model.x, 1, 2**31, 2)
    model.save("stacked", stack(model, pairs(model, first, second)))


def rotate_neighbours():
    model = Model(True, True)
    cos, sin = model.over_heads("cos"), model.over_heads("sin")
    first, second = model.slice(model.x, 0, 2**31, 2), model.slice(model.x, 1, 2**31, 2)
    turned = stack(model, [model.op("Neg", second), first])
    model.save("rotate_neighbours", model.op("Add", model.op("Mul", model.x, cos), model.op("Mul", turned, sin)))


def formula(interleaved):
    x = (X.astype(np.float64) @ W.astype(np.float64)).reshape(1, SEQUENCE, HEADS, SIZE).transpose(0, 2, 1, 3)
    cos, sin = COS.astype(np.float64)[:, None], SIN.astype(np.float64)[:, None]
    parts = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :HALF], x[..., HALF:])
    turned = [parts[0] * cos - parts[1] * sin, parts[1] * cos + parts[0] * sin]
    return np.stack(turned, axis=-1).reshape(x.shape) if interleaved else np.concatenate(turned, axis=-1)


np.save(HERE / "x.npy", X)
for name, angle in (("cos", COS), ("sin", SIN)):
    np.save(HERE / f"{name}.npy", angle)
    np.save(HERE / f"{name}_halves.npy", np.concatenate([angle, angle], axis=-1))
    np.save(HERE / f"{name}_neighbours.npy", np.repeat(angle, 2, axis=-1))
np.save(HERE / "halves.npy", formula(False))
np.save(HERE / "neighbours.npy", formula(True))
operator(False)
operator(True)
rotate_half()
split()
stacked()
rotate_neighbours()
