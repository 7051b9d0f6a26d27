"""Folds computations on constants, so that layers read their weights directly from constants."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir

from edgekit_quantize.graph.layers import WEIGHTED
from edgekit_quantize.graph.nodes import add_initializer, constant, home, is_standard, static_shape

MOVES_WEIGHTS = (
    "Reshape",
    "Transpose",
    "Unsqueeze",
    "Squeeze",
    "Flatten",
    "Slice",
    "Concat",
    "Cast",
    "Split",
    "Identity",
)
"""Operators by which exporters reshape and rearrange weights."""
COUNTS = ("Equal", "Where", "ConstantOfShape", "Add", "Sub", "Mul", "Gather", "Not", "And", "Or")
"""Operators by which exporters compute shapes and indices; they are exact on whole numbers."""
LARGEST_GROWTH = 4096
"""How many bytes larger than its inputs a folded constant may be."""


def fold_constants(model: ir.Model) -> int:
    """Replace nodes by constants: Shape of static values in the main graph, and moves and counts of constants anywhere.

    No folded operator rounds, so the model's numbers do not change. Constants that are quantized already (Q/DQ) stay.
    Shape is only folded in the main graph, because values that a loop passes from one iteration to the next may change
    their shapes, whatever shape the graph declares.

    Returns:
        How many nodes were replaced.
    """
    folded = 0
    for node in list(model.graph.all_nodes()):
        if node.graph is None or node.domain not in {"", "ai.onnx"} or not node.inputs:
            continue
        if node.op_type == "Shape":
            results = _shape(node) if node.graph is model.graph else None
        else:
            results = _moved(node, model.opset_imports.get("", 0))
        if results is not None:
            folded += _replace(node, results)
    return folded


def _replace(node: ir.Node, results: list[np.ndarray]) -> bool:
    if any(value.is_graph_output() or _enters_control_flow(value) for value in node.outputs):
        return False
    for value, array in zip(node.outputs, results, strict=True):
        name = value.name or ""
        value.name = f"{name}_computed"
        whole = np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray turns scalars into vectors
        value.replace_all_uses_with(add_initializer(home(node), name, whole))
    home(node).remove(node, safe=True)
    return True


def _enters_control_flow(value: ir.Value) -> bool:
    """Whether a loop or branch reads the value: types inside may have been inferred from its type before."""
    return any(
        node.graph is not value.graph
        or any(attribute.type is ir.AttributeType.GRAPH for attribute in node.attributes.values())
        for node, _ in value.uses()
    )


def _shape(node: ir.Node) -> list[np.ndarray] | None:
    shape = static_shape(node.inputs[0])
    if shape is None:
        return None
    start, end = (node.attributes[key].as_int() if key in node.attributes else None for key in ("start", "end"))
    return [np.array(shape[start:end], np.int64)]


def _moved(node: ir.Node, opset: int) -> list[np.ndarray] | None:
    if not is_standard(node, *MOVES_WEIGHTS, *COUNTS):
        return None
    arrays = [constant(value) for value in node.inputs]
    if any(array is None and value is not None for array, value in zip(arrays, node.inputs, strict=True)):
        return None
    present = {
        value.name or "": array
        for value, array in zip(node.inputs, arrays, strict=True)
        if value is not None and array is not None
    }
    if any(_is_large_and_shared(value) and not _is_cut_up(value, opset) for value in node.inputs):
        return None  # the constant would have to be kept in addition to the result
    if node.op_type == "Cast" and not _cast_is_exact(node, next(iter(present.values()))):
        return None
    if node.op_type in COUNTS and not _counts(node, list(present.values())):
        return None
    results = _evaluate(node, present, opset)
    made = sum(array.nbytes for array in results)
    return results if made <= _bytes(present) + LARGEST_GROWTH or _gives_weights(node) else None


def _gives_weights(node: ir.Node) -> bool:
    """Whether the node is a Cast whose output only layers read: weights that are stored in half precision."""
    readers = [reader for reader, _ in node.outputs[0].uses()]
    return node.op_type == "Cast" and all(is_standard(reader, *WEIGHTED) for reader in readers)


def _is_large_and_shared(value: ir.Value | None) -> bool:
    array = constant(value)
    return value is not None and array is not None and array.nbytes > LARGEST_GROWTH and len(tuple(value.uses())) > 1


def _is_cut_up(value: ir.Value | None, opset: int) -> bool:
    """Whether all readers of a constant take slices of it, together no larger than it, as when gates are reordered."""
    array = constant(value)
    if value is None or array is None or value.is_graph_output():
        return False
    taken = 0
    for node, _ in value.uses():
        arrays = {each.name or "": constant(each) for each in node.inputs if each is not None}
        whole = {name: found for name, found in arrays.items() if found is not None}
        if not is_standard(node, "Slice") or len(whole) < len(arrays):
            return False
        taken += sum(result.nbytes for result in _evaluate(node, whole, opset))
    return taken <= array.nbytes


def _bytes(arrays: Mapping[str, np.ndarray]) -> int:
    return sum(array.nbytes for array in arrays.values())


def _counts(node: ir.Node, arrays: list[np.ndarray]) -> bool:
    """Whether the node computes a few whole numbers from whole numbers."""
    if any(array.dtype.kind not in "iub" or array.nbytes > LARGEST_GROWTH for array in arrays):
        return False
    if node.op_type != "ConstantOfShape":
        return True
    value = node.attributes.get("value")
    whole = value is not None and value.as_tensor().numpy().dtype.kind in "iub"
    return whole and int(np.prod(arrays[0])) <= LARGEST_GROWTH


def _cast_is_exact(node: ir.Node, array: np.ndarray) -> bool:
    """Whether the cast widens float16 to float32, as for weights that are stored in half precision."""
    return ir.DataType(node.attributes["to"].as_int()) is ir.DataType.FLOAT and array.dtype == np.float16


def _evaluate(node: ir.Node, feeds: dict[str, np.ndarray], opset: int) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator

    proto = ir.to_proto(node)
    graph = onnx.helper.make_graph(
        [proto],
        "fold",
        [
            onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in feeds.items()
        ],
        [onnx.helper.make_empty_tensor_value_info(value.name or "") for value in node.outputs],
    )
    results = ReferenceEvaluator(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    ).run(None, feeds)
    return [np.asarray(result) for result in results]
