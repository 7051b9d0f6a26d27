"""A third axis between products of integers: the same numbers, and OpenVINO computes them right by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import openvino
import pytest

from edgekit.instruction_sets import WITHOUT_VNNI, own_set
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.candidate import write

from ..conftest import Execute

SIZE = 64
CHAIN = "m = MatMul (x, w) r = Relu (m) y = MatMul (r, v)"


def chain(parse: Callable[..., ir.Model], body: str = CHAIN, rank: int = 2) -> ir.Model:
    rng, sizes = np.random.default_rng(1), ", ".join(["1"] * (rank - 1) + [str(SIZE)])
    return parse(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[{sizes}] x) => (float[{sizes}] y) {{ {body} }}',
        **{name: (rng.normal(size=(SIZE, SIZE)) / 8).astype(np.float32) for name in ("w", "v") if f"{name})" in body},
    )


def written(model: ir.Model, feeds: dict[str, np.ndarray], execute: Execute, *, apart: bool) -> ir.Model:
    """The model with its products quantized by the ranges of one sample."""
    seen = model.clone()
    seen.graph.outputs.extend(
        node.outputs[0] for node in seen.graph if node.outputs[0].name != "y" and node.outputs[0].name is not None
    )
    names = [value.name or "" for value in seen.graph.outputs]
    statistics = {}
    for name, array in {**feeds, **dict(zip(names, execute(seen, feeds), strict=True))}.items():
        statistics[name] = TensorStatistics()
        statistics[name].histogram.update(array)
    kinds = {"layers": {"MatMul": "input", "Gemm": "input"}, "ranges": {}, "products_apart": apart}
    return write(model, Settings.read(kinds), statistics).model


def kinds_of(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph if node.op_type in ("Unsqueeze", "Flatten")]


def test_the_numbers_are_the_same_and_openvino_finds_them(
    parse: Callable[..., ir.Model], execute: Execute, tmp_path: Path
) -> None:
    """On one thread; with VNNI or AMX the kernel of both products is wrong by far."""
    feeds = {"x": np.abs(np.random.default_rng(2).normal(size=(1, SIZE))).astype(np.float32)}
    found = {}
    for apart in (False, True):
        model = written(chain(parse), feeds, execute, apart=apart)
        assert kinds_of(model) == ["Unsqueeze", "Flatten"] * apart
        (right,) = execute(model, feeds)
        ir.save(model, tmp_path / "model.onnx")
        settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
        compiled = openvino.Core().compile_model(tmp_path / "model.onnx", "CPU", settings)
        found[apart] = right, np.abs(next(iter(compiled(feeds).values())) - right).max() / np.abs(right).max()
    np.testing.assert_array_equal(found[True][0], found[False][0])
    assert found[True][1] < 0.02
    if own_set() not in WITHOUT_VNNI:
        assert found[False][1] > 0.1  # still


@pytest.mark.parametrize(
    ("body", "rank"),
    [
        ("m = MatMul (x, w) y = Relu (m)", 2),
        (CHAIN, 3),
        ("r = Relu (x) y = MatMul (r, v)", 2),
    ],
)
def test_others_are_left_as_they_are(parse: Callable[..., ir.Model], execute: Execute, body: str, rank: int) -> None:
    model = chain(parse, body, rank)
    feeds = {"x": np.random.default_rng(2).normal(size=[1] * (rank - 1) + [SIZE]).astype(np.float32)}
    assert not kinds_of(written(model, feeds, execute, apart=True))
