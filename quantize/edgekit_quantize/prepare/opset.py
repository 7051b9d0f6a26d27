"""Upgrades a model whose operator set is too old for what the quantizer writes."""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx import version_converter

from edgekit.errors import InputError

PER_CHANNEL_OPSET = 13
"""From this version on DequantizeLinear takes one scale a channel."""
WISHED_OPSET = 17
"""What a model is converted to that has to be converted; HardSwish is an operator of its own by then."""


def modern(model: ir.Model) -> ir.Model:
    """The model; converted to :data:`WISHED_OPSET`, or at least to :data:`PER_CHANNEL_OPSET`, where it is too old.

    Raises:
        InputError: ONNX's converter has no way for one of the operators.
    """
    if model.opset_imports.get("", 0) >= PER_CHANNEL_OPSET:
        return model
    try:
        return upgraded(model, WISHED_OPSET)
    except InputError:
        return upgraded(model, PER_CHANNEL_OPSET)


def upgraded(model: ir.Model, version: int) -> ir.Model:
    """The model, converted where its standard operators are older than ``version``.

    Raises:
        InputError: ONNX's converter has no way for one of the operators.
    """
    current = model.opset_imports.get("", 0)
    if current >= version:
        return model
    try:
        converted = version_converter.convert_version(ir.to_proto(model), version)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        raise InputError(
            f"the model cannot be upgraded: {error}",
            expected=f"opset {version} or newer",
            found=f"opset {current}",
            hint=f"export the model again with opset_version={version} or newer",
        ) from error
    return ir.from_proto(converted)
