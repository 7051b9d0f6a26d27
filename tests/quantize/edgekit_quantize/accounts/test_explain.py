"""Accounts of layers, against errors that are measured by running a layer alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.data.samples import Sample
from edgekit.model import Model
from edgekit.quantizer import BudgetError, QuantizationRequest
from edgekit_quantize.plugin import PostTrainingQuantizer

ONE_PRODUCT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 64, 32] x) => (float[1, 64, 48] y) { y = MatMul(x, w) }"""
ALL_KINDS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 3, 12, 12] x, int64[1, 4] ids, bool b) => (float[1, 16, 12, 12] y, float[1, 4, 40] z, float[4, 1, 1, 9] h) {
  c = Conv<pads = [1, 1, 1, 1]>(x, few)
  y = Conv<pads = [2, 2, 2, 2]>(c, many)
  e = Gather(table, ids)
  z = MatMul(e, matrix)
  s = Transpose<perm = [1, 0, 2]>(e)
  l, last, cell = LSTM<hidden_size = 9>(s, wl, rl)
  h = If(b) <then_branch = t () => (float[4, 1, 1, 9] u) { u = MatMul(l, square) },
             else_branch = o () => (float[4, 1, 1, 9] v) { v = Identity(l) }>
}"""


class Drawn:
    has_labels = False

    def __init__(self, draw: Callable[[np.random.Generator], dict[str, np.ndarray]]) -> None:
        self._draw = draw

    def __len__(self) -> int:
        return 16

    def __iter__(self) -> Iterator[Sample]:
        rng = np.random.default_rng(5)
        for number in range(len(self)):
            yield Sample(str(number), self._draw(rng))


ROWS = Drawn(lambda rng: {"x": rng.normal(0, 2, (1, 64, 32)).astype(np.float32)})


def _layers(model: ir.Model, **more: Any) -> dict[str, dict[str, Any]]:
    given: dict[str, Any] = {"scheme": "int8", "samples": ROWS, "max_drop": 1.0, **more}
    record = PostTrainingQuantizer().quantize(QuantizationRequest(Model(model), **given)).record
    return {layer["layer"]: layer for layer in record["layers"]}


def _sqnr(signal: np.ndarray, noise: np.ndarray) -> float:
    return float(10 * np.log10(np.sum(signal.astype(np.float64) ** 2) / np.sum(noise.astype(np.float64) ** 2)))


@pytest.fixture
def weights(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(32, 48)).astype(np.float32)


def test_the_error_of_a_layer_is_what_one_measures(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], weights: np.ndarray
) -> None:
    model = parse(ONE_PRODUCT, w=weights)
    request = QuantizationRequest(Model(model), "int8", ROWS, 1.0, placement={"sums_in_int16": False})
    result = PostTrainingQuantizer().quantize(request)
    (layer,) = result.record["layers"]

    outputs = [[execute(m, sample.feeds)[0] for m in (model, result.model.graph_model)] for sample in ROWS]
    exact, found = (np.array(column) for column in zip(*outputs, strict=True))
    assert layer["sqnr_db"] == pytest.approx(_sqnr(exact, found - exact), abs=0.3)
    inputs = np.array([sample.feeds["x"] for sample in ROWS])
    assert (layer["low"], layer["high"]) == (inputs.min(), inputs.max())
    assert layer["outliers"] == pytest.approx(np.abs(inputs).max() / math.sqrt(np.mean(inputs.astype(np.float64) ** 2)))
    assert layer["range_low"] >= layer["low"] - 0.1
    assert layer["range_high"] <= layer["high"] + 0.1
    assert (layer["done"], layer["how"]) == ("integers", "range by percentile")
    together = -10 * np.log10(10 ** (-layer["weights_db"] / 10) + 10 ** (-layer["inputs_db"] / 10))
    assert layer["sqnr_db"] == pytest.approx(together)


LAYERS = {
    "Conv": ("y = Conv<pads = [1, 1, 1, 1]>(x, w)", (12, 8, 3, 3)),
    "grouped Conv": ("y = Conv<group = 2>(x, w)", (12, 4, 3, 3)),
    "DepthwiseConv": ("y = Conv<group = 8, dilations = [2, 2]>(x, w)", (16, 1, 3, 3)),
    "Gemm": ("f = Flatten<axis = 3>(x)  y = Gemm<transB = 1>(f, w)", (24, 12)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_so_it_is_for_every_kind_of_layer(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator, name: str
) -> None:
    graph, shape = LAYERS[name]
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1, 8, 12, 12] x) => (y) {{ {graph} }}"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), "w"))
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    samples = Drawn(lambda drawing: {"x": drawing.normal(0, 2, (1, 8, 12, 12)).astype(np.float32)})
    layers = {"Conv": "input", "DepthwiseConv": "input", "Gemm": "input"}
    placement = {"candidates": [{"name": "all", "layers": layers}]}
    request = QuantizationRequest(Model(model), "int8", samples, 1.0, placement=placement)
    result = PostTrainingQuantizer().quantize(request)
    (layer,) = result.record["layers"]

    outputs = [[execute(m, sample.feeds)[0] for m in (model, result.model.graph_model)] for sample in samples]
    exact, found = (np.array(column) for column in zip(*outputs, strict=True))
    assert layer["sqnr_db"] == pytest.approx(_sqnr(exact, found - exact), abs=0.7)


def test_stored_weights_err_as_one_measures(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], weights: np.ndarray
) -> None:
    model = parse(ONE_PRODUCT, w=weights)
    rounded = np.rint(weights / (np.abs(weights).max(0) / 127)) * (np.abs(weights).max(0) / 127)

    (alone,) = _layers(model, scheme="int8-weights", samples=None).values()
    assert alone["sqnr_db"] == pytest.approx(_sqnr(weights, rounded - weights), abs=0.01)
    assert (alone["done"], alone["how"], alone["low"]) == ("stored as integers", "int8, a scale a channel", None)
    (with_samples,) = _layers(model, scheme="int8-weights").values()
    rows = np.concatenate([sample.feeds["x"][0] for sample in ROWS])
    assert with_samples["sqnr_db"] == pytest.approx(_sqnr(rows @ weights, rows @ (rounded - weights)), abs=0.3)


def _all_kinds(parse: Callable[..., ir.Model], rng: np.random.Generator) -> ir.Model:
    shapes = {
        "few": (3, 3, 3, 3),
        "many": (16, 3, 5, 5),
        "table": (50, 20),
        "matrix": (20, 40),
        "wl": (1, 36, 20),
        "rl": (1, 36, 9),
        "square": (9, 9),
    }
    return parse(ALL_KINDS, **{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})


KINDS = Drawn(
    lambda rng: {
        "x": rng.normal(size=(1, 3, 12, 12)).astype(np.float32),
        "ids": rng.integers(0, 4, (1, 4)),
        "b": np.array(True),
    }
)


def test_every_layer_is_accounted_for(parse: Callable[..., ir.Model], rng: np.random.Generator) -> None:
    model = _all_kinds(parse, rng)
    kinds = {"Conv": "weights", "MatMul": "input", "Gather": "weights", "LSTM": "weights"}
    placement = {"sums_in_int16": False, "candidates": [{"name": "mixed", "layers": kinds}]}

    layers = _layers(model, samples=KINDS, placement=placement)

    assert {(layer["kind"], layer["done"], layer["how"]) for layer in layers.values()} == {
        ("Conv", "float", "its weights are few"),
        ("Conv", "stored as integers", "int8, a scale a channel"),
        ("Gather", "stored as integers", "int8, a scale a channel"),
        ("LSTM", "stored as integers", "int8, a scale a channel; rounded adaptively"),
        ("MatMul", "integers", "range by percentile"),
    }
    errors = [float(layer["sqnr_db"]) for layer in layers.values() if layer["done"] != "float"]
    assert errors == sorted(errors)
    others = _layers(model, samples=KINDS, placement={"candidates": [{"name": "few", "layers": {"Gemm": "input"}}]})
    assert {layer["how"] for layer in others.values() if layer["kind"] == "Conv"} == {
        "the target computes Conv in float"
    }


def test_dynamic_products_and_blocks_are_told(parse: Callable[..., ir.Model], weights: np.ndarray) -> None:
    model = parse(ONE_PRODUCT, w=weights)

    (dynamic,) = _layers(model, scheme="int8-dynamic", samples=None).values()
    (blocks,) = _layers(model, scheme="int4-weights", samples=None).values()

    assert (dynamic["done"], dynamic["sqnr_db"]) == ("dynamic integers", None)
    assert dynamic["weights_db"] == pytest.approx(43, abs=3)
    assert (blocks["done"], blocks["how"]) == ("stored as integers", "int4, a scale for 32 inputs")
    assert blocks["sqnr_db"] == pytest.approx(20, abs=3)


def test_what_missed_the_budget_is_told_with_its_curve(parse: Callable[..., ir.Model], weights: np.ndarray) -> None:
    model = parse(ONE_PRODUCT, w=weights)

    with pytest.raises(BudgetError) as caught:
        _layers(model, max_drop=0.0)

    head, *lines = str(caught.value).splitlines()
    assert head == "no candidate holds the accuracy budget"
    assert lines[0].split()[:5] == ["candidate", "metric", "value", "float", "lost"]
    assert lines[1].split()[:3] == ["int8", "explained", "99.99%"]
    record = caught.value.as_record()
    assert [point["candidate"] for point in record["curve"]][:2] == ["int8", "int8, weights rounded adaptively"]
    assert record["layers"][0]["kind"] == "MatMul"
