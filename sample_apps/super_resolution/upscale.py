"""Enlarges a picture with an OpenVINO bundle: ``python upscale.py BUNDLE PICTURE OUT``.

Needs openvino, numpy and pillow; nothing of EdgeKit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageOps

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "intel" / "python"))
from classify import compiled, model_input  # of the sample app intel

REACH = 5
"""A pixel depends on pixels at most this far away: 2 + 1 + 1 by the convolutions, 1 by the one after enlarging."""


class Span(NamedTuple):
    """Where a tile begins along one axis, and which of its pixels are kept, all counted from the picture's border."""

    start: int
    first: int
    stop: int


def spans(length: int, tile: int) -> Iterator[Span]:
    """Tiles along one axis that together give the network's result for the whole picture.

    The outermost tiles end at the picture's borders, because the network pads with zeros.

    Args:
        length: Length of the picture, at least ``tile``.
        tile: Length of the network's input.
    """
    first = 0
    while first < length:
        start = min(max(first - REACH, 0), length - tile)
        stop = length if start + tile == length else start + tile - REACH
        yield Span(start, first, stop)
        first = stop


class Upscaler:
    """A bundle's network on one of OpenVINO's devices.

    Args:
        bundle: The bundle's folder.
        device: OpenVINO's name of the device, such as ``CPU``, ``GPU`` or ``NPU``.
    """

    def __init__(self, bundle: Path, device: str) -> None:
        manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
        self._preprocessing: dict[str, Any] = manifest["preprocessing"]
        self._height, self._width = self._preprocessing["size"]
        shape = manifest["outputs"][0]["shape"]
        self._factor = shape[-1] // self._width
        grows = shape[-2:] == [self._factor * self._height, self._factor * self._width]
        if not grows or self._factor < 2 or min(self._height, self._width) <= 2 * REACH:
            sys.exit(f"upscale: {bundle} does not enlarge pictures")
        self._model = compiled(bundle / manifest["model"]["main"], device)

    def __call__(self, picture: Image.Image) -> Image.Image:
        """Enlarges the picture; one smaller than a tile is first extended by repeating its last column and row."""
        pixels = np.asarray(picture.convert("RGB"))
        missing = (max(self._height - picture.height, 0), max(self._width - picture.width, 0))
        pixels = np.pad(pixels, ((0, missing[0]), (0, missing[1]), (0, 0)), mode="edge")
        factor = self._factor
        enlarged = np.empty((pixels.shape[0] * factor, pixels.shape[1] * factor, 3), np.uint8)
        for y in spans(pixels.shape[0], self._height):
            for x in spans(pixels.shape[1], self._width):
                tile = self._tile(pixels[y.start : y.start + self._height, x.start : x.start + self._width])
                kept = tile[
                    (y.first - y.start) * factor : (y.stop - y.start) * factor,
                    (x.first - x.start) * factor : (x.stop - x.start) * factor,
                ]
                enlarged[y.first * factor : y.stop * factor, x.first * factor : x.stop * factor] = kept
        return Image.fromarray(enlarged[: picture.height * factor, : picture.width * factor])

    def _tile(self, pixels: np.ndarray) -> np.ndarray:
        """One tile, enlarged: height × width × 3, uint8; the inverse of the preprocessing converts values to pixels."""
        declared = self._preprocessing
        values = self._model([model_input(Image.fromarray(pixels), declared)])[0][0].transpose(1, 2, 0)
        back = (values * declared["std"] + declared["mean"]) / declared["scale"]
        return np.rint(back).clip(0, 255).astype(np.uint8)


def main() -> None:
    """Enlarge the picture named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path, help="the bundle for intel-cpu, intel-gpu or intel-npu")
    parser.add_argument("picture", type=Path)
    parser.add_argument("out", type=Path, help="the PNG file to write")
    parser.add_argument("--device", default="CPU", help="OpenVINO's device name (%(default)s)")
    arguments = parser.parse_args()
    picture = ImageOps.exif_transpose(Image.open(arguments.picture))
    enlarged = Upscaler(arguments.bundle, arguments.device)(picture)
    enlarged.save(arguments.out)
    sys.stdout.write(f"{picture.width} × {picture.height} became {enlarged.width} × {enlarged.height} pixels\n")


if __name__ == "__main__":
    main()
