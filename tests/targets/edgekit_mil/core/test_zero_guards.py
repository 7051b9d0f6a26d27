from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit_coreml
from edgekit_mil.core.mil import Function, Program, ct, mb, types
from edgekit_mil.core.zero_guards import guarded_divisions

SILENCE = np.zeros((2, 4), np.float32)
QUIET = np.full((2, 4), 1e-4, np.float32)


def converted(steps: str, tmp_path: Path, guard: float) -> edgekit_coreml.Runner:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 18]> g (float[2, 4] x) => (float[2, 4] y)
        <float e = {{{guard}}}, float zero = {{0.0}}, float half = {{0.5}}, float two = {{2.0}},
         float less_half = {{-0.5}},
         float one = {{1.0}}, int64[1] axes = {{1}}> {{ {steps} }}"""
    )
    return edgekit_coreml.load(edgekit_coreml.convert(model, tmp_path / "model", precision="float16"))


@pytest.mark.parametrize(
    "steps",
    [
        "s = ReduceSum (x, axes) t = Add (s, e) y = Div (x, t)",
        "s = ReduceSum (x, axes) t = Sub (s, e) y = Div (x, t)",
        "s = ReduceL2 (x, axes) t = Max (s, e) y = Div (x, t)",
        "s = ReduceL2 (x, axes) t = Clip (s, e) y = Div (x, t)",
        "z = Equal (x, zero) t = Where (z, e, x) y = Div (x, t)",
        "a = Abs (x) t = Add (a, e) r = Pow (t, half) y = Div (x, r)",
        "s = ReduceSum (x, axes) t = Add (s, e) u = Unsqueeze (t, axes) v = Squeeze (u, axes) y = Div (x, v)",
        "q = Mul (x, x) s = ReduceMean (q, axes) t = Add (s, e) r = Sqrt (t) i = Reciprocal (r) y = Mul (x, i)",
        "m = ReduceMean (x, axes) d = Sub (x, m) q = Mul (d, d) v = ReduceMean (q, axes) t = Add (v, e) r = Sqrt (t) "
        "y = Div (d, r)",
    ],
)
def test_silence_divided_by_its_loudness_is_silence(steps: str, tmp_path: Path) -> None:
    found = converted(steps, tmp_path, 1e-12).run({"x": SILENCE})["y"]
    np.testing.assert_array_equal(found, SILENCE)


@pytest.mark.parametrize(
    "size",
    [
        "s = ReduceL2 (t, axes)",
        "s = ReduceL1 (t, axes)",
        "s = ReduceMax (t, axes)",
        "s = ReduceMin (t, axes)",
        "q = ReduceSumSquare (t, axes) s = Sqrt (q)",
        "q = Pow (t, two) m = ReduceMean (q, axes) s = Sqrt (m)",
        "s = Abs (t)",
        "s = Atan (t)",
        "s = Clip (t, zero)",
        "s = Relu (t)",
        "s = Max (t, x)",
        "s = Div (t, two)",
        "b = Greater (t, zero) s = Where (b, t, one)",
        "s = Add (t, x)",
        "a = Abs (x) u = Add (t, a) v = Sub (u, x) s = Sqrt (v)",
    ],
)
def test_silence_divided_by_the_size_of_what_is_guarded_is_silence(size: str, tmp_path: Path) -> None:
    """Rodrigues' formula turns by the length of ``axis + 1e-8``: a body at rest has zeros."""
    found = converted(f"t = Add (x, e) {size} y = Div (x, s)", tmp_path, 1e-8).run({"x": SILENCE})["y"]
    np.testing.assert_array_equal(found, SILENCE)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("n = Sin (t) y = Div (n, t)", 1.0),
        ("n = Tanh (t) y = Div (n, t)", 1.0),
        ("n = ReduceL2 (t, axes) y = Div (t, n)", 0.5),
    ],
)
def test_what_is_guarded_divided_by_itself(steps: str, expected: float, tmp_path: Path) -> None:
    found = converted(f"t = Add (x, e) {steps}", tmp_path, 1e-8).run({"x": SILENCE})["y"]
    np.testing.assert_allclose(found, np.full((2, 4), expected), rtol=1e-3)


