"""Half precision for what is stored, on operators that half precision in the arithmetic breaks or is not known to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.data.samples import Sample
from edgekit.errors import InternalError, RequirementError
from edgekit.model import Model
from edgekit.quantizer import QuantizationRequest
from edgekit_quantize.plugin import PostTrainingQuantizer
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.candidate import write
from edgekit_quantize.writing.float16 import half_db

HARD = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 8, 6, 6] x, bool b, int64 n) => (float[1, 16, 12, 12] y, float[1, 6, 6, 80] z, float[1, 8, 6, 40] s) {
  c = Conv<pads = [1, 1, 1, 1]>(x, w)
  y = Resize<mode = "linear">(c, , scales)
  z = If(b) <then_branch = t () => (float[1, 6, 6, 80] u) {
               p = Transpose<perm = [0, 2, 3, 1]>(x)
               u = MatMul(p, matrix)
             }, else_branch = e () => (float[1, 6, 6, 80] v) {
               q = Transpose<perm = [0, 3, 2, 1]>(x)
               v = MatMul(q, matrix)
             }>
  first = MatMul(x, other)
  s = Loop(n, go, first) <body = l (int64 i, bool before, float[1, 8, 6, 40] state) =>
                                   (bool after, float[1, 8, 6, 40] next) {
    after = Identity(before)
    m = MatMul(state, square)
    next = Tanh(m)
  }>
}"""


@pytest.fixture
def hard(parse: Callable[..., ir.Model], rng: np.random.Generator) -> ir.Model:
    shapes = {"w": (16, 8, 3, 3), "matrix": (8, 80), "other": (6, 40), "square": (40, 40)}
    weights = {name: (rng.normal(size=shape) / 6).astype(np.float32) for name, shape in shapes.items()}
    return parse(HARD, **weights, scales=np.array([1, 1, 2, 2], np.float32), go=np.array(True))


def _half(model: ir.Model) -> tuple[Model, dict[str, str]]:
    result = PostTrainingQuantizer().quantize(QuantizationRequest(Model(model), "float16", None))
    onnx.checker.check_model(result.model.proto(), full_check=True)
    return result.model, {layer["layer"]: layer["done"] for layer in result.record["layers"]}


@pytest.mark.parametrize("taken", [True, False])
def test_branches_loops_and_resizes_compute_what_they_did(
    hard: ir.Model, execute: Callable[..., list[np.ndarray]], rng: np.random.Generator, taken: bool
) -> None:
    small, done = _half(hard)

    assert done == dict.fromkeys(("w", "matrix", "square"), "stored as float16")
    feeds = {"x": rng.normal(size=(1, 8, 6, 6)).astype(np.float32), "b": np.array(taken), "n": np.array(3)}
    for right, near in zip(execute(hard, feeds), execute(small.graph_model, feeds), strict=True):
        assert np.linalg.norm(near - right) < 1e-3 * np.linalg.norm(right)


def test_numbers_that_half_precision_lacks_stay(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 32] x) => (float[1, 32] y, float[1, 32] z, float[1, 32] v) {
      y = MatMul(x, large)  z = MatMul(x, tiny)  v = MatMul(x, plain)
    }"""
    plain = rng.normal(size=(32, 32)).astype(np.float32)
    model = parse(text, large=plain * 1e5, tiny=plain * 1e-7, plain=plain)

    small, done = _half(model)

    assert done == {"plain": "stored as float16", "large": "float", "tiny": "float"}
    feeds = {"x": rng.normal(size=(1, 32)).astype(np.float32)}
    for right, near in zip(execute(model, feeds), execute(small.graph_model, feeds), strict=True):
        np.testing.assert_allclose(near, right, rtol=0, atol=2e-3 * np.abs(right).max())


def test_the_error_of_half_precision_is_that_of_eleven_bits() -> None:
    numbers = np.linspace(1, 2, 100_001, dtype=np.float32)
    # between 1 and 2 its steps are 2**-10, the error of rounding is uniform within half of them: step**2 / 12
    expected = 10 * np.log10(np.mean(numbers.astype(np.float64) ** 2) / (2.0**-20 / 12))

    assert half_db(numbers) == pytest.approx(expected, abs=0.05)
    assert half_db(np.array([1e6], np.float32)) == -np.inf


TWO_PRODUCTS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 32] x) => (float[4, 600] z) {
  y = MatMul(x, first)  r = Relu(y)  p = MatMul(r, second)  q = Add(p, offset)  z = Tanh(q)
}"""


class Drawn:
    has_labels = False

    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Iterator[Sample]:
        rng = np.random.default_rng(3)
        for number in range(len(self)):
            yield Sample(str(number), {"x": rng.normal(size=(4, 32)).astype(np.float32)})


