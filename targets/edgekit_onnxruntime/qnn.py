"""Qualcomm's compiler for the Hexagon NPU: a plugin of the standard ONNX Runtime, which also compiles on x86.

The wheel onnxruntime-qnn contains the provider, the compiler and a simulator of the NPU. It replaces nothing of
onnxruntime's own wheel.
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
"""The scheme of the simulator as a device (:mod:`edgekit_onnxruntime.simulator`)."""


def is_installed() -> bool:
    """Whether onnxruntime-qnn is installed."""
    return find_spec(PACKAGE) is not None


def add_provider(options: onnxruntime.SessionOptions, simulator: Mapping[str, str]) -> None:
    """Let a session compile for the NPU.

    Args:
        options: The session's options.
        simulator: The provider's options that name the chip: ``soc_model``, ``htp_arch``.
    """
    import onnxruntime
    import onnxruntime_qnn

    onnxruntime.register_execution_provider_library(PROVIDER, onnxruntime_qnn.get_library_path())
    device = next(device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER)
    options.add_provider_for_devices([device], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), **simulator})
