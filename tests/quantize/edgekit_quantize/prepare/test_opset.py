from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir

from edgekit_quantize.prepare.opset import modern, upgraded

OLD = """<ir_version: 6, opset_import: ["" : 11]>
g (float[1, 64] x) => (float[1, 64, 1] y) { m = MatMul(x, w)  r = Relu(m)  y = Unsqueeze<axes = [2]>(r) }"""


def test_large_weights_stay_in_their_file(
    parse: Callable[..., ir.Model],
    execute: Callable[..., list[np.ndarray]],
    rng: np.random.Generator,
    tmp_path: Path,
) -> None:
    ir.save(parse(OLD, w=rng.normal(size=(64, 64)).astype(np.float32)), tmp_path / "m.onnx", external_data="m.data")
    model = ir.load(tmp_path / "m.onnx")

    newer = upgraded(model, 21)

    weights = newer.graph.initializers["w"].const_value
    assert isinstance(weights, ir.ExternalTensor)
    assert weights is model.graph.initializers["w"].const_value
    assert newer.opset_imports[""] == 21
    feeds = {"x": rng.normal(size=(1, 64)).astype(np.float32)}
    for made in (model, newer):
        made.graph.initializers["w"].const_value = ir.Tensor(np.array(weights.numpy()), name="w")
    np.testing.assert_array_equal(execute(newer, feeds)[0], execute(model, feeds)[0])


def test_small_weights_of_a_file_come_along(
    parse: Callable[..., ir.Model], rng: np.random.Generator, tmp_path: Path
) -> None:
    ir.save(
        parse(OLD.replace("64", "8"), w=rng.normal(size=(8, 8)).astype(np.float32)),
        tmp_path / "m.onnx",
        external_data="m.data",
        size_threshold_bytes=0,
    )
    model = ir.load(tmp_path / "m.onnx")
    expected = np.array(model.graph.initializers["w"].const_value.numpy())

    weights = upgraded(model, 21).graph.initializers["w"].const_value

    np.testing.assert_array_equal(weights.numpy(), expected)


def test_what_is_new_enough_stays(parse: Callable[..., ir.Model]) -> None:
    model = parse(
        OLD.replace("11]", "13]").replace("Unsqueeze<axes = [2]>(r)", "Unsqueeze(r, a)"),
        a=np.array([2]),
        w=np.eye(64, dtype=np.float32),
    )
    assert modern(model) is model