@pytest.mark.parametrize("guard", ["t = Add (a, e)", "t = Max (a, e)", "t = Clip (a, e)"])
def test_the_logarithm_of_silence_is_that_of_the_guard(guard: str, tmp_path: Path) -> None:
    found = converted(f"a = Abs (x) {guard} y = Log (t)", tmp_path, 1e-10).run({"x": SILENCE})["y"]
    np.testing.assert_allclose(found, np.full((2, 4), -23.026), rtol=1e-3)


@pytest.mark.parametrize("bound", [-100, -1e6])
@pytest.mark.parametrize("steps", ["y = Max (l, e)", "y = Clip (l, e)", "u = Squeeze (l) y = Max (u, e)"])
def test_a_logarithm_above_a_bound(steps: str, bound: float, tmp_path: Path) -> None:
    """float16 has zero for 1e-8, whose logarithm is -18.42."""
    run = converted(f"l = Log (x) {steps}", tmp_path, bound).run
    np.testing.assert_allclose(run({"x": np.full((2, 4), 1e-8, np.float32)})["y"], np.full((2, 4), -18.421), rtol=1e-3)
    np.testing.assert_allclose(run({"x": SILENCE})["y"], np.full((2, 4), bound), rtol=1e-3)


@pytest.mark.parametrize(
    "steps",
    [
        "b = Equal (x, zero) i = Reciprocal (x) w = Where (b, zero, i) y = Mul (x, w)",
        "b = Equal (x, zero) c = Not (b) i = Div (one, x) w = Where (c, i, zero) y = Mul (w, x)",
        "b = Greater (x, zero) i = Pow (x, less_half) w = Where (b, i, zero) v = Mul (w, x) y = Mul (v, w)",
    ],
)
@pytest.mark.parametrize("number", [0.0, 3e-8, 1e-6, 1e-3])
def test_the_reciprocal_of_what_is_not_zero(steps: str, number: float, tmp_path: Path) -> None:
    x = np.full((2, 4), number, np.float32)
    found = converted(steps, tmp_path, 1).run({"x": x})["y"]
    np.testing.assert_allclose(found, np.full((2, 4), float(number > 0)), rtol=2e-3)


def test_what_makes_small_numbers_is_kept_with_their_guard(tmp_path: Path) -> None:
    """The squares are 1e-8, as is the guard: 1e-4 / sqrt(4 * 1e-8 + 1e-8)."""
    steps = "q = Mul (x, x) s = ReduceSum (q, axes) t = Add (s, e) r = Sqrt (t) y = Div (x, r)"
    found = converted(steps, tmp_path, 1e-8).run({"x": QUIET})["y"]
    np.testing.assert_allclose(found, np.full((2, 4), 5**-0.5), rtol=1e-3)


@pytest.mark.parametrize(
    "steps",
    [
        "r = Sqrt (s) i = Reciprocal (r) t = Min (i, e) y = Mul (x, t)",
        "r = Sqrt (s) i = Div (one, r) t = Min (e, i) y = Mul (x, t)",
        "r = Pow (s, less_half) t = Clip (r, zero, e) y = Mul (x, t)",
        "r = Sqrt (s) i = Reciprocal (r) u = Unsqueeze (i, axes) v = Squeeze (u, axes) t = Min (v, e) y = Mul (x, t)",
        "b = Greater (s, zero) r = Sqrt (s) i = Reciprocal (r) t = Where (b, i, e) y = Mul (x, t)",
        "r = Sqrt (s) n = Exp (zero) a = Add (x, n) m = Sub (a, x) i = Div (m, r) t = Min (i, e) y = Mul (x, t)",
    ],
)
@pytest.mark.parametrize("bound", [6e3, 1e6])
def test_a_bounded_reciprocal_of_a_root(steps: str, bound: float, tmp_path: Path) -> None:
    """1e-4 / sqrt(4 * 1e-8), and zeros times the bound."""
    run = converted(f"q = Mul (x, x) s = ReduceSum (q, axes) {steps}", tmp_path, bound).run
    np.testing.assert_array_equal(run({"x": SILENCE})["y"], SILENCE)
    np.testing.assert_allclose(run({"x": QUIET})["y"], np.full((2, 4), 0.5), rtol=2e-3)


