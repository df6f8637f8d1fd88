#!/usr/bin/env python3
"""Writes the archives of this folder: small programs over operators of ATen, one folder a family, with inputs and with the outputs that eager
PyTorch gives. Made with torch 2.15.0 on a CPU:

    python testdata/pt2/make.py testdata/pt2
"""

import copy
import json
import os
import shutil
import sys
import zipfile

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim, export

torch.manual_seed(3)


class Family(nn.Module):
    """A function of tensors with a few weights."""

    def __init__(self, function, **tensors):
        super().__init__()
        self.function = function
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, *inputs):
        return tuple(self.function(self, *inputs))


def pointwise(m, x, y, i, j):
    yield x + 2 * y
    yield torch.add(x, y, alpha=3)
    yield torch.rsub(x, y, alpha=2)
    yield x / (y.abs() + 1)
    yield i / 3
    yield i // j
    yield torch.div(x, y.abs() + 0.5, rounding_mode="trunc")
    yield torch.div(x, y.abs() + 0.5, rounding_mode="floor")
    yield torch.remainder(x, 0.7)
    yield torch.fmod(i, j)
    yield torch.remainder(i, j)
    yield x**3
    yield x.abs() ** 1.7
    yield torch.maximum(x, y)
    yield torch.fmin(x, y)
    yield torch.atan2(x, y)
    yield x > y
    yield i != j
    yield (x > 0) & (y > 0)
    yield (x > 0) ^ (y > 0)
    yield i & j
    yield i | 5
    yield ~i
    yield i << 2
    yield torch.logical_or(x > 1, i)
    yield torch.where(x > 0, x, -2.5)
    yield torch.clamp(x, -0.5, 0.5)
    yield torch.clamp_min(i, 2)
    yield torch.addcmul(x, y, y, value=0.5)
    yield torch.lerp(x, y, 0.3)
    yield i + 0.5
    yield (i > 2) + i
    yield torch.isclose(x, x + 1e-7)
    yield x.to(torch.int32) + i.to(torch.int16)
    yield x.half() * y.half() + 1


def unary(m, x, y, i, j):
    p = x.abs() + 0.1
    u = torch.tanh(x) * 0.9
    for f in (torch.abs, torch.neg, torch.sign, torch.exp, torch.expm1, torch.erf, torch.erfc, torch.tanh, torch.sigmoid, torch.sin, torch.cos, torch.tan,
              torch.sinh, torch.cosh, torch.atan, torch.asinh, torch.floor, torch.ceil, torch.trunc, torch.round, torch.frac, torch.square, torch.isfinite,
              torch.isnan, torch.exp2):
        yield f(x)
    for f in (torch.log, torch.log1p, torch.log2, torch.log10, torch.sqrt, torch.rsqrt, torch.reciprocal):
        yield f(p)
    for f in (torch.asin, torch.acos, torch.atanh):
        yield f(u)
    yield torch.round(x, decimals=2)
    yield torch.logit(torch.sigmoid(x), eps=1e-3)
    yield torch.nan_to_num(x / (x > 0.5), nan=1.0, posinf=5.0)
    yield torch.isinf(x / (x > 0.5))
    yield torch.abs(i)
    yield torch.logical_not(i)
    yield torch.sqrt(i.abs())


def activations(m, x, y, i, j):
    yield F.relu(x)
    yield F.relu6(x * 4)
    yield F.hardtanh(x, -0.3, 0.6)
    yield F.hardswish(x * 3)
    yield F.hardsigmoid(x * 3)
    yield F.silu(x)
    yield F.gelu(x)
    yield F.gelu(x, approximate="tanh")
    yield F.elu(x, 0.7)
    yield F.selu(x)
    yield F.celu(x, 1.3)
    yield F.leaky_relu(x, 0.2)
    yield F.prelu(x, m.slope)
    yield F.softplus(x, 2.0, 1.0)
    yield F.mish(x)
    yield F.logsigmoid(x)
    yield F.glu(x, -1)
    yield F.softshrink(x, 0.3)
    yield F.hardshrink(x, 0.3)
    yield F.threshold(x, 0.1, 20.0)
    yield F.softmax(x, 1)
    yield F.log_softmax(x, -1)
    yield F.dropout(x, 0.5, training=False)
    yield F.softmax(x.half(), -1, dtype=torch.float32)


