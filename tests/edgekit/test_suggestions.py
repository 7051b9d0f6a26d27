"""Names that were probably meant."""

from __future__ import annotations

import pytest

from edgekit.suggestions import did_you_mean, near_names

NAMES = ["auto", "int8", "int4-weights", "phone16", "phone17", "phone18", "phone26", "web"]


@pytest.mark.parametrize(
    ("wanted", "near"),
    [
        ("int4", "'int4-weights'"),
        ("phone19", "'phone16' or 'phone17' or 'phone18' or 'phone26'"),
        ("INT9", "'int8'"),
        ("wbe", "'web'"),
        ("weights", "'int4-weights'"),
        ("toaster", "one of auto, int8, int4-weights, phone16, phone17, phone18, phone26, web"),
    ],
)
def test_names_that_may_be_meant(wanted: str, near: str) -> None:
    assert near_names(wanted, NAMES) == near


def test_a_hint_names_what_was_meant_or_is_left_out() -> None:
    assert did_you_mean("int4", NAMES) == "did you mean int4-weights?"
    assert did_you_mean("toaster", NAMES) is None


def test_many_numbered_names_are_no_versions() -> None:
    assert near_names("node_7x", [f"node_{number}" for number in range(100)]).count(" or ") == 2
