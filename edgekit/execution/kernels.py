"""Finds operators for which ONNX Runtime has no kernel.

ONNX Runtime accepts models in newer versions of the standard operators than its kernels cover, and refuses them at the
first node without a kernel. Its registry of kernels would tell that too, but reading it ends the process in the builds
with OpenVINO's provider (onnxruntime-openvino 1.24).
"""

from __future__ import annotations

import re

from edgekit.graph.sizes.shapes import light_proto
from edgekit.model import Model

NO_KERNEL = "Could not find an implementation"
"""Part of ONNX Runtime's message where it lacks an operator's version or element type: the model may be right."""
_OPERATOR = re.compile(rf"{NO_KERNEL} for (\w+)\(\d+\)")
_FATAL_ONLY = 4


def operator_without_kernel(model: Model) -> str | None:
    """Returns the operator of the first node for whose version or element types ONNX Runtime has no kernel, or None.

    The session is opened without the weights. None is also returned if it cannot be opened for another reason.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = _FATAL_ONLY
    message = light_proto(model).SerializeToString()
    try:
        onnxruntime.InferenceSession(message, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common base class
        match = _OPERATOR.search(str(error))
        return match[1] if match else None
    return None
