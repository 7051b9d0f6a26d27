import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgekit.cli.package import parse_options
from edgekit.errors import InputError

RunEdgeKit = Callable[..., Any]

EXP = "f (float[1, 3] x) => (float[1, 3] y) { y = Exp(x) }"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_people_get_a_summary(edgekit: RunEdgeKit, tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    finished = edgekit("package", onnx_file(EXP), "--target", "onnxruntime", "-o", tmp_path / "out")
    assert finished.code == 0
    rows = dict(re.split(r" {2,}", line, maxsplit=1) for line in finished.out.splitlines())
    assert rows["bundle"] == str(tmp_path / "out")
    assert rows["model"] == "out (model.onnx)"
    assert rows["built as"] == "float32"
    assert rows["compared on"] == "4 random inputs from a fixed seed"
    assert finished.err.startswith("--quantize none: there is no --data to calibrate on\nload\n")
    assert [line for line in finished.err.splitlines() if line == "verify"] == ["verify"]


def test_people_are_told_why_a_model_stays_in_float(
    edgekit: RunEdgeKit, tmp_path: Path, onnx_file: Callable[..., Path]
) -> None:
    (tmp_path / "data").mkdir()
    for number in range(4):
        np.savez(tmp_path / "data" / f"{number}.npz", x=np.full((1, 3), number, np.float32))
    data = ("--data", tmp_path / "data", "-q", "-o", tmp_path / "out")
    finished = edgekit("package", onnx_file(EXP), "--target", "onnxruntime", *data)
    assert finished.code == 0
    rows = dict(re.split(r" {2,}", line, maxsplit=1) for line in finished.out.splitlines())
    assert rows["built as"] == "float32"
    assert rows["not quantized"] == "the model has no weights that could be stored in fewer bits"


def test_scripts_get_json_alone(edgekit: RunEdgeKit, tmp_path: Path, digits: Path, labelled_digits: Path) -> None:
    finished = edgekit(
        *("package", digits, "--target", "intel-cpu", "--dim", "batch=1", "--data", labelled_digits),
        *("--quantize", "none", "--labels", digits.parent / "labels.txt", "-o", tmp_path / "out", "--json"),
    )
    assert finished.code == 0
    assert finished.err == ""
    record = finished.json
    assert record["bundle"] == str(tmp_path / "out")
    assert record["target"] == "intel-cpu"
    assert record["kind"] == "float32"
    assert record["accuracy"]["worst_db"] > 50
    assert record["accuracy"]["task"]["drop"] == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert set(manifest["accuracy"]) - set(record["accuracy"]) == {"reference"}
    assert all(record["accuracy"][key] == value for key, value in manifest["accuracy"].items() if key != "reference")
    assert record["size"]["bytes"] > 0
    assert record["latency"]["of_device"] is True
    assert manifest["labels"] == list("0123456789")


def test_as_many_names_as_classes(edgekit: RunEdgeKit, tmp_path: Path, digits: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("cat\ndog\n")
    finished = edgekit(
        *("package", digits, "--target", "onnxruntime", "--dim", "batch=1"),
        *("--labels", names, "-o", tmp_path / "out", "-q"),
    )
    assert finished.code == 2
    assert finished.err == (
        f"error: {names}: the number of names is not the number of classes\n"
        "expected: 10 names, the entries of output 'logits'\n"
        "found: 2 names\n"
        "hint: write one name on each line, for every class, in the order of the model's output\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_precision_that_has_no_effect(edgekit: RunEdgeKit, tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    options = ["--target", "onnxruntime", "--precision", "float16", "-o", tmp_path / "out"]
    finished = edgekit("package", onnx_file(EXP), *options)
    assert finished.code == 0
    text = "float16 was asked for, and has no effect: ONNX Runtime computes in the types that the model names"
    hint = "`--quantize float16` stores weights in half precision"
    assert f"warning: {text}, which makes this float32; {hint}\n" in finished.err
    stages = json.loads((tmp_path / "out" / "manifest.json").read_text())["stages"]
    built = next(stage["record"] for stage in stages if stage["name"] == "build")
    assert built["precision_asked"] == "float16"
    assert built["warnings"][0].startswith(text)


def test_warnings_stay_with_quiet(edgekit: RunEdgeKit, tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    options = ["--target", "onnxruntime", "--precision", "float16", "-o", tmp_path / "out"]
    lines = edgekit("package", onnx_file(EXP), *options, "-q").err.splitlines()
    assert lines
    assert all(line.startswith("warning: ") for line in lines)


def test_data_asks_for_quantization_and_that_is_said(
    edgekit: RunEdgeKit, tmp_path: Path, digits: Path, labelled_digits: Path
) -> None:
    finished = edgekit(
        *("package", digits, "--target", "onnxruntime", "--dim", "batch=1"),
        *("--data", labelled_digits, "-o", tmp_path / "out"),
    )
    assert finished.code == 0
    assert finished.err.startswith(
        "--quantize auto: --data is there to calibrate on; --quantize none keeps the model in float\n"
    )
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["options"]["quantize"] == "auto"


def test_the_bundle_goes_here_by_default(
    edgekit: RunEdgeKit, tmp_path: Path, onnx_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = onnx_file(EXP)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert edgekit("package", model, "--target", "ort", "--quiet").code == 0
    assert names(tmp_path / "work") == ["model-onnxruntime"]


def test_a_bundle_is_called_as_its_folder_or_as_asked(
    edgekit: RunEdgeKit, tmp_path: Path, onnx_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of one name, `model.onnx` of many exporters, give bundles that an app and a baseline can tell apart."""
    model = onnx_file(EXP)
    monkeypatch.chdir(tmp_path)
    for options, name in (
        (["-o", "bundles/wake word"], "wake word"),
        ([], "model-onnxruntime"),
        (["--name", "wake-word", "-o", "other"], "wake-word"),
    ):
        finished = edgekit("package", model, "--target", "onnxruntime", "-q", "--json", *options)
        assert finished.code == 0
        assert json.loads(Path(finished.json["bundle"], "manifest.json").read_text())["name"] == name


class TestBadInput:
    """Each bad input ends the command with its exit code and one message, and leaves nothing behind."""

    @pytest.fixture
    def refused(self, edgekit: RunEdgeKit, tmp_path: Path, onnx_file: Callable[..., Path]) -> Callable[..., str]:
        def run(*options: object, code: int = 2, target: str = "onnxruntime", model: Path | None = None) -> str:
            model = model or onnx_file(EXP)
            before = names(tmp_path)
            finished = edgekit("package", model, "--target", target, "-o", tmp_path / "out", "--quiet", *options)
            assert finished.code == code
            assert finished.out == ""
            assert names(tmp_path) == before
            text: str = finished.err.replace(f"{tmp_path}/", "")
            assert "Traceback" not in text
            return text

        return run

    @pytest.fixture
    def data(self, tmp_path: Path) -> Path:
        (tmp_path / "data").mkdir()
        return tmp_path / "data"

    def test_an_empty_data_folder(self, refused: Callable[..., str], data: Path) -> None:
        assert refused("--data", data) == (
            "error: data: the data folder holds no samples\n"
            "expected: .npz files with an array for each input, or pictures or .wav files\n"
            "found: no such file\n"
            "hint: numpy.savez(FILE, INPUT=array) writes a sample\n"
        )

    def test_wrong_names_in_the_data(self, refused: Callable[..., str], data: Path) -> None:
        np.savez(data / "a.npz", image=np.zeros((1, 3), np.float32))
        assert refused("--data", data) == (
            "error: data/a.npz: the sample's arrays are not named as the model's inputs\n"
            "expected: x\nfound: image\nhint: numpy.savez(FILE, **{INPUT: array, …}) names them\n"
        )

    def test_wrong_shapes_in_the_data(self, refused: Callable[..., str], data: Path) -> None:
        np.savez(data / "a.npz", x=np.zeros((3, 1), np.float32))
        assert refused("--data", data) == (
            "error: data/a.npz: the sample's shape is not the model's\n"
            "expected: x: float32 1×3\nfound: x: float32 3×1\n"
            "hint: fix the model to this shape with --shape x=3,1, or prepare the data anew\n"
        )

    def test_wrong_types_in_the_data(self, refused: Callable[..., str], data: Path) -> None:
        np.savez(data / "a.npz", x=np.zeros((1, 3), np.float16))
        assert refused("--data", data) == (
            "error: data/a.npz: the sample's element type is not the model's\n"
            "expected: x: float32 1×3\nfound: x: float16\nhint: save array.astype('float32')\n"
        )

    def test_a_label_beyond_the_classes(self, refused: Callable[..., str], data: Path) -> None:
        np.savez(data / "a.npz", x=np.zeros((1, 3), np.float32), label=3)
        assert refused("--data", data, "--quantize", "none").startswith(
            "error: data/a.npz: the label is not a class of the model\n"
            "expected: 0 to 2, the entries of output 'y'\nfound: 3\n"
        )

    def test_an_output_that_is_something_else(self, refused: Callable[..., str], tmp_path: Path) -> None:
        (tmp_path / "out").write_text("precious")
        assert refused() == (
            "error: out: exists and is not a bundle\nhint: choose another name with -o, or remove it first\n"
        )
        assert (tmp_path / "out").read_text() == "precious"

    def test_an_output_that_cannot_be_written(self, refused: Callable[..., str], tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        assert refused("-o", tmp_path / "file" / "out") == (
            "error: file/out: cannot be written: not a directory\n"
            "hint: choose another place with -o, or make its folder writable\n"
        )

    @pytest.mark.parametrize("text", ["much", "2", "-1%", "101%"])
    def test_a_drop_that_is_no_share(self, refused: Callable[..., str], text: str) -> None:
        assert refused(f"--max-drop={text}") == (
            f"error: --max-drop: is not a share\nexpected: a number from 0 to 1, or from 0% to 100%\nfound: {text}\n"
        )

    @pytest.mark.parametrize("name", ["", "a/b", "-x", "größe"])
    def test_a_name_that_is_none(self, refused: Callable[..., str], name: str) -> None:
        assert refused(f"--name={name}") == (
            "error: --name: is not a name for a bundle\n"
            "expected: letters, digits, '.', '_' and '-', a letter or a digit first\n"
            f"found: {name or 'no character'}\n"
        )

    def test_a_missing_project_file(self, refused: Callable[..., str], tmp_path: Path) -> None:
        assert refused("--config", tmp_path / "my.toml") == (
            "error: my.toml: there is no project file\nhint: `--config FILE` names another\n"
        )

    def test_a_missing_model(self, refused: Callable[..., str], tmp_path: Path) -> None:
        assert "nowhere.onnx" in refused(model=tmp_path / "nowhere.onnx")

    def test_operators_that_the_target_lacks(self, refused: Callable[..., str], onnx_file: Callable[..., Path]) -> None:
        model = onnx_file("f (float[1, 7, 7] x) => (float[1] y) { y = Det(x) }")
        text = refused(model=model, target="intel-cpu", code=1)
        assert text.startswith("error: model on intel-cpu: 1 unsupported node\n  Det (node 'y'): ")

    def test_accuracy_under_the_floor(
        self, refused: Callable[..., str], edgekit: RunEdgeKit, onnx_file: Callable[..., Path], tmp_path: Path
    ) -> None:
        model = onnx_file(
            "f (float[1, 64] x) => (float[1, 64] y) { a = MatMul(x, v) b = MatMul(x, w) y = Sub(a, b) }",
            v=np.full((64, 64), 1 + 2**-12, np.float32),  # which is 1 in half precision
            w=np.full((64, 64), 1, np.float32),
        )
        text = refused("--precision", "float16", model=model, target="intel-gpu", code=1)
        assert text.startswith("error: model: what was built as float16 is not accurate enough, executed by OpenVINO")
        output = tmp_path / "out"
        finished = edgekit(
            *("package", model, "--target", "intel-gpu", "--precision", "float16", "-o", output, "--json")
        )
        assert finished.code == 1
        assert finished.json["error"]["type"] == "InaccurateError"
        assert finished.json["error"]["exit_code"] == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 KiB, which is less than the sample model needs."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a file system here")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)  # Core ML's file library keeps a file open


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu", pytest.param("ios18", marks=pytest.mark.slow)])
def test_a_full_disk(edgekit: RunEdgeKit, small_disk: Path, digits: Path, target: str) -> None:
    output = small_disk / "out"
    finished = edgekit("package", digits, "--target", target, "--dim", "batch=1", "-o", output, "--quiet")
    assert finished.code == 2
    first, *_ = finished.err.splitlines()
    assert first == f"error: {output}: cannot be written: the disk is full"
    assert names(small_disk) == []


def test_a_full_disk_is_not_taken_for_a_form_that_does_not_work(
    edgekit: RunEdgeKit, small_disk: Path, digits: Path, labelled_digits: Path
) -> None:
    """The runtime says of it `basic_ios::clear: iostream error`."""
    options = ("--dim", "batch=1", "--data", labelled_digits, "--quantize", "none", "-o", small_disk / "out", "--quiet")
    finished = edgekit("package", digits, "--target", "intel-cpu", *options)
    assert finished.code == 2
    first, *_ = finished.err.splitlines()
    assert first == f"error: {small_disk / 'out'}: cannot be written: the disk is full"
    assert names(small_disk) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("stage", ["build", "bench"])
def test_an_interrupted_command_leaves_nothing(
    bundle: Path, tmp_path: Path, digits: Path, number: signal.Signals, stage: str
) -> None:
    before = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    command = [sys.executable, "-m", "edgekit", "package", digits, "--target", "onnxruntime", "--dim", "batch=1"]
    process = subprocess.Popen(
        [*map(str, command), "-o", str(bundle)], stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}
    )
    assert process.stderr is not None
    while process.stderr.readline() not in (f"{stage}\n", ""):
        pass
    if stage == "bench":
        time.sleep(0.1)  # it takes more than a second
        assert any(path.name.startswith(".edgekit-") for path in tmp_path.iterdir())
    process.send_signal(number)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=30) == -number  # a shell then ends the loop that runs the command, too
    assert rest.rstrip().splitlines()[-1] == "hint: nothing was left behind"
    assert "Traceback" not in rest
    assert names(tmp_path) == ["digits"]
    assert {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()} == before


def test_options_of_a_target_are_names_with_values() -> None:
    assert parse_options(["author=A = B", "image=yes"]) == {"author": "A = B", "image": "yes"}


@pytest.mark.parametrize("texts", [["author"], ["=x"], ["image=yes", "image=no"]])
def test_an_option_of_another_form_is_refused(texts: list[str]) -> None:
    with pytest.raises(InputError, match=f"--option {texts[-1]}: cannot be used"):
        parse_options(texts)


def test_a_measure_of_ones_own_bounds_what_was_built(
    edgekit: RunEdgeKit, tmp_path: Path, digits: Path, labelled_digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"scores_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(
        "def found(run, samples):\n"
        "    return sum(run(sample.feeds)['logits'].argmax() == sample.label for sample in samples) / len(samples)\n"
        "def worse_each_time(run, samples, values=[3.0, 2.0]):\n"
        "    return values.pop(0)\n"
    )
    monkeypatch.chdir(tmp_path)
    given = ["package", digits, "--target", "onnxruntime", "--dim", "batch=1", "--data", labelled_digits]

    bundle = edgekit(*given, "--quantize", "int8", "--metric", f"{name}:found", "-o", tmp_path / "out", "--json").json
    manifest = json.loads((Path(bundle["bundle"]) / "manifest.json").read_text())
    records = {stage["name"]: stage["record"] for stage in manifest["stages"]}
    assert manifest["options"]["metric"] == f"{name}:found"
    assert {point["metric"] for point in records["quantize"]["curve"]} == {f"{name}:found"}
    verified = records["verify"]["evaluation"]
    assert verified["reference"] == manifest["accuracy"]["task"]["reference"]
    assert verified["built"] == manifest["accuracy"]["task"]["built"]

    refused = edgekit(*given, "--quantize", "none", "--metric", f"{name}:worse_each_time", "-o", tmp_path / "no", "-q")
    assert refused.code == 1
    assert (
        f"expected: at most 1.00% of {name}:worse_each_time lost\nfound: 2 instead of 3, which is 33.33% less"
    ) in refused.err
    assert not (tmp_path / "no").exists()


@pytest.mark.slow
def test_a_model_of_at_most_a_size_and_the_smallest_one(
    edgekit: RunEdgeKit, tmp_path: Path, digits: Path, labelled_digits: Path
) -> None:
    asked = ("package", digits, "--target", "ios18", "--dim", "batch=1", "--data", labelled_digits, "--json")
    limited = edgekit(*asked, "--max-size", "60kB", "-o", tmp_path / "limited")
    smallest = edgekit(*asked, "--smallest", "--max-drop", "5%", "-o", tmp_path / "smallest")

    assert limited.code == 0
    assert limited.json["quantization"] == "mixed"
    assert 50_000 < limited.json["size"]["bytes"] <= 60_000
    assert smallest.code == 0
    assert smallest.json["size"]["bytes"] < limited.json["size"]["bytes"]
    assert smallest.json["accuracy"]["task"]["drop"] <= 0.05
    manifest = json.loads((tmp_path / "limited" / "manifest.json").read_text())
    assert manifest["options"]["max_bytes"] == 60_000
    (record,) = [stage["record"] for stage in manifest["stages"] if stage["name"] == "quantize"]
    assert {"palettes of 16 for all weights", record["chosen"]} <= {each["candidate"] for each in record["curve"]}
    assert len(record["frontier"]) > 3


@pytest.mark.parametrize("target", ["intel-cpu", "onnxruntime"])
def test_the_least_size_that_is_told_is_that_of_the_bundle(
    target: str, edgekit: RunEdgeKit, tmp_path: Path, digits: Path, labelled_digits: Path
) -> None:
    asked = ("package", digits, "--target", target, "--dim", "batch=1", "--data", labelled_digits, "--max-drop", "90%")
    refused = edgekit(*asked, "--max-size", "1", "-o", tmp_path / "refused")
    assert "expected: at most 1 byte\n" in refused.err
    (least,) = map(int, re.findall(r"(\d+) bytes at least", refused.err))
    built = edgekit(*asked, "--max-size", least, "-o", tmp_path / "built", "--json")
    assert built.code == 0
    assert 0.99 * least < built.json["size"]["bytes"] <= least


def test_a_size_that_no_form_has_leaves_no_bundle(
    edgekit: RunEdgeKit, tmp_path: Path, digits: Path, labelled_digits: Path
) -> None:
    asked = ("package", digits, "--target", "intel-cpu", "--dim", "batch=1", "--data", labelled_digits)
    finished = edgekit(*asked, "--max-size", "20kB", "-o", tmp_path / "out")

    assert finished.code == 1
    assert "no form of the model is small enough\nexpected: at most 20000 bytes" in finished.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--smallest"], "no samples"),
        (["--max-size", "10KB"], "no samples"),
        (["--smallest", "--quantize", "none"], "none"),
        (["--smallest", "--quantize", "int8-weights"], "int8-weights"),
    ],
)
def test_a_size_is_searched_with_samples(
    edgekit: RunEdgeKit, tmp_path: Path, digits: Path, options: list[str], found: str
) -> None:
    finished = edgekit("package", digits, "--target", "intel-cpu", *options, "-o", tmp_path / "out", "-q")
    assert (finished.code, finished.err) == (
        2,
        f"error: {options[0]}: sizes are searched with samples, by the scheme auto\n"
        f"expected: --data DIR, and no other scheme\nfound: {found}\n",
    )


def test_sizes_are_written_as_budgets_are(edgekit: RunEdgeKit, tmp_path: Path, digits: Path) -> None:
    finished = edgekit("package", digits, "--target", "intel-cpu", "--max-size", "3 mx", "-o", tmp_path / "out")
    assert finished.code == 2
    assert "--max-size: is not a size\nexpected: bytes, or a size such as '2.5 MB' (B; kB, MB" in finished.err
    assert "\nfound: 3 mx" in finished.err
