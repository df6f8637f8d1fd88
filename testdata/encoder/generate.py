"""Writes one encoder of two layers in six spellings, with inputs and what the formula gives for them in f64.

    generate.py [FOLDER]

All spellings share their weights. The ONNX ones are held against ONNX Runtime here. The archive is written by hand in the format of torch.export, with the
nodes that it writes for such a module: torch is not needed.
"""
import json
import os
import sys
import zipfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

BATCH, LENGTH, WIDTH, HEADS, INNER, LAYERS = 2, 8, 32, 2, 64, 2
DEPTH = WIDTH // HEADS
EPSILON = 1e-5
FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def weights():
    random = np.random.default_rng(11)
    made = {}
    for layer in range(LAYERS):
        for name, rows, columns in [("q", WIDTH, WIDTH), ("k", WIDTH, WIDTH), ("v", WIDTH, WIDTH), ("o", WIDTH, WIDTH),
                                    ("up", WIDTH, INNER), ("down", INNER, WIDTH)]:
            made[f"{layer}.{name}.w"] = (random.standard_normal((rows, columns)) * rows**-0.5).astype(np.float32)
            made[f"{layer}.{name}.b"] = (random.standard_normal(columns) * 0.1).astype(np.float32)
        for name in ["n1", "n2"]:
            made[f"{layer}.{name}.w"] = (1 + random.standard_normal(WIDTH) * 0.1).astype(np.float32)
            made[f"{layer}.{name}.b"] = (random.standard_normal(WIDTH) * 0.1).astype(np.float32)
    return made


WEIGHTS = weights()


def reference(x, mask):
    """The formula in f64. A masked key takes no part."""
    from math import erf

    own = {name: value.astype(np.float64) for name, value in WEIGHTS.items()}
    x = x.astype(np.float64)

    def normal(x, name):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + EPSILON) * own[name + ".w"] + own[name + ".b"]

    for layer in range(LAYERS):
        linear = lambda x, name: x @ own[f"{layer}.{name}.w"] + own[f"{layer}.{name}.b"]
        split = lambda x: x.reshape(BATCH, LENGTH, HEADS, DEPTH).transpose(0, 2, 1, 3)
        q, k, v = (split(linear(x, name)) for name in "qkv")
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(DEPTH)
        scores = np.where(mask[:, None, None, :] != 0, scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        context = scores / scores.sum(-1, keepdims=True) @ v
        x = normal(x + linear(context.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH), "o"), f"{layer}.n1")
        inner = linear(x, "up")
        inner = inner * 0.5 * (1 + np.vectorize(erf)(inner / np.sqrt(2)))
        x = normal(x + linear(inner, "down"), f"{layer}.n2")
    return x


class Graph:
    """Nodes of an ONNX graph; values are named by them."""

    def __init__(self, opset, float_type=np.float32):
        self.opset, self.type = opset, float_type
        self.nodes, self.initializers, self.names = [], [], {}

    def __call__(self, operator, *inputs, **attributes):
        count = self.names[operator] = self.names.get(operator, -1) + 1
        name = f"{operator}_{count}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def fixed(self, array, name=None):
        name = name or f"constant_{len(self.initializers)}"
        if all(own.name != name for own in self.initializers):
            self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value, dtype=None):
        return self.fixed(np.array(value, dtype or self.type))

    def weight(self, name, transposed=False, dtype=None):
        value = WEIGHTS[name].T.copy() if transposed else WEIGHTS[name]
        return self.fixed(value.astype(dtype or self.type), name)

    def integers(self, *values):
        return self.fixed(np.array(values, np.int64))

    def write(self, name, output, x, mask, expected):
        kind = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16}[self.type]
        shape = [BATCH, LENGTH, WIDTH]
        self.nodes.append(helper.make_node("Identity", [output], ["y"], name="out"))
        inputs = [helper.make_tensor_value_info("x", kind, shape), helper.make_tensor_value_info("mask", TensorProto.INT64, [BATCH, LENGTH])]
        outputs = [helper.make_tensor_value_info("y", kind, shape)]
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, os.path.join(FOLDER, f"{name}.onnx"))
        options = ort.SessionOptions()
        if self.type == np.float16:
            # Its fusion of layer normalisation between casts makes a node of two types, which it refuses.
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found = session.run(None, {"x": x.astype(self.type), "mask": mask})[0].astype(np.float64)
        error = np.abs(found - expected).max()
        assert error < (2e-2 if self.type == np.float16 else 1e-5), (name, error)
        print(f"{name}: {error:.1e} from the formula by ONNX Runtime")


