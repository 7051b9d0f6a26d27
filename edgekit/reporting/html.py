"""One HTML file that tells what a bundle holds, or two of them side by side, and opens without a network."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""What the browser may load: nothing but what stands in the page."""

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
"""Headings, and what stands under them: the macro of that name in ``templates/sections.html`` shows it."""


def html_report(bundle: Bundle, against: Bundle | None = None) -> str:
    """The page's text: the summary first, then what it rests on.

    Args:
        bundle: What to report on.
        against: What to compare it with; both are shown side by side.

    Raises:
        edgekit.errors.RequirementError: A bundle's graph cannot be read.
    """
    bundles = [bundle] if against is None else [bundle, against]
    graphs = [one.graph() for one in bundles]
    comparison = None
    if against is not None:
        folders = ("folder", str(bundle.path), str(against.path), "")
        comparison = [folders, *comparison_rows(bundle.manifest, against.manifest)]
    return _template().render(
        titles=[f"{one.name} for {one.profile_name}" for one in bundles],
        policy=_POLICY,
        style=_resource("report.css"),
        scripts=[_resource("graph_paint.js"), _resource("graph.js")],
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
    )
    environment.filters["code"] = _with_code
    return environment.get_template("report.html")


def _with_code(text: str) -> Markup:
    """The text with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _resource(name: str) -> str:
    return files("edgekit.reporting").joinpath(name).read_text(encoding="utf-8")
