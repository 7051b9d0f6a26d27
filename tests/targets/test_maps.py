"""What the packages' own functions make of classifiers that return a sequence of maps, as skl2onnx writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import edgekit_coreml
import edgekit_onnxruntime
import edgekit_openvino
from edgekit.errors import InputError

SAMPLES = np.array([[0.5, -1.0, 2.0, 0.0], [-2.0, 0.25, 0.0, 1.0]], np.float32)


def with_maps(*, returned: bool = True) -> onnx.ModelProto:
    """Three classes of four numbers."""
    maps = helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    coefficients = np.random.default_rng(0).standard_normal(12).tolist()
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["label", "scores"],
            domain="ai.onnx.ml",
            coefficients=coefficients,
            intercepts=[0.1, 0.2, 0.3],
            multi_class=1,
            post_transform="SOFTMAX",
            classlabels_ints=[3, 5, 8],
        ),
        helper.make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[3, 5, 8]),
    ]
    outputs = [helper.make_tensor_value_info("label", TensorProto.INT64, [2])]
    outputs += [helper.make_value_info("maps", maps)] if returned else []
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])]
    graph = helper.make_graph(nodes, "digits", inputs, outputs)
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("is_file", [False, True], ids=["model", "file"])
@pytest.mark.parametrize("package", [edgekit_coreml, edgekit_onnxruntime, edgekit_openvino])
def test_maps_are_tensors_of_a_column_a_class(package: Any, is_file: bool, tmp_path: Path) -> None:
    model = with_maps()
    path = tmp_path / "digits.onnx"
    onnx.save(model, path)
    options = {"precision": "float32"} if package is edgekit_coreml else {}
    runner = package.load(package.convert(path if is_file else model, tmp_path / "converted", **options))
    found = runner.run({"x": SAMPLES})
    label, maps = ort.InferenceSession(path).run(None, {"x": SAMPLES})
    np.testing.assert_array_equal(found["label"], label)
    np.testing.assert_allclose(found["maps"], [list(each.values()) for each in maps], rtol=1e-5)
    assert model == with_maps()


@pytest.mark.parametrize("convert", [edgekit_coreml.convert, edgekit_onnxruntime.convert, edgekit_openvino.convert])
def test_maps_that_are_not_returned_are_named(convert: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="digits: has maps, which are not tensors"):
        convert(with_maps(returned=False), tmp_path / "converted")