def layers(g, x, mask, linear, split, join, attention, gelu, normal):
    """The encoder by its parts."""
    for layer in range(LAYERS):
        q, k, v = (split(linear(x, f"{layer}.{name}")) for name in "qkv")
        x = normal(g("Add", linear(join(attention(q, k, v, mask)), f"{layer}.o"), x), f"{layer}.n1")
        inner = gelu(linear(x, f"{layer}.up"))
        x = normal(g("Add", linear(inner, f"{layer}.down"), x), f"{layer}.n2")
    return x


def added_mask(g, mask, lowest):
    """(1 - mask) times a number that no score reaches, as BERT's code has it."""
    wide = g("Unsqueeze", g("Unsqueeze", mask, g.integers(1)), g.integers(2))
    kind = TensorProto.FLOAT16 if g.type == np.float16 else TensorProto.FLOAT
    return g("Mul", g("Sub", g.number(1), g("Cast", wide, to=kind)), g.number(lowest))


def common(g):
    """The parts that most spellings share."""
    linear = lambda x, name: g("Add", g("MatMul", x, g.weight(name + ".w")), g.weight(name + ".b"))
    split = lambda x: g("Transpose", g("Reshape", x, g.integers(BATCH, LENGTH, HEADS, DEPTH)), perm=[0, 2, 1, 3])
    join = lambda x: g("Reshape", g("Transpose", x, perm=[0, 2, 1, 3]), g.integers(BATCH, LENGTH, WIDTH))

    def attention(q, k, v, mask):
        scores = g("Div", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), g.number(DEPTH**0.5))
        return g("MatMul", g("Softmax", g("Add", scores, mask), axis=-1), v)

    def gelu(x):
        inner = g("Add", g("Erf", g("Div", x, g.number(2**0.5))), g.number(1))
        return g("Mul", g("Mul", x, inner), g.number(0.5))

    normal = lambda x, name: g("LayerNormalization", x, g.weight(name + ".w"), g.weight(name + ".b"), axis=-1, epsilon=EPSILON)
    return linear, split, join, attention, gelu, normal


def opset17():
    """Operators of their own for what opset 17 has, GELU by erf."""
    g = Graph(17)
    return g, layers(g, "x", added_mask(g, "mask", -1e4), *common(g))


def torch_script():
    """Opset 13 of the TorchScript exporter: layer normalisation written out, shapes computed, a bias before its product."""
    g = Graph(13)
    _, _, _, attention, _, _ = common(g)
    linear = lambda x, name: g("Add", g.weight(name + ".b"), g("MatMul", x, g.weight(name + ".w")))

    def size(x, axis):
        return g("Unsqueeze", g("Gather", g("Shape", x), g.fixed(np.array(axis, np.int64)), axis=0), g.integers(0))

    def split(x):
        shape = g("Concat", size(x, 0), size(x, 1), g.integers(HEADS), g.integers(DEPTH), axis=0)
        return g("Transpose", g("Reshape", x, shape), perm=[0, 2, 1, 3])

    def join(x):
        x = g("Transpose", x, perm=[0, 2, 1, 3])
        return g("Reshape", x, g("Concat", size(x, 0), size(x, 1), g.integers(-1), axis=0))

    def gelu(x):
        inner = g("Add", g("Erf", g("Div", x, g.number(2**0.5))), g.number(1))
        return g("Mul", g("Mul", x, g.number(0.5)), inner)

    def normal(x, name):
        difference = g("Sub", x, g("ReduceMean", x, axes=[-1]))
        variance = g("ReduceMean", g("Pow", difference, g.number(2)), axes=[-1])
        root = g("Sqrt", g("Add", variance, g.number(EPSILON)))
        return g("Add", g("Mul", g("Div", difference, root), g.weight(name + ".w")), g.weight(name + ".b"))

    return g, layers(g, "x", added_mask(g, "mask", -1e4), linear, split, join, attention, gelu, normal)


