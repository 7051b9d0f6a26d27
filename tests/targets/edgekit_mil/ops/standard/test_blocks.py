from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_depth_to_space_agrees(agrees, mode, dtype):
    x = (np.arange(2 * 8 * 2 * 3) % 97 % 3).reshape(2, 8, 2, 3).astype(dtype)
    agrees("DepthToSpace", [x], outputs=[dtype], against="reference", blocksize=2, mode=mode)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_space_to_depth_undoes_it(lower, dtype, mode):
    x = np.arange(2 * 8 * 2 * 3).reshape(2, 8, 2, 3).astype(dtype)
    (pixels,) = lower("DepthToSpace", [x], outputs=[dtype], blocksize=2, mode=mode)
    (channels,) = lower("SpaceToDepth", [pixels], outputs=[dtype], opset=28, blocksize=2, mode=mode)
    np.testing.assert_array_equal(channels, x)
