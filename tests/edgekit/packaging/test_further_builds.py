"""One bundle with builds for several devices."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from edgekit.bundle import Bundle, check_integrity, file_record, read_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.device_check.golden_check import results
from edgekit.devices.results import ResultsDevice
from edgekit.errors import EdgeKitError, InputError, RequirementError
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress
from edgekit.reporting.markdown import markdown_report
from edgekit.reporting.summary import summary_record

GRAPH = "g (float[1, 4] x) => (float[1, 4] y, int64[1] c) { y = Sigmoid(x) c = ArgMax <axis=1, keepdims=0> (y) }"


@pytest.fixture
def model(onnx_model: Callable[..., onnx.ModelProto], tmp_path: Path) -> Path:
    onnx.save(onnx_model(GRAPH), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.fixture
def bundle(model: Path, tmp_path: Path) -> Bundle:
    request = PackageRequest(model, "ios18", tmp_path / "bundle", also=("intel-cpu", "onnxruntime"))
    return package(request, Progress())


def test_each_device_has_its_build(bundle: Bundle) -> None:
    check_integrity(bundle)
    assert [build.profile_name for build in bundle.builds] == ["ios18", "intel-cpu", "onnxruntime"]
    assert [build.main.relative_to(bundle.path).as_posix() for build in bundle.builds] == [
        "model.mlpackage",
        "intel-cpu/model.xml",
        "onnxruntime/model.onnx",
    ]
    for build in bundle.builds:
        files = [file for path in build.manifest["model"]["files"] for file in _files(bundle.path / path)]
        loaded = [file for file in files if file.suffix != ".ort"]  # the same model once more
        assert build.manifest["size"]["bytes"] == sum(file.stat().st_size for file in loaded)
    further = bundle.manifest["also"][1]
    assert further["accuracy"]["executed_by"].startswith("ONNX Runtime")
    assert [stage["name"] for stage in further["stages"]] == ["pre-check", "build", "verify"]


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def test_every_build_is_verified(bundle: Bundle) -> None:
    found = verify_bundle(bundle)
    assert list(found.further) == ["intel-cpu", "onnxruntime"]
    assert "OpenVINO" in found.further["intel-cpu"].executed_by
    assert found.as_record()["also"]["onnxruntime"]["verified"]


def test_a_build_that_computes_something_else_is_found(
    bundle: Bundle, onnx_model: Callable[..., onnx.ModelProto]
) -> None:
    model, listing = bundle.path / "onnxruntime/model.onnx", bundle.path / "manifest.json"
    onnx.save(onnx_model(GRAPH.replace("Sigmoid", "Tanh")), model)
    manifest = json.loads(listing.read_text())
    changed = file_record(model, bundle.path)
    manifest["files"] = [changed if file["path"] == changed["path"] else file for file in manifest["files"]]
    listing.write_text(json.dumps(manifest))
    with pytest.raises(RequirementError, match="does not compute its golden outputs, executed by ONNX Runtime"):
        verify_bundle(read_bundle(bundle.path))


def test_the_check_of_a_further_build_runs_from_its_folder(bundle: Bundle) -> None:
    (check,) = {
        build["check"]["command"] for build in bundle.manifest["also"] if build["target"]["profile"] == "intel-cpu"
    }
    assert check == "cd intel-cpu && python check.py"
    program = [sys.executable, "intel-cpu/check.py", "--json"]
    done = subprocess.run(program, cwd=bundle.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["passed"]
    check_integrity(bundle)


def test_results_tell_which_build_was_run(bundle: Bundle, tmp_path: Path) -> None:
    golden = [list(outputs.values()) for _, outputs in bundle.golden()]
    turns = iter(golden)
    record = results(lambda _inputs: next(turns), "device", 1.0, bundle.path, "onnxruntime")
    assert record["profile"] == "onnxruntime"
    file = tmp_path / "results.json"
    file.write_text(json.dumps(record))
    assert ResultsDevice(file).builds(bundle)[0].profile_name == "onnxruntime"
    assert verify_bundle(bundle, device=ResultsDevice(file)).executed_by.startswith("device, on ")
    file.write_text(json.dumps({**record, "profile": "web"}))
    with pytest.raises(InputError, match="these are the results of another bundle") as caught:
        verify_bundle(bundle, device=ResultsDevice(file))
    assert caught.value.expected == "ios18, intel-cpu, onnxruntime"
    assert caught.value.found == "web"


def test_summary_and_report_tell_of_all_builds(bundle: Bundle) -> None:
    also = summary_record(bundle.manifest)["also"]
    assert [build["target"] for build in also] == ["intel-cpu", "onnxruntime"]
    text = markdown_report(bundle.manifest)
    assert "onnxruntime: onnxruntime/model.onnx, float32" in text
    assert "    cd onnxruntime && python check.py" in text


def test_a_manifest_whose_builds_have_other_outputs_is_refused(bundle: Bundle) -> None:
    manifest = json.loads((bundle.path / "manifest.json").read_text())
    manifest["also"][0]["outputs"].reverse()
    (bundle.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError) as caught:
        read_bundle(bundle.path)
    assert caught.value.found == "also: the outputs for intel-cpu are not the model's"


@pytest.mark.parametrize(
    ("also", "options", "subject", "message"),
    [
        (("ios18",), {}, "--also ios18", "is there already"),
        (("coreml",), {}, "--also coreml", "is there already"),
        (("toaster",), {}, "--also", "there is no target 'toaster'"),
        (
            ("intel-cpu",),
            {"image": "yes", "toast": "1"},
            "--option toast",
            "target coreml and openvino have no such option",
        ),
    ],
)
def test_a_request_that_cannot_be_met(
    model: Path, tmp_path: Path, also: tuple[str, ...], options: dict[str, str], subject: str, message: str
) -> None:
    request = PackageRequest(model, "ios18", tmp_path / "bundle", also=also, target_options=options)
    with pytest.raises(InputError, match=message) as caught:
        package(request, Progress())
    assert str(caught.value.subject) == subject
    assert not (tmp_path / "bundle").exists()


def test_no_bundle_where_one_of_the_devices_cannot_have_it(
    onnx_model: Callable[..., onnx.ModelProto], tmp_path: Path
) -> None:
    """Texts as inputs are ONNX Runtime's alone."""
    onnx.save(onnx_model("g (string[2] x) => (string[2] y) { y = Identity(x) }"), tmp_path / "texts.onnx")
    request = PackageRequest(tmp_path / "texts.onnx", "onnxruntime", tmp_path / "bundle", also=("ios18",))
    with pytest.raises(EdgeKitError):
        package(request, Progress())
    assert not (tmp_path / "bundle").exists()


def test_a_bundle_with_further_builds_is_replaced_as_a_whole(bundle: Bundle, model: Path) -> None:
    package(PackageRequest(model, "ios18", bundle.path), Progress())
    assert not (bundle.path / "intel-cpu").exists()
    assert read_bundle(bundle.path).builds == (read_bundle(bundle.path),)


def test_a_project_declares_them(model: Path, tmp_path: Path) -> None:
    from edgekit.config import read_config
    from edgekit.packaging.declared import request_for

    file = tmp_path / "edgekit.toml"
    file.write_text('[[bundle]]\nname = "m"\nmodel = "model.onnx"\ntarget = "ios18"\nalso = ["intel-cpu"]\n')
    request = request_for(read_config(file).bundles[0])
    assert request.also == ("intel-cpu",)
    shutil.copy(model, tmp_path / "same.onnx")
    alone = PackageRequest(model, "ios18", tmp_path / "m", name="m")
    assert request.fingerprint() != alone.fingerprint()
