from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import edgekit_openvino
from edgekit.errors import InputError, UnsupportedOpsError
from edgekit.model import Arrays, Model, name_nodes
from edgekit_openvino.frontend import convert_model


def parsed(body: str, opset: int = 18) -> onnx.ModelProto:
    """A model in onnx's textual form."""
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}, "my.domain" : 1]>\n{body}')


def executed(model: onnx.ModelProto, feeds: Arrays, folder: Path) -> Arrays:
    return edgekit_openvino.load(edgekit_openvino.convert(model, folder / "model")).run(feeds)


def expected(model: onnx.ModelProto, feeds: Arrays) -> Arrays:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


X = np.array([-1.5, 2.0, 0.0], np.float32)


@pytest.mark.parametrize(
    ("body", "feeds"),
    [
        pytest.param("g (float[3] x) => (float[3] y) { y = Relu(x) }", {"x": X}, id="one node"),
        pytest.param(
            "g (float[2] unused, float[3] x, int64[N] too) => (float[3] y) { y = Relu(x) }",
            {"unused": X[:2], "x": X, "too": np.array([1, 2])},
            id="inputs that nothing uses",
        ),
        pytest.param("g (float[3] x) => (float[3] y) { y = Max(x) }", {"x": X}, id="an input passed on"),
        pytest.param(
            "g (float[3] x) => (float[3] y, float[3] z) { y = Max(x) z = Sum(x) }", {"x": X}, id="passed on twice"
        ),
        pytest.param(
            "g (float[3] a, float[3] x) => (float[3] y) { y = Max(x) }",
            {"a": X, "x": X + 1},
            id="one dropped, one passed on",
        ),
        pytest.param(
            "g (float[3] x) => (float[3] y, float[3] z) { y = Relu(x) z = Max(y) }",
            {"x": X},
            id="one value, two outputs",
        ),
        pytest.param(
            "g (float[3] x) => (float[3] x, float[3] y) { y = Relu(x) }", {"x": X}, id="an input as an output"
        ),
        pytest.param(
            "g (float[3] x) => (float y) { y = ReduceSum <keepdims = 0> (x) }", {"x": X}, id="an output of rank 0"
        ),
        pytest.param(
            "g (float[3] x) => (int64[M, 1] y) { z = Greater(x, x) n = NonZero(z) y = Transpose(n) }",
            {"x": X},
            id="an output without elements",
        ),
        pytest.param(
            "g (int64[3] i, bool[3] b) => (int64[3] j, bool[3] c) { j = Add(i, i) c = Not(b) }",
            {"i": np.array([1, -2, 2**29]), "b": np.array([True, False, True])},
            id="integers and booleans",
        ),
        pytest.param(
            "g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }", {"x": np.stack([X, -X])}, id="a dynamic dimension"
        ),
    ],
)
def test_inputs_and_outputs_are_the_onnx_models(body: str, feeds: Arrays, tmp_path: Path) -> None:
    model = parsed(body)
    want, got = expected(model, feeds), executed(model, feeds, tmp_path)
    assert list(got) == list(want)
    for name, array in want.items():
        assert got[name].dtype == array.dtype
        assert got[name].shape == array.shape
        np.testing.assert_allclose(got[name], array, rtol=1e-6)


def test_the_order_of_the_inputs_stays() -> None:
    model = Model(ir.from_proto(parsed("g (float[2] u, float[3] x, float[4] v) => (float[3] y) { y = Max(x) }")))
    assert [port.any_name for port in convert_model(model).network.inputs] == ["u", "x", "v"]


def test_all_gaps_are_told_with_their_nodes() -> None:
    model = parsed(
        "g (float[4, 4] x) => (float[4, 4] y, float z) {\n"
        "  [wrapped] w = my.domain.Wrap(x)\n  [again] v = my.domain.Wrap(w)\n  y = Relu(v)\n  [det] z = Det(x)\n}"
    )
    with pytest.raises(UnsupportedOpsError) as caught:
        convert_model(Model(ir.from_proto(model)))
    assert caught.value.ops == ["Det", "my.domain.Wrap"]
    assert [gap.node for gap in caught.value.gaps] == ["wrapped", "again", "det"]


