"""Runs the bundle's golden samples with onnx's reference implementation: ``python check.py``.

It needs the packages ``numpy`` and ``onnx``, but no EdgeKit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

sys.dont_write_bytecode = True  # the bundle must not contain a folder __pycache__
from check_service import OpenModel  # type: ignore[import-not-found]  # noqa: E402  # is beside this file in a bundle
from golden_check import BUNDLE, main  # type: ignore[import-not-found]  # noqa: E402  # as above


def open_model(manifest: dict[str, Any], arguments: argparse.Namespace) -> OpenModel:
    """The bundle's model, ready to run on inputs in the manifest's order."""
    evaluator = ReferenceEvaluator(str(BUNDLE / manifest["model"]["main"]))
    names = [feature["native_name"] for feature in manifest["inputs"]]

    def execute(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return evaluator.run(None, dict(zip(names, inputs, strict=True)))

    return OpenModel(execute, f"onnx.reference {onnx.__version__}", {"threads": str(arguments.threads)})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="this runtime has one (%(default)s)")
    parser.add_argument("--device-precision", action="store_true", help="this runtime has no precision of its own")
    sys.exit(main(open_model, parser))
