from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx.parser import parse_model as parse

from edgekit import api
from edgekit import fingerprint as fingerprint_module
from edgekit.cli import main

RunEdgeKit = Callable[..., Any]

PROJECT = """
[[bundle]]
name = "first"
model = "model.onnx"
target = "onnxruntime"

[[bundle]]
name = "second"
model = "model.onnx"
target = "intel-cpu"
shapes = { x = [2, 3] }
output = "elsewhere/second"
"""
EXP = "f (float[N, 3] x) => (float[N, 3] y) { y = Exp(x) }"


@pytest.fixture
def project(tmp_path: Path, onnx_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project file of two bundles that are not built yet."""
    onnx_file(EXP)
    config = tmp_path / "edgekit.toml"
    config.write_text(PROJECT.replace('"onnxruntime"', '"onnxruntime"\ndims = { N = 1 }'))
    monkeypatch.chdir(tmp_path)
    return config


@pytest.fixture(scope="module")
def built_once(
    made_once: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory, onnx_model: Callable[..., Any]
) -> Path:
    """The folder of the project of :func:`project`, built."""

    def make(folder: Path) -> None:
        unfinished = tmp_path_factory.mktemp("built")
        onnx.save(onnx_model(EXP), unfinished / "model.onnx")
        (unfinished / "edgekit.toml").write_text(PROJECT.replace('"onnxruntime"', '"onnxruntime"\ndims = { N = 1 }'))
        assert main(["build", "--config", str(unfinished / "edgekit.toml"), "--jobs", "2", "--json"]) == 0
        unfinished.rename(folder)

    return made_once("built-project", make)


@pytest.fixture
def built(built_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project file of a copy of the built project that a test may change."""
    shutil.copytree(built_once, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "edgekit.toml"


IMAGE = "[preprocessing]\nkind = 'image'\nscale = 1\nmean = [0.1, 0.2, 0.3]\n"


def test_preprocessing_of_the_file_is_left_out_of_a_bundle_that_takes_no_pictures(
    edgekit: RunEdgeKit, project: Path
) -> None:
    project.write_text(
        IMAGE + PROJECT.replace('"onnxruntime"', '"onnxruntime"\ndims = { N = 1 }\npreprocessing = false')
    )
    finished = edgekit("build", "-q", "--jobs", "1")
    assert finished.code == 0
    assert "warning: first: [preprocessing]" not in finished.err
    assert (
        "warning: second: [preprocessing] is not used, because no sample is a picture or a sound: [preprocessing] "
        "does not fit the model's input (expected: as many channels as mean has numbers: 3); preprocessing = false "
        "in the bundle's table declares that it has none" in finished.err
    )
    for bundle in ("bundles/first", "elsewhere/second"):
        assert json.loads(Path(bundle, "manifest.json").read_text())["preprocessing"] is None


def test_preprocessing_of_a_bundle_has_to_fit(edgekit: RunEdgeKit, project: Path) -> None:
    project.write_text(PROJECT + IMAGE.replace("[prep", "[bundle.prep"))
    finished = edgekit("build", "-q", "--jobs", "1")
    assert finished.code == 2
    assert "second: input 'x': [preprocessing] does not fit the model's input" in finished.err
    assert (
        "; if it is meant for another bundle of the project file, [bundle.preprocessing] replaces it for this one, and "
        "preprocessing = false under [[bundle]] leaves it out" in finished.err
    )


def skipped(edgekit: RunEdgeKit, *options: object) -> list[bool]:
    finished = edgekit("build", "--json", *options)
    assert finished.code == 0
    return [bundle["skipped"] for bundle in finished.json["bundles"]]


def test_bundles_are_built_side_by_side(edgekit: RunEdgeKit, project: Path) -> None:
    finished = edgekit("build", "--jobs", "2")
    assert finished.code == 0
    assert [line.split()[:3] for line in finished.out.splitlines() if "built" in line][1:] == [
        ["first", "onnxruntime", "built"],
        ["second", "intel-cpu", "built"],
    ]
    assert (project.parent / "bundles" / "first" / "manifest.json").is_file()
    assert (project.parent / "elsewhere" / "second" / "model.xml").is_file()
    lines = finished.err.splitlines()
    first_end = next(number for number, line in enumerate(lines) if " done after " in line)
    begun = [lines.index(f"{name}: load") for name in ("first", "second")]
    assert max(begun) < first_end  # both processes worked at the same time


def test_what_is_up_to_date_is_skipped(edgekit: RunEdgeKit, built: Path) -> None:
    del built
    assert skipped(edgekit) == [True, True]
    finished = edgekit("build")
    assert finished.out.count("up to date") == 2
    assert finished.err == ""


@pytest.mark.slow
def test_force_builds_all(edgekit: RunEdgeKit, built: Path) -> None:
    del built
    assert skipped(edgekit, "--force") == [False, False]


@pytest.mark.slow
def test_another_version_of_a_runtime_builds_all(
    edgekit: RunEdgeKit, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del built
    version = fingerprint_module.version
    monkeypatch.setattr(fingerprint_module, "version", lambda name: "99.0" if name == "onnxruntime" else version(name))
    assert [bundle["skipped"] for bundle in edgekit("build", "--json").json["bundles"]] == [False, False]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda root: (root / "model.onnx").write_bytes((root / "model.onnx").read_bytes() + b"\x32\x00"),
            [False, False],
        ),
        (
            lambda root: (root / "edgekit.toml").write_text(
                (root / "edgekit.toml").read_text().replace("2, 3", "4, 3")
            ),
            [True, False],
        ),
        (lambda root: (root / "bundles" / "first" / "report.md").unlink(), [False, True]),
    ],
    ids=["model", "option", "bundle"],
)
def test_what_has_changed_is_built_again(
    edgekit: RunEdgeKit, built: Path, change: Callable[[Path], Any], expected: list[bool]
) -> None:
    change(built.parent)
    assert skipped(edgekit) == expected


