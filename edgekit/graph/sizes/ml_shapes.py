"""Types and shapes of the outputs of ``ai.onnx.ml`` operators, which ONNX's inference mostly leaves open."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

ML_DOMAIN = "ai.onnx.ml"
_KEEP_SHAPES = {"Binarizer", "Imputer", "LabelEncoder", "Normalizer", "Scaler"}
_MAKE_FLOATS = {"Normalizer", "Scaler"}
_PAIR = 2
"""Up to this number of classes, a support vector machine has a score for each class rather than for each pair."""


def fill_in(graph_model: ir.Model) -> bool:
    """Sets unknown types and shapes that follow from inputs and attributes, in place.

    Returns:
        Whether there were any.
    """
    changed = False
    for node in graph_model.graph.all_nodes():
        if node.domain != ML_DOMAIN or not node.inputs or node.inputs[0] is None:
            continue
        for value, dtype, shape in _known(node, node.inputs[0]):
            if value.type is None and dtype is not None:
                value.type, changed = ir.TensorType(dtype), True
            if value.shape is None and shape is not None and value.type is not None:
                value.shape, changed = ir.Shape(shape), True
    return changed


Known = tuple[ir.Value, ir.DataType | None, tuple[int | ir.SymbolicDim, ...] | None]


def _known(node: ir.Node, x: ir.Value) -> Iterator[Known]:
    shape = None if x.shape is None else tuple(x.shape.dims)
    output = node.outputs[0]
    if node.op_type in _KEEP_SHAPES:
        kept = x.dtype if node.op_type in ("Binarizer", "Imputer") else None
        yield output, ir.DataType.FLOAT if node.op_type in _MAKE_FLOATS else kept, shape
    elif node.op_type in ("LinearRegressor", "TreeEnsembleRegressor", "SVMRegressor", "TreeEnsemble"):
        targets = node.attributes.get_int("n_targets", node.attributes.get_int("targets", 1))
        rows = None if shape is None or len(shape) != 2 else (shape[0], targets)
        yield output, ir.DataType.FLOAT if node.op_type != "TreeEnsemble" else x.dtype, rows
    elif node.op_type in ("LinearClassifier", "TreeEnsembleClassifier", "SVMClassifier"):
        ints = "classlabels_int64s" if node.op_type.startswith("Tree") else "classlabels_ints"
        texts = node.attributes.get_strings("classlabels_strings", ())
        count = len(texts) or len(node.attributes.get_ints(ints, ()))
        samples = None if shape is None or len(shape) != 2 else shape[:1]
        yield output, ir.DataType.STRING if texts else ir.DataType.INT64, samples
        if len(node.outputs) > 1:
            columns = count * (count - 1) // 2 if _scores_pairs(node, count) else count
            yield node.outputs[1], ir.DataType.FLOAT, None if samples is None else (*samples, columns)


def _scores_pairs(node: ir.Node, classes: int) -> bool:
    """Whether a support vector machine gives a score for each pair of its classes, as ONNX Runtime has it."""
    attributes = node.attributes
    has_vectors = bool(attributes.get_ints("vectors_per_class", ()))
    return has_vectors and not attributes.get_floats("prob_a", ()) and classes > _PAIR
