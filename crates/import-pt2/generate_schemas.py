#!/usr/bin/env python3
"""Writes src/schemas.txt: one line an operator of ATen with its parameters and their defaults, in order of the names.

    python crates/import-pt2/generate_schemas.py > crates/import-pt2/src/schemas.txt

Needs an installed torch; the table in the repository is of torch 2.15.0. Exported programs leave default arguments out, so an
importer needs these facts: names, types and defaults. Left out: variants that write to `out`, gradients, and operators of one
backend, which no exported program calls.
"""

import re

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed

LEFT_OUT = re.compile(
    r"backward|_foreach|_fused|cudnn|miopen|mkldnn|_mps|_cslt|sparse|_fw_|_jvp|_nested|_test|_ctc|_cufft|_dirichlet|_sobol|^aten::(__\w+__\.|_cast_)"
)

rows = {}
for schema in torch._C._jit_get_all_schemas():
    name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
    space = schema.name.split("::")[0]
    if space not in ("aten", "quantized_decomposed") or (LEFT_OUT.search(name) and not re.match(r"aten::__(and|or|xor|lshift|rshift)__", name)):
        continue
    if any(argument.alias_info and argument.is_out for argument in schema.arguments):
        continue
    asserts = re.search(r"_assert|sym_constrain", name)
    if not asserts and not any("Tensor" in str(argument.type) for argument in [*schema.arguments, *schema.returns]):
        continue
    text = str(schema)
    rows[name] = text[: text.rindex(" -> ")]
for name in sorted(rows):
    print(rows[name])
