"""Writes the cases of this folder: operators of ONNX Runtime's own, one a case. See `../oracle.py`. ONNX Runtime has no f16 kernels of most of
these operators on a CPU; it casts to f32 and back around them.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from oracle import Case, begin

begin(__file__, domain="com.microsoft")

HALF = np.float16


def gelus():
    for operator in ("Gelu", "QuickGelu", "FastGelu"):
        for suffix, dtype in (("", np.float32), ("_f16", HALF)):
            case = Case(f"{operator.lower()}{suffix}", dtype)
            case.write(operator, [case.floats(3, 40, spread=3)], ["y"])
    case = Case("quickgelu_alpha")
    case.write("QuickGelu", [case.floats(2, 3, 9)], ["y"], alpha=0.7)
    for operator in ("BiasGelu", "FastGelu"):
        for suffix, dtype in (("", np.float32), ("_f16", HALF)):
            case = Case(f"{operator.lower()}_bias{suffix}", dtype)
            case.write(operator, [case.floats(2, 5, 24, spread=3), case.floats(24)], ["y"])
    case = Case("gelu_extremes")
    extremes = [0.0, -0.0, 1e-40, -1e-8, 5.9, -5.9, 40.0, -40.0, 3e38, -3e38, np.inf, np.nan]
    case.write("Gelu", [np.array(extremes, np.float32)], ["y"])
    case = Case("fastgelu_extremes")
    case.write("FastGelu", [np.array(extremes, np.float32)], ["y"])


def norms():
    for suffix, dtype in (("", np.float32), ("_f16", HALF)):
        case = Case(f"skip{suffix}", dtype)
        x, skip, gamma, beta, bias = (case.floats(2, 3, 16), case.floats(2, 3, 16), case.floats(16), case.floats(16), case.floats(16))
        case.write("SkipLayerNormalization", [x, skip, gamma, beta, bias], ["y", "", "", "sum"], epsilon=1e-5)
        case = Case(f"skip_simplified{suffix}", dtype)
        case.write("SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], ["y", "", "", "sum"], epsilon=1e-5)
    case = Case("skip_plain")
    case.write("SkipLayerNormalization", [case.floats(2, 3, 8), case.floats(2, 3, 8), case.floats(8)], ["y"])
    case = Case("skip_beta")
    case.write("SkipLayerNormalization", [case.floats(2, 3, 8), case.floats(2, 3, 8), case.floats(8), case.floats(8)], ["y", "", "", "sum"])
    case = Case("skip_bias_without_beta")
    case.write("SkipLayerNormalization", [case.floats(2, 3, 8), case.floats(2, 3, 8), case.floats(8), None, case.floats(8)], ["y", "", "", "sum"])
    case = Case("skip_broadcast_one")
    case.write("SkipLayerNormalization", [case.floats(2, 3, 8), case.floats(1, 3, 8), case.floats(8), case.floats(8)], ["y", "", "", "sum"])
    case = Case("skip_broadcast_matrix")
    case.write("SkipLayerNormalization", [case.floats(2, 3, 8), case.floats(3, 8), case.floats(8), case.floats(8)], ["y", "", "", "sum"])
    case = Case("skip_simplified_matrix")
    case.write("SkipSimplifiedLayerNormalization", [case.floats(6, 8), case.floats(6, 8), case.floats(8)], ["y"])


def embeddings():
    def parts(case, hidden=8, batch=2, length=5):
        ids = lambda high, *shape: case.random.integers(0, high, shape).astype(np.int32)
        tables = [case.floats(rows, hidden) for rows in (11, 7, 3)]
        return ids, tables, case.floats(hidden), case.floats(hidden), batch, length

    case = Case("embed_words")
    ids, (word, place, segment), gamma, beta, batch, length = parts(case)
    case.write("EmbedLayerNormalization", [ids(11, batch, length), None, word, place, None, gamma, beta], ["y", "index"], epsilon=1e-5)
    case = Case("embed_segments_mask")
    mask = (case.random.random((batch, length)) < 0.6).astype(np.int32)
    case.write("EmbedLayerNormalization", [ids(11, batch, length), ids(3, batch, length), word, place, segment, gamma, beta, mask],
               ["y", "index", "sum"])
    case = Case("embed_mask_of_other_numbers")
    mask = case.random.integers(-1, 4, (batch, length)).astype(np.int32)
    case.write("EmbedLayerNormalization", [ids(11, batch, length), None, word, place, None, gamma, beta, mask], ["y", "index"])
    case = Case("embed_positions")
    case.write("EmbedLayerNormalization", [ids(11, batch, length), None, word, place, None, gamma, beta, None, ids(7, batch, length)],
               ["y", "", "sum"], epsilon=1e-5)
    case = Case("embed_positions_of_all_batches")
    case.write("EmbedLayerNormalization", [ids(11, batch, length), None, word, place, None, gamma, beta, None, ids(7, 1, length)],
               ["y", "index"])
    case = Case("embed_mask_index_type")
    case.write("EmbedLayerNormalization", [ids(11, batch, length), ids(3, batch, length), word, place, segment, gamma, beta], ["y", "index"],
               mask_index_type=0)
    case = Case("embed_f16", HALF)
    ids, (word, place, segment), gamma, beta, batch, length = parts(case)
    case.write("EmbedLayerNormalization", [ids(11, batch, length), ids(3, batch, length), word, place, segment, gamma, beta],
               ["y", "index", "sum"], epsilon=1e-5)


def attentions():
    def case_of(name, batch=2, length=4, past=None, size=6, heads=2, head=4, head_v=None, dtype=np.float32, mask=None, bias=True,
                score_bias=None, outputs=("y", "present"), **attributes):
        case = Case(f"attention_{name}", dtype)
        head_v = head_v or head
        total = length + (past or 0)
        columns = heads * (2 * head + head_v)
        inputs = [case.floats(batch, length, size), case.floats(size, columns), case.floats(columns) if bias else None]
        masks = {
            None: lambda: None,
            "ends": lambda: case.random.integers(1, total + 1, batch).astype(np.int32),
            "ends_starts": lambda: np.concatenate([case.random.integers(total // 2, total + 1, batch),
                                                   case.random.integers(0, total // 2 + 1, batch)]).astype(np.int32),
            "keys": lambda: (case.random.random((batch, total)) < 0.6).astype(np.int32),
            "left": lambda: np.array([[0] * min(row + 1, total) + [1] * (total - min(row + 1, total)) for row in range(batch)], np.int32),
            "nothing": lambda: np.zeros((batch, total), np.int32),
            "dummy": lambda: np.ones((batch, 1), np.int32),
            "pairs": lambda: (case.random.random((batch, length, total)) < 0.6).astype(np.int32),
            "numbers": lambda: case.random.integers(-2, 3, (batch, total)).astype(np.int32),
        }
        inputs.append(masks[mask]())
        inputs.append(case.floats(2, batch, heads, past, head) if past is not None else None)
        inputs.append(case.floats(*score_bias(batch, heads, length, total)) if score_bias else None)
        while inputs[-1] is None:
            inputs.pop()
        if head_v != head:
            attributes["qkv_hidden_sizes"] = [heads * head, heads * head, heads * head_v]
        case.write("Attention", inputs, list(outputs), num_heads=heads, **attributes)

    case_of("plain", outputs=("y",))
    case_of("present")
    case_of("without_bias", bias=False, outputs=("y",))
    case_of("scale", scale=0.25, outputs=("y",))
    case_of("sizes", head_v=3, outputs=("y",))
    case_of("causal", unidirectional=1)
    case_of("past", past=3)
    case_of("past_of_nothing", past=0, unidirectional=1, mask="keys", mask_filter_value=float(np.finfo(np.float32).min))
    case_of("causal_past", past=3, unidirectional=1)
    case_of("causal_step", length=1, past=5, unidirectional=1, mask="keys")
    for mask in ("ends", "ends_starts", "keys", "left", "nothing", "dummy", "pairs", "numbers"):
        case_of(f"mask_{mask}", mask=mask, outputs=("y",))
        case_of(f"causal_mask_{mask}", mask=mask, past=2, unidirectional=1)
    case_of("causal_left_lowest", mask="left", length=5, unidirectional=1, mask_filter_value=float(np.finfo(np.float32).min))
    case_of("bias_full", score_bias=lambda *shape: shape, outputs=("y",))
    case_of("bias_shared", score_bias=lambda b, n, s, t: (1, 1, s, t), mask="keys", outputs=("y",))
    case_of("bias_heads_causal", score_bias=lambda b, n, s, t: (1, n, s, t), unidirectional=1, outputs=("y",))
    case_of("f16", dtype=HALF, mask="keys", past=2, unidirectional=1)
    case_of("f16_lowest", dtype=HALF, mask="left", length=5, unidirectional=1, mask_filter_value=float(np.finfo(np.float32).min))


def multi_heads():
    def case_of(name, batch=2, length=3, keys=None, past=None, heads=2, head=4, head_v=None, dtype=np.float32, mask=None, bias=False,
                score_bias=None, split_keys=False, outputs=("y",), **attributes):
        case = Case(f"multihead_{name}", dtype)
        keys, head_v = keys or length, head_v or head
        total = keys + (past or 0)
        key = case.floats(batch, heads, keys, head) if split_keys else case.floats(batch, keys, heads * head)
        value = case.floats(batch, heads, keys, head_v) if split_keys else case.floats(batch, keys, heads * head_v)
        masks = {
            None: lambda: None,
            "ends": lambda: case.random.integers(1, total + 1, batch).astype(np.int32),
            "keys": lambda: (case.random.random((batch, total)) < 0.6).astype(np.int32),
            "pairs": lambda: (case.random.random((batch, length, total)) < 0.6).astype(np.int32),
        }
        inputs = [case.floats(batch, length, heads * head), key, value, case.floats(heads * (2 * head + head_v)) if bias else None, masks[mask](),
                  case.floats(*score_bias(batch, heads, length, total)) if score_bias else None]
        inputs += [case.floats(batch, heads, past, size) for size in (head, head_v)] if past is not None else []
        while inputs[-1] is None:
            inputs.pop()
        case.write("MultiHeadAttention", inputs, list(outputs), num_heads=heads, **attributes)

    case_of("plain")
    case_of("bias", bias=True)
    case_of("cross", keys=5, head_v=3)
    case_of("split_keys", keys=5, split_keys=True)
    case_of("causal", unidirectional=1, outputs=("y", "present_k", "present_v"))
    case_of("past", past=4, outputs=("y", "present_k", "present_v"), unidirectional=1, bias=True)
    case_of("mask_ends", keys=5, mask="ends", scale=0.3)
    case_of("mask_keys", keys=5, mask="keys", mask_filter_value=-50.0)
    case_of("mask_pairs", keys=5, mask="pairs")
    case_of("score_bias", keys=5, mask="keys", score_bias=lambda b, n, s, t: (1, n, s, t))
    case_of("f16", dtype=HALF, bias=True, mask="keys")


def rotaries():
    def angles(case, rows, half):
        angle = case.random.random((rows, half)) * 6
        return np.cos(angle).astype(case.dtype), np.sin(angle).astype(case.dtype)

    def case_of(name, shape, half, positions, dtype=np.float32, **attributes):
        case = Case(f"rotary_{name}", dtype)
        cosine, sine = angles(case, 16, half)
        length = shape[1] if len(shape) == 3 else shape[2]
        ids = np.array([5], np.int64) if positions == "first" else case.random.integers(0, 16, (shape[0], length)).astype(np.int64)
        case.write("RotaryEmbedding", [case.floats(*shape), ids, cosine, sine], ["y"], **attributes)

    case_of("first", (2, 3, 12), 3, "first")
    case_of("each", (2, 3, 12), 2, "each")
    case_of("interleaved", (2, 3, 12), 3, "each", interleaved=1)
    case_of("heads", (2, 3, 4, 6), 3, "each")
    case_of("part", (2, 3, 16), 2, "each", num_heads=2, rotary_embedding_dim=4)
    case_of("f16", (2, 3, 12), 3, "each", dtype=HALF)


def products():
    def case_of(name, a, b, dtype=np.float32, **attributes):
        case = Case(f"fusedmatmul_{name}", dtype)
        case.write("FusedMatMul", [case.floats(*a), case.floats(*b)], ["y"], **attributes)

    case_of("plain", (2, 3, 4), (2, 4, 5))
    case_of("both", (2, 4, 3), (2, 5, 4), transA=1, transB=1, alpha=0.5)
    case_of("broadcast", (2, 1, 4, 3), (3, 4, 5), transA=1)
    case_of("batch_a", (3, 2, 4), (2, 4, 5), transBatchA=1)
    case_of("batch_b", (2, 3, 4), (4, 2, 5), transBatchB=1, alpha=2.0)
    case_of("batch_both", (4, 2, 3), (4, 2, 5), transA=1, transBatchA=1, transBatchB=1)
    case_of("batch_of_two", (3, 2, 6, 4), (2, 6, 4, 5), transBatchA=1)
    case_of("double", (3, 4), (4, 5), dtype=np.float64, alpha=0.125)


gelus()
norms()
embeddings()
attentions()
multi_heads()
rotaries()
products()


def quantised():
    def bytes_of(case, *shape, dtype=np.uint8):
        # Signed weights of 7 bits: without instructions for it, ONNX Runtime saturates sums of two products at 16 bits.
        low, high = (0, 255) if dtype == np.uint8 else (-64, 63)
        return case.random.integers(low, high, shape, endpoint=True).astype(dtype)

    scale = lambda value: np.array(value, np.float32)
    case = Case("matmulintegertofloat_columns")
    case.write("MatMulIntegerToFloat", [bytes_of(case, 2, 3, 8), bytes_of(case, 8, 5, dtype=np.int8), scale(0.02), np.abs(case.floats(5)) * 0.01,
                                        np.array(120, np.uint8), None, case.floats(5)], ["y"])
    case = Case("matmulintegertofloat_zeros")
    case.write("MatMulIntegerToFloat", [bytes_of(case, 3, 8), bytes_of(case, 8, 5), scale(0.02), scale(0.01), np.array(7, np.uint8),
                                        bytes_of(case, 5)], ["y"])
    for name, bias, zeros in (("plain", False, False), ("bias", True, True)):
        case = Case(f"dynamicquantizematmul_{name}")
        inputs = [case.floats(2, 3, 8), bytes_of(case, 8, 5, dtype=np.int8), np.abs(case.floats(5)) * 0.01,
                  bytes_of(case, 5, dtype=np.int8) if zeros else None, case.floats(5) if bias else None]
        while inputs[-1] is None:
            inputs.pop()
        case.write("DynamicQuantizeMatMul", inputs, ["y"])
    for operator in ("QLinearAdd", "QLinearMul"):
        case = Case(operator.lower())
        case.write(operator, [bytes_of(case, 2, 3, 4), scale(0.02), np.array(100, np.uint8), bytes_of(case, 3, 1), scale(0.05),
                              np.array(130, np.uint8), scale(0.07), np.array(90, np.uint8)], ["y"])
    case = Case("qlinearleakyrelu")
    case.write("QLinearLeakyRelu", [bytes_of(case, 4, 9, dtype=np.int8), scale(0.03), np.array(3, np.int8), scale(0.02), np.array(-4, np.int8)],
               ["y"], alpha=0.2)
    case = Case("qlinearsigmoid")
    case.write("QLinearSigmoid", [bytes_of(case, 4, 9), scale(0.03), np.array(128, np.uint8), scale(1 / 256), np.array(0, np.uint8)], ["y"])
    case = Case("qlinearglobalaveragepool")
    case.write("QLinearGlobalAveragePool", [bytes_of(case, 2, 3, 4, 5), scale(0.03), np.array(128, np.uint8), scale(0.01),
                                            np.array(100, np.uint8)], ["y"])
    case = Case("qlinearconcat")
    case.write("QLinearConcat", [scale(0.05), np.array(120, np.uint8), bytes_of(case, 2, 3), scale(0.03), np.array(128, np.uint8),
                                 bytes_of(case, 2, 4), scale(0.06), np.array(99, np.uint8)], ["y"], axis=1)
    case = Case("qlinearsoftmax")
    case.write("QLinearSoftmax", [bytes_of(case, 3, 7), scale(0.05), np.array(128, np.uint8), scale(1 / 256), np.array(0, np.uint8)], ["y"],
               opset=13, axis=-1)
    for name, bits, zeros, depth in (("four", 4, False, 64), ("zeros", 4, True, 80), ("eight", 8, False, 32)):
        case = Case(f"matmulnbits_{name}")
        blocks, columns = -(-depth // 32), 6
        inputs = [case.floats(2, 3, depth), bytes_of(case, columns, blocks, 32 * bits // 8), np.abs(case.floats(columns, blocks)) * 0.1]
        if zeros:
            inputs.append(bytes_of(case, columns, -(-blocks * bits // 8)))
        case.write("MatMulNBits", inputs, ["y"], K=depth, N=columns, bits=bits, block_size=32)
    for name, causal, masked in (("plain", 0, False), ("causal", 1, True)):
        case = Case(f"qattention_{name}")
        mask = (case.random.random((2, 3)) < 0.7).astype(np.int32) if masked else None
        inputs = [bytes_of(case, 2, 3, 8), bytes_of(case, 8, 24, dtype=np.int8), case.floats(24), scale(0.01), scale(0.02), mask,
                  np.array(110, np.uint8), np.array(2, np.int8)]
        case.write("QAttention", inputs, ["y"], num_heads=2, unidirectional=causal)


def grouped():
    def case_of(name, length, total, past, lasts, heads=4, groups=2, size=16, turns=False, packed=False, window=-1, **attributes):
        case = Case(f"groupquery_{name}")
        batch = len(lasts)
        q, k, v = case.floats(batch, length, heads * size), case.floats(batch, length, groups * size), case.floats(batch, length, groups * size)
        q, k, v = (np.concatenate([q, k, v], 2), None, None) if packed else (q, k, v)
        inputs = [q, k, v, case.floats(batch, groups, past, size) if past else None, case.floats(batch, groups, past, size) if past else None,
                  np.array(lasts, np.int32), np.array([total], np.int32)]
        if turns:
            angle = case.random.random((total, size // 2)).astype(np.float32) * 6
            inputs += [np.cos(angle), np.sin(angle)]
        case.write("GroupQueryAttention", inputs, ["y", "present_key", "present_value"], constant=(6,), num_heads=heads, kv_num_heads=groups,
                   do_rotary=int(turns), local_window_size=window, **attributes)

    case_of("prompt", 5, 5, 0, [4, 4])
    case_of("turned", 5, 5, 0, [4, 4], turns=True)
    case_of("step", 1, 6, 5, [5, 5], turns=True)
    case_of("lengths", 1, 6, 6, [5, 2], turns=True)
    case_of("packed", 4, 4, 0, [3, 3], packed=True, turns=True, rotary_interleaved=1)
    case_of("window", 6, 6, 0, [5], window=3)
    case_of("softcap", 1, 4, 3, [3], softcap=5.0, scale=0.5)


quantised()
grouped()
