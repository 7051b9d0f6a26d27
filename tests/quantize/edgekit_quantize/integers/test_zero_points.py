"""Zero points in biases: the same numbers as with a zero point, and none left for the runtime to take off."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.graph.layers import Layer, layer_of
from edgekit_quantize.integers.qparams import TYPES, asymmetric
from edgekit_quantize.integers.zero_points import shift_of, taken_off, takes_map, takes_shift
from edgekit_quantize.placement import place
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.candidate import write

from ..conftest import Execute

LAYERS = {
    "y = Conv(x, w, b)": ((5, 4, 1, 1), True),
    "y = Conv<strides = [2, 2]>(x, w)": ((5, 4, 2, 2), True),
    "y = Conv<group = 2>(x, w, b)": ((6, 2, 1, 1), True),
    "y = Conv<group = 4>(x, w)": ((4, 1, 2, 2), True),
    "y = Conv<pads = [1, 1, 1, 1]>(x, w, b)": ((5, 4, 3, 3), False),
    'y = Conv<auto_pad = "SAME_UPPER">(x, w, b)': ((5, 4, 3, 3), False),
    "y = ConvTranspose(x, w, b)": ((4, 5, 1, 1), False),
}
PRODUCTS = {
    "m = MatMul(x, w) y = Add(m, b)": True,
    "m = MatMul(x, w) y = Relu(m)": False,
    "y = Gemm(x, w, b)": True,
    "y = Gemm<alpha = 2.0>(x, w, b)": False,
    "y = Gemm<transA = 1>(x, w, b)": False,
}


def _first_layer(model: ir.Model) -> Layer:
    return next(layer for node in model.graph if (layer := layer_of(node)) is not None)


def _settings(**changes: object) -> Settings:
    kinds = ("Conv", "DepthwiseConv", "ConvTranspose", "Gemm", "MatMul")
    data = {"layers": dict.fromkeys(kinds, "input"), "zero_points_in_biases": True, "ranges": {}}
    return Settings.read({**data, **changes})


def _seen(data: np.ndarray) -> TensorStatistics:
    statistics = TensorStatistics()
    statistics.histogram.update(data)
    return statistics


def _zero_points(model: ir.Model) -> tuple[int, int]:
    """Those of the activation's QuantizeLinear and DequantizeLinear."""
    found = {}
    for node in model.graph:
        source = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
        if node.op_type == "QuantizeLinear" or (source is not None and source.op_type == "QuantizeLinear"):
            value = node.inputs[2]
            assert value is not None
            assert value.const_value is not None
            found[node.op_type] = int(value.const_value.numpy())
    return found["QuantizeLinear"], found["DequantizeLinear"]


@pytest.mark.parametrize(("layer", "shape", "moves"), [(text, *rest) for text, rest in LAYERS.items()])
def test_convolutions(
    layer: str,
    shape: tuple[int, ...],
    moves: bool,
    parse: Callable[..., ir.Model],
    execute: Execute,
    rng: np.random.Generator,
) -> None:
    model = parse(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4, 6, 6] x) => (float[1, c, h, v] y) {{ {layer} }}',
        w=rng.normal(size=shape).astype(np.float32),
        b=rng.normal(size=shape[0] if "Transpose" not in layer else shape[1]).astype(np.float32),
    )
    _compare(model, rng.uniform(-1, 3, (1, 4, 6, 6)).astype(np.float32), moves=moves, execute=execute)


@pytest.mark.parametrize(("layer", "moves"), PRODUCTS.items())
def test_products(
    layer: str, moves: bool, parse: Callable[..., ir.Model], execute: Execute, rng: np.random.Generator
) -> None:
    model = parse(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[6, 6] x) => (float[6, 5] y) {{ {layer} }}',
        w=rng.normal(size=(6, 5)).astype(np.float32),
        b=rng.normal(size=5).astype(np.float32),
    )
    _compare(model, rng.uniform(-1, 3, (6, 6)).astype(np.float32), moves=moves, execute=execute)


