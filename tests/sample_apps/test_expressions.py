"""The facial expressions sample app: its export, its page in headless Chromium and its program for Intel."""

from __future__ import annotations

import base64
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
import pytest
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sample-app-expressions")]

Serve = Callable[..., AbstractContextManager[str]]
Declared = Callable[[Path, str, str, Path], Path]

FACE = (178, 68, 270, 178)
"""Where the astronaut's face is, by eye: left, top, right, bottom."""
KERAS = """
import sys, numpy, keras
network = keras.models.load_model(sys.argv[1], compile=False)
numpy.save(sys.argv[3], network(numpy.load(sys.argv[2])).detach().numpy())
"""


@pytest.fixture(scope="module")
def app(fetched_app: Callable[[str, str], Path]) -> Path:
    pytest.importorskip("h5py", reason="h5py is not installed, which the export reads Keras' file with")
    return fetched_app("expressions", "export.py")


@pytest.fixture(scope="module")
def logits(app: Path) -> Callable[[np.ndarray], np.ndarray]:
    """What ONNX Runtime makes of grey pixels, batch × 64 × 64, with the exported file."""
    session = onnxruntime.InferenceSession(app / "fetched" / "expressions.onnx", providers=["CPUExecutionProvider"])

    def run(pixels: np.ndarray) -> np.ndarray:
        values = (np.asarray(pixels, np.float32)[:, np.newaxis] / 255 - 0.5) / 0.5
        (scores,) = session.run(["logits"], {"face": values})
        return np.asarray(scores)

    return run


def probabilities(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def overlap(box: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Intersection over union of boxes given as left, top, right, bottom."""
    across = min(box[2], other[2]) - max(box[0], other[0])
    down = min(box[3], other[3]) - max(box[1], other[1])
    areas = [(right - left) * (bottom - top) for left, top, right, bottom in (box, other)]
    common = max(across, 0) * max(down, 0)
    return common / (sum(areas) - common)


def test_the_export_computes_what_keras_computes(
    app: Path, logits: Callable[[np.ndarray], np.ndarray], tmp_path: Path
) -> None:
    pytest.importorskip("keras", reason="keras is not installed", exc_type=ImportError)
    faces = sorted((app / "fetched" / "test").glob("*.png"))[:20]
    pixels = np.stack([np.asarray(Image.open(file).resize((64, 64))) for file in faces])
    np.save(tmp_path / "in.npy", (pixels[..., np.newaxis].astype(np.float32) / 255 - 0.5) / 0.5)
    arguments = [app / "fetched" / "emotion_model.hdf5", tmp_path / "in.npy", tmp_path / "out.npy"]
    command = [sys.executable, "-c", KERAS, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = np.load(tmp_path / "out.npy")
    assert np.abs(probabilities(logits(pixels)) - expected).max() < 1e-5
    assert len(set(expected.argmax(axis=1))) > 2


@pytest.fixture(scope="module")
def web_bundles(app: Path, declared_bundle: Declared) -> list[Path]:
    return [
        declared_bundle(app / "edgekit.toml", f"{name}-web", "none", app / f"{name}-web")
        for name in ("expressions", "faces")
    ]


@pytest.mark.browser
def test_the_page_finds_the_face_and_tells_what_it_expresses(
    app: Path, web_bundles: list[Path], page: Page, serve: Serve, logits: Callable[[np.ndarray], np.ndarray]
) -> None:
    with serve(*web_bundles, app=app) as url:
        page.goto(url)
        page.wait_for_selector("#check.passed")
        assert page.inner_text("#answer").startswith("1 face: happy (")
        found = page.evaluate("Array.from(document.querySelectorAll('#faces meter'), bar => bar.value)")
        cut = page.evaluate("document.querySelector('#faces canvas').toDataURL('image/png')")
        marked = page.evaluate("document.getElementById('picture').toDataURL('image/png')")
        page.evaluate("document.getElementById('answer').textContent = ''")
        page.set_input_files("#file", app / "fetched" / "pictures" / "coffee.png")
        page.wait_for_function("document.getElementById('answer').textContent.startsWith('No faces (')")
        assert page.locator("#faces li").count() == 0
    face = pictured(cut).convert("L")
    assert face.size == (64, 64)
    expected = probabilities(logits(np.asarray(face)[np.newaxis]))[0]
    assert np.abs(np.array(found) - expected).max() < 1e-3
    original = Image.open(app / "fetched" / "pictures" / "astronaut.png").convert("RGB")
    drawn = np.abs(np.asarray(pictured(marked), int) - np.asarray(original, int)).max(axis=2) > 60
    rows, columns = np.flatnonzero(drawn.sum(axis=1) > 40), np.flatnonzero(drawn.sum(axis=0) > 60)
    assert overlap((columns[0], FACE[1], columns[-1], rows[-1]), FACE) > 0.7


@pytest.mark.browser
def test_the_page_recognizes_what_the_camera_sees(
    app: Path, web_bundles: list[Path], browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    picture = Image.open(app / "fetched" / "pictures" / "astronaut.png").convert("RGB")
    picture.save(tmp_path / "camera.jpg", quality=95)
    (tmp_path / "camera.mjpeg").write_bytes((tmp_path / "camera.jpg").read_bytes() * 2)
    arguments = ["--no-sandbox", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    arguments += [f"--use-file-for-fake-video-capture={tmp_path / 'camera.mjpeg'}"]
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    filming = browser.browser_type.launch(executable_path=program, args=arguments)
    with serve(*web_bundles, app=app) as url:
        page = filming.new_page()
        page.goto(url)
        page.wait_for_selector("#camera:enabled")
        page.evaluate("document.getElementById('faces').replaceChildren()")
        page.click("#camera")
        page.wait_for_selector("#faces canvas")
        page.click("text=Stop the camera")
        assert page.inner_text("#answer").startswith("1 face: happy (")
        assert page.inner_text("#camera") == "Use the camera"
    filming.close()


def pictured(url: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB")


def test_the_program_for_intel_finds_the_face_and_tells_what_it_expresses(
    app: Path, declared_bundle: Declared, tmp_path: Path
) -> None:
    bundles = [
        declared_bundle(app / "edgekit.toml", f"{name}-intel-cpu", "none", app / f"{name}-intel-cpu")
        for name in ("faces", "expressions")
    ]
    program = [sys.executable, app / "recognize.py", *bundles, app / "fetched" / "pictures" / "astronaut.png"]
    command = [*map(str, program), str(tmp_path / "out.png")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer = re.fullmatch(r"face at (\d+), (\d+), (\d+), (\d+): happy \([\d.]+%, [\d.]+ ms\)\n", done.stdout)
    assert answer is not None, done.stdout
    left, top, width, height = map(float, answer.groups())
    assert overlap((left, top, left + width, top + height), FACE) > 0.7
    assert Image.open(tmp_path / "out.png").size == (512, 512)
