from __future__ import annotations

from collections.abc import Callable

import pytest

from edgekit.comparison.meaning import AnchorMeaning, meaning_of
from edgekit.comparison.meaning_accuracy import MeaningAccuracy
from edgekit.model import Arrays, ValueSpec


@pytest.fixture
def compared() -> Callable[[list[Arrays], list[Arrays]], MeaningAccuracy]:
    """Holds a built model's anchors in pictures of 64 × 64 pixels against the original's."""

    def result(answers: list[Arrays], built: list[Arrays]) -> MeaningAccuracy:
        meaning = meaning_of(answers, (ValueSpec("image", "float32", (1, 3, 64, 64)),))
        assert isinstance(meaning, AnchorMeaning)
        for one, other in zip(answers, built, strict=True):
            meaning.add(one, other)
        return meaning.result()

    return result
