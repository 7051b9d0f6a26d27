"""The web sample app and the web bundle's check, in headless Chromium."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

import edgekit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("sample-app-web")]

Serve = Callable[..., AbstractContextManager[str]]


@pytest.mark.parametrize("quantize", ["none", "int8"])
def test_the_app_classifies_and_passes_the_golden_check(
    quantize: str,
    page: Page,
    serve: Serve,
    digits_bundle: Callable[[str, str], Path],
    test_digits: dict[Path, str],
) -> None:
    with serve(digits_bundle("digits-web", quantize)) as url:
        page.goto(url)
        page.wait_for_selector("#check.passed")
        assert "onnxruntime-web" in (page.get_attribute("#check", "title") or "")
        right = 0
        for file in list(test_digits)[:20]:
            page.evaluate("document.getElementById('answer').textContent = ''")
            page.set_input_files("#file", file)
            page.wait_for_function("document.getElementById('answer').textContent.startsWith('This is')")
            right += f"This is a {test_digits[file]} " in page.inner_text("#answer")
        assert right >= 19
        page.set_input_files("#file", {"name": "note.png", "mimeType": "image/png", "buffer": b"no picture"})
        page.wait_for_selector("#answer.failed")  # nothing was said, and the last answer stayed
        page.click("#clear")
        assert page.inner_text("#answer") == "Draw a digit."
        assert page.query_selector("#answer.failed") is None


def test_a_drawn_digit_is_recognized(page: Page, serve: Serve, digits_bundle: Callable[[str, str], Path]) -> None:
    with serve(digits_bundle("digits-web", "none")) as url:
        page.goto(url)
        page.wait_for_selector("#check.passed")
        box = page.locator("#drawing").bounding_box()
        assert box is not None
        strokes = {"1": [(150, 60), (135, 220)], "7": [(90, 70), (190, 70), (120, 220)]}
        for digit, points in strokes.items():
            page.click("#clear")
            for number, (x, y) in enumerate(points):
                page.mouse.move(box["x"] + x, box["y"] + y, steps=8)
                if number == 0:
                    page.mouse.down()
            page.mouse.up()
            page.wait_for_function("document.getElementById('answer').textContent.startsWith('This is')")
            assert page.inner_text("#answer").startswith(f"This is a {digit} ")


def check_page(url: str) -> str:
    return f"{url}bundle/check.html?ort=/node_modules/onnxruntime-web/dist/ort.wasm.min.mjs"


def test_the_bundles_own_page_runs_the_check(
    page: Page, serve: Serve, digits_bundle: Callable[[str, str], Path]
) -> None:
    with serve(digits_bundle("digits-web", "none")) as url:
        page.goto(check_page(url))
        page.wait_for_selector("#verdict.passed")
        result = page.evaluate("window.goldenCheck")
        assert result["passed"]
        assert [output["name"] for output in result["outputs"]] == ["logits"]
        assert result["outputs"][0]["sqnr_db"] > 100


def test_the_check_catches_a_device_that_computes_something_else(
    page: Page,
    serve: Serve,
    digits_bundle: Callable[[str, str], Path],
    tmp_path: Path,
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(digits_bundle("digits-web", "none"), bundle)
    golden = bundle / "golden" / "1" / "outputs" / "0.npy"
    logits = np.load(golden)
    np.save(golden, logits[:, ::-1].copy())
    manifest = json.loads((bundle / "manifest.json").read_text())
    record = next(file for file in manifest["files"] if file["path"] == "golden/1/outputs/0.npy")
    record["sha256"] = hashlib.sha256(golden.read_bytes()).hexdigest()
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    with serve(bundle) as url:
        page.goto(check_page(url))
        page.wait_for_selector("#verdict.failed")
        assert not page.evaluate("window.goldenCheck")["passed"]
        page.goto(url)
        page.wait_for_selector("#check.failed")
        assert "do not trust" in page.inner_text("#check")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array(2.5),
        np.array([[True], [False]]),
        np.array([-(2**62), 2**62]),
        np.zeros((0, 4), np.int32),
        np.array([1.5, -2], np.float16),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_the_check_reads_what_numpy_writes(
    array: np.ndarray,
    page: Page,
    serve: Serve,
    digits_bundle: Callable[[str, str], Path],
    tmp_path: Path,
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(digits_bundle("digits-web", "none"), bundle)
    np.save(bundle / "array.npy", array)
    with serve(bundle) as url:
        page.goto(check_page(url))
        page.wait_for_selector("#verdict.passed")
        read = page.evaluate(
            "async () => { const { parseNpy } = await import('/bundle/check.mjs');"
            " const { type, data, dims } = parseNpy(await (await fetch('/bundle/array.npy')).arrayBuffer());"
            " return JSON.stringify([type, dims, Array.from(data, String)]); }"
        )
    kind, dims, values = json.loads(read)
    assert (kind, dims) == (array.dtype.name, list(array.shape))
    assert [float(value) for value in values] == array.astype(np.float64).ravel().tolist()


def test_the_check_reads_texts(
    page: Page, serve: Serve, digits_bundle: Callable[[str, str], Path], tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(digits_bundle("digits-web", "none"), bundle)
    texts = np.array([["Köln", "", "𝄞 da capo"], ["a\0b", "東京", "ß"]])
    np.save(bundle / "array.npy", texts)
    with serve(bundle) as url:
        page.goto(check_page(url))
        page.wait_for_selector("#verdict.passed")
        read = page.evaluate(
            "async () => { const { parseNpy } = await import('/bundle/check.mjs');"
            " return parseNpy(await (await fetch('/bundle/array.npy')).arrayBuffer()); }"
        )
    assert read == {"type": "string", "dims": [2, 3], "data": texts.ravel().tolist()}


def test_a_model_of_texts_passes_its_own_page(page: Page, serve: Serve, tmp_path: Path) -> None:
    """Texts in, numbers and texts out, as models of tables have them."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18, "ai.onnx.ml": 3]>'
        " f (string[1, 2] x) => (int64[1, 2] number, string[1, 2] same) {"
        ' number = ai.onnx.ml.LabelEncoder <keys_strings = ["Köln", "Wien"], values_int64s = [7, 9]> (x)'
        " same = Identity (x) }"
    )
    onnx.save(model, tmp_path / "model.onnx")
    (tmp_path / "data").mkdir()
    for number, texts in enumerate((["Köln", "Wien"], ["Graz", ""])):
        np.savez(tmp_path / "data" / f"{number}.npz", x=np.array([texts]))
    made = edgekit.package(tmp_path / "model.onnx", "web", tmp_path / "cities", data=tmp_path / "data").path
    with serve(made) as url:
        page.goto(check_page(url))
        page.wait_for_selector("#verdict.passed, #verdict.failed")
        result = page.evaluate("window.goldenCheck")
        assert {output["name"]: output["passed"] for output in result["outputs"]} == {"number": True, "same": True}


