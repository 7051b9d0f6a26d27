"""The only access to coremltools' program builder: imported without warnings, and only if something is converted."""

from __future__ import annotations

import logging
import sys
from typing import Any

from edgekit.processes.supervision import does_a_command

_log = logging.getLogger("coremltools")
_level = _log.level
# The import warns about versions of packages that a conversion from ONNX never touches.
_log.setLevel(logging.CRITICAL)
# coremltools imports PyTorch if it is installed, in order to convert PyTorch models; that takes longer than all other
# imports. A command of EdgeKit converts no PyTorch models, so it hides PyTorch from coremltools. Somebody's program may
# convert some, and coremltools remembers whether it found PyTorch, so nothing is hidden there.
_without_torch = does_a_command() and "torch" not in sys.modules
if _without_torch:
    sys.modules["torch"] = None  # type: ignore[assignment]  # an import of it fails, as Python's manual says

import coremltools as ct  # noqa: E402 - the logger has to be quiet first
from coremltools.converters.mil.backend.mil import load as mil_export  # noqa: E402
from coremltools.converters.mil.mil import Builder as mb  # noqa: E402, N813 - the name that every MIL text uses
from coremltools.converters.mil.mil import Function, Program, Symbol, Var, get_new_symbol, types  # noqa: E402
from coremltools.converters.mil.mil.block import curr_block  # noqa: E402
from coremltools.converters.mil.mil.ops.defs.iOS15.tensor_transformation import reshape  # noqa: E402
from coremltools.converters.mil.mil.passes.helper import block_context_manager  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402

from edgekit_mil.core.reshape_sizes import sizes_of_volume  # noqa: E402
from edgekit_mil.core.weight_file import WeightFile  # noqa: E402

_log.setLevel(max(_level, logging.ERROR))
if _without_torch:
    del sys.modules["torch"]

if mil_export.BlobWriter is None:
    mil_export.BlobWriter = WeightFile
export_proto = mil_export.load
reshape.enforce_volumetric_constraint = staticmethod(sizes_of_volume)

__all__ = [
    "PASS_REGISTRY",
    "Function",
    "Program",
    "Symbol",
    "Var",
    "block_context_manager",
    "ct",
    "drop_unfinished",
    "export_proto",
    "get_new_symbol",
    "mb",
    "types",
]


def drop_unfinished() -> None:
    """Remove from the current block the operations that the builder inserted and then could not finish."""
    block = curr_block()
    for operation in list(block.operations):
        if operation.outputs is None:
            _release(operation)
            block.operations.remove(operation)


def _release(operation: Any) -> None:
    """Unregister an operation, and the operations in its blocks, as readers of their inputs."""
    for block in operation.blocks:
        for inner in block.operations:
            _release(inner)
    for var in operation.get_flattened_inputs():
        var.remove_child_op(operation)
