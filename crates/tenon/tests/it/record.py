"""Fills a weightless skeleton and records what ONNX Runtime gives for seeded inputs.

    record.py FILL_WEIGHTS.py SKELETON.onnx FOLDER

Writes FOLDER/model.onnx, in.NAME.npy and out.NAME.npy.
"""
import os
import subprocess
import sys

import numpy as np
import onnxruntime as ort

fill, skeleton, folder = sys.argv[1:4]
os.makedirs(folder, exist_ok=True)
model = os.path.join(folder, "model.onnx")
subprocess.run([sys.executable, fill, skeleton, model], check=True)
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
session = ort.InferenceSession(model, options)
generator = np.random.default_rng(7)
feed = {}
for value in session.get_inputs():
    if "int64" in value.type:
        array = np.ones(value.shape, np.int64) if "mask" in value.name else generator.integers(0, 1000, value.shape)
    else:
        kind = np.float16 if "float16" in value.type else np.float32
        array = generator.standard_normal(value.shape).astype(kind)
    feed[value.name] = array
    np.save(os.path.join(folder, f"in.{value.name}.npy"), array)
for value, array in zip(session.get_outputs(), session.run(None, feed)):
    np.save(os.path.join(folder, f"out.{value.name}.npy"), array)
