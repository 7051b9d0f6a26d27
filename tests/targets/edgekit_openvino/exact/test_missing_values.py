"""NaN that the CPU plugin makes a number of, in networks that look for it, against ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_openvino
from edgekit_openvino.exact.missing_values import LOSES

X = np.array([[np.nan, np.inf, -np.inf, 0.0], [1.5, -1.5, 3e38, np.nan]], np.float32)
LOSING = {
    "Clip": "low = Constant<value = float {-1.0}>() high = Constant<value = float {1.0}>() f = Clip(x, low, high)",
    "Clip, an open limit": "f = Clip(x, c)",
    "Exp": "f = Exp(x)",
    "HardSigmoid": "f = HardSigmoid(x)",
    "HardSigmoid of a sixth": "f = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x)",
    "Max": "f = Max(x, c)",
    "Max, the other one": "f = Max(c, x)",
    "Max, a constant": "one = Constant<value = float {1.0}>() f = Max(x, one)",
    "Min": "f = Min(x, c)",
    "Relu": "f = Relu(x)",
    "Several": "a = Relu(x) b = Exp(a) f = Min(b, c)",
}
IMPUTED = "n = IsNaN(f) five = Constant<value = float {5.0}>() y = Where(n, five, f)"


def files(folder: Path, body: str) -> tuple[onnx.ModelProto, Path]:
    """Returns a graph of x [2, 4] and c [], and the file that OpenVINO loads."""
    proto = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[2, 4] x, float c) => (float[2, 4] y) {{ {body} }}'
    )
    return proto, edgekit_openvino.convert(proto, folder / "model")


@pytest.mark.parametrize("body", LOSING.values(), ids=LOSING)
def test_a_missing_value_reaches_what_looks_for_it(tmp_path: Path, body: str) -> None:
    moved = f"{body} t = Transpose(f) u = Transpose(t)"
    proto, path = files(tmp_path, f"{moved} {IMPUTED.replace('(f)', '(u)')}")
    feeds = {"x": X, "c": np.array(0.5, np.float32)}
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    assert expected[0, 0] == 5.0
    np.testing.assert_allclose(edgekit_openvino.load(path).run(feeds)["y"], expected, rtol=1e-6)


def test_a_comparison_with_a_missing_value_is_false(tmp_path: Path) -> None:
    _, path = files(tmp_path, f"{LOSING['Clip']} k = LessOrEqual(f, c) z = Sub(c, c) y = Where(k, x, z)")
    found = edgekit_openvino.load(path).run({"x": X, "c": np.array(0.5, np.float32)})["y"]
    assert found[0, 0] == 0.0


@pytest.mark.parametrize("body", LOSING.values(), ids=LOSING)
def test_a_network_that_does_not_look_for_it_stays_as_it_is(tmp_path: Path, body: str) -> None:
    behind_a_softmax = "s = Softmax(f) n = IsNaN(s) y = Where(n, x, s)"
    _, path = files(tmp_path, f"{body} {behind_a_softmax}")
    assert path.read_text(encoding="utf-8").count('type="IsNaN"') == 1


def test_the_plugin_itself_makes_numbers_of_nan() -> None:
    import openvino
    from openvino import opset13

    made = {
        "Clamp": lambda x: opset13.clamp(x, -1.0, 1.0),
        "Exp": opset13.exp,
        "HardSigmoid": lambda x: opset13.hard_sigmoid(x, np.float32(0.2), np.float32(0.5)),
        "HSigmoid": opset13.hsigmoid,
        "Maximum": lambda x: opset13.maximum(x, np.float32(0)),
        "Minimum": lambda x: opset13.minimum(x, np.float32(0)),
        "Relu": opset13.relu,
    }
    for name, make in made.items():
        x = opset13.parameter(list(X.shape), np.float32)
        compiled = openvino.compile_model(openvino.Model([make(x)], [x], name), "CPU")
        assert not np.isnan(compiled([X])[0][0, 0]), name
    assert set(made) == set(LOSES)
