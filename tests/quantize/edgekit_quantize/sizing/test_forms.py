from __future__ import annotations

import pytest

from edgekit_quantize.sizing.forms import Form


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (Form("int8", 8), 80 + 8 * 2 + 128),
        (Form("int4", 4, block=4), 40 + 8 * 3 * 2 + 128),
        (Form("palette", 2, palette=True), 20 + 8 * 2 + 128 + 4 * 2 + 64),
        (Form("palettes", 2, palette=True, slices=4), 20 + 8 * 2 + 128 + 2 * 4 * 2 + 64),
    ],
    ids=lambda given: given.name if isinstance(given, Form) else "",
)
def test_what_a_weight_takes(form: Form, expected: float) -> None:
    """8 outputs of 10 inputs each: their integers, scales of 2 bytes, palettes, and 64 bytes for each constant."""
    assert form.bytes((8, 10), 2) == expected
