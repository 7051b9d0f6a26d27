"""One HTML file that tells what a bundle holds, or two of them side by side, and opens without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from importlib.resources import files

from edgekit.bundle import Bundle
from edgekit.reporting import sections
from edgekit.reporting.comparison import COMPARISON_HEAD, comparison_rows
from edgekit.reporting.page_graph import GraphRecord
from edgekit.reporting.summary import Manifest

Section = Callable[[Manifest, GraphRecord | None], str]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""What the browser may load: nothing but what stands in the page."""


def html_report(bundle: Bundle, against: Bundle | None = None) -> str:
    """The page's text: the summary first, then what it rests on.

    Args:
        bundle: What to report on.
        against: What to compare it with; both are shown side by side.

    Raises:
        edgekit.errors.RequirementError: A bundle's graph cannot be read.
    """
    bundles = [bundle] if against is None else [bundle, against]
    title = escape(" against ".join(map(_title, bundles)))
    parts = list(_sections(bundles))
    links = "".join(f'<li><a href="#{_anchor(heading)}">{heading}</a></li>' for heading, _ in parts)
    body = "\n".join(
        f'<section id="{_anchor(heading)}">\n<h2>{heading}</h2>\n{text}\n</section>' for heading, text in parts
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{title}</title>\n<style>\n{_resource('report.css')}</style>\n</head>\n<body>\n"
        f'<main class="{"one" if against is None else "two"}">\n<h1>{title}</h1>\n'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n{body}\n</main>\n'
        f"<script>\n{_resource('graph.js')}</script>\n</body>\n</html>\n"
    )


_SECTIONS: Sequence[tuple[str, Section]] = (
    ("Summary", lambda manifest, _: sections.summary(manifest)),
    ("Size by layer", lambda _, graph: sections.size_by_layer(graph)),
    ("Latency", sections.latency),
    ("Accuracy", lambda manifest, _: sections.accuracy(manifest)),
    ("Quantization trade-off", lambda manifest, _: sections.trade_off(manifest)),
    ("Operators", lambda manifest, _: sections.operators(manifest)),
    ("Graph", sections.graph_viewer),
    ("Inputs and outputs", lambda manifest, _: sections.features(manifest)),
    ("Stages", lambda manifest, _: sections.stages(manifest)),
    ("Files", lambda manifest, _: sections.files(manifest)),
)


def _sections(bundles: Sequence[Bundle]) -> Iterator[tuple[str, str]]:
    """Headings and texts."""
    if len(bundles) == 2:
        first, second = bundles
        yield "Comparison", sections.table(COMPARISON_HEAD, comparison_rows(first.manifest, second.manifest))
    shown = [(bundle, bundle.graph()) for bundle in bundles]
    for heading, section in _SECTIONS:
        texts = [section(bundle.manifest, graph) for bundle, graph in shown]
        if len(texts) == 1:
            yield heading, texts[0]
        else:
            names = [
                f"<h3>{escape(letter)}: {escape(_title(bundle))}</h3>"
                for letter, bundle in zip("AB", bundles, strict=True)
            ]
            columns = "\n".join(f"<div>\n{name}\n{text}\n</div>" for name, text in zip(names, texts, strict=True))
            yield heading, f'<div class="pair">\n{columns}\n</div>'


def _title(bundle: Bundle) -> str:
    return f"{bundle.name} for {bundle.profile_name}"


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _resource(name: str) -> str:
    return files("edgekit.reporting").joinpath(name).read_text(encoding="utf-8")
