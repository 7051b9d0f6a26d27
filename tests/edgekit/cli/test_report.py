import hashlib
import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

RunEdgeKit = Callable[..., Any]

VOID = {"meta", "input", "wbr"}


class Page(HTMLParser):
    """Reads a page, and asserts that every element is closed and nothing is loaded from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.cells: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert all(name != "src" and (name != "href" or str(value).startswith("#")) for name, value in attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)
        elif self.open and self.open[-1] in ("td", "th"):
            self.cells.append(data)


SECTIONS = [
    "Summary",
    "Candidates",
    "Accuracy",
    "Latency",
    "Size by layer",
    "Graph",
    "Operators",
    "Inputs and outputs",
    "Stages",
    "Files",
]


def test_one_page_with_everything(edgekit: RunEdgeKit, packaged_digits: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    finished = edgekit("report", packaged_digits, "-o", output)
    assert finished.code == 0
    assert finished.out == f"{output}\n"
    page = Page(output.read_text())
    assert page.headings == SECTIONS
    assert {"logits", "Conv", "supported", "model.onnx", "float32"} <= set(page.cells)


def test_two_bundles_side_by_side(edgekit: RunEdgeKit, packaged_digits: Path, bundle: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    finished = edgekit("report", packaged_digits, "--against", bundle, "-o", output)
    assert finished.code == 0
    page = Page(output.read_text())
    assert page.headings == ["Comparison", *SECTIONS]
    assert "×1.00" in page.cells
    assert page.cells.count("model.onnx") == 2


def test_json(edgekit: RunEdgeKit, packaged_digits: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    record = edgekit("report", packaged_digits, "-o", output, "--json").json
    assert record == {
        "bundle": str(packaged_digits),
        "against": None,
        "report": str(output),
        "bytes": output.stat().st_size,
    }


def test_names_are_not_markup(edgekit: RunEdgeKit, onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    model = onnx_file("f (float[1, 3] x) => (float[1, 3] y) { y = Exp(x) }", name="a<script>&b.onnx")
    bundle = tmp_path / "a<script>&b"
    assert edgekit("package", model, "--target", "ort", "-o", bundle).code == 0
    assert edgekit("report", bundle, "-o", tmp_path / "report.html").code == 0
    text = (tmp_path / "report.html").read_text()
    assert "<script>&" not in text
    assert "a&lt;script&gt;&amp;b for onnxruntime" in text


def test_refused(edgekit: RunEdgeKit, packaged_digits: Path, bundle: Path, tmp_path: Path) -> None:
    finished = edgekit("report", tmp_path, "-o", tmp_path / "report.html")
    assert finished.code == 2
    assert finished.err.startswith(f"error: {tmp_path}: is not a bundle\n")
    (tmp_path / "file").touch()
    finished = edgekit("report", packaged_digits, "-o", tmp_path / "file" / "report.html")
    assert finished.code == 2
    assert "cannot be written: not a directory" in finished.err
    (bundle / "report.md").write_text("all is well")
    finished = edgekit("report", bundle, "-o", tmp_path / "report.html")
    assert finished.code == 1
    assert not (tmp_path / "report.html").exists()


def test_a_report_tells_which_bundle_is_which(
    edgekit: RunEdgeKit, onnx_file: Callable[..., Path], tmp_path: Path
) -> None:
    """Two builds of one name for one target were "m for onnxruntime against m for onnxruntime"."""
    sums = {}
    for build, node in (("old", "Exp"), ("new", "Log")):
        model = onnx_file(f"f (float[1, 4] x) => (float[1, 4] y) {{ y = {node}(x) }}")
        sums[build] = hashlib.sha256(model.read_bytes()).hexdigest()
        options = ("--precision", "float32") if build == "new" else ()
        packaged = edgekit(
            "package", model, "--target", "onnxruntime", "-o", tmp_path / build / "m", "--json", *options
        )
        assert packaged.json["source"]["files"][0]["sha256"] == sums[build]
        assert (
            packaged.json["fingerprint"]
            == json.loads((tmp_path / build / "m/manifest.json").read_text())["fingerprint"]
        )
    page = tmp_path / "page.html"
    assert edgekit("report", tmp_path / "new/m", "--against", tmp_path / "old/m", "-o", page, "-q").code == 0
    cells = Page(page.read_text()).cells
    new, old = (f"{model.name}, SHA-256 {sums[build][:12]}…" for build in ("new", "old"))
    assert row(cells, "folder")[:2] == [f"{tmp_path}/new/m", f"{tmp_path}/old/m"]
    assert row(cells, "made from") == [new, old, "another model"]
    assert row(cells, "asked for: precision")[:2] == ['"float32"', '"auto"']
    assert "the model, samples, options or versions differ" in cells
    assert edgekit("report", tmp_path / "new/m", "--against", tmp_path / "new/m", "-o", page, "-q").code == 0
    cells = Page(page.read_text()).cells
    assert row(cells, "made from") == [new, new, "the same model"]
    assert "asked for: precision" not in cells


def row(cells: list[str], label: str) -> list[str]:
    """Returns the cells of the first row with a label: A's, B's, and how they relate. Empty cells have no data."""
    start = cells.index(label) + 1
    return cells[start : start + 3]


def test_a_file_of_another_kind_is_not_replaced(
    edgekit: RunEdgeKit, packaged_digits: Path, digits: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(digits.read_bytes())
    finished = edgekit("report", packaged_digits, "-o", model)
    assert finished.code == 2
    assert finished.err == (
        f"error: {model}: exists and is not an HTML file\nhint: choose another name with -o, or remove it first\n"
    )
    assert model.read_bytes() == digits.read_bytes()
    older = tmp_path / "older"
    for text in ("", "\n<!DOCTYPE html>\n<html></html>"):
        older.write_text(text)
        assert edgekit("report", packaged_digits, "-o", older).code == 0
