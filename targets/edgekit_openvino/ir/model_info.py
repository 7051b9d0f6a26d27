"""The IR's ``rt_info``: the settings by which OpenVINO's Model API configures itself, and the file's metadata.

The keys under ``model_info`` are those of Model API's wrappers (openvino-model-api 0.4, ``parameters`` of its classes).
Model API feeds pictures as OpenCV reads them: channels in the order blue, green, red.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from edgekit.data import stated
from edgekit.model import Model, ValueSpec
from edgekit.preprocessing import ImagePreprocessing
from edgekit.target import BuildOptions

MODEL_INFO = "model_info"
METADATA = "metadata"
CLASSIFICATION, YOLO, SSD = "Classification", "YOLOv8", "SSD"
"""Names of wrappers. YOLOv8's also reads outputs of YOLO11 and YOLOv5u: a column per box, then a score per class."""
CORNERS = 4
SSD_COLUMNS = 7
RESIZES = {"none": "standard", "stretch": "standard", "crop": "crop", "pad": "fit_to_window_letterbox"}
PADDED_AT_THE_END = "fit_to_window"
INTERPOLATIONS = {"nearest": "NEAREST", "bicubic": "CUBIC"}
NOT_IN_A_NAME = re.compile(r"[^\w.-]")


def describe(network: Any, model: Model, options: BuildOptions) -> None:
    """Writes layouts and ``rt_info``, in place.

    Args:
        network: The ``openvino.Model``.
        model: The ONNX model.
        options: What is known of labels and preprocessing.
    """
    from openvino import Layout

    image = options.preprocessing if isinstance(options.preprocessing, ImagePreprocessing) else None
    if image is not None and image.layout is not None and len(model.inputs) == 1:
        network.get_parameters()[0].set_layout(Layout(image.layout))
    for key, text in model_info(model, image, options.labels).items():
        network.set_rt_info(text, [MODEL_INFO, key])
    for key, text in model.metadata.items():
        network.set_rt_info(text, [METADATA, NOT_IN_A_NAME.sub("_", key)])


def model_info(model: Model, image: ImagePreprocessing | None, labels: tuple[str, ...]) -> Mapping[str, str]:
    """Returns the settings that Model API reads, by key; empty if nothing is known.

    Args:
        model: The ONNX model.
        image: How a picture becomes its only input, where that is known.
        labels: Names of the classes by index.
    """
    info = {}
    kind = _kind(model.outputs, labels, stated.task(model.metadata))
    if kind is not None and image is not None:
        info["model_type"] = kind
    if labels:
        info["labels"] = " ".join("_".join(name.split()) or "_" for name in labels)
    if image is not None:
        info |= _of_pictures(image)
    return info


def _kind(outputs: tuple[ValueSpec, ...], labels: tuple[str, ...], task: str | None) -> str | None:
    """Returns the wrapper that reads such outputs, or None if none does or the meaning of the outputs is not known."""
    shapes = [[size for size in output.shape or () if isinstance(size, int)] for output in outputs]
    if len(outputs) != 1 or len(shapes[0]) != len(outputs[0].shape or ()) or outputs[0].dtype != "float32":
        return None
    (shape,) = shapes
    if labels and len(shape) in (2, 4) and prod(shape) == shape[1] == len(labels):
        return CLASSIFICATION
    tells_boxes = len(shape) == 3 and shape[:2] == [1, len(labels) + CORNERS]
    if labels and tells_boxes and task in (None, stated.DETECT):
        return YOLO
    return SSD if len(shape) == 4 and shape[:2] == [1, 1] and shape[3] == SSD_COLUMNS else None


def _of_pictures(image: ImagePreprocessing) -> dict[str, str]:
    """``(pixel · scale - mean) / std`` as Model API computes it: ``(pixel - mean_values) / scale_values``."""
    channels = 1 if image.color == "GRAY" else 3
    mean, std = (np.broadcast_to(numbers, channels) / image.scale for numbers in (image.mean, image.std))
    resize = RESIZES[image.resize]
    if image.resize == "pad" and image.pad_align == "start":
        resize = PADDED_AT_THE_END
    return {
        "resize_type": resize,
        "interpolation_mode": INTERPOLATIONS.get(image.interpolation, "LINEAR"),
        "pad_value": str(image.pad_value),
        "mean_values": _written(mean),
        "scale_values": _written(std),
        "reverse_input_channels": str(image.color == "RGB"),
    }


def _written(numbers: np.ndarray) -> str:
    return " ".join(f"{number:.9g}" for number in numbers)
