"""Upgrades a model whose operator set is too old for per-channel quantization."""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx import version_converter

from edgekit.errors import InputError


def at_least_opset(model: ir.Model, version: int) -> ir.Model:
    """The model, converted where its standard operators are older than ``version``.

    Raises:
        InputError: ONNX's converter has no way for one of the operators.
    """
    current = model.opset_imports.get("", 0)
    if current >= version:
        return model
    try:
        converted = version_converter.convert_version(ir.to_proto(model), version)
    except (RuntimeError, onnx.checker.ValidationError) as error:
        raise InputError(
            f"the model cannot be upgraded from opset {current}: {error}",
            expected=f"opset {version} or newer",
            found=f"opset {current}",
            hint=f"export the model again with opset_version={version} or newer",
        ) from error
    return ir.from_proto(converted)
