"""Types of the arguments of the functions of :mod:`edgekit.api`, and how the arguments are converted."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

from edgekit.bundle import Bundle, read_bundle
from edgekit.comparison.custom_metric import Evaluation, Run
from edgekit.config import SIZES, parse_bytes, parse_max_drop
from edgekit.data.sample_lists import SampleList, list_of
from edgekit.data.samples import Samples
from edgekit.data.tables import Table, table_of
from edgekit.devices.instruction_set import known_sets
from edgekit.errors import InputError
from edgekit.features.dimensions import Sizes, parse_size, parse_sizes
from edgekit.graph.sizes.shape_request import ShapeRequest

StrPath = str | os.PathLike[str]
Data = StrPath | Any
"""Samples: a folder, a file that holds a table, or a table itself: a DataFrame, a mapping of arrays by name whose first
axis counts samples, an array, or a pair of one of these and its labels. Or samples one by one: a list of mappings of
arrays by the inputs' names, a generator of such mappings, or a function that returns one of these."""
Dims = Mapping[str, int | str | Sizes]
"""Sizes by the name of a dynamic dimension: ``1``, ``"1..8"`` or ``range(1, 9)``, ``"224,320"`` or ``(224, 320)``."""
Shapes = Mapping[str, Sequence[int | None]]
"""Whole shapes by the name of an input; None leaves a size as it is."""
_TO_FILE = "write what it holds to a file, and give that"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
Metric = str | Callable[[Run, Samples], float]
"""``MODULE:FUNCTION`` or the function itself; :mod:`edgekit.comparison.custom_metric` describes its arguments."""