def creation(m, x, y, i, j):
    yield torch.zeros(2, 3) + x[:2, :3]
    yield torch.full((2,), 3.5) + x[0, :2]
    yield torch.ones_like(i) + i
    yield x.new_full((2, 2), 4) * x[:2, :2]
    yield torch.arange(5) + i[0, :5]
    yield torch.arange(2, 11, 3) + i[0, :3]
    yield torch.arange(0.0, 1.0, 0.25) + x[0, :4]
    yield torch.linspace(-1, 1, 5) * x[0, :5]
    yield torch.tril(x)
    yield torch.triu(x, 1)
    yield torch.eye(3) @ x[:3]
    yield F.one_hot(i.clamp(0, 4), 5)
    a, b = torch.meshgrid(x[0], y[0, :3], indexing="ij")
    yield a * b
    yield torch.fill(x, 2.0) + x
    yield torch.scalar_tensor(2.0) * x


def views(m, x, y, i, j):
    yield x.view(2, -1)
    yield x.reshape(-1)
    yield x.t().reshape(3, 8)
    yield x.flatten() + 1
    yield x.unflatten(1, (2, 3))
    yield x.unsqueeze(1).squeeze(1)
    yield x.transpose(0, 1).contiguous()
    yield y.view(2, 2, 6).permute(2, 0, 1)
    yield torch.movedim(y.view(2, 2, 6), 0, -1)
    yield x[None].expand(3, -1, -1)
    yield x[1:3, ::2]
    yield x[-2]
    yield x[:, -3:]
    yield x.narrow(1, 1, 2)
    yield x.select(1, 2)
    yield torch.cat(x.unbind(0)[1:3])
    yield torch.cat(x.split(4, 1)[::-1], 1)
    yield torch.cat(x.split([1, 2, 3], 1)[1:], 1)
    yield torch.cat(x.chunk(3, 1)[1:], 1)
    yield torch.diagonal(x, 1)
    yield x.unfold(1, 3, 2)
    yield torch.stack([x, y], 1)
    yield torch.cat([i, x], 0)
    yield x.repeat(2, 1, 3)
    yield torch.repeat_interleave(x, 3, 1)
    yield torch.flip(x, [0, 1])
    yield torch.roll(x, 2, 1)
    yield F.pad(x, (1, 2, 0, 1), value=9.0)
    yield F.pad(x[None], (2, 1), mode="reflect")
    yield F.pad(x[None], (2, 1), mode="replicate")
    yield F.pad(x, (-1, -2))
    yield F.pixel_shuffle(x.reshape(1, 4, 2, 3), 2)
    yield F.pixel_unshuffle(x.reshape(1, 1, 4, 6), 2)
    yield torch.diff(x, prepend=x[:, :1])
    yield torch.index_select(x, 1, torch.tensor([0, 2, 5]))
    yield torch.tensor_split(x, 3, 1)[1]
    yield x.mT.clone()


def in_place(m, x, y, i, j):
    a = x.clone()
    v = a[1:3]
    v.add_(10)
    yield a
    a[0] = 5
    yield a + 0
    b = x.clone()
    w = b.view(-1)
    w[3:7] = y.flatten()[:4]
    b.t()[2].mul_(2)
    yield b
    yield w + 0
    c = x.clone()
    c[:, 1:3].relu_()
    c.masked_fill_(y > 1, -7.0)
    yield c
    d = torch.zeros(4, 6)
    d.copy_(x[:1])
    d[:, 2:5].unsqueeze(0).transpose(1, 2).fill_(3.0)
    yield d
    e = x.clone()
    f = e.select(0, 1)
    e.sub_(1)
    yield f * 2
    g = x.clone()
    h, k = g.chunk(2, 1)
    h.zero_()
    k.exp_()
    yield g
    n = x.clone()
    n.clamp_(-0.2, 0.2).neg_()
    yield n
    o = x.clone()
    o.index_put_((torch.tensor([0, 2]), torch.tensor([1, 1])), torch.tensor([7.0, 8.0]))
    yield o


def reductions(m, x, y, i, j):
    yield x.sum()
    yield x.sum(1, keepdim=True)
    yield i.sum(0)
    yield x.mean((0, 1))
    yield x.prod(1)
    yield x.amax(0)
    yield x.max()
    a, b = x.max(1)
    yield a
    yield b
    a, b = x.min(0, keepdim=True)
    yield a
    yield b
    yield x.argmax()
    yield x.argmin(1, keepdim=True)
    yield (x > 0).any(1)
    yield (x > -9).all()
    yield x.var(1)
    yield x.std((0, 1), correction=0)
    a, b = torch.var_mean(x, 1, keepdim=True)
    yield a
    yield b
    yield torch.logsumexp(x, 1)
    yield torch.linalg.vector_norm(x, 2, 1)
    yield torch.linalg.vector_norm(x, float("inf"), 0)
    yield torch.linalg.vector_norm(x, 3)
    yield torch.cumsum(x, 1)
    yield torch.cumsum(i, 0)
    yield torch.cumprod(x, 1)
    yield torch.count_nonzero(i, 1)


