"""Nodes of which OpenVINO computes some outputs only; its frontend makes inputs of the model of the others."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

from edgekit.errors import OpGap
from edgekit.model import Model, node_name, op_name


def nodes_with_uncomputed_outputs(converted: Any, model: Model) -> list[OpGap]:
    """The nodes with an output that is an input of the network, in graph order.

    An input of the model that an operator only passes on bears the name of that operator's first output.

    Args:
        converted: The ``openvino.Model`` as the frontend made it of the model.
        model: The ONNX model.
    """
    given = {parameter.get_friendly_name() for parameter in converted.get_parameters()}
    return _makers(given - {value.name for value in model.inputs}, model)


def nodes_with_missing_results(report: str, model: Model) -> list[OpGap]:
    """The nodes with an output of the model that the frontend reports as not produced, in graph order.

    Args:
        report: The frontend's error.
        model: The ONNX model.
    """
    return _makers(set(_NOT_PRODUCED.findall(report)), model)


_NOT_PRODUCED = re.compile(r'Output tensor "([^"]+)" was declared as a graph output but is not produced')


def _makers(names: Container[str | None], model: Model) -> list[OpGap]:
    gaps = []
    for node in model.graph:
        missing = [value.name for value in node.outputs[1:] if value.name in names]
        if missing:
            reason = f"OpenVINO does not compute its output {missing[0]!r}"
            gaps.append(OpGap(op_type=op_name(node), node=node_name(node), reason=reason))
    return gaps
