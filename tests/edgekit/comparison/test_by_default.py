"""What a device computes where an app leaves out a build's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from edgekit.comparison.by_default import lost_by_default
from edgekit.data.samples import Sample

NAMES = ("y",)
SETTINGS = {"PRECISION": "full", "MODE": "exact"}


@dataclass
class Times:
    """A runner that multiplies by a factor, and without its settings by another factor."""

    factor: float
    by_itself: float | None = None

    @property
    def executed_by(self) -> str:
        return f"times {self.factor}"

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": feeds["x"] * np.float32(self.factor)}

    def by_default(self) -> Times | None:
        return None if self.by_itself is None else Times(self.by_itself)


@dataclass
class Some:
    has_labels = False

    def __len__(self) -> int:
        return 20

    def __iter__(self):
        for number in range(20):
            assert number < 8, "more than the first samples are read"
            yield Sample(str(number), {"x": np.full((1, 4), number + 1, np.float32)}, None)


@pytest.mark.parametrize(
    ("with_them", "without", "told"),
    [
        (1.0, 0.5, ("6.0 dB", "inf dB")),  # half of the signal is error: 20 log10(2)
        (0.999, 0.5, ("6.0 dB", "60.0 dB")),
        (1.0, 0.95, None),  # 26 dB
        (0.5, 0.6, None),  # no better with the settings
        (1.0, None, None),  # the runtime computes the same without the settings
    ],
)
def test_what_is_lost_without_the_settings(
    with_them: float, without: float | None, told: tuple[str, str] | None
) -> None:
    found = lost_by_default(Some(), Times(1.0), Times(with_them, without), SETTINGS, NAMES)
    asked = "an app has to set PRECISION=full, MODE=exact: without it, as times 0.5,"
    wanted = [] if told is None else [f"{asked} output 'y' has a SQNR of {told[0]}, with it {told[1]}"]
    assert found == wanted


def test_nothing_is_asked_of_a_build_without_settings() -> None:
    assert lost_by_default(Some(), Times(1.0), Times(1.0, 0.5), {}, NAMES) == []


@dataclass
class Longer(Times):
    """A runner that without its settings gives one number more, as a loop that ends on a decision may."""

    def by_default(self) -> Times | None:
        other = Times(self.factor)
        other.run = lambda feeds: {"y": np.pad(feeds["x"], ((0, 0), (0, 1)))}  # type: ignore[method-assign]
        return other


def test_another_shape_without_the_settings_is_told() -> None:
    """It ended the packaging of a table recognizer that was right with them."""
    assert lost_by_default(Some(), Times(1.0), Longer(1.0), SETTINGS, NAMES) == [
        "an app has to set PRECISION=full, MODE=exact: without it, as times 1.0, output 'y': the built model's output "
        "has another shape than the original's ((1, 5) for (1, 4))"
    ]
