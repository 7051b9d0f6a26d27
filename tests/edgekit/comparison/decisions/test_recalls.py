"""What the loss of one class is evidence of, held against SciPy's binomial distribution."""

import pytest
from scipy.stats import binom

from edgekit.comparison.decisions.recalls import explaining_drop, worst_class


@pytest.mark.parametrize(
    ("found", "lost", "classes"),
    [(1, 1, 1), (2, 2, 2), (10, 2, 2), (30, 3, 10), (300, 5, 10), (57, 57, 1), (2000, 40, 2)],
)
def test_the_drop_makes_the_loss_a_matter_of_chance(found: int, lost: int, classes: int) -> None:
    drop = explaining_drop(found, lost, classes)
    assert binom.sf(lost - 1, found, drop) * classes == pytest.approx(0.01, rel=1e-4)


def test_the_class_whose_loss_tells_the_most() -> None:
    worst = worst_class({0: 995, 1: 5, 2: 0}, {0: 990, 1: 1, 2: 3})
    assert worst is not None
    assert (worst.index, worst.found, worst.lost) == (1, 5, 4)
    assert str(worst).startswith(
        "class 1 is found in 1 samples, by the original in 5: such a loss in one class is likely only if "
    )
    assert worst_class({0: 995, 1: 5}, {0: 996, 1: 5}) is None
