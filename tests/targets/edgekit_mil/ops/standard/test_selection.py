from __future__ import annotations

import numpy as np
import pytest

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


@pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (None, 1.0), (0.0, None), (None, None), (2.0, -1.0)])
@pytest.mark.parametrize("fed", [[0], [0, 1, 2]])
def test_limits_from_inputs_agree(agrees, low, high, fed):
    limits = [None if limit is None else np.array(limit, np.float32) for limit in (low, high)]
    present = [index for index in fed if index == 0 or limits[index - 1] is not None]
    agrees("Clip", [X, *limits], fed=present, against="reference")


@pytest.mark.parametrize("attributes", [{"min": -1.0, "max": 2.0}, {"max": 0.5}, {}], ids=str)
def test_limits_from_attributes_agree(agrees, attributes):
    agrees("Clip", [X], opset=6, **attributes)


def test_integers_are_limited(agrees):
    agrees("Clip", [np.array([-5, 0, 9]), np.array(-1), np.array(4)], outputs=["int64"])
