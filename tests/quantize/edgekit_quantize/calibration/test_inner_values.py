"""Values of branches and loops come as often as they are computed; expected numbers are worked out by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.collect import observe

HEAD = '<ir_version: 8, opset_import: ["" : 13]> '
LOOP = (
    HEAD
    + """g (float[1, 2] x, int64 n) => (float[1, 2] y, float[R, 1, 2] all) {
      y, all = Loop(n, go, x) <body = l (int64 i, bool before, float[1, 2] state) =>
                                        (bool after, float[1, 2] next, float[1, 2] each) {
        after = Identity(before)
        doubled = Add(state, state)
        odd = Equal(i, one)
        next = If(odd) <then_branch = t () => (float[1, 2] p) { half = Neg(doubled)  p = Relu(half) },
                        else_branch = e () => (float[1, 2] q) { q = Neg(doubled) }>
        each = Identity(doubled)
      }>
    }"""
)
GROWS = (
    HEAD
    + """g (float[1, 2] x, int64 n) => (float[R, 2] y) {
      y = Loop(n, go, x) <body = l (int64 i, bool before, float[R, 2] state) => (bool after, float[S, 2] next) {
        after = Identity(before)
        next = Concat<axis = 0>(state, state)
      }>
    }"""
)
BRANCH = (
    HEAD
    + """g (float[2] x, bool b) => (float[2] y) {
      y = If(b) <then_branch = t () => (float[2] p) { twice = Add(x, x)  p = Relu(twice) },
                 else_branch = e () => (float[2] q) { less = Neg(x)  q = Relu(less) }>
    }"""
)


def _observed(model: ir.Model, names: set[str], *feeds: dict[str, np.ndarray]) -> dict[str, list[list[float]]]:
    found: dict[str, list[list[float]]] = defaultdict(list)
    assert observe(model, names, feeds, lambda name, array: found[name].append(array.ravel().tolist())) == len(feeds)
    return dict(found)


def test_a_loop_hands_out_one_tensor_a_round(parse: Callable[..., ir.Model]) -> None:
    model = parse(LOOP, go=np.array(True), one=np.array(1))
    feed = {"x": np.array([[1, -1]], np.float32), "n": np.array(3)}

    found = _observed(model, {"x", "state", "doubled", "half", "y"}, feed)

    assert found == {
        "x": [[1, -1]],
        "state": [[1, -1], [-2, 2], [4, 0]],
        "doubled": [[2, -2], [-4, 4], [8, 0]],
        "half": [[4, -4]],  # the second round alone
        "y": [[-8, 0]],
    }


def test_no_round_hands_out_nothing(parse: Callable[..., ir.Model]) -> None:
    model = parse(LOOP, go=np.array(True), one=np.array(1))

    assert _observed(model, {"doubled"}, {"x": np.ones((1, 2), np.float32), "n": np.array(0)}) == {}


def test_shapes_may_change_from_round_to_round(parse: Callable[..., ir.Model]) -> None:
    model = parse(GROWS, go=np.array(True))

    found = _observed(model, {"next"}, {"x": np.array([[1, 2]], np.float32), "n": np.array(2)})

    assert [len(values) for values in found["next"]] == [4, 8]


@pytest.mark.parametrize(("taken", "found"), [(True, {"twice": [[2.0, 4.0]]}), (False, {"less": [[-1.0, -2.0]]})])
def test_a_branch_that_is_not_taken_hands_out_nothing(
    parse: Callable[..., ir.Model], taken: bool, found: dict[str, list[list[float]]]
) -> None:
    feed = {"x": np.array([1, 2], np.float32), "b": np.array(taken)}

    assert _observed(parse(BRANCH), {"twice", "less"}, feed) == found