@pytest.mark.parametrize(
    "steps",
    [
        "b = Less (s, e) r = Sqrt (s) d = Div (x, r) y = Where (b, zero, d)",
        "b = GreaterOrEqual (s, e) r = Sqrt (s) d = Div (x, r) y = Where (b, d, zero)",
        "b = Less (e, s) r = Sqrt (s) i = Reciprocal (r) t = Where (b, i, zero) y = Mul (x, t)",
        "b = Less (s, e) l = Log (s) y = Where (b, x, l)",
    ],
)
def test_what_is_divided_by_is_compared_with_a_small_number(steps: str, tmp_path: Path) -> None:
    found = converted(f"q = Mul (x, x) s = ReduceSum (q, axes) {steps}", tmp_path, 1e-8).run({"x": SILENCE})["y"]
    np.testing.assert_array_equal(found, SILENCE)


def test_a_quotient_above_a_small_number_is_as_in_float32(tmp_path: Path) -> None:
    steps = "b = Greater (s, e) r = Sqrt (s) d = Div (x, r) y = Where (b, d, zero)"
    found = converted(f"q = Mul (x, x) s = ReduceSum (q, axes) {steps}", tmp_path, 1e-8).run({"x": QUIET})["y"]
    np.testing.assert_allclose(found, np.full((2, 4), 0.5), rtol=1e-3)


@pytest.mark.parametrize("bound", [np.float32(-1e9), np.float32(1e3)])
def test_masks_of_quotients_and_bounds_that_float16_reaches_keep_nothing_in_float32(bound: np.float32) -> None:
    with Function(
        {name: mb.placeholder(shape=(4,)) for name in "xy"} | {"mask": mb.placeholder(shape=(4,), dtype=types.bool)},
        ct.target.iOS18,
    ) as function:
        x, y, mask = (function.inputs[name] for name in ("x", "y", "mask"))
        if bound < 0:
            result = mb.select(cond=mask, a=mb.real_div(x=x, y=y), b=bound)
        else:
            result = mb.mul(x=mb.minimum(x=mb.real_div(x=x, y=y), y=bound), y=x)
        function.set_outputs([result])
    program = Program()
    program.add_function("main", function)
    assert guarded_divisions(program) == frozenset()


@pytest.mark.parametrize("constant", [1e-6, np.array([1e-9, 1, 1, 1])])
def test_constants_that_float16_has_keep_nothing_in_float32(constant: float | np.ndarray) -> None:
    """Nor does a bias in which one number is tiny keep anything in float32."""
    with Function({"x": mb.placeholder(shape=(4,))}, ct.target.iOS18) as function:
        x = function.inputs["x"]
        function.set_outputs([mb.real_div(x=x, y=mb.add(x=x, y=np.float32(constant)))])
    program = Program()
    program.add_function("main", function)
    assert guarded_divisions(program) == frozenset()


def test_a_tiny_number_that_nothing_divides_by_keeps_nothing_in_float32() -> None:
    with Function({"x": mb.placeholder(shape=(4,))}, ct.target.iOS18) as function:
        total = mb.add(x=function.inputs["x"], y=np.float32(1e-9))
        function.set_outputs([mb.real_div(x=mb.sqrt(x=total), y=np.float32(2))])
    program = Program()
    program.add_function("main", function)
    assert guarded_divisions(program) == frozenset()


