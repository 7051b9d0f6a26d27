from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError


def inputs(rng, *shape):
    channels = shape[1]
    scale, b, mean = (rng.standard_normal(channels, dtype=np.float32) for _ in range(3))
    return [rng.standard_normal(shape, dtype=np.float32), scale, b, mean, rng.random(channels, dtype=np.float32) + 0.5]


@pytest.mark.parametrize("fed", [(0,), (0, 1, 2, 3, 4)])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 5, 4), (1, 2, 3, 4, 5)])
def test_given_statistics_agree(agrees, rng, shape, fed):
    agrees("BatchNormalization", inputs(rng, *shape), fed=fed, epsilon=1e-2)


@pytest.mark.parametrize("opset", [7, 9])
def test_old_opsets_agree(agrees, rng, opset):
    agrees("BatchNormalization", inputs(rng, 2, 3, 4, 4), opset=opset)


def test_statistics_of_the_batch_agree(agrees, rng):
    outputs = ("float32",) * 3
    agrees(
        "BatchNormalization",
        inputs(rng, 2, 3, 4, 4),
        outputs=outputs,
        training_mode=1,
        momentum=0.7,
        against="reference",
    )


def test_training_in_old_opsets_is_refused(lower, rng):
    with pytest.raises(UnsupportedOpsError, match="trains"):
        lower("BatchNormalization", inputs(rng, 2, 3, 4), outputs=("float32",) * 3, opset=9)
