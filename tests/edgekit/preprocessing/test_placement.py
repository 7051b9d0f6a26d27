"""Where a picture lies in the input, as Pillow and the decoder put it there."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from PIL import Image

from edgekit.model import ValueSpec
from edgekit.preprocessing import ImagePreprocessing
from edgekit.preprocessing.placement import Placement


@pytest.mark.parametrize("align", ["center", "start"])
@pytest.mark.parametrize("size", [(64, 64), (100, 43), (43, 100), (101, 57), (57, 101), (20, 31)])
def test_a_padded_picture_lies_where_its_pixels_are(size: tuple[int, int], align: Literal["center", "start"]) -> None:
    spec = ValueSpec("x", "uint8", (1, 3, 64, 80))
    declared = ImagePreprocessing(scale=1.0, resize="pad", pad_align=align, interpolation="nearest").resolve(spec)
    pixels = declared.decoder(spec).from_picture(Image.new("RGB", size, "white"))[0, 0]
    rows, columns = np.nonzero(pixels)
    found = Placement.of(declared, *size)
    assert (found.left, found.top) == (columns.min(), rows.min())
    assert (found.left + found.width, found.top + found.height) == (columns.max() + 1, rows.max() + 1)


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("size", [(120, 96), (96, 120), (300, 90), (90, 300)])
def test_a_box_in_the_input_lies_around_the_same_thing_in_the_picture(
    size: tuple[int, int], resize: Literal["stretch", "crop", "pad"]
) -> None:
    thing = (size[0] // 2 - 12, size[1] // 2 - 20, size[0] // 2 + 18, size[1] // 2 + 15)
    picture = Image.new("L", size)
    picture.paste(255, thing)
    spec = ValueSpec("x", "uint8", (1, 1, 64, 80))
    declared = ImagePreprocessing(scale=1.0, resize=resize, interpolation="nearest").resolve(spec)
    rows, columns = np.nonzero(declared.decoder(spec).from_picture(picture)[0, 0] > 127)
    corners = np.array([[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]])
    pixel = max(size[0] / 80, size[1] / 64)
    np.testing.assert_allclose(Placement.of(declared, *size).in_picture(corners), [thing], atol=pixel)
