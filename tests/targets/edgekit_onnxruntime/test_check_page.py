"""The check of bundles for the web: whose module the page runs, that files are the packaged ones, half precision."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import edgekit
import edgekit_onnxruntime

CHECK = Path(edgekit_onnxruntime.__file__).parent / "assets" / "check.mjs"
pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
PAGE = "https://app.example:8443/models/check.html?ort=whatever"
CDN = "https://cdn.jsdelivr.net/npm/onnxruntime-web"


def library_url(asked: str | None, page: str = PAGE) -> str | None:
    """The module that the page imports; None where it imports none."""
    program = f"import {{ libraryUrl }} from {json.dumps(CHECK.as_uri())};"
    program += f"console.log(libraryUrl({json.dumps(asked)}, {json.dumps(page)}, 'ort.wasm.min.mjs'));"
    command = ["node", "--input-type=module", "--eval", program]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if finished.returncode:
        assert "is neither on the server of this page nor a release of onnxruntime-web on jsDelivr" in finished.stderr
        return None
    return finished.stdout.strip()


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        (None, f"{CDN}/dist/ort.wasm.min.mjs"),
        ("/node_modules/ort.mjs", "https://app.example:8443/node_modules/ort.mjs"),
        ("./ort.mjs", "https://app.example:8443/models/ort.mjs"),
        (f"{CDN}@1.30.0/dist/ort.wasm.min.mjs", f"{CDN}@1.30.0/dist/ort.wasm.min.mjs"),
    ],
)
def test_own_modules_and_releases_are_taken(asked: str | None, taken: str) -> None:
    assert library_url(asked) == taken


@pytest.mark.parametrize(
    "asked",
    [
        "https://evil.example/ort.mjs",
        "//evil.example/ort.mjs",
        "http://app.example:8443/ort.mjs",
        "https://app.example/ort.mjs",
        "data:text/javascript,alert(1)",
        "blob:https://app.example:8443/1",
        "https://cdn.jsdelivr.net/npm/evil/ort.mjs",
        f"{CDN}/../evil/ort.mjs",
        f"{CDN}-evil@1.0.0/ort.mjs",
        "https://cdn.jsdelivr.net.evil.example/npm/onnxruntime-web/ort.mjs",
        "https://cdn.jsdelivr.net@evil.example/npm/onnxruntime-web/ort.mjs",
    ],
)
def test_modules_of_others_are_refused(asked: str) -> None:
    """A link ran its writer's program in the page, with the rights of the site that serves the bundle."""
    assert library_url(asked) is None


def test_a_page_that_is_a_file_has_no_server() -> None:
    assert library_url("data:text/javascript,alert(1)", "file:///home/me/check.html") is None


def executed(program: str) -> Any:
    """What a program in JavaScript prints as JSON."""
    command = ["node", "--input-type=module", "--eval", program]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


FAKE_RUNTIME = """
class Tensor { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } }
const session = { run: async (feeds) => ({ y: feeds.x }) };
const ort = { env: {}, Tensor, InferenceSession: { create: async () => session } };
"""
"""Computes what the model `identity` does."""


def checked(check: Path, folder: Path, before: str = "") -> Any:
    """The result of a bundle's check in Node.js with `FAKE_RUNTIME`, or the message of its error."""
    return executed(
        f"{before}; const {{ runGoldenCheck }} = await import({json.dumps(check.as_uri())}); {FAKE_RUNTIME}"
        f"console.log(JSON.stringify(await runGoldenCheck(ort, {json.dumps(folder.as_uri())})"
        ".catch((error) => error.message)));"
    )


def identity(folder: Path, kind: str) -> Path:
    file = folder / "model.onnx"
    onnx.save(
        onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["": 17]> f ({kind}[1, 6] x) => ({kind}[1, 6] y) {{ y = Identity (x) }}'
        ),
        file,
    )
    return file


@pytest.mark.parametrize("size", [0, 3, 55, 56, 63, 64, 119, 120, 1000])
def test_pages_without_https_compute_the_same_sums(size: int) -> None:
    """`crypto.subtle` is there on HTTPS and localhost alone; a phone that opens the page by HTTP has none."""
    content = np.random.default_rng(size).bytes(size)
    program = f"import {{ sha256, sha256Of }} from {json.dumps(CHECK.as_uri())};"
    program += f"const bytes = Uint8Array.from({list(content)});"
    program += "console.log(JSON.stringify([await sha256(bytes.buffer), Array.from(sha256Of(bytes))]));"
    by_browser, by_itself = executed(program)
    assert by_browser == bytes(by_itself).hex() == hashlib.sha256(content).hexdigest()


