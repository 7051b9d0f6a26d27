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
from check_service import OpenModel  # type: ignore[import-not-found]  # noqa: E402  # lies beside this file in a bundle
from golden_check import BUNDLE, main  # type: ignore[import-not-found]  # noqa: E402  # likewise

DEFAULT_DEVICES = {"intel-gpu": "GPU", "intel-npu": "NPU"}


def open_model(manifest: dict[str, Any], arguments: argparse.Namespace) -> OpenModel:
    """The bundle's model compiled for the device."""
    device = arguments.device or DEFAULT_DEVICES.get(manifest["target"]["profile"], "CPU")
    config = {}
    if device == "CPU":
        config = {"INFERENCE_NUM_THREADS": arguments.threads, "NUM_STREAMS": 1}
        if not arguments.device_precision:
            # Some CPUs compute in bfloat16 or float16 by default, which says nothing about the conversion.
            config["INFERENCE_PRECISION_HINT"] = "f32"
    path = BUNDLE / manifest["model"]["main"]
    core = openvino.Core()
    default_precision = core.get_property(device, "INFERENCE_PRECISION_HINT").to_string()
    compiled = core.compile_model(path, device, config)
    precision = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()

    request = compiled.create_infer_request()

    def execute(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        for position, array in enumerate(inputs):
            request.set_input_tensor(position, openvino.Tensor(array))
        request.infer()
        # Copies: the next inference overwrites them.
        return [np.array(request.get_output_tensor(position).data) for position in range(len(compiled.outputs))]

    settings = {"precision": precision}
    runtime = f"OpenVINO {openvino.__version__.split('-')[0]}, {device}, {precision}"
    if device == "CPU":
        settings["threads"] = str(arguments.threads)
        runtime += f", {arguments.threads} thread{'s' if arguments.threads != 1 else ''}"
    return OpenModel(execute, runtime, settings, default_precision if default_precision != precision else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="", help="OpenVINO's device name (the one that the bundle was made for)")
    parser.add_argument(
        "--device-precision", action="store_true", help="compute as the device does by default, not in float32"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads on a CPU (%(default)s)")
    sys.exit(main(open_model, parser))
