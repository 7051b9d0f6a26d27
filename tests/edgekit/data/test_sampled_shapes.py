from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgekit.data.sampled_shapes import sampled_shapes
from edgekit.errors import InputError
from edgekit.features.dimensions import SizeRange


def test_sizes_on_which_samples_agree_and_ranges(tmp_path: Path) -> None:
    for number, size in enumerate((5, 9, 7)):
        np.savez(
            tmp_path / f"{number}.npz", sound=np.zeros((1, size)), label=number, mixed=np.zeros((1,) * (number + 1))
        )
    found = sampled_shapes(tmp_path, None, tmp_path)
    assert found.ranges == {"sound": (SizeRange(1, 1), SizeRange(5, 9)), "label": ()}
    assert found.count == 6


def test_other_files_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"")
    assert sampled_shapes(tmp_path).ranges == {}
    assert sampled_shapes(None).count == 0


def test_a_damaged_sample_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"a\.npz: the sample cannot be read"):
        sampled_shapes(tmp_path)
