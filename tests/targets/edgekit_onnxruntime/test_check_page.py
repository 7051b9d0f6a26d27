"""What the check's page runs is chosen by whoever writes the link to it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

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
