"""The super-resolution sample app: its page in headless Chromium and its program for Intel."""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sample-app-super-resolution")]

Serve = Callable[..., AbstractContextManager[str]]
Declared = Callable[[Path, str, str, Path], Path]
BORDER = 10  # pixels of the result: 5 of the picture


@pytest.fixture(scope="module")
def app(fetched_app: Callable[[str, str], Path]) -> Path:
    return fetched_app("super_resolution", "fetch.py")


@pytest.fixture(scope="module")
def web_bundle(app: Path, declared_bundle: Declared) -> Path:
    return declared_bundle(app / "edgekit.toml", "espcn-web", "none", app / "espcn-web")


@pytest.fixture(scope="module")
def shipped_web_bundle(app: Path, declared_bundle: Declared) -> Path:
    return declared_bundle(app / "edgekit.toml", "espcn-web", "int8", app / "espcn-web-int8")


@pytest.fixture(scope="module")
def whole(app: Path) -> Callable[[Image.Image], np.ndarray]:
    """What ONNX Runtime makes of a whole picture with the file as it was fetched: height × width × 3, uint8."""
    model = onnx.load(app / "fetched" / "espcn.onnx")
    weights = {tensor.name for tensor in model.graph.initializer}
    for value in [*(value for value in model.graph.input if value.name not in weights), *model.graph.output]:
        for axis in (2, 3):
            value.type.tensor_type.shape.dim[axis].dim_param = f"{value.name} {axis}"
    model.graph.ClearField("value_info")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    def enlarged(picture: Image.Image) -> np.ndarray:
        values = np.asarray(picture, np.float32).transpose(2, 0, 1)[np.newaxis] / 255
        (result,) = session.run(None, {session.get_inputs()[0].name: values})
        return np.rint(result[0].transpose(1, 2, 0) * 255).clip(0, 255).astype(np.uint8)

    return enlarged