def dynamo():
    """Opset 20 of the dynamo exporter: axes are inputs, attention scales both factors and hides by -inf, Gelu is an operator."""
    g = Graph(20)
    linear, split, join, _, _, _ = common(g)
    seen = g("Cast", g("Unsqueeze", "mask", g.integers(1, 2)), to=TensorProto.BOOL)
    seen = g("Expand", seen, g.integers(BATCH, 1, LENGTH, LENGTH))
    mask = g("Where", seen, g.number(0), g.number(-np.inf))

    def attention(q, k, v, mask):
        scale = g.number(DEPTH**-0.25)
        scores = g("MatMul", g("Mul", q, scale), g("Mul", g("Transpose", k, perm=[0, 1, 3, 2]), scale))
        return g("MatMul", g("Softmax", g("Add", scores, mask), axis=-1), v)

    def normal(x, name):
        difference = g("Sub", x, g("ReduceMean", x, g.integers(-1), keepdims=1))
        variance = g("ReduceMean", g("Mul", difference, difference), g.integers(-1), keepdims=1)
        root = g("Reciprocal", g("Sqrt", g("Add", variance, g.number(EPSILON))))
        return g("Add", g("Mul", g("Mul", difference, root), g.weight(name + ".w")), g.weight(name + ".b"))

    return g, layers(g, "x", mask, linear, split, join, attention, lambda x: g("Gelu", x), normal)


def half():
    """f16 with softmax, normalisation and GELU in f32 between casts."""
    g = Graph(17, np.float16)
    linear, split, join, _, _, _ = common(g)
    wide = lambda x: g("Cast", x, to=TensorProto.FLOAT)
    narrow = lambda x: g("Cast", x, to=TensorProto.FLOAT16)

    def attention(q, k, v, mask):
        scores = g("Div", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), g.number(DEPTH**0.5))
        return g("MatMul", narrow(g("Softmax", wide(g("Add", scores, mask)), axis=-1)), v)

    def gelu(x):
        x = wide(x)
        inner = g("Add", g("Erf", g("Mul", x, g.number(0.5**0.5, np.float32))), g.number(1, np.float32))
        return narrow(g("Mul", g("Mul", x, g.number(0.5, np.float32)), inner))

    def normal(x, name):
        x = wide(x)
        difference = g("Sub", x, g("ReduceMean", x, axes=[-1]))
        variance = g("ReduceMean", g("Pow", difference, g.number(2, np.float32)), axes=[-1])
        root = g("Sqrt", g("Add", variance, g.number(EPSILON, np.float32)))
        scaled = g("Mul", g("Div", difference, root), g.weight(name + ".w", dtype=np.float32))
        return narrow(g("Add", scaled, g.weight(name + ".b", dtype=np.float32)))

    return g, layers(g, "x", added_mask(g, "mask", -1e4), linear, split, join, attention, gelu, normal)


def gemm():
    """Rows by Gemm with transposed weights, softmax written out, GELU as x times half of a sum."""
    g = Graph(17)
    _, split, join, _, _, normal = common(g)

    def linear(x, name):
        rows, columns = WEIGHTS[name + ".w"].shape
        flat = g("Reshape", x, g.integers(BATCH * LENGTH, rows))
        product = g("Gemm", flat, g.weight(name + ".w", transposed=True), g.weight(name + ".b"), transB=1)
        return g("Reshape", product, g.integers(BATCH, LENGTH, columns))

    def attention(q, k, v, mask):
        scores = g("MatMul", g("Mul", q, g.number(DEPTH**-0.5)), g("Transpose", k, perm=[0, 1, 3, 2]))
        scores = g("Add", scores, mask)
        raised = g("Exp", g("Sub", scores, g("ReduceMax", scores, axes=[-1], keepdims=1)))
        return g("MatMul", g("Div", raised, g("ReduceSum", raised, g.integers(-1), keepdims=1)), v)

    def gelu(x):
        inner = g("Add", g("Erf", g("Mul", x, g.number(0.5**0.5))), g.number(1))
        return g("Mul", x, g("Mul", g.number(0.5), inner))

    return g, layers(g, "x", added_mask(g, "mask", -1e4), linear, split, join, attention, gelu, normal)