def _compare(model: ir.Model, data: np.ndarray, *, moves: bool, execute: Execute) -> None:
    assert takes_shift(_first_layer(model)) == moves
    written = [
        write(model, _settings(zero_points_in_biases=moved), {"x": _seen(data)}).model for moved in (False, True)
    ]

    (plain,), (shifted,) = (execute(each, {"x": data}) for each in written)

    np.testing.assert_allclose(shifted, plain, rtol=0, atol=1e-5 * np.abs(plain).max())
    before, after = (_zero_points(each) for each in written)
    assert before[0] == before[1] != 0
    assert after == (before[0], 0 if moves else before[0])


def test_a_constant_is_what_the_weights_make_of_the_shift(parse: Callable[..., ir.Model]) -> None:
    # integers 0 to 255 over -1 to 3: a step of 4/255, 64 of them under 0
    params = asymmetric(-1.0, 3.0, TYPES["uint8"])
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 2] x) => (float[1, 3] y) { y = Gemm(x, w) }',
        w=np.array([[1, 2, 0], [3, -2, 5]], np.float32),
    )

    shift = shift_of(params)
    constant = taken_off(_first_layer(model), np.array([[1, 2, 0], [3, -2, 5]], np.float32), shift)

    assert shift == pytest.approx(64 * 4 / 255)
    np.testing.assert_allclose(constant, -shift * np.array([4, 0, 5]), atol=1e-12)


@pytest.mark.parametrize(
    "others", ["z = Conv<pads = [1, 1, 1, 1]>(x, v)", "z = MaxPool<kernel_shape = [1, 1]>(x)"], ids=["padded", "float"]
)
def test_all_layers_that_read_the_integers_must_agree(
    others: str, parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4, 6, 6] x) => (float[1, c, h, s] y, float[1, d, i, j] z)'
        f" {{ y = Conv(x, w) {others} }}",
        w=rng.normal(size=(5, 4, 1, 1)).astype(np.float32),
        v=rng.normal(size=(5, 4, 3, 3)).astype(np.float32),
    )

    plan = place(model.graph, _settings(moves=()))

    assert plan.shifted == ({"x"} if "MaxPool" in others else set())


def test_ranges_need_not_lie_around_zero_then(parse: Callable[..., ir.Model], rng: np.random.Generator) -> None:
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[6, 6] x) => (float[6, 5] y, float[6, 5] z) '
        "{ m = MatMul(x, w) y = Add(m, b) r = Relu(x) z = MatMul(r, w) }",
        w=rng.normal(size=(6, 5)).astype(np.float32),
        b=rng.normal(size=5).astype(np.float32),
    )

    plan = place(model.graph, _settings(ranges={"MatMul": "around zero"}))

    assert {name: plan.rule(name) for name in ("x", "r")} == {"x": "percentile", "r": "around zero"}


SHORTCUT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4, 6, 6] x) => (float[1, 4, 6, 6] y) {
  c = Conv(x, w)
  d = Conv(c, w)
  e = Conv(d, w)
  y = Add(d, e)
}"""


@pytest.mark.parametrize(("shortcuts", "read_by_add"), [(False, "Conv"), (True, "DequantizeLinear")])
def test_a_shortcut_reads_the_integers_with_their_zero_point(
    shortcuts: bool,
    read_by_add: str,
    parse: Callable[..., ir.Model],
    execute: Execute,
    rng: np.random.Generator,
) -> None:
    model = parse(SHORTCUT, w=rng.normal(size=(4, 4, 1, 1)).astype(np.float32))
    data = rng.uniform(-1, 3, (1, 4, 6, 6)).astype(np.float32)
    for node in list(model.graph)[:2]:  # what c and d take
        model.graph.outputs.append(node.outputs[0])
    y, c, d = execute(model, {"x": data})
    del model.graph.outputs[1:]
    tensors = {name: _seen(array) for name, array in (("x", data), ("c", c), ("d", d))}

    written = write(model, _settings(shortcuts=shortcuts), tensors).model

    add = next(node for node in written.graph if node.op_type == "Add")
    source = add.inputs[0]
    assert source is not None
    assert source.producer().op_type == read_by_add
    (found,) = execute(written, {"x": data})
    assert np.abs(found - y).max() < 0.05 * np.abs(y).max()
    assert [node.op_type for node in written.graph].count("QuantizeLinear") == 3


def test_a_shortcut_of_a_matrix_product_stays_float(parse: Callable[..., ir.Model], rng: np.random.Generator) -> None:
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[6, 6] x) => (float[6, 6] y) '
        "{ m = MatMul(x, w) y = Add(x, m) }",
        w=rng.normal(size=(6, 6)).astype(np.float32),
    )

    assert not place(model.graph, _settings(shortcuts=True)).shortcuts


PADDED = {
    "r = Conv<pads = [1, 1, 1, 1]>(x, w, b)": (5, 4, 3, 3),
    "r = Conv<pads = [2, 0, 1, 3]>(x, w)": (5, 4, 3, 3),
    "r = Conv<pads = [1, 2, 1, 2], strides = [1, 2], dilations = [1, 2]>(x, w, b)": (5, 4, 3, 3),
    'r = Conv<auto_pad = "SAME_LOWER", strides = [2, 2]>(x, w, b)': (5, 4, 2, 2),
    "r = Conv<group = 2, pads = [6, 6, 6, 6]>(x, w, b)": (6, 2, 7, 7),
}
IN_MAPS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 4, 6, 5] x) => (float[2, c, h, v] y) {{ {layer} y = LeakyRelu(r) }}"""


