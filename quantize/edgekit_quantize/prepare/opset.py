"""Upgrades a model whose operator set is too old for what the quantizer writes."""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx import version_converter

from edgekit.errors import InputError
from edgekit.graph.long_lists import leave_out_long_lists, put_back
from edgekit_quantize.graph.nodes import is_standard

PER_CHANNEL_OPSET = 13
"""From this version on DequantizeLinear takes one scale a channel."""
WISHED_OPSET = 17
"""What a model is converted to that has to be converted; HardSwish is an operator of its own by then."""

LARGE = 4096
"""Bytes of an initializer that no conversion of an operator has to look into: shapes, axes and scales are smaller."""


HARDSWISH_OPSET = 14
"""From this version on HardSwish is an operator, which OpenVINO computes inside of the layer before it."""


def modern(model: ir.Model) -> ir.Model:
    """The model; converted to :data:`WISHED_OPSET`, or at least to :data:`PER_CHANNEL_OPSET`, where it is too old.

    One with HardSigmoid, which may be a part of HardSwish, is too old before :data:`HARDSWISH_OPSET`.

    Raises:
        InputError: ONNX's converter has no way for one of the operators.
    """
    has_gates = any(is_standard(node, "HardSigmoid") for node in model.graph.all_nodes())
    if model.opset_imports.get("", 0) >= (HARDSWISH_OPSET if has_gates else PER_CHANNEL_OPSET):
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
    """A copy of the model whose large initializers only say that they lie in a file, and these initializers by name.

    A message holds 2 GB at most, and the way through it loses where a model's own files lie.
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
