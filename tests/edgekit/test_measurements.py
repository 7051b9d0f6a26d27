from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import edgekit
from edgekit.bundle import read_bundle
from edgekit.errors import InputError
from edgekit.measurements import MEASUREMENTS, join, split

MANIFEST: dict[str, Any] = {
    "name": "m",
    "latency": {"ratio": 0.5},
    "stages": [
        {"name": "load", "seconds": 0.25, "record": {"bytes": 7, "a/b~c": {"latency_ms": None}}},
        {"name": "bench", "seconds": 1.5, "record": {"ratio": 0.5}},
    ],
}


def test_times_are_taken_out_and_put_back() -> None:
    manifest = copy.deepcopy(MANIFEST)
    reproducible, measurements = split(manifest)
    assert manifest == MANIFEST
    assert reproducible == {
        "name": "m",
        "stages": [{"name": "load", "record": {"bytes": 7, "a/b~c": {}}}, {"name": "bench", "record": {}}],
    }
    assert set(measurements["values"]) == {
        "/latency",
        "/stages/0/seconds",
        "/stages/0/record/a~1b~0c/latency_ms",
        "/stages/1/seconds",
        "/stages/1/record",
    }
    assert join(reproducible, json.loads(json.dumps(measurements))) is None
    assert reproducible == MANIFEST


@pytest.mark.parametrize(
    ("measurements", "flaw"),
    [
        ([], "it holds no values"),
        ({"values": {"/files": []}}, "/files is not a place for a time"),
        ({"values": {"/name": "other"}}, "/name is not a place for a time"),
        ({"values": {"/stages/9/seconds": 1}}, "/stages/9/seconds is not a place in the manifest"),
        ({"values": {"": 1}}, " is not a place for a time"),
    ],
)
def test_nothing_but_times_comes_from_that_file(measurements: object, flaw: str) -> None:
    assert join(copy.deepcopy(MANIFEST), measurements) == flaw


def test_a_bundle_whose_times_do_not_fit_is_refused(bundle: Path) -> None:
    (bundle / MEASUREMENTS).write_text('{"values": {"/files": []}}')
    with pytest.raises(InputError, match=r"measurements\.json: does not fit the manifest\nfound: /files"):
        read_bundle(bundle)


def test_a_bundle_that_lost_its_times_is_refused(bundle: Path) -> None:
    (bundle / MEASUREMENTS).unlink()
    with pytest.raises(InputError) as raised:
        read_bundle(bundle)
    assert str(raised.value) == (
        f"{bundle / MEASUREMENTS}: is not there\nexpected: the times of {bundle / 'manifest.json'}\n"
        "hint: copy the whole bundle, or package the model again"
    )


def test_a_time_that_is_in_neither_file_is_named(bundle: Path) -> None:
    document = json.loads((bundle / MEASUREMENTS).read_text())
    del document["values"]["/stages/2/seconds"]
    (bundle / MEASUREMENTS).write_text(json.dumps(document))
    with pytest.raises(
        InputError, match=r"measurements\.json: does not fit the manifest\nfound: no time for /stages/2/seconds"
    ):
        read_bundle(bundle)


def test_times_inside_the_manifest_need_no_file_beside_it(bundle: Path) -> None:
    whole = dict(read_bundle(bundle).manifest)
    (bundle / MEASUREMENTS).unlink()
    (bundle / "manifest.json").write_text(json.dumps(whole))
    assert read_bundle(bundle).manifest == whole


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != MEASUREMENTS)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


FORMS = [
    (model, scheme, target)
    for model, scheme in (("digits_torchscript.onnx", "int8-weights"), ("digits_dynamo.onnx", "none"))
    for target in ("ios18", "intel-cpu", "onnxruntime")
]
PACKAGE = """
import json, sys
from edgekit.cli import main
for arguments in json.loads(sys.argv[1]):
    assert main(arguments) == 0
"""


