"""Writes the cases of this folder: options of ONNX's operators that its backend tests leave out, against ONNX Runtime. See `../oracle.py`."""
import itertools
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from oracle import Case, begin

begin(__file__, opset=20)


def sampling():
    for mode, padding, corners in itertools.product(("nearest", "linear", "cubic"), ("zeros", "border", "reflection"), (0, 1)):
        case = Case(f"gridsample_{mode}_{padding}_{corners}")
        case.write("GridSample", [case.floats(2, 3, 4, 5), case.floats(2, 3, 2, 2, spread=1.6)], ["y"], mode=mode, padding_mode=padding,
                   align_corners=corners)
    for mode, padding in (("linear", "border"), ("linear", "reflection"), ("nearest", "reflection")):
        case = Case(f"gridsample_volume_{mode}_{padding}")
        case.write("GridSample", [case.floats(1, 2, 3, 4, 5), case.floats(1, 2, 3, 2, 3, spread=1.6)], ["y"], mode=mode, padding_mode=padding)
    case = Case("gridsample_double", np.float64)
    case.write("GridSample", [case.floats(1, 2, 4, 5), case.floats(1, 3, 2, 2)], ["y"], mode="cubic")
    # What lies outside is zero whatever the first element is.
    case = Case("gridsample_infinite")
    x = case.floats(1, 1, 3, 3)
    x[0, 0, 0, 0] = np.inf
    case.write("GridSample", [x, np.array([[[[5, 5], [1.2, 0.5], [-7, 0], [0.3, 0.9]]]], np.float32)], ["y"])
    for corners in (0, 1):
        case = Case(f"affinegrid_volume_{corners}", np.float64)
        case.write("AffineGrid", [case.floats(2, 3, 4), np.array([2, 1, 3, 4, 5], np.int64)], ["y"], constant=(1,), align_corners=corners)


