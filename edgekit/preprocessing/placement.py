"""The position of a resized picture in the model's input: boxes on the input become boxes on the picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgekit.preprocessing.image import ImagePreprocessing


@dataclass(frozen=True)
class Placement:
    """The position of a picture in the input, as :class:`edgekit.preprocessing.image.ImageDecoder` puts it there."""

    left: float
    top: float
    """``left`` and ``top`` are the picture's upper left corner, in pixels of the input."""
    width: float
    height: float
    """``width`` and ``height`` are the size of the resized picture, in pixels of the input."""
    picture_width: int
    picture_height: int

    @classmethod
    def of(cls, preprocessing: ImagePreprocessing, width: int, height: int) -> Placement:
        """Returns the position of a picture.

        Args:
            preprocessing: The declaration, with its size.
            width: The width of the upright picture.
            height: The height of the upright picture.
        """
        into_height, into_width = preprocessing.size or (height, width)
        if preprocessing.resize == "crop":
            factor = max(into_width / width, into_height / height) / preprocessing.crop_fraction
            size = round(width * factor), round(height * factor)
            left, top = round((size[0] - into_width) / 2), round((size[1] - into_height) / 2)
            return cls(-left, -top, *size, width, height)
        if preprocessing.resize != "pad":
            return cls(0, 0, into_width, into_height, width, height)
        share = 0.5 if preprocessing.pad_align == "center" else 0.0
        if width * into_height > height * into_width:
            became = round(height / width * into_width)
            return cls(0, round((into_height - became) * share), into_width, became, width, height)
        became = round(width / height * into_height)
        return cls(round((into_width - became) * share), 0, became, into_height, width, height)

    def in_picture(self, corners: np.ndarray) -> np.ndarray:
        """Returns boxes in pixels of the picture, clipped to the picture.

        Args:
            corners: (n, 4): left, top, right and bottom, in pixels of the input.
        """
        low, scale = (np.array([self.left, self.top] * 2), np.array([self.width, self.height] * 2))
        size = np.array([self.picture_width, self.picture_height] * 2)
        placed: np.ndarray = np.clip((corners - low) / scale * size, 0, size)
        return placed
