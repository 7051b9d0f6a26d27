"""Nodes of which OpenVINO computes some outputs only are told, or written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgekit_openvino
from edgekit.errors import UnsupportedOpsError
from edgekit.model import Model
from edgekit_openvino.frontend import convert_model

FEEDS = {"words": np.array([[1, 3, 0]], np.int32), "places": np.array([[0, 1, 2]], np.int32)}
TABLES = {"word": (5, 8), "position": (4, 8), "factor": (8,), "summand": (8,)}


def embeddings(*, is_returned: bool = False) -> onnx.ModelProto:
    """Normalized embeddings, and their sum ahead of the normalization, returned or read by a further node."""
    returned = ("y", "sum" if is_returned else "more")
    rng = np.random.default_rng(0)
    tables = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in TABLES.items()}
    node = helper.make_node(
        "EmbedLayerNormalization",
        ["words", "", "word", "position", "", "factor", "summand", "", "places"],
        ["y", "lengths", "sum"],
        domain="com.microsoft",
        name="embed",
        epsilon=1e-5,
    )
    graph = helper.make_graph(
        [node, *([] if is_returned else [helper.make_node("Add", ["sum", "summand"], ["more"])])],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.INT32, [1, 3]) for name in FEEDS],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8]) for name in returned],
        [numpy_helper.from_array(array, name) for name, array in tables.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("is_returned", [False, True])
def test_an_output_that_openvino_does_not_compute_is_told(is_returned: bool) -> None:
    with pytest.raises(UnsupportedOpsError, match=r"'embed'\): OpenVINO does not compute its output 'sum'"):
        convert_model(Model(ir.from_proto(embeddings(is_returned=is_returned))))


@pytest.mark.parametrize("is_returned", [False, True])
def test_such_a_node_is_written_out(is_returned: bool, tmp_path: Path) -> None:
    proto = embeddings(is_returned=is_returned)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    names = [value.name for value in session.get_outputs()]
    expected = dict(zip(names, session.run(None, FEEDS), strict=True))
    found = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "model")).run(FEEDS)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)
