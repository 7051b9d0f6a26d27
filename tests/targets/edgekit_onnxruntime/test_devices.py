from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgekit_onnxruntime.devices import FOLDER, devices, read_device
from edgekit_onnxruntime.profiles import PROFILES

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
    devices.cache_clear()
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
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    data = {key: value for key, value in {**BOARD, **change}.items() if value is not None}
    with pytest.raises(ValueError, match=message):
        read_device(write(tmp_path, data))


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
