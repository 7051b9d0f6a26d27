"""Runs EdgeKit on inputs that somebody broke, or made to break it: ``python fuzz.py --count 300 --seed 1``.

A process that has imported EdgeKit's modules forks for each case, so that no case spends time on imports; one case in
:data:`REAL_SHARE` starts ``python -m edgekit`` instead. :mod:`judge` judges what a case does. Results are written to
``results-SEED.jsonl``, from which a stopped run resumes; the folder of each failed case is kept.
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import json
import logging
import os
import pkgutil
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import honest  # noqa: E402 - a module in this folder
from cases import BUNDLES, Case, draw  # noqa: E402
from judge import MEMORY_MARGIN, TIME_LIMIT, Ending, compare, judge  # noqa: E402

REAL_SHARE = 50
"""One case in REAL_SHARE runs ``python -m edgekit`` in a new process."""
_MEMORY_TO_KILL = MEMORY_MARGIN + (1 << 30)
"""Bytes above an honest model's memory at which a case is killed, to protect the machine."""
_SECONDS_BETWEEN_LOOKS = 0.02
_PAGE = os.sysconf("SC_PAGE_SIZE")
_FAULTS = ("exit 3", "signal", "hang", "memory", "traceback", "left", "control", "json", "wrong", "other")


@dataclass
class _Running:
    number: int
    case: Case
    folder: Path
    temporary: Path
    telltale: Path
    process: int
    start: float
    memory: int = 0
    looked: float = 0.0
    killed: str = ""


