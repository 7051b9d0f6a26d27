from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 3, 3), (2, 3, 4, 4)])
def test_agrees_with_numpy(lower, rng, shape):
    x = rng.standard_normal(shape).astype(np.float32)
    (determinant,) = lower("Det", [x])
    np.testing.assert_allclose(determinant, np.linalg.det(x.astype(np.float64)), rtol=1e-4, atol=1e-5)


def test_larger_matrix_is_refused(lower):
    with pytest.raises(UnsupportedOpsError, match="7 rows"):
        lower("Det", [np.eye(7, dtype=np.float32)])
