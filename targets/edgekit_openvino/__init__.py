"""OpenVINO: builds Intermediate Representation for Intel's CPUs, GPUs and NPUs, and executes it on the CPU here."""

from edgekit_openvino.api import convert, load

__all__ = ["convert", "load"]
