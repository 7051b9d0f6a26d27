"""The options of ``--option NAME=VALUE`` that Core ML has."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgekit.comparison.decisions.label_accuracy import is_label
from edgekit.data import stated
from edgekit.errors import RequestError
from edgekit.features.class_scores import is_greatest_of
from edgekit.features.dimensions import OpenDims
from edgekit.model import Model, ValueSpec
from edgekit.preprocessing import ImagePreprocessing
from edgekit.target import BuildOptions
from edgekit_mil.program.interface import Interface

SWITCHES = ("image", "classifier")
TEXTS = ("author", "license", "description", "version")
OPTIONS = {
    "image": "yes: the input is a picture (a pixel buffer), which is preprocessed as [preprocessing] says; no: the "
    "input is an array. By default yes if the preprocessing is known and the samples are pictures",
    "classifier": "yes: the names of the classes become a class label and a probability for each, which Vision "
    "reports; by default where the names are known and one output scores them; no: its scores alone",
    "author": "a text for the package's metadata",
    "license": "a text for the package's metadata",
    "description": "a text for the package's metadata",
    "version": "a text for the package's metadata",
}


PIXEL_STEP = 0.02
"""Tolerance of the test for pixels: their largest distance from a whole number, before the input type's rounding."""
MOST_PIXEL_STEP = 0.4
"""Upper limit of the tolerance with rounding: at 0.5 every number would be a pixel."""


def by_default(options: BuildOptions, model: Model) -> BuildOptions:
    """Returns the options with ``image`` and ``classifier`` switched on where the user did not set them and they apply.

    ``image`` is on if the preprocessing is known and the examples are made of pixels. ``classifier`` is on if the
    classes have names and one output has a number for each class, unless the model has an output for the label, too,
    which may name another class than the one with the greatest number. Both are for fixed shapes, and for models
    without states.

    Args:
        options: As the user gave them.
        model: The ONNX model.
    """
    if model.open_dims or model.states:
        return options
    chosen = {}
    if "image" not in options.options and isinstance(options.preprocessing, ImagePreprocessing):
        name = model.inputs[0].name
        pictures = [example[name] for example in options.examples if name in example]
        if pictures and all(_are_pixels(each, options.preprocessing) for each in pictures):
            chosen["image"] = "yes"
    if "classifier" not in options.options and options.labels:
        names = fitting(model, options.labels)
        if len(names) == 1 and (names[0] == model.class_choice.output or _decides(names[0], model)):
            chosen["classifier"] = "yes"
    return replace(options, options={**options.options, **chosen})


def fitting(model: Model, labels: Sequence[str]) -> list[str]:
    """Returns the outputs that score the classes; if the user names an output, only this one."""
    names = [output.name for output in model.outputs if _scores(output, len(labels))]
    choice = model.class_choice
    if choice.output is not None:
        return [name for name in names if name == choice.output]
    names = [name for name in names if name not in choice.states] or names
    return [name for name in names if name not in choice.superseded] or names


def class_output(model: Model, labels: Sequence[str]) -> str | None:
    """The output that makes a classifier: the one that the user names, or the only one that scores the classes."""
    names = fitting(model, labels)
    return names[0] if len(names) == 1 else model.class_choice.output


def _decides(scores: str, model: Model) -> bool:
    """Whether the greatest score is the model's decision: it has no label output, or one that follows the score."""
    values = {str(value.name): value for value in model.graph.outputs}
    labels = [output.name for output in model.outputs if is_label(output.name) and output.dtype.startswith("int")]
    return all(is_greatest_of(values[label], values[scores]) for label in labels)


def notes_of(options: BuildOptions, model: Model) -> list[str]:
    """Returns a note if the model has labels but is not made a classifier because several outputs fit them."""
    names = fitting(model, options.labels) if options.labels else []
    if len(names) < 2 or "classifier" in options.options or model.open_dims or model.states:
        return []
    return [
        f"outputs {' and '.join(map(repr, names))} fit the {len(options.labels)} labels, so no classifier was made: "
        "classes = NAME under [outputs] in edgekit.toml chooses one"
    ]


def _scores(output: ValueSpec, classes: int) -> bool:
    sizes = [size for size in output.shape or () if isinstance(size, int)]
    known = bool(sizes) and len(sizes) == len(output.shape or ())
    return known and output.dtype.startswith("float") and sizes[-1] == math.prod(sizes) == classes


