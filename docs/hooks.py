"""What the documentation site changes of the pages, which are written to be read in the repository too."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")
_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):<code>~?([^<]+)</code>")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: object) -> str:
    """Points links that leave the documentation's folder at the repository; without its address they become text."""
    folder = posixpath.dirname(page.file.src_uri)

    def outside(match: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join("docs", folder, match[2]))
        if place.startswith("docs/"):
            return match[0]
        address = config.repo_url
        return f"[{match[1]}]({address.rstrip('/')}/blob/main/{place})" if address else match[1]

    return _LINK.sub(outside, markdown)


def on_page_content(html: str, **_: object) -> str:
    """Shows names that docstrings refer to as names."""
    return _ROLE.sub(r"<code>\1</code>", html)
