"""Cases of one operator each with seeded inputs and what ONNX Runtime gives for them.

The layout is that of the ONNX backend tests: NAME/model.onnx, NAME/test_data_set_0/input_K.pb and output_K.pb. The generators of `microsoft` and
`operators` take [FOLDER] [SEED]; the files that are committed are those of seed 1 and onnxruntime 1.32.0.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1


class Case:
    """Arrays for one case; the generator depends on its name alone."""

    # Where cases go, the operator's domain, and the version of ONNX's own operators.
    folder, domain, opset = None, "", 17

    def __init__(self, name, dtype=np.float32):
        self.name, self.dtype = name, dtype
        self.random = np.random.default_rng([SEED, *name.encode()])

    def floats(self, *shape, spread=1.0):
        return (self.random.standard_normal(shape) * spread).astype(self.dtype)

    def write(self, operator, inputs, outputs, version=None, constant=(), by_reference=False, **attributes):
        """`inputs` are arrays or None, those numbered in `constant` initializers; `outputs` are names, empty for one that is not wanted.

        `by_reference`: results are those of ONNX's reference implementation, where ONNX Runtime is wrong."""
        names = [f"in{index}" if array is not None else "" for index, array in enumerate(inputs)]
        every = [(index, name, array) for index, (name, array) in enumerate(zip(names, inputs)) if array is not None]
        given = [(name, array) for index, name, array in every if index not in constant]
        fixed = [numpy_helper.from_array(array, name) for index, name, array in every if index in constant]
        wanted = [name for name in outputs if name]
        node = helper.make_node(operator, names, outputs, name=operator, domain=self.domain, **attributes)
        type_of = lambda array: helper.np_dtype_to_tensor_dtype(array.dtype)
        values = [helper.make_tensor_value_info(name, type_of(array), array.shape) for name, array in given]
        # Types and shapes of outputs are those that ONNX Runtime gives.
        bare = [helper.make_empty_tensor_value_info(name) for name in wanted]
        opsets = [helper.make_opsetid("", version or self.opset)] + ([helper.make_opsetid(self.domain, 1)] if self.domain else [])
        graph = lambda results: helper.make_graph([node], self.name, values, results, fixed)
        make = lambda results: helper.make_model(graph(results), opset_imports=opsets, ir_version=8)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        if by_reference:
            session = ReferenceEvaluator(make(bare))
        else:
            session = ort.InferenceSession(make(bare).SerializeToString(), options)
        results = session.run(wanted, dict(given))
        model = make([helper.make_tensor_value_info(name, type_of(array), array.shape) for name, array in zip(wanted, results)])
        folder = os.path.join(self.folder, self.name, "test_data_set_0")
        os.makedirs(folder, exist_ok=True)
        onnx.save(model, os.path.join(self.folder, self.name, "model.onnx"))
        for kind, arrays in (("input", given), ("output", list(zip(wanted, results)))):
            for index, (name, array) in enumerate(arrays):
                with open(os.path.join(folder, f"{kind}_{index}.pb"), "wb") as file:
                    file.write(numpy_helper.from_array(array, name).SerializeToString())


def begin(script, domain="", opset=17):
    """Where the cases of a generator go."""
    Case.folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(script))
    Case.domain, Case.opset = domain, opset
