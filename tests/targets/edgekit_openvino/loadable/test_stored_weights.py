from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest

import edgekit_openvino
from edgekit.model import Model
from edgekit.target import BuildOptions
from edgekit_openvino.profiles import PROFILES
from edgekit_openvino.target import OpenVINOTarget

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
STORED = "w = DequantizeLinear <axis = 0> (q, scale, zero)"


def model_of(graph: str, kernel: int = 1) -> onnx.ModelProto:
    """A model whose weights ``w`` are stored as integers: 16 outputs, 16 inputs."""
    model = onnx.parser.parse_model(f"{HEAD} {graph}")
    rng = np.random.default_rng(0)
    arrays = {
        "q": rng.integers(-127, 128, (16, 16, kernel, kernel)).astype(np.int8),
        "scale": rng.uniform(0.001, 0.01, 16).astype(np.float32),
        "zero": np.zeros(16, np.int8),
        "scale_of_all": np.array(0.01, np.float32),
        "zero_of_all": np.array(3, np.int8),
        "k": np.array([16]),
        "bias": rng.standard_normal((16, 1, 1)).astype(np.float32),
        "lines": np.array([1, 16, 64]),
        "same": np.array([1, 16, 16, 16]),
    }
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return model


GRAPHS = {
    "of a TopK": f"""g (float[1,32,8,8] x) => (float[1,16,64] y) {{
        {STORED} b, i = TopK <axis = 1> (x, k) c = Conv (b, w) y = Reshape (c, lines) }}""",
    "of a TopK, one scale": """g (float[1,32,8,8] x) => (float[1,16,64] y) {
        w = DequantizeLinear (q, scale_of_all, zero_of_all)
        b, i = TopK <axis = 1> (x, k) c = Conv (b, w) y = Reshape (c, lines) }""",
    "of a Split": f"""g (float[1,32,8,8] x) => (float[1,16,64] y, float[1,16,64] z) {{
        {STORED} a, b = Split <axis = 1> (x) c = Conv (b, w) y = Reshape (c, lines)
        d = Conv (a, w) z = Reshape (d, lines) }}""",
    "of a Relu": f"""g (float[1,16,8,8] x) => (float[1,16,64] y) {{
        {STORED} b = Relu (x) c = Conv (b, w) y = Reshape (c, lines) }}""",
}


@pytest.mark.parametrize("draft", [True, False])
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_a_convolution_with_stored_weights_loads_whatever_gives_its_input(
    graph: str, draft: bool, tmp_path: Path
) -> None:
    model = model_of(graph)
    channels = model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    x = np.random.default_rng(1).standard_normal((1, channels, 8, 8), dtype=np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    options = BuildOptions("float32", draft=draft)
    artifact = OpenVINOTarget().build(Model(onnx_ir.from_proto(model)), PROFILES[0], tmp_path, options)
    got = edgekit_openvino.load(artifact.main).run({"x": x})
    for value, want in zip(session.get_outputs(), session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(got[value.name], want, rtol=1e-4, atol=1e-4)


FIRST, LAST, OTHER = (f"Transpose <perm = {order}>" for order in ([0, 3, 1, 2], [0, 2, 3, 1], [0, 3, 2, 1]))
HALVED = "Conv <strides = [2, 2]>"
BESIDE_TRANSPOSES = {
    "strides, to channels last": f"a = Reshape (x, same) c = {HALVED} (a, w) y = {LAST} (c)",
    "strides, from channels last": f"t = {FIRST} (x) c = {HALVED} (t, w) y = Relu (c)",
    "strides, then an average": f"t = {FIRST} (x) c = {HALVED} (t, w) y = GlobalAveragePool (c)",
    "strides, bias": f"t = {FIRST} (x) c = {HALVED} (t, w) b = Add (c, bias) y = {LAST} (b)",
    "strides, flattened": f"a = Reshape (x, same) c = {HALVED} (a, w) y = Flatten (c)",
    "pads, after an activation": f"r = Relu (x) c = Conv <pads = [1, 0, 1, 2]> (r, w) y = {LAST} (c)",
    "from another order": f"t = {OTHER} (x) c = Conv (t, w) y = Relu (c)",
    "to another order": f"r = Relu (x) c = Conv (r, w) y = {OTHER} (c)",
    "to another order, bias": f"r = Relu (x) c = Conv (r, w) b = Add (c, bias) y = {OTHER} (b)",
}
AS_EXPECTED = {
    "between channels last": f"t = {FIRST} (x) c = Conv (t, w) y = {LAST} (c)",
    "strides alone": f"r = Relu (x) c = {HALVED} (r, w) y = Relu (c)",
}
ALL = {**BESIDE_TRANSPOSES, **AS_EXPECTED}


@pytest.mark.parametrize("graph", ALL.values(), ids=ALL.keys())
def test_a_convolution_with_stored_weights_keeps_what_it_does_beside_transposes(graph: str, tmp_path: Path) -> None:
    model = model_of(f"g (float[1,16,16,16] x) => (float y) {{ {STORED} {graph} }}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    x = np.random.default_rng(1).standard_normal((1, 16, 16, 16), dtype=np.float32)
    (want,) = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, {"x": x}
    )
    path = edgekit_openvino.convert(model, tmp_path / "model")
    got = edgekit_openvino.load(path).run({"x": x})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert ('element_type="i8"' in path.read_text()) == (graph in AS_EXPECTED.values())


def test_weights_stay_integers_where_they_can_be_loaded(tmp_path: Path) -> None:
    text = edgekit_openvino.convert(model_of(GRAPHS["of a Relu"]), tmp_path / "model").read_text()
    assert 'element_type="i8"' in text
