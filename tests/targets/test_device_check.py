"""The check that ships in a bundle, run as on a device that has nothing of EdgeKit."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest

from edgekit.bundle import check_integrity, read_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.devices.local import LocalDevice
from edgekit.devices.results import ResultsDevice
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress

WITHOUT_EDGEKIT = (
    "import runpy, sys; sys.modules.update(dict.fromkeys(['edgekit', 'edgekit_openvino', 'edgekit_onnxruntime']));"
    " sys.path.insert(0, '.'); sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


PROFILES = ["intel-cpu", "onnxruntime"]


@pytest.fixture(scope="module", params=PROFILES)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[1, 8] x, int64[4] i) => (float[1, 8] y, int64[4] j)'
        " { y = Softmax(x) j = Add(i, i) }"
    )
    onnx.save(model, folder / "model.onnx")
    return package(PackageRequest(folder / "model.onnx", request.param, folder / "packaged"), Progress()).path


def check(bundle: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_EDGEKIT, "check.py", *arguments]
    return subprocess.run(command, cwd=bundle, capture_output=True, text=True, check=False)


def test_it_passes_where_the_runtime_computes_right(bundle: Path) -> None:
    done = check(bundle)
    assert done.returncode == 0, done.stderr
    assert "ok   y: max abs error" in done.stdout
    assert "ok   j: 0.0000% of the elements differ" in done.stdout


def test_it_tells_the_figures_as_json(bundle: Path) -> None:
    result = json.loads(check(bundle, "--json").stdout)
    assert result["passed"]
    assert [output["name"] for output in result["outputs"]] == ["y", "j"]


def test_it_leaves_the_bundle_as_it_was_written(bundle: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "check.py"], cwd=bundle, env=environment, capture_output=True, check=True)
    check_integrity(read_bundle(bundle))


def test_what_it_wrote_is_judged_where_edgekit_is(bundle: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    assert check(bundle, "--results", str(results)).returncode == 0
    opened = read_bundle(bundle)
    verification = verify_bundle(opened, device=ResultsDevice(results))
    assert verification.executed_by.endswith(f", 1 thread, on {platform.system()} {platform.machine()}")
    assert [output.name for output in verification.golden] == ["y", "j"]
    with ResultsDevice(results).open(opened) as there, LocalDevice().open(opened) as here:
        for feeds, _ in opened.golden():
            for name, array in here.run(feeds).items():
                np.testing.assert_array_equal(there.run(feeds)[name], array)


@pytest.mark.parametrize("position", [0, 1])
def test_it_fails_where_an_output_is_another(position: int, bundle: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(bundle, tmp_path / "copy")
    golden = copy / "golden" / "0" / "outputs" / f"{position}.npy"
    before = hashlib.sha256(golden.read_bytes()).hexdigest()
    np.save(golden, np.load(golden) + 1)
    manifest = (copy / "manifest.json").read_text()
    assert before in manifest
    (copy / "manifest.json").write_text(manifest.replace(before, hashlib.sha256(golden.read_bytes()).hexdigest()))
    done = check(copy)
    assert done.returncode == 1
    assert f"FAIL {'yj'[position]}" in done.stdout
    assert "NOT PASSED" in done.stdout


def damaged(bundle: Path, folder: Path, name: str, data: bytes | None) -> str:
    """What the check says of a bundle with another file, or without it; the exit code is 1."""
    copy = shutil.copytree(bundle, folder / "copy")
    if data is None:
        (copy / name).unlink()
    else:
        (copy / name).write_bytes(data)
    done = check(copy)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_it_names_what_is_damaged(bundle: Path, tmp_path: Path) -> None:
    """A runtime told of a damaged model in a traceback, and of another model nothing at all."""
    name = "model.onnx" if (bundle / "model.onnx").exists() else "model.xml"
    whole = (bundle / name).read_bytes()
    good, bad = (hashlib.sha256(data).hexdigest() for data in (whole, whole[:-1]))
    end = "copy it again, or package the model again\n"
    assert damaged(bundle, tmp_path / "cut", name, whole[:-1]) == (
        f"the bundle is damaged\n{name}: is not the file that was packaged: SHA-256 {bad}, not {good}\n{end}"
    )
    assert damaged(bundle, tmp_path / "gone", "golden/1/inputs/0.npy", None) == (
        f"the bundle is damaged\ngolden/1/inputs/0.npy: is not there\n{end}"
    )
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 7\n"
    assert damaged(bundle, tmp_path / "lfs", name, pointer) == (
        f"the bundle is damaged\n{name}: is a Git LFS pointer, not the file itself; `git lfs pull` fetches that\n{end}"
    )


@pytest.mark.parametrize("bundle", ["onnxruntime"], indirect=True)
def test_files_that_it_does_not_read_may_be_left_out(bundle: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(bundle, tmp_path / "copy")
    (copy / "model.ort").unlink()  # the model once more, for other builds of the runtime
    (copy / "report.md").write_bytes((copy / "report.md").read_bytes().replace(b"\n", b"\r\n"))
    assert check(copy).returncode == 0


@pytest.mark.parametrize("bundle", ["intel-cpu"], indirect=True)
def test_openvinos_says_how_it_computes(bundle: Path) -> None:
    assert ", CPU, f32, 1 thread\n" in check(bundle).stderr
    assert ", CPU, f32, 2 threads\n" in check(bundle, "--threads", "2").stderr


@pytest.mark.parametrize("bundle", ["intel-cpu"], indirect=True)
def test_openvinos_computes_as_the_device_does_where_that_was_asked_for(bundle: Path) -> None:
    own = openvino.Core().get_property("CPU", "INFERENCE_PRECISION_HINT").to_string()
    assert f", CPU, {own}, " in check(bundle, "--device-precision").stderr


@pytest.mark.parametrize("bundle", ["intel-gpu"], indirect=True)
def test_openvinos_runs_on_the_processor_where_that_was_asked_for(bundle: Path) -> None:
    """No computer that runs the tests has a GPU of Intel's for certain."""
    done = check(bundle, "--cpu")
    assert done.returncode == 0, done.stderr
    assert ", CPU, f32, 1 thread\n" in done.stderr


