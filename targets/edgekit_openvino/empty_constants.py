"""Constants without elements, of which OpenVINO's ONNX frontend makes scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.model import Model


def put_back_empty_constants(network: Any, model: Model) -> None:
    """Gives constants of the ONNX model that have the shape ``[0]`` that shape again, in place.

    The frontend (OpenVINO 2026.4) reads a tensor of this shape as a scalar. What operators take so, such as the region
    of a Resize, it has looked at by then; what is left is returned, or joined with others.

    Args:
        network: The ``openvino.Model`` that the frontend made of the model.
        model: The ONNX model.
    """
    from openvino import opset13

    empty = {value.name for value in _constants(model) if value.shape is not None and value.shape == (0,)}
    for operation in network.get_ordered_ops() if empty else ():
        output = operation.output(0) if operation.get_type_name() == "Constant" else None
        if output is None or not output.names & empty or output.get_shape() != []:
            continue
        constant = opset13.constant(np.zeros(0, output.get_element_type().to_dtype()))
        constant.set_friendly_name(operation.get_friendly_name())
        constant.output(0).get_tensor().set_names(output.names)
        for port in output.get_target_inputs():
            port.replace_source_output(constant.output(0))


def _constants(model: Model) -> list[ir.Value]:
    made = [node.outputs[0] for node in model.graph if node.op_type == "Constant" and not node.domain]
    return [*model.graph.initializers.values(), *made]
