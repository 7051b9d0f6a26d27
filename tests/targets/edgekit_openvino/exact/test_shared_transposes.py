"""Recurrent operations beside something else that reads the same sequence with its first axes swapped."""

from __future__ import annotations

import numpy as np
import onnx
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino

STEPS, BATCH, WIDTH = 5, 2, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
LAYER = "{y} = KIND <hidden_size = 4> ({x}, w{n}, r{n})  {s} = Squeeze ({y}, one)  "
FIRST, SECOND, ALONE = (
    LAYER.format(x=x, y=f"y{n}", s=s, n=n) for x, s, n in (("x", "s", 1), ("s", "z", 2), ("x", "z", 2))
)
CALLS = {
    "a layer behind it": FIRST + SECOND + "a = Transpose <perm = [1, 0, 2]> (s)",
    "two layers that are joined": FIRST + SECOND + "p = Transpose <perm = [1, 0, 2]> (s)  "
    "q = Transpose <perm = [1, 0, 2]> (p)  u = Transpose <perm = [1, 0, 2]> (z)  a = Concat <axis = 2> (p, u, p)",
    "batch first between them": FIRST + "a = Transpose <perm = [1, 0, 2]> (s)  t = Transpose <perm = [1, 0, 2]> (a)  "
    "y2 = KIND <hidden_size = 4> (t, w2, r2)  z = Squeeze (y2, one)",
    "beside another one": FIRST + ALONE + "a = Neg (s)",
    "beside what goes in": ALONE + "a = Transpose <perm = [1, 0, 2]> (x)",
    "a product beside it": ALONE + "b = Transpose <perm = [1, 0, 2]> (x)  a = MatMul (b, m)",
}


def model(call: str, kind: str, batch: str = "2", steps: str = "5") -> onnx.ModelProto:
    graph = f"g (float[{steps}, {batch}, 4] x) => (float[?, ?, ?] a, float[?, ?, ?] z) {{ {call} }}"
    made = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 18]>\n' + graph.replace("KIND", kind))
    rng = np.random.default_rng(0)
    shapes = {f"{name}{n}": (1, GATES[kind] * WIDTH, WIDTH) for name in "wr" for n in (1, 2)} | {"m": (4, 4)}
    arrays = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    arrays["one"] = np.array([1])
    made.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return made


def check(proto: onnx.ModelProto, path: object) -> bool:
    """Compares with ONNX's reference; returns whether OpenVINO without corrections is right, too."""
    feeds = {"x": np.random.default_rng(1).standard_normal((STEPS, BATCH, WIDTH)).astype(np.float32)}
    expected = dict(zip(["a", "z"], ReferenceEvaluator(proto).run(["a", "z"], feeds), strict=True))
    got = edgekit_openvino.load(edgekit_openvino.convert(proto, path)).run(feeds)
    for name, array in expected.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5)
    plain = openvino.compile_model(openvino.Core().read_model(proto.SerializeToString()), "CPU")(feeds)
    return all(np.allclose(plain[name], array, atol=1e-3) for name, array in expected.items())


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("name", CALLS)
def test_others_read_what_is_transposed(name: str, kind: str, tmp_path) -> None:
    assert not check(model(CALLS[name], kind), tmp_path / "model"), "OpenVINO has learned it"


@pytest.mark.parametrize("sizes", [{"batch": "n"}, {"steps": "t"}, {"batch": "n", "steps": "t"}])
def test_open_sizes(sizes: dict[str, str], tmp_path) -> None:
    check(model(CALLS["two layers that are joined"], "LSTM", **sizes), tmp_path / "model")


def test_one_layer_behind_another_stays_as_it_is(tmp_path) -> None:
    """Nothing else reads what goes into them."""
    proto = model(FIRST + SECOND + "a = Neg (z)", "LSTM")
    assert check(proto, tmp_path / "model")
    network = openvino.Core().read_model(edgekit_openvino.convert(proto, tmp_path / "again"))
    orders = [each.input_value(1).get_node() for each in network.get_ops() if each.get_type_name() == "Transpose"]
    assert [1, 0, 2, 3] not in [list(order.get_data()) for order in orders]
