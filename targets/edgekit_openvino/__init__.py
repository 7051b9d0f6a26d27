"""OpenVINO: builds Intermediate Representation for Intel's CPUs, GPUs and NPUs, and executes it on the CPU here."""

import sys

# Its converter tells a server of every conversion; without this module it uses a stub of its own.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # as Python's import system has it

from edgekit_openvino.api import convert, load  # noqa: E402 - as above

__all__ = ["convert", "load"]
