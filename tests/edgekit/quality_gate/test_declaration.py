"""What the gate tells of a bundle that is older than what the project file declares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

RunEdgeKit = Callable[..., Any]


def outcomes(finished: Any) -> dict[str, str]:
    """What became of each budget of the only bundle."""
    return {verdict["budget"]: verdict["outcome"] for verdict in finished.json["bundles"][0]["verdicts"]}


def test_class_names_and_preprocessing_that_are_not_as_declared(
    edgekit: RunEdgeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, onnx_model: Callable[..., Any]
) -> None:
    """An app reads both from the bundle: an older one answers with the old names, on the old numbers."""
    onnx.save(onnx_model("f (float[1, 1, 1, 3] x) => (float[1, 3] y) { y = Flatten(x) }"), tmp_path / "model.onnx")
    (tmp_path / "names.txt").write_text("ox\nkühe\nemu\n")
    declared = (
        '[budget]\nsize = "1 MB"\n[[bundle]]\nname = "d"\nmodel = "model.onnx"\ntarget = "onnxruntime"\n'
        'labels = "names.txt"\n[bundle.preprocessing]\nkind = "image"\nscale = "1/255"\nmean = 0.5\nlayout = "NCHW"\n'
    )
    monkeypatch.chdir(tmp_path)
    project = (tmp_path / "edgekit.toml").write_text
    project(declared)
    assert edgekit("build", "-q").code == 0
    assert outcomes(edgekit("gate", "--json")) == {"size": "kept"}

    (tmp_path / "names.txt").write_text("ox\nemu\nkühe\n")
    finished = edgekit("gate", "--json")
    assert (finished.code, outcomes(finished)) == (0, {"size": "kept", "declaration": "inconclusive"})
    again = ": `edgekit build` builds it again"
    told = finished.json["bundles"][0]["verdicts"][1]["found"]
    assert told == f'the name of class 1 was "kühe", and "emu" is declared{again}'

    (tmp_path / "names.txt").write_text("ox\nkühe\n")
    told = edgekit("gate", "--json").json["bundles"][0]["verdicts"][1]["found"]
    assert told == f"labels were 3 names, and {tmp_path}/names.txt has 2{again}"

    (tmp_path / "names.txt").unlink()
    verdict = edgekit("gate", "--json").json["bundles"][0]["verdicts"][1]
    assert verdict["found"] == (
        f"{tmp_path}/names.txt is not there, so it cannot be checked whether the bundle is made with its names"
    )
    assert verdict["outcome"] == "not compared"

    (tmp_path / "names.txt").write_text("ox\nkühe\nemu\n")
    project(declared.replace("0.5", "0.25"))
    told = edgekit("gate", "--json").json["bundles"][0]["verdicts"][1]["found"]
    assert told == f"preprocessing mean was [0.5], and [0.25] is declared{again}"
    project(declared + "size = [8, 8]\n")
    told = edgekit("gate", "--json").json["bundles"][0]["verdicts"][1]["found"]
    assert told.startswith("preprocessing does not fit the bundle: ")
    project(
        declared.replace('kind = "image"', 'kind = "audio"\nsample_rate = 16000').replace(
            'mean = 0.5\nlayout = "NCHW"\n', ""
        )
    )
    told = edgekit("gate", "--json").json["bundles"][0]["verdicts"][1]["found"]
    assert told == f'preprocessing was "image", and "audio" is declared{again}'


def test_options_that_manifests_hold_only_where_they_are_given(
    edgekit: RunEdgeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, onnx_model: Callable[..., Any]
) -> None:
    onnx.save(onnx_model("f (float[1, 3] x) => (float[1, 3] y) { y = Relu(x) }"), tmp_path / "model.onnx")
    declared = '[budget]\nsize = "1 MB"\n[[bundle]]\nname = "d"\nmodel = "model.onnx"\ntarget = "onnxruntime"\n'
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edgekit.toml").write_text(declared)
    assert edgekit("build", "-q").code == 0
    manifest = tmp_path / "bundles" / "d" / "manifest.json"
    without = json.loads(manifest.read_text())
    suppression = {"kind": "nms", "iou": 0.45, "score": 0.25, "boxes": 300}
    given = 'label = "class"\npostprocess = { kind = "nms", iou = 0.45, score = 0.25, boxes = 300 }\n'
    again = ": `edgekit build` builds it again"

    (tmp_path / "edgekit.toml").write_text(declared + given)
    told = edgekit("gate", "--json").json["bundles"][0]["verdicts"][1]["found"]
    assert f"postprocess was null, and {json.dumps(suppression)} is declared" in told
    assert 'label was null, and "class" is declared' in told
    (tmp_path / "edgekit.toml").write_text(declared)
    manifest.write_text(json.dumps({**without, "options": {**without["options"], "postprocess": suppression}}))
    told = edgekit("gate", "--json").json["bundles"][0]["verdicts"][1]["found"]
    assert told == f"postprocess was {json.dumps(suppression)}, and null is declared{again}"
    older = {key: value for key, value in without["options"].items() if key not in ("also", "witness", "accept")}
    manifest.write_text(json.dumps({**without, "options": older}))
    assert outcomes(edgekit("gate", "--json")) == {"size": "kept"}


def test_samples_that_are_not_those_of_the_bundle(
    edgekit: RunEdgeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, onnx_model: Callable[..., Any]
) -> None:
    """Its accuracy is that on the older ones: labels that changed since would pass unseen."""
    onnx.save(onnx_model("f (float[1, 3] x) => (float[1, 3] y) { y = Relu(x) }"), tmp_path / "model.onnx")
    for folder in ("calibration", "test"):
        (tmp_path / folder).mkdir()
        for number in range(3):
            np.savez(tmp_path / folder / f"{number}.npz", x=np.eye(3, dtype=np.float32)[number : number + 1])
    labels = tmp_path / "test" / "labels.csv"
    labels.write_text("0.npz,0\n1.npz,1\n2.npz,2\n")
    declared = (
        '[budget]\naccuracy = "90%"\n[[bundle]]\nname = "d"\nmodel = "model.onnx"\ntarget = "onnxruntime"\n'
        'data = "calibration"\nquantize = "none"\nverify_data = "test"\n'
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edgekit.toml").write_text(declared)
    assert edgekit("build", "-q").code == 0
    (tmp_path / "test" / ".DS_Store").write_text("what a file manager leaves is not a sample")
    assert outcomes(edgekit("gate", "--json")) == {"accuracy": "kept"}

    labels.write_text("0.npz,1\n1.npz,2\n2.npz,0\n")
    finished = edgekit("gate", "--json")
    assert outcomes(finished) == {"accuracy": "kept", "declaration": "inconclusive"}
    again = ": `edgekit build` builds it again"
    told = finished.json["bundles"][0]["verdicts"][1]["found"]
    assert told == f"{tmp_path}/test (verify_data) does not hold the samples that the bundle was made with{again}"

    labels.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n")
    assert outcomes(edgekit("gate", "--json")) == {"accuracy": "kept"}
    (tmp_path / "test").rename(tmp_path / "elsewhere")
    assert outcomes(edgekit("gate", "--json")) == {"accuracy": "kept"}
    (tmp_path / "test").mkdir()
    told = edgekit("gate", "--json").json["bundles"][0]["verdicts"][1]["found"]
    assert told == f"{tmp_path}/test (verify_data) cannot be read: the data folder holds no samples{again}"

    (tmp_path / "edgekit.toml").write_text(declared.replace('verify_data = "test"\n', ""))
    assert outcomes(edgekit("gate", "--json")) == {"accuracy": "kept"}


def test_a_target_that_there_is_not(
    edgekit: RunEdgeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, onnx_model: Callable[..., Any]
) -> None:
    """A slip of the pen is no reason to judge the bundle of an earlier build, of whatever device."""
    onnx.save(onnx_model("f (float[1, 3] x) => (float[1, 3] y) { y = Relu(x) }"), tmp_path / "model.onnx")
    declared = '[budget]\nsize = "1 MB"\n[[bundle]]\nname = "d"\nmodel = "model.onnx"\ntarget = "onnxruntime"\n'
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edgekit.toml").write_text(declared)
    assert edgekit("build", "-q").code == 0

    (tmp_path / "edgekit.toml").write_text(declared.replace("onnxruntime", "onnxruntim"))
    finished = edgekit("gate", "-q")
    assert finished.code == 2
    assert finished.err == (
        f"error: {tmp_path}/edgekit.toml bundle d target: there is no target 'onnxruntim'\n"
        "expected: 'onnxruntime'\n"
        "hint: `edgekit targets` lists what is installed\n"
    )


def test_a_model_that_git_lfs_holds_is_told_from_another_model(
    edgekit: RunEdgeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundle: Path, digits: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n")
    (tmp_path / "edgekit.toml").write_text(
        '[budget]\nsize = "1 MB"\n[[bundle]]\nname = "d"\nmodel = "model.onnx"\ntarget = "onnxruntime"\n'
        'output = "digits"\n'
    )
    finished = edgekit("gate", "-q")
    assert finished.code == 2
    assert finished.err == (
        f"error: {tmp_path}/model.onnx: is not an ONNX model but a Git LFS pointer\n"
        "hint: fetch the file itself with `git lfs pull`\n"
    )


def test_a_path_that_leads_nowhere_is_told_from_a_bundle_that_was_not_built(
    edgekit: RunEdgeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundle: Path, digits: Path
) -> None:
    """The folder of a bundle as it is written in another folder of the project."""
    (tmp_path / "edgekit.toml").write_text(
        f'[budget]\nsize = "1 MB"\n[[bundle]]\nname = "digits"\nmodel = "{digits}"\ntarget = "onnxruntime"\n'
        'output = "digits"\n'
    )
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path / "models")
    finished = edgekit("gate", "models/digits", "-q")
    assert finished.code == 2
    assert finished.err == (
        f"error: models/digits: is not there\nexpected: the bundle's folder, {bundle}\n"
        "hint: its name alone, `edgekit gate digits`, does in every folder of the project\n"
    )
    assert edgekit("gate", "digits", "-q").code == 0


def test_weights_in_a_file_of_their_own_are_those_of_the_bundle(
    edgekit: RunEdgeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, onnx_model: Callable[..., Any]
) -> None:
    """The ONNX file names the file of its tensors alone, so training again leaves it as it is."""
    weights = np.arange(2000, dtype=np.float32).reshape(4, 500)
    proto = onnx_model("f (float[1, 4] x) => (float[1, 500] y) { y = MatMul (x, w) }", w=weights)
    onnx.save(proto, tmp_path / "model.onnx", save_as_external_data=True, location="weights.bin")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edgekit.toml").write_text(
        '[budget]\nsize = "1 MB"\n[[bundle]]\nname = "d"\nmodel = "model.onnx"\ntarget = "onnxruntime"\n'
    )
    assert edgekit("build", "-q").code == 0
    assert outcomes(edgekit("gate", "--json")) == {"size": "kept"}

    file = tmp_path / "weights.bin"
    file.write_bytes((weights + 1).tobytes())
    finished = edgekit("gate", "-q")
    assert (finished.code, "was made from another model" in finished.err) == (2, True)
    assert f"\nexpected: {file}, SHA-256 {hashlib.sha256(file.read_bytes()).hexdigest()}\n" in finished.err
    assert f"\nfound: made from weights.bin, SHA-256 {hashlib.sha256(weights.tobytes()).hexdigest()}\n" in finished.err

    file.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 8000\n")
    finished = edgekit("gate", "-q")
    assert (finished.code, f"{file}: is not the model's data file but a Git LFS pointer" in finished.err) == (2, True)

    file.unlink()
    assert outcomes(edgekit("gate", "--json")) == {"size": "kept", "declaration": "not compared"}
