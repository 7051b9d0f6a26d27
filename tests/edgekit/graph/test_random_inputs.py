from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.random_inputs import with_random_inputs
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model


def _parsed(text: str) -> Model:
    return infer_shapes(Model(ir.from_proto(onnx.parser.parse_model(text))))


def _run(model: Model, **feeds: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, feeds)
    return np.asarray(result)


HEAD = '<ir_version: 8, opset_import: ["" : 15]> draws '


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("RandomNormalLike <mean = 2.0, scale = 3.0> (x)", "normal with mean 2 and standard deviation 3"),
        ("RandomNormal <shape = [2, 3]> ()", "normal with mean 0 and standard deviation 1"),
        ("RandomUniformLike <low = -1.0, high = 4.0> (x)", "uniform from -1 to 4"),
        ("RandomUniform <shape = [2, 3]> ()", "uniform from 0 to 1"),
    ],
)
def test_what_a_node_drew_is_an_input(call: str, words: str) -> None:
    model = _parsed(f"{HEAD} (float[2, 3] x) => (float[2, 3] y) {{ n = {call} y = Add(x, n) }}")
    changed, drawers = with_random_inputs(model)
    assert [str(spec) for spec in changed.inputs] == ["x: float32 2×3", "random_numbers: float32 2×3"]
    assert list(drawers) == ["random_numbers"]
    assert str(changed.drawn["random_numbers"]) == words
    x, noise = np.random.default_rng(0).standard_normal((2, 2, 3)).astype(np.float32)
    np.testing.assert_array_equal(_run(changed, x=x, random_numbers=noise), x + noise)
    assert [spec.name for spec in model.inputs] == ["x"]


def test_numbers_that_the_model_returns_become_an_input_too() -> None:
    changed, _ = with_random_inputs(_parsed(f"{HEAD} (float[4] x) => (float[4] y) {{ y = RandomUniformLike(x) }}"))
    noise = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(_run(changed, x=noise, random_numbers=noise), noise)


def test_several_nodes_get_an_input_each_of_an_own_name() -> None:
    body = "random_numbers_2 = RandomNormalLike(x) b = RandomNormalLike(x) c = Add(random_numbers_2, b) y = Add(c, x)"
    changed, drawers = with_random_inputs(_parsed(f"{HEAD} (float[4] x) => (float[4] y) {{ {body} }}"))
    assert list(drawers) == ["random_numbers", "random_numbers_3"]
    x, first, second = np.eye(3, 4, dtype=np.float32)
    found = _run(changed, x=x, random_numbers=first, random_numbers_3=second)
    np.testing.assert_array_equal(found, [1, 1, 1, 0])


def test_an_open_size_is_that_of_the_other_inputs() -> None:
    changed, _ = with_random_inputs(
        _parsed(f"{HEAD} (float[N, 2] x) => (float[N, 2] y) {{ n = RandomNormalLike(x) y = Add(x, n) }}")
    )
    assert changed.inputs[1].shape == ("N", 2)


def test_draws_from_classes_have_the_frequencies_that_the_operator_gives() -> None:
    call = "y = Multinomial <dtype = 7, sample_size = 20000, seed = 1.0> (x)"
    model = _parsed(f"{HEAD} (float[2, 4] x) => (int64[2, 20000] y) {{ {call} }}")
    changed, _ = with_random_inputs(model)
    logits = np.array([[0.0, 1.0, 2.0, -1.0], [3.0, 3.0, -2.0, 0.0]], np.float32)
    noise = changed.drawn["random_numbers"].numbers((2, 20000, 4), np.random.default_rng(0)).astype(np.float32)
    of_operator, of_input = _run(model, x=logits), _run(changed, x=logits, random_numbers=noise)
    assert of_operator.shape == of_input.shape
    assert of_operator.dtype == of_input.dtype
    for row in range(2):
        frequencies = [np.bincount(found[row], minlength=4) / 20000 for found in (of_operator, of_input)]
        np.testing.assert_allclose(frequencies[1], frequencies[0], atol=0.015)  # four standard deviations


def test_zeros_draw_the_likeliest_class() -> None:
    model = _parsed(f"{HEAD} (float[2, 4] x) => (int32[2, 1] y) {{ y = Multinomial(x) }}")
    changed, _ = with_random_inputs(model)
    logits = np.array([[0.0, 1.0, 2.0, -1.0], [3.0, 2.0, -2.0, 0.0]], np.float32)
    found = _run(changed, x=logits, random_numbers=np.zeros((2, 1, 4), np.float32))
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, [[2], [0]])


def test_a_coin_is_a_uniform_number_below_the_probability() -> None:
    changed, _ = with_random_inputs(_parsed(f"{HEAD} (float[3] x) => (float[3] y) {{ y = Bernoulli(x) }}"))
    found = _run(changed, x=np.full(3, 0.5, np.float32), random_numbers=np.array([0.2, 0.5, 0.9], np.float32))
    np.testing.assert_array_equal(found, [1, 0, 0])


@pytest.mark.parametrize(
    "body",
    [
        "i = NonZero(x) f = Cast <to = 1> (i) n = RandomNormalLike(f) z = ReduceSum <keepdims = 0> (n) y = Mul(x, z)",
        "b = Constant <value = bool {1}> () "
        "y = If (b) <then_branch = t () => (float[4] a) { a = RandomNormalLike(x) }, "
        "else_branch = e () => (float[4] b) { b = Identity(x) }>",
    ],
    ids=["computed size", "in a branch"],
)
def test_other_draws_stay(body: str) -> None:
    model = _parsed(f"{HEAD} (float[4] x) => (float[?] y) {{ {body} }}")
    changed, drawers = with_random_inputs(model)
    assert not drawers
    assert changed is model