def matmuls(m, x, y, i, j):
    yield F.linear(x, m.w, m.b)
    yield F.linear(x[0], m.w)
    yield x @ y.t()
    yield x[0] @ y[1]
    yield x @ y[2]
    yield x.view(1, 4, 1, 6) @ m.w3
    yield torch.bmm(x.view(2, 2, 6), y.view(2, 6, 2))
    yield torch.addmm(m.b, x, m.w.t(), beta=0.5, alpha=2)
    yield torch.baddbmm(x.view(2, 2, 6)[:, :, :2], x.view(2, 2, 6), y.view(2, 6, 2))
    yield torch.outer(x[0], y[0])
    yield torch.einsum("ij,kj->ik", x, y)
    yield torch.einsum("ij,ij,kj->k", x, x, y)
    yield torch.einsum("ii->i", (x @ y.t()))
    yield F.bilinear(x, y, m.w3b, m.b)
    yield x.half() @ y.half().t()


def attention(m, q, k, v, mask):
    yield F.scaled_dot_product_attention(q, k, v)
    yield F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)
    yield F.scaled_dot_product_attention(q, k, v, attn_mask=mask > 0)
    yield F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    yield F.scaled_dot_product_attention(q[:, 0], k[:, 0], v[:, 0])
    yield F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)


def norms(m, x, y, i, j):
    g = x.reshape(2, 4, 3)
    yield F.layer_norm(x, (6,), m.w, m.b, 1e-3)
    yield F.layer_norm(g, (4, 3))
    yield F.rms_norm(x, (6,), m.w)
    yield F.group_norm(g, 2, m.w[:4], m.b[:4])
    yield F.instance_norm(g)
    yield F.batch_norm(g, m.mean, m.var, m.w[:4], m.b[:4])
    yield F.batch_norm(g.reshape(2, 4, 3, 1), m.mean, m.var, eps=1e-2)
    yield F.local_response_norm(g, 3, 1e-2, 0.75, 1.5)
    yield F.normalize(x, dim=1)


def images(m, x, y, i, j):
    g = x.reshape(1, 2, 3, 4)
    line = x.reshape(2, 2, 6)
    volume = x.reshape(1, 2, 3, 2, 2)
    yield F.conv2d(g, m.k2, m.b2, stride=(1, 2), padding=1)
    yield F.conv2d(g, m.k2, padding="same", dilation=(1, 2))
    yield F.conv2d(g[0], m.k2, m.b2, padding=1)
    yield F.conv2d(g, m.depth, groups=2, padding=1)
    yield F.conv1d(line, m.k1, padding=2, dilation=2)
    yield F.conv3d(volume, m.k3, padding=1)
    yield F.conv_transpose2d(g, m.kt, stride=2, padding=1, output_padding=1)
    yield F.conv_transpose1d(line, m.kt1, stride=3)
    yield F.max_pool2d(g, 2, stride=1, padding=1)
    yield F.max_pool1d(line, 3, 2)
    yield F.max_pool2d(g, 2, ceil_mode=True)
    yield F.avg_pool2d(g, 2, stride=1, padding=1)
    yield F.avg_pool2d(g, 2, stride=1, padding=1, count_include_pad=False)
    yield F.avg_pool2d(g, (2, 2), divisor_override=3)
    yield F.avg_pool3d(volume, 2)
    yield F.adaptive_avg_pool2d(g, 1)
    yield F.adaptive_avg_pool2d(g, (3, 2))
    yield F.adaptive_avg_pool2d(g, (2, 3))
    yield F.adaptive_max_pool2d(g, (1, 2))
    yield F.interpolate(g, scale_factor=2, mode="nearest")
    yield F.interpolate(g, size=(5, 3), mode="nearest")
    yield F.interpolate(g, size=(5, 3), mode="nearest-exact")
    yield F.interpolate(g, size=(5, 7), mode="bilinear")
    yield F.interpolate(g, size=(5, 7), mode="bilinear", align_corners=True)
    yield F.interpolate(g, scale_factor=1.5, mode="bilinear")
    yield F.interpolate(g, size=(6, 8), mode="bicubic")
    yield F.interpolate(line, size=9, mode="linear")
    yield F.unfold(g, (2, 3), padding=1, stride=(1, 2))
    yield F.channel_shuffle(x.reshape(1, 4, 2, 3), 2)