@pytest.mark.parametrize("layer", PADDED)
def test_a_map_behind_a_padded_convolution(
    layer: str, parse: Callable[..., ir.Model], execute: Execute, rng: np.random.Generator
) -> None:
    shape = PADDED[layer]
    b = rng.normal(size=shape[0]).astype(np.float32)
    model = parse(IN_MAPS.format(layer=layer), w=rng.normal(size=shape).astype(np.float32), b=b)
    data = rng.uniform(-1, 3, (2, 4, 6, 5)).astype(np.float32)
    assert takes_map(_first_layer(model))

    plain, moved = (
        write(model, _settings(zero_points_in_maps=in_maps), {"x": _seen(data)}).model for in_maps in (False, True)
    )

    (expected,), (found,) = (execute(each, {"x": data}) for each in (plain, moved))
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5 * np.abs(expected).max())
    quantize, dequantize = _zero_points(plain)
    assert quantize == dequantize != 0
    assert _zero_points(moved) == (quantize, 0)


@pytest.mark.parametrize(
    ("sizes", "shape", "text", "takes"),
    [
        ("40, 219", (40, 40, 39), "c = Conv<pads = [19, 19]>(x, w) y = Relu(c)", True),
        ("40, 219", (40, 40, 39), "y = Conv<pads = [19, 19]>(x, w)", False),  # an output keeps its name
        ("40, n", (40, 40, 39), "c = Conv<pads = [19, 19]>(x, w) y = Relu(c)", False),
        ("4, 72", (8, 4, 9), "c = Conv<pads = [4, 4]>(x, w) y = Relu(c)", True),  # 36 multiplications an output
        ("4, 73", (8, 4, 9), "c = Conv<pads = [4, 4]>(x, w) y = Relu(c)", False),
        ("4, 30", (4, 1, 9), "c = Conv<pads = [4, 4], group = 4>(x, w) y = Relu(c)", False),
        ("40, 219", (40, 40, 1), "c = Conv(x, w) y = Relu(c)", False),
    ],
)
def test_small_maps_of_known_sizes_are_worth_it(
    sizes: str, shape: tuple[int, ...], text: str, takes: bool, parse: Callable[..., ir.Model]
) -> None:
    model = parse(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, {sizes}] x) => (float[1, c, d] y) {{ {text} }}',
        w=np.ones(shape, np.float32),
    )

    assert takes_map(_first_layer(model)) == takes


def test_equal_parts_of_a_map_are_stored_once(parse: Callable[..., ir.Model], rng: np.random.Generator) -> None:
    """The borders are as wide as half of the kernel."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 8, 40] x) => (float[1, 8, 40] y) '
    model = parse(text + "{ r = Conv<pads = [3, 3]>(x, w) y = Relu(r) }", w=rng.normal(size=(8, 8, 7)).astype("f"))
    tensors = {"x": _seen(rng.uniform(-1, 3, (1, 8, 40)).astype(np.float32))}

    graph = write(model, _settings(zero_points_in_maps=True), tensors).model.graph

    (stored,) = (value for name, value in graph.initializers.items() if name.endswith("_shift"))
    assert stored.shape == (1, 8, 3 + 1 + 3)