class Fuzzer:
    """Runs cases, and keeps their results.

    Args:
        folder: The folder for ``results-SEED.jsonl`` and the folders of failed cases.
        seed: The seed that all cases are drawn from.
        jobs: Number of cases that run at a time.
    """

    def __init__(self, folder: Path, seed: int, jobs: int) -> None:
        self.folder = folder.resolve()
        self.seed = seed
        self._jobs = jobs
        self._work = Path(tempfile.mkdtemp(prefix="edgekit-fuzz-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self._results = self.folder / f"results-{seed}.jsonl"
        self._honest_memory: dict[str, int] = {}
        self._bundles = self._work / "bundles"

    def run(self, count: int) -> list[dict[str, Any]]:
        """Runs the cases 0 to ``count`` - 1 that earlier runs have not done; returns the results of all of them."""
        done = self._earlier()
        waiting = [number for number in range(count) if number not in done]
        if waiting:
            _warm_up()
            try:
                self._prepare()
                self._run_all(waiting, done)
            finally:
                shutil.rmtree(self._work, ignore_errors=True)
        return [done[number] for number in sorted(done) if number < count]

    def _earlier(self) -> dict[int, dict[str, Any]]:
        if not self._results.is_file():
            return {}
        lines = self._results.read_text(encoding="utf-8").splitlines()
        return {record["number"]: record for record in map(json.loads, lines)}

    def _prepare(self) -> None:
        """Makes each of :data:`BUNDLES`, and measures the memory that honest models take."""
        for name, options in BUNDLES.items():
            folder = self._work / f"honest-{name}"
            folder.mkdir()
            model = honest.MODELS["net"]()
            honest.write_model("net", folder / "m.onnx", model)
            honest.write_samples(model, folder / "data", 12)
            ending = self._one(Case("honest", ("package", "m.onnx", *options, "-o", "out"), "honest"), folder)
            if ending.status != 0:
                raise SystemExit(f"an honest model failed: {(folder / 'stderr').read_text()}")
            self._bundles.mkdir(exist_ok=True)
            (folder / "out").rename(self._bundles / name)
            self._honest_memory[name] = ending.memory
        self._honest_memory[""] = max(self._honest_memory.values())

    def _one(self, case: Case, folder: Path) -> Ending:
        running = self._start(-1, case, folder)
        while (ending := self._look(running)) is None:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return ending

    def _run_all(self, waiting: list[int], done: dict[int, dict[str, Any]]) -> None:
        running: list[_Running] = []
        start, finished = time.monotonic(), 0
        waiting.reverse()
        try:
            with self._results.open("a", encoding="utf-8") as results:
                while waiting or running:
                    while waiting and len(running) < self._jobs:
                        running.append(self._started(waiting.pop()))
                    for one in list(running):
                        ending = self._look(one)
                        if ending is None:
                            continue
                        running.remove(one)
                        record = self._record(one, ending)
                        done[one.number] = record
                        results.write(json.dumps(record) + "\n")
                        results.flush()
                        finished += 1
                        if record["faults"]:
                            print(f"{one.number}: {record['faults']} {record['what'][:150]}", flush=True)  # noqa: T201
                        if finished % 500 == 0:
                            rate = finished / (time.monotonic() - start)
                            print(f"{finished} cases, {rate:.1f} a second", flush=True)  # noqa: T201
                    time.sleep(_SECONDS_BETWEEN_LOOKS)
        finally:
            for one in running:
                _end(one.process)

    def _started(self, number: int) -> _Running:
        folder = self._work / f"case-{number}"
        folder.mkdir()
        return self._start(number, draw(self.seed, number, folder, self._bundles), folder)

    def _start(self, number: int, case: Case, folder: Path) -> _Running:
        temporary = self._work / f"tmp-{number}-{folder.name}"
        temporary.mkdir()
        telltale = self._work / f"telltale-{number}"
        real = number % REAL_SHARE == 1
        process = os.fork()
        if process == 0:
            _become(case, folder, temporary, telltale, real=real)
        return _Running(number, case, folder, temporary, telltale, process, time.monotonic())

    def _look(self, one: _Running) -> Ending | None:
        """Returns how the case ended, or None while it runs; kills a case that exceeds its time or memory."""
        process, status, usage = os.wait4(one.process, os.WNOHANG)
        now = time.monotonic()
        if process:
            strays = _session_members(one.process)
            for stray in strays:
                os.kill(stray, signal.SIGKILL)
            memory = max(one.memory, usage.ru_maxrss * 1024)
            code = os.waitstatus_to_exitcode(status)
            return Ending(code, now - one.start, memory, len(strays), one.killed)
        if now - one.looked > 0.2:
            one.looked = now
            one.memory = max(one.memory, max(map(_resident, _session_members(one.process)), default=0))
            if now - one.start > TIME_LIMIT:
                one.killed = f"hang {TIME_LIMIT:g} s"
            elif one.memory > self._allowed(one.case) + _MEMORY_TO_KILL:
                one.killed = f"memory {one.memory >> 20} MiB"
            if one.killed:
                _end(one.process)
        return None

    def _allowed(self, case: Case) -> int:
        return next(
            (size for target, size in self._honest_memory.items() if target in case.arguments),
            self._honest_memory.get("", 1 << 30),
        )

    def _record(self, one: _Running, ending: Ending) -> dict[str, Any]:
        verdict = judge(one.case, ending, one.folder, one.temporary, one.telltale, self._allowed(one.case))
        if ending.status == 0 and not ending.killed and one.case.model is not None:
            answer = _in_process(lambda: compare(one.case, one.folder))
            verdict.compared = answer is not None
            if answer:
                verdict.faults.append(f"wrong: {answer}")
        if verdict.faults:
            kept = self.folder / f"failure-{self.seed}-{one.number}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(one.folder, kept, symlinks=True, ignore=_what_cannot_be_copied)
            (kept / "case.json").write_text(
                json.dumps({"arguments": one.case.arguments, "what": one.case.what, "faults": verdict.faults}, indent=1)
            )
        shutil.rmtree(one.folder, ignore_errors=True)
        shutil.rmtree(one.temporary, ignore_errors=True)
        one.telltale.unlink(missing_ok=True)
        return {
            "number": one.number,
            "kind": one.case.kind,
            "status": ending.status,
            "seconds": round(ending.seconds, 2),
            "memory": ending.memory,
            "faults": verdict.faults,
            "compared": verdict.compared,
            "what": one.case.what,
        }


def _what_cannot_be_copied(folder: str, names: list[str]) -> list[str]:
    paths = (Path(folder, name) for name in names)
    return [path.name for path in paths if not (path.is_symlink() or path.is_file() or path.is_dir())]


def _warm_up() -> None:
    """Imports the modules that commands import, so that forked processes have them."""
    logging.disable(logging.WARNING)
    import edgekit
    from edgekit.registry import installed_targets
    from edgekit.timing import latency

    plugins = {type(plugin).__module__.partition(".")[0] for plugin in installed_targets().targets}
    packages = [edgekit, *map(importlib.import_module, ("edgekit_quantize", *sorted(plugins)))]
    libraries = ["coremltools", "jsonschema", "onnxruntime", "onnxscript", "openvino", "PIL.Image", "rich.table"]
    own = [
        module.name
        for package in packages
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if ".assets" not in module.name and not module.name.endswith("__main__")
    ]
    for name in (*libraries, *own):
        with suppress(ImportError):  # some packages are not installed on every machine
            importlib.import_module(name)
    # The accuracy of measured times does not matter here.
    latency.ENOUGH_SECONDS, latency.LEAST_RUNS = 0.05, 3  # type: ignore[misc]
    logging.disable(logging.NOTSET)


def _become(case: Case, folder: Path, temporary: Path, telltale: Path, *, real: bool) -> None:
    """Runs the case in this forked process, and ends the process."""
    code = 120
    try:
        os.setsid()
        os.chdir(folder)
        os.environ.update(TMPDIR=str(temporary), EDGEKIT_FUZZ_TELLTALE=str(telltale), NO_COLOR="1")
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # Python itself compiles an evaluation function's module beside it
        sys.dont_write_bytecode = True
        tempfile.tempdir = None
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        null, out, err = (
            os.open(name, flags, 0o644)
            for name, flags in (
                ("/dev/null", os.O_RDONLY),
                ("stdout", os.O_WRONLY | os.O_CREAT),
                ("stderr", os.O_WRONLY | os.O_CREAT),
            )
        )
        for number, target in ((null, 0), (out, 1), (err, 2)):
            os.dup2(number, target)
        os.closerange(3, 256)
        if real:
            os.execv(sys.executable, [sys.executable, "-m", "edgekit", *case.arguments])
        import io

        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w"), encoding="utf-8")
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), encoding="utf-8", write_through=True)
        sys.argv = ["edgekit", *case.arguments]
        from edgekit.__main__ import run

        code = run()
        sys.stdout.flush()
        atexit._run_exitfuncs()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _in_process(work: Callable[[], str | None]) -> str | None:
    """Returns the result of ``work`` in a separate process; None if that process dies."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            os.close(read)
            signal.alarm(int(TIME_LIMIT))
            answer = work()
            os.write(write, json.dumps(answer).encode()[:4000])
            code = 0
        except BaseException:
            os.write(write, json.dumps(f"comparing failed: {traceback.format_exc()[-300:]}").encode())
        finally:
            os._exit(code)
    os.close(write)
    data = b""
    while chunk := os.read(read, 1 << 16):
        data += chunk
    os.close(read)
    os.waitpid(process, 0)
    try:
        return json.loads(data)
    except ValueError:
        return None


def _session_members(session: int) -> list[int]:
    """The running processes of a session."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0