def difference(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    assert one.shape == other.shape
    return np.abs(one.astype(int) - other.astype(int))


def shown(page: Page, canvas: str) -> np.ndarray:
    """The pixels of a canvas: height × width × 3."""
    url = page.evaluate("name => document.getElementById(name).toDataURL('image/png')", canvas)
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB"))


def enlarge(page: Page, file: Path) -> np.ndarray:
    """What the page makes of a picture file."""
    page.wait_for_selector("#file:enabled")
    page.evaluate("document.getElementById('answer').textContent = ''")
    page.set_input_files("#file", file)
    page.wait_for_function("document.getElementById('answer').textContent.includes(' became ')")
    return shown(page, "after")


@pytest.mark.browser
def test_the_page_enlarges_as_onnx_runtime_does(
    app: Path, web_bundle: Path, page: Page, serve: Serve, whole: Callable[[Image.Image], np.ndarray], tmp_path: Path
) -> None:
    picture = Image.open(app / "fetched" / "small" / "coffee.png").crop((20, 10, 270, 160))
    picture.save(tmp_path / "picture.png")
    small = picture.crop((0, 0, 60, 140))
    small.save(tmp_path / "small.png")
    with serve(web_bundle, app=app) as url:
        page.goto(url)
        page.wait_for_selector("#check.passed")
        page.set_input_files("#file", {"name": "note.png", "mimeType": "image/png", "buffer": b"no picture"})
        page.wait_for_selector("#answer.failed")  # no further file could be chosen after it
        assert difference(enlarge(page, tmp_path / "picture.png"), whole(picture)).max() <= 1
        found, expected = enlarge(page, tmp_path / "small.png"), whole(small)
    # A picture narrower than a tile ends in repeated pixels instead of zeros.
    assert difference(found[:, :-BORDER], expected[:, :-BORDER]).max() <= 1


@pytest.mark.browser
def test_the_page_computes_what_onnx_runtime_computes_with_the_quantized_bundle(
    app: Path, shipped_web_bundle: Path, page: Page, serve: Serve, whole: Callable[[Image.Image], np.ndarray]
) -> None:
    file = next((app / "fetched" / "test").glob("*.png"))
    session = onnxruntime.InferenceSession(shipped_web_bundle / "model.onnx", providers=["CPUExecutionProvider"])
    values = np.asarray(Image.open(file), np.float32).transpose(2, 0, 1)[np.newaxis] / 255
    (result,) = session.run(None, {session.get_inputs()[0].name: values})
    expected = np.rint(result[0].transpose(1, 2, 0) * 255).clip(0, 255)
    with serve(shipped_web_bundle, app=app) as url:
        page.goto(url)
        found = enlarge(page, file)
    assert difference(found, expected).max() <= 1
    error = np.mean(np.square(difference(found, whole(Image.open(file)))))
    assert 10 * np.log10(255**2 / error) > 35  # dB, to the network before it was quantized


@pytest.mark.browser
def test_the_slider_divides_before_and_after(app: Path, web_bundle: Path, page: Page, serve: Serve) -> None:
    def seen() -> np.ndarray:
        return np.asarray(Image.open(io.BytesIO(page.locator("#comparison").screenshot())).convert("RGB")).astype(int)

    with serve(web_bundle, app=app) as url:
        page.goto(url)
        page.wait_for_selector("#file:enabled")
        slider = page.locator("#slider")
        slider.fill("0")
        after = seen()
        slider.fill("100")
        before = seen()
        assert np.abs(after - before).max() > 30
        box = slider.bounding_box()
        assert box is not None
        middle = box["y"] + 60
        page.mouse.move(box["x"] + box["width"] * 0.9, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.3, middle, steps=5)
        page.mouse.up()
        both = seen()
        assert float(slider.input_value()) == pytest.approx(30, abs=2)
        sharp = np.ones(both.shape[:2], bool)  # the browser blends the edges of what is round in more ways than one
        for corner in (np.s_[:10, :10], np.s_[:10, -10:], np.s_[-10:, :10], np.s_[-10:, -10:]):
            sharp[corner] = False
        scale = both.shape[1] / box["width"]
        for name in page.locator("#comparison .name").all():
            pill = name.bounding_box()
            assert pill is not None
            top, start = (int(scale * (pill[side] - box[side])) - 2 for side in ("y", "x"))
            sharp[top : top + int(scale * pill["height"]) + 4, start : start + int(scale * pill["width"]) + 4] = False
        assert sharp.mean() > 0.97
    split = both.shape[1] * 0.3
    left, right = int(split - 60), int(split + 60)  # beside the handle
    assert (both == before).all(axis=-1)[:, :left][sharp[:, :left]].all()
    assert (both == after).all(axis=-1)[:, right:][sharp[:, right:]].all()
    assert np.abs(both - after)[:, :left].max() > 30


@pytest.fixture(scope="module")
def intel_bundle(app: Path, declared_bundle: Declared) -> Path:
    return declared_bundle(app / "edgekit.toml", "espcn-intel-cpu", "none", app / "espcn-intel-cpu")


def test_the_program_for_intel_enlarges_as_onnx_runtime_does(
    app: Path, intel_bundle: Path, whole: Callable[[Image.Image], np.ndarray], tmp_path: Path
) -> None:
    file = app / "fetched" / "small" / "coffee.png"
    program = [sys.executable, app / "upscale.py", intel_bundle, file, tmp_path / "out.png"]
    done = subprocess.run(list(map(str, program)), check=True, capture_output=True, text=True)
    assert done.stdout == "300 × 200 became 600 × 400 pixels\n"
    found = np.asarray(Image.open(tmp_path / "out.png"))
    assert difference(found, whole(Image.open(file))).max() <= 1


def test_the_program_refuses_what_does_not_enlarge(app: Path, intel_bundle: Path, tmp_path: Path) -> None:
    classifier = tmp_path / "classifier"
    shutil.copytree(intel_bundle, classifier)
    manifest = json.loads((classifier / "manifest.json").read_text(encoding="utf-8"))
    manifest["outputs"][0]["shape"] = [1, 10]
    (classifier / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    program = [sys.executable, app / "upscale.py", classifier, app / "fetched" / "small" / "coffee.png", "out.png"]
    done = subprocess.run(list(map(str, program)), check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, f"upscale: {classifier} does not enlarge pictures\n")


@pytest.mark.cxx
@pytest.mark.parametrize(
    ("box", "size"),
    [((20, 10, 270, 160), "250 × 150 became 500 × 300"), ((20, 10, 80, 150), "60 × 140 became 120 × 280")],
)
def test_the_cpp_program_enlarges_as_onnx_runtime_and_the_python_program_do(
    box: tuple[int, int, int, int],
    size: str,
    app: Path,
    intel_bundle: Path,
    cpp: Callable[[str], Path],
    whole: Callable[[Image.Image], np.ndarray],
    tmp_path: Path,
) -> None:
    picture = Image.open(app / "fetched" / "small" / "coffee.png").crop(box)
    picture.save(tmp_path / "picture.png")
    results = {}
    programs: dict[str, list[object]] = {"python": [sys.executable, app / "upscale.py"], "cpp": [cpp("upscale")]}
    for name, program in programs.items():
        out = tmp_path / f"{name}.png"
        command = [str(part) for part in (*program, intel_bundle, tmp_path / "picture.png", out)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert done.stdout == f"{size} pixels\n"
        results[name] = np.asarray(Image.open(out))
    found = results["cpp"]
    np.testing.assert_array_equal(found, results["python"])
    # A picture narrower than a tile ends in repeated pixels instead of zeros.
    expected = whole(picture)
    right = -BORDER if picture.width < 128 else None
    assert difference(found[:, :right], expected[:, :right]).max() <= 1


@pytest.mark.cxx
def test_the_cpp_program_says_what_is_wrong(
    app: Path, intel_bundle: Path, web_bundle: Path, cpp: Callable[[str], Path], tmp_path: Path
) -> None:
    picture, text, out = app / "fetched" / "small" / "coffee.png", app / "fetch.py", tmp_path / "out.png"
    classifier = tmp_path / "classifier"
    shutil.copytree(intel_bundle, classifier)
    manifest = json.loads((classifier / "manifest.json").read_text(encoding="utf-8"))
    manifest["preprocessing"] |= {"size": [256, 256], "resize": "stretch"}
    (classifier / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    unwritable = tmp_path / "nowhere" / "out.png"
    for arguments, code, complaint in (
        ([tmp_path, picture, out], 1, f"upscale: {tmp_path} is not a bundle: there is no manifest.json in it"),
        (
            [web_bundle, picture, out],
            1,
            f"upscale: {web_bundle} is a bundle for web, this program takes those for "
            "intel-cpu, intel-gpu and intel-npu",
        ),
        ([classifier, picture, out], 1, f"upscale: {classifier} does not enlarge pictures"),
        ([intel_bundle, tmp_path / "none.png", out], 1, f"upscale: {tmp_path / 'none.png'}: can't fopen"),
        ([intel_bundle, text, out], 1, f"upscale: {text}: unknown image type"),
        ([intel_bundle, picture, unwritable], 1, f"upscale: {unwritable} cannot be written"),
        ([intel_bundle, picture], 2, "usage: upscale [--device NAME] BUNDLE PICTURE OUT.png"),
    ):
        command = [str(part) for part in (cpp("upscale"), *arguments)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr, done.stdout) == (code, f"{complaint}\n", "")
    assert not out.exists()
