"""Qualcomm's compiler for the Hexagon NPU: a plugin of the ordinary ONNX Runtime, which compiles on x86 too.

The wheel onnxruntime-qnn brings the provider, the compiler and a simulator of the NPU. Nothing of onnxruntime's own
wheel is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime

PROVIDER = "QNNExecutionProvider"
PACKAGE = "onnxruntime_qnn"
REQUIREMENT = "onnxruntime-qnn>=2.7"
SIMULATOR = "simulator"
"""The scheme of the device that is the simulator (:mod:`edgekit_onnxruntime.simulator`)."""


def is_installed() -> bool:
    """Whether onnxruntime-qnn is."""
    return find_spec(PACKAGE) is not None


def add_provider(options: onnxruntime.SessionOptions, simulator: Mapping[str, str]) -> None:
    """Have a session compile for the NPU.

    Args:
        options: The session's options.
        simulator: The provider's options that name the chip: ``soc_model``, ``htp_arch``.
    """
    import onnxruntime
    import onnxruntime_qnn

    onnxruntime.register_execution_provider_library(PROVIDER, onnxruntime_qnn.get_library_path())
    device = next(device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER)
    options.add_provider_for_devices([device], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), **simulator})