def instruction_set_names(isa: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The names of the instruction sets; None stays None, and an unknown name raises an ``InputError``."""
    return None if isa is None else known_sets(isa if isinstance(isa, str) else ",".join(isa))


def path_of(path: StrPath, subject: str) -> Path:
    """Returns the argument as a path.

    Args:
        path: A text or a path object.
        subject: The command's name of the argument, for errors.

    Raises:
        InputError: The argument is something else, such as a loaded model or a list of class names.
    """
    if isinstance(path, str | os.PathLike):
        return Path(os.fsdecode(path))
    raise InputError(
        "is not a path", subject=subject, expected="a text or a path object", found=type(path).__name__, hint=_TO_FILE
    )


def optional_path(path: StrPath | None, subject: str) -> Path | None:
    """Returns the argument as a path; None stays None.

    Raises:
        InputError: The argument is neither a text nor a path object.
    """
    return None if path is None else path_of(path, subject)


def data_of(data: Data | None, subject: str, tables: dict[Path, Table | SampleList]) -> Path | None:
    """Returns the path of the samples; for a table or a list in memory, its key in ``tables``. None stays None.

    Args:
        data: A path, a table or a list of samples.
        subject: The command's name of the argument, for errors.
        tables: A table or list in memory is added to it.

    Raises:
        InputError: The argument is none of these, or the table has no rows.
    """
    if data is None or isinstance(data, str | os.PathLike):
        return optional_path(data, subject)
    name = f"{subject} {type(data).__name__}"
    table = table_of(data, name) or list_of(data, name)
    if table is not None:
        tables[Path(name)] = table
        return Path(name)
    raise InputError(
        "are not samples",
        subject=subject,
        expected="a path, a DataFrame, a mapping of arrays by name, an array, or a pair of one of these and labels; or "
        "samples one by one, each a mapping of arrays by the inputs' names",
        found=type(data).__name__,
        hint="numpy.array(samples) makes an array of a list of numbers",
    )


def names_of(names: Iterable[str]) -> tuple[str, ...]:
    """The names as a tuple; a text is a single name."""
    return (names,) if isinstance(names, str) else tuple(names)


def bundle_of(bundle: StrPath | Bundle) -> Bundle:
    """The bundle itself, or the one in the folder."""
    return bundle if isinstance(bundle, Bundle) else read_bundle(path_of(bundle, "BUNDLE"))


def bundle_path(bundle: StrPath | Bundle) -> Path:
    """The bundle's folder, whether or not it is there."""
    return bundle.path if isinstance(bundle, Bundle) else path_of(bundle, "BUNDLE")


def bundle_name(name: str | None, folder: Path, repeated: Bundle | None) -> str | None:
    """Returns a bundle's name: the given one, else the repeated bundle's, else the folder's; None for a root folder.

    Raises:
        InputError: The name has other characters than those that ``edgekit.toml`` allows.
    """
    if name is not None and not _NAME.fullmatch(name):
        raise InputError(
            "is not a name for a bundle",
            subject="--name",
            expected="letters, digits, '.', '_' and '-', a letter or a digit first",
            found=name or "no character",
        )
    if repeated is not None:
        return name or repeated.name
    return name or folder.absolute().name or None


def shape_request(dims: Dims | None, shapes: Shapes | None) -> ShapeRequest:
    """The requested sizes of dimensions and shapes of inputs.

    Raises:
        InputError: An argument is not a mapping, or holds something other than sizes.
    """
    for given, flag, form in ((dims, "--dim", "{name: size}"), (shapes, "--shape", "{input: sizes}")):
        if given is not None and not isinstance(given, Mapping):
            raise InputError(
                "is not a mapping", subject=flag, expected=f"a dict, {form}", found=f"{type(given).__name__} {given}"
            )
        if strange := [name for name in given or () if not isinstance(name, str)]:
            raise InputError("a name is not a text", subject=flag, expected=f"a dict, {form}", found=repr(strange[0]))
    return ShapeRequest(
        {name: _sizes(size, f"--dim {name}") for name, size in (dims or {}).items()},
        {name: _shape(sizes, f"--shape {name}") for name, sizes in (shapes or {}).items()},
    )


def _sizes(given: int | str | Sizes, flag: str) -> int | Sizes:
    """Returns one size or several, from a text as ``--dim`` takes it or from numbers, the default first."""
    if isinstance(given, str):
        return parse_sizes(given, f"{flag}={given}")
    if isinstance(given, SupportsIndex) and not isinstance(given, bool):
        return parse_sizes(str(given.__index__()), f"{flag}={given}")
    if isinstance(given, range) and (given.step != 1 or not given):
        raise InputError("has no range of sizes", subject=flag, expected="a range of step 1, not empty", found=given)
    if isinstance(given, Iterable):
        text = f"{given[0]}..{given[-1]}" if isinstance(given, range) else ",".join(map(str, given))
        return parse_sizes(text, f"{flag}={text}")
    raise InputError("has no size", subject=flag, expected="a number, a range, or numbers", found=given)


def _shape(given: Sequence[int | None], flag: str) -> tuple[int | None, ...]:
    """The sizes of a whole shape; None for one that stays as it is."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(
            "has no shape", subject=flag, expected="numbers and None, such as (1, 3, 224, 224)", found=given
        )
    return tuple(None if size is None else parse_size(str(size), flag) for size in given)


def max_drop_share(value: float | str | None) -> float | None:
    """The accuracy that may be lost, as a share between 0 and 1."""
    return None if value is None else parse_max_drop(value, "--max-drop")


def max_bytes(value: int | str | None) -> int | None:
    """The number of bytes: ``3000000`` or ``"3MB"``; a text that is not a size raises an ``InputError``."""
    if value is None:
        return None
    try:
        return parse_bytes(value)
    except ValueError as error:
        raise InputError(
            "is not a size", subject="--max-size", expected=f"bytes, or a size such as {SIZES}", found=value
        ) from error


def evaluation(metric: Metric | None, *, samples: bool) -> Evaluation | None:
    """Returns the project's evaluation function, or None without a metric.

    Args:
        metric: The function's name (``MODULE:FUNCTION``), or the function.
        samples: Whether there are samples to run it on.

    Raises:
        InputError: There is a metric and no samples.
    """
    if metric is None:
        return None
    if not samples:
        called = metric if isinstance(metric, str) else getattr(metric, "__name__", type(metric).__name__)
        raise InputError(
            "needs samples to run on",
            subject=f"--metric {called}",
            hint="give --data DIR, a folder of samples",
        )
    return Evaluation(metric) if isinstance(metric, str) else Evaluation.of(metric)