def indexing(m, x, y, i, j):
    rows, columns = torch.tensor([2, 0, 3]), torch.tensor([1, -1, 4])
    yield F.embedding(i.clamp(0, 3), x)
    yield x[rows]
    yield x[:, columns]
    yield x[rows, columns]
    yield x[rows[:, None], columns]
    cube = x.view(2, 2, 6)
    yield cube[:, torch.tensor([1, 0]), torch.tensor([2, 3])]
    yield cube[torch.tensor([1, 0]), :, torch.tensor([2, 3])]
    yield torch.gather(x, 1, i.clamp(0, 5))
    yield torch.take_along_dim(x, x.argsort(1), 1)
    yield torch.take(x, torch.tensor([5, 0, 23]))
    yield torch.scatter(x, 1, torch.tensor([[0, 2], [1, 3]]), 5.0)
    yield torch.scatter(x, 0, torch.tensor([[0, 2], [1, 3]]), y)
    yield torch.scatter_add(x, 1, i.clamp(0, 5), y)
    yield torch.scatter_reduce(x, 1, i.clamp(0, 5), y, "amax")
    yield torch.index_copy(x, 0, rows, y[:3])
    yield torch.index_add(x, 1, columns.abs(), y[:, :3], alpha=2)
    yield torch.index_fill(x, 1, rows, -1.0)
    yield torch.index_put(x, (rows, columns), torch.tensor([1.0, 2.0, 3.0]))
    yield torch.ops.aten.index_put(x, [None, columns], y[:, :3], True)
    yield torch.index_put(x, (x > 0.5,), torch.tensor(4.0))
    yield torch.masked_fill(x, y > 0, float("-inf"))
    yield torch.select_scatter(x, y[0], 0, 1)
    yield torch.slice_scatter(x, y[:, :2], 1, 2, 4)
    yield torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5]))
    a, b = torch.sort(x, 1, descending=True)
    yield a
    yield b
    yield torch.argsort(i, dim=0, stable=True)
    a, b = torch.topk(x, 3, 1, largest=False)
    yield a
    yield b
    a, b = torch.kthvalue(x, 2, 1)
    yield a
    yield torch.median(x)


def quantization(m, x, y, i, j):
    yield torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127)
    yield torch.fake_quantize_per_tensor_affine(x, torch.tensor(0.1), torch.tensor(0, dtype=torch.int32), 0, 255)
    yield torch.fake_quantize_per_channel_affine(x, m.scales, m.zeros, 0, -8, 7)
    q = torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.03, 5, -128, 127, torch.int8)
    yield q
    yield torch.ops.quantized_decomposed.dequantize_per_tensor(q, 0.03, 5, -128, 127, torch.int8)
    q = torch.ops.quantized_decomposed.quantize_per_channel(x, m.scales, m.zeros, 0, -128, 127, torch.int8)
    yield q
    yield torch.ops.quantized_decomposed.dequantize_per_channel(q, m.scales, m.zeros, 0, -128, 127, torch.int8)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True)
        self.projected = nn.LSTM(6, 5, proj_size=3)
        self.gru = nn.GRU(6, 4, 2, bidirectional=True)
        self.rnn = nn.RNN(6, 3, nonlinearity="relu", bias=False)

    def forward(self, x):
        x = x.view(2, 2, 6)
        a, (b, c) = self.lstm(x)
        d, e = self.gru(x)
        f, g = self.rnn(x)
        h, _ = self.projected(x)
        k, _ = self.gru(x[0])
        return a, b, c, d, e, f, g, h, k


class Shared(nn.Module):
    """Tied weights, views of one storage, a constant, a buffer that is not saved, a dictionary as output."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 6)
        self.out = nn.Linear(6, 7, bias=False)
        self.out.weight = self.table.weight
        big = torch.randn(5, 6)
        self.register_buffer("part", big[1:3])
        self.register_buffer("turned", big.t())
        self.register_buffer("wide", torch.randn(1, 6).expand(4, 6))
        self.register_buffer("unsaved", torch.randn(6), persistent=False)
        self.conv = nn.Conv2d(2, 3, 3, padding=1).to(memory_format=torch.channels_last)
        self.constant = torch.tensor([1.0, -1.0, 2.0, 0.5, 0.25, 4.0])

    def forward(self, ids, x):
        y = self.table(ids) * self.constant + self.unsaved + x
        z = y @ self.turned
        w = self.conv(y.reshape(ids.shape[0], 2, 1, -1))
        return {"logits": self.out(y), "more": (z, y[:, None] + self.part), "image": w, "wide": x[:, None] * self.wide}


class Counter(nn.Module):
    """A buffer that is written in place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.arange(6.0))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.total[1:4].add_(x.sum(0)[1:4])
        self.steps += 1
        return self.total * self.steps


