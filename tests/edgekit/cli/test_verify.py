import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

RunEdgeKit = Callable[..., Any]


def test_a_bundle_that_is_as_it_was_written(edgekit: RunEdgeKit, packaged_digits: Path) -> None:
    finished = edgekit("verify", packaged_digits)
    assert finished.code == 0
    lines = finished.out.splitlines()
    assert lines[0].endswith(", all as they were written")
    assert lines[1].startswith("executed by    ONNX Runtime ")
    assert lines[2].startswith("golden logits  SQNR ")


def test_json(edgekit: RunEdgeKit, packaged_digits: Path) -> None:
    record = edgekit("verify", packaged_digits, "--json").json
    assert record["verified"] is True
    assert record["device"] == "local"
    assert [output["name"] for output in record["golden"]] == ["logits"]
    assert record["accuracy"] is record["labels"] is None


def test_accuracy_on_labelled_data_without_the_original(
    edgekit: RunEdgeKit, packaged_digits: Path, labelled_digits: Path
) -> None:
    labels = edgekit("verify", packaged_digits, "--data", labelled_digits, "--json").json["labels"]
    assert labels == {"built": 1.0, "samples": 20, "packaged_reference": 1.0}
    text = edgekit("verify", packaged_digits, "--data", labelled_digits).out
    assert "100.00% of 20 labels found; the original found 100.00% of those it was packaged with" in text


def test_accuracy_against_the_original(
    edgekit: RunEdgeKit, packaged_digits: Path, labelled_digits: Path, digits: Path
) -> None:
    finished = edgekit("verify", packaged_digits, "--data", labelled_digits, "--model", digits, "--json")
    accuracy = finished.json["accuracy"]
    assert accuracy["task"]["reference"] == accuracy["task"]["built"] == 1
    assert accuracy["data"] == {"kind": "samples", "samples": 20}
    assert accuracy["outputs"][0]["worst_sample_db"] > 50


def test_decisions_of_a_tagger_are_counted_as_in_the_summary(
    edgekit: RunEdgeKit, onnx_model: Callable[..., onnx.ModelProto], tmp_path: Path
) -> None:
    text = "tagger (float[1, 6, 8] x) => (float[1, 6, 8] tags) { tags = Softmax(x) }"
    onnx.save(onnx_model(text), tmp_path / "tagger.onnx")
    (tmp_path / "data").mkdir()
    for number in range(20):
        words = np.random.default_rng(number).permuted(np.tile(np.arange(8, dtype=np.float32), (1, 6, 1)), axis=2)
        np.savez(tmp_path / "data" / f"{number}.npz", x=words)
    data = ("--data", tmp_path / "data")
    packaged = edgekit("package", tmp_path / "tagger.onnx", "--target", "ios18", *data, "-o", tmp_path / "bundle")
    verified = edgekit("verify", tmp_path / "bundle", "--model", tmp_path / "tagger.onnx", *data)
    for finished in (packaged, verified):
        (row,) = [line for line in finished.out.splitlines() if line.startswith("classes")]
        assert " ".join(row.split()) == "classes tags: 120 of 120 decisions equal"


def test_labels_that_prove_nothing(
    edgekit: RunEdgeKit, packaged_digits: Path, labelled_digits: Path, digits: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(labelled_digits, data)
    head, *rows = (data / "labels.csv").read_text().splitlines()
    wrong = [f"{file},{(int(label) + 1) % 10}" for file, label in (row.split(",") for row in rows)]
    (data / "labels.csv").write_text("\n".join([head, *wrong]) + "\n")
    finished = edgekit("verify", packaged_digits, "--data", data, "--model", digits)
    assert finished.code == 0
    assert "warning: the original finds 0.00% of 20 labels among 10 classes, no more than a guess may" in finished.err


def test_pictures_for_a_bundle_that_was_packaged_without_data(
    edgekit: RunEdgeKit, labelled_digits: Path, digits: Path, tmp_path: Path
) -> None:
    bundle, data = tmp_path / "out", tmp_path / "data"
    assert edgekit("package", digits, "--target", "onnxruntime", "--dim", "batch=1", "-o", bundle, "-q").code == 0
    shutil.copytree(labelled_digits, data)
    refused = edgekit("verify", bundle, "--data", data, "-q")
    assert refused.code == 2
    assert refused.err.endswith(
        "; --config FILE names an edgekit.toml that lies neither in the data folder nor above it\n"
    )
    config = labelled_digits.parent / "edgekit.toml"
    finished = edgekit("verify", bundle, "--data", data, "--config", config, "--json")
    assert finished.json["labels"]["built"] == 1


def test_a_tampered_bundle(edgekit: RunEdgeKit, bundle: Path) -> None:
    with (bundle / "model.onnx").open("r+b") as model:
        model.seek(1000)
        model.write(b"\0\1\2\3")
    finished = edgekit("verify", bundle)
    assert finished.code == 1
    assert finished.out == ""
    assert finished.err.endswith(
        f"error: {bundle}: the bundle is not as it was written\n"
        "expected: the files and SHA-256 sums of its manifest\n"
        "found: model.onnx is changed\n"
        "hint: copy the whole bundle again, or package the model again\n"
    )


def test_golden_outputs_that_are_not_computed(edgekit: RunEdgeKit, bundle: Path) -> None:
    """The manifest is changed with them, as somebody who tampers would, or a runtime that computes otherwise."""
    import hashlib

    golden = bundle / "golden" / "0" / "outputs" / "0.npy"
    np.save(golden, np.load(golden)[:, ::-1])
    manifest = json.loads((bundle / "manifest.json").read_text())
    for file in manifest["files"]:
        if file["path"] == "golden/0/outputs/0.npy":
            file |= {"bytes": golden.stat().st_size, "sha256": hashlib.sha256(golden.read_bytes()).hexdigest()}
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    finished = edgekit("verify", bundle, "--json")
    assert finished.code == 1
    error = finished.json["error"]
    assert error["message"].startswith("the bundle does not compute its golden outputs, executed by ONNX Runtime")
    assert error["found"].startswith("output 'logits': SQNR ")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--device", "local:0"],
            "--device: this machine has nothing to choose\nexpected: local\nfound: local:0",
        ),
        (
            ["--model", "x.onnx"],
            "--model: the original is used with --data or --layers only\nhint: give --data DIR too",
        ),
    ],
)
def test_options_that_do_not_fit(edgekit: RunEdgeKit, packaged_digits: Path, options: list[str], text: str) -> None:
    finished = edgekit("verify", packaged_digits, *options, "--quiet")
    assert finished.code == 2
    assert finished.err == f"error: {text}\n"


