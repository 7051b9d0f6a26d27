"""Tests the promises of SECURITY.md about samples, modules, project files, outputs and reports."""

from __future__ import annotations

import json
import re
import shutil
import struct
import zlib
from pathlib import Path

import honest
import pytest
from onnx import helper

from edgekit.cli import main

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n0 0 8 8 rectfill\nshowpage\n%%EOF\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a model that takes pictures."""
    honest.write_model("net", tmp_path / "m.onnx", honest.MODELS["net"]())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def error(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    return json.loads(capsys.readouterr().out)["error"]


def package(*more: str) -> int:
    return main(["package", "m.onnx", "--target", "onnxruntime", "-o", "b", "--json", *more])


@pytest.mark.parametrize("name", ["0.png", "0.jpg"])
def test_a_picture_starts_no_program(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest.write_pictures(folder / "data", 1)
    (folder / "data" / "0.png").unlink()
    (folder / "data" / name).write_bytes(EPS)
    (folder / "bin").mkdir()
    interpreter = folder / "bin" / "gs"  # Ghostscript, with which Pillow would decode an EPS picture
    interpreter.write_text(f"#!/bin/sh\n: > {folder}/started\n")
    interpreter.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
    assert package("--data", "data") == 2
    assert name in error(capsys)["subject"]
    assert not (folder / "started").exists()


def png(width: int, height: int) -> bytes:
    """A picture of one color with one bit per pixel; the largest one in these tests has 20 kB."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(1 + (width + 7) // 8)) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    honest.write_pictures(folder / "data", 1)
    (folder / "data" / "0.png").write_bytes(png(13_000, 13_000))
    assert package("--data", "data") == 2
    found = error(capsys)
    assert found["subject"].endswith("data/0.png")
    assert (found["expected"], found["found"]) == ("100000000 pixels at most", "13000×13000")


@pytest.mark.parametrize("module", ["raise SystemExit(0)", "def f(*_): raise SystemExit(0)", "import sys\nsys.exit()"])
@pytest.mark.parametrize("command", ["package", "quantize", "build"])
def test_a_metric_that_ends_the_process_is_no_success(
    folder: Path, command: str, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    honest.write_samples(honest.MODELS["net"](), folder / "data")
    (folder / "leaving.py").write_text(module + "\n")
    (folder / "edgekit.toml").write_text(
        '[[bundle]]\nname = "a"\nmodel = "m.onnx"\ntarget = "onnxruntime"\ndata = "data"\nquantize = "int8"\n'
        'metric = "leaving:f"\noutput = "b"\n'
    )
    asked = ("--data", "data", "--metric", "leaving:f")
    arguments = {
        "package": ("package", "m.onnx", "--target", "onnxruntime", "--quantize", "int8", *asked, "-o", "b"),
        "quantize": ("quantize", "m.onnx", "--scheme", "int8", *asked, "-o", "b.onnx"),
        "build": ("build",),
    }[command]
    assert main([*arguments, "--json"]) != 0
    assert "leaving" in capsys.readouterr().out
    assert not list(folder.glob("b*"))


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-nan"])
@pytest.mark.parametrize(
    "budget", ["latency_ratio", "size", "sqnr_db", "accuracy", "accuracy_drop", "size_growth", "latency_growth"]
)
def test_a_budget_that_is_no_number_is_an_error(
    folder: Path, budget: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "edgekit.toml").write_text(f"[budget]\n{budget} = {value}\n")
    assert main(["gate", "--json"]) == 2
    assert budget in json.dumps(error(capsys))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("quantize", "exists and is not an ONNX model"),  # told before the model is read
        ("fix", "holds tensors of the model itself"),
        ("extract", "holds tensors of the model itself"),
    ],
)
def test_a_models_own_data_is_not_written_over(
    tmp_path: Path, command: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = honest.MODELS["external"]()
    if command == "fix":
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    honest.write_model("external", tmp_path / "m.onnx", model)
    before = (tmp_path / "external.bin").read_bytes()
    arguments = {
        "quantize": ("quantize", "m.onnx", "--scheme", "int8-weights"),
        "fix": ("fix", "m.onnx", "--dim", "N=1"),
        "extract": ("extract", "m.onnx", "--outputs", "a"),
    }[command]
    assert main([*arguments, "-o", "external.bin", "--json"]) == 2
    found = error(capsys)
    assert (found["subject"], found["message"]) == ("external.bin", told)
    assert (tmp_path / "external.bin").read_bytes() == before


def test_what_a_user_put_into_a_bundles_folder_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert package() == 0
    for name in ("notes.txt", "golden/mine.npy", ".hidden/deep"):
        (folder / "b" / name).parent.mkdir(exist_ok=True)
        (folder / "b" / name).write_text("mine")
    capsys.readouterr()
    assert package() == 2
    assert "notes.txt" in json.dumps(error(capsys))
    assert (folder / "b" / "notes.txt").read_text() == "mine"
    shutil.rmtree(folder / "b" / ".hidden")
    (folder / "b" / "notes.txt").unlink()
    (folder / "b" / "golden" / "mine.npy").unlink()
    assert package() == 0


def test_names_stay_text_in_the_report_of_a_bundle(folder: Path) -> None:
    hostile = "</td><img src=x onerror=alert(1)>|`*x*`[a](javascript:b)\n::error::no\x1b[31m"
    model = honest.MODELS["net"]()
    for node in model.graph.node:
        node.output[:] = [hostile if name == "scores" else name for name in node.output]
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info(hostile, 1, [1, 5]))
    honest.write_model("net", folder / "m.onnx", model)
    assert package() == 0
    text = (folder / "b" / "report.md").read_text(encoding="utf-8")
    assert re.search(r"<(?!br>)[a-z/!]", text) is None
    assert "](javascript" not in text.replace("\\]", "")
    assert "\x1b" not in text
    assert not re.search(r"^::", text, re.MULTILINE)