class Branches(nn.Module):
    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
        (b, c) = torch._higher_order_ops.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 1.5), (torch.zeros((), dtype=torch.int64), x))
        return a, b, c


def save(root, name, module, inputs, **options):
    module.eval()
    folder = os.path.join(root, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with torch.no_grad():
        program = export(module, tuple(inputs), strict=False, **options)
        for index, value in enumerate(inputs):
            numpy.save(os.path.join(folder, f"input_{index}.npy"), value.numpy())
        # A copy runs, so that buffers are saved as they were before.
        outputs = torch.utils._pytree.tree_leaves(copy.deepcopy(module)(*[value.clone() for value in inputs]))
        for index, value in enumerate(outputs):
            numpy.save(os.path.join(folder, f"output_{index}.npy"), value.contiguous().numpy())
    path = os.path.join(folder, "model.pt2")
    torch.export.save(program, path)
    shrink(path)


def shrink(path):
    """Leaves out sample inputs and all stack traces but one, and keeps the alignment of the weights."""
    with zipfile.ZipFile(path) as archive:
        entries = [(entry, archive.read(entry)) for entry in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for entry, data in entries:
            if "sample_inputs" in entry.filename or "serialization_id" in entry.filename:
                continue
            if entry.filename.endswith("models/model.json"):
                program = json.loads(data)
                strip(program["graph_module"]["graph"], [True])
                data = json.dumps(program, separators=(",", ":")).encode()
            info = zipfile.ZipInfo(entry.filename, (2026, 1, 1, 0, 0, 0))
            padding = -(archive.fp.tell() + 30 + len(entry.filename) + 4) % 64
            info.extra = b"FB" + padding.to_bytes(2, "little") + bytes(padding)
            archive.writestr(info, data)


def strip(graph, first):
    for node in graph["nodes"]:
        metadata = node["metadata"]
        kept = {"nn_module_stack": metadata.get("nn_module_stack", "")}
        if first[0] and "stack_trace" in metadata:
            kept["stack_trace"] = metadata["stack_trace"].replace(os.path.dirname(os.path.abspath(__file__)) + "/", "")
            first[0] = False
        node["metadata"] = kept
        for argument in node["inputs"]:
            if "as_graph" in argument["arg"]:
                strip(argument["arg"]["as_graph"]["graph"], first)


def main(root):
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    i, j = torch.randint(-6, 7, (4, 6)), torch.randint(1, 5, (4, 6))
    weight = lambda *shape: torch.randn(*shape) * 0.5
    families = {
        "pointwise": (pointwise, {}),
        "unary": (unary, {}),
        "activations": (activations, {"slope": weight(6).abs()}),
        "creation": (creation, {}),
        "views": (views, {}),
        "in_place": (in_place, {}),
        "reductions": (reductions, {}),
        "matmuls": (matmuls, {"w": weight(5, 6), "b": weight(5), "w3": weight(3, 1, 6, 2), "w3b": weight(5, 6, 6)}),
        "norms": (norms, {"w": weight(6), "b": weight(6), "mean": weight(4), "var": weight(4).abs()}),
        "images": (images, {"k2": weight(3, 2, 3, 3), "b2": weight(3), "depth": weight(4, 1, 3, 3), "k1": weight(3, 2, 3), "k3": weight(2, 2, 2, 2, 2),
                            "kt": weight(2, 3, 3, 3), "kt1": weight(2, 3, 2)}),
        "indexing": (indexing, {}),
        "quantization": (quantization, {"scales": torch.tensor([0.1, 0.05, 0.2, 0.3]), "zeros": torch.tensor([0, 1, -2, 3], dtype=torch.int32)}),
    }
    only = sys.argv[2:]
    wanted = lambda name: not only or name in only
    for name, (function, tensors) in families.items():
        if wanted(name):
            save(root, name, Family(function, **tensors), (x, y, i, j))
    if wanted("attention"):
        q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8)
        save(root, "attention", Family(attention), (q, k, v, torch.randn(2, 1, 5, 7)))
    if wanted("recurrent"):
        save(root, "recurrent", Recurrent(), (x,))
    if wanted("shared"):
        rows = Dim("rows", min=1, max=9)
        ids, z = torch.randint(0, 7, (2,)), torch.randn(2, 6)
        save(root, "shared", Shared(), (ids, z), dynamic_shapes=({0: rows}, {0: rows}))
    if wanted("counter"):
        save(root, "counter", Counter(), (x,))
    if wanted("branches"):
        save(root, "branches", Branches(), (x,))


if __name__ == "__main__":
    import torch.ao.quantization.fx._decomposed

    main(sys.argv[1])