def test_what_is_no_bundle_any_more_is_left_alone(edgekit: RunEdgeKit, built: Path) -> None:
    (built.parent / "elsewhere" / "second" / "manifest.json").write_text("{}")
    finished = edgekit("build", "--quiet")
    assert finished.code == 2
    assert "exists and is not a bundle" in finished.err
    assert "hint: choose another name with `output` in " in finished.err


def test_a_bundle_whose_manifest_was_cut_off_is_named_as_damaged(edgekit: RunEdgeKit, built: Path) -> None:
    """A cache that was restored in part; a web app's folder may hold a manifest.json too, and must not go."""
    manifest = built.parent / "elsewhere" / "second" / "manifest.json"
    manifest.write_text(manifest.read_text()[:100])
    finished = edgekit("build", "second", "--quiet")
    assert finished.code == 2
    first, found, hint = finished.err.splitlines()
    assert first == (
        f"error: second: {manifest}: is damaged, so it is not known whether the folder is a bundle that may be replaced"
    )
    assert found.startswith("found: cannot be read: ")
    assert hint.startswith("hint: remove the folder if it is a bundle, or choose another name with `output` in ")


def test_a_bundle_that_git_lfs_holds_is_named_as_such(edgekit: RunEdgeKit, built: Path) -> None:
    manifest = built.parent / "elsewhere" / "second" / "manifest.json"
    manifest.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 7\n")
    finished = edgekit("build", "second", "--quiet")
    assert finished.code == 2
    assert finished.err == (
        f"error: second: {manifest}: is a Git LFS pointer, so it is not known whether the folder is a bundle that "
        "may be replaced\n"
        "hint: fetch the bundle with `git lfs pull`, or remove the folder\n"
    )


def test_changed_data(edgekit: RunEdgeKit, project: Path) -> None:
    import numpy as np

    data = project.parent / "data"
    data.mkdir()
    np.savez(data / "0.npz", x=np.ones((1, 3), np.float32))
    project.write_text(
        '[[bundle]]\nname = "one"\nmodel = "model.onnx"\ntarget = "ort"\ndims = { N = 1 }\n'
        'data = "data"\nquantize = "none"\n'
    )
    assert skipped(edgekit) == [False]
    assert skipped(edgekit) == [True]
    np.savez(data / "0.npz", x=np.zeros((1, 3), np.float32))
    assert skipped(edgekit) == [False]


