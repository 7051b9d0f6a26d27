"""Kills commands at random moments and checks what they leave behind: ``python kills.py --count 500 --seed 1``.

A case is a command, a signal (KILL, TERM or INT) for the started process or for its whole group, and a moment between
the command's start and its end. Afterward the output is absent or complete, an output that existed before still exists,
no process is left running, and after the next command nothing unfinished is left next to the output or in ``TMPDIR``.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import honest  # noqa: E402 - a module in this folder
from fuzz import _session_members as session_members  # noqa: E402

COMMANDS = {
    "package": ("package", "m.onnx", "--target", "onnxruntime", "-o", "out"),
    "build": ("build", "--jobs", "2"),
    "quantize": ("quantize", "m.onnx", "--scheme", "int8", "--data", "data", "-o", "out.onnx"),
}
OUTPUTS = {"package": ("out",), "build": ("one", "two"), "quantize": ("out.onnx",)}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
SECONDS_TO_END = 30.0
"""Time that processes may take to end after the signal, in seconds."""
PROJECT = """\
[[bundle]]
name = "one"
model = "m.onnx"
target = "onnxruntime"
output = "one"

[[bundle]]
name = "two"
model = "m.onnx"
target = "onnxruntime"
precision = "float32"
output = "two"
"""


@dataclass(frozen=True)
class Kill:
    """A case: what was done, and the faults found afterward."""

    command: str
    signal: str
    group: bool
    old: bool
    share: float
    """The moment of the signal, as a share of the command's duration."""
    status: int
    faults: tuple[str, ...]

    def __str__(self) -> str:
        whom = "the group" if self.group else "the process"
        output = "over an older output" if self.old else "without an output"
        return f"{self.command} {output}, {self.signal} to {whom} at {self.share:.0%}: exit {self.status}"


class Killer:
    """Runs and kills commands in a folder.

    Args:
        folder: An empty folder.
        seed: The seed that all cases are drawn from.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._seed = seed
        self._honest = folder / "honest"
        self._honest.mkdir()
        self._folder = folder / "work"
        self._temporary = folder / "tmp"
        self._temporary.mkdir()
        model = honest.MODELS["net"]()
        honest.write_model("net", self._honest / "m.onnx", model)
        honest.write_samples(model, self._honest / "data")
        (self._honest / "edgekit.toml").write_text(PROJECT)
        self._seconds: dict[str, float] = {}
        self._old: dict[str, Path] = {}
        for command in COMMANDS:
            work = folder / f"old-{command}"
            shutil.copytree(self._honest, work)
            start = time.monotonic()
            process = self._started(COMMANDS[command], work)
            if process.wait(300) != 0:
                raise SystemExit(f"an honest command failed: {(work / 'said').read_text()}")
            self._seconds[command] = time.monotonic() - start
            self._old[command] = work

    def kill(self, number: int) -> Kill:
        """Runs the case with this number."""
        rng = random.Random(f"{self._seed}/{number}")
        command, sent = rng.choice(sorted(COMMANDS)), rng.choice(SIGNALS)
        group, old, share = rng.random() < 0.5, rng.random() < 0.5, rng.uniform(0.0, 1.05)
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._old[command] if old else self._honest, self._folder)
        if old and command == "build":  # else there is nothing to build
            for name in OUTPUTS[command]:
                self._age(self._folder / name)
        process = self._started(COMMANDS[command], self._folder)
        time.sleep(share * self._seconds[command])
        with suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(process.pid, sent)
        try:
            status = process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            status = 999
        return Kill(command, sent.name, group, old, share, status, tuple(self._faults(command, sent, old, process)))

    @staticmethod
    def _age(bundle: Path) -> None:
        """Changes the fingerprint in a bundle's manifest, so that the bundle is built again."""
        manifest = bundle / "manifest.json"
        text = manifest.read_text(encoding="utf-8")
        start = text.index('"fingerprint": "') + len('"fingerprint": "')
        manifest.write_text(text[:start] + "0" * 64 + text[start + 64 :], encoding="utf-8")

    def _started(self, arguments: tuple[str, ...], folder: Path) -> subprocess.Popen[bytes]:
        with (folder / "said").open("wb") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "edgekit", *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                env={**os.environ, "TMPDIR": str(self._temporary)},
            )

    def _faults(self, command: str, sent: signal.Signals, old: bool, process: subprocess.Popen[bytes]) -> list[str]:
        faults = []
        end = time.monotonic() + SECONDS_TO_END
        while (strays := session_members(process.pid)) and time.monotonic() < end:
            time.sleep(0.05)
        if strays:
            faults.append(f"{len(strays)} processes run on")
            for stray in strays:
                os.kill(stray, signal.SIGKILL)
        allowed = (0, -signal.SIGKILL) if sent == signal.SIGKILL else (0, 1, -sent)
        if process.returncode not in allowed:
            faults.append(f"exit {process.returncode}")
        said = (self._folder / "said").read_text(errors="replace")
        if "Traceback (most recent call last)" in said and not _interrupted_before_edgekit(said):
            faults.append("traceback")
        for name in OUTPUTS[command]:
            flaw = _flaw(self._folder / name)
            if flaw is not None and not (flaw == "absent" and not old):
                faults.append(f"{name}: {flaw}")
        following = self._started(("extract", "m.onnx", "--outputs", "g", "-o", "next.onnx"), self._folder)
        if following.wait(300) != 0:
            faults.append(f"the next command ends with {following.returncode}")
        faults += [f"left in TMPDIR: {path.name}" for path in self._temporary.iterdir()]
        known = {"m.onnx", "data", "edgekit.toml", "said", "next.onnx", *OUTPUTS[command]}
        faults += [f"left: {path.name}" for path in self._folder.iterdir() if path.name not in known]
        for path in self._temporary.iterdir():
            shutil.rmtree(path, ignore_errors=True)
        return faults


