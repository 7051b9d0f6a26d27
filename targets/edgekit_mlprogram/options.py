"""The options of ``--option NAME=VALUE`` that Core ML has."""

from __future__ import annotations

from collections.abc import Mapping

from edgekit.dimensions import OpenDims
from edgekit.errors import InputError
from edgekit.preprocessing import ImagePreprocessing
from edgekit.target import BuildOptions
from edgekit_mil.program.interface import Interface

TEXTS = ("author", "license", "description", "version")
OPTIONS = {
    "image": "yes: the input is a picture (a pixel buffer), made the model's input as [preprocessing] says",
    "classifier": "yes: the names of --labels become a class label and a probability for each, which Vision reports",
    "author": "a text for the package's metadata",
    "license": "a text for the package's metadata",
    "description": "a text for the package's metadata",
    "version": "a text for the package's metadata",
}


def interface_of(options: BuildOptions, open_dims: OpenDims | None = None) -> Interface:
    """What the program offers to applications beyond arrays.

    Raises:
        edgekit.errors.InputError: Something is asked for that lacks a declaration, or takes one fixed size.
    """
    for name in ("image", "classifier"):
        if open_dims and is_on(options.options, name):
            dim, sizes = next(iter(open_dims.items()))
            raise InputError(
                f"is for fixed shapes, and dimension {dim!r} stays open",
                subject=f"--option {name}=yes",
                hint=f"fix it with --dim {dim}={sizes[0]}, or leave the option out",
            )
    image = None
    if is_on(options.options, "image"):
        if not isinstance(options.preprocessing, ImagePreprocessing):
            raise InputError(
                "how pixels become the input is not known",
                subject="--option image=yes",
                expected='[preprocessing] with kind = "image" in edgekit.toml',
                hint="`--config FILE` names the project file where it does not lie above the data",
            )
        image = options.preprocessing
    classes: tuple[str, ...] = ()
    if is_on(options.options, "classifier"):
        if not options.labels:
            raise InputError("the classes have no names", subject="--option classifier=yes", expected="--labels FILE")
        classes = options.labels
    return Interface(image=image, classes=classes)


def texts_of(options: BuildOptions) -> dict[str, str]:
    """The texts for the package's metadata."""
    return {name: text for name, text in options.options.items() if name in TEXTS}


def is_on(options: Mapping[str, str], name: str) -> bool:
    """Whether an option is switched on.

    Raises:
        edgekit.errors.InputError: It is neither ``yes`` nor ``no``.
    """
    value = options.get(name, "no")
    if value not in ("yes", "no"):
        raise InputError("cannot be used", subject=f"--option {name}={value}", expected="yes or no")
    return value == "yes"
