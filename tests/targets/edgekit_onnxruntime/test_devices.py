from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest

from edgekit.errors import InputError
from edgekit.model import Model
from edgekit.target import BuildOptions
from edgekit_onnxruntime.devices import FOLDER, broken_devices, devices, profiles, read_device
from edgekit_onnxruntime.profiles import PROFILES
from edgekit_onnxruntime.target import ONNXRuntimeTarget

BOARD: dict[str, Any] = {
    "profile": {"name": "board", "description": "a board", "aliases": ["plank"]},
    "provider": "BoardExecutionProvider",
    "unit": "TPU",
    "fallback": "CPU",
    "source": "https://example.org/operators",
    "version": "board 3",
    "date": "2026-01-02",
    "operators": {"Relu": {}, "com.example.Gelu": {"opsets": [[1, None]], "ranks": [2]}},
}


def write(folder: Path, data: dict[str, Any]) -> Path:
    path = folder / "board.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_a_file_that_is_added_is_a_device_more(tmp_path: Path) -> None:
    assert devices(tmp_path) == {}
    devices.cache_clear()
    write(tmp_path, BOARD)
    (device,) = devices(tmp_path).values()
    assert broken_devices(tmp_path) == {}
    assert (device.profile.name, device.profile.aliases) == ("board", ("plank",))
    assert device.profile.accelerator == device.unit == "TPU"
    assert device.table is not None
    assert str(device.table) == "https://example.org/operators, board 3, 2026-01-02"
    gelu = device.table.find("com.example.gelu")
    assert gelu is not None
    assert (gelu.opsets, gelu.ranks) == (((1, None),), (2,))
    assert device.table.find("Gelu") is None


def test_every_device_file_is_a_profile() -> None:
    names = {json.loads(file.read_text(encoding="utf-8"))["profile"]["name"] for file in FOLDER.glob("*.json")}
    assert len(names) >= 7
    assert names <= {profile.name for profile in PROFILES}
    assert all(name == file.stem for name, file in zip(sorted(names), sorted(FOLDER.glob("*.json")), strict=True))


@pytest.mark.parametrize("name", sorted(name for name, device in devices().items() if device.table is not None))
def test_every_table_tells_its_source_version_and_date(name: str) -> None:
    table = devices()[name].table
    assert table is not None
    assert table.source
    assert table.version
    assert len(table.date.split("-")) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operators": None}, "has to have one of"),
        ({"simulator": {}}, "has to have one of"),
        ({"date": None}, "lacks 'date'"),
        ({"unit": None}, "lacks 'unit'"),
        ({"operators": ["Relu"]}, "a value has another form"),
        ({"profile": "board"}, "profile: 'board' is not an object"),
        ({"operators": {"Relu": 6}}, "operators.Relu: 6 is not an object"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    data = {key: value for key, value in {**BOARD, **change}.items() if value is not None}
    with pytest.raises(ValueError, match=message):
        read_device(write(tmp_path, data))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"profile": {**BOARD["profile"], "alias": "plank"}},
            "board.json: profile: alias is not known; expected aliases, description, name",
        ),
        (
            {"operators": {"Relu": {"rank": [4]}}},
            "board.json: operators.Relu: rank is not known; expected absent, attributes, constant, kernels, note",
        ),
        (
            {"operators": {"Relu": {"kernels": [{"versions": [1, 6], "type": {}}]}}},
            "board.json: operators.Relu.kernels: type is not known; expected types, versions",
        ),
        (
            {"sesion": {}, "here": True},
            "board.json: the file: here, sesion are not known; expected architecture, date, fallback, fixed_shapes",
        ),
    ],
)
def test_a_key_that_is_misspelt_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="not known") as caught:
        read_device(write(tmp_path, {**BOARD, **change}))
    assert str(caught.value).startswith(message)


def test_a_file_with_an_error_does_not_take_the_others_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, onnx_model: Callable[..., onnx.ModelProto]
) -> None:
    (tmp_path / "acme-npu.json").write_text("{", encoding="utf-8")
    write(tmp_path, BOARD)
    acme, board = sorted(profiles(tmp_path), key=lambda profile: profile.name)
    assert board.name == "board"
    text = "acme-npu.json: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    assert (acme.name, acme.description) == ("acme-npu", f"cannot be used: {text}")

    monkeypatch.setattr("edgekit_onnxruntime.devices.broken_devices", lambda: broken_devices(tmp_path))
    target = ONNXRuntimeTarget()
    assert target.on_this_machine(acme) == acme  # the list of targets has it
    model = Model(ir.from_proto(onnx_model("f (float[2] x) => (float[2] y) { y = Relu(x) }")))
    for use in (
        lambda: target.require_installed(acme),
        lambda: target.check(model, acme),
        lambda: target.build(model, acme, tmp_path, BuildOptions()),
    ):
        with pytest.raises(InputError) as caught:
            use()
        assert str(caught.value) == (
            f"target acme-npu: its device file cannot be used\nfound: {text}\n"
            "hint: edgekit_onnxruntime/devices.py tells the form of a device file"
        )


def test_a_device_without_options_has_its_provider_in_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, onnx_model: Callable[..., onnx.ModelProto]
) -> None:
    """ONNX Runtime would go on with the CPU, and the check would pass."""
    device = read_device(write(tmp_path, BOARD))
    assert device.session is None
    monkeypatch.setattr("edgekit_onnxruntime.devices.devices", lambda: {"board": device})
    target = ONNXRuntimeTarget()
    proto = onnx_model("f (float[2] x) => (float[2] y) { y = Relu(x) }")
    (tmp_path / "built").mkdir()
    artifact = target.build(Model(ir.from_proto(proto)), device.profile, tmp_path / "built", BuildOptions())
    for name, text in target.device_check(device.profile, artifact).files.items():
        (tmp_path / "built" / name).write_text(text, encoding="utf-8")

    written = json.loads((tmp_path / "built" / "session.json").read_text(encoding="utf-8"))
    assert written == {"provider": "BoardExecutionProvider", "provider_options": {}, "session_options": {}}
    code = "from open_session import open_session; open_session('.')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "built", capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stderr.splitlines()[-1].startswith(
        "open_session.ProviderError: this onnxruntime has no BoardExecutionProvider; it would run on "
    )


def test_the_nnapi_table_is_that_of_onnx_runtimes_wheel() -> None:
    """Read once more, by the code that ONNX Runtime ships for it."""
    from importlib.resources import as_file, files

    from onnxruntime.tools.mobile_helpers import usability_checker

    with as_file(files("onnxruntime.tools.mobile_helpers") / "nnapi_supported_ops.md") as path:
        shipped = usability_checker._SupportedOpsChecker(path)._ops
    table = devices()["android-nnapi"].table
    assert table is not None
    expected = {name.removeprefix("ai.onnx:").replace(":", ".").casefold() for name in shipped}
    assert set(table.operators) == expected
