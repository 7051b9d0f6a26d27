from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def test_digits(sample_apps: Path) -> dict[Path, str]:
    """The labelled test digits: picture -> digit."""
    folder = sample_apps / "digits" / "samples" / "test"
    lines = (folder / "labels.csv").read_text().splitlines()[1:]
    return {folder / name: label for name, label in (line.split(",") for line in lines)}
