"""How a command is written down: one function, whose parameters are its options.

Two things are added to what Typer does. A parameter whose annotation is a dataclass is a group of options that several
commands share, one option a field; and every command has ``--json`` and ``--quiet``, and gets them as a `Console`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from edgekit.cli._console import Console
from edgekit.cli._errors import InterruptedByUserError

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout, and nothing else.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no notes on stderr; warnings and errors stay.")
]


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
    """Makes a command of a function ``function(console, *, …)``, named as it, described by its docstring.

    The parameters are keyword-only, so that one without a default may follow one that has one; groups need none.

    Args:
        examples: Whole command lines that its ``--help`` ends with; at least one.
    """
    if not examples:
        raise ValueError("a command needs an example")

    def decorate(function: Callable[..., None]) -> Command:
        return Command(function.__name__.rstrip("_"), _with_flat_options(function), examples)

    return decorate


def _with_flat_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function as Typer wants it: option groups spread out, ``--json`` and ``--quiet`` in place of the console."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in groups:
            parameters.extend(_group_parameters(groups[parameter.name]))
        elif hints[parameter.name] is not Console:
            parameters.append(_keyword(parameter.name, hints[parameter.name], parameter.default))
    parameters.append(_keyword("as_json", JsonOption, False))
    parameters.append(_keyword("quiet", QuietOption, False))

    def run(**values: Any) -> None:
        console = Console(as_json=values.pop("as_json"), quiet=values.pop("quiet"))
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        try:
            function(console, **values)
        except KeyboardInterrupt as interrupt:  # Typer would take it for its own
            raise InterruptedByUserError(str(interrupt) or "interrupted", hint="nothing was left behind") from None

    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect.signature
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


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