def test_a_conversion_that_fails_is_a_gap_with_the_reason() -> None:
    model = parsed(
        "g (float[1, 1, 4, 4] x) => (float[1, 1, 4, 6] y)"
        " <int64[8] pads = {0, 0, 0, 1, 0, 0, 0, 1}>"
        ' { [border] y = Pad <mode = "wrap"> (x, pads) }',
        opset=19,
    )
    with pytest.raises(UnsupportedOpsError, match="padding mode") as caught:
        convert_model(Model(ir.from_proto(model)))
    assert [(gap.op_type, gap.node) for gap in caught.value.gaps] == [("Pad", "border")]


def test_a_graph_that_contradicts_itself_is_told_as_such() -> None:
    model = parsed("g (float[2] x, float[3] z) => (float[3] y) { y = Add(x, z) }")
    with pytest.raises((InputError, UnsupportedOpsError), match=r"[Bb]roadcast|inconsistent|shape"):
        convert_model(Model(ir.from_proto(model)))


def refused(body: str, opset: int, **initializers: np.ndarray) -> list[str]:
    """Returns the nodes because of which a model is refused."""
    proto = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> g {body}')
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in initializers.items())
    with pytest.raises(UnsupportedOpsError) as caught:
        convert_model(Model(ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))))
    return [gap.node for gap in caught.value.gaps]


def test_what_follows_a_misread_node_is_not_blamed_on_its_shape() -> None:
    body = """(float[1, 4, 512, 1] x) => (float[1, 4, 3] y) {
        [spectrum] s = DFT <axis = 2, onesided = 1> (x)
        [power] p = ReduceSumSquare <axes = [-1], keepdims = 0> (s)
        [bands] b = MatMul (p, w)
        [least] c = Clip (b, low)
        y = Log (c)
    }"""
    weights = {"w": np.ones((257, 3), np.float32), "low": np.float32(1e-6).reshape(())}
    assert refused(body, 17, **weights) == ["spectrum"]


def test_outputs_that_a_misread_node_leaves_out_are_no_inputs() -> None:
    model = parsed(
        "g (float[1, 2, 4, 8] q, float[1, 2, 4, 8] k, float[1, 2, 4, 8] v)"
        " => (float[1, 2, 4, 8] y, float[1, 2, 4, 4] p)"
        " { y, , , p = Attention <left_window_size = 1> (q, k, v) }",
        opset=26,
    )
    assert convert_model(Model(ir.from_proto(model))).expanded == ("Attention",)


def test_a_node_that_lacks_a_type_because_another_failed_is_not_told() -> None:
    body = """(float[1, 64] x) => (float[1, F, B] y) {
        [spectrum] s = STFT (x, step, window)
        [power] y = ReduceSumSquare <axes = [-1], keepdims = 0> (s)
    }"""
    assert refused(body, 17, step=np.array(4), window=np.hanning(8).astype(np.float32)) == ["spectrum"]


def test_a_node_of_doubles_that_openvino_refuses_is_found_and_rewritten(tmp_path: Path) -> None:
    """OpenVINO's report calls nodes by the outputs of the file that it read, which is in single precision."""
    model = parsed("g (double[4] x, double[4] y) => (double[4] z) { z = Mod <fmod = 0> (x, y) }", opset=28)
    x, y = np.array([-4.5, 7.25, 5.0, -6.0]), np.array([2.0, -3.5, 8.0, 4.0])
    found = executed(model, {"x": x, "y": y}, tmp_path)
    np.testing.assert_allclose(found["z"], np.mod(x, y), atol=1e-6)


def test_a_node_of_doubles_is_refused_by_name() -> None:
    text = "g (double[2] x, double[2] y) => (double[2] z) { s = Neg (x) z = Mod <fmod = 0> (s, y) }"
    model = Model(ir.from_proto(parsed(text, opset=28)))
    name_nodes(model.graph_model)
    with pytest.raises(UnsupportedOpsError) as refused:
        convert_model(model)
    assert [(gap.op_type, gap.node) for gap in refused.value.gaps] == [("Mod", "z")]