def test_a_model_that_is_not_the_packaged_one_does_not_pass(tmp_path: Path) -> None:
    """A cache's older model beside a new manifest, or three changed weights, were near enough to pass."""
    bundle = edgekit.package(identity(tmp_path, "float"), "web", tmp_path / "web").path
    assert checked(CHECK, bundle)["passed"]
    wanted = hashlib.sha256((bundle / "model.onnx").read_bytes()).hexdigest()
    (bundle / "model.onnx").write_bytes(b"another model")
    found = hashlib.sha256(b"another model").hexdigest()
    assert checked(CHECK, bundle) == f"model.onnx: is not the file that was packaged: SHA-256 {found}, not {wanted}"
    (bundle / "model.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")
    pointer = "model.onnx: is a Git LFS pointer, not the file itself; `git lfs pull` fetches that"
    assert checked(CHECK, bundle) == pointer


def test_a_changed_golden_sample_does_not_pass(tmp_path: Path) -> None:
    bundle = edgekit.package(identity(tmp_path, "float"), "web", tmp_path / "web").path
    golden = bundle / "golden" / "0" / "outputs" / "0.npy"
    np.save(golden, np.load(golden) * np.float32(1.001))
    assert checked(CHECK, bundle).startswith("golden/0/outputs/0.npy: is not the file that was packaged: SHA-256 ")


def test_a_further_build_for_the_web_is_checked_in_its_folder(tmp_path: Path) -> None:
    """Manifest and golden samples lie one folder up; the page looked for them beside itself."""
    model = identity(tmp_path, "float")
    bundle = edgekit.package(model, "onnxruntime", tmp_path / "both", also=["web-webgpu"]).path
    folder = bundle / "web-webgpu"
    result = checked(folder / "check.mjs", folder)
    assert result["passed"]
    assert result["executed_by"].endswith("web-webgpu/model.onnx")
    program = f"const {{ providerOf }} = await import({json.dumps((folder / 'check.mjs').as_uri())});"
    assert (
        executed(f"{program} console.log(JSON.stringify(await providerOf({json.dumps(folder.as_uri())})))") == "webgpu"
    )
    command = "python -m http.server --bind localhost, then open http://localhost:8000/web-webgpu/check.html"
    assert json.loads((bundle / "manifest.json").read_text())["also"][0]["check"]["command"] == command
    assert "{folder}" not in edgekit.package(model, "web", tmp_path / "web").manifest["check"]["command"]
    moved = folder.rename(bundle / "renamed")
    assert "renamed/manifest.json" in checked(moved / "check.mjs", moved)


@pytest.mark.parametrize("engine", ["globalThis.Float16Array", "undefined"])
def test_half_precision_is_checked_without_float16array(engine: str, tmp_path: Path) -> None:
    """Node.js before 24 and Safari before 18.2 have no Float16Array; onnxruntime-web gives the bits there."""
    (tmp_path / "data").mkdir()
    values = np.array([[0, -0.0, 65504, -6e-8, 6.1e-5, 0.333]], np.float16)
    np.savez(tmp_path / "data" / "0.npz", x=values)
    bundle = edgekit.package(identity(tmp_path, "float16"), "web", tmp_path / "web", data=tmp_path / "data").path
    result = checked(CHECK, bundle, f"globalThis.Float16Array = {engine}")
    assert result["passed"]
    assert result["outputs"][0]["sqnr_db"] == "inf"
    record = json.loads((bundle / "manifest.json").read_text())
    golden = bundle / "golden" / "0" / "outputs" / "0.npy"
    np.save(golden, np.array([[0, -0.0, 65504, -6e-8, 6.1e-5, 0.5]], np.float16))
    next(file for file in record["files"] if file["path"].endswith("outputs/0.npy"))["sha256"] = hashlib.sha256(
        golden.read_bytes()
    ).hexdigest()
    (bundle / "manifest.json").write_text(json.dumps(record))
    changed = checked(CHECK, bundle, f"globalThis.Float16Array = {engine}")["outputs"][0]
    assert changed["max_abs_error"] == pytest.approx(0.5 - float(np.float16(0.333)), abs=1e-7)
