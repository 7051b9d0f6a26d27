"""A picture as the program's input: Core ML passes pixels, and the program computes the model's input from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.preprocessing import ImagePreprocessing
from edgekit.target import Feature
from edgekit_mil.core.mil import Var, ct, mb
from edgekit_mil.core.values import Value, computed

COLORS = {"RGB": ct.colorlayout.RGB, "BGR": ct.colorlayout.BGR, "GRAY": ct.colorlayout.GRAYSCALE}
CORE_ML_LAYOUT = "NCHW"
SMALL_INTEGERS = {ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.UINT16, ir.DataType.INT16}


def picture_mapping(mapping: Feature, image: ImagePreprocessing) -> Feature:
    """The mapping of an input that comes as a picture: as the tensor that Core ML makes of it, pixels from 0 to 255."""
    height, width = image.size or (0, 0)
    channels = 1 if image.color == "GRAY" else 3
    return replace(mapping, native_dtype="float32", native_shape=(1, channels, height, width))


def picture_type(mapping: Feature, image: ImagePreprocessing) -> Any:
    """The input as coremltools describes it; the channels come in the model's order."""
    return ct.ImageType(
        name=mapping.native_name,
        shape=mapping.native_shape,
        color_layout=COLORS[image.color or "RGB"],
        channel_first=True,
    )


def from_pixels(pixels: Var, image: ImagePreprocessing, dtype: ir.DataType) -> Value:
    """The model's input: ``(pixel · scale - mean) / std``, in the model's layout and type.

    Args:
        pixels: Shape (1, channels, height, width).
        image: The declaration, resolved for the input.
        dtype: The input's ONNX type.
    """
    mean, std = (np.array(values, np.float64).reshape(1, -1, 1, 1) for values in (image.mean, image.std))
    x = pixels
    # Subtracting first is exact in float16 for pixels and means that are whole numbers or halves.
    if mean.any():
        x = mb.sub(x=x, y=(mean / image.scale).astype(np.float32))
    if not np.all(image.scale == std):
        x = mb.mul(x=x, y=(image.scale / std).astype(np.float32))
    layout = image.layout or CORE_ML_LAYOUT
    order = [CORE_ML_LAYOUT.index(letter) for letter in layout]
    left_out = [axis for axis, letter in enumerate(CORE_ML_LAYOUT) if letter not in layout]
    order = [*left_out, *order]
    if order != sorted(order):
        x = mb.transpose(x=x, perm=order)
    if left_out:
        x = mb.squeeze(x=x, axes=list(range(len(left_out))))
    if dtype in SMALL_INTEGERS:
        limits = np.iinfo(dtype.numpy())
        x = mb.cast(x=mb.clip(x=mb.round(x=x), alpha=float(limits.min), beta=float(limits.max)), dtype="int32")
    return computed(x if x is not pixels else mb.identity(x=x), dtype)


def picture_record(image: ImagePreprocessing) -> Mapping[str, Any]:
    """The package's metadata on the picture: how its pixels become the model's input."""
    return {"scale": image.scale, "mean": image.mean, "std": image.std, "color": image.color, "layout": image.layout}
