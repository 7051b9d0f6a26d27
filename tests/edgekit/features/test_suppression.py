from __future__ import annotations

from typing import Any

import pytest

from edgekit.errors import InputError
from edgekit.features.suppression import Suppression


@pytest.mark.parametrize(
    ("declared", "asked"),
    [
        ("nms", Suppression(0.5, 0.05, 100)),
        ("nms, iou=0.45 ,boxes=300", Suppression(0.45, 0.05, 300)),
        ({"kind": "nms", "score": 0.25, "iou": 0}, Suppression(0.0, 0.25, 100)),
        ({"kind": "nms", "boxes": 5.0}, Suppression(0.5, 0.05, 5)),
    ],
)
def test_what_is_asked_for(declared: Any, asked: Suppression) -> None:
    found = Suppression.parse(declared, "--postprocess")
    assert found == asked
    assert Suppression.parse(found.as_record(), "again") == asked


@pytest.mark.parametrize(
    ("declared", "error"),
    [
        ("", "s: unknown postprocessing\nexpected: nms\nfound: "),
        ({"iou": 0.5}, "s: unknown postprocessing\nexpected: nms"),
        ("nms,0.5", "s: cannot be used\nexpected: nms,NAME=NUMBER, a name only once\nfound: nms,0.5"),
        ("nms,iou=0.5,iou=0.4", "s: cannot be used\nexpected: nms,NAME=NUMBER, a name only once"),
        ("nms,threshold=1", "s: nms has no such number\nexpected: one of boxes, iou, score\nfound: threshold"),
        ("nms,score=nan", "s score: is not a share\nexpected: a number from 0 to less than 1\nfound: nan"),
        ("nms,score=1", "s score: is not a share"),
        ({"kind": "nms", "iou": True}, "s iou: is not a share"),
        ("nms,boxes=0", "s boxes: is not a number of boxes\nexpected: a whole number from 1 to 1000\nfound: 0"),
        ("nms,boxes=1e9", "s boxes: is not a number of boxes"),
        ({"kind": "nms", "boxes": float("inf")}, "s boxes: is not a number of boxes"),
        (None, "s: is not a postprocessing\nexpected: nms, or a table of it\nfound: None"),
    ],
)
def test_what_cannot_be_asked_for(declared: Any, error: str) -> None:
    with pytest.raises(InputError) as raised:
        Suppression.parse(declared, "s")
    assert error in str(raised.value)
