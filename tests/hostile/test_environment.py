"""Commands in an environment that fails: streams, folders and names that the system refuses."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from pathlib import Path

import honest
import pytest

from edgekit.cli import main

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/dev/full and capabilities are Linux's")
EDGEKIT = '"$0" -m edgekit '
LONG = "n" * 5000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    honest.write_model("net", tmp_path / "m.onnx", honest.MODELS["net"]())
    return tmp_path


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize("json_wanted", ["", " --json"])
def test_a_full_stdout_is_an_error(folder: Path, json_wanted: str) -> None:
    finished = shell(f"{EDGEKIT} inspect m.onnx{json_wanted} >/dev/full", folder)
    assert finished.returncode == 2
    assert finished.stderr.endswith("error: standard output: cannot be written: no space left on device\n")


def test_a_closed_stdout_is_an_error(folder: Path) -> None:
    finished = shell(f"{EDGEKIT} inspect m.onnx --json >&-", folder)
    assert finished.returncode == 2
    assert finished.stderr.endswith("error: standard output: cannot be written: bad file descriptor\n")


def test_without_stderr_the_result_comes_all_the_same(folder: Path) -> None:
    finished = shell(f"{EDGEKIT} inspect m.onnx --json 2>&-", folder)
    assert finished.returncode == 0
    assert json.loads(finished.stdout)["macs"] == 11252  # 3·6·9·64 + 6·4·9·4 + 4·5


def test_without_any_stream_the_exit_code_tells(folder: Path) -> None:
    assert shell(f"{EDGEKIT} inspect m.onnx <&- >&- 2>&-", folder).returncode == 2
    assert shell(f"{EDGEKIT} inspect none.onnx 2>/dev/full", folder).returncode == 2


def test_a_reader_that_goes_ends_the_command_as_shells_expect(folder: Path) -> None:
    finished = shell(f"{{ {EDGEKIT} inspect m.onnx --json --quiet; echo $? >code; }} | true; cat code", folder)
    assert (finished.stdout, finished.stderr) == ("141\n", "")  # 128 + SIGPIPE


def test_a_working_directory_that_is_gone_is_an_error(folder: Path) -> None:
    gone = f"mkdir gone && cd gone && rmdir ../gone && {EDGEKIT}"
    finished = shell(f"{gone} package ../m.onnx --target onnxruntime -o x --json", folder)
    assert finished.returncode == 2
    assert json.loads(finished.stdout)["error"]["message"] == "the system refuses it: no such file or directory"
    assert sorted(path.name for path in folder.iterdir()) == ["m.onnx"]


def drop_capabilities() -> None:
    """Makes file permissions apply to root, too."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("inspect", "locked/m.onnx"), "locked/m.onnx: there is no such file"),
        (("quantize", "m.onnx", "--data", "locked", "-o", "o.onnx"), "locked: cannot be read: permission denied"),
        (("verify", "locked"), "locked: cannot be read: permission denied"),
        (("package", "m.onnx", "--target", "onnxruntime", "-o", "locked/b"), "locked/b: the system refuses it"),
    ],
)
def test_a_folder_that_cannot_be_read_is_named(folder: Path, arguments: tuple[str, ...], error: str) -> None:
    (folder / "locked").mkdir()
    shutil.copy(folder / "m.onnx", folder / "locked")
    (folder / "locked").chmod(0)
    try:
        finished = subprocess.run(
            [sys.executable, "-m", "edgekit", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=drop_capabilities,
        )
    finally:
        (folder / "locked").chmod(0o700)
    assert finished.returncode == 2
    assert error in finished.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", LONG),
        ("inspect", "a/" * 2500),
        ("fix", "m.onnx", "--shape", f"{LONG}=1", "-o", LONG),
        ("package", "m.onnx", "--target", LONG),
        ("package", "m.onnx", "--target", "onnxruntime", "--labels", LONG, "-o", "b"),
        ("package", "m.onnx", "--target", "onnxruntime", "-o", LONG),
        ("quantize", "m.onnx", "--data", LONG, "-o", "o.onnx"),
        ("verify", LONG),
        ("report", LONG, "-o", "x.html"),
        ("gate", "--config", LONG),
        ("sign", LONG, "--key", LONG),
    ],
)
def test_names_of_five_thousand_characters_are_errors(
    folder: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(arguments) == 2
    assert "error: " in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["m.onnx"]


def test_a_bundle_in_the_working_directory_is_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    for _ in range(2):  # into an empty folder, and over a bundle
        assert main(["package", "../m.onnx", "--target", "onnxruntime", "-o", ".", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["name"] == "here"
        assert main(["verify", ".", "--json"]) == 0
        capsys.readouterr()
    assert sorted(path.name for path in folder.iterdir()) == ["here", "m.onnx"]
