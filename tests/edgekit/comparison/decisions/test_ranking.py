"""The area under the ROC curve, against the definition: the share of pairs in the right order."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from edgekit.comparison.decisions.ranking import Ranking
from edgekit.comparison.side_by_side import compare
from edgekit.data.samples import Sample
from edgekit.features.class_scores import ClassChoice
from edgekit.model import Arrays


def share_in_order(scores: np.ndarray, labels: np.ndarray) -> float:
    pairs = list(itertools.product(scores[labels == 1], scores[labels == 0]))
    return sum((some > none) + (some == none) / 2 for some, none in pairs) / len(pairs)


@pytest.mark.parametrize("columns", [1, 2])
def test_the_area_is_the_share_of_pairs_in_order(columns: int) -> None:
    rng = np.random.default_rng(0)
    labels = (rng.uniform(size=60) < 0.2).astype(int)
    scores = np.round(rng.uniform(size=60) + 0.3 * labels, 1)  # several are equal
    ranking = Ranking()
    for score, label in zip(scores, labels.tolist(), strict=True):
        ranking.add(label, np.array([[1 - score, score]])[:, -columns:])
    assert ranking.area() == pytest.approx(share_in_order(scores, labels))


def test_one_class_alone_and_what_is_no_number_rank_nothing() -> None:
    ranking = Ranking()
    ranking.add(1, np.array([0.5]))
    assert ranking.area() is None
    ranking.add(0, np.array([np.nan]))
    assert ranking.area() is None


class Answers:
    """A runner whose probability is 0.5 plus the input times a factor, whose sign reverses the order."""

    executed_by = "it"

    def __init__(self, sign: float) -> None:
        self._sign = sign

    def run(self, feeds: Arrays) -> dict[str, np.ndarray]:
        return {"p": 0.5 + self._sign * feeds["x"]}


class Frauds:
    """Four orders, of which the one with the greatest number is a fraud."""

    has_labels = True

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[Sample]:
        for number in range(4):
            yield Sample(str(number), {"x": np.full((1, 1), number / 10 - 0.35, np.float32)}, int(number == 3))


def test_labels_of_two_classes_have_the_area_of_both_models() -> None:
    """No probability is above a half, so that either model finds three of four labels."""
    choice = ClassChoice(answers=frozenset({"p"}))
    _, task = compare(Frauds(), Answers(1), Answers(-0.1), ("p",), choice=choice)
    assert task is not None
    assert task.areas == (1, 0)
    assert task.as_record()["auc"] == {"reference": 1, "built": 0}
