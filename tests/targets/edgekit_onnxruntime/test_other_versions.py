"""Bundles beside other versions of ONNX Runtime than the one that made them."""

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import onnx
import onnxruntime

RunCheck = Callable[..., "subprocess.CompletedProcess[str]"]
BundleFor = Callable[..., Path]
GRAPH = "(float[1, 4] x) => (float[1, 4] y) { y = Tanh (x) }"
FAR_VERSION = 99
"""An IR version that no ONNX Runtime reads, as an older one does not read that of a newer file."""


def replace_model(bundle: Path, model: onnx.ModelProto) -> None:
    """Puts another model into the bundle, and into the manifest's list of files."""
    content = model.SerializeToString()
    (bundle / "model.onnx").write_bytes(content)
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    for record in manifest["files"]:
        if record["path"] == "model.onnx":
            record |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def test_a_bundle_has_the_oldest_mark_that_its_operators_need(bundle_for: BundleFor) -> None:
    model = onnx.load(bundle_for(GRAPH, "onnxruntime") / "model.onnx")  # it was marked with 9, and operator set 18
    assert (model.ir_version, model.opset_import[0].version) == (8, 18)


def test_the_check_says_what_an_older_runtime_says_of_the_model(bundle_for: BundleFor, run_check: RunCheck) -> None:
    bundle = bundle_for(GRAPH, "onnxruntime")
    model = onnx.load(bundle / "model.onnx")
    model.ir_version = FAR_VERSION
    replace_model(bundle, model)
    done = run_check(bundle)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    version = onnxruntime.__version__
    assert (
        f"ONNX Runtime {version} does not load model.onnx, which was verified by ONNX Runtime {version}, CPU, onnx, "
        "1 thread: "
    ) in done.stderr
    assert f"Unsupported model IR version: {FAR_VERSION}, max supported IR version: " in done.stderr