class Archive:
    """A program of torch.export: nodes of ATen, values with their types."""

    TYPES = {"float32": 7, "int64": 5, "bool": 12}

    def __init__(self):
        self.values, self.nodes, self.specs, self.names = {}, [], [], {}

    def value(self, name, shape, dtype):
        strides = [int(np.prod(shape[axis + 1:], dtype=np.int64)) for axis in range(len(shape))]
        self.values[name] = {
            "dtype": self.TYPES[dtype], "sizes": [{"as_int": size} for size in shape], "requires_grad": False,
            "device": {"type": "cpu", "index": None}, "strides": [{"as_int": stride} for stride in strides],
            "storage_offset": {"as_int": 0}, "layout": 7,
        }
        return name

    def shape(self, name):
        return [size["as_int"] for size in self.values[name]["sizes"]]

    def call(self, target, arguments, shape, dtype="float32"):
        short = target.split(".")[0]
        count = self.names[short] = self.names.get(short, -1) + 1
        name = self.value(short if count == 0 else f"{short}_{count}", shape, dtype)
        self.nodes.append({
            "target": f"torch.ops.aten.{target}",
            "inputs": [{"name": own, "arg": {kind: argument}, "kind": 1} for own, kind, argument in arguments],
            "outputs": [{"as_tensor": {"name": name}}], "metadata": {"nn_module_stack": ""},
            "is_hop_single_tensor_return": None, "name": name,
        })
        return name

    def write(self, name, output):
        argument = lambda own: {"as_tensor": {"name": own}}
        parameters = sorted(WEIGHTS)
        place = lambda own: "p_" + own.replace(".", "_")
        for own in parameters:
            value = WEIGHTS[own].T if WEIGHTS[own].ndim == 2 else WEIGHTS[own]
            self.value(place(own), list(value.shape), "float32")
        specs = [{"parameter": {"arg": {"name": place(own)}, "parameter_name": own}} for own in parameters]
        specs += [{"user_input": {"arg": argument(own)}} for own in ["x", "mask"]]
        leaf = {"type": None, "context": None, "children_spec": []}
        tuple_of = lambda children: {"type": "builtins.tuple", "context": "null", "children_spec": children}
        inner = {"type": "builtins.dict", "context": "[]", "children_spec": []}
        spec = lambda tree: json.dumps([1, tree])
        signature = {"input_specs": specs, "output_specs": [{"user_output": {"arg": argument(output)}}]}
        program = {
            "graph_module": {
                "graph": {
                    "inputs": [argument(place(own)) for own in parameters] + [argument("x"), argument("mask")],
                    "outputs": [argument(output)], "nodes": self.nodes, "tensor_values": self.values, "sym_int_values": {}, "sym_bool_values": {},
                    "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": {},
                },
                "signature": signature,
                "module_call_graph": [{"fqn": "", "signature": {
                    "inputs": [], "outputs": [], "in_spec": spec(tuple_of([tuple_of([leaf, leaf]), inner])), "out_spec": spec(leaf),
                    "forward_arg_names": ["x", "mask"]}}],
                "metadata": {}, "treespec_namedtuple_fields": {},
            },
            "opset_version": {"aten": 10}, "range_constraints": {}, "schema_version": {"major": 8, "minor": 20}, "verifiers": ["TRAINING"],
            "torch_version": "2.15.0", "guards_code": [],
        }
        config = {"config": {
            own: {"path_name": f"weight_{index}", "is_param": True, "use_pickle": False, "tensor_meta": self.values[place(own)]}
            for index, own in enumerate(parameters)}}
        entries = [(f"data/weights/weight_{index}", np.ascontiguousarray(WEIGHTS[own].T).tobytes()) for index, own in enumerate(parameters)]
        entries += [("data/weights/model_weights_config.json", json.dumps(config).encode()),
                    ("data/constants/model_constants_config.json", b'{"config": {}}'),
                    ("models/model.json", json.dumps(program).encode()), ("archive_format", b"pt2"), ("archive_version", b"0"),
                    ("byteorder", b"little"), (".data/version", b"6\n")]
        with zipfile.ZipFile(os.path.join(FOLDER, f"{name}.pt2"), "w", zipfile.ZIP_STORED) as archive:
            for path, data in entries:
                info = zipfile.ZipInfo(f"{name}/{path}", (1980, 1, 1, 0, 0, 0))
                # Contents begin at multiples of 64, behind a header of 30 bytes, the name and four bytes of padding's own header.
                padding = -(archive.fp.tell() + 30 + len(info.filename) + 4) % 64
                info.extra = b"FB" + padding.to_bytes(2, "little") + bytes(padding)
                archive.writestr(info, data)