def test_layers_are_compared_with_the_shipped_graph(edgekit: RunEdgeKit, packaged_digits: Path) -> None:
    finished = edgekit("verify", packaged_digits, "--layers")
    assert finished.code == 0
    assert finished.out.startswith("files")
    assert finished.out.splitlines()[-1].startswith("first diverging  none of ")
    layers = edgekit("verify", packaged_digits, "--layers", "--json").json["layers"]
    assert layers["first"] is None
    assert layers["layers"][-1]["value"] == "logits"
    assert layers["reference"].startswith("ONNX Runtime")


def test_layers_are_compared_with_the_original(edgekit: RunEdgeKit, packaged_digits: Path, digits: Path) -> None:
    record = edgekit("verify", packaged_digits, "--layers", "--model", digits, "--json").json
    assert record["layers"]["reference"].endswith(digits.stem)


def test_wrong_outputs_come_with_the_layers(edgekit: RunEdgeKit, packaged_digits: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(packaged_digits, bundle)
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["golden"]["outputs"][0]["floor_db"] = 300.0  # more than any other order of the sums gives
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    finished = edgekit("verify", bundle, "--layers")
    assert finished.code == 1
    assert "first diverging  none of " in finished.out
    assert "; first diverging layer: none of " in finished.err
    error = edgekit("verify", bundle, "--layers", "--json").json["error"]
    assert [layer["value"] for layer in error["layers"]["layers"]][-1] == "logits"


def test_what_is_no_bundle(edgekit: RunEdgeKit, tmp_path: Path) -> None:
    finished = edgekit("verify", tmp_path, "--quiet")
    assert finished.code == 2
    assert finished.err.startswith(f"error: {tmp_path}: is not a bundle\nexpected: a folder with a manifest.json\n")


def test_another_model_than_the_original(
    edgekit: RunEdgeKit, packaged_digits: Path, labelled_digits: Path, digits: Path
) -> None:
    other = digits.with_name("digits_dynamo.onnx")
    finished = edgekit("verify", packaged_digits, "--data", labelled_digits, "--model", other, "--quiet")
    assert finished.code == 2
    assert finished.err.startswith(
        f"error: {other}: is not the model that the bundle was made from\n"
        "expected: digits_torchscript.onnx with SHA-256 "
    )


def test_a_manifest_that_lists_further_data_files(
    edgekit: RunEdgeKit, bundle: Path, labelled_digits: Path, digits: Path
) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["source"]["files"].append({"path": "more.data", "bytes": 1, "sha256": "0" * 64})
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    model = digits.parent / manifest["source"]["files"][0]["path"]
    finished = edgekit("verify", bundle, "--data", labelled_digits, "--model", model, "--quiet")
    assert finished.code == 2
    assert finished.err == (
        f"error: {model}: does not name the files that the bundle was made from\n"
        "expected: data files: 1\n"
        "found: 0\n"
        "hint: the bundle's manifest.json was changed: package the model again\n"
    )


@pytest.mark.parametrize("command", ["verify", "bench"])
def test_another_data_file_than_the_original_s(
    edgekit: RunEdgeKit, onnx_model: Callable[..., onnx.ModelProto], tmp_path: Path, command: str
) -> None:
    weights = np.arange(2000, dtype=np.float32).reshape(4, 500)
    proto = onnx_model("f (float[1, 4] x) => (float[1, 500] y) { y = MatMul (x, w) }", w=weights)
    model, bundle, data = tmp_path / "model.onnx", tmp_path / "out", tmp_path / "data"
    onnx.save(proto, model, save_as_external_data=True, location="weights.bin")
    assert edgekit("package", model, "--target", "onnxruntime", "-o", bundle, "-q").code == 0
    data.mkdir()
    np.savez(data / "0.npz", x=np.ones((1, 4), np.float32))
    options = [bundle, "--model", model, *(("--data", data) if command == "verify" else ()), "-q"]
    assert edgekit(command, *options).code == 0
    (tmp_path / "weights.bin").write_bytes((weights + 1).tobytes())
    finished = edgekit(command, *options)
    assert finished.code == 2
    assert finished.err.startswith(
        f"error: {tmp_path}/weights.bin: is not the model's data file that the bundle was made from\n"
        "expected: weights.bin with SHA-256 "
    )


def test_data_without_labels(edgekit: RunEdgeKit, packaged_digits: Path, labelled_digits: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(labelled_digits, data, ignore=shutil.ignore_patterns("labels.csv"))
    finished = edgekit("verify", packaged_digits, "--data", data, "--quiet")
    assert finished.code == 2
    assert finished.err == (
        f"error: {data}: the samples have no labels and no recorded outputs, and the bundle holds no original\n"
        "hint: give the original with --model MODEL, or samples with labels or recorded outputs\n"
    )
