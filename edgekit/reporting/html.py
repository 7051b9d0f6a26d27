"""Reports one bundle, or two side by side, as one HTML file that opens without a network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape
from markupsafe import Markup, escape

from edgekit.bundle import Bundle
from edgekit.reporting import sections
from edgekit.reporting.comparison import COMPARISON_HEAD, comparison_rows
from edgekit.reporting.page_graph import GraphRecord
from edgekit.reporting.summary import Manifest
from edgekit.terminal.foreign_text import escaped

_SCRIPTS = ("graph_paint.js", "graph.js")
_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; script-src {scripts}"
"""Content-Security-Policy: the browser loads only what is in the page, and runs only scripts with these SHA-256."""

_SECTIONS: Sequence[tuple[str, Callable[[Manifest, GraphRecord | None], dict[str, Any]]]] = (
    ("Summary", sections.summary),
    ("Candidates", sections.candidates),
    ("Accuracy", sections.accuracy),
    ("Latency", sections.latency),
    ("Size by layer", sections.size_by_layer),
    ("Graph", sections.graph_viewer),
    ("Operators", sections.operators),
    ("Inputs and outputs", sections.features),
    ("Stages", sections.stages),
    ("Files", sections.files),
)
"""Headings, each with the function that makes its content; the macro of the function's name in
``templates/sections.html`` shows it."""


def html_report(bundle: Bundle, against: Bundle | None = None) -> str:
    """The page's text: the summary first, then the details.

    Args:
        bundle: The bundle to report on.
        against: The bundle to compare it with; both are shown side by side.

    Raises:
        edgekit.errors.RequirementError: A bundle's graph cannot be read.
    """
    bundles = [bundle] if against is None else [bundle, against]
    graphs = [one.graph() for one in bundles]
    comparison = None
    if against is not None:
        folders = ("folder", str(bundle.path), str(against.path), "")
        comparison = [folders, *comparison_rows(bundle.manifest, against.manifest)]
    scripts = ["\n" + _resource(name) for name in _SCRIPTS]
    return _template().render(
        titles=[f"{one.name} for {one.profile_name}" for one in bundles],
        policy=_POLICY.format(scripts=" ".join(map(_source_of, scripts))),
        style=_resource("report.css"),
        scripts=scripts,
        comparison_head=COMPARISON_HEAD,
        comparison=comparison,
        sections=[
            {
                "heading": heading,
                "anchor": heading.lower().replace(" ", "-"),
                "name": section.__name__,
                "shown": [section(one.manifest, graph) for one, graph in zip(bundles, graphs, strict=True)],
            }
            for heading, section in _SECTIONS
        ],
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("edgekit.reporting"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.filters["code"] = _with_code
    environment.filters["breakable"] = _breakable
    environment.filters["visible"] = _visible
    return environment.get_template("report.html")


def _breakable(name: str) -> Markup:
    """A node's name with possible line breaks between its parts."""
    return Markup(re.sub(r"/(?=[^/])", "/<wbr>", str(escape(escaped(name)))))


def _with_code(text: str) -> Markup:
    """The text with passages between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(escaped(text)))))


def _visible(value: Any) -> Any:
    r"""The value with control characters, and those that change the writing direction, as literals (``\u202e``)."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escaped(value)
    if isinstance(value, Mapping):
        return {_visible(key): _visible(item) for key, item in value.items()}
    return [_visible(item) for item in value] if isinstance(value, list | tuple) else value


def _source_of(script: str) -> str:
    """The source expression of a Content-Security-Policy for a script in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _resource(name: str) -> str:
    return files("edgekit.reporting").joinpath(name).read_text(encoding="utf-8")
