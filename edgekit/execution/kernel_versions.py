"""Tells for which versions of the standard operators ONNX Runtime has kernels on the CPU.

ONNX Runtime accepts models in newer versions than all its kernels cover, and refuses them at the first node without a
kernel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cache

import onnx
import onnx_ir as ir

from edgekit.model import Model

_OPEN_END = 2**31 - 1
"""The end of the versions of a kernel that is for one version of its operator, the newest when it was written."""
_WITHOUT_KERNELS = frozenset({"Constant"})
"""Operators that ONNX Runtime replaces before it looks for kernels."""


def without_kernel(model: Model) -> list[ir.Node]:
    """Returns the nodes of standard operators for whose version ONNX Runtime has no kernel, subgraphs' included.

    It may still execute them by their definition in the standard. Element types are not looked at.
    """
    nodes = (node for node in model.graph.all_nodes() if not node.domain and node.op_type not in _WITHOUT_KERNELS)
    return [node for node in nodes if not _has_kernel(node.op_type, model.opset)]


def _has_kernel(op_type: str, opset: int) -> bool:
    """Whether there is a kernel; also true of an operator that the installed onnx package does not know."""
    try:
        since = onnx.defs.get_schema(op_type, opset).since_version
    except onnx.defs.SchemaError:
        return True
    return any(
        first == since or (first < since <= last and last != _OPEN_END) for first, last in _kernels().get(op_type, ())
    )


@cache
def _kernels() -> Mapping[str, Collection[tuple[int, int]]]:
    """The first and the last version of each kernel, by the operator."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    found = defaultdict(set)
    for kernel in get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider" and kernel.domain in ("", "ai.onnx"):
            found[kernel.op_name].add(tuple(kernel.version_range))
    return found
