"""Runs the bundle's golden samples with OpenVINO on this device: ``python check.py --device GPU``.

Needs the packages ``numpy`` and ``openvino``, nothing of EdgeKit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino

sys.dont_write_bytecode = True  # a folder __pycache__ would be no file of the bundle
from golden_check import (  # type: ignore[import-not-found]  # noqa: E402  # lies beside this file in a bundle
    BUNDLE,
    Execute,
    main,
)

DEFAULT_DEVICES = {"intel-gpu": "GPU", "intel-npu": "NPU"}


def open_model(manifest: dict[str, Any], arguments: argparse.Namespace) -> Execute:
    """The bundle's model compiled for the device."""
    device = arguments.device or DEFAULT_DEVICES.get(manifest["target"]["profile"], "CPU")
    # A CPU with AMX would compute in bfloat16 by default, which says nothing about the conversion.
    config = {"INFERENCE_PRECISION_HINT": "f32"} if device == "CPU" and not arguments.device_precision else {}
    path = BUNDLE / manifest["model"]["main"]
    compiled = openvino.Core().compile_model(path, device, config)
    sys.stderr.write(f"OpenVINO {openvino.__version__}, {device} {config}, {path.name}\n")

    def execute(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        results = compiled(list(inputs))
        return [results[position] for position in range(len(compiled.outputs))]

    return execute


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="", help="OpenVINO's device name (the one that the bundle was made for)")
    parser.add_argument(
        "--device-precision", action="store_true", help="compute as the device does by default, not in float32"
    )
    sys.exit(main(open_model, parser))
