"""A project's own measure of a model's quality: a Python function that is named ``MODULE:FUNCTION``.

It looks like this::

    def f1(run, samples):
        found = [run(sample.feeds)["scores"].argmax() == sample.label for sample in samples]
        return sum(found) / len(found)

``run`` executes a model: it takes inputs by name and gives outputs by name, NumPy arrays of the ONNX model's shapes and
element types. ``samples`` are those of ``--data`` (:class:`edgekit.data.samples.Samples`), which can be walked more
than once. The result is a finite number of a magnitude up to 1e100, and a higher one is better.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from edgekit.comparison.floors import LOSS_DIGITS
from edgekit.data.samples import Samples
from edgekit.errors import EdgeKitError, InputError
from edgekit.model import Arrays

_LARGEST = 1e100
"""The largest magnitude of a result: such a number, and shares of it, stay finite in the manifest."""
Run = Callable[[Mapping[str, np.ndarray]], Arrays]


@dataclass(frozen=True)
class Evaluation:
    """An evaluation function, kept by its name, so that other processes can import it, too.

    Args:
        name: ``MODULE:FUNCTION``.
        folder: Where modules are looked for first; by default the working directory, as by ``python -m MODULE``.

    Raises:
        InputError: The name has another form, nothing can be imported under it, or the function takes other arguments.
    """

    name: str
    folder: Path = field(default_factory=Path.cwd)

    @classmethod
    def of(cls, function: Callable[[Run, Samples], float]) -> Evaluation:
        """Returns the evaluation by a function that is defined at the top level of a module.

        Raises:
            InputError: The function is a lambda, or defined inside another function, so that it cannot be imported by a
                name.
        """
        module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
        if module is None or not name.isidentifier():
            raise InputError(
                "the evaluation function cannot be found by a name",
                subject=name or repr(function),
                expected="a function at the top level of a module",
                hint=(
                    "write it with def, outside of other functions and classes: other processes and the manifest "
                    "refer to it by name"
                ),
            )
        return cls(f"{module}:{name}")

    def __post_init__(self) -> None:
        _function(self.name, self.folder)

    @property
    def file(self) -> Path | None:
        """The source file of the function's module; None if the module has no file."""
        module, _ = _function(self.name, self.folder)
        return None if module.__file__ is None else Path(module.__file__)

    def __call__(self, run: Run, samples: Samples) -> float:
        """Returns what the function computes.

        Raises:
            InputError: The function fails, or its result is not a finite number of a magnitude up to 1e100.
        """
        _, function = _function(self.name, self.folder)
        with _first_in(self.folder):
            try:
                value = function(run, samples)
            except EdgeKitError:
                raise
            except (Exception, SystemExit) as error:  # foreign code: whatever it raises is reported under its name
                raise InputError(
                    "the evaluation function failed", subject=self.name, found=_what_happened(error, function)
                ) from error
        if inspect.iscoroutine(value):
            value.close()  # else Python warns that it was never awaited
            raise _no_number(self.name, "a coroutine: the function is an `async def`")
        try:
            number = float(value)
        except Exception as error:  # foreign code as well: the value's class may define what float() does
            raise _no_number(self.name, f"a value of type {type(value).__name__}") from error
        if not abs(number) <= _LARGEST:
            raise _no_number(self.name, str(number))
        return number

    def of_original(self, run: Run, samples: Samples) -> float:
        """Returns what the function computes for the float model; what built models lose is a share of this value.

        Raises:
            InputError: The function fails, or gives 0, of which no share can be computed.
        """
        value = self(run, samples)
        if abs(value) < 1 / _LARGEST:
            raise InputError(
                "the evaluation function gives 0 for the float model",
                subject=self.name,
                expected="a number other than 0: the loss is computed as a share of it",
                found=value,
            )
        return value


def _no_number(name: str, found: str) -> InputError:
    return InputError(
        "the evaluation function did not give a number",
        subject=name,
        expected=f"a finite number, higher where the model is better, of a magnitude up to {_LARGEST:g}",
        found=found,
    )


def share_lost(original: float, value: float) -> float:
    """How much less ``value`` is than ``original``, as a share of the latter's magnitude; negative where it is more.

    The share is rounded to :data:`edgekit.comparison.floors.LOSS_DIGITS`.
    """
    return round((original - value) / abs(original), LOSS_DIGITS)


@functools.cache
def _function(name: str, folder: Path) -> tuple[ModuleType, Callable[[Run, Samples], Any]]:
    """Returns the module and the function that a name refers to."""
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise InputError("is not an evaluation function", subject=name, expected="MODULE:FUNCTION, such as scores:f1")
    if module_name.endswith(".py"):
        raise InputError(
            "names a file in place of a module",
            subject=name,
            expected="MODULE:FUNCTION",
            hint=f"write {module_name.removesuffix('.py').replace('/', '.').lstrip('.')}:{attribute}",
        )
    with _first_in(folder):
        try:
            module = importlib.import_module(module_name)
        except (Exception, SystemExit) as error:  # foreign code, as above
            raise InputError(
                "the evaluation function's module cannot be imported",
                subject=name,
                found=f"{type(error).__name__}: {error}",
                hint=f"modules are looked for in {folder} and where Python's packages are",
            ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise InputError(
            f"the module has no function {attribute!r}", subject=name, found=f"{module_name} is {module.__file__}"
        )
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        raise InputError(
            "the evaluation function takes other arguments",
            subject=name,
            expected=f"{attribute}(run, samples)",
            found=f"{attribute}{inspect.signature(function)}",
        ) from error
    return module, function


@contextmanager
def _first_in(folder: Path) -> Iterator[None]:
    """Lets imports find the folder's modules first, as if Python ran a script of that folder."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _what_happened(error: BaseException, function: Callable[..., Any]) -> str:
    """Returns the error's text, with the last line of the function's own file in the traceback."""
    code = inspect.unwrap(function).__code__ if inspect.isfunction(inspect.unwrap(function)) else None
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if code is not None and frame.filename == code.co_filename]
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{place}"
