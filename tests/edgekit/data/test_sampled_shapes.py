from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgekit.data.sampled_shapes import sampled_shapes
from edgekit.errors import InputError
from edgekit.features.dimensions import SizeRange
from edgekit.features.tokens import TokenRule
from edgekit.model import ValueSpec


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


def test_texts_and_the_numbers_of_their_words_have_the_shapes_that_an_input_takes(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", text=np.array(["a", "b"]), x=np.zeros(3))
    np.savez(tmp_path / "1.npz", text=np.zeros((2, 16), np.int64), x=np.zeros(3))
    found = sampled_shapes(tmp_path)
    of_texts = found.for_inputs([ValueSpec("text", "str", (None,)), ValueSpec("x", "float64", (3,))])
    assert [dict(shapes) for shapes in of_texts.each] == [{"text": (2,), "x": (3,)}] * 2
    of_words = found.for_inputs([ValueSpec("text", "int64", (None, 16), vocabulary=(), tokens=(TokenRule(count=16),))])
    assert [dict(shapes) for shapes in of_words.each] == [{"text": (2, 16), "x": (3,)}] * 2


def test_arrays_of_some_names_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", text=np.array(["a"]), x=np.zeros(3))
    np.savez(tmp_path / "1.npz", x=np.zeros(3))
    (arrays,) = sampled_shapes(tmp_path).arrays(["text"])
    assert {name: array.tolist() for name, array in arrays.items()} == {"text": ["a"]}
