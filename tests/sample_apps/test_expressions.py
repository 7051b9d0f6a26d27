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
from PIL import Image, ImageOps

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


ANSWER = re.compile(r"face at (\d+), (\d+), (\d+), (\d+): (\S+) \(([\d.]+)%, [\d.]+ ms\)")


@pytest.fixture(scope="module")
def intel_bundles(app: Path, declared_bundle: Declared) -> list[Path]:
    """Those of the faces and of the expressions."""
    return [
        declared_bundle(app / "edgekit.toml", f"{name}-intel-cpu", "none", app / f"{name}-intel-cpu")
        for name in ("faces", "expressions")
    ]


def recognize(*command: object) -> list[tuple[tuple[float, ...], str, float]]:
    """What a program prints: left, top, width and height of each face, its label and the label's probability."""
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    answers = [ANSWER.fullmatch(line) for line in done.stdout.splitlines()]
    assert all(answers), done.stdout
    return [(tuple(map(float, answer.groups()[:4])), answer[5], float(answer[6]) / 100) for answer in answers if answer]


def test_the_program_for_intel_finds_the_face_and_tells_what_it_expresses(
    app: Path, intel_bundles: list[Path], tmp_path: Path
) -> None:
    picture, out = app / "fetched" / "pictures" / "astronaut.png", tmp_path / "out.png"
    (((left, top, width, height), label, _),) = recognize(
        sys.executable, app / "recognize.py", *intel_bundles, picture, out
    )
    assert label == "happy"
    assert overlap((left, top, left + width, top + height), FACE) > 0.7
    assert Image.open(out).size == (512, 512)


@pytest.mark.cxx
def test_the_cpp_program_recognizes_what_the_python_program_recognizes(
    app: Path,
    intel_bundles: list[Path],
    cpp: Callable[[str], Path],
    logits: Callable[[np.ndarray], np.ndarray],
    tmp_path: Path,
) -> None:
    pictures = app / "fetched" / "pictures"
    astronaut = Image.open(pictures / "astronaut.png").convert("RGB")
    two = Image.open(pictures / "coffee.png").convert("RGB").resize((901, 500))
    two.paste(astronaut.crop((100, 20, 360, 260)), (13, 7))
    two.paste(ImageOps.mirror(astronaut).resize((390, 390)).crop((60, 0, 320, 250)), (520, 180))
    two.save(tmp_path / "two.png")
    tall = ImageOps.expand(astronaut.crop((185, 60, 330, 400)), (0, 0, 0, 90), (0, 40, 200))  # the face at its border
    tall.save(tmp_path / "tall.png")
    everything = ((pictures / "astronaut.png", 1), (tmp_path / "two.png", 2), (tmp_path / "tall.png", 1))
    for file, count in (*everything, (pictures / "coffee.png", 0)):
        out = tmp_path / f"{file.stem}-out.png"
        found = recognize(cpp("recognize"), *intel_bundles, file, out)
        others = recognize(sys.executable, app / "recognize.py", *intel_bundles, file, tmp_path / "python.png")
        assert len(found) == len(others) == count
        original = Image.open(file).convert("RGB")
        for (box, label, probability), (other_box, other_label, other_probability) in zip(found, others, strict=True):
            assert (box, label) == (other_box, other_label)
            assert probability == pytest.approx(other_probability, abs=0.0011)  # printed with a digit after the point
            left, top, width, height = box
            side = 1.2 * max(width, height)
            x, y = left + (width - side) / 2, top + (height - side) / 2
            face = original.crop((round(x), round(y), round(x + side), round(y + side)))
            pixels = np.asarray(face.convert("L").resize((64, 64), Image.Resampling.BILINEAR))
            assert abs(probabilities(logits(pixels[np.newaxis]))[0].max() - probability) < 0.02  # cut a pixel off
        changed = np.asarray(Image.open(out)) != np.asarray(original)
        assert changed.any() == bool(count)
    (((left, top, width, height), _, _),) = recognize(
        cpp("recognize"), *intel_bundles, pictures / "astronaut.png", tmp_path / "out.png"
    )
    assert overlap((left, top, left + width, top + height), FACE) > 0.7
    marked = np.asarray(Image.open(tmp_path / "out.png"))
    gold = (marked == (255, 215, 0)).all(axis=2)
    rows, columns = np.flatnonzero(gold.sum(axis=1) > 80), np.flatnonzero(gold.sum(axis=0) > 90)
    np.testing.assert_allclose((columns[0], columns[-1], rows[-1]), (left, left + width, top + height), atol=2)


@pytest.mark.cxx
def test_the_cpp_program_says_what_is_wrong(
    app: Path, intel_bundles: list[Path], web_bundles: list[Path], cpp: Callable[[str], Path], tmp_path: Path
) -> None:
    picture, out = app / "fetched" / "pictures" / "astronaut.png", tmp_path / "out.png"
    faces, expressions = intel_bundles
    web = web_bundles[0]
    for arguments, code, complaint in (
        ([tmp_path, expressions, picture, out], 1, f"{tmp_path} is not a bundle: there is no manifest.json in it"),
        (
            [faces, web, picture, out],
            1,
            f"{web} is a bundle for web, this program takes those for intel-cpu, intel-gpu and intel-npu",
        ),
        ([expressions, faces, picture, out], 1, f"{expressions} has no output detections"),
        ([faces, expressions, tmp_path / "none.png", out], 1, f"{tmp_path / 'none.png'}: can't fopen"),
        ([faces, expressions, app / "export.py", out], 1, f"{app / 'export.py'}: unknown image type"),
    ):
        command = [str(part) for part in (cpp("recognize"), *arguments)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr, done.stdout) == (code, f"recognize: {complaint}\n", "")
    assert not out.exists()