@pytest.mark.slow
def test_two_runs_differ_in_their_times_alone(tmp_path: Path, sample_apps: Path) -> None:
    """In other folders, time zones and orders, with other hash seeds and numbers of threads."""
    folders = []
    for number, (zone, threads) in enumerate((("UTC", "1"), ("Pacific/Auckland", "2"))):
        folder = tmp_path / str(number) / ("deep" * number)
        folder.mkdir(parents=True)
        environment = {**os.environ, "TZ": zone, "PYTHONHASHSEED": str(number), "OMP_NUM_THREADS": threads}
        commands = []
        for model, scheme, target in FORMS[:: -1 if number else 1]:
            options = ["--target", target, "--dim", "batch=1", "--quantize", scheme]
            out = folder / f"{model}-{target}" / "out"
            commands.append(["package", str(sample_apps / "digits" / model), *options, "-o", str(out)])
        command = [sys.executable, "-c", PACKAGE, json.dumps(commands)]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environment)
        folders.append(folder)
    for model, _, target in FORMS:
        first, second = (contents(folder / f"{model}-{target}" / "out") for folder in folders)
        assert first.keys() == second.keys()
        assert [name for name in first if first[name] != second[name]] == [], f"{model} for {target}"


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu", "ios18"])
def test_a_choice_that_went_by_times_is_repeated(target: str, tmp_path: Path, sample_apps: Path) -> None:
    """A bundle made like another ships the same bytes; its manifest may hold other times of the other candidates."""
    digits = sample_apps / "digits"
    first = edgekit.package(
        digits / "digits_torchscript.onnx",
        target,
        tmp_path / "first",
        data=digits / "samples" / "calibration",
        dims={"batch": 1},
    )
    again = edgekit.package(
        digits / "digits_torchscript.onnx",
        target,
        tmp_path / "again",
        data=digits / "samples" / "calibration",
        dims={"batch": 1},
        like=first,
    )
    assert first.manifest["model"]["kind"] == again.manifest["model"]["kind"]
    made = contents(first.path), contents(again.path)
    assert made[0].keys() == made[1].keys()
    assert [
        name for name in made[0] if name not in ("manifest.json", "report.md") and made[0][name] != made[1][name]
    ] == []


def test_like_forces_a_slower_candidate(tmp_path: Path, sample_apps: Path) -> None:
    digits = sample_apps / "digits"
    asked = {"data": digits / "samples" / "calibration", "dims": {"batch": 1}, "quantize": "int8", "accept": True}
    first = edgekit.package(digits / "digits_torchscript.onnx", "onnxruntime", tmp_path / "first", **asked)
    document = json.loads((first.path / "manifest.json").read_text())
    record = next(stage["record"] for stage in document["stages"] if stage["name"] == "quantize")
    other = next(trial["candidate"] for trial in record["curve"] if trial["candidate"] != record["chosen"])
    record["chosen"] = other
    (first.path / "manifest.json").write_text(json.dumps(document))
    again = edgekit.package(
        digits / "digits_torchscript.onnx", "onnxruntime", tmp_path / "again", **asked, like=first.path
    )
    chosen = next(stage["record"] for stage in again.manifest["stages"] if stage["name"] == "quantize")["chosen"]
    assert chosen == other
    record["chosen"] = "nothing of the kind"
    (first.path / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="--like: names a candidate that does not exist or does not hold the budget"):
        edgekit.package(digits / "digits_torchscript.onnx", "onnxruntime", tmp_path / "no", **asked, like=first.path)


def test_like_takes_a_bundle_of_the_same_target_and_tells_of_another_model(tmp_path: Path, sample_apps: Path) -> None:
    digits = sample_apps / "digits"
    asked = {"data": digits / "samples" / "calibration", "dims": {"batch": 1}}
    model, other = digits / "digits_torchscript.onnx", digits / "digits_dynamo.onnx"
    first = edgekit.package(model, "onnxruntime", tmp_path / "first", **asked, quantize="int8")
    with pytest.raises(InputError) as refused:
        edgekit.quantize(model, tmp_path / "int8.onnx", target="intel-cpu", scheme="int8", **asked, like=first)
    assert str(refused.value).splitlines() == [
        "--like: is a bundle of another target, which has other candidates",
        "expected: a bundle that openvino built",
        "found: onnxruntime",
        "hint: leave --like out",
    ]
    with pytest.raises(InputError, match="--like: is a bundle of another target"):
        edgekit.package(model, "intel-cpu", tmp_path / "second", **asked, like=first)
    told = (
        "--like names a bundle of another model (digits_torchscript.onnx): the candidate chosen for that model "
        "is used for this one, too"
    )
    for given, expected in ((model, False), (other, True)):
        made = edgekit.quantize(given, tmp_path / "int8.onnx", target="onnxruntime", scheme="int8", **asked, like=first)
        assert (told in made.warnings) == expected
    with pytest.raises(InputError) as refused:
        edgekit.quantize(model, tmp_path / "int8.onnx", scheme="int8", **asked, like=first)
    assert str(refused.value).splitlines() == [
        "--like: is a bundle of a target, which has candidates of its own",
        "expected: --target onnxruntime, or another device that onnxruntime builds for",
        "found: no --target",
        "hint: give --target onnxruntime",
    ]
    plain = edgekit.package(model, "onnxruntime", tmp_path / "plain", dims={"batch": 1})
    with pytest.raises(InputError, match="--like: is a bundle for which no candidate was chosen"):
        edgekit.quantize(model, tmp_path / "int8.onnx", target="onnxruntime", **asked, like=plain)
