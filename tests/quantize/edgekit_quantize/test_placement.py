from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.placement import place
from edgekit_quantize.schemes import different, name_among_different
from edgekit_quantize.settings import Settings

CNN = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 3, 8, 8] x) => (float[1, 10] y) {
  c = Conv(x, w1)
  r = Relu(c)
  p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
  d = Conv<group = 4>(p, w2)
  f = Flatten(d)
  y = MatMul(f, w3)
}"""


@pytest.fixture
def cnn(parse: Callable[..., ir.Model], rng: np.random.Generator) -> ir.Model:
    shapes = {"w1": (4, 3, 3, 3), "w2": (4, 1, 2, 2), "w3": (16, 10)}
    return parse(CNN, **{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})


def test_inputs_alone(cnn: ir.Model) -> None:
    plan = place(cnn.graph, Settings.read({"layers": {"Conv": "input", "MatMul": "input"}, "moves": []}))

    assert set(plan.tensors) == {"x", "f"}
    assert plan.kept_float == {"node_of_d": "the target computes DepthwiseConv in float"} or len(plan.kept_float) == 1


def test_without_a_target_all_that_every_target_stores_is_stored(cnn: ir.Model, parse: Callable[..., ir.Model]) -> None:
    """A bidirectional GRU stayed float, and the file of integers became larger than that of floats."""
    plan = place(cnn.graph, Settings())
    recurrent = parse(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 1, 8] x) => (float[2, 1, 1, 8] y)'
        " { y, h = GRU<hidden_size = 8>(x, w, r) }",
        w=np.zeros((1, 24, 8), np.float32),
        r=np.zeros((1, 24, 8), np.float32),
    )

    assert [layer.kind for layer in plan.layers] == ["Conv", "MatMul"]
    assert [layer.kind for layer in plan.stored] == ["DepthwiseConv"]
    assert place(recurrent.graph, Settings()).beside_layers == {"GRU": "weights"}


def test_outputs_are_taken_behind_what_is_fused(cnn: ir.Model) -> None:
    plan = place(cnn.graph, Settings.read({"layers": {"Conv": "both"}, "moves": []}))

    assert set(plan.tensors) == {"x", "r"}
    assert plan.whole == {"r"}


def test_integers_that_are_moved_keep_one_range(cnn: ir.Model) -> None:
    plan = place(cnn.graph, Settings.read({"layers": {"DepthwiseConv": "input"}, "moves": ["MaxPool"]}))

    assert set(plan.tensors) == {"p", "r"}
    assert plan.range_from == {"p": "r"}
    assert plan.observed() == {"r"}


@pytest.mark.parametrize(("other", "called"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_a_layer_stays_float_where_its_input_holds_nan_or_infinity(cnn: ir.Model, other: float, called: str) -> None:
    tensors = {name: TensorStatistics() for name in ("x", "f")}
    tensors["x"].histogram.update(np.array([1, other], np.float32))
    tensors["f"].histogram.update(np.ones(2, np.float32))

    plan = place(cnn.graph, Settings.read({"layers": {"Conv": "input", "MatMul": "input"}, "moves": []}), (), tensors)

    assert set(plan.tensors) == {"f"}
    assert f"its input holds {called}, which integers cannot represent" in plan.kept_float.values()


def test_so_they_do_through_a_chain_of_moves(parse: Callable[..., ir.Model]) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 8, 8] x) => (float[1, 5, 2, 2] y) {
      r = Relu(x)
      a = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
      b = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(a)
      y = Conv(b, w)
    }"""
    model = parse(text, w=np.ones((5, 3, 1, 1), np.float32))

    plan = place(model.graph, Settings.read({"layers": {"Conv": "input"}, "moves": ["MaxPool"]}))

    assert plan.range_from == {"a": "r", "b": "r"}
    assert plan.observed() == {"r"}


def test_convolutions_of_few_channels_stay_float(cnn: ir.Model) -> None:
    settings = {"layers": {"Conv": "input", "DepthwiseConv": "input"}, "moves": []}

    assert set(place(cnn.graph, Settings.read({**settings, "fewest_channels": 3})).tensors) == {"x", "p"}
    assert set(place(cnn.graph, Settings.read({**settings, "fewest_channels": 4})).tensors) == {"p"}


@pytest.mark.parametrize("several", [False, True])
def test_products_of_several_matrices_store_their_weights(parse: Callable[..., ir.Model], several: bool) -> None:
    """ONNX Runtime runs no product of integers whose weights have three axes and a scale for each column."""
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[4, 2, 8] x) => (float[4, 2, 8] y)'
        " { e = MatMul(x, w) y = MatMul(e, v) }",
        w=np.ones((4, 8, 8), np.float32),
        v=np.ones((8, 8), np.float32),
    )

    plan = place(model.graph, Settings.read({"layers": {"MatMul": "input"}, "several_matrices": several}))

    assert [layer.output.name for layer in plan.layers] == (["e", "y"] if several else ["y"])
    assert [layer.output.name for layer in plan.stored] == ([] if several else ["e"])