def _flaw(output: Path) -> str | None:
    """Returns what is wrong with an output, or None if it is complete."""
    import onnx

    from edgekit.bundle import check_integrity, read_bundle
    from edgekit.errors import EdgeKitError

    if not output.exists():
        return "absent"
    try:
        if output.suffix == ".onnx":
            onnx.checker.check_model(str(output), full_check=True)
        else:
            check_integrity(read_bundle(output))
    except (EdgeKitError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return f"incomplete: {error}"
    return None


def _interrupted_before_edgekit(said: str) -> bool:
    """Whether Ctrl-C interrupted Python's start, which takes 10 ms before the first line of EdgeKit runs."""
    return said.rstrip().endswith("KeyboardInterrupt") and f"{os.sep}edgekit{os.sep}" not in said


def kills(count: int, seed: int, *, first: int = 0) -> list[Kill]:
    """Runs ``count`` cases from number ``first`` on, one after another."""
    with tempfile.TemporaryDirectory(prefix="edgekit-kills-") as folder:
        killer = Killer(Path(folder), seed)
        done = []
        for number in range(first, first + count):
            one = killer.kill(number)
            if one.faults:
                print(f"{number}: {one}: {'; '.join(one.faults)}", flush=True)  # noqa: T201
            done.append(one)
    return done


def table(done: list[Kill]) -> str:
    """The table of exit codes by command and signal."""
    counts = Counter((one.command, one.signal, one.status) for one in done)
    lines = [
        f"{command:9} {name:8} exit {status:4}: {count}" for (command, name, status), count in sorted(counts.items())
    ]
    return "\n".join([*lines, f"{len(done)} kills, {sum(bool(one.faults) for one in done)} with faults"])


def main() -> int:
    """Runs the cases that the command line asks for; returns 1 if a case failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    done = kills(asked.count, asked.seed, first=asked.first)
    print(table(done))  # noqa: T201
    return int(any(one.faults for one in done))


if __name__ == "__main__":
    sys.exit(main())
