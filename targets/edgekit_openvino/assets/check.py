"""Runs the bundle's golden samples with OpenVINO on this device: ``python check.py --device GPU``.

Needs the packages ``numpy`` and ``openvino``, nothing of EdgeKit.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # it reports every import to a server
sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]  # conversion, a quarter of the import time
try:
    import numpy as np
    import openvino
except ModuleNotFoundError as error:
    sys.exit(f"ModuleNotFoundError: {error}: `{sys.executable} -m pip install numpy openvino` installs it")

sys.dont_write_bytecode = True  # a folder __pycache__ does not belong in the bundle
from check_service import MeasureThroughput, OpenModel  # type: ignore[import-not-found]  # noqa: E402  # lies beside this file in a bundle
from golden_check import BUNDLE, main  # type: ignore[import-not-found]  # noqa: E402  # likewise

DEFAULT_DEVICES = {"intel-gpu": "GPU", "intel-npu": "NPU"}
WITHOUT_VNNI = ("AVX2", "AVX512_CORE")
"""The names that oneDNN has for instruction sets on which the plugin quantizes no activations while it runs."""


def open_model(manifest: dict[str, Any], arguments: argparse.Namespace) -> OpenModel:
    """The bundle's model compiled for the device."""
    own = "CPU" if arguments.cpu else DEFAULT_DEVICES.get(manifest["target"]["profile"], "CPU")
    device = arguments.device or own
    config = {}
    if device == "CPU":
        config = {"INFERENCE_NUM_THREADS": arguments.threads, "NUM_STREAMS": 1}
        if not arguments.device_precision:
            # Some CPUs compute in bfloat16 or float16 by default, which says nothing about the conversion.
            config["INFERENCE_PRECISION_HINT"] = "f32"
        if os.environ.get("ONEDNN_MAX_CPU_ISA") in WITHOUT_VNNI:
            # The plugin asks the processor, not oneDNN, whether it may quantize activations while it runs.
            config["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0
    if arguments.streams is not None:
        config.pop("INFERENCE_NUM_THREADS", None)
        config.pop("NUM_STREAMS", None)
        config |= (
            {"PERFORMANCE_HINT": "THROUGHPUT"} if arguments.streams == "auto" else {"NUM_STREAMS": arguments.streams}
        )
    path = BUNDLE / manifest["model"]["main"]
    core = openvino.Core()
    _require_device(device, core.available_devices)
    default_precision = core.get_property(device, "INFERENCE_PRECISION_HINT").to_string()
    model = core.read_model(path)
    if arguments.batch > 1:
        model.reshape({place: _in_batches(port, arguments.batch) for place, port in enumerate(model.inputs)})
    compiled = core.compile_model(model, device, config)
    precision = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()

    throughput: MeasureThroughput | None = None
    request, is_dynamic = compiled.create_infer_request(), model.is_dynamic()
    held: dict[int, np.ndarray] = {}

    def execute(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        for position, array in enumerate(inputs):
            _feed(request, position, array, held)
        if is_dynamic:  # on one thread infer() hides a failure at some size, and keeps the previous results
            request.start_async()
            request.wait()
        else:
            request.infer()
        # Copies: the next inference overwrites them.
        return [np.array(request.get_output_tensor(position).data) for position in range(len(compiled.outputs))]

    settings = {"precision": precision}
    runtime = f"OpenVINO {openvino.__version__.split('-')[0]}, {device}, {precision}"
    if arguments.streams is not None:
        streams, requests = (
            int(compiled.get_property(name)) for name in ("NUM_STREAMS", "OPTIMAL_NUMBER_OF_INFER_REQUESTS")
        )
        settings |= {"streams": str(streams), "requests": str(requests)}
        runtime += f", {streams} stream{'s' if streams != 1 else ''}"
        if device == "CPU":
            settings["threads"] = str(compiled.get_property("INFERENCE_NUM_THREADS"))
            runtime += f" on {settings['threads']} thread{'s' if settings['threads'] != '1' else ''}"
        throughput = _throughput(compiled, requests)
    elif device == "CPU":
        settings["threads"] = str(arguments.threads)
        runtime += f", {arguments.threads} thread{'s' if arguments.threads != 1 else ''}"
    other = default_precision if default_precision != precision else ""
    return OpenModel(execute, runtime, settings, other, throughput)


def _feed(request: Any, position: int, array: np.ndarray, held: dict[int, np.ndarray]) -> None:
    """Sets an input of a request: copies into the tensor that the request has, if its shape and type are the array's.

    The plugin has to connect the memory of every new tensor, which may take longer than the inference of a small model.
    """
    before = held.get(position)
    if before is not None and before.shape == array.shape and before.dtype == array.dtype:
        before[...] = array
        return
    tensor = openvino.Tensor(array)
    request.set_input_tensor(position, tensor)
    if array.dtype.kind in "biuf":
        held[position] = tensor.data


def _require_device(device: str, available: Sequence[str]) -> None:
    """Exits with a message if this machine has no such device; the plugin's own message is about its libraries."""
    kind = device.partition(".")[0]
    if kind in ("CPU", "GPU", "NPU") and kind not in {found.partition(".")[0] for found in available}:
        sys.exit(f"this machine has no {kind} that OpenVINO can use: it finds {', '.join(available) or 'no device'}")


def _in_batches(port: Any, batch: int) -> openvino.PartialShape:
    """Returns the shape of an input with the first size multiplied by ``batch``; open sizes stay open."""
    shape = port.get_partial_shape()
    if len(shape) and shape[0].is_static:
        shape[0] = shape[0].get_length() * batch
    return shape


def _throughput(compiled: Any, requests: int) -> MeasureThroughput:
    """Keeps N requests in flight, each started again as soon as it ends; inputs are set once."""
    queue = openvino.AsyncInferQueue(compiled, requests)
    begun, times = [0.0] * requests, []

    def ended(request: Any, place: int) -> None:
        times.append((time.perf_counter() - begun[place]) * 1e3)

    queue.set_callback(ended)

    def throughput(inputs: Sequence[np.ndarray], seconds: float) -> tuple[list[float], float]:
        times.clear()
        for request in queue:
            for position, array in enumerate(inputs):
                request.set_input_tensor(position, openvino.Tensor(array))
        start = time.perf_counter()
        while not times or time.perf_counter() - start < seconds:
            place = queue.get_idle_request_id()  # waits for one
            begun[place] = time.perf_counter()
            queue.start_async(userdata=place)
        queue.wait_all()
        return list(times), (time.perf_counter() - start) * 1e3

    return throughput


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="", help="OpenVINO's device name (the one that the bundle was made for)")
    parser.add_argument(
        "--device-precision", action="store_true", help="compute as the device does by default, not in float32"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads on a CPU (%(default)s)")
    sys.exit(main(open_model, parser))