@pytest.mark.parametrize(("fewest", "quantized"), [(4, set()), (3, {"x", "r"})])
def test_depthwise_convolutions_behind_those_of_few_channels_compute_as_they_do(
    fewest: int, quantized: set[str], parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 8, 8] x) => (float[1, 8, 8, 8] y) {
      c = Conv(x, w)
      r = Relu(c)
      y = Conv<group = 8>(r, v)
    }"""
    model = parse(
        text,
        w=rng.normal(size=(8, 3, 1, 1)).astype(np.float32),
        v=rng.normal(size=(8, 1, 1, 1)).astype(np.float32),
    )
    layers = {"Conv": "input", "DepthwiseConv": "input"}

    plan = place(model.graph, Settings.read({"layers": layers, "fewest_channels": fewest}))

    assert set(plan.tensors) == quantized


@pytest.mark.parametrize(("mode", "root"), [("nearest", "r"), ("linear", "z")])
def test_integers_go_through_a_resize_that_takes_the_nearest(
    mode: str, root: str, parse: Callable[..., ir.Model]
) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 4, 4] x) => (float[1, 5, 8, 8] y) {{
      r = Relu(x)
      z = Resize<mode = "{mode}">(r, , s)
      y = Conv(z, w)
    }}"""
    model = parse(text, w=np.ones((5, 3, 1, 1), np.float32), s=np.array([1, 1, 2, 2], np.float32))

    plan = place(model.graph, Settings.read({"layers": {"Conv": "input"}, "moves": ["Resize"]}))

    assert plan.observed() == {root}


@pytest.mark.parametrize(("between", "quantized"), [("HardSwish", {"q"}), ("Softmax", {"h", "q"})])
def test_so_do_depthwise_ones_right_behind_them(
    between: str, quantized: set[str], parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 8, 8] x) => (float[1, 4, 8, 8] y) {{
      c = Conv(x, w1)
      h = {between}(c)
      d = Conv<group = 4>(h, w2)
      p = Relu(d)
      q = Conv<group = 4>(p, w3)
      y = Conv<group = 4>(q, w3)
    }}"""
    shapes = {"w1": (4, 3, 1, 1), "w2": (4, 1, 1, 1), "w3": (4, 1, 1, 1)}
    model = parse(text, **{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})

    plan = place(
        model.graph, Settings.read({"layers": {"DepthwiseConv": "input", "Conv": "input"}, "fewest_channels": 5})
    )

    assert set(plan.tensors) == {*quantized, "p"}


def test_layers_kept_in_float_store_their_weights(cnn: ir.Model) -> None:
    settings = Settings.read({"layers": {"Conv": "input"}})
    name = place(cnn.graph, settings).layers[0].name

    plan = place(cnn.graph, settings, [name])

    assert not plan.tensors
    assert [layer.name for layer in plan.stored] == [name]


def test_a_value_that_a_branch_reads_is_not_quantized_whole(parse: Callable[..., ir.Model]) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 4, 4] x, bool b) => (float[1, 2, 4, 4] y) {
      c = Conv(x, w)
      y = If(b) <then_branch = t () => (float[1, 2, 4, 4] u) { u = Relu(c) },
                 else_branch = e () => (float[1, 2, 4, 4] v) { v = Neg(c) }>
    }"""
    model = parse(text, w=np.ones((2, 3, 1, 1), np.float32))

    plan = place(model.graph, Settings.read({"layers": {"Conv": "both"}}))

    assert set(plan.tensors) == {"x"}


