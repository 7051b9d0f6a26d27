"""Measures the size of a bundle's HTML report, and how fast headless Chromium opens, searches and scrolls it.

    python benchmarks/report.py BUNDLE [--copies N]

``--copies`` repeats the bundle's graph N times, one copy after the other, to measure large graphs. Times are medians in
ms.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from edgekit.bundle import GRAPH, Bundle, read_bundle
from edgekit.reporting.html import html_report

RUNS = 5

OPENED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
"""JavaScript for the time from the start of the navigation until all is loaded and the script has built the graph."""

NEXT_FRAME = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--copies", type=int, default=1)
    arguments = parser.parse_args()
    bundle = read_bundle(arguments.bundle)
    graph = bundle.graph()
    if graph is None:
        parser.error(f"{arguments.bundle} holds no {GRAPH}: package the model again")
    with tempfile.TemporaryDirectory() as folder:
        bundle = with_copies(bundle, graph, arguments.copies, Path(folder))
        start = time.perf_counter()
        text = html_report(bundle)
        seconds = time.perf_counter() - start
        file = Path(folder) / "report.html"
        file.write_text(text, encoding="utf-8")
        print(f"nodes           {len(graph['nodes']) * arguments.copies}")  # noqa: T201 - a script's output
        print(f"report written  {seconds * 1000:.0f} ms, {len(text.encode()) / 1e6:.2f} MB")  # noqa: T201 - as above
        for name, milliseconds in measured(file).items():
            print(f"{name:<16}{milliseconds:.0f} ms")  # noqa: T201 - as above


def with_copies(bundle: Bundle, graph: Mapping[str, Any], copies: int, folder: Path) -> Bundle:
    """A copy of the bundle in another folder with its graph repeated; the outputs of a copy feed the next one."""
    values, nodes = list(graph["values"]), list(graph["nodes"])
    ends = graph["outputs"]
    for copy in range(1, copies):
        first_value, first_node = copy * len(graph["values"]), copy * len(graph["nodes"])
        joined = dict(zip(graph["inputs"], ends, strict=False))
        places = {place: joined.get(place, place + first_value) for place in range(len(graph["values"]))}
        values += [{**value, "name": f"{value['name']}.{copy}"} for value in graph["values"]]
        for node in graph["nodes"]:
            moved = {
                side: [None if place is None else places[place] for place in node[side]]
                for side in ("inputs", "outputs")
            }
            within = {"within": node["within"] + first_node} if "within" in node else {}
            nodes.append({**node, "name": f"{node['name']}.{copy}", **moved, **within})
        ends = [places[place] for place in graph["outputs"]]
    grown = {**graph, "values": values, "nodes": nodes, "outputs": ends}
    (folder / GRAPH).write_text(json.dumps(grown), encoding="utf-8")
    return replace(bundle, path=folder)


def measured(file: Path) -> dict[str, float]:
    """Median ms of each action."""
    with sync_playwright() as driver:
        executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        times: dict[str, list[float]] = {"opened": [], "searched": [], "selected": [], "moved": []}
        for _ in range(RUNS):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(file.as_uri())
            page.evaluate(NEXT_FRAME)
            times["opened"].append(page.evaluate(OPENED))
            times["searched"].append(timed(page, lambda page: page.fill("input[type=search]", "conv")))
            times["selected"].append(timed(page, lambda page: page.press("input[type=search]", "Enter")))
            page.click("[data-zoom=all]")
            page.focus("canvas")
            times["moved"].append(timed(page, lambda page: page.keyboard.press("ArrowDown")))
            page.close()
        browser.close()
    return {name: statistics.median(figures) for name, figures in times.items()}


def timed(page: Page, act: Callable[[Page], object]) -> float:
    """Milliseconds until the result of an action is on the screen: two frames later, so at least 33 ms."""
    start = time.perf_counter()
    act(page)
    page.evaluate(NEXT_FRAME)
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()
