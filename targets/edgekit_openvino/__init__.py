"""OpenVINO: builds Intermediate Representation for Intel's CPUs, GPUs and NPUs, and executes it on the CPU here."""

import sys

# OpenVINO's converter reports every conversion to a server; without this module it uses a stub of its own.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # None makes an import of it fail

from edgekit_openvino.api import convert, load  # noqa: E402 - as above

__all__ = ["convert", "load"]
