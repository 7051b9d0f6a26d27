from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(("op_type", "opset"), [("CumSum", 14), ("CumProd", 26)])
def test_agrees(agrees, op_type, opset, dtype, axis, reverse, exclusive):
    x = np.array([[1, 2, 3, -1, 2], [4, 5, 1, 1, -2]], dtype)
    attributes = {"reverse": reverse, "exclusive": exclusive}
    agrees(op_type, [x, np.array(axis)], outputs=[dtype], opset=opset, against="reference", **attributes)


@pytest.mark.parametrize("time_axis", [0, 1])
@pytest.mark.parametrize("fed", [[0], [0, 1]])
def test_reversed_sequences_agree(agrees, time_axis, fed):
    x = np.arange(32, dtype=np.float32).reshape(4, 4, 2)
    lengths = np.array([1, 4, 2, 3])
    agrees("ReverseSequence", [x, lengths], fed=fed, time_axis=time_axis, batch_axis=1 - time_axis)


@pytest.mark.parametrize(("mode", "places"), [("linear", [1, 2]), ("circular", [3, 0]), ("linear", None)])
def test_cache_is_written(agrees, rng, mode, places):
    cache = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    update = rng.standard_normal((2, 3, 2, 5)).astype(np.float32)
    inputs = [cache, update] if places is None else [cache, update, np.array(places)]
    agrees("TensorScatter", inputs, fed=range(len(inputs)), opset=24, against="reference", mode=mode)