def deformed():
    def case_of(name, groups=1, offset_groups=1, kernel=(3, 2), pads=(1, 0, 2, 1), strides=(1, 2), dilations=(1, 1), mask=False, bias=False):
        case = Case(f"deformconv_{name}")
        size = [(5 + pads[axis] + pads[axis + 2] - dilations[axis] * (kernel[axis] - 1) - 1) // strides[axis] + 1 for axis in (0, 1)]
        cells = kernel[0] * kernel[1]
        inputs = [case.floats(2, 4, 5, 5), case.floats(6, 4 // groups, *kernel), case.floats(2, offset_groups * cells * 2, *size)]
        inputs += [case.floats(6) if bias or mask else None, case.floats(2, offset_groups * cells, *size) if mask else None]
        while inputs[-1] is None:
            inputs.pop()
        case.write("DeformConv", inputs, ["y"], group=groups, offset_group=offset_groups, pads=pads, strides=strides, dilations=dilations)

    case_of("plain")
    case_of("groups", groups=2, bias=True)
    case_of("all", groups=2, offset_groups=2, dilations=(2, 1), mask=True)


def pooling():
    def case_of(name, shape, dtype=np.float32, opset=12, **attributes):
        case = Case(f"maxpool_{name}", dtype)
        x = case.random.integers(0, 9, shape).astype(dtype)
        case.write("MaxPool", [x], ["y", "indices"], version=opset, **attributes)

    case_of("indices", (2, 3, 5, 6), kernel_shape=[2, 3], pads=[1, 1, 0, 1], strides=[2, 1])
    case_of("indices_columns", (2, 2, 5, 6), kernel_shape=[2, 3], storage_order=1)
    case_of("indices_dilated", (1, 2, 7, 6), kernel_shape=[2, 2], dilations=[2, 3], ceil_mode=1, strides=[2, 2])
    case_of("indices_line", (2, 2, 9), kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER")
    case_of("indices_volume", (1, 2, 4, 3, 5), kernel_shape=[2, 2, 3], pads=[0, 1, 1, 1, 0, 1], storage_order=1)
    case_of("indices_double", (1, 1, 4, 4), np.float64, kernel_shape=[2, 2])
    case_of("indices_bytes", (1, 2, 4, 4), np.uint8, kernel_shape=[3, 3], strides=[1, 1])
    case = Case("maxunpool_pads")
    indices = case.random.permutation(2 * 2 * 5 * 5)[: 2 * 2 * 3 * 3].reshape(2, 2, 3, 3).astype(np.int64)
    case.write("MaxUnpool", [case.floats(2, 2, 3, 3), indices], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def regions():
    rois = np.array([[0, 0, 4, 5], [-3, 1, 2.5, 9], [3, 3, 3.2, 3.1], [6, 2, 1, 8], [20, 20, 30, 30]], np.float32)
    images = np.array([1, 0, 1, 1, 0], np.int64)
    for mode, place, dtype in itertools.product(("avg", "max"), ("half_pixel", "output_half_pixel"), (np.float32, np.float64)):
        case = Case(f"roialign_{mode}_{place}_{np.dtype(dtype).name}", dtype)
        case.write("RoiAlign", [case.floats(2, 3, 6, 7), rois.astype(dtype), images], ["y"], version=16, mode=mode, output_height=2,
                   output_width=3, sampling_ratio=2, spatial_scale=0.75, coordinate_transformation_mode=place)


def losses():
    for kind, reduction in itertools.product(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), ("none", "mean", "sum")):
        case = Case(f"{'nll' if kind[0] == 'N' else 'cross_entropy'}_{reduction}")
        classes = case.random.integers(0, 5, (3, 2, 4)).astype(np.int32)
        classes[0, 1] = -7
        weights = np.abs(case.floats(5))
        case.write(kind, [case.floats(3, 5, 2, 4, spread=4), classes, weights], ["y"], version=13, reduction=reduction, ignore_index=-7)
    # An ignored place counts for nothing even where its logarithm is infinite.
    case = Case("nll_infinite")
    x = case.floats(3, 4)
    x[1] = -np.inf
    case.write("NegativeLogLikelihoodLoss", [x, np.array([0, 2, 3])], ["y"], version=13, ignore_index=2)


def others():
    # ONNX Runtime 1.32 is wrong about three dimensions.
    case = Case("col2im_volume")
    case.write("Col2Im", [case.floats(2, 2 * 8, 1 * 2 * 2), np.array([3, 4, 5]), np.array([2, 2, 2])], ["y"], constant=(1, 2),
               by_reference=True, dilations=[2, 1, 3], strides=[1, 2, 2], pads=[0, 1, 1, 0, 0, 1])
    for axes in ((0, 1), (1, 0)):
        case = Case(f"reversesequence_{axes[0]}{axes[1]}")
        lengths = np.array([2, 0, 4]) if axes[0] == 0 else np.array([3, 1, 0, 2])
        case.write("ReverseSequence", [case.floats(3, 4, 2), lengths], ["y"], batch_axis=axes[0], time_axis=axes[1])
    for mode in ("TF", "IDF", "TFIDF"):
        case = Case(f"tfidf_{mode.lower()}")
        x = case.random.integers(1, 5, (3, 9))
        pool = [1, 2, 3, 1, 2, 2, 3, 4, 1, 1, 2, 3, 4, 3, 2]
        case.write("TfIdfVectorizer", [x], ["y"], mode=mode, min_gram_length=1, max_gram_length=3, max_skip_count=2, ngram_counts=[0, 3, 9],
                   ngram_indexes=[7, 0, 3, 1, 6, 2, 5, 4], pool_int64s=pool, weights=[0.5, 1.5, 2.0, 3.0, 0.25, 4.0, 5.0, 6.0])
    for name, shape, dtype in (("rows", (3, 5, 5), np.float32), ("matrix", (4, 4), np.float32), ("one", (2, 1, 1), np.float32)):
        case = Case(f"det_{name}", dtype)
        x = case.floats(*shape)
        # The second matrix has no inverse, and the first pivots are zero.
        if name == "rows":
            x[1, 3] = 2 * x[1, 0]
            x[:, 0, 0] = 0
        case.write("Det", [x], ["y"], version=11)
    for sizes in ((5, 2, 7), (2, 9, 4)):
        case = Case(f"centercroppad_{sizes[1]}")
        case.write("CenterCropPad", [case.floats(4, 5, 4), np.array(sizes)], ["y"], constant=(1,), version=18)
    for name, dtype, count in (("columns", np.float32, 3), ("one", np.float32, 1), ("double", np.float64, 3), ("int", np.int64, 3)):
        case = Case(f"scaler_{name}", dtype)
        case.domain = "ai.onnx.ml"
        case.write("Scaler", [case.floats(4, 3, spread=9.0)], ["y"], offset=[0.5, -2.0, 100.25][:count], scale=[2.0, 0.3, -1.5][:count])


sampling()
deformed()
pooling()
regions()
losses()
others()
