"""How a picture or a sound becomes a model's input, as the table ``[preprocessing]`` of ``edgekit.toml`` declares it.

A bundle's manifest contains the same declaration, so that the app on the device can do the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from edgekit.errors import InputError
from edgekit.files.encoded import Encoded
from edgekit.model import ValueSpec
from edgekit.preprocessing._values import fixed_by
from edgekit.preprocessing.audio import AudioPreprocessing
from edgekit.preprocessing.image import ImageDecoder, ImagePreprocessing
from edgekit.schema import find_flaw, not_finite

__all__ = [
    "AudioPreprocessing",
    "Decoder",
    "ImageDecoder",
    "ImagePreprocessing",
    "Preprocessing",
    "fixed_by",
    "only_input",
    "parse_preprocessing",
    "resolve_preprocessing",
]

Preprocessing = ImagePreprocessing | AudioPreprocessing


class Decoder(Protocol):
    """Reads files for one input of one model."""

    def __call__(self, file: Path | Encoded) -> np.ndarray:
        """The input that the file becomes: shape and dtype are the model's.

        Raises:
            InputError: The file is damaged, or does not fit the declaration.
        """


def parse_preprocessing(table: Mapping[str, Any], subject: object = "[preprocessing]") -> Preprocessing:
    """Returns the declaration in a table of ``edgekit.toml`` or a manifest.

    Args:
        table: Plain data; ``config.schema.json`` describes it.
        subject: The table's name in errors.

    Raises:
        InputError: The table is not what the schema describes.
    """
    flaw = not_finite(table) or find_flaw(table, "config.schema.json", "preprocessing")
    if flaw is not None:
        raise InputError("cannot be used", subject=subject, found=flaw, hint=_EXAMPLE)
    values = {key: value for key, value in table.items() if key != "kind"}
    return ImagePreprocessing.parse(values) if table["kind"] == "image" else AudioPreprocessing.parse(values)


def resolve_preprocessing(declared: Preprocessing | None, inputs: tuple[ValueSpec, ...]) -> Preprocessing | None:
    """Returns the declaration completed from the model's only input; None stays None.

    Raises:
        InputError: The declaration does not fit the model.
    """
    if declared is None:
        return None
    return declared.resolve(only_input(inputs, "preprocessing"))


def only_input(inputs: tuple[ValueSpec, ...], what: str) -> ValueSpec:
    """Returns the model's only input.

    Args:
        inputs: The model's inputs.
        what: The feature that needs a model with a single input, for errors.

    Raises:
        InputError: The model has no input, or several.
    """
    if len(inputs) == 1:
        return inputs[0]
    raise InputError(
        f"{what} needs a model with a single input",
        found="; ".join(map(str, inputs)) or "no input",
        hint="save the samples as .npz files, with an array for each input",
    )


_EXAMPLE = (
    'for instance [preprocessing] with kind = "image", scale = "1/255", mean = [0.485, 0.456, 0.406], '
    'std = [0.229, 0.224, 0.225], resize = "crop"; or kind = "audio", sample_rate = 16000'
)
