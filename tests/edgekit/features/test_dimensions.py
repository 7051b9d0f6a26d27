from __future__ import annotations

import pytest

from edgekit.errors import InputError
from edgekit.features.dimensions import (
    Sizes,
    as_record,
    defaults,
    from_record,
    how_to_take,
    is_apart,
    parse_sizes,
    shape_text,
    trials,
    written,
)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1", 1),
        ("1..8", range(1, 9)),
        ("224,320,480", (224, 320, 480)),
        ("480,224", (480, 224)),
        ("3..3", 3),
        ("7 .. 9", range(7, 10)),
        ("0..4", range(5)),
        ("0", 0),
        ("16,0", (16, 0)),
    ],
)
def test_sizes(text: str, sizes: int | Sizes) -> None:
    assert parse_sizes(text, "it") == sizes
    assert parse_sizes(written(sizes), "it") == sizes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8..1", "it: the range is reversed\nexpected: LEAST..GREATEST\nfound: 8..1\nhint: write 1..8"),
        ("224,320,224", "it: the size 224 is listed twice"),
        ("1..", "it: '' is not a size\nexpected: a whole number from 1"),
        ("0..0", "it: '0' is not a size\nexpected: a whole number from 1"),
        ("-1..4", "it: '-1' is not a size\nexpected: a whole number from 0"),
        ("1,,2", "it: '' is not a size\nexpected: a whole number from 0"),
        ("1..2..3", "it: '2..3' is not a size\nexpected: a whole number from 1"),
    ],
)
def test_no_sizes(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_sizes(text, "it")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("sizes", "default"), [(range(2, 6), 2), ((8, 4), 8), (range(5), 1), ((0, 8, 4), 8), ((8, 0), 8)]
)
def test_a_manifest_holds_the_sizes(sizes: Sizes, default: int) -> None:
    assert from_record(as_record(sizes)) == sizes
    assert as_record(sizes)["default"] == default
    assert defaults({"N": sizes}) == trials({"N": sizes})[0] == {"N": default}


def test_a_range_is_tried_at_its_ends_and_between() -> None:
    assert trials({"N": range(1, 9)}) == [{"N": 1}, {"N": 5}, {"N": 8}]
    assert trials({"N": range(1, 3)}) == [{"N": 1}, {"N": 2}]
    assert trials({"N": range(9)}) == [{"N": 1}, {"N": 0}, {"N": 4}, {"N": 8}]
    assert trials({"N": (0, 4)}) == [{"N": 4}, {"N": 0}]


def test_of_several_ranges_each_also_differs_from_the_others() -> None:
    found = trials({"H": range(8, 17), "W": range(4, 7)})
    assert found == [{"H": 8, "W": 4}, {"H": 12, "W": 5}, {"H": 16, "W": 6}, {"H": 8, "W": 6}, {"H": 16, "W": 4}]


def test_all_that_is_listed_is_tried_each_with_each() -> None:
    found = trials({"N": range(1, 3), "H": (8, 4), "W": (2, 6)})
    assert found[0] == {"N": 1, "H": 8, "W": 2}
    assert [(t["H"], t["W"]) for t in found if t["N"] == 1] == [(8, 2), (8, 6), (4, 2), (4, 6)]
    assert len(found) == 8


def test_nothing_open_is_one_trial() -> None:
    assert trials({}) == [{}]


def test_a_shape_in_words_keeps_sums_together() -> None:
    assert shape_text((1, "past + new", None)) == "1×(past + new)×?"
    assert (shape_text(()), shape_text(None)) == ("scalar", "unknown rank")


@pytest.mark.parametrize(
    ("name", "sizes", "size", "hint"),
    [
        ("tokens", range(2, 13), 1, "package the model again with --dim tokens=1..12"),
        ("tokens", range(2, 13), 40, "package the model again with --dim tokens=2..40"),
        ("new tokens", (224, 320), 96, "package the model again with --dim 'new tokens=224,320,96'"),
        (
            "past",
            range(1, 6),
            0,
            "package the model again with --dim past=0..5, or a second bundle for the empty input with --dim past=0",
        ),
    ],
)
def test_how_a_dimension_takes_one_more_size(name: str, sizes: Sizes, size: int, hint: str) -> None:
    assert how_to_take(name, sizes, size) == hint


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [({"a": 2, "b": 3}, False), ({"a": 9, "b": 5}, False), ({"a": 2, "b": 5}, True), ({"a": 9, "b": 3}, True)],
)
def test_some_at_their_least_and_others_at_their_greatest_are_apart(sizes: dict[str, int], expected: bool) -> None:
    assert is_apart({"a": range(2, 10), "b": range(3, 6), "c": (1, 4)}, {**sizes, "c": 4}) is expected