@pytest.mark.parametrize("epsilon", [1e-8, 1e-12])
@pytest.mark.parametrize(
    ("normalization", "shape"),
    [
        ("LayerNormalization <epsilon = {}> (x, scale, shift)", "2, 4"),
        ("InstanceNormalization <epsilon = {}> (x, scale, shift)", "1, 4, 5"),
        ("GroupNormalization <epsilon = {}, num_groups = 1> (x, scale, shift)", "1, 4, 5"),
    ],
)
def test_equal_numbers_are_normalized_to_the_shift(
    normalization: str, shape: str, epsilon: float, tmp_path: Path
) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["": 21]> g (float[{shape}] x) => (float[{shape}] y)
        <float[4] scale = {{2, 2, 2, 2}}, float[4] shift = {{0.5, 0.5, 0.5, 0.5}}>
        {{ y = {normalization.format(f"{epsilon:.20f}")} }}"""
    )
    run = edgekit_coreml.load(edgekit_coreml.convert(model, tmp_path / "model", precision="float16")).run
    for number in (0, 1):
        found = run({"x": np.full([int(size) for size in shape.split(",")], number, np.float32)})["y"]
        np.testing.assert_array_equal(found, np.full_like(found, 0.5))


@pytest.mark.parametrize(("epsilon", "quiet"), [(1e-8, 2 / 2**0.5), (1e-12, 2.0)])
def test_the_root_of_a_mean_square_and_a_small_epsilon(epsilon: float, quiet: float, tmp_path: Path) -> None:
    """2 * 1e-4 / sqrt(1e-8 + epsilon), and zeros."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 23]> g (float[2, 4] x) => (float[2, 4] y)
        <float[4] scale = {{2, 2, 2, 2}}> {{ y = RMSNormalization <epsilon = {epsilon:.20f}> (x, scale) }}"""
    )
    run = edgekit_coreml.load(edgekit_coreml.convert(model, tmp_path / "model", precision="float16")).run
    np.testing.assert_array_equal(run({"x": SILENCE})["y"], SILENCE)
    np.testing.assert_allclose(run({"x": QUIET})["y"], np.full((2, 4), quiet), rtol=1e-3)


def test_the_inverse_deviation_of_equal_numbers(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 23]> g (float[2, 4] x) => (float[2, 4] y, float[2, 1] i)
        <float[4] scale = {2, 2, 2, 2}> { y, m, i = LayerNormalization <epsilon = 1e-12> (x, scale) }"""
    )
    run = edgekit_coreml.load(edgekit_coreml.convert(model, tmp_path / "model", precision="float16")).run
    np.testing.assert_allclose(run({"x": SILENCE})["i"], np.full((2, 1), 1e6), rtol=1e-3)


@pytest.mark.parametrize("variance", [0, 1e-9])
@pytest.mark.parametrize("epsilon", [1e-8, 1e-12])
def test_channels_without_variance_are_normalized_to_the_shift(variance: float, epsilon: float, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["": 21]> g (float[1, 2, 3] x) => (float[1, 2, 3] y)
        <float[2] scale = {{2, 2}}, float[2] shift = {{0.5, 0.5}}, float[2] mean = {{1, 1}},
         float[2] variance = {{{variance:.12f}, 1}}>
        {{ y = BatchNormalization <epsilon = {epsilon:.20f}> (x, scale, shift, mean, variance) }}"""
    )
    run = edgekit_coreml.load(edgekit_coreml.convert(model, tmp_path / "model", precision="float16")).run
    np.testing.assert_array_equal(run({"x": np.ones((1, 2, 3), np.float32)})["y"], np.full((1, 2, 3), 0.5))


@pytest.mark.parametrize("epsilon", [1e-6, 1e-10])
@pytest.mark.parametrize("name", ["inverse", "log", "rsqrt"])
def test_an_epsilon_that_float16_has_not_is_added_in_float32(name: str, epsilon: float) -> None:
    with Function({"x": mb.placeholder(shape=(4,))}, ct.target.iOS18) as function:
        result = getattr(mb, name)(x=function.inputs["x"], epsilon=np.float32(epsilon), name="result")
        function.set_outputs([result])
    program = Program()
    program.add_function("main", function)
    assert guarded_divisions(program) == ({"result"} if epsilon < 6e-8 else set())


def test_channels_with_variance_are_normalized_in_float16() -> None:
    with Function({"x": mb.placeholder(shape=(1, 2, 3))}, ct.target.iOS18) as function:
        ones = np.ones(2, np.float32)
        function.set_outputs(
            [mb.batch_norm(x=function.inputs["x"], mean=ones, variance=ones, epsilon=np.float32(1e-9))]
        )
    program = Program()
    program.add_function("main", function)
    assert guarded_divisions(program) == frozenset()
