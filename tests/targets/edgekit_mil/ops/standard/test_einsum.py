from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError

CASES = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("nkctv,kvw->nctw", (2, 3, 4, 5, 2), (3, 2, 6)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->", (3,), (3,)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("ii->i", (3, 3)),
    ("bii->b", (2, 3, 3)),
    ("...ij,...jk->...ik", (2, 3, 4), (1, 4, 5)),
    ("...ij,jk", (2, 3, 4), (4, 5)),
    ("bij,jk->kib", (2, 3, 4), (1, 5)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,ij->i", (3, 4), (3, 4)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_einsum_agrees_with_numpy(lower, rng, case):
    equation, *shapes = case
    inputs = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
    (actual,) = lower("Einsum", inputs, fed=range(len(inputs)), equation=equation)
    expected = np.einsum(equation, *inputs)
    assert actual.shape == (expected.shape or actual.shape)
    np.testing.assert_allclose(actual.reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)


def test_equations_that_do_not_fit_are_refused(lower, rng):
    with pytest.raises(UnsupportedOpsError, match=r"does not (fit|match)"):
        lower("Einsum", [rng.standard_normal((2, 3), dtype=np.float32)], equation="ijk->i")
