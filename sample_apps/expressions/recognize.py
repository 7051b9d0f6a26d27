"""Finds faces and tells what they express: ``python recognize.py FACES EXPRESSIONS PICTURE OUT``, two OpenVINO bundles.

Needs openvino, numpy and pillow; nothing of EdgeKit.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageDraw, ImageFont, ImageOps

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "intel" / "python"))
from classify import Classifier, compiled, model_input

LEAST_SCORE = 0.7
MARGIN = 0.1
"""Margin on each side of a face, as a share of the face's longer side."""


class Box(NamedTuple):
    """A face in the picture's pixels."""

    left: float
    top: float
    width: float
    height: float
    score: float


class FaceDetector:
    """The bundle of YuNet on one of OpenVINO's devices.

    Args:
        bundle: The bundle's folder.
        device: OpenVINO's name of the device, such as ``CPU``, ``GPU`` or ``NPU``.
    """

    def __init__(self, bundle: Path, device: str) -> None:
        manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
        self._preprocessing: dict[str, Any] = manifest["preprocessing"]
        self._native = {output["name"]: output["native_name"] for output in manifest["outputs"]}
        self._model = compiled(bundle / manifest["model"]["main"], device)

    def find(self, picture: Image.Image) -> list[Box]:
        """Returns the faces, the one with the highest score first."""
        height, width = self._preprocessing["size"]
        factor = min(width / picture.width, height / picture.height)
        results = self._model([model_input(picture, self._preprocessing)])
        found = results[self._native["detections"]][0]
        corners, scores = found[:, :4].astype(float) / factor, found[:, 4].astype(float)
        return [
            Box(left, top, right - left, bottom - top, score)
            for (left, top, right, bottom), score in zip(corners.tolist(), scores.tolist(), strict=True)
            if score >= LEAST_SCORE
        ]


def cut_face(picture: Image.Image, box: Box) -> Image.Image:
    """A square around the face; the part outside of the picture is black."""
    side = max(box.width, box.height) * (1 + 2 * MARGIN)
    left, top = box.left + (box.width - side) / 2, box.top + (box.height - side) / 2
    return picture.crop((round(left), round(top), round(left + side), round(top + side)))


def mark(picture: Image.Image, box: Box, label: str) -> None:
    """Draw the box and its label."""
    draw = ImageDraw.Draw(picture)
    size = max(13, picture.width // 36)
    font = ImageFont.load_default(size)
    draw.rectangle((box.left, box.top, box.left + box.width, box.top + box.height), outline="gold", width=size // 6)
    left, top, right, bottom = draw.textbbox((box.left + size / 3, max(box.top, 1.6 * size)), label, font, anchor="ld")
    draw.rectangle((box.left, top - size / 3, right + size / 3, bottom), fill="gold")
    draw.text((left, bottom), label, "black", font, anchor="ld")


def main() -> None:
    """Recognize the expressions in the picture named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("faces", type=Path, help="the bundle of the face detector")
    parser.add_argument("expressions", type=Path, help="the bundle of the expressions")
    parser.add_argument("picture", type=Path)
    parser.add_argument("out", type=Path, help="the picture to write, with boxes and labels")
    parser.add_argument("--device", default="CPU", help="OpenVINO's device name (%(default)s)")
    arguments = parser.parse_args()
    detector = FaceDetector(arguments.faces, arguments.device)
    classifier = Classifier(arguments.expressions, arguments.device)
    picture = ImageOps.exif_transpose(Image.open(arguments.picture)).convert("RGB")
    boxes = detector.find(picture)
    answers = [classifier.classify(cut_face(picture, box)) for box in boxes]
    for box, (label, probability, milliseconds) in zip(boxes, answers, strict=True):
        share = "" if probability is None else f"{probability:.1%}, "
        mark(picture, box, label if probability is None else f"{label} {probability:.0%}")
        place = ", ".join(f"{side:.0f}" for side in box[:4])
        sys.stdout.write(f"face at {place}: {label} ({share}{milliseconds:.2f} ms)\n")
    picture.save(arguments.out)


if __name__ == "__main__":
    main()
