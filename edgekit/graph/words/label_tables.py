"""The tables that nodes of ``ai.onnx.ml`` hold: keys and the values that take their place."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.features.vocabularies import are_texts, as_text


def entries(node: ir.Node, name: str) -> np.ndarray | None:
    """Returns the ``keys`` or ``values`` of a LabelEncoder in their stored type, or None if it has none.

    Texts are objects.
    """
    attributes = node.attributes
    if f"{name}_floats" in attributes:
        return np.asarray(attributes.get_floats(f"{name}_floats"), np.float32)
    if f"{name}_int64s" in attributes:
        return np.asarray(attributes.get_ints(f"{name}_int64s"), np.int64)
    if f"{name}_strings" in attributes:
        return np.array(attributes.get_strings(f"{name}_strings"), np.object_)
    tensor = attributes.get_tensor(f"{name}_tensor", None)
    if tensor is None:
        return None
    array = np.array(tensor.numpy())
    return np.array([as_text(text) for text in array.ravel()], np.object_) if are_texts(array) else array


def default(node: ir.Node, values: np.ndarray) -> object:
    """Returns the value for keys that are not in the table."""
    attributes = node.attributes
    tensor = attributes.get_tensor("default_tensor", None)
    if tensor is not None:
        return tensor.numpy().item()
    if values.dtype == np.object_:
        return attributes.get_string("default_string", "_Unused")
    if values.dtype.kind in "iu":
        return attributes.get_int("default_int64", -1)
    return attributes.get_float("default_float", -0.0)
