"""A picture as a model's input: two additional entries of the program, which convert pixels to the input of ``main``.

``pixels`` takes the bytes of a picture, [height, width, 4] in the order blue, green, red, alpha, and invokes ``main``.
``picture`` takes a pixel buffer of that format (``kCVPixelFormatType_32BGRA``) and invokes ``pixels``. Apple's runtime
takes pictures only on a Mac: on other systems ``pixels`` can be executed, but ``picture`` is only compiled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgekit_coreai.translation.apple import bindings, dialect
from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.tensors import Tensor, tensor_type
from edgekit_mlruntime.program import TensorType

ENTRY, PIXELS_ENTRY = "picture", "pixels"
_BYTES = 4
_LUMA = (7471, 38470, 19595)
"""Weights of blue, green and red in a gray value, in 65536ths: ITU-R BT.601, rounded as in Pillow."""


def add_entries(
    name: str, taken: TensorType, results: Sequence[tuple[str, Any]], image: Mapping[str, Any], callee: str
) -> None:
    """Write the entries ``pixels`` and ``picture`` after the entry that takes an array.

    Args:
        name: Name of the input.
        taken: Type of the only input of the entry that takes an array.
        results: Names and types (of Apple's bindings) of that entry's outputs.
        image: ``scale``, ``mean``, ``std``, ``color``, ``layout`` and ``size`` of an
            :class:`~edgekit.preprocessing.ImagePreprocessing` that is resolved for the input.
        callee: Name of the entry that takes an array.
    """
    height, width = image["size"]
    types = [kind for _, kind in results]

    def entry(own: str, kind: Any, called: str, operand: Any) -> None:
        graph = dialect.GraphOp(own, [kind], [], [name], [])
        with graph.block:
            builder = Builder(dialect.create_token().owner)
            made = dialect.invoke(types, called, [operand(builder, graph.arguments[0])])
            graph.outputs_spec = [(output, value) for (output, _), value in zip(results, made, strict=True)]

    pixels = tensor_type((height, width, _BYTES), np.uint8)
    entry(PIXELS_ENTRY, pixels, callee, lambda b, value: b.raw(_input_of_pixels(b, b.wrap(value), taken, image)))
    format_of = bindings.FourCCAttr.get_enum(enum_value=bindings.FourCC.BGRA32)
    picture = bindings.ImageType.get(fourcc_attr=format_of, height=height, width=width)
    entry(ENTRY, picture, PIXELS_ENTRY, lambda _, value: dialect.image_to_tensor(value))


def _input_of_pixels(b: Builder, pixels: Tensor, taken: TensorType, image: Mapping[str, Any]) -> Tensor:
    """``(pixel · scale - mean) / std`` in the input's layout and type."""
    if image["color"] == "GRAY":
        whole = b.mul(b.narrow(b.cast(pixels, np.int32), 2, 0, 3), b.constant(np.array(_LUMA, np.int32)))
        x = b.cast(b.div(b.add(b.reduce("reduce_sum", whole, [2]), 1 << 15), 1 << 16), np.float32)
    else:
        x = b.cast(b.narrow(pixels, 2, 0, 3), np.float32)
        if image["color"] == "RGB":
            x = b.op("reverse", x, np.array([2], np.int32))
    mean, std = (np.array(image[key], np.float64).reshape(1, 1, -1) for key in ("mean", "std"))
    x = b.sub(x, b.constant((mean / image["scale"]).astype(np.float32)))
    x = b.mul(x, b.constant((image["scale"] / std).astype(np.float32)))
    layout = image["layout"]
    x = b.transpose(b.expand(x, [0]), ["NHWC".index(letter) for letter in _completed(layout)])
    x = b.reshape(x, [size for size in taken.shape or () if size is not None])
    target = taken.dtype.numpy
    if target.kind in "iu":
        limits = np.iinfo(target)
        x = b.minimum(b.maximum(b.op("round_", x), float(limits.min)), float(limits.max))
    return b.cast(x, target)


def _completed(layout: str) -> str:
    """The layout with omitted batch and channel dimensions (of size 1) put in front."""
    return "".join(letter for letter in "NC" if letter not in layout) + layout
