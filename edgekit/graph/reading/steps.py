"""The nodes that replace a node of a file."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

CAST_LIKE_SINCE = 15


class Steps:
    """Builds the nodes that replace one node."""

    def __init__(self, node: onnx.NodeProto, opset: int) -> None:
        self.attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        self.nodes: list[onnx.NodeProto] = []
        self._prefix = node.name or node.output[0]
        self._opset = opset

    def step(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node.

        Returns:
            The name of its output.
        """
        name = f"{self._prefix}/{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def constant(self, values: np.ndarray) -> str:
        """Adds a constant.

        Returns:
            Its name.
        """
        return self.step("Constant", value=numpy_helper.from_array(values))

    def number(self, value: float, like: str) -> str:
        """Adds a constant of the type that ``like`` has, float32 before ``CastLike`` was there.

        Returns:
            The name of the constant.
        """
        name = self.constant(np.array(value, np.float32))
        return self.step("CastLike", name, like) if self._opset >= CAST_LIKE_SINCE else name
