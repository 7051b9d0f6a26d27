from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

OneNode = Callable[..., tuple[onnx.ModelProto, dict[str, np.ndarray]]]


@pytest.fixture
def contributed() -> OneNode:
    """Makes a model of one node of ``com.microsoft``, and what is fed to it."""

    def model(
        op_type: str,
        fed: Mapping[str, np.ndarray | None],
        constants: Sequence[str] = (),
        *,
        outputs: Sequence[int] = (onnx.TensorProto.FLOAT,),
        opset: int = 17,
        **attributes: Any,
    ) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        results = [f"result{place}" for place in range(len(outputs))]
        inputs = ["" if array is None else name for name, array in fed.items()]
        arrays = {name: array for name, array in fed.items() if array is not None}
        feeds = {name: array for name, array in arrays.items() if name not in constants}
        graph = helper.make_graph(
            [helper.make_node(op_type, inputs, results, "node", domain="com.microsoft", **attributes)],
            "single",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in feeds.items()
            ],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(results, outputs, strict=True)],
            [numpy_helper.from_array(arrays[name], name) for name in constants],
        )
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds

    return model
