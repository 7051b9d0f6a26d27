from __future__ import annotations

import pytest

from edgekit.units import beyond_text, bytes_texts, limit_text, milliseconds_text, share_limit_text, time_text


@pytest.mark.parametrize(
    ("counts", "texts"),
    [
        ((4_521_004, 4_521_300), ("4,521,004 B", "4,521,300 B")),
        ((4_521_004, 4_521_004), ("4.521 MB", "4.521 MB")),
        ((4_521_004, 4_529_000), ("4.521 MB", "4.529 MB")),
        ((999, 1_000), ("999 B", "1 kB")),
    ],
)
def test_sizes_beside_each_other_are_told_apart(counts: tuple[int, ...], texts: tuple[str, ...]) -> None:
    assert bytes_texts(*counts) == texts


@pytest.mark.parametrize(
    ("limit", "number", "share"),
    [
        (0.125, "0.125", "12.5%"),
        (0.9, "0.90", "90.0%"),
        (1.0, "1.00", "100.0%"),
        (0.0005, "0.0005", "0.05%"),
        (1e-05, "0.00001", "0.001%"),
        (0.98805, "0.98805", "98.805%"),
    ],
)
def test_a_limit_reads_as_it_was_written(limit: float, number: str, share: str) -> None:
    assert (limit_text(limit, 2), share_limit_text(limit, 1)) == (number, share)


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [(19.96, 20.0, "19.96"), (19.9, 20.0, "19.9"), (20.0, 20.0, "20.0"), (19.9996, 20.0, "19.9996")],
)
def test_a_number_beyond_a_limit_does_not_read_as_the_limit(value: float, limit: float, text: str) -> None:
    assert beyond_text(value, limit, 1) == text


@pytest.mark.parametrize(
    ("milliseconds", "number", "time"),
    [(0.0123, "0.0123", "0.0123 ms"), (999.4, "999", "999 ms"), (999.6, "1000", "1 s"), (2346.0, "2346", "2.35 s")],
)
def test_no_time_is_written_as_a_power_of_ten(milliseconds: float, number: str, time: str) -> None:
    assert (milliseconds_text(milliseconds), time_text(milliseconds)) == (number, time)
