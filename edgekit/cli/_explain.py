"""What ``edgekit quantize --explain`` prints: how each layer was quantized, and the error that it adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgekit.units import decibel_text

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

_HEADS = ("SQNR", "weights", "inputs", "peak", "values", "integers cover")
_WIDTHS = (8, 9, 9, 8, 20, 20)
_NOTE = """\
SQNR, in dB: power of the layer's output over that of the error that integers add to it (or would add, in float), and
the same of weights and inputs alone. Peak: the largest input over the root mean square of the inputs."""


def print_layers(record: Mapping[str, Any], out: RichConsole) -> None:
    """Prints the record's ``layers``: for each layer a line that says how it was quantized, and a line of figures.

    Args:
        record: A quantizer's record of its result, or of the candidate that came nearest to the budget.
        out: The console to print on.
    """
    layers = record.get("layers", ())
    lines = [_aligned(_HEADS)]
    for layer in layers:
        how = f", {layer['how']}" if layer["how"] else ""
        lines.append(f"{layer['layer']} ({layer['kind']}): {layer['done']}{how}")
        figures = (
            *(_ratio(layer[key]) for key in ("sqnr_db", "weights_db", "inputs_db")),
            "" if layer["outliers"] is None else f"{layer['outliers']:.1f}",
            _range(layer["low"], layer["high"]),
            _range(layer["range_low"], layer["range_high"]),
        )
        if any(figures):
            lines.append(_aligned(figures))
    for line in (*lines, _NOTE, "") if layers else ("the quantizer reports nothing about the layers",):
        out.print(line, soft_wrap=True)


def _aligned(cells: tuple[str, ...]) -> str:
    return "".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


def _ratio(value: float | str | None) -> str:
    return "" if value is None else decibel_text(value).removesuffix(" dB")


def _range(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.3g} … {high:.3g}"
