"""Unique on OpenVINO against ONNX Runtime, with each choice of results that something reads."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest

import edgekit_openvino

RESULTS = ("y", "first", "place", "count")


def model_of(attributes: str, rank: int, results: tuple[str, ...]) -> onnx.ModelProto:
    sizes = ", ".join("ABC"[:rank])
    declared = {"y": f"float[{sizes if 'axis' in attributes else 'U'}] y"}
    given = ", ".join(declared.get(name, f"int64[U] {name}") for name in results)
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[{sizes}] x) => ({given})'
        f" {{ n = Neg (x) y, first, place, count = Unique <{attributes}> (n) }}"
    )


def few_numbers(shape: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, 2, (size, *shape[1:])).astype(np.float32) for size in [*shape[:1] * 20, 1, 5, 2]]


def equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(found[name], array) for name, array in expected.items())


@pytest.mark.parametrize("results", [*combinations(RESULTS, 1), *combinations(RESULTS, 2), RESULTS], ids="+".join)
@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), [((4, 3), None), ((2, 5), -1), ((3, 2, 4), 1), ((2, 3, 3), 2)], ids=str)
def test_it_is_as_in_onnx_runtime(
    shape: tuple[int, ...], axis: int | None, is_sorted: int, results: tuple[str, ...], tmp_path: Path
) -> None:
    attributes = f"sorted = {is_sorted}" + ("" if axis is None else f", axis = {axis}")
    model = model_of(attributes, len(shape), results)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    for x in few_numbers(shape):
        expected = dict(zip(results, session.run(results, {"x": x}), strict=True))
        assert equal(runner.run({"x": x}), expected)


@pytest.mark.parametrize(
    ("attributes", "results", "shape", "is_right"),
    [
        ("sorted = 0", ("y",), (4, 3), False),
        ("sorted = 0", RESULTS, (4, 3), True),
        ("sorted = 1", ("y",), (4, 3), True),
        ("axis = 0", RESULTS, (4, 3), True),
        ("axis = 1", RESULTS, (2, 5), False),
        ("axis = 1, sorted = 0", RESULTS, (2, 5), False),
    ],
)
def test_openvino_itself(attributes: str, results: tuple[str, ...], shape: tuple[int, ...], is_right: bool) -> None:
    model = model_of(attributes, len(shape), results)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    network = openvino.Core().read_model(model.SerializeToString())
    compiled = openvino.compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    rights = []
    for x in few_numbers(shape):
        expected = dict(zip(results, session.run(results, {"x": x}), strict=True))
        found = compiled({"x": x})
        rights.append(equal({name: found[name] for name in results}, expected))
    assert all(rights) == is_right