@pytest.mark.parametrize(("inputs", "names"), [(4, ["without", "with first ones"]), (5, ["without"])])
def test_candidates_that_treat_every_layer_alike_are_one(
    inputs: int, names: list[str], parse: Callable[..., ir.Model]
) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, {inputs}, 8, 8] x) => (float[1, 4, 8, 8] y) {{
      c = Conv(x, w)
      y = Conv(c, v)
    }}"""
    model = parse(text, w=np.ones((8, inputs, 1, 1), np.float32), v=np.ones((4, 8, 1, 1), np.float32))
    data = {"layers": {"Conv": "input"}, "fewest_channels": 5}
    candidates = {
        "without": Settings.read(data),
        "with first ones": Settings.read({**data, "fewest_channels": 0}),
    }

    assert [*different(candidates, model.graph)] == names


@pytest.mark.parametrize(("body", "names"), [("y = MatMul(x, w)", 1), ("y = Gemm(x, w, b)", 2)])
def test_candidates_that_differ_in_the_type_of_biases_are_one_where_no_layer_adds_one(
    body: str, names: int, parse: Callable[..., ir.Model]
) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4] x) => (float[1, 4] y) {{ {body} }}'
    model = parse(text, w=np.ones((4, 4), np.float32), b=np.ones(4, np.float32))
    layers = {"MatMul": "input", "Gemm": "input"}
    candidates = {bias: Settings.read({"layers": layers, "bias": bias}) for bias in ("float", "int32")}

    assert len(different(candidates, model.graph)) == names


@pytest.mark.parametrize(
    ("body", "names"), [("p = MatMul(x, w) y = Add(p, x)", 1), ("c = Conv(x, k) y = Add(c, x)", 2)]
)
def test_candidates_that_differ_in_shortcuts_are_one_where_no_convolution_computes_with_integers(
    body: str, names: int, parse: Callable[..., ir.Model]
) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4, 4] x) => (float[1, 4, 4] y) {{ {body} }}'
    model = parse(text, w=np.ones((4, 4), np.float32), k=np.ones((4, 4, 1), np.float32))
    data = {"layers": {"MatMul": "input", "Conv": "input"}}
    candidates = {str(shortcuts): Settings.read({**data, "shortcuts": shortcuts}) for shortcuts in (False, True)}

    assert len(different(candidates, model.graph)) == names


@pytest.mark.parametrize(
    ("choice", "kept"),
    [
        ("integers", "integers"),
        ("integers, biases too", "integers"),
        ("integers, biases too, 2 layers in float", "integers, 2 layers in float"),
        ("integers, 2 layers in float", "integers, 2 layers in float"),
        ("integers, biases too few", "integers, biases too few"),
        ("stored", "stored"),
        ("weights only", "weights only"),
        ("unheard of", "unheard of"),
    ],
)
def test_a_choice_that_comes_to_the_same_as_another_candidate_is_called_as_that_one(
    choice: str, kept: str, parse: Callable[..., ir.Model]
) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4] x) => (float[1, 4] y) { y = MatMul(x, w) }'
    model = parse(text, w=np.ones((4, 4), np.float32))
    layers = {"MatMul": "input"}
    candidates = {
        "integers": Settings.read({"layers": layers, "bias": "float"}),
        "integers, biases too": Settings.read({"layers": layers, "bias": "int32"}),
        "stored": Settings.read({"layers": {"MatMul": "weights"}}),
    }

    assert name_among_different(choice, candidates, model.graph) == kept


@pytest.mark.parametrize(("body", "names"), [("c, y = LSTM<hidden_size = 4>(x, w, v)", 2), ("y = Neg(x)", 1)])
def test_candidates_that_differ_in_nodes_which_a_model_lacks_are_one(
    body: str, names: int, parse: Callable[..., ir.Model]
) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, 1, 4] x) => (float[1, 1, 4] y) {{ {body} }}'
    model = parse(text, w=np.ones((1, 16, 4), np.float32), v=np.ones((1, 16, 4), np.float32))
    candidates = {mode: Settings.read({"layers": {"LSTM": mode}}) for mode in ("weights", "dynamic")}

    assert len(different(candidates, model.graph)) == names


@pytest.mark.parametrize(("dtype", "name"), [(np.float32, "integers"), (np.float16, "weights only")])
def test_a_candidate_whose_layers_all_stay_float_is_not_called_after_integers(
    dtype: type[np.floating], name: str, parse: Callable[..., ir.Model]
) -> None:
    """Half precision has no integer kernels: its layers store weights."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g ({np.dtype(dtype).name}[1, 8] x) => ({np.dtype(dtype).name}[1, 4] y) {{ y = MatMul(x, w) }}"""
    model = parse(text.replace("float32", "float"), w=np.ones((8, 4), dtype))

    assert [*different({"integers": Settings.read({"layers": {"MatMul": "input"}})}, model.graph)] == [name]


def test_candidates_of_an_lstm_alone_that_differ_are_both_measured(parse: Callable[..., ir.Model]) -> None:
    """One stores its weights, the other one multiplies integers; neither has a layer whose range samples tell."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 1, 4] x) => (float[1, 1, 4] y) { c, y = LSTM<hidden_size = 4>(x, w, v) }"""
    model = parse(text, w=np.ones((1, 16, 4), np.float32), v=np.ones((1, 16, 4), np.float32))
    modes = {"integers": "weights", "integers again": "weights", "ranges of the moment": "dynamic"}
    candidates = {name: Settings.read({"layers": {"MatMul": "input", "LSTM": mode}}) for name, mode in modes.items()}

    left = {name: settings.layers["LSTM"] for name, settings in different(candidates, model.graph).items()}

    assert left == {"weights only": "weights", "ranges of the moment": "dynamic"}
