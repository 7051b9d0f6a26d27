from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edgekit_mlruntime.runner import load


def test_values_are_found_by_their_onnx_names(save: Callable[..., Path], mb: Any) -> None:
    def program(x: Any) -> Any:
        negated = mb.mul(x=x, y=np.float32(-1), name="layers_0_neg")
        first, second = mb.split(x=negated, num_splits=2, axis=0, name="_7")
        return mb.add(x=first, y=second, name="y")

    runner = load(save(program, {"x": ((4,),)}))
    x = np.array([1, -2, 3, 4], np.float32)
    shown = runner.intermediates({"x": x}, ["layers.0/neg", "y", "nobody"])
    assert set(shown) == {"layers.0/neg", "y"}
    np.testing.assert_array_equal(shown["layers.0/neg"], -x)
    np.testing.assert_array_equal(shown["y"], [-4, -2])


def test_names_that_the_program_writes_alike_are_left_out(save: Callable[..., Path], mb: Any) -> None:
    runner = load(save(lambda x: mb.relu(x=x, name="a_b"), {"x": ((2,),)}))
    feeds = {"x": np.ones(2, np.float32)}
    assert set(runner.intermediates(feeds, ["a.b"])) == {"a.b"}
    assert runner.intermediates(feeds, ["a.b", "a/b"]) == {}
