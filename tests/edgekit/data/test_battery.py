from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from edgekit.data import battery
from edgekit.data.battery import KINDS, battery_inputs, numbers
from edgekit.errors import InputError
from edgekit.model import Arrays, ValueSpec

SHAPE = (3, 1000)


def drawn(kind: str, dtype: str = "float32", limit: int | None = None) -> np.ndarray:
    return battery_inputs([ValueSpec("x", dtype, SHAPE)], kind, None if limit is None else {"x": limit})["x"]


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_have_the_shape_and_type_that_are_asked_and_stay_the_same(kind: str) -> None:
    for dtype in ("float16", "float32", "float64", "int8", "int64", "bool"):
        array = drawn(kind, dtype)
        assert (array.shape, array.dtype) == (SHAPE, np.dtype(dtype))
        assert np.isfinite(array.astype(np.float64)).all()
        np.testing.assert_array_equal(array, drawn(kind, dtype))


def test_what_the_kinds_are() -> None:
    assert (drawn("zeros") == 0).all()
    assert (drawn("constant") == 1).all()
    assert 0 < np.abs(drawn("tiny")).max() < 1e-5
    assert np.abs(drawn("large")).max() > 1e3
    assert 0 <= drawn("uniform").min() < drawn("uniform").max() <= 1
    assert 0.9 < (drawn("sparse") == 0).mean() < 0.99
    assert set(drawn("saturated").flat) == {-100, 100}
    steps = drawn("steps")
    assert {0.5, 1.5, -0.5} <= set(steps.flat)
    assert (steps[:, 1:] == steps[:, :-1]).any()
    edges = drawn("edges")
    assert (edges == 0).any()
    assert (edges == 1).any()
    assert 0 < edges[edges > 0].min() < 1e-10


@pytest.mark.parametrize("kind", KINDS)
def test_integers_stay_below_their_limit(kind: str) -> None:
    array = drawn(kind, "int64", limit=7)
    assert 0 <= array.min() <= array.max() < 7
    assert set(drawn(kind, "int64").flat) <= {0, 1}


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_array_of_any_size_begins_with_the_same_numbers_which_are_repeated(kind: str, dtype: str) -> None:
    pool = 65_537
    many = numbers(kind, "x", (3 * pool,), np.dtype(dtype))
    np.testing.assert_array_equal(many.reshape(3, pool), np.stack([many[:pool]] * 3))
    for shape in [(), (0,), (2, 5), (pool,), (2, pool)]:
        found = numbers(kind, "x", shape, np.dtype(dtype))
        assert (found.shape, found.dtype) == (shape, np.dtype(dtype))
        np.testing.assert_array_equal(found.reshape(-1), many[: found.size])
        found[...] = 0  # its own
    np.testing.assert_array_equal(numbers(kind, "x", (pool,), np.dtype(dtype)), many[:pool])


def test_two_inputs_differ() -> None:
    both = battery_inputs([ValueSpec(name, "float32", SHAPE) for name in ("a", "b")], "normal")
    assert not np.array_equal(both["a"], both["b"])


def test_nothing_is_drawn_for_floats_beside_the_numbers_of_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    seeded = battery.seeded_inputs

    def noted(specs: Sequence[ValueSpec], *others: Any) -> Arrays:
        asked.extend(spec.name for spec in specs)
        return seeded(specs, *others)

    monkeypatch.setattr(battery, "seeded_inputs", noted)
    specs = [ValueSpec(dtype, dtype, SHAPE) for dtype in ("float16", "float32", "float64", "int64")]
    found = battery_inputs(specs, "normal")
    assert list(found) == [spec.name for spec in specs]
    assert asked == ["int64"]
    with pytest.raises(InputError, match="while its shape is dynamic"):
        battery_inputs([ValueSpec("x", "float32", ("n", 3))], "normal")
    with pytest.raises(InputError, match="no input of that size can be drawn"):
        battery_inputs([ValueSpec("x", "float32", (1 << 20, 1 << 20))], "normal")
