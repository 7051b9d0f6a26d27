from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import openvino
import pytest
from openvino import opset13

from edgekit.model import Model
from edgekit_openvino.ir.ir_file import write_ir
from edgekit_openvino.ir.scaled_roundings import scale_ahead_of_roundings

LEVELS = 256


def rounded(x: np.ndarray, least: np.ndarray, greatest: np.ndarray, highest: float) -> np.ndarray:
    """What OpenVINO's documentation of FakeQuantize says for outputs from 0."""
    steps = np.round((np.clip(x, least, greatest) - least) / (greatest - least) * (LEVELS - 1))
    return np.asarray(steps / (LEVELS - 1) * highest)


def network(shape: Sequence[int], limits: Sequence[Any]) -> openvino.Model:
    given = opset13.parameter([-1, *shape[1:]], np.float32)
    return _rounded_model(given, given, limits)


def _rounded_model(given: Any, value: Any, limits: Sequence[Any]) -> openvino.Model:
    rounding = opset13.fake_quantize(value, *limits, LEVELS)
    rounding.set_friendly_name("rounding")
    return openvino.Model([rounding.output(0)], [given], "rounded")


def test_factors_of_pooled_vectors_stay_ahead_of_the_rounding() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5, 32)).astype(np.float32) * 3
    greatest = rng.uniform(0.5, 6, (1, 96)).astype(np.float32)
    given = opset13.parameter([-1, 5, 32], np.float32)
    reduced = [reduce(given, [1], False) for reduce in (opset13.reduce_mean, opset13.reduce_max, opset13.reduce_sum)]
    limits = [-greatest / 4, greatest, np.float32(0), np.float32(2.8)]
    model = _rounded_model(given, opset13.concat(reduced, 1), limits)
    assert scale_ahead_of_roundings(model) == ["rounding"]
    assert scale_ahead_of_roundings(model) == []
    settings = {"INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": True}
    (found,) = openvino.Core().compile_model(model, "CPU", settings)([x]).values()
    pooled = np.concatenate([x.mean(1), x.max(1), x.sum(1)], 1)
    steps = np.abs(found - rounded(pooled, -greatest / 4, greatest, 2.8)) / (2.8 / (LEVELS - 1))
    assert steps.max() < 1.01  # a number between two steps may go either way
    assert (steps > 0.01).mean() < 0.02


@pytest.mark.parametrize(
    ("shape", "least", "greatest", "highest"),
    [
        ((2, 4), [-1.0], [1.0], 2.8),
        ((2, 4), [-1.0, -2.0, -1.0, -1.0], [1.0, 1.0, 1.0, 1.0], 2.8),  # other zero points, not factors alone
        ((2, 3, 4), [-1.0, -2.0, -1.0, -1.0], [1.0, 2.0, 1.0, 1.0], 2.8),
        ((2, 4), [0.0, -2.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0], 2.8),
    ],
    ids=["one range", "several zero points", "three dimensions", "no range"],
)
def test_other_roundings_stay(
    shape: tuple[int, ...], least: list[float], greatest: list[float], highest: float
) -> None:
    limits = [*np.array([[least], [greatest]], np.float32), np.float32(0), np.float32(highest)]
    assert scale_ahead_of_roundings(network(shape, limits)) == []


def test_the_factors_are_products_in_the_file_that_ships(tmp_path: Path) -> None:
    limits = [np.zeros((1, 4), np.float32), np.float32([[1, 2, 4, 8]]), np.float32(0), np.float32(2)]
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[N, 4] x) => (float[N, 4] y) { y = Identity(x) }'
    model = Model(ir.from_proto(onnx.parser.parse_model(text)))
    write_ir(network((2, 4), limits), model, tmp_path / "model.xml", half_weights=False)
    operations = openvino.Core().read_model(tmp_path / "model.xml").get_ordered_ops()
    (rounding,) = [each for each in operations if each.get_type_name() == "FakeQuantize"]
    assert rounding.input_value(0).get_node().get_type_name() == "Multiply"
    assert all(limit.get_node().get_data().size == 1 for limit in rounding.input_values()[1:])
