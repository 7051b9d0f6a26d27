"""Runs the bundle's golden samples with ONNX Runtime on this device: ``python check.py``.

Needs the packages ``numpy`` and ``onnxruntime`` (or a build of it with another provider), nothing of EdgeKit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime

sys.dont_write_bytecode = True  # a folder __pycache__ would be no file of the bundle
from golden_check import (  # type: ignore[import-not-found]  # noqa: E402  # lies beside this file in a bundle
    BUNDLE,
    Execute,
    main,
)


def open_model(manifest: dict[str, Any], arguments: argparse.Namespace) -> Execute:
    """The bundle's model in a session on the provider that was asked for, and on no other one."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    path = BUNDLE / manifest["model"]["main"]
    session = onnxruntime.InferenceSession(str(path), options, providers=[arguments.provider])
    active = session.get_providers()
    if active[0] != arguments.provider:
        sys.exit(f"this onnxruntime has no {arguments.provider}; it would run on {', '.join(active)}")
    sys.stderr.write(f"ONNX Runtime {onnxruntime.__version__}, {', '.join(active)}, {path.name}\n")
    input_names = [feature["native_name"] for feature in manifest["inputs"]]
    output_names = [feature["native_name"] for feature in manifest["outputs"]]

    def execute(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        outputs: list[np.ndarray] = session.run(output_names, dict(zip(input_names, inputs, strict=True)))
        return outputs

    return execute


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--provider", default="CPUExecutionProvider", help="execution provider (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="threads inside an operator (%(default)s)")
    sys.exit(main(open_model, parser))