def torch_export(name):
    g = Archive()
    shape = [BATCH, LENGTH, WIDTH]
    x, mask = g.value("x", shape, "float32"), g.value("mask", [BATCH, LENGTH], "int64")
    tensor = lambda own, value: (own, "as_tensor", {"name": value})
    parameter = lambda own: "p_" + own.replace(".", "_")
    seen = g.call("to.dtype", [tensor("self", mask), ("dtype", "as_scalar_type", 12)], [BATCH, LENGTH], "bool")
    seen = g.call("unsqueeze.default", [tensor("self", seen), ("dim", "as_int", 1)], [BATCH, 1, LENGTH], "bool")
    seen = g.call("unsqueeze.default", [tensor("self", seen), ("dim", "as_int", 2)], [BATCH, 1, 1, LENGTH], "bool")
    wide = [BATCH, 1, LENGTH, LENGTH]
    seen = g.call("expand.default", [tensor("self", seen), ("size", "as_ints", wide)], wide, "bool")

    def linear(x, own):
        columns = WEIGHTS[own + ".w"].shape[1]
        arguments = [tensor("input", x), tensor("weight", parameter(own + ".w")), tensor("bias", parameter(own + ".b"))]
        return g.call("linear.default", arguments, [*g.shape(x)[:-1], columns])

    def normal(x, own):
        arguments = [tensor("input", x), ("normalized_shape", "as_ints", [WIDTH]), tensor("weight", parameter(own + ".w")),
                     tensor("bias", parameter(own + ".b"))]
        return g.call("layer_norm.default", arguments, shape)

    def swapped(x):
        size = g.shape(x)
        return g.call("transpose.int", [tensor("self", x), ("dim0", "as_int", 1), ("dim1", "as_int", 2)], [size[0], size[2], size[1], size[3]])

    for layer in range(LAYERS):
        split = [BATCH, LENGTH, HEADS, DEPTH]
        q, k, v = (swapped(g.call("view.default", [tensor("self", linear(x, f"{layer}.{own}")), ("size", "as_ints", [BATCH, LENGTH, -1, DEPTH])], split))
                   for own in "qkv")
        arguments = [tensor("query", q), tensor("key", k), tensor("value", v), tensor("attn_mask", seen)]
        context = swapped(g.call("scaled_dot_product_attention.default", arguments, [BATCH, HEADS, LENGTH, DEPTH]))
        context = g.call("reshape.default", [tensor("self", context), ("shape", "as_ints", [BATCH, LENGTH, -1])], shape)
        sum_of = lambda a, b: g.call("add.Tensor", [tensor("self", a), tensor("other", b)], shape)
        x = normal(sum_of(linear(context, f"{layer}.o"), x), f"{layer}.n1")
        inner = linear(x, f"{layer}.up")
        inner = g.call("gelu.default", [tensor("self", inner)], g.shape(inner))
        x = normal(sum_of(linear(inner, f"{layer}.down"), x), f"{layer}.n2")
    g.write(name, x)


def main():
    random = np.random.default_rng(12)
    # Numbers that f16 holds, so that all spellings are given the same.
    x = random.standard_normal((BATCH, LENGTH, WIDTH)).astype(np.float16).astype(np.float32)
    mask = np.ones((BATCH, LENGTH), np.int64)
    mask[1, 5:] = 0
    expected = reference(x, mask)
    save = lambda name, array: np.save(os.path.join(FOLDER, name), array)
    save("x.npy", x)
    save("x.half.npy", x.astype(np.float16))
    save("mask.npy", mask)
    save("y.npy", expected)
    for name, make in [("opset17", opset17), ("torch_script", torch_script), ("dynamo", dynamo), ("half", half), ("gemm", gemm)]:
        graph, output = make()
        graph.write(name, output, x, mask, expected)
    torch_export("torch_export")


if __name__ == "__main__":
    main()
