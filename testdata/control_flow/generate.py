"""Writes the cases of this folder: branches and loops that values decide while the model runs, with what ONNX Runtime gives.

    generate.py [FOLDER]

The layout is that of the ONNX backend tests: NAME/model.onnx, NAME/test_data_set_N/input_K.pb and output_K.pb. The files that are committed are
those of onnxruntime 1.32.0. What decides is computed from floats: a given integer would be taken as a constant.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def node(operator, inputs, outputs, **attributes):
    outputs = outputs.split()
    return helper.make_node(operator, [name if name != "-" else "" for name in inputs.split()], outputs,
                            name=f"{operator.lower()}_{outputs[0]}", **attributes)


def bare(names):
    return [helper.make_empty_tensor_value_info(name) for name in names.split()]


def constant(name, value, dtype=np.float32):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value, dtype), name), name=f"constant_{name}")


# Types of the inputs of loop bodies: iteration numbers, conditions, carried values.
TYPES = {"i": np.int64, "j": np.int64, "n": np.int64, "c": np.bool_, "d": np.bool_}


def graph(nodes, outputs, inputs="", carried=np.float32):
    typed = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(TYPES.get(name, carried))), [] if name in TYPES else None)
             for name in inputs.split()]
    return helper.make_graph(nodes, "body", typed, bare(outputs))


def case(name, nodes, outputs, sets, weights=()):
    """`sets` are dictionaries of inputs, all of one shape."""
    values = [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
              for key, array in sets[0].items()]
    initializers = [numpy_helper.from_array(array, key) for key, array in weights]
    make = lambda results: helper.make_model(helper.make_graph(nodes, name, values, results, initializer=initializers),
                                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(make(bare(outputs)).SerializeToString(), options)
    names = outputs.split()
    given = [session.run(names, inputs) for inputs in sets]
    results = []
    for index, output in enumerate(names):
        shapes = {values_of[index].shape for values_of in given}
        first = next(iter(shapes))
        shape = [size if all(other[axis] == size for other in shapes) else f"{output}_{axis}" for axis, size in enumerate(first)]
        results.append(helper.make_tensor_value_info(output, helper.np_dtype_to_tensor_dtype(given[0][index].dtype), shape))
    os.makedirs(os.path.join(FOLDER, name), exist_ok=True)
    onnx.save(make(results), os.path.join(FOLDER, name, "model.onnx"))
    for number, (inputs, outputs_of) in enumerate(zip(sets, given)):
        folder = os.path.join(FOLDER, name, f"test_data_set_{number}")
        os.makedirs(folder, exist_ok=True)
        for kind, arrays in (("input", list(inputs.items())), ("output", list(zip(names, outputs_of)))):
            for index, (key, array) in enumerate(arrays):
                with open(os.path.join(folder, f"{kind}_{index}.pb"), "wb") as file:
                    file.write(numpy_helper.from_array(np.asarray(array, order="C"), key).SerializeToString())


def xs(*rows):
    return [{"x": np.array(row, np.float32)} for row in rows]


def random(name, *shape, spread=1.0):
    return (np.random.default_rng([1, *name.encode()]).standard_normal(shape) * spread).astype(np.float32)


# A condition: whether the elements of x sum to more than 0.
POSITIVE = [node("ReduceSum", "x", "total", keepdims=0), constant("nothing", 0.0), node("Greater", "total nothing", "is_positive")]
# A trip count: the largest element of x.
COUNT = [node("ReduceMax", "x", "largest", keepdims=0), node("Cast", "largest", "count", to=onnx.TensorProto.INT64)]
SIGNS = xs([[1, 2, -1], [4, 0.5, 3]], [[1, -2, -1], [-4, 0.5, 3]])
COUNTS = xs([1, 3, -1], [0, 0, 0], [5, 2, 1], [-2, -1, -3])


def branches():
    twice = graph([constant("two", 2.0), constant("one", 1.0), node("Mul", "x two", "doubled"), node("Add", "doubled one", "a")], "a")
    minus = graph([node("Neg", "x", "b")], "b")
    case("if_small", POSITIVE + [node("If", "is_positive", "y", then_branch=twice, else_branch=minus), node("Abs", "y", "z")], "y z", SIGNS)

    # Products, with weights and values from around; the outputs are also a weight, a value from around, and a constant.
    left = graph([node("MatMul", "x v", "a"), node("Softmax", "a", "s"), node("Identity", "x", "x_out"),
                  node("Identity", "k", "k_out")], "s x_out k_out")
    right = graph([node("MatMul", "x w", "b"), constant("fixed", [[7, 8, 9], [1, 2, 3]]), node("Identity", "total_list", "t")],
                  "b fixed t")
    case("if_products", POSITIVE + [constant("list", [1], np.int64), node("Reshape", "total list", "total_list"), constant("k", [3.5]),
                                    node("If", "is_positive", "y taken last", then_branch=left, else_branch=right)],
         "y taken last", SIGNS, [("v", random("v", 3, 4)), ("w", random("w", 3, 4))])

    # Branches within branches, the inner condition from around and from inside.
    deepest = graph([node("Exp", "x", "e")], "e")
    inner = graph([node("ReduceMax", "x", "most", keepdims=0), constant("three", 3.5), node("Less", "most three", "is_less"),
                   node("If", "is_less", "i", then_branch=minus, else_branch=deepest)], "i")
    other = graph([node("If", "is_positive", "o", then_branch=deepest, else_branch=twice)], "o")
    case("if_nested", POSITIVE + [node("If", "is_positive", "y", then_branch=inner, else_branch=other)], "y",
         SIGNS + xs([[1, 2, -1], [3, 0.5, 3]]))

    # Results whose first dimension depends on the branch, and what follows on them.
    longer = graph([node("Concat", "x x", "c", axis=0), node("Neg", "x", "n")], "c n")
    shorter = graph([node("Sqrt", "x", "r"), constant("fixed", [[1, 2, 3]])], "r fixed")
    case("if_sizes", POSITIVE + [node("If", "is_positive", "y small", then_branch=longer, else_branch=shorter),
                                 node("Add", "y y", "twice"), node("ReduceSum", "y", "sum", keepdims=0)], "y small twice sum", SIGNS)

    # Integers and truth values.
    ints = graph([node("Cast", "x", "n", to=onnx.TensorProto.INT32), node("Greater", "x nothing", "g")], "n g")
    zeros = graph([constant("z", np.zeros((2, 3)), np.int32), node("Less", "x nothing", "l")], "z l")
    case("if_types", POSITIVE + [node("If", "is_positive", "n flags", then_branch=ints, else_branch=zeros)], "n flags", SIGNS)

    # A write to places that only the condition makes valid, which no selection may run.
    write = graph([node("ScatterElements", "x place one", "s", axis=0)], "s")
    keep = graph([node("Identity", "x", "i")], "i")
    case("if_scatter", COUNT + [constant("three", 3, np.int64), constant("list", [1], np.int64), node("Reshape", "count list", "place"),
                                node("Less", "count three", "fits"), constant("one", [1.0]),
                                node("If", "fits", "y", then_branch=write, else_branch=keep)], "y", xs([1, 2, -1], [5, 2, 1], [0, -1, 0]))


def loops():
    half = graph([node("Identity", "c", "go"), constant("h", 0.5), node("Mul", "v h", "m"), node("Add", "m x", "next")], "go next", "i c v")
    case("loop_count", COUNT + [node("Loop", "count - x", "y", body=half)], "y", COUNTS)

    double = graph([node("Add", "v v", "next"), node("ReduceSum", "next", "sum", keepdims=0), constant("limit", 100.0),
                    node("Less", "sum limit", "go")], "go next", "i c v")
    start = [node("Abs", "x", "a"), constant("bit", 1.0), node("Add", "a bit", "start"), constant("yes", True, bool)]
    case("loop_condition", start + [node("Loop", "- yes start", "y", body=double)], "y", xs([1, 3, -1], [200, 0, 0], [0, 0, 0]))

    # A bounded number of outputs, of which the condition takes some. (ONNX Runtime forgets the rank where there are none.)
    row = graph([node("Mul", "v factor", "next"), node("ReduceSum", "next", "sum", keepdims=0), constant("limit", 100.0),
                 node("Less", "sum limit", "go"), node("Identity", "next", "row")], "go next row sum", "i c v")
    bounded = [constant("most", 6, np.int64), constant("factor", 3.0), constant("limit_0", 1000.0), node("ReduceSum", "x", "total", keepdims=0),
               node("Less", "total limit_0", "first"), node("Loop", "most first x", "last rows sums", body=row)]
    case("loop_outputs", bounded + [node("ReduceMax", "rows", "largest", keepdims=0, axes=[1])], "last rows sums largest",
         xs([1, 3, 1], [200, 0, 0], [0.01, 0.01, 0]))

    # Outputs that nothing in the model bounds.
    grow = graph([node("Identity", "c", "go"), node("Add", "v x", "next"), node("Identity", "v", "row")], "go next row", "i c v")
    case("loop_open", COUNT + [node("Loop", "count - x", "last y", body=grow)], "last y", xs([1, 3, -1], [5, 2, 1]))

    # A counter that is an input of the body, values that swap places, and one that stays.
    mixed = graph([node("Cast", "i", "f", to=onnx.TensorProto.FLOAT), node("Add", "a f", "b_next"), node("Identity", "b", "a_next"),
                   node("MatMul", "a w", "product"), node("Add", "product k", "product_k"), node("Identity", "k", "k_next"),
                   node("Identity", "c", "go")], "go a_next b_next k_next", "i c a b k")
    case("loop_swap", COUNT + [node("Neg", "x", "minus"), node("Loop", "count - x minus x", "p q r", body=mixed)], "p q r", COUNTS,
         [("w", random("w", 3, 3))])

    # Products and a softmax; the weight is carried, as some exporters write it.
    attend = graph([node("MatMul", "v w", "product"), node("Softmax", "product", "next"), node("Identity", "w", "w_next"),
                    node("Identity", "c", "go")], "go next w_next", "i c v w")
    case("loop_weights", [node("ReduceMax", "x", "largest", keepdims=0), node("Cast", "largest", "count", to=onnx.TensorProto.INT64),
                          node("Loop", "count - x weight", "y same", body=attend)], "y same",
         xs([[1, 2, -1], [4, 0.5, 3]], [[-1, -2, -1], [-4, 0.5, 0]]), [("weight", random("w", 3, 3))])

    # The numbers of Fibonacci below a bound.
    fibonacci = graph([node("Add", "a b", "sum"), node("Less", "sum bound", "go"), node("Identity", "b", "a_next")], "go a_next sum", "i c a b", np.int64)
    case("loop_integers", COUNT + [node("Identity", "count", "bound"), constant("zero", 0, np.int64), constant("one", 1, np.int64),
                                   constant("yes", True, bool), node("Loop", "- yes zero one", "p q", body=fibonacci)], "p q",
         xs([1, 3, -1], [0, 0, 0], [1000, 2, 1]))

    # A branch in a loop, a loop in a branch, a loop in a loop.
    plus = graph([node("Add", "v x", "p")], "p")
    minus = graph([node("Sub", "v x", "m")], "m")
    choose = graph([node("ReduceSum", "v", "sum", keepdims=0), constant("ten", 10.0), node("Less", "sum ten", "small"),
                    node("If", "small", "next", then_branch=plus, else_branch=minus), node("Identity", "c", "go")], "go next", "i c v")
    case("loop_with_branch", COUNT + [node("Loop", "count - x", "y", body=choose)], "y", COUNTS)
    run = graph([node("Loop", "count - x", "l", body=half)], "l")
    keep = graph([node("Neg", "x", "n")], "n")
    case("branch_with_loop", COUNT + POSITIVE + [node("If", "is_positive", "y", then_branch=run, else_branch=keep)], "y", COUNTS)
    inner = graph([constant("h", 0.5), node("Mul", "u h", "m"), node("Add", "m v", "u_next"), node("Identity", "d", "go_on")],
                  "go_on u_next", "j d u")
    nested = graph([node("Loop", "count - v", "next", body=inner), node("Identity", "c", "go")], "go next", "i c v")
    case("loop_with_loop", COUNT + [node("Loop", "count - x", "y", body=nested)], "y", COUNTS)

    # As exporters of table recognition write it: columns of a buffer one after the other, at a place that is counted in floats; `shown` is not read
    # and begins as a scalar.
    integers = lambda name, *values: constant(name, values, np.int64)
    count_up = [node("Cast", "n", "f", to=onnx.TensorProto.FLOAT), constant("one", 1.0), node("Add", "f one", "g"),
                node("Cast", "g", "m", to=onnx.TensorProto.INT64)]
    bounds = [integers("list", 1), integers("six", 6), node("Reshape", "n list", "start"), node("Reshape", "m list", "end_0"),
              node("Min", "six end_0", "end")]
    column = [integers("axis", 1), node("Slice", "buffer start end axis list", "part"), node("Shape", "part", "shape"),
              node("ReduceSum", "buffer axis", "before", keepdims=1), node("Add", "before x", "column"), node("Expand", "column shape", "filled")]
    places = [node("Squeeze", "start", "start_0"), node("Squeeze", "end", "end_1"), constant("step", 1, np.int64), node("Range", "start_0 end_1 step", "range"),
              integers("row", 1, -1), node("Reshape", "range row", "range_row"), integers("rows", 2, 1), node("Tile", "range_row rows", "places")]
    write = [node("ScatterElements", "buffer places filled", "next", axis=1), node("Neg", "next", "shown_next"), node("ReduceSum", "next", "sum", keepdims=0),
             constant("limit", 20.0), node("Less", "sum limit", "is_small"), constant("six_0", 6, np.int64), node("Less", "m six_0", "fits"),
             node("And", "fits is_small", "both"), node("Cast", "both", "bit", to=onnx.TensorProto.INT64), integers("zero", 0), node("Add", "bit zero", "sum_0"),
             node("Squeeze", "sum_0", "flag"), node("Cast", "flag", "go", to=onnx.TensorProto.BOOL)]
    body = graph(count_up + bounds + column + places + write, "go m next shown_next", "i c n buffer shown")
    case("loop_writes", [integers("most", 1024), constant("yes", True, bool), constant("first", 0, np.int64), constant("empty", np.zeros((2, 6))),
                         constant("nothing", 0.0), node("Loop", "most yes first empty nothing", "width buffer_out shown_out", body=body), integers("along", 1),
                         integers("begin", 0), node("Reshape", "width along", "stop"), node("Slice", "buffer_out begin stop along", "y")],
         "width buffer_out shown_out y",
         xs([[1], [2]], [[0.1], [0]], [[9], [12]]))

    # A column at the iteration number, which the trip count bounds.
    pick = graph([integers("list", 1), node("Reshape", "i list", "start"), node("Add", "start list", "end"), node("Slice", "table start end list", "column"),
                  node("Add", "v column", "next"), node("ReduceSum", "next", "sum", keepdims=0), constant("limit", 5.0), node("Less", "sum limit", "go")],
                 "go next", "i c v")
    case("loop_columns", [constant("most", 4, np.int64), constant("yes", True, bool), node("Loop", "most yes x", "y", body=pick)], "y",
         xs([[1], [0]], [[-9], [0]], [[6], [0]]), [("table", np.arange(8, dtype=np.float32).reshape(2, 4) / 4)])


branches()
loops()
