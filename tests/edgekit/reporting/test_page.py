"""The HTML report in headless Chromium, opened as a file, as readers open it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgekit.bundle import read_bundle
from edgekit.reporting.html import html_report

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("report-page")]

Open = Callable[..., Any]

IN_VIEW = """document.querySelectorAll('[role=option]:not([hidden])').length"""


@pytest.fixture
def open_report(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens the report of a bundle; it must not complain on its console, nor ask for anything but itself."""
    complaints: list[str] = []
    requests: list[str] = []
    contexts = []

    def open_page(*bundles: Path, **options: Any) -> Any:
        file = tmp_path / "report.html"
        file.write_text(html_report(*map(read_bundle, bundles)), encoding="utf-8")
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert {Path(url).name for url in requests} == {"report.html"}


def pixels(page: Any) -> str:
    """The graph as it is painted."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return str(page.evaluate("document.querySelector('canvas').toDataURL()"))


def selected(page: Any) -> str:
    return str(page.inner_text(".details h3"))


def test_the_verdict_comes_first(open_report: Open, packaged_digits: Path) -> None:
    page = open_report(packaged_digits)
    assert page.inner_text("main section:first-of-type h2") == "Summary"
    assert page.inner_text(".verdict > p").startswith("Ships")
    assert page.locator("svg.chart").count() == 1
    assert page.locator(".bar").count() >= 5


def test_search_select_and_read(open_report: Open, packaged_digits: Path) -> None:
    page = open_report(packaged_digits)
    graph = read_bundle(packaged_digits).graph()
    assert graph is not None
    convolutions = [node for node in graph["nodes"] if node["op"] == "Conv"]
    page.fill("input[type=search]", "conv")
    page.press("input[type=search]", "Enter")
    assert selected(page) == convolutions[0]["name"]
    page.fill("input[type=search]", "conv  /CONV")
    assert page.inner_text(".count") == f"{page.evaluate(IN_VIEW)} of {len(graph['nodes']) + 2} nodes"
    page.fill("input[type=search]", convolutions[1]["name"])
    page.press("input[type=search]", "Enter")
    assert selected(page) == convolutions[1]["name"]
    details = page.inner_text(".details")
    for name, text in convolutions[1]["attributes"].items():
        assert f"{name}\n{text}" in details
    result = graph["values"][convolutions[1]["outputs"][0]]
    assert f"{result['name']} float32 {'×'.join(map(str, result['shape']))}" in details
    assert "evidence\ncompiled" in details
    page.click(".details button >> nth=-1")
    (reader,) = (node for node in graph["nodes"] if convolutions[1]["outputs"][0] in node["inputs"])
    assert selected(page) == reader["name"]


def test_the_list_answers_to_the_keyboard(open_report: Open, packaged_digits: Path) -> None:
    page = open_report(packaged_digits)
    graph = read_bundle(packaged_digits).graph()
    assert graph is not None
    names = [node["name"] for node in graph["nodes"]]
    page.focus("input[type=search]")
    page.keyboard.press("ArrowDown")
    for key, name in (("ArrowDown", names[0]), ("ArrowDown", names[1]), ("ArrowUp", names[0]), ("End", "logits")):
        page.keyboard.press(key)
        assert selected(page) == name
        active = page.get_attribute("[role=listbox]", "aria-activedescendant")
        assert page.get_attribute(f"#{active}", "aria-selected") == "true"
        assert page.locator("[aria-selected=true]").count() == 1


def test_pan_zoom_and_click(open_report: Open, packaged_digits: Path) -> None:
    page = open_report(packaged_digits)
    canvas = page.locator("canvas")
    canvas.scroll_into_view_if_needed()
    seen = [pixels(page)]
    canvas.focus()
    for key in ("ArrowDown", "+", "-", "0"):
        page.keyboard.press(key)
        seen.append(pixels(page))
    box = canvas.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.wheel(0, -300)
    seen.append(pixels(page))
    page.mouse.down()
    page.mouse.move(middle[0] + 60, middle[1] + 90, steps=3)
    page.mouse.up()
    seen.append(pixels(page))
    assert all(before != after for before, after in itertools.pairwise(seen))
    assert page.locator(".details h3").count() == 0, "dragging is no click"
    page.fill("input[type=search]", "relu")
    page.press("input[type=search]", "Enter")
    chosen = selected(page)
    page.locator("[role=option]:not([hidden])").last.click()
    assert selected(page) != chosen
    chosen = selected(page)
    page.evaluate("document.querySelector('.details').replaceChildren()")
    page.mouse.click(*middle)  # where the selected node was brought to
    assert selected(page) == chosen


def test_the_wheel_scrolls_the_page_until_the_graph_is_in_use(open_report: Open, packaged_digits: Path) -> None:
    page = open_report(packaged_digits)
    page.locator("canvas").hover()
    before = page.evaluate("scrollY"), pixels(page)
    page.mouse.wheel(0, 200)
    page.evaluate(f"""new Promise((done) => {{
        const look = () => (scrollY > {before[0]} ? done() : requestAnimationFrame(look));
        look();
    }})""")
    assert pixels(page) == before[1]


def test_colours(open_report: Open, packaged_digits: Path) -> None:
    page = open_report(packaged_digits)
    looks = {}
    for mode in page.locator("select.modes option").all_inner_texts():
        page.select_option("select.modes", mode)
        looks[mode] = page.inner_text(".graph .legend")
    assert "supported" in looks["verdict"]
    assert "float32" in looks["precision"]
    assert "10 % and more" in looks["time"]
    assert "error" not in looks, "nothing was quantized"


def test_dark_pages_are_dark(open_report: Open, packaged_digits: Path) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        page = open_report(packaged_digits, color_scheme=scheme)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness[scheme] = sum(map(int, colour.strip("rgb()").split(",")))
    assert brightness["dark"] < 150 < 600 < brightness["light"]


def test_a_phone_scrolls_in_one_direction(open_report: Open, packaged_digits: Path) -> None:
    page = open_report(packaged_digits, packaged_digits, viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_bundles_side_by_side_are_looked_at_together(open_report: Open, packaged_digits: Path, bundle: Path) -> None:
    page = open_report(packaged_digits, bundle)
    assert page.locator("canvas").count() == 2
    page.locator("[role=listbox]").first.focus()
    page.keyboard.press("ArrowDown")
    first, second = page.locator(".details h3").all_inner_texts()
    assert first == second


def test_five_thousand_nodes(open_report: Open, bundle: Path) -> None:
    values = [{"name": f"t{number}", "dtype": "float32", "shape": [1, 8]} for number in range(5001)]
    nodes = [
        {"name": f"node{number}", "op": "Add", "inputs": [number, max(0, number - number % 7)], "outputs": [number + 1]}
        for number in range(5000)
    ]
    graph = {"format": 1, "values": values, "nodes": nodes, "inputs": [0], "outputs": [5000]}
    (bundle / "graph.json").write_text(json.dumps(graph))
    page = open_report(bundle)
    assert page.inner_text(".count") == "5002 nodes"
    page.fill("input[type=search]", "node4999")
    page.press("input[type=search]", "Enter")
    assert selected(page) == "node4999"
    page.click("[data-zoom=all]")
    before = pixels(page)
    page.click("[data-zoom=in]")
    assert pixels(page) != before


def test_without_a_graph(open_report: Open, bundle: Path) -> None:
    (bundle / "graph.json").unlink()
    page = open_report(bundle)
    assert "holds no graph" in page.inner_text("#graph")
    assert page.locator("canvas").count() == 0


def test_a_part_of_several_nodes_opens(open_report: Open, packaged_digits: Path) -> None:
    page = open_report(packaged_digits)
    views = page.locator("select.views option").all_inner_texts()
    assert [view.partition(" ")[0] for view in views][-2:] == ["layers", "nodes"]
    page.select_option("select.views", "layers")
    before = pixels(page)
    page.evaluate("""(() => {
        const part = graphs[0].views[graphs[0].viewNumber].parts.findIndex((one) => one.members.length > 1);
        graphs[0].selectPart(part);
    })()""")
    members = page.locator(".details ul li").count()
    assert members > 1
    assert "operators" in page.inner_text(".details dl")
    page.click(f"text=Show its {members} nodes")
    assert page.eval_on_selector("select.views", "(select) => select.value") == "nodes"
    assert pixels(page) != before


def test_a_selected_node_is_brought_near_enough_to_read(open_report: Open, packaged_digits: Path) -> None:
    page = open_report(packaged_digits)
    page.click("[data-zoom=out]")
    page.click("[data-zoom=out]")
    page.click("[data-zoom=out]")
    assert page.evaluate("graphs[0].zoom") < 1
    page.fill("input[type=search]", "conv")
    page.press("input[type=search]", "Enter")
    assert page.evaluate("graphs[0].zoom") >= 1


def test_data_flows_along_the_longer_side(open_report: Open, packaged_digits: Path) -> None:
    extent = "[2, 3].map((side) => graphs[0].placed.area[side] - graphs[0].placed.area[side - 2])"
    wide, high = open_report(packaged_digits).evaluate(extent)
    assert wide > high
    wide, high = open_report(packaged_digits, viewport={"width": 360, "height": 740}).evaluate(extent)
    assert high > wide


def test_names_are_text_and_not_markup(open_report: Open, bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    hostile = "</script><img src=x onerror=console.log(1)>"
    manifest["labels"] = [hostile, "`" + hostile]
    manifest["stages"][0]["record"]["warnings"] = [f"see `{hostile}`"]
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    graph = json.loads((bundle / "graph.json").read_text())
    graph["nodes"][0]["name"] = hostile
    (bundle / "graph.json").write_text(json.dumps(graph))
    page = open_report(bundle)
    assert page.locator("img").count() == 0
    assert hostile in page.inner_text("ol.labels")
    assert page.inner_text(".verdict code") == hostile
    assert hostile in page.inner_text("[role=listbox]")


def test_without_javascript_the_page_says_why_there_is_no_graph(open_report: Open, packaged_digits: Path) -> None:
    page = open_report(packaged_digits, java_script_enabled=False)
    assert page.inner_text("#graph .note") == (
        "The graph is drawn by JavaScript, which is switched off here; the operators are listed below."
    )
    assert not page.locator("canvas").is_visible()
    assert not page.locator("text=Select a node").is_visible()


def test_paper_cuts_no_table_off(open_report: Open, packaged_digits: Path) -> None:
    """A4 is 210 mm wide; with margins of 10 mm that leaves 718 pixels of a 96th of an inch."""
    page = open_report(packaged_digits, viewport={"width": 718, "height": 1000})
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") == 718
    assert page.locator("canvas").is_visible()
    assert not page.locator("nav").is_visible()


CONTRASTS = """() => {
  const numbers = (colour) => [...colour.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const light = (colour) => colour.slice(0, 3).map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = (element) => {
    if (element.matches("text.dot")) return numbers(getComputedStyle(element.previousElementSibling).fill);
    let at = element;
    while (at && numbers(getComputedStyle(at).backgroundColor)[3] === 0) at = at.parentElement;
    return numbers(getComputedStyle(at ?? document.body).backgroundColor);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || element.closest("script, noscript, option")) continue;
    const style = getComputedStyle(element);
    const lights = [numbers(element instanceof SVGElement ? style.fill : style.color), behind(element)].map(light);
    const ratio = (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
    found.push([ratio, walker.currentNode.textContent.trim()]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(open_report: Open, packaged_digits: Path, scheme: str) -> None:
    """WCAG 2.2, success criterion 1.4.3: a ratio of at least 4.5, by its definition of relative luminance."""
    page = open_report(packaged_digits, color_scheme=scheme)
    found = page.evaluate(CONTRASTS)
    assert len(found) > 100
    assert [text for ratio, text in found if ratio < 4.5] == []
