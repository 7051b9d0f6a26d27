"""Root-mean-square normalization that ONNX Runtime adds to the standard domain, against its own kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.errors import InputError
from edgekit.stages.load import Load

RNG = np.random.default_rng(6)


def normalized(
    path: Path, dtype: type = np.float32, opset: int = 21, *, fed: bool = False, **attributes: float
) -> Path:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    scale = numpy_helper.from_array(RNG.random(8).astype(dtype), "scale")
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("SimplifiedLayerNormalization", ["x", "scale"], ["y"], "norm", **attributes)],
        "norm",
        [info("x", kind, ["N", 3, 8]), *([info("scale", kind, [8])] if fed else [])],
        [info("y", kind, ["N", 3, 8])],
        [] if fed else [scale],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
    return path


def run(model: bytes | str, feeds: dict[str, np.ndarray]) -> np.ndarray:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("opset", [15, 17, 18, 22])
def test_it_becomes_operators_of_the_standard(tmp_path: Path, opset: int, dtype: type, fed: bool) -> None:
    path = normalized(tmp_path / "m.onnx", dtype, opset, fed=fed, axis=-1, epsilon=1e-3)
    model = Load()(path).model
    assert "SimplifiedLayerNormalization" not in {node.op_type for node in model.graph}
    feeds = {"x": RNG.standard_normal((2, 3, 8)).astype(dtype)} | (
        {"scale": RNG.random(8).astype(dtype)} if fed else {}
    )
    expected = run(str(path), feeds)
    found = run(model.proto().SerializeToString(), feeds)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == np.float32 else 2e-3)


def test_onnx_runtime_fuses_the_operators_again(tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    proto = Load()(normalized(tmp_path / "m.onnx")).model.proto()
    onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    fused = onnx.load(tmp_path / "optimized.onnx")
    assert "SimplifiedLayerNormalization" in {node.op_type for node in fused.graph.node}


def test_an_axis_counted_from_the_first_stays(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="SimplifiedLayerNormalization, which ONNX does not have"):
        Load()(normalized(tmp_path / "m.onnx", axis=2))


def test_constants_whose_entry_has_another_shape(tmp_path: Path) -> None:
    """onnxruntime-genai writes that a constant of one element is a scalar."""
    info = helper.make_tensor_value_info
    one = helper.make_node("Constant", [], ["one"], value=numpy_helper.from_array(np.array([1], np.int64)))
    graph = helper.make_graph(
        [one, helper.make_node("Add", ["x", "one"], ["y"])],
        "constant",
        [info("x", TensorProto.INT64, [2])],
        [info("y", TensorProto.INT64, [2])],
        value_info=[info("one", TensorProto.INT64, [])],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    assert Load()(path).warnings == ("entries that state another shape than the constant's were dropped: 1",)
