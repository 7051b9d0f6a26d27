"""Runs the bundle's golden samples in Core ML itself, on a Mac: ``python check.py --units CPU_AND_NE``.

Needs the packages ``numpy`` and ``coremltools``, nothing of EdgeKit.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from typing import Any

if __name__ == "__main__" and platform.system() != "Darwin":
    sys.exit("Core ML is on macOS only; on other systems `edgekit verify` runs EdgeKit's reference runtime")

try:
    import coremltools
    import numpy as np
except ModuleNotFoundError as error:
    sys.exit(f"ModuleNotFoundError: {error}: `{sys.executable} -m pip install numpy coremltools` installs it")

sys.dont_write_bytecode = True  # a folder __pycache__ would be no file of the bundle
from check_service import OpenModel  # type: ignore[import-not-found]  # noqa: E402  # lies beside this file in a bundle
from golden_check import BUNDLE, main  # type: ignore[import-not-found]  # noqa: E402  # likewise
from PIL import Image  # noqa: E402  # coremltools takes pictures as Pillow's

UNITS = ("ALL", "CPU_ONLY", "CPU_AND_GPU", "CPU_AND_NE")


def open_model(manifest: dict[str, Any], arguments: argparse.Namespace) -> OpenModel:
    """The bundle's model in Core ML; features have native names, types and shapes, the golden data ONNX's."""
    path = BUNDLE / manifest["model"]["main"]
    chosen = "CPU_ONLY" if arguments.cpu else arguments.units
    units = coremltools.ComputeUnit[chosen]
    model = coremltools.models.MLModel(str(path), compute_units=units)
    pictures = {feature.name for feature in model.get_spec().description.input if feature.type.HasField("imageType")}

    # The golden samples of a model with states are the steps of one sequence.
    states = {"state": model.make_state()} if manifest.get("states") else {}

    def execute(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        feeds = {
            feature["native_name"]: as_picture(array, manifest["preprocessing"])
            if feature["native_name"] in pictures
            else as_native(array, feature)
            for feature, array in zip(manifest["inputs"], inputs, strict=True)
        }
        results = model.predict(feeds, **states)
        return [as_golden(results[feature["native_name"]], feature) for feature in manifest["outputs"]]

    runtime = f"Core ML, macOS {platform.mac_ver()[0]}, {chosen}"
    return OpenModel(execute, runtime, {"units": chosen})


def as_native(array: np.ndarray, feature: dict[str, Any]) -> np.ndarray:
    """An input in the program's type and rank; dimensions that the manifest names keep the sizes of the sample."""
    shape = feature["native_shape"]
    is_fixed = all(isinstance(size, int) for size in shape)
    return (array.reshape(shape) if is_fixed else array).astype(feature["native_dtype"])


def as_picture(array: np.ndarray, preprocessing: dict[str, Any]) -> Image.Image:
    """The picture that the preprocessing makes this array of, its channels as red, green and blue."""
    layout = preprocessing["layout"]
    ordered = array.transpose([layout.index(letter) for letter in "NHWC" if letter in layout])
    values = ordered.reshape(*preprocessing["size"], -1).astype(np.float64)
    pixels = (values * preprocessing["std"] + preprocessing["mean"]) / preprocessing["scale"]
    pixels = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    if preprocessing["color"] == "GRAY":
        return Image.fromarray(pixels[..., 0])
    return Image.fromarray(np.ascontiguousarray(pixels[..., ::-1] if preprocessing["color"] == "BGR" else pixels))


def as_golden(array: np.ndarray, feature: dict[str, Any]) -> np.ndarray:
    """A result in the ONNX model's type and rank."""
    array = np.asarray(array).astype(feature["dtype"])
    return array.reshape(()) if not feature["shape"] else array


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", choices=UNITS, default="ALL", help="what Core ML may compute on")
    sys.exit(main(open_model, parser))
