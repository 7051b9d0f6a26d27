from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.placement import Settings, place
from edgekit_quantize.smoothquant import QUIETEST, factors, smoothable, smoothable_in_all


def test_factors_by_hand() -> None:
    inputs = np.array([16.0, 9.0], np.float32)
    weights = [np.array([[0.5, -1.0], [0.25, 0.1]], np.float32), np.array([[0.1], [-1.0]], np.float32)]

    found = factors(inputs, weights, 0.5)  # sqrt(16 / 1) and sqrt(9 / 1), over their geometric mean

    np.testing.assert_allclose(found, [4 / 12**0.5, 3 / 12**0.5], rtol=1e-6)


def test_a_channel_that_stayed_quiet_is_not_blown_up() -> None:
    found = factors(np.array([8.0, 8.0, 8.0, 0.001], np.float32), [np.ones((4, 2), np.float32)], 1.0)

    assert found[0] / found[3] == pytest.approx(QUIETEST)


def test_with_alpha_one_all_channels_become_equally_wide() -> None:
    inputs = np.array([8.0, 4.0, 2.5], np.float32)

    smooth = inputs / factors(inputs, [np.ones((3, 2), np.float32)], 1.0)

    np.testing.assert_allclose(smooth, smooth[0], rtol=1e-6)


def test_channels_that_are_never_used_are_left_alone() -> None:
    assert factors(np.zeros(2, np.float32), [np.ones((2, 1), np.float32)], 0.5).tolist() == [1.0, 1.0]


TWO_READERS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[3, 4] x) => (float[3, 5] y, float[3, 2] z) {
  h = HardSwish(x)
  y = Gemm(h, w)
  z = MatMul(h, v)
}"""


def test_a_tensor_that_layers_of_two_kinds_read_is_not_smoothed(parse: Callable[..., ir.Model]) -> None:
    model = parse(TWO_READERS, w=np.ones((4, 5), np.float32), v=np.ones((4, 2), np.float32))
    data = {"smoothing": {"MatMul": 0.5, "Gemm": 0.5}}
    both = place(model.graph, Settings.read({**data, "layers": {"Gemm": "input", "MatMul": "input"}}))
    one = place(model.graph, Settings.read({**data, "layers": {"Gemm": "input"}}))

    assert not smoothable(both)
    assert set(smoothable(one)) == {"h"}
    assert not smoothable_in_all([one, both])
