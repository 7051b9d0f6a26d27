"""Whether a node can run at all with inputs of given types and shapes, by ONNX's schemas and its own shape inference.

The inference is run when a node could not be lowered: a node that no runtime could run is a fault of the model, or of
the sizes that its inputs were fixed to. A model for several settings (sampling rates, say) chooses between them by an
If at run time; once the input shapes are fixed, often only one branch fits them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
import onnx_ir as ir

from edgekit_mil.core.values import TensorList, Value
from edgekit_mil.lowering.function_bodies import STANDARD_DOMAINS, type_proto

GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
LARGEST_GIVEN = 64
"""Constants with at most 64 elements are given to the inference by value: shapes and axes are, weights are not."""


def contradiction(node: ir.Node, inputs: Sequence[Value | None], opsets: Mapping[str, int]) -> str | None:
    """Returns the reason why a node cannot run.

    Args:
        node: The node, detached, its attributes without references, inputs left out without a name.
        inputs: Its inputs' values.
        opsets: Opset imports by domain.

    Returns:
        The inference's message, or None if it found no contradiction.
    """
    has_graphs = any(attr.type in GRAPHS for attr in node.attributes.values())
    if node.domain not in STANDARD_DOMAINS or has_graphs or any(isinstance(value, TensorList) for value in inputs):
        return None
    graph = onnx.helper.make_graph([ir.to_proto(node)], "node", [], [])
    for formal, value in zip(node.inputs, inputs, strict=False):
        if formal is None or formal.name is None or value is None:
            continue
        if (
            value.constant is not None
            and value.constant.size <= LARGEST_GIVEN
            and value.constant.dtype.kind not in "OSU"
        ):
            graph.initializer.append(onnx.numpy_helper.from_array(value.constant, formal.name))
        else:
            graph.input.append(onnx.helper.make_value_info(formal.name, type_proto(value)))
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    try:
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        return str(error).strip().splitlines()[-1]
    return None


def type_contradiction(schema: onnx.defs.OpSchema | None, inputs: Sequence[Value | None]) -> str | None:
    """Returns which input has an element type that the operator is not defined for; None if there is no such input.

    Args:
        schema: The operator's schema, if there is one.
        inputs: The node's inputs.
    """
    if schema is None or not schema.inputs:
        return None
    for index, value in enumerate(inputs):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if value is None or isinstance(value, TensorList):
            continue
        if f"tensor({value.dtype.name.lower()})" not in formal.types:
            return f"is not defined for {value.dtype.name.lower()}: input {index + 1} ({formal.name})"
    return None
