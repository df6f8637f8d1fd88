"""Writes the cases of this folder: one recurrent layer each with some of its options, seeded inputs, and what ONNX Runtime gives for them.

    generate.py [FOLDER] [SEED]

The layout is that of the ONNX backend tests: NAME/model.onnx, NAME/test_data_set_0/input_K.pb and output_K.pb. The files that are committed are
those of seed 1 and onnxruntime 1.32.0.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
TYPES = {np.dtype("float32"): TensorProto.FLOAT, np.dtype("int32"): TensorProto.INT32, np.dtype("int8"): TensorProto.INT8,
         np.dtype("uint8"): TensorProto.UINT8}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def write(name, operator, inputs, outputs, domain="", free=False, **attributes):
    """`inputs` are arrays or None. Arrays but the first and the lengths are initializers. With `free` the model takes any number of steps."""
    names = [f"in{index}" if array is not None else "" for index, array in enumerate(inputs)]
    node = helper.make_node(operator, names, outputs, name=operator, domain=domain, **attributes)
    is_given = lambda index: index in (0, 4, 5, 6)
    given = [(names[index], array) for index, array in enumerate(inputs) if array is not None and is_given(index)]
    weights = [numpy_helper.from_array(array, names[index])
               for index, array in enumerate(inputs) if array is not None and not is_given(index)]
    shape_of = lambda name, array: ["steps", *array.shape[1:]] if free and name in ("in0", "y") else array.shape
    values = [helper.make_tensor_value_info(name, TYPES[array.dtype], shape_of(name, array)) for name, array in given]
    opsets = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
    make = lambda results: helper.make_model(
        helper.make_graph([node], name, values, results, initializer=weights), opset_imports=opsets, ir_version=8)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    bare = [helper.make_empty_tensor_value_info(name) for name in outputs]
    session = ort.InferenceSession(make(bare).SerializeToString(), options)
    results = session.run(outputs, dict(given))
    model = make([helper.make_tensor_value_info(name, TYPES[array.dtype], shape_of(name, array)) for name, array in zip(outputs, results)])
    folder = os.path.join(FOLDER, name, "test_data_set_0")
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(FOLDER, name, "model.onnx"))
    for kind, arrays in (("input", given), ("output", list(zip(outputs, results)))):
        for index, (tensor, array) in enumerate(arrays):
            with open(os.path.join(folder, f"{kind}_{index}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(array, tensor).SerializeToString())


def layer(name, operator, steps=4, batch=3, inputs=5, hidden=6, lengths=None, bias=True, initial=True, peepholes=False,
          spread=1.0, **attributes):
    random = np.random.default_rng([SEED, *name.encode()])
    floats = lambda *shape: (random.standard_normal(shape) * spread).astype(np.float32)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    gates = GATES[operator]
    state = lambda: floats(directions, batch, hidden) if initial else None
    arrays = [floats(steps, batch, inputs), floats(directions, gates * hidden, inputs), floats(directions, gates * hidden, hidden),
              floats(directions, 2 * gates * hidden) if bias else None, np.array(lengths, np.int32) if lengths else None, state()]
    outputs = ["y", "y_h"]
    if operator == "LSTM":
        arrays += [state(), floats(directions, 3 * hidden) if peepholes else None]
        outputs.append("y_c")
    while arrays[-1] is None:
        arrays.pop()
    write(name, operator, arrays, outputs, hidden_size=hidden, **attributes)


def options():
    layer("lstm_bidirectional_free_length", "LSTM", steps=5, direction="bidirectional", free=True)
    layer("gru_reverse_free_length", "GRU", steps=5, lengths=[5, 2, 4], direction="reverse", free=True)
    for operator in GATES:
        low = operator.lower()
        for direction in ("forward", "reverse", "bidirectional"):
            layer(f"{low}_{direction}_lengths", operator, lengths=[4, 1, 2], direction=direction)
        layer(f"{low}_clip", operator, clip=0.5)
        layer(f"{low}_lengths_zero", operator, lengths=[0, 4, 3], initial=False)
        layer(f"{low}_one_step", operator, steps=1, batch=1, bias=False)
        count = {"RNN": 1, "GRU": 2, "LSTM": 3}[operator]
        for names in (("Relu", "Softsign", "Softplus"), ("HardSigmoid", "ScaledTanh", "Affine"), ("LeakyRelu", "Elu", "ThresholdedRelu")):
            for index in range(count):
                chosen = [names[(index + offset) % 3] for offset in range(count)]
                if index and operator != "LSTM":
                    continue
                # ONNX Runtime has no defaults for three of them, and its Softplus overflows.
                parameters = {"activation_alpha": [0.7, 0.9, 0.6], "activation_beta": [0.4, 0.3, 0.2]} if "Affine" in names or "Elu" in names else {}
                layer(f"{low}_{'_'.join(chosen).lower()}", operator, activations=chosen, spread=0.3, **parameters)
    layer("lstm_leakyrelu_elu_hardsigmoid_defaults", "LSTM", activations=["LeakyRelu", "Elu", "HardSigmoid"], spread=0.3)
    layer("rnn_affine_parameters", "RNN", activations=["Affine"], activation_alpha=[0.3], activation_beta=[0.2])
    layer("gru_hardsigmoid_parameters", "GRU", activations=["HardSigmoid", "ScaledTanh"], activation_alpha=[0.3, 0.8], activation_beta=[0.4, 0.6])
    layer("lstm_bidirectional_parameters", "LSTM", direction="bidirectional",
          activations=["HardSigmoid", "Tanh", "LeakyRelu", "Sigmoid", "Elu", "ScaledTanh"],
          activation_alpha=[0.3, 0.1, 0.7, 0.9], activation_beta=[0.4, 0.6])
    for direction in ("forward", "reverse", "bidirectional"):
        layer(f"gru_{direction}_reset_after", "GRU", linear_before_reset=1, lengths=[2, 4, 3], direction=direction)
        layer(f"lstm_{direction}_peepholes", "LSTM", peepholes=True, lengths=[2, 4, 3], direction=direction)
    layer("gru_reset_after_no_bias", "GRU", linear_before_reset=1, bias=False, clip=0.7)
    layer("lstm_input_forget", "LSTM", input_forget=1)
    layer("lstm_input_forget_peepholes_clip", "LSTM", input_forget=1, peepholes=True, clip=0.6)


def quantized(name, weight_type, per_channel, steps=5, batch=2, inputs=8, hidden=4, peepholes=False, **attributes):
    random = np.random.default_rng([SEED, *name.encode()])
    floats = lambda *shape: random.standard_normal(shape).astype(np.float32)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    # Products of pairs of i8 weights saturate on some processors unless the weights have 7 bits.
    limits = (0, 256) if weight_type == np.uint8 else (-63, 64)
    whole = lambda *shape: random.integers(*limits, shape).astype(weight_type)
    columns = (directions, 4 * hidden) if per_channel else (directions,)
    scale = lambda: random.uniform(0.002, 0.006, columns).astype(np.float32)
    zero = lambda: np.full(columns, 0 if per_channel or weight_type == np.int8 else 120, weight_type)
    arrays = [floats(steps, batch, inputs), whole(directions, inputs, 4 * hidden), whole(directions, hidden, 4 * hidden),
              floats(directions, 8 * hidden), None, floats(directions, batch, hidden), floats(directions, batch, hidden),
              floats(directions, 3 * hidden) if peepholes else None, scale(), zero(), scale(), zero()]
    write(name, "DynamicQuantizeLSTM", arrays, ["y", "y_h", "y_c"], domain="com.microsoft", hidden_size=hidden, **attributes)


options()
quantized("quantized_lstm_u8", np.uint8, False)
quantized("quantized_lstm_i8_bidirectional", np.int8, False, direction="bidirectional")
quantized("quantized_lstm_i8_columns", np.int8, True, peepholes=True)
