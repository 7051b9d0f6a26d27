"""Classifies pictures with an OpenVINO bundle: ``python classify.py BUNDLE PICTURE…``.

Needs openvino, numpy and pillow; nothing of EdgeKit.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import openvino
from PIL import Image, ImageOps


class Classifier:
    """A bundle's model on an OpenVINO device, whose input is made from pictures as the bundle's manifest declares.

    Args:
        bundle: The bundle's folder.
        device: OpenVINO's name of the device, such as ``CPU``, ``GPU`` or ``NPU``.
    """

    def __init__(self, bundle: Path, device: str) -> None:
        manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
        if manifest["preprocessing"] is None or manifest["preprocessing"]["kind"] != "image":
            sys.exit(f"{bundle} does not say how a picture becomes its input")
        self._preprocessing: dict[str, Any] = manifest["preprocessing"]
        self._labels: list[str] | None = manifest["labels"]
        classes = manifest["classes"] or {"output": manifest["outputs"][0]["name"], "scores": "logits"}
        self._scores: str | None = classes["scores"]
        self._numbers: list[int] = classes.get("numbers", [])
        self._scale, self._zero_point = classes.get("scale"), classes.get("zero_point")
        self._output: str = next(o["native_name"] for o in manifest["outputs"] if o["name"] == classes["output"])
        self._model = compiled(bundle / manifest["model"]["main"], device)

    def classify(self, picture: Image.Image) -> tuple[str, float | None, float]:
        """Returns the class of a picture, its probability, and the milliseconds that the inference took.

        The probability is the softmax of logits, else the number that the model returns; None if the model returns only
        the number of a class, or integers of which no probability follows.
        """
        values = model_input(picture, self._preprocessing)
        start = time.perf_counter()
        found = self._model([values])[self._output].ravel()
        milliseconds = 1e3 * (time.perf_counter() - start)
        if self._scores is None:
            return self._named(int(found[0])), None, milliseconds
        best = int(found.argmax())
        if self._scores == "integers" or (found.dtype.kind != "f" and self._scale is None):
            return self._label(best), None, milliseconds
        scores = found if found.dtype.kind == "f" else (found.astype(float) - self._zero_point) * self._scale
        if self._scores == "logits":
            scores = np.exp(scores - scores.max())
            scores /= scores.sum()
        return self._label(best), float(scores[best]), milliseconds

    def _label(self, position: int) -> str:
        return str(position) if self._labels is None else self._labels[position]

    def _named(self, number: int) -> str:
        """The class of a number; the number itself if no class has it."""
        classes = self._numbers or range(len(self._labels or []))
        return self._label(classes.index(number)) if self._labels and number in classes else str(number)


def compiled(file: Path, device: str) -> openvino.CompiledModel:
    """The model compiled for a device; on CPUs for float32, as its bundle was verified: some default to bfloat16."""
    precision = {"INFERENCE_PRECISION_HINT": "f32"} if device == "CPU" else {}
    return openvino.Core().compile_model(file, device, precision)


def model_input(picture: Image.Image, declared: dict[str, Any]) -> np.ndarray:
    """The model's input for a picture: resized, then (pixel · scale - mean) / std, then in the model's layout.

    Args:
        picture: A picture of any size.
        declared: The manifest's ``preprocessing``.
    """
    gray = declared["color"] == "GRAY"
    picture = resized(ImageOps.exif_transpose(picture).convert("L" if gray else "RGB"), declared)
    pixels = np.asarray(picture, np.float64)
    pixels = pixels[..., np.newaxis] if gray else pixels
    if declared["color"] == "BGR":
        pixels = pixels[..., ::-1]
    values = (pixels * declared["scale"] - declared["mean"]) / declared["std"]
    if np.dtype(declared["dtype"]).kind in "iu":
        limits = np.iinfo(declared["dtype"])
        values = np.clip(np.rint(values), limits.min, limits.max)
    layout = declared["layout"]
    values = values if "C" in layout else values[..., 0]
    values = values.transpose(["HWC".index(letter) for letter in layout if letter != "N"])
    return np.ascontiguousarray(values[np.newaxis] if "N" in layout else values, declared["dtype"])


def resized(picture: Image.Image, declared: dict[str, Any]) -> Image.Image:
    """The picture in the model's size, resized as ``resize`` in the manifest declares."""
    height, width = declared["size"]
    method = Image.Resampling[declared["interpolation"].upper()]
    if declared["resize"] == "stretch":
        return picture.resize((width, height), method)
    if declared["resize"] == "crop":
        factor = max(width / picture.width, height / picture.height) / declared["crop_fraction"]
        scaled = picture.resize((round(picture.width * factor), round(picture.height * factor)), method)
        left, top = round((scaled.width - width) / 2), round((scaled.height - height) / 2)
        return scaled.crop((left, top, left + width, top + height))
    if declared["resize"] == "pad":
        border = declared["pad_value"] if picture.mode == "L" else (declared["pad_value"],) * 3
        centering = (0.5, 0.5) if declared["pad_align"] == "center" else (0.0, 0.0)
        return ImageOps.pad(picture, (width, height), method, border, centering)
    if picture.size != (width, height):
        sys.exit(f"the picture has {picture.width}×{picture.height} pixels, the model wants {width}×{height}")
    return picture


def main() -> None:
    """Classify the pictures named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path, help="what `edgekit package MODEL --target intel-cpu` wrote")
    parser.add_argument("pictures", type=Path, nargs="+", metavar="PICTURE")
    parser.add_argument("--device", default="CPU", help="OpenVINO's device name (%(default)s)")
    arguments = parser.parse_args()
    classifier = Classifier(arguments.bundle, arguments.device)
    for file in arguments.pictures:
        label, probability, milliseconds = classifier.classify(Image.open(file))
        share = "" if probability is None else f"{probability:.1%}, "
        sys.stdout.write(f"{file}: {label} ({share}{milliseconds:.2f} ms)\n")


if __name__ == "__main__":
    main()
