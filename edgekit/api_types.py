"""Checks the arguments of the functions of :mod:`edgekit.api` against their annotations, before any work begins.

Paths, bundles, sizes and shapes are checked where they are read (:mod:`edgekit.api_arguments`); this module checks the
other arguments.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, ParamSpec, SupportsIndex, TypeVar

from edgekit.errors import InputError
from edgekit.progress import Progress
from edgekit.terminal.board import Board

Given = ParamSpec("Given")
Result = TypeVar("Result")

_FLAGS = {
    "states": "--state",
    "options": "--option",
    "targets": "--target",
    "bundles": "BUNDLE",
    "progress": "progress",
}
"""How errors name an argument whose flag is not ``--`` and its name."""


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_bool(value: object) -> bool:
    """Whether the value is a bool of Python or of NumPy, whose type is not a subclass of Python's."""
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"


def _is_whole(value: object) -> bool:
    """Whether the value is a whole number of any library; an array of several numbers is none."""
    try:
        return isinstance(value, SupportsIndex) and not isinstance(value, bool) and value.__index__() is not None
    except TypeError:
        return False


def _plain(value: Any, kinds: Sequence[str]) -> Any:
    """A number or a truth value of another library, such as NumPy's, as Python's own; other values stay."""
    if "bool" in kinds and _is_bool(value):
        return bool(value)
    if "int" in kinds and _is_whole(value):
        return value.__index__()
    if "float" in kinds and _is_number(value) and not isinstance(value, int):
        return float(value)
    return value


def _are_texts(value: object) -> bool:
    """Whether the value is a text or several; an iterator is accepted here, and checked where it is read."""
    once = iter(value) is value if isinstance(value, Iterable) else False
    return (
        isinstance(value, str) or once or (isinstance(value, Iterable) and all(isinstance(one, str) for one in value))
    )


_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "None": (lambda value: value is None, "None"),
    "str": (lambda value: isinstance(value, str), "a text"),
    "bool": (_is_bool, "True or False"),
    "int": (_is_whole, "a whole number"),
    "float": (_is_number, "a number"),
    "Iterable[str]": (_are_texts, "texts"),
    "Sequence[str]": (_are_texts, "texts"),
    "Mapping[str, str]": (
        lambda value: (
            isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)
        ),
        "a dict of texts",
    ),
    "Metric": (lambda value: isinstance(value, str) or callable(value), "MODULE:FUNCTION, or a function"),
    "Progress": (lambda value: isinstance(value, Progress), "an edgekit.progress.Progress"),
    "Board": (lambda value: isinstance(value, Board), "an edgekit.terminal.board.Board"),
}
"""For each annotation: whether a value is of that type, and how errors name the type."""


def held_to_signature(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Returns the function with checks of its arguments' types; annotations that are not in ``_KINDS`` are ignored.

    The returned function raises an :class:`edgekit.errors.InputError` if an argument is of another type than its
    annotation says, or if a float is not finite. Numbers of NumPy's types become Python's own.
    """
    signature = inspect.signature(function)
    written = {name: str(parameter.annotation).split(" | ") for name, parameter in signature.parameters.items()}
    kinds = {name: parts for name, parts in written.items() if all(part in _KINDS for part in parts)}

    @functools.wraps(function)
    def checked(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:  # a missing or an unknown argument: Python's own message names the function
            return function(*args, **kwargs)
        for name, value in bound.arguments.items():
            subject = _FLAGS.get(name, f"--{name.replace('_', '-')}")
            if name in kinds and not any(_KINDS[part][0](value) for part in kinds[name]):
                raise InputError(
                    "is of another type",
                    subject=subject,
                    expected=" or ".join(dict.fromkeys(_KINDS[part][1] for part in kinds[name])),
                    found=f"{type(value).__name__} {value!r}",
                )
            if name in kinds and "float" in kinds[name] and _is_number(value) and not math.isfinite(value):
                raise InputError("cannot be used", subject=subject, expected="a finite number", found=float(value))
            if name in kinds:
                bound.arguments[name] = _plain(value, kinds[name])
        return function(*bound.args, **bound.kwargs)

    return checked
