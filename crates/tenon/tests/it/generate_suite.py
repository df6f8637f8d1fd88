"""Writes the ONNX backend tests as files: `node`, which onnx keeps as code, and `simple`, which it brings as files.

    generate_suite.py FOLDER
"""
import argparse
import os
import shutil
import sys
import warnings

from onnx.backend.test import cmd_tools
from onnx.backend.test.case import model as model_cases
from onnx.backend.test.loader import DATA_DIR, load_node_model_tests

folder = sys.argv[1]
warnings.simplefilter("ignore")
# The tool writes the cases of models only; it is given those of single nodes too, and none that need a download.
cases = load_node_model_tests() + [case for case in model_cases.collect_testcases() if case.kind != "real"]
model_cases.collect_testcases = lambda: cases
cmd_tools.generate_data(argparse.Namespace(output=folder))
shutil.copytree(os.path.join(DATA_DIR, "simple"), os.path.join(folder, "simple"), dirs_exist_ok=True)
