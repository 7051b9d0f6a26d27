"""Upgrades a model whose operator set is too old for the operators that the quantizer writes."""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx import version_converter

from edgekit.errors import InputError
from edgekit.graph.long_lists import leave_out_long_lists, put_back
from edgekit_quantize.graph.nodes import is_standard

PER_CHANNEL_OPSET = 13
"""From this version of the operator set on, DequantizeLinear takes one scale per channel."""
WISHED_OPSET = 17
"""The version that models are converted to if they have to be converted; it has an operator HardSwish."""

LARGE = 4096
"""Initializers with more bytes are left out of the conversion: it only needs shapes, axes and scales."""


HARDSWISH_OPSET = 14
"""From this version on, HardSwish is an operator, which OpenVINO fuses into the layer before it."""


def modern(model: ir.Model) -> ir.Model:
    """The model; if it is too old, converted to :data:`WISHED_OPSET`, or at least to :data:`PER_CHANNEL_OPSET`.

    A model is too old before :data:`PER_CHANNEL_OPSET`; one with HardSigmoid, which may be a part of HardSwish, before
    :data:`HARDSWISH_OPSET`.

    Raises:
        InputError: ONNX's converter does not support one of the operators.
    """
    has_gates = any(is_standard(node, "HardSigmoid") for node in model.graph.all_nodes())
    if model.opset_imports.get("", 0) >= (HARDSWISH_OPSET if has_gates else PER_CHANNEL_OPSET):
        return model
    try:
        return upgraded(model, WISHED_OPSET)
    except InputError:
        return upgraded(model, PER_CHANNEL_OPSET)


def upgraded(model: ir.Model, version: int) -> ir.Model:
    """The model, converted to ``version`` if its operator set is older.

    Raises:
        InputError: ONNX's converter does not support one of the operators.
    """
    current = model.opset_imports.get("", 0)
    if current >= version:
        return model
    light, left_out = _without_large_constants(model)
    lists = leave_out_long_lists(light)
    try:
        converted = version_converter.convert_version(ir.to_proto(light), version)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        raise InputError(
            f"the model cannot be upgraded: {error}",
            expected=f"opset {version} or newer",
            found=f"opset {current}",
            hint=f"export the model again with opset_version={version} or newer",
        ) from error
    result: ir.Model = ir.from_proto(converted)
    for graph in result.graphs():
        for name, value in graph.initializers.items():
            value.const_value = left_out.get(name, value.const_value)
    put_back(result, lists)
    return result


def _without_large_constants(model: ir.Model) -> tuple[ir.Model, dict[str, ir.TensorProtocol]]:
    """A copy of the model whose large initializers are placeholders for external data, and these initializers by name.

    A protobuf message holds at most 2 GB, and a conversion through it loses the location of the model's own data files.
    """
    light = model.clone()
    left_out: dict[str, ir.TensorProtocol] = {}
    for graph in light.graphs():
        for name, value in graph.initializers.items():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor) and tensor.nbytes <= LARGE:
                value.const_value = ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=name)
            elif tensor is not None and tensor.nbytes > LARGE:
                left_out[name] = tensor
                value.const_value = ir.ExternalTensor(
                    location="left out",
                    offset=0,
                    length=tensor.nbytes,
                    dtype=tensor.dtype,
                    shape=ir.Shape(tensor.shape.numpy()),
                    name=name,
                )
    return light, left_out
