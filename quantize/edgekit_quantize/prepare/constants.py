"""Computes ahead what depends on constants alone, so that weights stand where a layer reads them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir

from edgekit_quantize.graph import constant, is_standard, static_shape

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
"""Operators by which exporters bring weights into shape."""
LARGEST_GROWTH = 4096
"""Bytes that a folded constant may have beyond those of its inputs."""


def fold_constants(model: ir.Model) -> None:
    """Replace Shape of static values and moves of constants by what they give, in subgraphs too.

    Nothing that rounds is computed here, so the model's numbers do not change. What has been quantized already (Q/DQ
    over constants) stays.
    """
    for node in list(model.graph.all_nodes()):
        if node.graph is None or node.domain not in {"", "ai.onnx"} or not node.inputs:
            continue
        results = _shape(node) if node.op_type == "Shape" else _moved(node, model.opset_imports.get("", 0))
        if results is None:
            continue
        owner = node.graph
        for value, array in zip(node.outputs, results, strict=True):
            tensor = ir.tensor(array, name=value.name)
            value.shape, value.type = ir.Shape(array.shape), ir.TensorType(tensor.dtype)
        _replace(owner, node, results)


def _replace(owner: ir.Graph | ir.Function, node: ir.Node, results: list[np.ndarray]) -> None:
    if not isinstance(owner, ir.Graph) or any(value.is_graph_output() for value in node.outputs):
        return
    for value, array in zip(node.outputs, results, strict=True):
        if not value.uses():
            continue
        name, value.name = value.name, f"{value.name}_computed"
        held = ir.Value(
            name=name, shape=value.shape, type=value.type, const_value=ir.tensor(np.ascontiguousarray(array), name=name)
        )
        owner.register_initializer(held)
        value.replace_all_uses_with(held)
    owner.remove(node, safe=True)


def _shape(node: ir.Node) -> list[np.ndarray] | None:
    shape = static_shape(node.inputs[0])
    if shape is None:
        return None
    start, end = (node.attributes[key].as_int() if key in node.attributes else None for key in ("start", "end"))
    return [np.array(shape[start:end], np.int64)]


def _moved(node: ir.Node, opset: int) -> list[np.ndarray] | None:
    if not is_standard(node, *MOVES_WEIGHTS):
        return None
    arrays = [constant(value) for value in node.inputs]
    if any(array is None and value is not None for array, value in zip(arrays, node.inputs, strict=True)):
        return None
    present = {
        value.name or "": array
        for value, array in zip(node.inputs, arrays, strict=True)
        if value is not None and array is not None
    }
    if (
        any(value is not None and len(tuple(value.uses())) > 1 for value in node.inputs)
        and _bytes(present) > LARGEST_GROWTH
    ):
        return None  # the constant would have to be kept beside what is made of it
    if node.op_type == "Cast" and not _cast_is_exact(node, next(iter(present.values()))):
        return None
    results = _evaluate(node, present, opset)
    made = sum(array.nbytes for array in results)
    return results if made <= _bytes(present) + LARGEST_GROWTH else None


def _bytes(arrays: Mapping[str, np.ndarray]) -> int:
    return sum(array.nbytes for array in arrays.values())


def _cast_is_exact(node: ir.Node, array: np.ndarray) -> bool:
    """Whether the cast only widens or changes integers that are small."""
    to = ir.DataType(node.attributes["to"].as_int())
    return to in {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64} and array.dtype.kind in "fiu"


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
