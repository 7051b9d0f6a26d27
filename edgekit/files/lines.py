"""Lines of text files, which end at the same characters as in editors.

:meth:`str.splitlines` also ends a line at characters that occur within texts, such as U+2028 in a string of JSON.
"""

from __future__ import annotations

import re
import string


def lines_of(text: str) -> list[str]:
    """The lines, without their ends; an empty text has none."""
    return re.split(r"\r\n|\r|\n", text) if text else []


def trimmed(text: str) -> str:
    """The text without the white space around it; a text of spaces beyond ASCII, such as U+3000, keeps them."""
    return text.strip() or text.strip(string.whitespace)