def test_a_project_somewhere_else(edgekit: RunEdgeKit, built: Path, tmp_path_factory: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert skipped(edgekit, "--config", str(built)) == [True, True]
    finished = edgekit("build", "--quiet")
    assert finished.code == 2
    assert finished.err == (
        "error: there is no edgekit.toml here or in a folder above\nhint: `--config FILE` names one\n"
    )


def test_one_that_fails_does_not_stop_the_others(edgekit: RunEdgeKit, project: Path) -> None:
    """The first cannot even begin, the second fails in its own process, the third is built."""
    unknown = '[[bundle]]\nname = "unknown"\nmodel = "gone.onnx"\ntarget = "onnxruntime"\n'
    unfit = '[[bundle]]\nname = "unfit"\nmodel = "model.onnx"\ntarget = "onnxruntime"\ndims = { M = 1 }\n'
    fine = '[[bundle]]\nname = "fine"\nmodel = "model.onnx"\ntarget = "onnxruntime"\ndims = { N = 1 }\n'
    project.write_text(unknown + unfit + fine)
    finished = edgekit("build", "--quiet", "--junit", "out/build.xml")
    assert finished.code == 2
    suites = ElementTree.parse(project.parent / "out" / "build.xml").getroot()
    assert (suites.get("tests"), suites.get("failures")) == ("3", "2")
    times = {case.get("name"): float(str(case.get("time"))) for case in suites.iter("testcase")}
    assert times["unknown"] == 0  # no process was started for it
    assert 0 < times["unfit"] < 60
    assert 0 < times["fine"] < 60
    assert [line.split()[:3] for line in finished.out.splitlines()[3:6]] == [
        ["unknown", "onnxruntime", "FAILED"],
        ["unfit", "onnxruntime", "FAILED"],
        ["fine", "onnxruntime", "built"],
    ]
    assert f"error: unknown: {project.parent}/gone.onnx: " in finished.err
    assert "error: unfit: " in finished.err
    assert not (project.parent / "bundles" / "unfit").exists()
    finished = edgekit("build", "--json")
    first, second, third = finished.json["bundles"]
    assert (first["name"], first["skipped"], first["error"]["exit_code"]) == ("unknown", False, 2)
    assert second["error"]["type"] == "InputError"
    assert third["skipped"]
    assert [one.as_record() for one in api.build(project)] == finished.json["bundles"]


def test_errors_tell_the_keys_of_the_flags_that_they_name(edgekit: RunEdgeKit, project: Path) -> None:
    project.write_text(
        project.read_text().replace('target = "onnxruntime"', 'target = "onnxruntime"\nquantize = "int8"')
    )
    finished = edgekit("build", "first")
    assert finished.code == 2
    assert "in the project file --quantize is `quantize`, --data is `data`" in finished.err


def test_a_target_that_does_not_exist_is_named_by_its_place_in_the_file(edgekit: RunEdgeKit, project: Path) -> None:
    bundle = '[[bundle]]\nname = "{}"\nmodel = "model.onnx"\n{}\n'
    project.write_text(bundle.format("a", 'target = "wbe"') + bundle.format("b", 'target = "web"\nalso = ["ios80"]'))
    finished = edgekit("build", "--quiet")
    assert finished.code == 2
    assert f"error: a: {project} bundle a target: there is no target 'wbe'\nexpected: " in finished.err
    assert f"error: b: {project} bundle b also: there is no target 'ios80'\nexpected: " in finished.err


def test_class_names_that_are_not_there(edgekit: RunEdgeKit, project: Path) -> None:
    project.write_text(project.read_text().replace("dims", 'labels = "gone.txt"\ndims', 1))
    finished = edgekit("build", "first", "-q")
    assert finished.code == 2
    assert finished.err == f"error: first: {project.parent}/gone.txt: cannot be read: no such file or directory\n"


def test_data_that_are_not_there_are_told_before_anything_is_built(edgekit: RunEdgeKit, project: Path) -> None:
    project.write_text(project.read_text() + 'data = "gone"\n')  # of the second bundle
    finished = edgekit("build", "--jobs", "1")
    assert finished.code == 2
    told = finished.err.splitlines()
    assert told[0] == f"second: FAILED after 0.0 s: {project.parent}/gone: the data folder is not there"
    assert told[1] == "first: load"


def test_some_bundles_by_their_names(edgekit: RunEdgeKit, built: Path) -> None:
    finished = edgekit("build", "second", "--json")
    assert [one["bundle"] for one in finished.json["bundles"]] == [str(built.parent / "elsewhere" / "second")]
    finished = edgekit("build", "secund", "--junit", "build.xml")
    assert finished.code == 2
    assert f"error: {built}: declares no such bundle\nexpected: 'second'\nfound: secund\n" in finished.err
    (case,) = ElementTree.parse(built.parent / "build.xml").getroot().iter("error")
    assert case.attrib == {"message": "declares no such bundle", "type": "InputError"}


def test_bundles_go_into_another_folder_where_that_is_asked_for(
    edgekit: RunEdgeKit, project: Path, tmp_path: Path
) -> None:
    """A checkout may be read-only; before, nothing but the project file could say where bundles go."""
    out = tmp_path / "out here"
    finished = edgekit("build", "--output-dir", out, "--json")
    assert [one["bundle"] for one in finished.json["bundles"]] == [str(out / "first"), str(out / "second")]
    assert sorted(place.name for place in out.iterdir()) == ["first", "second"]
    assert not (tmp_path / "bundles").exists()
    assert not (tmp_path / "elsewhere").exists()
    assert skipped(edgekit, "--output-dir", out) == [True, True]
    project.write_text(project.read_text() + '[budget]\nsize = "1 B"\n')
    judged = edgekit("gate", *out.iterdir(), "--json")
    assert judged.code == 1
    assert {one["name"] for one in judged.json["bundles"]} == {"first", "second"}
    shutil.rmtree(out / "second")
    first, second = edgekit("gate", "--output-dir", out, "--json").json["bundles"]
    assert (first["name"], first["error"]) == ("first", None)
    assert (second["bundle"], second["error"]["message"]) == (str(out / "second"), "has not been built")
    (tmp_path / "file").touch()
    failed = edgekit("build", "--output-dir", tmp_path / "file", "-q")
    assert "hint: choose another place with --output-dir, or make its folder writable" in failed.err


def test_the_worst_exit_code_counts(edgekit: RunEdgeKit, project: Path) -> None:
    """A model that the target cannot take (1) and a model that is not there (2)."""
    strange = parse('<ir_version: 8, opset_import: ["": 17, "x": 1]> f (float[1] a) => (float[1] b) { b = x.No(a) }')
    onnx.save(strange, project.parent / "strange.onnx")
    bundle = '[[bundle]]\nname = "{0}"\nmodel = "{0}.onnx"\ntarget = "onnxruntime"\n'
    project.write_text(bundle.format("strange"))
    assert edgekit("build", "--quiet").code == 1
    project.write_text(bundle.format("strange") + bundle.format("gone"))
    assert edgekit("build", "--quiet").code == 2


def test_a_project_without_bundles(edgekit: RunEdgeKit, project: Path) -> None:
    project.write_text("")
    finished = edgekit("build", "--quiet")
    assert finished.code == 2
    assert finished.err == (
        "error: edgekit.toml: declares no bundle\n"
        "expected: [[bundle]] with name, model and target\n"
        'hint: for instance name = "digits-ios", model = "digits.onnx", target = "ios18"\n'
    ).replace("edgekit.toml", str(project))


def test_a_measure_of_the_projects_own(edgekit: RunEdgeKit, project: Path, tmp_path_factory: Any) -> None:
    import numpy as np

    name = f"scores_{project.parent.name}"
    module = project.parent / f"{name}.py"
    module.write_text("def mean(run, samples):\n    return sum(run(s.feeds)['y'].mean() for s in samples)\n")
    data = project.parent / "data"
    data.mkdir()
    np.savez(data / "0.npz", x=np.ones((1, 3), np.float32))
    project.write_text(
        '[[bundle]]\nname = "one"\nmodel = "model.onnx"\ntarget = "ort"\ndims = { N = 1 }\n'
        f'data = "data"\nquantize = "none"\nmetric = "{name}:mean"\n'
    )
    assert skipped(edgekit) == [False]
    assert skipped(edgekit) == [True]
    module.write_text(module.read_text() + "# changed\n")
    assert skipped(edgekit) == [False]


def test_wrong_jobs(edgekit: RunEdgeKit, project: Path) -> None:
    del project
    finished = edgekit("build", "--jobs", "0")
    assert finished.code == 2
    assert "--jobs" in finished.err


def quantize_record(bundle: Path) -> Any:
    stages = json.loads((bundle / "manifest.json").read_text())["stages"]
    return next(stage["record"] for stage in stages if stage["name"] == "quantize")


def choose(bundle: Path, candidate: str) -> None:
    """Has a bundle's manifest tell that another candidate shipped."""
    document = json.loads((bundle / "manifest.json").read_text())
    next(stage["record"] for stage in document["stages"] if stage["name"] == "quantize")["chosen"] = candidate
    (bundle / "manifest.json").write_text(json.dumps(document))


def test_an_unchanged_model_ships_in_the_same_form_again(
    edgekit: RunEdgeKit, tmp_path: Path, sample_apps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the bundle that is replaced tells, or else the baseline's, though the times tell otherwise."""
    monkeypatch.chdir(tmp_path)
    digits, bundle = sample_apps / "digits", tmp_path / "bundles" / "one"
    shutil.copy(digits / "digits_torchscript.onnx", tmp_path / "model.onnx")
    (tmp_path / "edgekit.toml").write_text(
        '[gate]\nbaseline = "baseline.json"\n[preprocessing]\nkind = "image"\nscale = "1/255"\n'
        '[[bundle]]\nname = "one"\nmodel = "model.onnx"\ntarget = "onnxruntime"\n'
        f'data = "{digits}/samples/calibration"\ndims = {{ batch = 1 }}\nquantize = "int8"\naccept = true\n'
    )
    assert edgekit("build", "-q").code == 0
    record = quantize_record(bundle)
    other = next(trial["candidate"] for trial in record["curve"] if trial["candidate"] != record["chosen"])
    choose(bundle, other)
    assert edgekit("gate", "--update", "-q").code == 0
    assert edgekit("build", "--force", "-q").code == 0
    assert quantize_record(bundle)["chosen"] == other

    shutil.rmtree(bundle)
    assert edgekit("build", "-q").code == 0
    assert quantize_record(bundle)["chosen"] == other

    choose(bundle, "nothing of the kind")
    finished = edgekit("build", "--force", "-q")
    assert finished.code == 0
    told = (
        "warning: one: 'nothing of the kind', which shipped before, does not hold the budget now: another "
        "candidate is chosen"
    )
    assert told in finished.err.splitlines()

    choose(bundle, "nothing of the kind")  # of another model than the one that is built now
    (tmp_path / "model.onnx").write_bytes((tmp_path / "model.onnx").read_bytes() + b"\x32\x00")
    finished = edgekit("build", "-q")
    assert finished.code == 0
    assert "another candidate is chosen" not in finished.err


def building(folder: Path, *options: str) -> subprocess.Popen[str]:
    """The command in a process of its own, while the second bundle is measured; the first is finished then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "edgekit", "build", "--jobs", "1", *options],
        cwd=folder,
        env={**os.environ, "EDGEKIT_MEASURE_SECONDS": "1.5"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line == "second: bench\n":
            return process
    raise AssertionError("the build ended")


def workers(folder: Path) -> list[int]:
    """The processes other than the first one that work in the folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                place, words = (process / "cwd").resolve(), (process / "cmdline").read_bytes()
            except OSError:  # it has just ended, or belongs to somebody else
                continue
            if place == folder.resolve() and b"spawn_main" in words:
                found.append(int(process.name))
    return found


def left(folder: Path) -> list[str]:
    """The names of the files in the folder where the second bundle is written."""
    return sorted(path.name for path in (folder / "elsewhere").iterdir()) if (folder / "elsewhere").exists() else []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_was_interrupted_leaves_nothing_half_written_and_goes_on(
    edgekit: RunEdgeKit, project: Path, number: signal.Signals
) -> None:
    folder = project.parent
    process = building(folder)
    assert workers(folder)
    if number is signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does: every process gets it
    else:
        process.send_signal(number)
    _, err = process.communicate(timeout=60)
    if number is signal.SIGKILL:
        assert process.returncode == -number
        end = time.monotonic() + 30
        while workers(folder) and time.monotonic() < end:
            time.sleep(0.05)
    else:
        assert process.returncode == -number
        assert err.endswith("hint: the bundles that were finished are there; run it again to go on\n")
    assert "Traceback" not in err
    assert workers(folder) == []
    assert left(folder) == []
    assert skipped(edgekit) == [True, False]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds processes in /proc")
def test_a_worker_that_is_killed_fails_its_bundle_alone(edgekit: RunEdgeKit, project: Path) -> None:
    folder = project.parent
    process = building(folder)
    for worker in workers(folder):
        os.kill(worker, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2  # as for a model that ends the process that looks at it
    assert err.endswith(
        "error: second: second: its process was ended by SIGKILL\n"
        "expected: a model that the libraries under EdgeKit can take\n"
        "hint: the system ends processes when memory runs out, too: fewer --jobs need less\n"
    )
    assert left(folder) == []
    assert skipped(edgekit) == [True, False]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds processes in /proc")
def test_when_all_processes_are_killed_the_next_build_clears_up(edgekit: RunEdgeKit, project: Path) -> None:
    folder = project.parent
    process = building(folder)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    (abandoned,) = left(folder)
    assert abandoned.startswith(".edgekit-")
    assert skipped(edgekit) == [True, False]
    assert left(folder) == ["second"]


def test_two_names_of_one_device_are_no_two_targets(edgekit: RunEdgeKit, project: Path) -> None:
    project.write_text(
        '[[bundle]]\nname = "site"\nmodel = "model.onnx"\ndims = { N = 1 }\n'
        'targets = ["web", "onnxruntime", "web-wasm"]\n'
    )
    finished = edgekit("build", "-q")
    assert finished.code == 2
    assert finished.err == (
        f"error: {project} bundle site: names a device twice\nexpected: each device once in targets\n"
        "found: 'web' and 'web-wasm', which are both web\n"
    )
    assert not (project.parent / "bundles").exists()
