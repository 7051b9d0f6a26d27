"""Defines a command by one function whose parameters are its options.

This module adds two things to Typer. A parameter whose annotation is a dataclass is a group of options that several
commands share, one option per field; and every command has ``--json`` and ``--quiet``, and gets them as a `Console`.
"""

from __future__ import annotations

import inspect
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from edgekit.cli._console import Console
from edgekit.cli._errors import InterruptedByUserError, hint_of_interruption
from edgekit.errors import EdgeKitError, InputError, InternalError
from edgekit.processes import supervision

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout, and nothing else.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no notes on stderr; warnings and errors stay.")
]
MaxMemoryOption = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        metavar="SIZE",
        help="Memory that the command may take, such as 8GB; by default 2 GiB, 256 times the model's size, and 512 "
        "times a sample's size, of which at most 4 GiB count.",
        show_default=False,
    ),
]
MaxSecondsOption = Annotated[
    float | None,
    typer.Option(
        "--max-seconds",
        metavar="SECONDS",
        min=1,
        help="How long a stage may work without a sign of progress; by default 20 s, plus 20 s per megabyte of model.",
        show_default=False,
    ),
]
_LIMITS = {"max_memory": MaxMemoryOption, "max_seconds": MaxSecondsOption}


@dataclass(frozen=True)
class Command:
    """A command of the ``edgekit`` command line."""

    name: str
    function: Callable[..., None]
    examples: tuple[str, ...]

    def add_to(self, app: typer.Typer) -> None:
        """Registers the command."""
        # "\b" keeps Typer from joining the lines of a paragraph.
        epilog = "\b\n" + "\n".join(["Example:" if len(self.examples) == 1 else "Examples:", *self._indented()])
        app.command(self.name, epilog=epilog)(self.function)

    def _indented(self) -> list[str]:
        return [f"  {example}" for example in self.examples]


def command(*examples: str) -> Callable[[Callable[..., None]], Command]:
    """Makes a command from a function ``function(console, *, …)``, with the function's name and docstring.

    The parameters are keyword-only, so that a parameter without a default may follow one with a default; groups need
    no default.

    Args:
        examples: Complete command lines with which the command's ``--help`` ends; at least one.
    """
    if not examples:
        raise ValueError("a command needs an example")

    def decorate(function: Callable[..., None]) -> Command:
        return Command(function.__name__.rstrip("_"), _with_flat_options(function), examples)

    return decorate


def _with_flat_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function as Typer needs it: a parameter for each option of a group, ``--json`` and ``--quiet`` added."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in groups:
            parameters.extend(_group_parameters(groups[parameter.name]))
        elif hints[parameter.name] is not Console:
            parameters.append(_keyword(parameter.name, hints[parameter.name], parameter.default))
    for name, hint in _LIMITS.items():
        parameters.append(_keyword(name, hint, None))
    parameters.append(_keyword("as_json", JsonOption, False))
    parameters.append(_keyword("quiet", QuietOption, False))

    def run(**values: Any) -> None:
        console = Console(as_json=values.pop("as_json"), quiet=values.pop("quiet"))
        _supervise(function.__name__.rstrip("_"), values, *(values.pop(name) for name in _LIMITS))
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        try:
            with _blamed(values.get("model")):
                function(console, **values)
        except KeyboardInterrupt as interrupt:  # Typer would handle it itself
            raise InterruptedByUserError(str(interrupt) or "interrupted", hint=hint_of_interruption()) from None

    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect.signature
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _supervise(name: str, values: Mapping[str, Any], memory: str | None, seconds: float | None) -> None:
    """Tells the supervising process what the command works on, and the limits of its memory and time."""
    given = [values[key] for key in ("model", "bundle") if isinstance(values.get(key), Path)]
    supervision.set_limits(None if memory is None else _parsed_size(memory), seconds)
    output = values.get("output")
    supervision.tell(
        stage=name,
        subject=str(given[0]) if given else None,
        folder=os.path.dirname(os.path.realpath(output if isinstance(output, Path) else "x")),  # noqa: PTH120
    )
    supervision.tell_model_bytes(sum(map(_size, given)))


@contextmanager
def _blamed(model: object) -> Iterator[None]:
    """Looks for a fault of the model if a command fails with an unforeseen exception."""
    try:
        yield
    except (typer.TyperException, typer.Exit, OSError, MemoryError, ImportError):
        raise
    except Exception as error:
        if isinstance(error, EdgeKitError) and error.exit_code != InternalError.exit_code:
            raise
        from edgekit.stages.soundness import fault_of_model

        fault = fault_of_model(model, error) if isinstance(model, Path) and model.is_file() else None
        if fault is None:
            raise
        raise fault from error


def _parsed_size(text: str) -> int:
    from edgekit.config import SIZES, parse_bytes

    try:
        return parse_bytes(int(text) if text.isdecimal() else text)
    except ValueError as error:
        raise InputError(
            "cannot be used", subject=f"--max-memory {text}", expected=f"bytes, or a size such as {SIZES}"
        ) from error


def _size(path: Path) -> int:
    """Bytes of a file, or of the files of a bundle."""
    total = 0
    with suppress(OSError, ValueError):
        inside = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
        for file in inside if path.is_dir() else [path]:
            status = file.lstat()
            total += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return total


def _group_parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        _keyword(
            field.name,
            hints[field.name],
            field.default_factory() if field.default_factory is not MISSING else field.default,
        )
        for field in fields(group)
    ]


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    empty = inspect.Parameter.empty
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=empty if default is MISSING else default, annotation=annotation
    )