def _are_pixels(array: np.ndarray, image: ImagePreprocessing) -> bool:
    """Whether an input is the result of preprocessing whole numbers from 0 to 255."""
    axis = (image.layout or "").find("C")
    shape = [-1 if place == axis else 1 for place in range(array.ndim)] if axis >= 0 else []
    mean, std = (
        np.reshape(np.broadcast_to(numbers, max(len(image.mean), len(image.std))), shape or -1)
        for numbers in (image.mean, image.std)
    )
    pixels = (array.astype(np.float64) * std + mean) / image.scale
    whole = np.round(pixels)
    rounding = np.finfo(array.dtype).eps if array.dtype.kind == "f" else 0.0
    step = np.minimum(PIXEL_STEP + rounding * np.abs(array.astype(np.float64) * std / image.scale), MOST_PIXEL_STEP)
    return bool((np.abs(pixels - whole) < step).all() and whole.min() >= 0 and whole.max() <= 255)


def require_usable(options: BuildOptions, model: Model | None, switches: Collection[str] = SWITCHES) -> None:
    """Checks the options, as :meth:`edgekit.target.Target.require_options` does.

    Args:
        options: As the user gave them.
        model: The ONNX model; None before it is loaded.
        switches: The options that are switched on and off.

    Raises:
        edgekit.errors.RequestError: An option cannot be used.
    """
    asked = {name: options.options[name] for name in switches if name in options.options}
    for name in asked:
        is_on(asked, name)
    if model is None:
        return
    interface = interface_of(replace(options, options=asked), model.open_dims, class_output(model, options.labels))
    if (
        interface.classes
        and len(fitting(model, interface.classes)) != 1
        and all(output.is_static for output in model.outputs)
    ):
        raise RequestError(
            "the model cannot be made a classifier",
            subject="--option classifier=yes",
            expected=f"one output with {len(interface.classes)} numbers, as many as there are labels",
            found="; ".join(map(str, model.outputs)),
        )


def interface_of(
    options: BuildOptions, open_dims: OpenDims | None = None, classified_by: str | None = None
) -> Interface:
    """What the program offers to applications beyond arrays.

    Args:
        options: As the user gave them, with those that are on by default.
        open_dims: The dimensions that stay open.
        classified_by: The output that scores the classes, by :func:`class_output`.

    Raises:
        edgekit.errors.RequestError: An option lacks a declaration that it needs, or needs fixed shapes.
    """
    for name in SWITCHES:
        if open_dims and is_on(options.options, name):
            dim, sizes = next(iter(open_dims.items()))
            raise RequestError(
                f"is for fixed shapes, and dimension {dim!r} stays open",
                subject=f"--option {name}=yes",
                hint=f"fix it with --dim {dim}={sizes[0]}, or leave the option out",
            )
    image = None
    if is_on(options.options, "image"):
        if not isinstance(options.preprocessing, ImagePreprocessing):
            raise RequestError(
                "how pixels become the input is not known",
                subject="--option image=yes",
                expected='[preprocessing] with kind = "image" in edgekit.toml',
                hint="`--config FILE` names the project file where it does not lie above the data",
            )
        image = options.preprocessing
    classes: tuple[str, ...] = ()
    if is_on(options.options, "classifier"):
        if not options.labels:
            raise RequestError("the classes have no names", subject="--option classifier=yes", expected="--labels FILE")
        classes = options.labels
    return Interface(image=image, classes=classes, class_output=classified_by)


def texts_of(options: BuildOptions, metadata: Mapping[str, str]) -> dict[str, str]:
    """Returns the texts for the package's metadata: given ones take precedence over those that the ONNX file states."""
    given = {name: text for name, text in options.options.items() if name in TEXTS}
    return {**stated.texts(metadata), **given}


def is_on(options: Mapping[str, str], name: str) -> bool:
    """Whether an option is switched on.

    Raises:
        edgekit.errors.RequestError: It is neither ``yes`` nor ``no``.
    """
    value = options.get(name, "no")
    if value not in ("yes", "no"):
        raise RequestError("cannot be used", subject=f"--option {name}={value}", expected="yes or no")
    return value == "yes"
