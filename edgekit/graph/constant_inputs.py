"""Constants in place of inputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from edgekit.model import Model


def with_constant_inputs(model: Model, values: Mapping[str, np.ndarray]) -> Model:
    """Returns the model with initializers in place of some inputs; the given model is not changed.

    Args:
        model: The model.
        values: The constants by input name; they are converted to the input's element type.
    """
    copy = model.graph_model.clone()
    for value in [value for value in copy.graph.inputs if value.name in values]:
        array = values[str(value.name)]
        array = array if value.dtype is None else array.astype(value.dtype.numpy())
        value.const_value = ir.tensor(array, name=value.name)
        value.shape = ir.Shape(array.shape)
        copy.graph.inputs.remove(value)
        copy.graph.register_initializer(value)
    return model.with_graph(copy)
