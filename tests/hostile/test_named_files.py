"""An option that names a FIFO, a device, a huge file or a cyclic link is an error at once.

No command waits for such a file, or fills the memory with it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import honest
import pytest

from edgekit import api

if TYPE_CHECKING:
    from ..conftest import RunEdgeKit

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="FIFOs and device files are Unix's")
SECONDS = 30
HUGE = 40 << 30
"""Size in bytes of a sparse file: more than any option reads."""

COMMANDS: dict[str, str] = {
    "model": "inspect FILE",
    "fixed": "fix FILE --dim N=1 -o out.onnx",
    "labels": "package m.onnx --target onnxruntime --labels FILE -o out",
    "config": "build --config FILE",
    "config of data": "package m.onnx --target onnxruntime --data data --config FILE -o out",
    "config of budgets": "gate b --config FILE",
    "baseline": "gate b --baseline FILE",
    "updated baseline": "gate b --baseline FILE --update",
    "results": "verify b --results FILE",
    "signers": "verify b --signers FILE",
    "key": "sign b --key FILE",
    "original": "verify b --data data --model FILE",
    "like": "package m.onnx --target onnxruntime --data data --like FILE -o out",
    "bundle": "verify FILE",
    "against": "bench b --against FILE",
    "shown beside": "report b --against FILE -o out.html",
    "compared with": "gate b --against FILE",
    "sample": "package m.onnx --target onnxruntime --data samples -o out",
    "sample that is looked at": "init m.onnx --data samples",
    "sound that is looked at": "init sound.onnx --data sounds",
}


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE)


def to_itself(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.fixture(scope="module")
def honest_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two models, samples, and a bundle."""
    folder = tmp_path_factory.mktemp("honest")
    model = honest.MODELS["net"]()
    honest.write_model("net", folder / "m.onnx", model)
    honest.write_model("sound", folder / "sound.onnx", honest.MODELS["sound"]())
    honest.write_samples(model, folder / "data", 3)
    api.package(folder / "m.onnx", "onnxruntime", folder / "b")
    return folder


@pytest.fixture
def here(honest_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the honest folder, which is the current one."""
    folder = tmp_path / "here"
    shutil.copytree(honest_folder, folder)
    monkeypatch.chdir(folder)
    return folder


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Raises TimeoutError if the block takes longer than ``seconds``, even if it waits for a FIFO."""

    def end(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "make",
    [fifo, huge, *(pytest.param(make, marks=pytest.mark.slow) for make in (endless, to_itself))],
    ids=lambda make: make.__name__,
)
@pytest.mark.parametrize("what", COMMANDS)
def test_a_file_that_is_none_is_refused_at_once(
    what: str,
    make: Callable[[Path], None],
    here: Path,
    edgekit: RunEdgeKit,
) -> None:
    name = {
        "sample": "samples/0.npz",
        "sample that is looked at": "samples/0.npz",
        "sound that is looked at": "sounds/0.wav",
    }.get(what, "file")
    (here / name).parent.mkdir(exist_ok=True)
    make(here / name)
    before = sorted(here.iterdir())
    with ended_after(SECONDS):
        finished = edgekit(*COMMANDS[what].replace("FILE", name).split())
    assert finished.code in (1, 2), finished.err
    assert "error: " in finished.err
    assert "Traceback" not in finished.err
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize("make", [fifo, lambda path: path.symlink_to("nowhere")], ids=["fifo", "link to nowhere"])
@pytest.mark.parametrize("name", ["labels.csv", "labels.txt", "edgekit.toml"])
def test_labels_and_settings_that_lead_to_nothing_are_not_ignored(
    name: str,
    make: Callable[[Path], None],
    here: Path,
    edgekit: RunEdgeKit,
) -> None:
    make(here / "data" / name)
    with ended_after(SECONDS):
        finished = edgekit("package", "m.onnx", "--target", "onnxruntime", "--data", "data", "-o", "out")
    assert finished.code == 2, finished.err
    assert f"{name}: " in finished.err.partition("error: ")[2].partition("\n")[0]
    assert not (here / "out").exists()