def test_the_bundles_own_page_asks_the_device_that_the_bundle_is_for(
    page: Page, serve: Serve, digits_bundle: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """A page that computes on WebAssembly proves nothing of WebGPU, which this browser does not have."""
    bundle = tmp_path / "bundle"
    shutil.copytree(digits_bundle("digits-web", "none"), bundle)
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["target"]["profile"] = "web-webgpu"
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    library = "ort=/node_modules/onnxruntime-web/dist/ort.webgpu.min.mjs"
    with serve(bundle) as url:
        page.goto(f"{url}bundle/check.html?{library}")
        page.wait_for_selector("#verdict.failed")
        assert "webgpu" in page.evaluate("window.goldenCheck")["problem"]
        page.goto(f"{url}bundle/check.html?provider=wasm&{library}")
        page.wait_for_selector("#verdict.passed")


STRICT = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src data:; connect-src 'self'"


def test_the_check_keeps_to_a_content_security_policy(
    page: Page, serve: Serve, digits_bundle: Callable[[str, str], Path]
) -> None:
    """Its script was inside the page, where policies forbid it: the page said for ever that it was running."""

    def with_policy(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, headers={**answer.headers, "content-security-policy": STRICT})

    page.route("**/*", with_policy)
    with serve(digits_bundle("digits-web", "none")) as url:
        page.goto(check_page(url))
        page.wait_for_selector("#verdict.passed")
        assert page.inner_text("h1") == f"Golden check of {page.evaluate('window.goldenCheck.bundle')}"


def test_a_check_whose_script_does_not_run_says_so(
    browser: Browser, serve: Serve, digits_bundle: Callable[[str, str], Path]
) -> None:
    with serve(digits_bundle("digits-web", "none")) as url, browser.new_page(java_script_enabled=False) as page:
        page.goto(check_page(url))
        assert page.inner_text("#verdict").startswith("Not begun. Where this stays, the browser does not run")


def test_the_page_in_the_documentation_runs(
    page: Page, serve: Serve, digits_bundle: Callable[[str, str], Path]
) -> None:
    text = (Path(__file__).parents[2] / "docs" / "targets" / "web.md").read_text(encoding="utf-8")
    written = text.split("```html\n")[1].split("```")[0]
    own = written.replace("./digits-web/", "./bundle/").replace("console.log(", "window.found = Array.from(")
    assert own.count("./bundle/") == 2
    page.route("**/own.html", lambda route: route.fulfill(body=own, content_type="text/html"))
    with serve(digits_bundle("digits-web", "none")) as url:
        page.goto(f"{url}own.html")
        page.wait_for_function("window.found")
        assert len(page.evaluate("window.found")) == 10


@pytest.mark.parametrize("bundle", ["/bundle", "/bundle/", "bundle", "../bundle/"])
def test_bundles_are_named_relative_to_the_page(
    bundle: str, page: Page, serve: Serve, digits_bundle: Callable[[str, str], Path]
) -> None:
    with serve(digits_bundle("digits-web", "none")) as url:
        page.goto(url)
        passed = page.evaluate(
            "async (bundle) => { const ort = await import('/node_modules/onnxruntime-web/dist/ort.wasm.min.mjs');"
            " const { runGoldenCheck } = await import('/bundle/check.mjs');"
            " return (await runGoldenCheck(ort, bundle)).passed; }",
            bundle,
        )
    assert passed


def test_a_worker_without_an_address_opens_a_bundle(
    page: Page, serve: Serve, digits_bundle: Callable[[str, str], Path]
) -> None:
    """Bundlers make workers of blobs, to which no URL is relative."""
    with serve(digits_bundle("digits-web", "none")) as url:
        page.goto(url)
        inputs = page.evaluate(
            """async (origin) => {
                const program = `
                    import * as ort from '${origin}/node_modules/onnxruntime-web/dist/ort.wasm.min.mjs';
                    import { openBundle } from '${origin}/bundle/check.mjs';
                    const told = (text) => self.postMessage(text);
                    openBundle(ort, '/bundle').then(({ session }) => told(session.inputNames), ({ message }) =>
                        told(message));
                `;
                const blob = new Blob([program], { type: 'text/javascript' });
                const worker = new Worker(URL.createObjectURL(blob), { type: 'module' });
                return await new Promise((resolve) => { worker.onmessage = ({ data }) => resolve(data); });
            }""",
            url.rstrip("/"),
        )
    manifest = json.loads((digits_bundle("digits-web", "none") / "manifest.json").read_text())
    assert inputs == [feature["native_name"] for feature in manifest["inputs"]]


@pytest.mark.parametrize("slash", ["", "/"])
def test_the_check_runs_in_node_on_files(
    slash: str, digits_bundle: Callable[[str, str], Path], node_modules: Path, tmp_path: Path
) -> None:
    """A service reads its bundle from its own disk; blanks and umlauts in the path are as good as other letters."""
    bundle = shutil.copytree(digits_bundle("digits-web", "none"), tmp_path / "Bündel im Web")
    library = (node_modules / "onnxruntime-web" / "dist" / "ort.node.min.mjs").as_uri()
    program = (
        f"import * as ort from '{library}'; const bundle = '{bundle.as_uri()}{slash}';"
        f"const {{ runGoldenCheck }} = await import('{bundle.as_uri()}/check.mjs');"
        "console.log(JSON.stringify(await runGoldenCheck(ort, bundle))); process.exit(0);"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["passed"]
    assert result["outputs"][0]["sqnr_db"] > 100


@pytest.mark.parametrize(
    ("classes", "outputs", "best", "probabilities"),
    [
        ({"output": "label", "scores": None}, {"label": "BigInt64Array.of(2n)", "p": "[0.1, 0.2, 0.7]"}, 2, None),
        ({"output": "p", "scores": "probabilities"}, {"label": "[0]", "p": "[0.25, 0.75]"}, 1, [0.25, 0.75]),
        (
            {"output": "p", "scores": "probabilities", "scale": 2.0**-8, "zero_point": 0},
            {"p": "Uint8Array.of(64, 192)"},
            1,
            [0.25, 0.75],
        ),
        ({"output": "p", "scores": "integers"}, {"p": "Uint8Array.of(64, 192)"}, 1, None),
        ({"output": "label", "scores": None, "numbers": [5, 7, 9]}, {"label": "BigInt64Array.of(9n)"}, 2, None),
        (None, {"p": "[1000, 1000, 0]"}, 0, [0.5, 0.5, 0]),
    ],
)
def test_the_class_that_a_model_tells(
    classes: dict[str, Any] | None,
    outputs: dict[str, str],
    best: int,
    probabilities: list[float] | None,
    page: Page,
    serve: Serve,
    digits_bundle: Callable[[str, str], Path],
) -> None:
    """A label of scikit-learn's is a 64-bit integer, and tells the class alone."""
    manifest = {"classes": classes, "outputs": [{"name": name, "native_name": name} for name in outputs]}
    results = ", ".join(f"{name}: {{ data: {data} }}" for name, data in outputs.items())
    with serve(digits_bundle("digits-web", "none")) as url:
        page.goto(url)
        page.wait_for_selector("#check.passed")
        told = page.evaluate(
            "async (manifest) => { const { decisionOf } = await import('/preprocess.mjs');"
            f" return decisionOf({{ {results} }}, manifest); }}",
            manifest,
        )
    assert told == {"best": best, "probabilities": probabilities}


def test_the_server_gives_away_nothing_else(
    serve: Serve, digits_bundle: Callable[[str, str], Path], page: Page
) -> None:
    with serve(digits_bundle("digits-web", "none")) as url:
        for path in ("bundle/../../conftest.py", "bundle/%2e%2e/%2e%2e/secret", "..%2f..%2fpyproject.toml"):
            assert page.request.get(url + path).status == 404