@pytest.fixture
def two_products(parse: Callable[..., ir.Model], rng: np.random.Generator) -> ir.Model:
    shapes = {"first": (32, 32), "second": (32, 600), "offset": (600,)}
    return parse(TWO_PRODUCTS, **{name: (rng.normal(size=s) / 6).astype(np.float32) for name, s in shapes.items()})


def _types(model: ir.Model) -> dict[str, ir.DataType]:
    return {name: value.dtype for name, value in model.graph.initializers.items() if value.dtype is not None}


def test_what_stays_float_beside_integers_is_stored_in_half_precision_where_the_target_says_so(
    two_products: ir.Model, execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    two_products.graph[2].name = "kept"
    settings = Settings(layers={"MatMul": "weights"}, float_weights="float16")

    wide = write(two_products, replace(settings, float_weights="float32"), {}, ("kept",)).model
    written = write(two_products, settings, {}, ("kept",))

    changed = {name for name, dtype in _types(wide).items() if _types(written.model)[name] != dtype}
    assert changed == {"second"}  # scales and the offset, which has 600 numbers too, stay
    assert _types(written.model)["second"] is ir.DataType.FLOAT16
    assert [*written.kept_float] == ["kept"]
    feeds = {"x": rng.normal(size=(4, 32)).astype(np.float32)}
    (exact,), (found,) = (execute(model, feeds) for model in (wide, written.model))
    assert np.linalg.norm(found - exact) < 1e-3 * np.linalg.norm(exact)


@pytest.mark.parametrize("widened", [True, False])
def test_auto_ends_in_half_precision_where_no_integers_hold_the_budget(two_products: ir.Model, widened: bool) -> None:
    """8 bits are good for 40 dB or so, 11 bits for 70: of the power 1e-4 and 1e-7 are lost, of which 1e-5 may be."""
    placement = {"float_weights": "float16"} if widened else {}
    model = Model(two_products)

    result = PostTrainingQuantizer().quantize(
        QuantizationRequest(model, "auto", Drawn(), max_drop=1e-5, placement=placement)
    )

    tried = [point["candidate"] for point in result.record["curve"]]
    if widened:
        assert (result.record["scheme"], tried[-1]) == ("float16", "weights in half precision")
        assert set(result.record["stored"]) == {"first", "second", "offset"}
        assert result.model.weight_bytes < 0.51 * model.weight_bytes
    else:
        assert result.record["scheme"] == "none"
        assert "weights in half precision" not in tried


def test_int8_is_never_half_precision(two_products: ir.Model) -> None:
    placement = {"float_weights": "float16"}
    with pytest.raises(RequirementError, match="budget"):
        PostTrainingQuantizer().quantize(
            QuantizationRequest(Model(two_products), "int8", Drawn(), max_drop=1e-5, placement=placement)
        )


def test_a_type_that_weights_are_not_stored_in_is_an_error_of_the_target() -> None:
    with pytest.raises(InternalError, match="no type 'bfloat16' for float weights"):
        Settings.read({"float_weights": "bfloat16"})


def test_half_precision_may_be_the_choice_where_integers_hold_the_budget_too(two_products: ir.Model) -> None:
    def scheme_of(**asked: str) -> object:
        placement = {"float_weights": "float16"}
        request = QuantizationRequest(Model(two_products), "auto", Drawn(), max_drop=0.5, placement=placement, **asked)
        return PostTrainingQuantizer().quantize(request).record["scheme"]

    assert scheme_of() == "int8"
    assert scheme_of(choice="weights in half precision") == "float16"


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("of_one_candidate", [True, False])
@pytest.mark.parametrize("half_weights", [True, False])
def test_weights_stay_float32_where_the_user_asks_for_it(
    two_products: ir.Model, sized: bool, of_one_candidate: bool, half_weights: bool
) -> None:
    """Whether the target has half precision for all candidates or for one; none of them quantizes what is there."""
    half, none = {"float_weights": "float16"}, dict[str, str]()
    placement = {
        **(none if of_one_candidate and not sized else half),
        "candidates": [{"name": "tables", "layers": {"Gather": "weights"}, **(half if of_one_candidate else none)}],
        "stored_forms": {"float_bytes": 4, "forms": [{"name": "int8", "bits": 8}]},
    }

    result = PostTrainingQuantizer().quantize(
        QuantizationRequest(
            Model(two_products),
            "auto",
            Drawn(),
            max_drop=1e-5,
            placement=placement,
            smallest=sized,
            half_weights=half_weights,
        )
    )

    assert (ir.DataType.FLOAT16 in _types(result.model.graph_model).values()) is half_weights
