"""The command line. Importing it is cheap: what a command needs is imported when the command runs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, cast

import typer

from edgekit import __version__
from edgekit.cli import (
    _errors,
    bench,
    build,
    check,
    extract,
    fix,
    gate,
    init,
    inspect,
    package,
    quantize,
    report,
    sign,
    targets,
    verify,
)
from edgekit.cli._completion import asks_for_completion
from edgekit.cli._console import results_alone_on_stdout
from edgekit.cli._plugin_texts import fill_help
from edgekit.cli._signals import interrupted_by_signals

if TYPE_CHECKING:
    from typer.core import TyperGroup

COMMANDS = (
    package.package,
    init.init,
    build.build,
    inspect.inspect,
    fix.fix,
    extract.extract,
    check.check,
    quantize.quantize,
    verify.verify,
    bench.bench,
    gate.gate,
    report.report,
    sign.sign,
    targets.targets,
)
"""Every command, in the order in which ``edgekit --help`` lists them."""

app = typer.Typer(
    name="edgekit",
    help="Takes a trained ONNX model, gets it onto the device, and proves that it still works.",
    epilog="\b\nExample:\n  edgekit package model.onnx --target ios18 --data samples -o model-ios18\n\n"
    "\b\nExit codes:\n"
    "  0  done\n"
    "  1  the model or bundle does not meet what was asked\n"
    "  2  wrong usage or bad input\n"
    "  3  a fault of EdgeKit itself, or of a plugin\n"
    "  130, 143  ended by Ctrl-C, by SIGTERM",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in COMMANDS:
    _command.add_to(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"edgekit {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line, and returns its exit code (see :mod:`edgekit.errors`).

    Args:
        arguments: The arguments after the program's name; by default those of this process.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character gets "?", not a crash
    logging.getLogger().addHandler(logging.NullHandler())  # libraries' log messages are not for the user
    try:
        with interrupted_by_signals() as interruption:
            group = cast("TyperGroup", typer.main.get_command(app))
            asks_for_help = not {"-h", "--help"}.isdisjoint(arguments)
            if asks_for_help:
                fill_help(group, arguments[0])
            with results_alone_on_stdout() if "--json" in arguments and not asks_for_help else nullcontext():
                code = group.main(arguments, prog_name="edgekit", standalone_mode=False) or 0
            if code and interruption.message is not None:  # Typer turns Ctrl-C into an exit code without a message
                raise KeyboardInterrupt
            return code
    except SystemExit as ended:
        if not asks_for_completion(arguments) or not isinstance(ended.code, int):
            raise
        return ended.code  # Typer's completion ends the process itself
    except Exception as failure:
        named = {one.name for one in COMMANDS}.intersection(arguments[:1])
        command = " ".join(["edgekit", *named])
        return _errors.report(failure, as_json="--json" in arguments, command=command)


def end_with_error(failure: Exception) -> int:
    """Reports a failure outside of :func:`main` in the way that :func:`main` does, and returns the exit code."""
    return _errors.report(failure, as_json="--json" in sys.argv)
