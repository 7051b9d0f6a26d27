from __future__ import annotations

import numpy as np
import onnx
import pytest

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError

X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    ("shapes", "fed"),
    [
        (((3, 4), (3, 4), (3, 4)), [0, 1, 2]),
        (((3, 1), (1, 4), ()), [0, 1, 2]),
        (((3, 4), (), ()), [0]),
        (((2, 3, 4), (4,), (1,)), [0, 1]),
        (((2, 3, 4), (3, 1), (4,)), [0, 2]),
    ],
    ids=str,
)
def test_where_broadcasts_all_three(agrees, rng, shapes, fed):
    condition = rng.random(shapes[0]) < 0.5
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in shapes[1:])
    agrees("Where", [condition, a, b], fed=fed)


def test_infinite_alternative_does_not_spread(lower):
    condition = np.array([[True, False]])
    (y,) = lower("Where", [condition, np.array(0.0, np.float32), np.array(-np.inf, np.float32)])
    np.testing.assert_array_equal(y, [[0.0, -np.inf]])


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 2.0), (None, 1.0), (0.0, None), (None, None), (2.0, -1.0), (1.0, 1.0)]
)
@pytest.mark.parametrize("fed", [[0], [0, 1, 2]])
def test_limits_from_inputs_agree(agrees, low, high, fed):
    limits = [None if limit is None else np.array(limit, np.float32) for limit in (low, high)]
    present = [index for index in fed if index == 0 or limits[index - 1] is not None]
    agrees("Clip", [X, *limits], fed=present, against="reference")


@pytest.mark.parametrize("attributes", [{"min": -1.0, "max": 2.0}, {"max": 0.5}, {}], ids=str)
def test_limits_from_attributes_agree(agrees, attributes):
    agrees("Clip", [X], opset=6, **attributes)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0001), (-1e-9, 1e-9)])
def test_limits_that_are_one_number_in_half_precision(low, high, tmp_path):
    body = f"(float[3, 4] x) => (float[3, 4] y) {{ y = Clip <min = {low:.9f}, max = {high:.9f}> (x) }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 6]> agraph {body}')
    package = edgekit_coreml.convert(model, tmp_path / "model", precision="float16")
    result = edgekit_coreml.load(package).run({"x": X})["y"]
    np.testing.assert_allclose(result, np.full(X.shape, low), atol=1e-3)


def test_integers_are_limited(agrees):
    agrees("Clip", [np.array([-5, 0, 9]), np.array(-1), np.array(4)], outputs=["int64"])


@pytest.mark.parametrize(("low", "high"), [(0, 2**63 - 1), (-(2**63), 4), (-(2**40), 2**40)])
def test_limits_that_no_integer_reaches_limit_nothing(agrees, low, high):
    agrees("Clip", [np.array([-(2**31), 0, 2**31 - 1]), np.array(low), np.array(high)], outputs=["int64"])


def test_limits_of_unsigned_integers(agrees):
    limits = [np.array(2, np.uint64), np.array(2**64 - 1, np.uint64)]
    agrees("Clip", [np.array([0, 7, 2**31 - 1], np.uint64), *limits], outputs=["uint64"])


@pytest.mark.parametrize(("op_type", "end"), [("Min", 2**63 - 1), ("Max", -(2**63))])
def test_extremes_with_an_end_of_int64_are_the_other_number(agrees, op_type, end):
    agrees(op_type, [np.array([-(2**31), 0, 2**31 - 1]), np.array([end])], outputs=["int64"])


@pytest.mark.parametrize(("op_type", "end"), [("Min", -(2**63)), ("Max", 2**40)])
def test_extremes_that_do_not_fit_int32_are_refused(lower, op_type, end):
    with pytest.raises(UnsupportedOpsError, match=f"int64 constant {end} does not fit int32"):
        lower(op_type, [np.array([1, 2]), np.array([end])], outputs=["int64"])
