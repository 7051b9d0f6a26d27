"""The operators with weights worth quantizing, and the indices of their operands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.model import node_name
from edgekit_quantize.graph.nodes import constant, integer, is_standard

WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
LAYER_KINDS = (*WEIGHTED, "DepthwiseConv")


@dataclass(frozen=True)
class Layer:
    """A node that multiplies an activation with a constant, in the main graph, a branch or a loop."""

    node: ir.Node
    kind: str
    """The operator's name; ``DepthwiseConv`` for a convolution whose every group has one input channel."""
    data_index: int
    """The index of the input that is the activation."""
    weight_index: int
    """The index of the input that is the constant."""
    channel_axis: int
    """The axis of the weights that runs over output channels; for grouped ConvTranspose, over those of one group."""

    @property
    def name(self) -> str:
        """The node's name."""
        return node_name(self.node)

    @property
    def data(self) -> ir.Value:
        """The activation that the layer reads."""
        return self._input(self.data_index)

    @property
    def weight(self) -> ir.Value:
        """The weights."""
        return self._input(self.weight_index)

    @property
    def bias(self) -> ir.Value | None:
        """The bias that the node itself adds."""
        index = 2
        return self.node.inputs[index] if self.node.op_type != "MatMul" and len(self.node.inputs) > index else None

    @property
    def output(self) -> ir.Value:
        """The node's first output."""
        return self.node.outputs[0]

    @property
    def input_axis(self) -> int:
        """The axis of the activation that runs over input channels; over its columns if it is the second factor."""
        if self.kind == "Gemm":
            return 0 if integer(self.node, "transA", 0) else -1
        return -1 if self.kind == "MatMul" else 1

    @property
    def is_plain_product(self) -> bool:
        """Whether the layer computes ``activation @ matrix``, with or without a bias."""
        if self.kind == "Gemm":
            plain = not integer(self.node, "transA", 0)
            return plain and all(_factor(self.node, name) == 1.0 for name in ("alpha", "beta"))
        return self.kind == "MatMul" and self.data_index == 0 and self.weights().ndim == 2

    def weights(self) -> np.ndarray:
        """The weights as they are stored."""
        array = constant(self.weight)
        if array is None:
            raise ValueError(f"the weights of {self.name!r} are not constant")
        return array

    def _input(self, index: int) -> ir.Value:
        value = self.node.inputs[index]
        if value is None:
            raise ValueError(f"{self.name!r} has no input {index}")
        return value


def _factor(node: ir.Node, name: str) -> float:
    attribute = node.attributes.get(name)
    return 1.0 if attribute is None else attribute.as_float()


def layer_of(node: ir.Node) -> Layer | None:
    """The node as a layer; None if it has no constant float operand to quantize."""
    if not is_standard(node, *WEIGHTED) or len(node.inputs) < 2:
        return None
    if node.op_type == "MatMul":
        return _matmul(node)
    weights = constant(node.inputs[1])
    if not _is_float(weights) or node.inputs[0] is None or constant(node.inputs[0]) is not None:
        return None
    if node.op_type == "Gemm":
        return Layer(node, "Gemm", 0, 1, 0 if integer(node, "transB", 0) else 1)
    groups = integer(node, "group", 1)
    if node.op_type == "ConvTranspose":
        return Layer(node, "ConvTranspose", 0, 1, 1)
    depthwise = groups > 1 and weights is not None and weights.shape[1] == 1
    return Layer(node, "DepthwiseConv" if depthwise else "Conv", 0, 1, 0)


def is_padded(layer: Layer) -> bool:
    """Whether the layer pads its input with zeros, which a shift of the input does not change."""
    if layer.node.op_type == "ConvTranspose":
        return True
    if layer.node.op_type != "Conv":
        return False
    automatic = layer.node.attributes.get("auto_pad")
    if automatic is not None and automatic.as_string() not in {"NOTSET", "VALID"}:
        return True
    pads = layer.node.attributes.get("pads")
    return pads is not None and any(pads.as_ints())


def _matmul(node: ir.Node) -> Layer | None:
    first, second = constant(node.inputs[0]), constant(node.inputs[1])
    if _is_float(second) and second is not None and first is None and second.ndim >= 2:
        return Layer(node, "MatMul", 0, 1, second.ndim - 1)
    if _is_float(first) and first is not None and second is None and first.ndim == 2:
        return Layer(node, "MatMul", 1, 0, 0)
    return None


def _is_float(array: np.ndarray | None) -> bool:
    return array is not None and array.dtype in (np.float32, np.float16, np.float64) and array.size > 1


def layers(graph: ir.Graph) -> Iterator[Layer]:
    """The layers of the graph, its branches and its loops, in graph order."""
    for node in graph.all_nodes():
        layer = layer_of(node)
        if layer is not None:
            yield layer