def _end(session: int) -> None:
    for process in _session_members(session):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def table(results: Sequence[dict[str, Any]]) -> str:
    """The table of results: for each kind of case, the exit codes and the faults."""
    heads = ("kind", "cases", "exit 0", "1", "2", *_FAULTS, "compared", "slowest")
    kinds = [*dict.fromkeys(record["kind"] for record in sorted(results, key=lambda one: one["kind"]))]
    rows = [heads]
    for kind in (*kinds, "all"):
        some = [record for record in results if kind in ("all", record["kind"])]
        codes = Counter(record["status"] for record in some)
        faults = Counter(
            _class_of(fault) for record in some for fault in {_class_of(f): f for f in record["faults"]}.values()
        )
        rows.append(
            (
                kind,
                str(len(some)),
                *(str(codes[code]) for code in (0, 1, 2)),
                *(str(faults[fault]) for fault in _FAULTS),
                str(sum(record["compared"] is True for record in some)),
                f"{max((record['seconds'] for record in some), default=0):.0f} s",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _class_of(fault: str) -> str:
    return next((name for name in _FAULTS if fault.startswith(name)), "other")


def main() -> int:
    """Runs the cases that the command line asks for; returns 1 if a case failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="how many cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="how many cases at a time")
    parser.add_argument("--out", type=Path, default=Path("fuzz"), help="folder for results and failures")
    asked = parser.parse_args()
    results = Fuzzer(asked.out, asked.seed, asked.jobs).run(asked.count)
    print(table(results))  # noqa: T201
    return int(any(record["faults"] for record in results))


if __name__ == "__main__":
    sys.exit(main())
