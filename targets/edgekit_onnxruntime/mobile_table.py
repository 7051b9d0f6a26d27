"""The tables of operators that ONNX Runtime's wheel publishes for the providers of mobile devices."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

ROW = re.compile(r"^\|(?P<domain>[\w.]+):(?P<operator>\w+)\|(?P<note>.*)\|$", re.MULTILINE)
STANDARD_DOMAIN = "ai.onnx"


@cache
def supported_operators(table: str) -> dict[str, str]:
    """What a provider takes, by the installed version of ONNX Runtime.

    Args:
        table: File name in ``onnxruntime.tools.mobile_helpers``.

    Returns:
        Operator in lower case, with its domain in front where that is not the standard one -> the condition that the
        table makes, empty where it makes none.
    """
    text = files("onnxruntime.tools.mobile_helpers").joinpath(table).read_text(encoding="utf-8")
    return {
        (row["operator"] if row["domain"] == STANDARD_DOMAIN else f"{row['domain']}.{row['operator']}").casefold(): (
            row["note"].replace("<br/>", " ").strip()
        )
        for row in ROW.finditer(text)
    }