@pytest.mark.parametrize("bundle", ["intel-cpu"], indirect=True)
def test_openvinos_says_that_a_processor_is_not_there(bundle: Path) -> None:
    available = openvino.Core().available_devices
    absent = next(kind for kind in ("NPU", "GPU") if not any(found.startswith(kind) for found in available))
    done = check(bundle, "--device", absent)
    assert done.returncode == 1
    expected = f"this machine has no {absent} that OpenVINO can use: it finds {', '.join(available)}\n"
    assert (done.stdout, done.stderr) == ("", expected)


def test_it_times_runs_where_that_was_asked_for(bundle: Path) -> None:
    done = check(bundle, "--runs", "5", "--json")
    assert len(json.loads(done.stdout)["milliseconds"]) == 5
    assert re.search(r"P50 \S+ ms, P90 \S+ ms, P99 \S+ ms\n", check(bundle, "--runs", "5").stdout)


@pytest.mark.parametrize("bundle", ["onnxruntime"], indirect=True)
def test_onnx_runtimes_does_not_run_on_the_cpu_where_another_provider_was_asked_for(bundle: Path) -> None:
    done = check(bundle, "--provider", "CUDAExecutionProvider")
    assert done.returncode == 1
    assert "this onnxruntime has no CUDAExecutionProvider; it would run on" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("bundle", ["onnxruntime"], indirect=True)
def test_a_provider_that_takes_no_node_is_no_success(bundle: Path) -> None:
    """ONNX Runtime's wheel has Azure's provider, which takes no standard operator: the CPU would have all nodes."""
    done = check(bundle, "--provider", "AzureExecutionProvider")
    assert done.returncode == 1
    assert done.stderr == "AzureExecutionProvider took none of the 2 nodes; all of them are on CPU\n"
    assert done.stdout == ""


@pytest.mark.parametrize("bundle", ["onnxruntime"], indirect=True)
def test_on_the_processor_it_runs_whatever_the_provider(bundle: Path) -> None:
    done = check(bundle, "--provider", "NoSuchExecutionProvider", "--cpu")
    assert done.returncode == 0, done.stderr
    assert ", CPU, model.onnx, 1 thread\n" in done.stderr


def test_it_says_which_package_is_missing(bundle: Path, tmp_path: Path) -> None:
    """A Python of the system's own has no NumPy; a traceback told it."""
    copy = shutil.copytree(bundle, tmp_path / "copy")
    blocked = "import sys; sys.modules['numpy'] = None; import runpy; runpy.run_path('check.py', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", blocked], cwd=copy, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("ModuleNotFoundError: ")
    assert f"`{sys.executable} -m pip install numpy " in done.stderr
